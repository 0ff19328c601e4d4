//! Requests that are passed on untouched: to whom, on record before they go, and what they cost read from the answer as it goes by.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use foreword_core::tokens::Tokens;
use foreword_provider::client::{Bytes, Client, Forwarded, HeaderMap, HeaderName, HeaderValue, Secret, SendError, Untouched};
use foreword_provider::cost::{cost, output_cost, uncached_cost};
use foreword_provider::dialect::Dialect;
use foreword_provider::front::Front;
use foreword_provider::model::Model;
use foreword_provider::reply::Reader;
use foreword_store::{Answered, NewForwarded, Shared, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::record::Recorder;
use crate::config::Config;

/// Names of models that are remembered: clients choose them.
const NAMES: usize = 256;

/// The longest name of a model.
const LONGEST_NAME: usize = 256;

/// An answer of more bytes is not read for what it cost.
const READ: usize = 32 << 20;

/// Names of a client that must name a model and does not care.
pub fn is_any_model(name: &str) -> bool {
    matches!(name, "foreword" | "default")
}

/// Where a model's requests go.
#[derive(Debug)]
pub struct Route {
    /// None where the model runs in this process.
    client: Option<Arc<Client>>,
    model: Model,
    /// The provider's name for the model, where the client's is one that only Foreword knows.
    wire: Option<String>,
}

impl Route {
    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Who speaks to its provider; none where the model runs in this process.
    pub fn client(&self) -> Option<&Arc<Client>> {
        self.client.as_ref()
    }

    /// Whether requests in that API can be passed on there; else why not.
    pub fn takes(&self, front: Front) -> Result<(), String> {
        let Some(client) = &self.client else {
            return Err(format!("the model {} runs in this process, not at a provider", self.model.name));
        };
        let dialect = client.dialect();
        let openai = matches!(dialect, Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::LlamaCpp);
        // Who speaks one of OpenAI's APIs is asked in both: it says itself where it does not have it.
        if front.is_spoken_in(dialect) || (openai && front != Front::Messages) {
            return Ok(());
        }
        Err(format!("the provider of {} speaks another API ({dialect})", self.model.name))
    }
}

/// A client's request.
#[derive(Debug)]
pub struct Given {
    /// The API it is in.
    pub front: Front,
    /// Its bytes.
    pub body: Bytes,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its own key, which is used in place of ours.
    pub key: Option<Secret>,
    /// The session it names.
    pub session: Option<String>,
}

/// Passes requests on.
#[derive(Debug)]
pub struct Forwarder {
    recorder: Recorder,
    /// By the name that a client has for the model.
    routes: Mutex<BTreeMap<String, Arc<Route>>>,
}

impl Forwarder {
    /// With a store to put them on record.
    pub fn new(store: &Shared) -> Self {
        Self { recorder: Recorder::new(store), routes: Mutex::default() }
    }

    /// Where the requests for a model go. `choose` finds the model where its name is new, and who speaks to its provider.
    pub fn route<E>(
        &self,
        name: &str,
        config: &Config,
        choose: impl FnOnce(Option<&str>) -> Result<(Model, Option<Arc<Client>>), E>,
    ) -> Result<Arc<Route>, E> {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(route) = routes.get(name) {
            return Ok(Arc::clone(route));
        }
        let (model, client) = choose(Some(name).filter(|name| !is_any_model(name)))?;
        let prefixed = name.split_once('/').filter(|(lead, _)| config.providers().any(|provider| provider.name == *lead));
        let wire = match prefixed {
            Some((_, short)) => Some(short.to_owned()),
            None => is_any_model(name).then(|| model.wire.clone()),
        };
        let route = Arc::new(Route { client, model, wire });
        if routes.len() >= NAMES {
            routes.clear();
        }
        routes.insert(name.to_owned(), Arc::clone(&route));
        Ok(route)
    }

    /// Puts a request on record and sends it. An answer that cannot be put on record goes on without.
    pub async fn forward(&self, route: &Route, given: Given, at_ms: i64) -> Result<Passing, SendError> {
        let started = Instant::now();
        let Given { front, body, headers, key, session } = given;
        let Some(client) = &route.client else {
            let why = "the model runs in this process".to_owned();
            return Err(SendError::Network { host: String::new(), why });
        };
        let body = route.wire.as_deref().map_or_else(|| body.clone(), |wire| renamed(&body, wire));
        let new = NewForwarded {
            at_ms,
            front: front.as_str().to_owned(),
            model: route.model.name.clone(),
            session,
            body: String::from_utf8_lossy(&body).into_owned(),
        };
        let (number, unrecorded) = match self.recorder.sent(new) {
            Ok(number) => (Some(number), None),
            Err(why) => (None, Some(why.to_string())),
        };
        let record = Record { recorder: self.recorder.clone(), number, model: route.model.clone(), started, first_ms: None };
        match client.forward(Untouched { front, body, headers, key }).await {
            Ok(answer) => {
                let reader = (200..300).contains(&answer.status()).then(|| answer.reader(front, READ));
                Ok(Passing { answer, reader, record, unrecorded })
            }
            Err(error) => {
                record.end(None, None);
                Err(error)
            }
        }
    }

    /// Waits until the database has all that is on record.
    pub fn settle(&self) {
        self.recorder.settle();
    }
}

/// The model that a body names. Nothing else of it is read, but it has to be JSON.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
}

