//! Which images a note embeds: they go with it as images, and such a note is never promoted to L2.

use std::ops::ControlFlow;

const EXTENSIONS: [&str; 8] = ["png", "jpg", "jpeg", "gif", "webp", "bmp", "svg", "avif"];

/// Brackets inside a link are followed so deep and no deeper.
const MAX_DEPTH: usize = 32;

/// A code span or an image's description that is longer is none: so a text of nothing but openings costs no more than others.
const MAX_SPAN: usize = 2_000;

/// The targets of the images in a note, in order, as they are written there: `![[…]]`, `![…](…)`, `<img src=…>`, data URIs
/// included. Code is not looked into.
pub fn images(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    each(text, |target| {
        found.push(target);
        ControlFlow::Continue(())
    });
    found
}

/// Whether a note embeds an image.
pub fn has_images(text: &str) -> bool {
    let mut any = false;
    each(text, |_| {
        any = true;
        ControlFlow::Break(())
    });
    any
}

fn each<'a>(text: &'a str, mut found: impl FnMut(&'a str) -> ControlFlow<()>) {
    for prose in Prose::new(text) {
        let mut rest = prose;
        while let Some(at) = rest.find(['!', '<', '`', '\\']) {
            let here = &rest[at..];
            let (target, length) = match here.as_bytes()[0] {
                b'!' => embed(here),
                b'<' => img(here),
                b'`' => (None, code_span(here)),
                // What is escaped is no markup.
                _ => (None, 1 + here.chars().nth(1).map_or(0, char::len_utf8)),
            };
            if let Some(target) = target
                && found(target).is_break()
            {
                return;
            }
            rest = &here[length..];
        }
    }
}

/// The stretches of a text that are not fenced code.
struct Prose<'a> {
    rest: &'a str,
}

impl<'a> Prose<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text }
    }
}

impl<'a> Iterator for Prose<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let mut at = 0;
        let mut lines = self.rest.split_inclusive('\n');
        for line in lines.by_ref() {
            let Some(fence) = fence_of(line) else {
                at += line.len();
                continue;
            };
            let mut end = at + line.len();
            for line in lines.by_ref() {
                end += line.len();
                if closes(line, fence) {
                    break;
                }
            }
            let prose = &self.rest[..at];
            self.rest = &self.rest[end..];
            return Some(prose);
        }
        Some(std::mem::take(&mut self.rest))
    }
}

/// The run of backticks or tildes that opens fenced code in this line.
fn fence_of(line: &str) -> Option<&str> {
    // In lists and quotes a fence is indented or marked.
    let line = line.trim_start_matches([' ', '\t', '>']);
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let info = line.trim_start_matches(mark);
    let fence = &line[..line.len() - info.len()];
    (fence.len() >= 3 && !(mark == '`' && info.contains('`'))).then_some(fence)
}

fn closes(line: &str, fence: &str) -> bool {
    let line = line.trim_start_matches([' ', '\t', '>']).trim_end();
    line.len() >= fence.len() && line.bytes().all(|byte| byte == fence.as_bytes()[0])
}

/// The length of the code span, or of the backticks where none begins here.
fn code_span(text: &str) -> usize {
    let ticks = text.len() - text.trim_start_matches('`').len();
    let text = &text[..text.floor_char_boundary(MAX_SPAN)];
    let mut at = ticks;
    while let Some(next) = text.get(at..).and_then(|rest| rest.find('`')).map(|next| at + next) {
        if text[at..next].contains("\n\n") {
            break;
        }
        let run = text[next..].len() - text[next..].trim_start_matches('`').len();
        at = next + run;
        if run == ticks {
            return at;
        }
    }
    ticks
}

/// The target of `![[…]]` or `![…](…)`, and how much of the text is read.
fn embed(text: &str) -> (Option<&str>, usize) {
    let none = (None, 1);
    if let Some(inner) = text.strip_prefix("![[") {
        let Some(end) = inner.find(['[', ']', '\n']).filter(|end| inner[*end..].starts_with("]]")) else {
            return none;
        };
        let target = inner[..end].split('|').next().unwrap_or_default();
        let target = target.split('#').next().unwrap_or_default().trim();
        return (Some(target).filter(|target| has_extension(target)), "![[]]".len() + end);
    }
    let Some(alt) = text.strip_prefix("![") else {
        return none;
    };
    let Some(end) = description_end(alt) else {
        return none;
    };
    let Some(inner) = alt[end..].strip_prefix("](") else {
        return none;
    };
    let Some((target, rest)) = link_target(inner) else {
        return none;
    };
    (Some(target).filter(|target| is_image(target)), text.len() - rest.len())
}

