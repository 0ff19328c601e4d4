//! What a log says, whatever program wrote it: calls with their tokens, what happened between them, and the sizes of tool results.

use serde::{Deserialize, Serialize};

/// The program that wrote a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agent {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// `OpenCode`.
    #[serde(rename = "opencode")]
    OpenCode,
    /// Gemini CLI.
    GeminiCli,
    /// Qwen Code.
    QwenCode,
    /// goose.
    Goose,
    /// aider.
    Aider,
    /// The `llm` command.
    Llm,
    /// Pi.
    Pi,
    /// Copilot CLI.
    CopilotCli,
    /// Foreword's own store.
    Foreword,
}

impl Agent {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::ClaudeCode,
        Self::Codex,
        Self::OpenCode,
        Self::GeminiCli,
        Self::QwenCode,
        Self::Goose,
        Self::Aider,
        Self::Llm,
        Self::Pi,
        Self::CopilotCli,
        Self::Foreword,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
            Self::GeminiCli => "gemini-cli",
            Self::QwenCode => "qwen-code",
            Self::Goose => "goose",
            Self::Aider => "aider",
            Self::Llm => "llm",
            Self::Pi => "pi",
            Self::CopilotCli => "copilot-cli",
            Self::Foreword => "foreword",
        }
    }
}

/// Tokens by what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Prompt tokens that were neither read from the cache nor written to it.
    pub input: u64,
    /// Read from the cache.
    pub cache_read: u64,
    /// Written for five minutes, or for the provider's only lifetime.
    pub cache_write_5m: u64,
    /// Written for an hour.
    pub cache_write_1h: u64,
    /// Of the reply, reasoning included.
    pub output: u64,
}

impl Tokens {
    /// The whole prompt.
    pub fn prompt(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.written())
    }

    /// Written to the cache, for whatever lifetime.
    pub fn written(&self) -> u64 {
        self.cache_write_5m.saturating_add(self.cache_write_1h)
    }

    /// Whether nothing was counted.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl std::ops::AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write_5m = self.cache_write_5m.saturating_add(other.cache_write_5m);
        self.cache_write_1h = self.cache_write_1h.saturating_add(other.cache_write_1h);
        self.output = self.output.saturating_add(other.output);
    }
}

/// What a request answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Words of the user.
    #[default]
    User,
    /// Results of tools.
    Tool,
}

/// Why the provider itself says that a prompt was not read from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The tool list changed.
    Tools,
    /// The system prompt changed.
    System,
    /// Earlier messages changed.
    Messages,
    /// The entry was gone.
    Gone,
    /// Another model, or another effort.
    Model,
}

/// What the log shows between two calls of a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signs(u16);

impl Signs {
    /// The history was replaced by a summary, or old tool results were cleared.
    pub const COMPACTED: Self = Self(1);
    /// The tool list changed, or was about to: deferred tools were loaded, plugins were reloaded.
    pub const TOOLS: Self = Self(1 << 1);
    /// A skill ran: some change tools or model.
    pub const SKILL: Self = Self(1 << 2);
    /// Planning began or ended.
    pub const PLAN: Self = Self(1 << 3);
    /// Another process went on with the session.
    pub const RESUMED: Self = Self(1 << 4);
    /// An image joined the prompt.
    pub const IMAGE: Self = Self(1 << 5);
    /// The conversation went on from an earlier point.
    pub const REWOUND: Self = Self(1 << 6);
    /// The user changed what stands in front of the conversation.
    pub const SYSTEM: Self = Self(1 << 7);
    /// The reply before was interrupted.
    pub const INTERRUPTED: Self = Self(1 << 8);

    /// Adds another.
    pub fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether it is there.
    pub fn has(self, sign: Self) -> bool {
        self.0 & sign.0 != 0
    }

    /// Whether there is any.
    pub fn any(self) -> bool {
        self.0 != 0
    }
}

/// A name in [`FileLog::names`].
pub type Name = u32;

/// One request to a model, or the sum of several where a log has no more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// A hash of its identity, by which copies of it in other files are recognised; 0 where it has none.
    pub id: u64,
    /// The first line of the log that tells of it, from 1; a row's number in a database.
    pub line: u32,
    /// The main thread (`main`) or a sub-agent.
    pub chain: Name,
    /// The model.
    pub model: Name,
    /// The program's version.
    pub version: Name,
    /// The reasoning effort.
    pub effort: Name,
    /// When what it answers was there, in milliseconds since 1970.
    pub start_ms: i64,
    /// When the reply was complete.
    pub end_ms: i64,
    /// What it took.
    pub tokens: Tokens,
    /// The part of the output that was reasoning, where the log says it.
    pub reasoning: u64,
    /// What it answers.
    pub asked: Trigger,
    /// What stands between the call before it and this one.
    pub signs: Signs,
    /// The line of the first of those signs.
    pub sign_line: u32,
    /// The provider's own reason for a miss.
    pub verdict: Option<Verdict>,
    /// Characters of the user and of other messages that joined the prompt with it.
    pub user_chars: u64,
    /// How many calls it is the sum of.
    pub count: u32,
    /// What is charged, in hundredths of the list price (a batch is 50, a regional endpoint 110).
    pub percent: u16,
    /// Whether its output is only what the stream began with, so that it is too small.
    pub output_partial: bool,
    /// Whether the log counts it again although it was another session's.
    pub copied: bool,
}

