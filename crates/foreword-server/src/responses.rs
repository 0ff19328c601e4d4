//! Responses that sessions gave, by their ids: clients of OpenAI's Responses look at them again. The newest are kept in memory.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use axum::Json;
use axum::http::Method;
use axum::response::{IntoResponse as _, Response};
use foreword_engine::session::Hash;
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::problem::{BAD_REQUEST, Problem};

/// Responses that are kept, and bytes of all of them.
const MOST: usize = 1000;
const BYTES: usize = 64 << 20;

/// A response and what it answers.
#[derive(Debug)]
struct Kept {
    owner: Option<Hash>,
    response: Value,
    input: Vec<Value>,
    bytes: usize,
}

/// The newest responses.
#[derive(Debug, Default)]
pub(crate) struct Responses(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    by_id: HashMap<String, Kept>,
    order: VecDeque<String>,
    bytes: usize,
}

impl Known {
    fn remove(&mut self, id: &str) {
        if let Some(gone) = self.by_id.remove(id) {
            self.bytes -= gone.bytes;
            self.order.retain(|one| one != id);
        }
    }
}

impl Responses {
    /// Keeps a response to some input.
    pub(crate) fn keep(&self, caller: &Caller, response: &Value, input: &Value) {
        let Some(id) = response["id"].as_str() else { return };
        let bytes = response.to_string().len() + input.to_string().len();
        if bytes > BYTES {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(id);
        let kept = Kept { owner: caller.owner(), response: response.clone(), input: items(id, input), bytes };
        known.by_id.insert(id.to_owned(), kept);
        known.order.push_back(id.to_owned());
        known.bytes += bytes;
        while known.order.len() > MOST || known.bytes > BYTES {
            let Some(oldest) = known.order.front().cloned() else { break };
            known.remove(&oldest);
        }
    }

    /// Answers a request for a response that is kept; none where it is not, or of someone else.
    pub(crate) fn answer(&self, caller: &Caller, method: &Method, path: &str) -> Option<Result<Response, Problem>> {
        let rest = path.strip_prefix("responses/")?;
        let (id, action) = rest.split_once('/').unwrap_or((rest, ""));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = known.by_id.get(id).filter(|kept| kept.owner == caller.owner())?;
        let answer = match (method.as_str(), action) {
            ("GET", "") => kept.response.clone(),
            ("GET", "input_items") => {
                let at = |item: Option<&Value>| item.map_or(Value::Null, |item| item["id"].clone());
                json!({"object": "list", "data": kept.input, "first_id": at(kept.input.first()), "last_id": at(kept.input.last()), "has_more": false})
            }
            ("DELETE", "") => {
                known.remove(id);
                json!({"id": id, "object": "response", "deleted": true})
            }
            ("POST", "cancel") => {
                let what = "only a response in the background can be cancelled; end the connection instead";
                return Some(Err(Problem::new(BAD_REQUEST, what)));
            }
            _ => return None,
        };
        Some(Ok(Json(answer).into_response()))
    }
}

/// The items of an input, each with an id, the newest first, as the API lists them.
fn items(response: &str, input: &Value) -> Vec<Value> {
    let text = |text: &str| vec![json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})];
    let mut items = input.as_str().map(text).or_else(|| input.as_array().cloned()).unwrap_or_default();
    for (at, item) in items.iter_mut().enumerate() {
        if let Some(item) = item.as_object_mut() {
            item.entry("id").or_insert_with(|| json!(format!("item_{response}_{at}")));
            item.entry("type").or_insert_with(|| json!("message"));
        }
    }
    items.reverse();
    items
}

#[cfg(test)]
mod tests {
    use foreword_gateway::Secret;

    use super::*;

    #[test]
    fn the_newest_are_kept_for_those_who_asked() {
        let (responses, us, other) = (Responses::default(), Caller::Known(None), Caller::OwnKey(Secret::new("sk-other")));
        for number in 0..=MOST {
            responses.keep(&us, &json!({"id": format!("resp_{number}"), "object": "response"}), &json!("Hi"));
        }
        let check = |caller: &Caller, method: Method, path: &str, expect: Option<u16>| {
            let found = responses.answer(caller, &method, path);
            let found = found.map(|found| found.map_or_else(|problem| problem.status, |response| response.status().as_u16()));
            assert_eq!(found, expect, "{method} {path}");
        };
        check(&us, Method::GET, "responses/resp_0", None);
        check(&us, Method::GET, "responses/resp_1", Some(200));
        check(&other, Method::GET, "responses/resp_1", None);
        check(&us, Method::GET, "responses/resp_1/input_items", Some(200));
        check(&us, Method::POST, "responses/resp_1/cancel", Some(400));
        check(&us, Method::GET, "responses/resp_1/other", None);
        check(&us, Method::DELETE, "responses/resp_1", Some(200));
        check(&us, Method::GET, "responses/resp_1", None);
        check(&us, Method::GET, "responses", None);
    }
}
