//! What `assist` adds to a request: cache control, and nothing that a model reads. Each addition is an insertion into the client's own
//! text, so whatever else stands there stays as it is, to the byte.
//!
//! A cache write costs a quarter more than plain input, and each later read saves nine tenths. The first mark of a conversation is a bet
//! that another request follows in time, so it waits until that is nearly certain. Every later mark is covered by what the reads of the
//! conversation have saved so far.

use foreword_provider::dialect::Dialect;
use foreword_provider::model::{CacheRules, Capability, Model};

use super::conversation::{Conversation, Who};
use super::json_text::{Members, elements, place};
use super::sessions::Before;

/// What a mark says.
const MARK: &str = ",\"cache_control\":{\"type\":\"ephemeral\"}";

/// Bytes of JSON a token has at most, in what is taken for long enough to be cached.
const BYTES_A_TOKEN: u64 = 5;

/// Answered requests before the first mark, where the model has called tools.
const BEFORE_FIRST_MARK: u64 = 2;

/// The same for a chat without tools: people stop more often than tool loops do.
const BEFORE_FIRST_MARK_OF_CHAT: u64 = 4;

/// Requests a minute with one prompt head, from which on a provider spreads them over several machines (OpenAI, before GPT-5.6).
const SPREAD_AT: usize = 15;

/// A text that is added to a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Insertion {
    /// In front of which byte of the client's text.
    pub at: usize,
    /// What.
    pub text: String,
}

/// What is added to a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Additions {
    /// The texts, from the first to the last.
    pub insertions: Vec<Insertion>,
    /// How many messages stand in front of the last mark, it being one that was not there before.
    pub marked: Option<usize>,
    /// The cache key.
    pub cache_key: Option<String>,
    /// What the marks save on this request: bytes of prompt at the input price, negative where more is written than read.
    pub saved: f64,
}

impl Additions {
    /// What was added, in a word for each: `cache_control`, `prompt_cache_key`.
    pub fn words(&self) -> String {
        let marks = self.insertions.iter().filter(|insertion| insertion.text.contains("cache_control")).count();
        let marks = (marks > 0).then(|| format!("cache_control={marks}"));
        let key = self.cache_key.as_ref().map(|_| "prompt_cache_key".to_owned());
        marks.into_iter().chain(key).collect::<Vec<_>>().join(",")
    }

    /// The body with all of it, and where each addition stands in that: its first byte and its length.
    pub fn apply(&self, body: &str) -> (String, Vec<(usize, usize)>) {
        let added: usize = self.insertions.iter().map(|insertion| insertion.text.len()).sum();
        let (mut whole, mut places, mut from) = (String::with_capacity(body.len() + added), Vec::new(), 0);
        for Insertion { at, text } in &self.insertions {
            whole.push_str(body.get(from..*at).unwrap_or_default());
            places.push((whole.len(), text.len()));
            whole.push_str(text);
            from = *at;
        }
        whole.push_str(body.get(from..).unwrap_or_default());
        (whole, places)
    }
}

/// A body without what was added to it.
pub fn without(body: &str, places: &[(usize, usize)]) -> String {
    let (mut bare, mut from) = (String::with_capacity(body.len()), 0);
    for (at, len) in places {
        bare.push_str(body.get(from..*at).unwrap_or_default());
        from = at + len;
    }
    bare.push_str(body.get(from..).unwrap_or_default());
    bare
}

/// What is to be added to a request; or why nothing is.
pub fn plan(
    dialect: Dialect,
    model: &Model,
    (body, asked): (&str, &Conversation),
    before: &Before,
    (session, rate, now_ms): (&str, usize, i64),
) -> Result<Additions, &'static str> {
    match dialect {
        Dialect::Anthropic => marks(model, body, asked, before, now_ms),
        Dialect::OpenAiChat | Dialect::OpenAiResponses => cache_key(model, body, before, session, rate),
        Dialect::Gemini | Dialect::LlamaCpp => Err("this provider takes no cache control"),
    }
}

