//! Regular expressions from outside, in a schema or a model's search: limited in size, with linear running time.

use regex_automata::meta::Regex;

/// The longest expression in bytes.
const MAX_WRITTEN: usize = 2000;

/// The largest compiled expression in bytes.
const MAX_MACHINE: usize = 1 << 20;

/// Why an expression is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is too long.
    #[error("the pattern has {0} bytes, and {MAX_WRITTEN} are the most")]
    TooLong(usize),
    /// It is invalid, or needs too much memory.
    #[error("the pattern cannot be used: {0}")]
    Unusable(String),
}

pub(crate) fn compile(written: &str) -> Result<Regex, PatternError> {
    if written.len() > MAX_WRITTEN {
        return Err(PatternError::TooLong(written.len()));
    }
    let config = Regex::config()
        .nfa_size_limit(Some(MAX_MACHINE))
        .onepass_size_limit(Some(MAX_MACHINE))
        .hybrid_cache_capacity(MAX_MACHINE);
    let syntax = regex_automata::util::syntax::Config::new().nest_limit(50);
    Regex::builder().configure(config).syntax(syntax).build(written).map_err(|error| {
        let reason = error.syntax_error().map_or_else(|| error.to_string(), ToString::to_string);
        // A syntax error draws the pattern over several lines; its last line says what is wrong.
        PatternError::Unusable(reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned())
    })
}
