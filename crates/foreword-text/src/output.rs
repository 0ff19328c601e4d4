//! Reduces tool output for a prompt: what a terminal would finally show, without repeats, cut to size.
//!
//! Programs write for a screen: colours, progress bars, thousands of identical lines, which cost tokens and do not help a model.
//! Every distinct line is kept; lines that are only similar are data. The full output is stored elsewhere, and a cut output says
//! where.

use std::borrow::Cow;

use super::normalise::replace_controls;
use crate::tokens::{Tokenizer, Tokens};

/// The number of identical lines that are replaced by a count.
const IDENTICAL: usize = 3;

const ESC: char = '\u{1b}';
const BELL: char = '\u{7}';
const BACKSPACE: char = '\u{8}';

/// Reduces an output to what a screen would show: without control characters, and with a count instead of repeated lines.
/// Idempotent.
pub fn reduce(output: &str) -> Cow<'_, str> {
    [strip_escapes, split_at_returns, overwrite, replace_controls, count_repeats].into_iter().fold(
        Cow::Borrowed(output),
        |text, step| match step(&text) {
            Some(changed) => Cow::Owned(changed),
            None => text,
        },
    )
}

/// Whether [`reduce`] leaves out text that a terminal would have overwritten: a progress display, or lines of a program that ends them
/// in its own way.
pub fn is_overwritten(output: &str) -> bool {
    let text = strip_escapes(output).map_or(Cow::Borrowed(output), Cow::Owned);
    let split = split_at_returns(&text);
    split.as_deref().unwrap_or(&text).split('\n').any(|line| {
        let mut shown = None;
        line.rsplit('\r').any(|part| {
            let on_screen = after_backspaces(part);
            let erased = part.contains(BACKSPACE) && part.replace(BACKSPACE, "").trim() != on_screen.trim();
            let last = shown.get_or_insert_with(|| on_screen.clone());
            if last.is_empty() {
                last.clone_from(&on_screen);
            }
            erased || (!on_screen.trim().is_empty() && !last.starts_with(on_screen.trim_end()))
        })
    })
}

/// Text without a single line feed whose lines end with carriage returns, as some programs write files.
fn split_at_returns(text: &str) -> Option<String> {
    const LEAST: usize = 2;
    (!text.contains('\n') && text.matches('\r').count() >= LEAST).then(|| text.replace('\r', "\n"))
}

/// Without ANSI escape sequences.
fn strip_escapes(text: &str) -> Option<String> {
    let mut rest = text;
    let mut out = String::new();
    while let Some((before, after)) = rest.split_once(ESC) {
        out.push_str(before);
        rest = skip_sequence(after);
    }
    if rest.len() == text.len() {
        return None;
    }
    out.push_str(rest);
    Some(out)
}

/// The text after the escape sequence at the start of `text`.
fn skip_sequence(text: &str) -> &str {
    let Some(kind) = text.chars().next() else {
        return text;
    };
    let body = &text[kind.len_utf8()..];
    match kind {
        '[' => {
            let last = body.trim_start_matches(|c| matches!(c, '0'..='?')).trim_start_matches(|c| matches!(c, ' '..='/'));
            last.strip_prefix(|c| matches!(c, '@'..='~')).unwrap_or(last)
        }
        // Strings: a title, a link. One that does not end within its line is none: only its start goes, or a stray byte
        // would take the rest of the output with it.
        ']' | 'P' | 'X' | '^' | '_' => {
            let end = body.find(|c: char| c.is_control()).unwrap_or(body.len());
            let (_, tail) = body.split_at(end);
            tail.strip_prefix(BELL).or_else(|| tail.strip_prefix("\u{1b}\\")).unwrap_or(body)
        }
        ' '..='/' => {
            let last = body.trim_start_matches(|c| matches!(c, ' '..='/'));
            last.strip_prefix(|c| matches!(c, '0'..='~')).unwrap_or(last)
        }
        '0'..='~' => body,
        _ => text,
    }
}

/// Lines as they end up when the cursor goes back: by CR to the start of the line, by backspace one character.
fn overwrite(text: &str) -> Option<String> {
    if !text.contains(['\r', BACKSPACE]) {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut shown;
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            out.push('\n');
        }
        for part in line.rsplit('\r') {
            shown = after_backspaces(part);
            if !shown.is_empty() {
                out.push_str(&shown);
                break;
            }
        }
    }
    Some(out)
}

