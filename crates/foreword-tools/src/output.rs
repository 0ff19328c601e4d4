//! The output of a tool.

use foreword_core::passage::Passage;

/// The largest output in bytes, to protect memory. The core decides how much of it is in a prompt.
pub const MAX_OUTPUT: usize = 4 * 1024 * 1024;

/// The output of a tool. Failures are described in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// The text for the model.
    pub text: String,
    /// Whether the call failed.
    pub failed: bool,
    /// The passages that it found, if it is a search.
    pub found: Vec<Passage>,
}

impl Output {
    /// A successful output.
    pub fn done(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A failed output, with a reason that the model can act on.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { text: text.into(), failed: true, ..Self::default() }
    }

    /// The output cut to [`MAX_OUTPUT`] bytes, with a last line that says so.
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
