//! Where a reply goes on with what belongs to a prompt, it is over: a small model that has answered makes up the next question.

/// Holds back what may be the beginning of an ending until it is known.
pub(super) struct Endings {
    texts: &'static [&'static str],
    held: String,
    is_over: bool,
}

impl Endings {
    pub(super) fn new(endings: &'static [&'static str]) -> Self {
        Self { texts: endings, held: String::new(), is_over: false }
    }

    /// Whether an ending came up; nothing is told after it.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes in more of the reply and gives what can be told of it.
    pub(super) fn push(&mut self, text: &str) -> String {
        if self.is_over {
            return String::new();
        }
        self.held.push_str(text);
        if let Some(at) = self.texts.iter().filter_map(|ending| self.held.find(ending)).min() {
            self.is_over = true;
            self.held.truncate(at);
            return std::mem::take(&mut self.held).trim_end().to_owned();
        }
        let may_begin = |at: &usize| {
            let rest = &self.held[*at..];
            self.texts.iter().any(|ending| ending.starts_with(rest))
        };
        let keep_from = self.held.char_indices().map(|(at, _)| at).find(may_begin).unwrap_or(self.held.len());
        self.held.drain(..keep_from).collect()
    }

    /// What was held back for nothing.
    pub(super) fn finish(self) -> String {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_ends_where_a_prompt_begins() {
        const ENDINGS: &[&str] = &["---\n\n[User query]", "[User query]", "<note_context"];
        let check = |reply: &str, expect: &str| {
            for size in [1, 3, 7, 1_000] {
                let mut endings = Endings::new(ENDINGS);
                let chars: Vec<char> = reply.chars().collect();
                let mut told: String = chars.chunks(size).map(|part| endings.push(&part.iter().collect::<String>())).collect();
                told.push_str(&endings.finish());
                assert_eq!(told.trim_end(), expect, "{reply:?} by {size}");
            }
        };
        check("Four hours.", "Four hours.");
        check("Four hours.\n\n---\n\n[User query]:\nAnd then?", "Four hours.");
        check("Four hours. [User query]: more", "Four hours.");
        check("é <note_context>\n<title>x", "é");
        check("a --- b [User] <note> ---\n\n[x", "a --- b [User] <note> ---\n\n[x");
        check("---\n\n---\n\n[User query]", "---");
        check("<note_context>", "");
        check("", "");
    }
}
