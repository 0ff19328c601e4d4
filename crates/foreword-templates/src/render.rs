//! Fills in the placeholders of a template. A missing value is empty and reported; an invalid template is unchanged.

use std::collections::BTreeMap;
use std::io;

use minijinja::{Environment, UndefinedBehavior, Value};

/// A rendered text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// Placeholders without a value.
    pub missing: Vec<String>,
    /// Why rendering failed.
    pub failed: Option<String>,
}

/// The step and size limits of a template's own logic.
const FUEL: u64 = 20_000;
const MOST_BYTES: usize = 1 << 20;

/// Marks a value during rendering, so that values are not copied and not interpreted.
const MARK: char = '\u{fdd0}';

/// Renders a template.
pub fn render(template: &str, values: &BTreeMap<String, String>) -> Rendered {
    if !template.contains("{{") && !template.contains("{%") && !template.contains("{#") {
        return Rendered { text: template.to_owned(), ..Rendered::default() };
    }
    match try_render(template, values) {
        Ok(rendered) => rendered,
        Err(why) => Rendered { text: template.to_owned(), missing: Vec::new(), failed: Some(why) },
    }
}

fn try_render(template: &str, values: &BTreeMap<String, String>) -> Result<Rendered, String> {
    // A loop over `set` could double a text until there is no room left.
    if template.split("{%").skip(1).any(|block| block.trim_start_matches(['-', '+']).trim_start().starts_with("set")) {
        return Err("`set` is not available in templates".to_owned());
    }
    let plain = template.replace(MARK, "\u{fffd}");
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.set_fuel(Some(FUEL));
    let read = environment.template_from_str(&plain).map_err(|error| wrong(&error))?;
    let mut missing: Vec<String> =
        read.undeclared_variables(false).into_iter().filter(|name| !values.contains_key(name)).collect();
    missing.sort();
    let names: Vec<&String> = values.keys().collect();
    let marked = names.iter().enumerate().map(|(at, name)| {
        let empty = values.get(*name).is_none_or(String::is_empty);
        ((*name).clone(), Value::from(if empty { String::new() } else { format!("{MARK}{at}{MARK}") }))
    });
    let context: BTreeMap<String, Value> = marked.collect();
    let mut out = Bounded(Vec::new());
    read.render_captured_to(context, &mut out).map_err(|error| wrong(&error))?;
    let out = String::from_utf8(out.0).map_err(|_| "the result is not text".to_owned())?;
    let mut text = String::with_capacity(out.len());
    for (at, part) in out.split(MARK).enumerate() {
        if at % 2 == 0 {
            text.push_str(part);
        } else if let Some(value) = part.parse().ok().and_then(|at: usize| names.get(at)).and_then(|name| values.get(*name)) {
            text.push_str(value);
        }
        if text.len() > MOST_BYTES {
            return Err(TOO_LONG.to_owned());
        }
    }
    Ok(Rendered { text, missing, failed: None })
}

const TOO_LONG: &str = "the result is larger than 1 MB";

fn wrong(error: &minijinja::Error) -> String {
    let place = error.line().map(|line| format!(" in line {line}")).unwrap_or_default();
    let what: String = error.to_string().chars().filter(|c| !c.is_control()).take(200).collect();
    format!("invalid placeholders{place}: {what}")
}

struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_BYTES {
            return Err(io::Error::other(TOO_LONG));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