/// A key that keeps the requests of a session on one machine, where there are so many that they would be spread over several.
fn cache_key(model: &Model, body: &str, before: &Before, session: &str, rate: usize) -> Result<Additions, &'static str> {
    if !model.has(Capability::PromptCacheKey) || !matches!(model.cache, CacheRules::Interval { .. }) {
        return Err("this model is routed by its provider");
    }
    let members = Members::of(body).ok_or("the body cannot be read")?;
    if ["prompt_cache_key", "prompt_cache_options"].iter().any(|name| members.has(name)) {
        return Err("the client sets its own cache key");
    }
    // Whoever sends few has one machine anyway, and shares it with other sessions that begin alike. A key that comes or goes in
    // mid-session would lead away from the cache.
    let key = match &before.cache_key {
        Some(key) => key.clone(),
        None if before.answered == 0 && rate > SPREAD_AT => format!("foreword-{session}"),
        None => return Err("few enough requests for one machine"),
    };
    let at = body.find('{').ok_or("the body cannot be read")? + 1;
    let text = format!("\"prompt_cache_key\":\"{key}\",");
    Ok(Additions { insertions: vec![Insertion { at, text }], cache_key: Some(key), ..Additions::default() })
}

/// Marks behind messages, by Anthropic's rules.
fn marks(model: &Model, body: &str, asked: &Conversation, before: &Before, now_ms: i64) -> Result<Additions, &'static str> {
    let CacheRules::Marks { minimum, lifetime_s, lookback, marks: most, .. } = model.cache else {
        return Err("the cache rules of this model are not known");
    };
    let members = Members::of(body).ok_or("the body cannot be read")?;
    if members.has("cache_control") {
        return Err("the client has its prompt cached automatically");
    }
    let count = |name: &str| members.get(name).map_or(0, |value| value.matches("\"cache_control\"").count());
    if count("messages") > 0 {
        return Err("the client marks its messages itself");
    }
    let free = most.saturating_sub(count("tools") + count("system"));
    if free == 0 {
        return Err("the client uses all marks itself");
    }
    if before.answered == 0 {
        return Err("first request of a conversation");
    }
    if !before.same_head {
        return Err("model, system prompt or tools have changed");
    }
    let lifetime_ms = i64::try_from(lifetime_s).unwrap_or(i64::MAX).saturating_mul(1000);
    if now_ms - before.at_ms > lifetime_ms / 10 * 9 {
        return Err("more time has passed than a cache lasts");
    }
    if asked.said.last().is_none_or(|last| last.who == Who::Model) {
        return Err("the model's own words are last");
    }
    // A client that rewrites the end of its prompt reads the part in front of that again.
    let shared = if before.is_whole { asked.said.len() } else { before.shared.min(asked.said.len()) };
    if shared == 0 {
        return Err("nothing of the last request is there again");
    }
    let head = |name: &str| members.get(name).map_or(0, str::len);
    let first = asked.said.first().map_or(0, |first| first.at.start);
    let bytes = |to: usize| {
        let end = to.checked_sub(1).and_then(|last| asked.said.get(last)).map_or(first, |last| last.at.end);
        head("tools") + head("system") + end.saturating_sub(first)
    };
    if u64::try_from(bytes(shared)).unwrap_or(0) < minimum.saturating_mul(BYTES_A_TOKEN) {
        return Err("too short to be cached");
    }
    let marked = before.marked.filter(|marked| (1..=shared).contains(marked));
    let saved = |to: usize| {
        let read = marked.map_or(0, |marked| bytes(marked.min(to)));
        saving(model, read, bytes(to).saturating_sub(read))
    };
    let to = if before.saved > 0.0 || marked.is_some() {
        let is_covered = before.saved + saved(shared) >= 0.0;
        // Else what is in the cache is read again, and nothing is added to it.
        if is_covered { Some(shared) } else { marked }
    } else {
        let called = asked.count(Who::Tools) > 0;
        let enough = if called { BEFORE_FIRST_MARK } else { BEFORE_FIRST_MARK_OF_CHAT };
        (before.answered >= enough).then_some(shared)
    };
    let Some(to) = to else { return Err("the conversation may be over with this request") };
    let text = |at: usize| asked.said.get(at).and_then(|spoken| body.get(spoken.at.clone()));
    let mut additions = Additions { saved: saved(to), ..Additions::default() };
    // What was marked before is found from the new mark only if it is near.
    if let Some(marked) = marked.filter(|marked| *marked < to)
        && free > 1
    {
        let between: usize = (marked..to).filter_map(text).map(positions).sum();
        if between + 1 >= lookback {
            additions.insertions.extend(text(marked - 1).and_then(|message| mark(body, message)).unwrap_or_default());
        }
    }
    let new = text(to - 1).and_then(|message| mark(body, message)).ok_or("the last block can carry no mark")?;
    additions.insertions.extend(new);
    additions.marked = Some(to);
    Ok(additions)
}

