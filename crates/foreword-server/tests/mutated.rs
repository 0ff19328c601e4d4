//! Requests to the gateway that are almost right: each is answered, or refused in the client's words.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::cast_possible_truncation)]

mod common;

use common::Running;
use foreword_server::Limits;
use serde_json::{Value, json};

const SCRIPT: &str = r#"{"replies": [
    {"text": "First answer."},
    {"text": "Let me look.", "calls": [{"id": "c1", "name": "read", "arguments": {"path": "a"}}]}
]}"#;

/// The same numbers each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }
}

fn bodies() -> [(&'static str, Value); 3] {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"path\": \"a\"}"}});
    let function = json!({"name": "read", "description": "Reads.", "parameters": {"type": "object", "properties": {}}});
    [
        (
            "/v1/chat/completions",
            json!({
                "model": "foreword", "max_tokens": 99, "temperature": 0.5, "tool_choice": "auto", "stream": false,
                "tools": [{"type": "function", "function": function}],
                "messages": [
                    {"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
                    {"role": "assistant", "content": null, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "c1", "content": "text"}, {"role": "user", "content": "And?"},
                ],
            }),
        ),
        (
            "/v1/responses",
            json!({
                "model": "foreword", "max_output_tokens": 99, "instructions": "Be brief.", "store": false, "stream": false,
                "tools": [{"type": "function", "name": "read", "parameters": {"type": "object"}}],
                "input": [
                    {"role": "user", "content": "Hi"}, {"type": "reasoning", "id": "rs", "summary": []},
                    {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "c1", "output": "text"}, {"role": "user", "content": "And?"},
                ],
            }),
        ),
        (
            "/v1/messages",
            json!({
                "model": "foreword", "max_tokens": 99, "system": [{"type": "text", "text": "Be brief."}], "stream": true,
                "tools": [{"name": "read", "input_schema": {"type": "object"}}], "stop_sequences": ["x"],
                "messages": [
                    {"role": "user", "content": "Hi"},
                    {"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "text"}, {"type": "text", "text": "And?"}]},
                ],
            }),
        ),
    ]
}

/// Something that hardly belongs where it is put.
fn odd(dice: &mut Dice) -> Value {
    match dice.roll(12) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(u64::MAX),
        4 => json!(1e300),
        5 => json!(""),
        6 => json!("\u{0}\u{1b}[31m\u{202e}</tool_result>"),
        7 => json!("long ".repeat(4000)),
        8 => json!([]),
        9 => json!({}),
        10 => json!([[[{"type": "image", "role": "king", "content": [null]}]]]),
        _ => json!({"type": "text", "text": {"type": "text"}, "id": 5, "name": [], "arguments": "{"}),
    }
}

/// Changes one place of a value.
fn mutate(value: &mut Value, dice: &mut Dice) {
    match value {
        Value::Array(list) if !list.is_empty() && dice.roll(8) > 0 => {
            let at = dice.roll(list.len());
            match dice.roll(8) {
                0 => drop(list.remove(at)),
                1 => list.insert(at, list[at].clone()),
                2 => list.insert(at, odd(dice)),
                3 => list.reverse(),
                _ => mutate(&mut list[at], dice),
            }
        }
        Value::Object(map) if !map.is_empty() && dice.roll(8) > 0 => {
            let name = map.keys().nth(dice.roll(map.len())).unwrap().clone();
            match dice.roll(8) {
                0 => drop(map.remove(&name)),
                1 => drop(map.insert(format!("{name}_x"), odd(dice))),
                2 => {
                    let moved = map.remove(&name).unwrap();
                    map.insert(["content", "input", "role", "messages", "previous_response_id"][dice.roll(5)].to_owned(), moved);
                }
                _ => mutate(map.get_mut(&name).unwrap(), dice),
            }
        }
        _ => *value = odd(dice),
    }
}

/// Changes some bytes, which then are not always JSON or UTF-8.
fn break_bytes(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.roll(3) {
        let at = dice.roll(bytes.len());
        match dice.roll(4) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, dice.roll(256) as u8),
            2 => bytes.splice(at..at, std::iter::repeat_n(b'[', 200)).for_each(drop),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.roll(8);
                }
            }
        }
    }
}

#[test]
fn whatever_comes_is_answered_or_refused_in_the_clients_words() {
    const THREADS: u64 = 4;
    const EACH: usize = 500;
    let server = Running::with(SCRIPT, common::loopback(), Limits::default());
    std::thread::scope(|scope| {
        for seed in 1..=THREADS {
            let server = &server;
            scope.spawn(move || {
                let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                for round in 0..EACH {
                    let (path, mut body) = bodies()[dice.roll(3)].clone();
                    for _ in 0..=dice.roll(4) {
                        mutate(&mut body, &mut dice);
                    }
                    let mut bytes = body.to_string().into_bytes();
                    if dice.roll(4) == 0 {
                        break_bytes(&mut bytes, &mut dice);
                    }
                    let mode = ["", "x-foreword-mode: session\r\n", "x-foreword-mode: pass-through\r\n"][dice.roll(3)];
                    let head = format!(
                        "POST {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{}{mode}content-length: {}\r\n\r\n",
                        server.address,
                        common::AUTHORIZED,
                        bytes.len()
                    );
                    let reply = server.raw(&[head.as_bytes(), &bytes].concat());
                    let told =
                        || format!("{seed}/{round} {path}: {} {}\n{}", reply.status, reply.body, String::from_utf8_lossy(&bytes));
                    assert!((200..500).contains(&reply.status), "{}", told());
                    if reply.status >= 400 {
                        let message = reply.json().pointer("/error/message").and_then(Value::as_str).map(str::len);
                        assert!(message.is_some_and(|len| len > 0), "{}", told());
                    }
                }
            });
        }
    });
    // And it still works.
    let (path, body) = bodies()[0].clone();
    assert_eq!(server.call("POST", path, Some(&body)).status, 200);
}
