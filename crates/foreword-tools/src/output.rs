//! What a tool gives back.

use foreword_core::passage::Passage;

/// The most bytes that one output holds. It only keeps memory safe; how much of an output a prompt shows is the core's to decide.
pub const MAX_OUTPUT: usize = 4 * 1024 * 1024;

/// What a tool gives back. There always is something: what went wrong is said in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// What the model reads.
    pub text: String,
    /// Whether it tells of a failure.
    pub failed: bool,
    /// The notes that it found, where it is a search.
    pub found: Vec<Passage>,
}

impl Output {
    /// It worked.
    pub fn done(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// It did not, for the reason in the text, which the model can act on.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { text: text.into(), failed: true, ..Self::default() }
    }

    /// The same with at most [`MAX_OUTPUT`] bytes, and a last line that says so where something was cut.
    pub(crate) fn capped(mut self) -> Self {
        let whole = self.text.len();
        if whole > MAX_OUTPUT {
            self.text.truncate(self.text.floor_char_boundary(MAX_OUTPUT - 200));
            let kept = self.text.len();
            let cut = format!("\n[Cut here: {kept} of {whole} bytes are kept. Ask the tool for less at a time.]");
            self.text.push_str(&cut);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_capped_between_characters() {
        let check = |text: String, cut: bool| {
            let capped = Output::done(text.clone()).capped();
            assert!(capped.text.len() <= MAX_OUTPUT);
            assert_eq!(capped.text != text, cut);
        };
        check("short".to_owned(), false);
        check("x".repeat(MAX_OUTPUT), false);
        check("x".repeat(MAX_OUTPUT + 1), true);
        check("€".repeat(MAX_OUTPUT / 2), true);
    }
}