/// What it saves to read and write so many bytes, against sending them as plain input.
fn saving(model: &Model, read: usize, write: usize) -> f64 {
    let prices = model.cache_prices();
    let factor = |price: f64, usual: f64| if prices.input > 0.0 { price / prices.input } else { usual };
    read as f64 * (1.0 - factor(prices.read, 0.1)) - write as f64 * (factor(prices.write, 1.25) - 1.0)
}

/// How many places of a message a provider looks at on its way back: a row of calls or of results is one.
fn positions(message: &str) -> usize {
    let Some(content) = Members::of(message).and_then(|message| message.get("content").map(str::to_owned)) else { return 1 };
    let kinds = elements(&content).unwrap_or_default().into_iter().map(|block| Members::of(block)?.text("type"));
    let (mut count, mut last) = (0, None);
    for kind in kinds {
        let in_row = matches!(kind.as_deref(), Some("tool_use" | "tool_result")) && kind == last;
        count += usize::from(!in_row);
        last = kind;
    }
    count.max(1)
}

/// What puts a mark on the last block of a message.
fn mark(body: &str, message: &str) -> Option<Vec<Insertion>> {
    let members = Members::of(message)?;
    let content = members.get("content")?;
    if content.starts_with('"') {
        let words = super::json_text::string(content)?;
        if words.trim().is_empty() {
            return None;
        }
        let at = place(body, content)?;
        let before = Insertion { at: at.start, text: "[{\"type\":\"text\",\"text\":".to_owned() };
        return Some(vec![before, Insertion { at: at.end, text: format!("{MARK}}}]") }]);
    }
    let block = elements(content)?.pop()?;
    let read = Members::of(block)?;
    let takes = match read.text("type")?.as_str() {
        "text" => read.text("text").is_some_and(|text| !text.trim().is_empty()),
        "image" | "document" | "tool_use" | "tool_result" => true,
        _ => false,
    };
    if !takes || read.has("cache_control") {
        return None;
    }
    let at = place(body, block)?.end.checked_sub(1)?;
    Some(vec![Insertion { at, text: MARK.to_owned() }])
}

#[cfg(test)]
mod tests {
    use foreword_provider::table::ModelTable;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn model(name: &str) -> Model {
        ModelTable::builtin().unwrap().find(name).unwrap()
    }

    fn body(messages: &[&str], more: &str) -> String {
        format!("{{ \"model\":\"claude-sonnet-5\",{more} \"messages\" : [{}]}}\n", messages.join(" , "))
    }

    fn user(text: &str) -> String {
        format!("{{\"role\":\"user\", \"content\" : {}}}", json!(text))
    }

    fn ai(text: &str) -> String {
        json!({"role": "assistant", "content": [{"type": "text", "text": text}]}).to_string()
    }

