//! The prompts for writing summaries.

use std::collections::BTreeMap;

use foreword_core::history::MessageId;
use foreword_core::message::Role;
use foreword_core::session::Spoken;
use foreword_text::output::cap;
use foreword_text::summary_line::sentences;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{Call, Manager, SummaryInput, View};
use foreword_templates::Template;

/// The manager's instruction; the rest comes from the template.
const TASK: &str = "\
Write the part of a record of this conversation that is described below. The record takes the place of older messages, so whatever is \
not in it is forgotten. Tell only what was said or done. Do not answer the user, do not call a tool, and write nothing but the record.";

/// The longest part of a message in characters.
const MOST_MESSAGE_CHARS: usize = 4_000;
/// The longest part of all messages in characters.
const MOST_CHARS: usize = 60_000;
/// The longest part of the latest message in characters.
const MOST_INPUT_CHARS: usize = 4_000;

/// The values of placeholders.
pub(super) fn values(ground: &SummaryInput<'_>, template: &Template, zone: &TimeZone) -> BTreeMap<String, String> {
    let day = Timestamp::from_millisecond(ground.now_ms).ok().map(|now| now.to_zoned(zone.clone()).date());
    let runs = template.parsed.recent_runs.map_or(super::RECENT_RUNS, foreword_templates::Runs::count);
    let (summary, _) = ground.session.written().unwrap_or_default();
    let values = [
        ("latest_input", held(ground.latest_input, MOST_INPUT_CHARS)),
        ("recent_runs", conversation(&ground.session.said(ground.session.last_runs(runs)))),
        ("recent_summaries", summary.to_owned()),
        ("today", day.map(|day| day.to_string()).unwrap_or_default()),
        ("session", ground.session.settings().session.clone()),
        ("template", template.name.clone()),
    ];
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The question for one step.
pub(super) fn call(
    ground: &SummaryInput<'_>,
    manager: &Manager,
    template: &Template,
    wanted: &str,
    given: &[(String, String)],
    runs: usize,
    summaries: usize,
) -> Call {
    let mut parts = vec![TASK.to_owned()];
    parts.extend(template.parsed.context_instructions.clone());
    parts.extend(manager.focus.as_ref().map(|focus| format!("Look above all at this: {focus}")));
    parts.push(format!("## What to write\n\n{wanted}"));
    parts.extend(given.iter().map(|(name, text)| format!("## {name}\n\n{text}")));
    let earlier = earlier(ground, summaries);
    if !earlier.is_empty() {
        parts.push(format!("## The record so far\n\n{earlier}"));
    }
    let latest = format!("## What the user says next\n\n{}", held(ground.latest_input, MOST_INPUT_CHARS));
    let recent = format!("## Recent conversation\n\n{}", conversation(&ground.session.said(ground.session.last_runs(runs))));
    let alone = [&parts[..], &[recent, latest.clone()]].concat().join("\n\n");
    parts.push(latest);
    Call { behind: parts.join("\n\n"), alone }
}

/// The latest summaries; the one in the prompt is first.
fn earlier(ground: &SummaryInput<'_>, summaries: usize) -> String {
    let Some(more) = summaries.checked_sub(1) else { return String::new() };
    let (standing, _) = ground.session.written().unwrap_or_default();
    let stored = ground.prior.iter().rev().filter_map(|row| View::of(row).ok()?.summary).filter(|text| text != standing);
    let mut texts: Vec<String> = stored.take(more.min(8)).collect();
    texts.reverse();
    texts.push(standing.to_owned());
    texts.retain(|text| !text.is_empty());
    held(&texts.join("\n\n"), MOST_CHARS)
}

/// Messages as text.
pub(super) fn conversation(spoken: &[Spoken]) -> String {
    let line = |spoken: &Spoken| {
        let who = match spoken.role {
            Role::User => "User",
            Role::Assistant => "Assistant",
            Role::Tool => "[tool]",
            Role::System => "System",
        };
        format!("{who} [{}]: {}", spoken.id, held(&spoken.text, MOST_MESSAGE_CHARS))
    };
    held(&spoken.iter().map(line).collect::<Vec<_>>().join("\n"), MOST_CHARS)
}

fn held(text: &str, chars: usize) -> String {
    cap(text, chars, "the session's record").map_or_else(|| text.to_owned(), |capped| capped.text)
}

/// The sentences of an earlier summary with the first message that each cites.
pub(super) fn cited_lines(summary: &str) -> Vec<(MessageId, String)> {
    let mut found: Vec<(MessageId, String)> = Vec::new();
    for line in summary.lines() {
        let mut words = String::new();
        for sentence in sentences(line) {
            let mut rest = sentence;
            while let Some((before, behind)) = rest.split_once('[') {
                words.push_str(before);
                let Some((inside, after)) = behind.split_once(']') else { break };
                let ids = inside.split(',').filter_map(|id| id.trim().parse::<MessageId>().ok());
                for id in ids {
                    found.push((id, words.trim().to_owned()));
                }
                words.clear();
                rest = after;
            }
            words.push_str(rest);
            words.push(' ');
        }
    }
    found
}