/// Where the `]` is that closes a description.
fn description_end(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().take(MAX_SPAN) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'[' if depth == MAX_DEPTH => return None,
            b'[' => depth += 1,
            b']' if depth == 0 => return Some(at),
            b']' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The target of a link, without its title, and what follows the link.
fn link_target(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches([' ', '\t']);
    let (target, rest) = if let Some(inner) = text.strip_prefix('<') {
        let end = inner.find(['<', '>', '\n']).filter(|end| inner[*end..].starts_with('>'))?;
        (&inner[..end], &inner[end + 1..])
    } else {
        let mut depth = 0;
        let end = text.find(|c: char| {
            match c {
                '(' => depth += 1,
                ')' if depth == 0 => return true,
                ')' => depth -= 1,
                _ => {}
            }
            c.is_ascii_whitespace() || depth > MAX_DEPTH
        })?;
        (&text[..end], &text[end..])
    };
    let rest = rest.trim_start_matches([' ', '\t']);
    if let Some(rest) = rest.strip_prefix(')') {
        return Some((target, rest));
    }
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let title = &rest[1..];
    let end = title.bytes().take(MAX_SPAN).position(|byte| char::from(byte) == quote)?;
    let rest = title[end + 1..].trim_start_matches([' ', '\t']).strip_prefix(')')?;
    Some((target, rest))
}

/// The `src` of an `<img …>`, and how much of the text is read.
fn img(text: &str) -> (Option<&str>, usize) {
    let none = (None, 1);
    let Some(name) = text.get(1..4).filter(|name| name.eq_ignore_ascii_case("img")) else {
        return none;
    };
    let mut rest = &text[1 + name.len()..];
    if !rest.starts_with(|c: char| c.is_ascii_whitespace() || c == '/') {
        return none;
    }
    let mut target = None;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        let end = rest.find(|c: char| c.is_ascii_whitespace() || matches!(c, '=' | '>' | '<' | '/'));
        let Some(end) = end else {
            return none;
        };
        let key = &rest[..end];
        rest = &rest[end..];
        if let Some(value) = rest.trim_start().strip_prefix('=') {
            let Some((value, after)) = attribute_value(value.trim_start()) else {
                return none;
            };
            if key.eq_ignore_ascii_case("src") && target.is_none() {
                target = Some(value.trim());
            }
            rest = after;
        } else if rest.starts_with('>') {
            let length = text.len() - rest.len() + 1;
            return (target.filter(|target| !target.is_empty()), length);
        } else if rest.starts_with('<') {
            return none;
        }
    }
}

fn attribute_value(text: &str) -> Option<(&str, &str)> {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote) {
            return inner.split_once(quote);
        }
    }
    let end = text.find(|c: char| c.is_ascii_whitespace() || c == '>')?;
    Some(text.split_at(end))
}

/// Whether the target of `![…](…)` is an image: notes and documents are embedded in the same way.
fn is_image(target: &str) -> bool {
    let starts = |prefix: &str| target.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    let file = target.split(['?', '#']).next().unwrap_or_default();
    starts("http://") || starts("https://") || starts("data:image/") || has_extension(file)
}

fn has_extension(path: &str) -> bool {
    path.rsplit_once('.')
        .is_some_and(|(stem, extension)| !stem.is_empty() && EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn targets() {
        fn check(text: &str, expect: &[&str]) {
            assert_eq!(images(text), expect, "{text:?}");
            assert_eq!(has_images(text), !expect.is_empty(), "{text:?}");
        }
        check("", &[]);
        check("no images! [[a.png]] [x](a.png) ![[Note]] ![](note.md) ![]", &[]);
        check("![[a.png]] and ![[Fol der/b.JPG|300x200]] ![[c.svg#x]]", &["a.png", "Fol der/b.JPG", "c.svg"]);
        check("![[a.pdf]] ![[a.png", &[]);
        check("![alt [x]](a.webp \"a (title)\") ![](<b c.gif> 't')", &["a.webp", "b c.gif"]);
        check("![](a_(1).png) ![](a%20b.bmp?x=1) ![](a b.png)", &["a_(1).png", "a%20b.bmp?x=1"]);
        check("![](https://a.example/x?y=1) ![](HTTP://b)", &["https://a.example/x?y=1", "HTTP://b"]);
        check("![](data:image/png;base64,AAA=) ![](data:text/plain,x)", &["data:image/png;base64,AAA="]);
        check("<img src=\"a b.png\"> <IMG alt='>' width=3 SRC = 'c'/> <img src=d.png>", &["a b.png", "c", "d.png"]);
        check("<img alt=x> <image src=\"a\"> <img src=\"a", &[]);
        check("[![badge](https://b/x.svg)](https://b)", &["https://b/x.svg"]);
        check("`![[a.png]]` ``x ` ![[b.png]]`` ` ![[c.png]]", &["c.png"]);
        check("`one\n\n![[a.png]]` ", &["a.png"]);
        check("```md\n![[a.png]]\n```\n![[b.png]]\n~~~~\n![[c.png]]\n~~~\n![[d.png]]", &["b.png"]);
        check("> ```\n> ![[a.png]]\n> ```\n![[b.png]]", &["b.png"]);
        check("```inline``` ![[a.png]]", &["a.png"]);
        check("\\![[a.png]] \\\\![[b.png]] \\`![[c.png]]\\`", &["b.png", "c.png"]);
        check("!![[a.png]] !é![](b.png)", &["a.png", "b.png"]);
    }

    proptest! {
        #[test]
        fn any_text_is_read(parts in prop::collection::vec(prop::sample::select(&[
            "!", "[", "]", "(", ")", "![[", "]]", "![](", "<img ", "src=", "\"", "'", ">", "`", "```", "\n", "~~~", "a.png", "é", " ", "\\", "|", "#",
        ][..]), 0..40)) {
            let text = parts.concat();
            for target in images(&text) {
                prop_assert!(text.contains(target));
            }
            prop_assert_eq!(has_images(&text), !images(&text).is_empty());
        }
    }
}