    fn added(body: &str, before: &Before, now_ms: i64) -> Result<(String, Additions), &'static str> {
        let asked = Conversation::read(Dialect::Anthropic, body).unwrap();
        let additions = plan(Dialect::Anthropic, &model("claude-sonnet-5"), (body, &asked), before, ("s", 1, now_ms))?;
        let (whole, places) = additions.apply(body);
        assert_eq!(without(&whole, &places), body);
        Ok((whole, additions))
    }

    fn went_on(shared: usize, is_whole: bool) -> Before {
        Before { answered: 4, shared, is_whole, same_head: true, ..Before::default() }
    }

    #[test]
    fn marks_stand_where_they_pay() {
        let long = "word ".repeat(3000);
        let talk = [user(&long), ai("So?"), user("Go on")];
        let talk: Vec<&str> = talk.iter().map(String::as_str).collect();
        let (whole, additions) = added(&body(&talk, ""), &went_on(1, true), 1000).unwrap();
        assert_eq!((additions.marked, additions.words().as_str()), (Some(3), "cache_control=1"));
        let sent: Value = serde_json::from_str(&whole).unwrap();
        assert_eq!(
            sent["messages"][2]["content"],
            json!([{"type": "text", "text": "Go on", "cache_control": {"type": "ephemeral"}}])
        );
        // Who rewrites the end: what both requests have is marked, and not the end.
        let (whole, additions) = added(&body(&talk, ""), &went_on(1, false), 1000).unwrap();
        let sent: Value = serde_json::from_str(&whole).unwrap();
        assert_eq!((additions.marked, sent["messages"][2]["content"].as_str()), (Some(1), Some("Go on")));
        assert_eq!(sent["messages"][0]["content"][0]["cache_control"]["type"], "ephemeral");
        let check = |body: &str, before: &Before, now_ms: i64, why: &str| {
            let found = added(body, before, now_ms).unwrap_err();
            assert!(found.contains(why), "{found}: {why}");
        };
        let usual = body(&talk, "");
        check(&usual, &Before::default(), 1000, "first request");
        check(&usual, &went_on(0, false), 1000, "nothing of the last request");
        check(&usual, &went_on(1, true), 290_000, "more time");
        check(&usual, &Before { same_head: false, ..went_on(1, true) }, 1000, "have changed");
        check(&usual, &Before { answered: 3, ..went_on(1, true) }, 1000, "may be over");
        check(&body(&talk[..2], ""), &went_on(1, true), 1000, "own words are last");
        check(&body(&[talk[2], talk[1], talk[2]], ""), &went_on(1, true), 1000, "too short");
        check(&body(&talk, "\"cache_control\":{\"type\":\"ephemeral\"},"), &went_on(1, true), 1000, "automatically");
        let marked = r#"{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}"#;
        check(&body(&[talk[0], talk[1], marked], ""), &went_on(1, true), 1000, "itself");
        let full = "\"system\":[{\"type\":\"text\",\"text\":\"a\",\"cache_control\":{}},{\"cache_control\":{}},{\"cache_control\":{}},{\"cache_control\":{}}],";
        check(&body(&talk, full), &went_on(1, true), 1000, "all marks");
        let thinking = r#"{"role":"user","content":[{"type":"text","text":" "}]}"#;
        check(&body(&[talk[0], talk[1], thinking], ""), &went_on(1, true), 1000, "no mark");
    }

    /// After the first mark each further one is paid for by what was saved before.
    #[test]
    fn later_marks_are_covered() {
        let (short, long) = ("word ".repeat(3000), "word ".repeat(300_000));
        let check = |last: &str, answered: u64, calls: bool, marked: Option<usize>, saved: f64, expect: Result<usize, &str>| {
            let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]});
            let second = if calls { result.to_string() } else { user("y") };
            let talk = [user(&short), ai("a"), second, ai("b"), user(last)];
            let body = body(&talk.iter().map(String::as_str).collect::<Vec<_>>(), "");
            let before = Before { answered, marked, saved, ..went_on(3, true) };
            let found = added(&body, &before, 1000).map(|(_, additions)| additions.marked.unwrap());
            assert_eq!(found, expect, "{answered} {calls} {marked:?} {saved}");
        };
        let over = "the conversation may be over with this request";
        check("z", 3, false, None, 0.0, Err(over));
        check("z", 4, false, None, 0.0, Ok(5));
        check("z", 1, true, None, 0.0, Err(over));
        check("z", 2, true, None, 0.0, Ok(5));
        // A cache that is still there is read in any case; much that is new is written once it is covered.
        check("z", 2, true, Some(3), 0.0, Ok(5));
        check(&long, 3, true, Some(3), 0.0, Ok(3));
        check(&long, 3, true, Some(3), 1e6, Ok(5));
        // After a lapse all of it is written again.
        check("z", 3, true, None, 10.0, Err(over));
        check("z", 3, true, None, 1e6, Ok(5));
    }

    #[test]
    fn what_is_out_of_reach_is_marked_again() {
        let long = user(&"word ".repeat(3000));
        let steps: Vec<String> = (0..30).map(|step| if step % 2 == 0 { ai("x") } else { user("y") }).collect();
        let talk: Vec<&str> = std::iter::once(long.as_str())
            .chain(steps.iter().map(String::as_str))
            .chain(["{\"role\":\"user\",\"content\":\"z\"}"])
            .collect();
        let check = |marked: usize, expect: &str| {
            let before = Before { marked: Some(marked), ..went_on(1, true) };
            assert_eq!(added(&body(&talk, ""), &before, 1000).unwrap().1.words(), expect, "{marked}");
        };
        check(1, "cache_control=2");
        check(20, "cache_control=1");
        check(32, "cache_control=1");
    }

    #[test]
    fn a_cache_key_keeps_many_requests_together() {
        let body = "{ \"model\":\"gpt-5.4\",\"messages\":[]}";
        let check = |name: &str, body: &str, before: &Before, rate: usize, expect: Option<&str>| {
            let asked = Conversation::read(Dialect::OpenAiChat, body).unwrap();
            let found = plan(Dialect::OpenAiChat, &model(name), (body, &asked), before, ("abc", rate, 0));
            assert_eq!(found.ok().map(|found| found.apply(body).0).as_deref(), expect, "{name} {rate}");
        };
        let with = "{\"prompt_cache_key\":\"foreword-abc\", \"model\":\"gpt-5.4\",\"messages\":[]}";
        check("gpt-5.4", body, &Before::default(), 20, Some(with));
        check("gpt-5.4", body, &Before::default(), 3, None);
        let kept = Before { answered: 4, cache_key: Some("foreword-abc".to_owned()), ..Before::default() };
        check("gpt-5.4", body, &kept, 1, Some(with));
        check("gpt-5.4", body, &Before { answered: 4, ..Before::default() }, 20, None);
        // From GPT-5.6 on another key is another cache.
        check("gpt-5.6-sol", body, &Before::default(), 20, None);
        check("gpt-5.4", "{\"prompt_cache_key\":\"own\"}", &Before::default(), 20, None);
    }

    fn content() -> impl Strategy<Value = Value> {
        let text = "[a-z\"\\\\ äあ\n]{0,40}";
        let block = prop_oneof![
            text.prop_map(|text| json!({"type": "text", "text": text})),
            text.prop_map(|text| json!({"type": "tool_result", "tool_use_id": "t", "content": text})),
            text.prop_map(|text| json!({"type": "thinking", "thinking": text, "signature": "s"})),
            text.prop_map(|text| json!({"unknown": text, "type": "strange"})),
        ];
        prop_oneof![text.prop_map(Value::from), prop::collection::vec(block, 0..4).prop_map(Value::from)]
    }

    proptest! {
        /// Whatever a client sends: without our additions it is the same to the byte, and with them it says the same.
        #[test]
        fn what_is_added_can_be_taken_out_again(
            contents in prop::collection::vec((content(), any::<bool>()), 1..8),
            spaces in " {0,3}",
            shared in 0usize..9,
            is_whole: bool,
            marked in prop::option::of(0usize..9),
        ) {
            let messages: Vec<String> = contents.iter().enumerate().map(|(at, (content, pretty))| {
                let message = json!({"role": if at % 2 == 0 { "user" } else { "assistant" }, "content": content});
                if *pretty { serde_json::to_string_pretty(&message).unwrap() } else { message.to_string() }
            }).collect();
            let long = "w".repeat(20_000);
            let body = format!("{{{spaces}\"x\":1.0,\"system\":\"{long}\",\"messages\":{spaces}[{}]{spaces}}}", messages.join(&format!("{spaces},")));
            let before = Before { marked, ..went_on(shared, is_whole) };
            let asked = Conversation::read(Dialect::Anthropic, &body).unwrap();
            if let Ok(additions) = plan(Dialect::Anthropic, &model("claude-sonnet-5"), (&body, &asked), &before, ("s", 1, 10)) {
                let (whole, places) = additions.apply(&body);
                prop_assert_eq!(without(&whole, &places), body.as_str());
                let sent: Value = serde_json::from_str(&whole).unwrap();
                let marks = whole.matches("cache_control").count();
                prop_assert!((1..=2).contains(&marks));
                // The same conversation, and so the same digests.
                let again = Conversation::read(Dialect::Anthropic, &whole).unwrap();
                prop_assert_eq!(again.chain(None), asked.chain(None));
                let words = |value: &Value| value["messages"].as_array().unwrap().iter().map(|message| match &message["content"] {
                    Value::String(text) => vec![json!({"type": "text", "text": text})],
                    content => content.as_array().unwrap().iter().cloned().map(|mut block| {
                        block.as_object_mut().map(|block| block.remove("cache_control"));
                        block
                    }).collect(),
                }).collect::<Vec<_>>();
                prop_assert_eq!(words(&sent), words(&serde_json::from_str(&body).unwrap()));
            }
        }
    }
}
