//! A client's request in three APIs: whatever the body says, it is read or refused; and an answer with its words and calls is read by our
//! own reader of the same API as it was meant.

#![no_main]

use foreword_core::message::ToolCall;
use foreword_provider::front::{Asked, ClientApi, ClientMessage, End, FinishedAnswer, ResponseWriter};
use foreword_provider::reply::{Form, Reader, Reply};
use serde_json::Value;

const MAX: usize = 1 << 24;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(body) = serde_json::from_slice::<Value>(data) else { return };
    for front in [ClientApi::Chat, ClientApi::Responses, ClientApi::Messages] {
        if let Ok(asked) = front.read(body.clone()) {
            for teller in [ClientApi::Chat, ClientApi::Responses, ClientApi::Messages] {
                tell(teller, &asked);
                let _ = front.along(teller.dialect(), &asked.extra);
            }
        }
    }
});

fn tell(front: ClientApi, asked: &Asked) {
    let (mut text, mut calls) = (String::new(), Vec::new());
    for said in &asked.said {
        match said {
            ClientMessage::User(words) => text.push_str(words),
            ClientMessage::Assistant { text: more, calls: made } => {
                text.push_str(more);
                calls.extend(made.iter().map(|call| ToolCall {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    arguments: call.arguments.clone(),
                }));
            }
            ClientMessage::Result { output, .. } => text.push_str(output),
        }
    }
    let end = if calls.is_empty() { End::Done } else { End::Calls };
    let told = FinishedAnswer { text: &text, calls: &calls, end, cached: (1, 1), prompt: 9, output: 3, reasoning: 0 };
    let mut teller = ResponseWriter::new(front, "s-1", &asked.model, 1, true);
    let mut stream = teller.begin(9);
    let (first, rest) = text.split_at(text.floor_char_boundary(text.len() / 2));
    for part in [first, rest].into_iter().filter(|part| !part.is_empty()) {
        stream += &teller.part(part);
    }
    stream += &teller.end(&told);
    let whole = ResponseWriter::new(front, "s-1", &asked.model, 1, true).whole(&told).to_string();
    for (form, bytes) in [(Form::Stream, stream), (Form::Whole, whole)] {
        let mut reader = Reader::new(front.dialect(), form, MAX);
        reader.push(bytes.as_bytes()).expect("what was told can be read");
        reader.finish().expect("what was told has an end");
        let reply: Reply = std::iter::from_fn(|| reader.next_event()).collect();
        assert_eq!(reply.text(), text, "{front:?} {form:?}");
    }
}
