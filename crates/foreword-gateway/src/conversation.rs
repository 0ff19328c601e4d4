//! What a client's request says, as far as sessions and cache marks need it: read from the text of its body, whatever else is in it.

use foreword_core::hash::Hash;
use foreword_provider::dialect::Dialect;

use super::json_text::{Members, elements, place, string, without_marks};

/// Longest title.
const TITLE: usize = 80;

/// Texts of a model that are shorter say nothing about where they come from.
const TELLING: usize = 24;

/// A message, or an item of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spoken {
    /// Where it stands in the body.
    pub at: std::ops::Range<usize>,
    /// Its content, without cache marks.
    pub digest: Hash,
    /// Who speaks.
    pub who: Who,
    /// What a model made that no other conversation has: ids of calls, its longer texts.
    pub made: Vec<Hash>,
}

/// Who speaks in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The user.
    User,
    /// Tools: what they gave back.
    Tools,
    /// The model.
    Model,
}

/// A conversation as a client sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// The model that it names.
    pub model: Option<String>,
    /// The system prompt, without cache marks.
    pub system: Hash,
    /// The tools, whole, without cache marks.
    pub tools: Hash,
    /// Their names.
    pub tool_names: Vec<Hash>,
    /// What was said, without the system prompt.
    pub said: Vec<Spoken>,
    /// The answer that it goes on from, where the provider keeps the conversation.
    pub previous: Option<String>,
    /// What its client calls the conversation in the body.
    pub named: Option<String>,
    /// The words that it begins with.
    pub title: Option<String>,
}

impl Conversation {
    /// Reads a body. None where it is no JSON object.
    pub fn read(dialect: Dialect, body: &str) -> Option<Self> {
        let members = Members::of(body)?;
        let (list, system) = match dialect {
            Dialect::Anthropic => ("messages", members.get("system")),
            Dialect::Gemini => ("contents", members.get("systemInstruction").or_else(|| members.get("system_instruction"))),
            Dialect::OpenAiResponses => ("input", members.get("instructions")),
            Dialect::OpenAiChat | Dialect::LlamaCpp => ("messages", None),
        };
        let list = members.get(list).unwrap_or("[]");
        let mut systems = vec![without_marks(&without_billing(system.unwrap_or_default()))];
        let mut said = Vec::new();
        let mut title = None;
        let single = list.starts_with('"').then(|| vec![list]);
        for text in single.or_else(|| elements(list)).unwrap_or_default() {
            let Some(message) = Message::read(dialect, text) else { continue };
            if message.is_system && said.is_empty() {
                systems.push(without_marks(text));
                continue;
            }
            if title.is_none() && message.who == Who::User {
                title.clone_from(&message.title);
            }
            let Some(at) = place(body, text) else { continue };
            said.push(Spoken { at, digest: message.digest, who: message.who, made: message.made });
        }
        let tools = members.get("tools").unwrap_or_default();
        Some(Self {
            model: members.text("model"),
            system: Hash::of(systems.join("\n")),
            tools: Hash::of(without_marks(tools)),
            tool_names: tool_names(tools),
            said,
            previous: members.text("previous_response_id"),
            named: named(&members),
            title,
        })
    }

    /// The hash of what was said up to each message, each under what `owner` is; the first is of none.
    pub fn chain(&self, owner: Option<Hash>) -> Vec<Hash> {
        let mut last = Hash::of(owner.map(|owner| owner.bytes().to_vec()).unwrap_or_default());
        let mut chain = vec![last];
        for spoken in &self.said {
            last = Hash::of([last.bytes().as_slice(), spoken.digest.bytes()].concat());
            chain.push(last);
        }
        chain
    }

    /// How often a kind of speaker speaks.
    pub fn count(&self, who: Who) -> usize {
        self.said.iter().filter(|spoken| spoken.who == who).count()
    }
}

/// What Claude Code writes in front of its system prompt: it is no part of the prompt, and may change with each request.
pub(super) const BILLING: &str = "x-anthropic-billing-header";

/// A system prompt without the client's billing header.
fn without_billing(system: &str) -> String {
    match elements(system) {
        Some(blocks) if system.contains(BILLING) => {
            let is_billing = |block: &&&str| {
                Members::of(block).and_then(|block| block.text("text")).is_some_and(|text| text.starts_with(BILLING))
            };
            blocks.iter().filter(|block| !is_billing(block)).copied().collect::<Vec<_>>().join(",")
        }
        _ => system.to_owned(),
    }
}

