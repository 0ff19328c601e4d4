//! A heading as it is shown: without emphasis, brackets and comments.

use super::inline::{FoundLink, Hidden, Inline};
use crate::note::{LinkForm, Part};

/// The text of a heading without marks.
pub(super) fn plain(text: &str, inline: &Inline) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut at = 0;
    for (kind, range) in &inline.hidden {
        push_unmarked(&mut shown, text.get(at..range.start).unwrap_or_default());
        let inside = text.get(range.clone()).unwrap_or_default();
        match kind {
            Hidden::Code => shown.push_str(inside.trim_matches('`').trim()),
            Hidden::Math => shown.push_str(inside),
            Hidden::Html | Hidden::Comment => {}
            Hidden::Link => {
                let link = inline.links.binary_search_by_key(&range.start, |link| link.range.start);
                push_link(&mut shown, link.ok().and_then(|place| inline.links.get(place)));
            }
        }
        at = range.end;
    }
    push_unmarked(&mut shown, text.get(at..).unwrap_or_default());
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn push_link(shown: &mut String, link: Option<&FoundLink>) {
    let Some(link) = link else { return };
    if let Some(text) = &link.text {
        push_unmarked(shown, text);
    } else if link.form == LinkForm::Markdown {
        shown.push_str(&link.target);
    } else {
        let steps = match &link.part {
            Some(Part::Heading(steps)) => steps.clone(),
            Some(Part::Block(id)) => vec![format!("^{id}")],
            None => Vec::new(),
        };
        let parts: Vec<_> = [link.target.clone()].into_iter().chain(steps).filter(|part| !part.is_empty()).collect();
        shown.push_str(&parts.join(" > "));
    }
}

/// Emphasis is taken away where it touches a word; a lone `*` and the `_` inside of names stay.
fn push_unmarked(shown: &mut String, text: &str) {
    let mut chars = text.chars().peekable();
    let mut before: Option<char> = shown.chars().next_back();
    while let Some(c) = chars.next() {
        let after = chars.peek().copied();
        let is_word = |side: Option<char>| side.is_some_and(char::is_alphanumeric);
        let is_blank = |side: Option<char>| side.is_none_or(char::is_whitespace);
        let is_mark = match c {
            '\\' => after.is_some_and(|next| next.is_ascii_punctuation()),
            '*' => !(is_blank(before) && is_blank(after)),
            '_' => !(is_word(before) && is_word(after) || is_blank(before) && is_blank(after)),
            '~' | '=' => after == Some(c) || before == Some(c),
            _ => false,
        };
        if !is_mark {
            shown.push(c);
        } else if c == '\\' {
            shown.extend(chars.next());
        }
        before = Some(c);
    }
}
