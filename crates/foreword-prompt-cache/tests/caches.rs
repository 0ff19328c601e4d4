//! The cache simulators against the vectors in providers' own words, and the places where a cache breaks.

#![allow(clippy::unwrap_used, clippy::panic)] // a test says what it expects by failing

#[path = "../../foreword-provider/tests/common/mod.rs"]
mod common;

use std::sync::Arc;

use common::{calls, model, model_says, no_tools, notice, plan, prompt, result, sized, system, user, user_sized};
use foreword_core::item::ItemId;
use foreword_core::layer::LayerId;
use foreword_core::message::{Message, Origin, Role};
use foreword_core::prompt::{ToolPlan, ToolStyle};
use foreword_prompt_cache::CacheSim;
use foreword_provider::diagnose::first_break;
use foreword_provider::dialect::Dialect;
use foreword_provider::render::{BodyOptions, Renderer, body};
use foreword_provider::stream::{PromptStream, Ttl, common_prefix};
use serde_json::json;

/// One request: seconds on the clock, the messages, how many are settled; then what is read, written and neither.
type Step<'a> = (u64, &'a [Arc<Message>], usize, [u64; 3]);

fn check_with(options: &BodyOptions, dialect: Dialect, name: &str, steps: &[Step<'_>]) {
    let model = model(name);
    let tools = no_tools();
    let mut sim = CacheSim::new();
    let mut renderer = Renderer::new(dialect);
    for (index, (now, messages, settled, expect)) in steps.iter().enumerate() {
        let body = renderer.render(&model, &prompt(messages, &tools, *settled), options);
        let used = sim.request(*now, &body.prompt, &model);
        let found = [used.read.0, used.write.0, used.uncached.0];
        assert_eq!(found, *expect, "{name}, request {index}");
    }
}

fn check(dialect: Dialect, name: &str, steps: &[Step<'_>]) {
    check_with(&BodyOptions::default(), dialect, name, steps);
}

fn said(text: &str, tokens: u64) -> Arc<Message> {
    Arc::new(Message::text(Role::Assistant, vec![sized(LayerId::L4, Origin::Model, text, tokens)]))
}

fn later(text: &str, tokens: u64) -> Arc<Message> {
    let piece = sized(LayerId::L4, Origin::Engine("notice"), text, tokens);
    Arc::new(Message::text(Role::System, vec![piece]))
}

#[test]
fn openai_breakpoints() {
    let (a, b, c) = (user_sized("a", 12_000), said("b", 1_000), user_sized("c", 2_000));
    let one = [Arc::clone(&a)];
    let two = [Arc::clone(&a), b, c];
    let sol = |steps: &[Step<'_>]| check(Dialect::OpenAiResponses, "gpt-6.1-sol", steps);
    // The guide's own example.
    sol(&[(0, &one, 1, [0, 12_000, 0]), (60, &two, 3, [12_000, 3_000, 0])]);
    // Reuse refreshes; half an hour without any ends it.
    sol(&[
        (0, &one, 1, [0, 12_000, 0]),
        (1_799, &one, 1, [12_000, 0, 0]),
        (3_500, &one, 1, [12_000, 0, 0]),
        (5_300, &one, 1, [0, 12_000, 0]),
    ]);
    // Too short to be kept.
    let short = [user_sized("a", 1_023)];
    sol(&[(0, &short, 1, [0, 0, 1_023]), (1, &short, 1, [0, 0, 1_023])]);
    // A tail behind the last message end stays out.
    let tail = [user_sized("a", 7_537), later("z", 3)];
    sol(&[(0, &tail, 2, [0, 7_537, 3]), (1, &tail, 2, [7_537, 0, 3])]);
    // A message that grew has lost its end.
    let grown = [user_sized("aa", 13_000)];
    sol(&[(0, &one, 1, [0, 12_000, 0]), (1, &grown, 1, [0, 13_000, 0])]);
    // Twenty earlier ends are looked at, not more.
    for (extra, read) in [(20, 12_000), (21, 0)] {
        let mut many = vec![Arc::clone(&a)];
        many.extend((0..extra).map(|index| user_sized(&format!("m{index}"), 10)));
        let total = 12_000 + 10 * extra;
        sol(&[(0, &one, 1, [0, 12_000, 0]), (1, &many, many.len(), [read, total - read, 0])]);
    }
    // Where the last message will change, the words before it carry a mark of their own and are found however far back.
    let mut settled = vec![Arc::clone(&a)];
    settled.extend((0..30).map(|index| user_sized(&format!("m{index}"), 10)));
    sol(&[(0, &one, 1, [0, 12_000, 0]), (1, &settled, 1, [12_000, 300, 0])]);
    // Another model is another cache.
    let (sol, luna) = (model("gpt-6.1-sol"), model("gpt-6-luna"));
    let tools = no_tools();
    let stream = body(Dialect::OpenAiChat, &sol, &prompt(&one, &tools, 1), &BodyOptions::default()).prompt;
    let mut sim = CacheSim::new();
    assert_eq!(sim.request(0, &stream, &sol).read.0, 0);
    assert_eq!(sim.request(0, &stream, &luna).read.0, 0);
    assert_eq!(sim.request(0, &stream, &sol).read.0, 12_000);
}

#[test]
fn openai_breakpoint_on_l1_survives_a_changed_library() {
    let system = |note: &str| {
        Arc::new(Message::text(
            Role::System,
            vec![
                sized(LayerId::L1, Origin::Engine("system_prompt"), "L1", 2_000),
                sized(LayerId::L2, Origin::Item(ItemId::note("a.md")), note, 1_000),
            ],
        ))
    };
    let (before, after) = ([system("x"), user_sized("q", 100)], [system("y"), user_sized("r", 100)]);
    check(Dialect::OpenAiResponses, "gpt-6.1-sol", &[(0, &before, 1, [0, 3_100, 0]), (1, &after, 1, [2_000, 1_100, 0])]);
}

#[test]
fn openai_before_breakpoints() {
    let a = user_sized("a", 5_000);
    let one = [Arc::clone(&a)];
    let two = [Arc::clone(&a), said("b", 100), user_sized("c", 100)];
    check(Dialect::OpenAiChat, "gpt-5.5", &[(0, &one, 1, [0, 0, 5_000]), (1, &two, 1, [4_096, 0, 1_104])]);
    check(Dialect::OpenAiChat, "gpt-5.4", &[(0, &one, 1, [0, 0, 5_000]), (1, &two, 1, [4_992, 0, 208])]);
    check(Dialect::OpenAiChat, "gpt-5.4", &[(0, &one, 1, [0, 0, 5_000]), (1_800, &two, 1, [0, 0, 5_200])]);
    let short = [user_sized("a", 1_000)];
    check(Dialect::OpenAiChat, "gpt-5.4", &[(0, &short, 1, [0, 0, 1_000]), (1, &short, 1, [0, 0, 1_000])]);
}

#[test]
fn gemini_deepseek_llamacpp_vllm() {
    let a = user_sized("a", 5_001);
    let one = [Arc::clone(&a)];
    let two = [Arc::clone(&a), said("b", 9), user_sized("c", 10)];
    let cold = [user_sized("z", 100)];
    check(Dialect::Gemini, "gemini-3.8-flash", &[(0, &one, 1, [0, 0, 5_001]), (1, &two, 1, [5_001, 0, 19])]);
    let short = [user_sized("a", 4_000)];
    check(Dialect::Gemini, "gemini-3.8-flash", &[(0, &short, 1, [0, 0, 4_000]), (1, &short, 1, [0, 0, 4_000])]);
    check(Dialect::Gemini, "gemini-2.5-pro", &[(0, &short, 1, [0, 0, 4_000]), (1, &short, 1, [4_000, 0, 0])]);
    check(Dialect::OpenAiChat, "deepseek-chat", &[(0, &one, 1, [0, 0, 5_001]), (1, &two, 1, [4_992, 0, 28])]);
    check(
        Dialect::LlamaCpp,
        "llama.cpp",
        &[
            (0, &one, 1, [0, 0, 5_001]),
            (1, &one, 1, [5_000, 0, 1]), // one token is always evaluated
            (90_000, &two, 1, [5_001, 0, 19]),
            (90_001, &cold, 1, [0, 0, 100]), // the only slot is taken over
            (90_002, &two, 1, [0, 0, 5_020]),
        ],
    );
    // The same with what the template writes: 5 tokens around a user's message, 6 around the model's, 4 where it is to go on.
    check(
        Dialect::LlamaCpp,
        "smollm2-135m-instruct",
        &[
            (0, &one, 1, [0, 0, 5_010]),
            (1, &one, 1, [5_009, 0, 1]),
            (2, &two, 1, [5_010, 0, 30]),
            (3, &[Arc::clone(&a), said("b", 9), user_sized("d", 10)], 1, [5_024, 0, 16]), // up to where the user speaks
            (4, &cold, 1, [3, 0, 106]),
        ],
    );
    check(
        Dialect::LlamaCpp,
        "vllm",
        &[(0, &one, 1, [0, 0, 5_001]), (1, &two, 1, [4_992, 0, 28]), (2, &cold, 1, [0, 0, 100]), (3, &two, 1, [5_008, 0, 12])],
    );
    let full = [user_sized("b", 32)];
    check(Dialect::LlamaCpp, "vllm", &[(0, &full, 1, [0, 0, 32]), (1, &full, 1, [16, 0, 16])]);
}

#[test]
fn gemini_explicit() {
    let messages = [system("word", &[]), user_sized("a", 50)];
    let tools = plan(ToolStyle::Native, &["read"], &[]);
    let model = model("gemini-3.8-flash");
    let options = BodyOptions { cached_content: Some("cachedContents/x".into()), ..BodyOptions::default() };
    let body = body(Dialect::Gemini, &model, &prompt(&messages, &tools, 1), &options);
    let used = CacheSim::new().request(0, &body.prompt, &model);
    assert_eq!((used.read.0, used.uncached.0), (21, 50));
}

#[test]
fn anthropic() {
    let claude = |steps: &[Step<'_>]| check(Dialect::Anthropic, "claude-opus-5-5", steps);
    let a = user_sized("a", 600);
    let one = [Arc::clone(&a)];
    let two = [Arc::clone(&a), said("b", 100), user_sized("c", 100)];
    claude(&[(0, &one, 1, [0, 600, 0]), (1, &two, 3, [600, 200, 0])]);
    // Only what is settled is marked.
    claude(&[(0, &two, 1, [0, 600, 200]), (1, &two, 1, [600, 0, 200])]);
    // Five minutes and ten seconds from the last use: what logged calls show.
    claude(&[(0, &one, 1, [0, 600, 0]), (309, &one, 1, [600, 0, 0]), (598, &one, 1, [600, 0, 0]), (908, &one, 1, [0, 600, 0])]);
    // Below the minimum neither counter moves, and there is no error.
    let short = [user_sized("a", 511)];
    claude(&[(0, &short, 1, [0, 0, 511]), (1, &short, 1, [0, 0, 511])]);
    let haiku = |steps: &[Step<'_>]| check(Dialect::Anthropic, "claude-haiku-4-5", steps);
    let (below, enough) = ([user_sized("a", 4_095)], [user_sized("a", 4_096)]);
    haiku(&[(0, &below, 1, [0, 0, 4_095]), (1, &below, 1, [0, 0, 4_095])]);
    haiku(&[(0, &enough, 1, [0, 4_096, 0]), (1, &enough, 1, [4_096, 0, 0])]);
}

#[test]
fn anthropic_walks_back_twenty_positions() {
    let start = user_sized("a", 600);
    let one = [Arc::clone(&start)];
    for (extra, read) in [(19, 600), (20, 0)] {
        let mut many = vec![Arc::clone(&start)];
        many.extend((0..extra).map(|index| user_sized(&format!("m{index}"), 10)));
        let (len, total) = (many.len(), 600 + 10 * extra);
        check(Dialect::Anthropic, "claude-opus-5-5", &[(0, &one, 1, [0, 600, 0]), (1, &many, len, [read, total - read, 0])]);
    }
    // Thirty calls at once are one position, and so are their thirty results.
    let ids: Vec<String> = (0..30).map(|index| format!("c{index}")).collect();
    let asked: Vec<_> = ids.iter().map(|id| (id.as_str(), "read", json!({}))).collect();
    let mut many = vec![Arc::clone(&start), calls("", &asked)];
    many.extend(ids.iter().map(|id| result(id, "out.")));
    let len = many.len();
    check(Dialect::Anthropic, "claude-opus-5-5", &[(0, &one, 1, [0, 600, 0]), (1, &many, len, [600, 330, 0])]);
}

#[test]
fn anthropic_lifetimes_are_billed_apart() {
    let system = Arc::new(Message::text(Role::System, vec![sized(LayerId::L1, Origin::Engine("system_prompt"), "L1", 1_000)]));
    let messages = [system, user_sized("a", 500)];
    let options = BodyOptions { ttl: Ttl::Long, ..BodyOptions::default() };
    let model = model("claude-opus-5-5");
    let tools = no_tools();
    let stream = body(Dialect::Anthropic, &model, &prompt(&messages, &tools, 2), &options).prompt;
    let mut sim = CacheSim::new();
    let mut send = |now| {
        let used = sim.request(now, &stream, &model);
        [used.read.0, used.write.0, used.write_long.0, used.uncached.0]
    };
    assert_eq!(send(0), [0, 1_500, 1_000, 0]);
    assert_eq!(send(299), [1_500, 0, 0, 0]);
    // The messages are gone, the system is not.
    assert_eq!(send(3_000), [1_000, 500, 0, 0]);
    assert_eq!(send(7_000), [0, 1_500, 1_000, 0]);
}

fn stream(dialect: Dialect, messages: &[Arc<Message>], tools: &ToolPlan) -> PromptStream {
    common::render(dialect, &common::default_name(dialect), messages, tools).prompt
}

/// Where `after` stops continuing `before`: bytes, path, what is there now, tokens lost.
fn broken(dialect: Dialect, before: &[Arc<Message>], after: &[Arc<Message>]) -> Option<(usize, String, String, u64)> {
    let tools = no_tools();
    first_break(&stream(dialect, before, &tools), &stream(dialect, after, &tools)).map(|found| {
        let origin = match found.current_origin {
            Some(Origin::Item(id)) => id.to_string(),
            Some(other) => format!("{other:?}"),
            None => "the end".to_owned(),
        };
        (found.at_byte, found.path.to_string(), origin, found.tokens_lost.0)
    })
}

#[test]
fn a_continued_prompt_has_no_break() {
    let all = [
        system("Be brief.", &[("a.md", "aaaa")]),
        user("one"),
        calls("see", &[("c", "read", json!({}))]),
        result("c", "out"),
        notice("rule"),
        model_says("noted"),
        user("two"),
        model_says("three"),
    ];
    for dialect in Dialect::ALL {
        // From the first words on: a request without any gets a filler in some dialects.
        for len in 2..all.len() {
            assert_eq!(broken(dialect, &all[..len], &all[..=len]), None, "{dialect} {len}");
        }
    }
}

#[test]
fn breaks_are_found_to_the_byte() {
    let talk = |notes: &[(&str, &str)]| vec![system("12345678", notes), user("question"), model_says("answer")];
    let check = |dialect, before: &[(&str, &str)], after: &[(&str, &str)], expect: (usize, &str, &str, u64)| {
        let found = broken(dialect, &talk(before), &talk(after)).unwrap();
        assert_eq!((found.0, found.1.as_str(), found.2.as_str(), found.3), expect);
    };
    let heading = "\n\n## Context Library\n\n".len();
    let (a, b) = (("a.md", "aaaaaaaa"), ("b.md", "bbbb"));
    // The library grew: what follows it is lost.
    check(Dialect::OpenAiChat, &[a], &[a, b], (16 + heading, "messages[0].content", "Engine(\"join\")", 4));
    check(Dialect::Anthropic, &[a], &[a, b], (16 + heading, "system[2].text", "Engine(\"join\")", 4));
    // A note changed in its middle: half of its two tokens are kept.
    check(Dialect::OpenAiChat, &[a], &[("a.md", "aaaaXaaa")], (12 + heading, "messages[0].content", "note:a.md", 5));
    check(Dialect::Gemini, &[a], &[("a.md", "aaaaXaaa")], (12 + heading, "systemInstruction.parts[0].text", "note:a.md", 5));
    // The library went away.
    check(Dialect::OpenAiChat, &[a], &[], (8, "messages[1].content", "User", 12));
    // A shorter conversation.
    let all = talk(&[]);
    let found = broken(Dialect::OpenAiResponses, &all, &all[..2]).unwrap();
    assert_eq!((found.1.as_str(), found.2.as_str()), ("input[2].content[0].text", "the end"));
    // A changed tool costs everything.
    let before = stream(Dialect::OpenAiChat, &all, &plan(ToolStyle::Native, &["a", "b"], &[]));
    let after = stream(Dialect::OpenAiChat, &all, &plan(ToolStyle::Native, &["a", "c"], &[]));
    let found = first_break(&before, &after).unwrap();
    assert_eq!(found.path.to_string(), "tools[1]");
    assert_eq!(found.origin, Origin::Item(ItemId::tool("fs", "b")));
}

#[test]
fn equal_text_in_other_pieces_is_equal() {
    let whole = user("abcdefgh");
    let mut parts = Message::clone(&whole);
    let piece = |text: &str| sized(LayerId::L5, Origin::User, text, 1);
    parts.pieces = vec![piece("abc"), piece("defgh")];
    let tools = no_tools();
    for dialect in Dialect::ALL {
        let (a, b) = (stream(dialect, &[Arc::clone(&whole)], &tools), stream(dialect, &[Arc::new(parts.clone())], &tools));
        let prefix = common_prefix(&a, &b);
        assert_eq!((prefix.bytes, prefix.previous, prefix.current), (8, None, None));
    }
}