fn tool_names(tools: &str) -> Vec<Hash> {
    let mut names = Vec::new();
    for tool in elements(tools).unwrap_or_default() {
        let Some(tool) = Members::of(tool) else { continue };
        for list in ["functionDeclarations", "function_declarations", "tools"] {
            names.extend(tool.get(list).map(tool_names).unwrap_or_default());
        }
        let inner = tool.get("function").and_then(Members::of).and_then(|function| function.text("name"));
        names.extend(inner.or_else(|| tool.text("name")).or_else(|| tool.text("type")).map(Hash::of));
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// What a client calls its conversation in the body: Claude Code in `metadata.user_id`, others by a cache key that is an id.
fn named(members: &Members<'_>) -> Option<String> {
    let user = members.get("metadata").and_then(Members::of).and_then(|metadata| metadata.text("user_id"));
    if let Some(user) = user {
        let of_json = Members::of(&user).and_then(|user| user.text("session_id"));
        let of_text = || user.rsplit_once("_session_").map(|(_, session)| session.to_owned());
        if let Some(session) = of_json.or_else(of_text).filter(|session| is_id(session)) {
            return Some(session);
        }
    }
    members.text("prompt_cache_key").filter(|key| is_id(key))
}

/// Whether a text can be the id of one conversation: a name that a program gives to all of its requests is none.
pub fn is_id(text: &str) -> bool {
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':' | b'.'));
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    plain && (16..=128).contains(&text.len()) && digits >= 3
}

struct Message {
    is_system: bool,
    who: Who,
    digest: Hash,
    made: Vec<Hash>,
    title: Option<String>,
}

impl Message {
    fn read(dialect: Dialect, text: &str) -> Option<Self> {
        if let Some(words) = string(text) {
            return Some(Self {
                is_system: false,
                who: Who::User,
                digest: Hash::of(text),
                made: Vec::new(),
                title: title_of(&words),
            });
        }
        let members = Members::of(text)?;
        let (role, kind) = (members.text("role"), members.text("type"));
        let role = role.as_deref().unwrap_or_default();
        let mut made = Vec::new();
        let mut who = match (role, kind.as_deref().unwrap_or("message")) {
            ("assistant" | "model", _) => Who::Model,
            ("tool" | "function", _) => Who::Tools,
            ("", kind) if kind.ends_with("_output") => Who::Tools,
            ("", kind) if kind != "message" => Who::Model,
            _ => Who::User,
        };
        let content = members.get(if dialect == Dialect::Gemini { "parts" } else { "content" }).unwrap_or_default();
        let mut texts: Vec<String> = string(content).into_iter().collect();
        let parts: Vec<Members<'_>> = elements(content).unwrap_or_default().into_iter().filter_map(Members::of).collect();
        let is_result =
            |part: &Members<'_>| part.text("type").is_some_and(|kind| kind == "tool_result") || part.has("functionResponse");
        if who == Who::User && parts.iter().any(is_result) {
            who = Who::Tools;
        }
        texts.extend(parts.iter().filter_map(|part| part.text("text")));
        if who == Who::Model {
            let calls = members.get("tool_calls").and_then(elements).unwrap_or_default().into_iter().filter_map(Members::of);
            let ids = calls.chain(parts).filter_map(|call| call.text("id")).chain(members.text("call_id"));
            made.extend(ids.filter(|id| id.len() >= 8).map(Hash::of));
            made.extend(texts.iter().filter_map(|text| telling(text)));
        }
        // One text by itself may be sent as a text or as a list of one part.
        let single = |name: &str| matches!(name, "content" | "parts");
        let mut normal = String::new();
        for name in [
            "role",
            "type",
            "content",
            "parts",
            "tool_calls",
            "tool_call_id",
            "call_id",
            "output",
            "arguments",
            "input",
            "name",
            "id",
        ] {
            let Some(value) = members.get(name) else { continue };
            normal.push_str(name);
            match texts.as_slice() {
                [one] if single(name) && is_one_text(value) => normal.push_str(one),
                _ => normal.push_str(&without_marks(value)),
            }
            normal.push('\n');
        }
        let title = texts.iter().find_map(|text| title_of(text)).filter(|_| who == Who::User);
        let is_system = matches!(role, "system" | "developer");
        Some(Self { is_system, who, digest: Hash::of(normal), made, title })
    }
}

/// Whether a content is one text and nothing else.
fn is_one_text(content: &str) -> bool {
    if content.starts_with('"') {
        return true;
    }
    let Some([part]) = elements(content).as_deref().and_then(|parts| <&[&str; 1]>::try_from(parts).ok()).copied() else {
        return false;
    };
    Members::of(part).is_some_and(|part| part.has("text") && !part.has("thought") && !part.has("thoughtSignature"))
}

/// What tells a text of a model from those of others, where it is long enough.
pub(super) fn telling(text: &str) -> Option<Hash> {
    let text = text.trim();
    (text.len() >= TELLING).then(|| Hash::of(text))
}