fn after_backspaces(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        if c == BACKSPACE {
            shown.pop();
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Identical lines in a row, said once with a count.
fn count_repeats(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut out: Vec<Cow<'_, str>> = Vec::with_capacity(lines.len());
    // A mark is never part of a run, so that doing this twice changes nothing.
    for run in lines.chunk_by(|one, next| one == next && !is_mark(one)) {
        let mark = repeated(run.len() - 1);
        // A few blank lines are shorter than what would be said about them.
        let worth_it = !run[0].trim().is_empty() || run.len() * (run[0].len() + 1) > mark.len();
        if run.len() >= IDENTICAL && worth_it {
            out.extend([Cow::Borrowed(run[0]), Cow::Owned(mark)]);
        } else {
            out.extend(run.iter().copied().map(Cow::Borrowed));
        }
    }
    (out.len() < lines.len()).then(|| out.join("\n"))
}

const REPEATED_START: &str = "[the line above ";
const REPEATED_END: &str = " more times]";

fn repeated(times: usize) -> String {
    format!("{REPEATED_START}{times}{REPEATED_END}")
}

fn is_mark(line: &str) -> bool {
    let number = line.strip_prefix(REPEATED_START).and_then(|rest| rest.strip_suffix(REPEATED_END));
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A text that was cut to size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capped {
    /// The start, a line about the omitted part, and the end.
    pub text: String,
    /// How many characters are missing.
    pub left_out_chars: usize,
}

/// Cuts `text` to `max_chars` characters, the line about what is missing included; nothing where it fits.
///
/// `pointer` says where the whole text is. Where not even the line fits, as much of the line as does.
pub fn cap(text: &str, max_chars: usize, pointer: &str) -> Option<Capped> {
    if text.len() <= max_chars {
        return None;
    }
    let total = text.chars().count();
    (total > max_chars).then(|| cap_longer(text, total, max_chars, pointer))
}

/// As [`cap`], for a text of `total` characters that does not fit.
fn cap_longer(text: &str, total: usize, max_chars: usize, pointer: &str) -> Capped {
    // The number can only get shorter, so what is kept besides fits.
    let widest = left_out(total, pointer);
    let line_ends = 2;
    let Some(room) = max_chars.checked_sub(widest.chars().count() + line_ends) else {
        return Capped { text: widest.chars().take(max_chars).collect(), left_out_chars: total };
    };
    let head = head(text, room - room / 2);
    let tail = tail(text, room / 2);
    let left_out_chars = total - head.chars().count() - tail.chars().count();
    let mut out = String::with_capacity(head.len() + widest.len() + line_ends + tail.len());
    out.push_str(head);
    if !head.is_empty() && !head.ends_with('\n') {
        out.push('\n');
    }
    out.push_str(&left_out(left_out_chars, pointer));
    if !tail.is_empty() {
        out.push('\n');
        out.push_str(tail);
    }
    Capped { text: out, left_out_chars }
}

fn left_out(chars: usize, pointer: &str) -> String {
    format!("[… {chars} characters left out; whole text: {pointer}]")
}

/// A line end is near if it is within this fraction of the text.
const NEAR: usize = 5;

/// At most `chars` characters from the start, to a line end if one is near, and a line end that comes next: there is room
/// for one, and a line end of our own in its place could not be told from it.
fn head(text: &str, chars: usize) -> &str {
    let end = text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    let head = &text[..end];
    match head.rfind('\n') {
        _ if text[end..].starts_with('\n') => &text[..=end],
        Some(at) if head[at + 1..].chars().count() * NEAR <= chars => &head[..=at],
        _ => head,
    }
}

/// At most `chars` characters from the end, from the start of a line if one is near.
fn tail(text: &str, chars: usize) -> &str {
    let start = match chars {
        0 => text.len(),
        _ => text.char_indices().nth_back(chars - 1).map_or(0, |(at, _)| at),
    };
    let tail = &text[start..];
    match tail.find('\n') {
        Some(at) if tail[..=at].chars().count() * NEAR <= chars => &tail[at + 1..],
        _ => tail,
    }
}

/// Cuts `text` to `max` tokens as [`cap`] does to characters; nothing where it fits.
pub fn cap_tokens(text: &str, max: Tokens, tokenizer: &dyn Tokenizer, pointer: &str) -> Option<Capped> {
    if fits(text, max, tokenizer) {
        return None;
    }
    let total = text.chars().count();
    let try_chars = |chars: usize| {
        let capped = cap_longer(text, total, chars, pointer);
        (tokenizer.count(&capped.text) <= max).then_some(capped)
    };
    // Grown from a guess, so that a text of any size costs no more than a few counts of what is kept of it.
    let mut low = 0;
    let mut high = usize::try_from(max.0.saturating_mul(2)).unwrap_or(usize::MAX).clamp(1, total);
    let mut best = None;
    while let Some(capped) = try_chars(high) {
        best = Some(capped);
        low = high;
        if high == total {
            break;
        }
        high = high.saturating_mul(2).min(total);
    }
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        match try_chars(middle) {
            Some(capped) => {
                best = Some(capped);
                low = middle;
            }
            None => high = middle,
        }
    }
    Some(best.unwrap_or(Capped { text: String::new(), left_out_chars: total }))
}

/// Whether `text` has at most `max` tokens; a text that is far too long is not counted to its end.
fn fits(text: &str, max: Tokens, tokenizer: &dyn Tokenizer) -> bool {
    const CHARS_PER_TOKEN: u64 = 16;
    // The last token of a cut text may be one that the whole text does not have.
    const SLACK: Tokens = Tokens(16);
    let enough = usize::try_from((max + SLACK).0.saturating_mul(CHARS_PER_TOKEN)).unwrap_or(usize::MAX);
    if let Some((end, _)) = text.char_indices().nth(enough)
        && tokenizer.count(&text[..end]) > max + SLACK
    {
        return false;
    }
    tokenizer.count(text) <= max
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::{Chars, OpenAi};
    use proptest::prelude::*;

    #[test]
    fn as_a_screen_shows_it() {
        fn check(output: &str, expect: &str) {
            assert_eq!(reduce(output), expect, "{output:?}");
        }
        check("", "");
        check("plain\n\ntext\n", "plain\n\ntext\n");
        check("\u{1b}[1;31mred\u{1b}[0m\u{1b}[K \u{1b}[?25l.", "red .");
        check("\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "alink");
        check("\u{1b}]0;never closed\nnext", "0;never closed\nnext");
        check("\u{1b}(Ba\u{1b}=b\u{1b}\u{1b}[mc\u{1b}", "abc");
        check("\u{1b}Pq#0;1\u{1b}\\x", "x");
        check("\u{1b}éa\u{1b}[31é", "éaé");
        check("10%\r50%\r100%\ndone", "100%\ndone");
        check("10%\r100%\r\ndone\r\n", "100%\ndone\n");
        check("a\rb\r\r", "a\nb\n\n");
        check("Paid 10 EUR\rPaid 107 EUR\rPaid 204 EUR", "Paid 10 EUR\nPaid 107 EUR\nPaid 204 EUR");
        check("one\rtwo", "two");
        check("one\rtwo\r\r\n", "two\n");
        check("abc\u{8}\u{8}x\u{8}\u{8}\u{8}\u{8}y", "y");
        check("|\u{8}/\u{8}-\u{8} ok", " ok");
        check("a\0b\u{9b}", "a\u{fffd}b\u{fffd}");
    }

    #[test]
    fn what_a_screen_does_not_show_any_more() {
        let check = |output: &str, expect: bool| assert_eq!(is_overwritten(output), expect, "{output:?}");
        check("plain\ntext\r\nwith both ends\r\n", false);
        check("\u{1b}[1mbold\u{1b}[0m\n", false);
        check("one\rtwo", true);
        check("10%\r50%\r100%\n", true);
        check("Paid 10 EUR\rPaid 107 EUR\rPaid 204 EUR", false);
        check("Paid 10 EUR\rPaid 107 EUR\rPaid 204 EUR\nnext\n", true);
        check("same\rsame\rsame\n", false);
        check("get\rget it\n", false);
        check("   \rdone\n", false);
        check("|\u{8}/\u{8}-\u{8} ok", true);
        check("abc\u{8}\u{8}\u{8}", true);
        check("", false);
    }

    #[test]
    fn runs_of_lines() {
        fn check(output: &str, expect: &str) {
            assert_eq!(reduce(output), expect, "{output:?}");
        }
        check("a\na\nb", "a\na\nb");
        check("a\na\na\nb\n", "a\n[the line above 2 more times]\nb\n");
        check("\n\n\n\n", "\n\n\n\n");
        check(&"\n".repeat(40), "\n[the line above 40 more times]");
        check("get 1%\nget 2%\nget 3%\nget 4%\nget 5%\n", "get 1%\nget 2%\nget 3%\nget 4%\nget 5%\n");
        let ledger = (0..6).map(|day| format!("Paid {} EUR on day {day}\n", day * 97 + 10)).collect::<Vec<_>>().concat();
        check(&ledger, &ledger);
        check("1,2\n3,4\n5,6\n7,8\n9,10\n", "1,2\n3,4\n5,6\n7,8\n9,10\n");
        check(
            "a\na\na\n[the line above 2 more times]\n[the line above 2 more times]",
            "a\n[the line above 2 more times]\n[the line above 2 more times]\n[the line above 2 more times]",
        );
        assert!(matches!(reduce("a\na\nb"), Cow::Borrowed(_)));
    }

    #[test]
    fn cut_to_size() {
        fn check(text: &str, max: usize, expect: &str) {
            assert_eq!(cap(text, max, "p").map(|capped| capped.text).as_deref(), Some(expect));
        }
        assert_eq!(cap("short", 5, "p"), None);
        assert_eq!(cap("ééééé", 5, "p"), None);
        check("abcdef", 0, "");
        check("abcdef", 3, "[… ");
        check(&"x".repeat(100), 44, "[… 100 characters left out; whole text: p]");
        check(&"x".repeat(100), 48, "xx\n[… 96 characters left out; whole text: p]\nxx");
        let lines: Vec<String> = (1..=40).map(|n| format!("line {n:02}\n")).collect();
        let lines = lines.concat();
        check(&lines, 100, "line 01\nline 02\nline 03\n[… 272 characters left out; whole text: p]\nline 38\nline 39\nline 40\n");
    }

    fn nasty() -> impl Strategy<Value = String> {
        #[rustfmt::skip]
        const PIECES: &[&str] = &[
            "\u{1b}", "[", "]", "0", "31", "m", "K", ";", "\\", "\u{7}", "\u{8}", "\r", "\n", "\n", "\n", "\r\n", "a", "é", " ", "%",
            "get 10%\n", "get 7%\n", "a\n", "a\n", "\n\n\n", "[the line above 2 more times]\n",
            "\0", "\u{9b}", "(B", "P",
        ];
        prop::collection::vec(prop::sample::select(PIECES), 0..40).prop_map(|parts| parts.concat())
    }

    /// Head, number and tail of a capped text, found by looking for the line.
    fn check_capped(text: &str, capped: &Capped, pointer: &str) -> Result<(), TestCaseError> {
        let mark = left_out(capped.left_out_chars, pointer);
        let Some((head, tail)) = capped.text.split_once(&mark) else {
            prop_assert!(mark.starts_with(&capped.text));
            prop_assert_eq!(capped.left_out_chars, text.chars().count());
            return Ok(());
        };
        // The line ends around the mark may be ours or the text's.
        let head = if text.starts_with(head) { head } else { &head[..head.len() - 1] };
        let tail = tail.strip_prefix('\n').unwrap_or(tail);
        prop_assert!(text.starts_with(head) && text.ends_with(tail));
        prop_assert_eq!(head.chars().count() + tail.chars().count() + capped.left_out_chars, text.chars().count());
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn reducing_twice_is_reducing_once(output in nasty()) {
            let once = reduce(&output);
            prop_assert_eq!(reduce(&once), once.as_ref());
            prop_assert!(!once.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
        }

        #[test]
        fn capped_is_short_and_says_what_is_missing(text in "([a-zé語]{0,12}\n|[a-z ]{1,5}){0,40}", max in 0..200_usize) {
            match cap(&text, max, "/out/x") {
                None => prop_assert!(text.chars().count() <= max),
                Some(capped) => {
                    prop_assert!(text.chars().count() > max);
                    prop_assert!(capped.text.chars().count() <= max, "{}", capped.text);
                    check_capped(&text, &capped, "/out/x")?;
                }
            }
        }

        #[test]
        fn capped_tokens_fit(text in "([a-zé語]{0,12}\n|[a-z ]{1,5}|[0-9]{9}){0,60}", max in 0..120_u64) {
            for tokenizer in [&Chars::FOUR as &dyn Tokenizer, &OpenAi::O200K] {
                match cap_tokens(&text, Tokens(max), tokenizer, "/out/x") {
                    None => prop_assert!(tokenizer.count(&text) <= Tokens(max)),
                    Some(capped) => {
                        prop_assert!(tokenizer.count(&capped.text) <= Tokens(max));
                        check_capped(&text, &capped, "/out/x")?;
                    }
                }
            }
        }
    }

    #[test]
    fn most_of_the_room_is_used() {
        let text = "word and line\n".repeat(10_000);
        let capped = cap_tokens(&text, Tokens(1_000), &OpenAi::O200K, "x").unwrap();
        assert!(OpenAi::O200K.count(&capped.text) > Tokens(900), "{}", OpenAi::O200K.count(&capped.text));
    }
}