/// The model that a body names; an error where the body is no JSON object or names none.
pub fn model_of(body: &[u8]) -> Result<String, String> {
    // What is not read is not looked at either, so this comes first.
    let text = std::str::from_utf8(body).map_err(|error| format!("the body is not text: {error}"))?;
    let named: Named<'_> = serde_json::from_str(text).map_err(|error| format!("the body is not what it should be: {error}"))?;
    let model = named.model.and_then(|model| serde_json::from_str::<String>(model.get()).ok());
    let fits = |model: &String| (1..=LONGEST_NAME).contains(&model.len());
    model.filter(fits).ok_or_else(|| "model: a model is needed; GET /v1/models lists them".to_owned())
}

/// A body with another name for its model; all its other bytes stay.
fn renamed(body: &Bytes, wire: &str) -> Bytes {
    let Ok(Named { model: Some(model) }) = serde_json::from_slice(body) else { return body.clone() };
    let name = model.get();
    // It is borrowed from the body, so its address tells where it stands.
    let at = (name.as_ptr() as usize).wrapping_sub(body.as_ptr() as usize);
    let (Some(before), Some(after)) = (body.get(..at), body.get(at + name.len()..)) else { return body.clone() };
    let mut renamed = Vec::with_capacity(body.len() + wire.len());
    renamed.extend_from_slice(before);
    foreword_core::json::write_str(&mut renamed, wire);
    renamed.extend_from_slice(after);
    renamed.into()
}

/// What is still to be recorded of a request.
#[derive(Debug)]
struct Record {
    recorder: Recorder,
    number: Option<u64>,
    model: Model,
    started: Instant,
    first_ms: Option<u64>,
}

impl Record {
    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn end(self, status: Option<u16>, used: Option<foreword_provider::usage::Usage>) {
        let Some(number) = self.number else { return };
        let (used, model) = (used.unwrap_or_default(), &self.model);
        let prompt = used.cache_use();
        let reply = output_cost(model, prompt.total(), Tokens(used.output.0));
        let usage = Usage {
            model: model.name.clone(),
            read: prompt.read.0,
            write: prompt.write.0,
            uncached: prompt.uncached.0,
            output: used.output.0,
            cost: cost(model, &prompt) + reply,
            cost_uncached: uncached_cost(model, prompt.total()) + reply,
            broke: None,
            first_token_ms: self.first_ms,
            total_ms: Some(self.elapsed_ms()),
        };
        self.recorder.answered(number, Answered { status, usage });
    }
}

/// An answer that goes by.
#[derive(Debug)]
pub struct Passing {
    answer: Forwarded,
    /// Reads along, until it cannot.
    reader: Option<Reader>,
    record: Record,
    unrecorded: Option<String>,
}

impl Passing {
    /// Its status.
    pub fn status(&self) -> u16 {
        self.answer.status()
    }

    /// The headers that go back with it.
    pub fn headers(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        self.answer.headers()
    }

    /// Why the request is not on record, where it is not.
    pub fn unrecorded(&self) -> Option<&str> {
        self.unrecorded.as_deref()
    }

    /// Its next bytes; none after the last.
    pub async fn next(&mut self) -> Result<Option<Bytes>, SendError> {
        let bytes = self.answer.next().await?;
        if let Some(bytes) = &bytes {
            let now_ms = self.record.elapsed_ms();
            self.record.first_ms.get_or_insert(now_ms);
            let read = self.reader.as_mut().is_none_or(|reader| {
                let read = reader.push(bytes).is_ok();
                // What it says is no concern here.
                while reader.next_event().is_some() {}
                read
            });
            if !read {
                self.reader = None;
            }
        }
        Ok(bytes)
    }

    /// Records what came of it, at its end or where nobody wants more.
    pub fn end(self) {
        let Self { answer, reader, record, .. } = self;
        let status = answer.status();
        // The provider hears at once that nobody listens any more.
        drop(answer);
        let used = reader.and_then(|mut reader| {
            let _ = reader.finish(); // of half an answer, what is known
            reader.usage()
        });
        record.end(Some(status), used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_renamed_and_nothing_else() {
        let check = |body: &str, expect: &str| {
            let renamed = renamed(&Bytes::copy_from_slice(body.as_bytes()), "wire\"1");
            assert_eq!(std::str::from_utf8(&renamed).unwrap(), expect);
        };
        check(
            r#"{ "messages": [{"model": "x"}], "model" : "a/b" , "n":1.0 }"#,
            r#"{ "messages": [{"model": "x"}], "model" : "wire\"1" , "n":1.0 }"#,
        );
        check(r#"{"model":"a\u002fb"}"#, r#"{"model":"wire\"1"}"#);
        check(r#"{"n": 1}"#, r#"{"n": 1}"#);
        check("[", "[");
    }

    #[test]
    fn the_model_is_read_and_nothing_else() {
        let check = |body: &str, expect: Result<&str, &str>| match (model_of(body.as_bytes()), expect) {
            (Ok(model), Ok(expect)) => assert_eq!(model, expect),
            (Err(error), Err(expect)) => assert!(error.contains(expect), "{error}"),
            (found, _) => panic!("{body}: {found:?}"),
        };
        check(r#"{"messages": [1, {"x": null}], "model": "a\u0062"}"#, Ok("ab"));
        check(r#"{"model": ""}"#, Err("a model is needed"));
        check(r#"{"model": 5}"#, Err("a model is needed"));
        check("{}", Err("a model is needed"));
        check(&format!(r#"{{"model": "{}"}}"#, "m".repeat(257)), Err("a model is needed"));
        assert!(model_of(b"{\"model\": \"m\", \"x\": \"\xff\"}").unwrap_err().contains("not text"));
        check("[]", Err("not what it should be"));
        check("", Err("not what it should be"));
        check(&"[".repeat(100_000), Err("not what it should be"));
        check(r#"{"model": "a", "model": "b"}"#, Err("duplicate field"));
    }
}