/// The first words of a text; none where a program wrote them.
fn title_of(text: &str) -> Option<String> {
    let mut text = text.trim();
    // What agents put in front of a person's words stands in tags.
    while let Some((name, _)) = text.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        let name = name.split_whitespace().next().unwrap_or_default();
        text = text.split_once(&format!("</{name}>")).map_or("", |(_, behind)| behind).trim_start();
    }
    let words: Vec<&str> = text.split_whitespace().take(16).collect();
    let words = words.join(" ");
    let title = &words[..words.floor_char_boundary(TITLE)];
    (!title.is_empty()).then(|| title.chars().filter(|one| !one.is_control()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(dialect: Dialect, body: &str) -> Conversation {
        Conversation::read(dialect, body).unwrap()
    }

    #[test]
    fn a_mark_and_the_form_of_one_text_change_no_digest() {
        let plain = read(Dialect::Anthropic, r#"{"system":"s","messages":[{"role":"user","content":"Hello"}]}"#);
        for other in [
            r#"{"system":"s","messages":[{"role":"user","content":[{"type":"text","text":"Hello","cache_control":{"type":"ephemeral"}}]}]}"#,
            r#"{"messages" : [{"content":[{"type":"text","text":"Hel\u006co"}], "role" : "user"}], "system":"s"}"#,
        ] {
            let other = read(Dialect::Anthropic, other);
            assert_eq!((other.chain(None), other.system), (plain.chain(None), plain.system));
        }
        let changed = read(Dialect::Anthropic, r#"{"system":"s","messages":[{"role":"user","content":"Hello!"}]}"#);
        assert_ne!(changed.chain(None)[1], plain.chain(None)[1]);
        assert_ne!(plain.chain(Some(Hash::of("k"))), plain.chain(None));
    }

    #[test]
    fn what_each_api_says() {
        let chat = read(
            Dialect::OpenAiChat,
            r#"{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"<env>x</env>"},{"type":"text","text":"Do it"}]},
                {"role":"assistant","content":null,"tool_calls":[{"id":"call_12345","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_12345","content":"r"}],
                "tools":[{"type":"function","function":{"name":"f"}}],"prompt_cache_key":"ses_0123456789abcdef"}"#,
        );
        let who: Vec<Who> = chat.said.iter().map(|spoken| spoken.who).collect();
        assert_eq!(who, [Who::User, Who::Model, Who::Tools]);
        assert_eq!((chat.title.as_deref(), chat.named.as_deref()), (Some("Do it"), Some("ses_0123456789abcdef")));
        assert_eq!(
            (chat.said[1].made.as_slice(), chat.tool_names.as_slice()),
            (&[Hash::of("call_12345")][..], &[Hash::of("f")][..])
        );
        let responses = read(
            Dialect::OpenAiResponses,
            r#"{"model":"m","instructions":"s","input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"d"}]},
                {"type":"message","role":"user","content":[{"type":"input_text","text":"Hi there"}]},{"type":"reasoning","id":"rs_1"},
                {"type":"function_call","call_id":"call_abcdef","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"call_abcdef","output":"x"}],
                "previous_response_id":"resp_1"}"#,
        );
        let who: Vec<Who> = responses.said.iter().map(|spoken| spoken.who).collect();
        assert_eq!(who, [Who::User, Who::Model, Who::Model, Who::Tools]);
        assert_eq!((responses.title.as_deref(), responses.previous.as_deref()), (Some("Hi there"), Some("resp_1")));
        assert_eq!(read(Dialect::OpenAiResponses, r#"{"input":"Just so"}"#).title.as_deref(), Some("Just so"));
        let gemini = read(
            Dialect::Gemini,
            r#"{"contents":[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"role":"user","parts":[{"functionResponse":{"name":"f"}}]}],
                "tools":[{"functionDeclarations":[{"name":"f"},{"name":"g"}]}]}"#,
        );
        let who: Vec<Who> = gemini.said.iter().map(|spoken| spoken.who).collect();
        assert_eq!((who, gemini.tool_names.len()), (vec![Who::User, Who::Model, Who::Tools], 2));
        let claude = read(
            Dialect::Anthropic,
            r#"{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}],"metadata":{"user_id":"user_ab_account__session_0f6ac3d2-1111-2222-3333-444455556666"}}"#,
        );
        assert_eq!((claude.said[0].who, claude.named.as_deref()), (Who::Tools, Some("0f6ac3d2-1111-2222-3333-444455556666")));
        let other = read(
            Dialect::Anthropic,
            r#"{"messages":[],"metadata":{"user_id":"{\"session_id\":\"0f6ac3d2-1111-2222-3333-444455556666\"}"}}"#,
        );
        assert_eq!(other.named.as_deref(), Some("0f6ac3d2-1111-2222-3333-444455556666"));
        assert_eq!(read(Dialect::Anthropic, r#"{"metadata":{"user_id":"customer-17"}}"#).named, None);
        assert!(Conversation::read(Dialect::Anthropic, "[]").is_none());
    }

    #[test]
    fn ids_and_names() {
        let check = |text: &str, expect: bool| assert_eq!(is_id(text), expect, "{text}");
        check("0f6ac3d2-1111-2222-3333-444455556666", true);
        check("ses_6f2a91c0dffe1234", true);
        check("my-application-name", false);
        check("tenant-7", false);
        check("a b 0123456789012345", false);
    }
}