/// What a tool gave back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call whose prompt it joined, by its place in [`FileLog::calls`].
    pub call: u32,
    /// The tool.
    pub tool: Name,
    /// Its size in bytes of text.
    pub chars: u64,
}

/// How the lines of a log were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    /// All of them; rows or messages where the log has no lines.
    pub read: u64,
    /// Those that were not valid JSON and could be mended.
    pub mended: u64,
    /// Those that could not be read.
    pub skipped: u64,
}

impl std::ops::AddAssign for Lines {
    fn add_assign(&mut self, other: Self) {
        self.read += other.read;
        self.mended += other.mended;
        self.skipped += other.skipped;
    }
}

/// One session as one file, or one part of a database, tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileLog {
    /// Who wrote it.
    pub agent: Agent,
    /// The session's name.
    pub session: String,
    /// The file.
    pub file: String,
    /// Whether this is a sub-agent's file, which belongs to the session's main one.
    pub part: bool,
    /// The folder that the session worked in.
    pub project: String,
    /// Names that the calls point to; the first is empty.
    pub names: Vec<String>,
    /// The calls, in the order of the log.
    pub calls: Vec<Call>,
    /// What tools gave back.
    pub results: Vec<ToolResult>,
    /// How it was read.
    pub lines: Lines,
}

impl FileLog {
    /// An empty one.
    pub fn new(agent: Agent, session: impl Into<String>, file: impl Into<String>) -> Self {
        Self {
            agent,
            session: session.into(),
            file: file.into(),
            part: false,
            project: String::new(),
            names: vec![String::new()],
            calls: Vec::new(),
            results: Vec::new(),
            lines: Lines::default(),
        }
    }

    /// The text of a name.
    pub fn name(&self, name: Name) -> &str {
        usize::try_from(name).ok().and_then(|at| self.names.get(at)).map_or("", String::as_str)
    }

    /// The place of a name, which is added where it is new. A log with more names than anyone has is cut off.
    pub fn intern(&mut self, text: &str) -> Name {
        /// Longer names are cut.
        const LONGEST: usize = 200;
        /// Names beyond so many are all the same.
        const MOST: usize = 4_000;
        let text = text.get(..text.floor_char_boundary(LONGEST.min(text.len()))).unwrap_or_default();
        // Logs name the same few things again and again: the newest first.
        if let Some(at) = self.names.iter().rposition(|name| name == text) {
            return u32::try_from(at).unwrap_or_default();
        }
        if self.names.len() >= MOST {
            return 0;
        }
        self.names.push(text.to_owned());
        u32::try_from(self.names.len() - 1).unwrap_or_default()
    }
}

impl Default for Call {
    fn default() -> Self {
        Self {
            id: 0,
            line: 0,
            chain: 0,
            model: 0,
            version: 0,
            effort: 0,
            start_ms: 0,
            end_ms: 0,
            tokens: Tokens::default(),
            reasoning: 0,
            asked: Trigger::User,
            signs: Signs::default(),
            sign_line: 0,
            verdict: None,
            user_chars: 0,
            count: 1,
            percent: 100,
            output_partial: false,
            copied: false,
        }
    }
}

/// A hash that is the same in every run: identities are compared by it.
pub fn hash(text: &str) -> u64 {
    // FNV-1a, and a final mix so that ids which differ in their last letter differ everywhere.
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    state ^= state >> 32;
    state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (state ^ (state >> 29)).max(1)
}

/// Milliseconds since 1970 of a time as logs write it; none where it is no time.
pub fn time_ms(text: &str) -> Option<i64> {
    quick_ms(text).or_else(|| text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond))
}

/// `2026-04-24T16:50:12.785Z`, which nearly all of them are.
fn quick_ms(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let digits = |from: usize, to: usize| -> Option<i64> {
        bytes.get(from..to)?.iter().try_fold(0_i64, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
    };
    if bytes.len() < 20 || bytes[4] != b'-' || bytes[7] != b'-' || bytes[10] != b'T' || bytes[13] != b':' || bytes[16] != b':' {
        return None;
    }
    let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
    let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let milli = match (bytes[19], bytes.len()) {
        (b'Z', 20) => 0,
        (b'.', 24) if bytes[23] == b'Z' => digits(20, 23)?,
        (b'.', 27) if bytes[26] == b'Z' => digits(20, 26)? / 1000,
        _ => return None,
    };
    // Days since 1970, counted from March so that the leap day is the last of its year.
    let (y, m) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * y + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400) + (153 * m + 2) / 5 + day - 1 - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + milli)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for text in [
            "2026-04-24T16:50:12.785Z",
            "2024-02-29T00:00:00Z",
            "2000-03-01T23:59:59.123456Z",
            "1999-12-31T23:59:59.000Z",
            "2026-04-24T16:50:12.785+02:00",
        ] {
            let expect = text.parse::<jiff::Timestamp>().unwrap().as_millisecond();
            assert_eq!(time_ms(text), Some(expect), "{text}");
        }
        for text in ["", "yesterday", "2026-13-01T00:00:00Z", "2026-04-24"] {
            assert_eq!(time_ms(text), None, "{text}");
        }
    }

    #[test]
    fn names_are_kept_once() {
        let mut log = FileLog::new(Agent::Codex, "s", "f");
        assert_eq!([log.intern("a"), log.intern("b"), log.intern("a"), log.intern("")], [1, 2, 1, 0]);
    }
}
