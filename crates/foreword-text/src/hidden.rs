//! Characters that a reader does not see, or that change what they see: control characters, marks of writing direction, invisible and
//! ignorable ones. A text that holds them can look like another text.

use std::fmt::Write as _;

/// Whether a reader sees nothing of `c`, or sees other characters in another order because of it. Line feed and tab count too.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Whether `c` only chooses how the symbol before it is drawn, as a picture or as text.
pub fn is_style_of(before: Option<char>, c: char) -> bool {
    let is_symbol = |c: char| {
        matches!(
            c,
            '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{27bf}' | '\u{2900}'..='\u{2bff}'
                | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}'
        )
    };
    matches!(c, '\u{fe0e}' | '\u{fe0f}') && before.is_some_and(is_symbol)
}

/// `text` with every hidden character except line feed and tab written as its number: `<U+202E>`.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = None;
    for c in text.chars() {
        if !is_hidden(c) || matches!(c, '\n' | '\t') || is_style_of(before, c) {
            out.push(c);
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "<U+{:04X}>", u32::from(c));
        }
        before = Some(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_become_visible() {
        let check = |text: &str, expect: &str| assert_eq!(visible(text), expect, "{text:?}");
        check("plain\n\ttext é 漢字 — ✓ 👍🏽 \u{2600}\u{fe0f}", "plain\n\ttext é 漢字 — ✓ 👍🏽 \u{2600}\u{fe0f}");
        check("\u{1b}]52;c;eA==\u{7}", "<U+001B>]52;c;eA==<U+0007>");
        check("a\r\nb", "a<U+000D>\nb");
        check("x\u{8}\u{7f}\u{9b}2J", "x<U+0008><U+007F><U+009B>2J");
        check("a\u{202e}b\u{2066}c\u{200f}", "a<U+202E>b<U+2066>c<U+200F>");
        check("a\u{200b}b\u{feff}\u{ad}c\u{2060}", "a<U+200B>b<U+FEFF><U+00AD>c<U+2060>");
        check("a\u{e0041}b\u{fe0f}", "a<U+E0041>b<U+FE0F>");
        check("\u{2028}\u{3164}", "<U+2028><U+3164>");
    }
}
