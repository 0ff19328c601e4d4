//! Decides whether an answer is a summary, and not a refusal, an error or reasoning.

use foreword_text::normalise::normalise;
use foreword_text::summary_line::sentences;

use super::Unmanaged;
use crate::session::Reply;

/// Tags of reasoning blocks.
const THOUGHTS: [&str; 6] = ["think", "thinking", "thought", "analysis", "reasoning", "scratchpad"];

/// Beginnings of refusals, in lower case.
const REFUSALS: [&str; 12] = [
    "i'm sorry",
    "i am sorry",
    "sorry, ",
    "i can't ",
    "i cannot ",
    "i'm unable",
    "i am unable",
    "i won't ",
    "as an ai",
    "i'm not able",
    "i am not able",
    "unfortunately, i can",
];

/// Beginnings of error messages, in lower case.
const ERRORS: [&str; 12] = [
    "error:",
    "error ",
    "{\"error\"",
    "{ \"error\"",
    "[error",
    "traceback (most recent",
    "exception:",
    "http ",
    "internal server error",
    "rate limit",
    "<!doctype",
    "<html",
];

/// The longest refusal; longer answers are summaries, even if they begin with an apology.
const MOST_REFUSAL_CHARS: usize = 400;

/// Extracts the summary from an answer.
pub fn judge(reply: &Reply) -> Result<String, Unmanaged> {
    let spoken = without_thoughts(&reply.text);
    let mut text = normalise(unfenced(spoken.trim())).trim().to_owned();
    if reply.cut_off {
        // What stands before the cut is whole.
        text.truncate(whole_sentences(&text));
        if text.is_empty() {
            return Err(Unmanaged::CutOff);
        }
    }
    if !text.contains(char::is_alphanumeric) {
        return Err(Unmanaged::Empty);
    }
    let lower = text.to_lowercase().replace('’', "'");
    let begins = |list: &[&str]| list.iter().any(|start| lower.starts_with(start));
    if begins(&ERRORS) {
        return Err(Unmanaged::ErrorText(text.chars().take(200).collect()));
    }
    if begins(&REFUSALS) && text.chars().nth(MOST_REFUSAL_CHARS).is_none() {
        return Err(Unmanaged::Refusal(text.chars().take(200).collect()));
    }
    Ok(text)
}

/// Removes reasoning blocks; an unclosed one extends to the end, an unopened one from the start.
fn without_thoughts(text: &str) -> String {
    let mut text = text.to_owned();
    for tag in THOUGHTS {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        let lower = text.to_ascii_lowercase();
        let mut kept = String::new();
        let mut at = 0;
        while let Some(start) = lower[at..].find(&open).map(|found| found + at) {
            kept.push_str(&text[at..start]);
            at = lower[start..].find(&close).map_or(text.len(), |end| start + end + close.len());
        }
        kept.push_str(&text[at..]);
        let end = kept.to_ascii_lowercase().rfind(&close);
        text = end.map_or(kept.clone(), |end| kept[end + close.len()..].to_owned());
    }
    text
}

/// Removes a code fence around the whole text.
fn unfenced(text: &str) -> &str {
    let inside = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    inside.and_then(|inside| inside.split_once('\n')).map_or(text, |(_, inside)| inside)
}

/// The end of the last complete sentence.
fn whole_sentences(text: &str) -> usize {
    let last = text.rfind('\n').map_or(0, |at| at + 1);
    let line = &text[last..];
    let ends = |sentence: &str| sentence.trim_end().ends_with(['.', '!', '?', '。', '！', '？', ']', ')']);
    let whole: Vec<&str> = sentences(line).collect();
    match whole.iter().rposition(|sentence| ends(sentence)) {
        Some(at) => {
            let sentence = whole[at];
            let start = line.len() - line.trim_start().len();
            line.rfind(sentence).map_or(last, |from| last + from.max(start) + sentence.len())
        }
        None => text[..last].trim_end().len(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(text: &str, cut_off: bool) -> Reply {
        Reply { text: text.to_owned(), cut_off, ..Reply::default() }
    }

    #[test]
    fn only_a_summary_is_one() {
        let check = |text: &str, expect: Result<&str, &str>| {
            let judged = judge(&said(text, false));
            let told = judged.as_ref().map(String::as_str).map_err(Unmanaged::word);
            assert_eq!(told, expect, "{text:?}");
        };
        check("They build a shed.", Ok("They build a shed."));
        check("  \n", Err("empty"));
        check("...", Err("empty"));
        check("<think>They want\n</think>\n\nA shed.", Ok("A shed."));
        check("<THINK>hm</THINK><analysis>x</analysis>A <reasoning>y</reasoning>shed.", Ok("A shed."));
        check("<think>I should first", Err("empty"));
        check("I should first\n</think>A shed.", Ok("A shed."));
        check("<scratchpad>all of it</scratchpad>", Err("empty"));
        check("I'm sorry, but I can't help with that.", Err("refusal"));
        check("I’m sorry, but I can’t help with that.", Err("refusal"));
        check("As an AI language model I have no memory.", Err("refusal"));
        check("Error: model overloaded", Err("error_text"));
        check("{\"error\": {\"code\": 500}}", Err("error_text"));
        check("<!DOCTYPE html><title>502</title>", Err("error_text"));
        check("Errors were found in src/a.rs.", Ok("Errors were found in src/a.rs."));
        check("```markdown\nA shed.\n```", Ok("A shed."));
        check("A\u{1b}[31m shed.\r\n", Ok("A\u{fffd}[31m shed."));
    }

    #[test]
    fn of_an_answer_that_was_cut_off_the_whole_sentences_count() {
        let check = |text: &str, expect: Result<&str, &str>| {
            let judged = judge(&said(text, true));
            assert_eq!(judged.as_ref().map(String::as_str).map_err(Unmanaged::word), expect, "{text:?}");
        };
        check("One. Two. Thr", Ok("One. Two."));
        check("- One.\n- Two is", Ok("- One."));
        check("One is", Err("cut_off"));
        check("", Err("cut_off"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn thoughts_never_come_through(parts in prop::collection::vec(prop::sample::select(&[
            "<think>", "</think>", "<analysis>", "</analysis>", "secret", "fine", "é. ", "\n", "```", "Error: ", "I'm sorry",
        ][..]), 0..12), cut_off: bool) {
            if let Ok(text) = judge(&said(&parts.concat(), cut_off)) {
                prop_assert!(!text.contains("<think>") && !text.contains("<analysis>"), "{text:?}");
                prop_assert!(!text.is_empty());
            }
        }
    }
}
