//! Requests that are passed on untouched: to whom, on record before they go, and what they cost read from the answer as it goes by.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use foreword_core::tokens::Tokens;
use foreword_provider::client::{
    Bytes, Client, Forwarded, HeaderMap, HeaderName, HeaderValue, Method, Secret, SendError, Untouched,
};
use foreword_provider::cost::{cost, output_cost, uncached_cost};
use foreword_provider::model::Model;
use foreword_provider::reply::Form;
use foreword_store::{Answered, NewForwarded, Shared, Usage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::aside::{Came, SideExchange};
use super::assist::Additions;
use super::endpoint::{Endpoint, Family};
use super::json_text::place;
use super::record::Recorder;
use super::sessions::{Recognised, Sessions};
use super::spending::{Payer, Spending};
use foreword_engine::config::{Config, Level};

/// Names of models that are remembered: clients choose them.
const NAMES: usize = 256;

/// The longest name of a model.
const LONGEST_NAME: usize = 256;

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
    level: Option<Level>,
    is_assumed: bool,
    client_keys: bool,
}

/// What a name of a model leads to.
#[derive(Debug)]
pub struct Way {
    /// The model.
    pub model: Model,
    /// Who speaks to its provider.
    pub client: Option<Arc<Client>>,
    /// The level that is configured for its provider.
    pub level: Option<Level>,
    /// Whether nobody knows the model.
    pub is_assumed: bool,
    /// Whether clients may use keys of their own.
    pub client_keys: bool,
}

impl Route {
    /// The level that is configured for its provider.
    pub fn level(&self) -> Option<Level> {
        self.level
    }

    /// Whether nobody knows the model, so that nothing of its prices and its cache is known either.
    pub fn is_assumed(&self) -> bool {
        self.is_assumed
    }

    /// Whether clients may use keys of their own.
    pub fn takes_client_keys(&self) -> bool {
        self.client_keys
    }

    /// The name of the model for its provider, where a client's body has another one.
    pub fn wire(&self) -> Option<&str> {
        self.wire.as_deref()
    }

    /// Whether requests in an API can be passed on there; else why not.
    pub fn takes_family(&self, family: Family) -> Result<(), String> {
        let Some(client) = &self.client else {
            return Err(format!("the model {} runs in this process, not at a provider", self.model.name));
        };
        let dialect = client.dialect();
        if family.has(dialect) {
            return Ok(());
        }
        Err(format!("the provider of {} speaks another API ({dialect})", self.model.name))
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Who speaks to its provider; none where the model runs in this process.
    pub fn client(&self) -> Option<&Arc<Client>> {
        self.client.as_ref()
    }
}

/// A client's request.
#[derive(Debug)]
pub struct Given {
    /// What it asks for.
    pub endpoint: Endpoint,
    /// Its method.
    pub method: Method,
    /// Its path behind the version, with its query.
    pub path: String,
    /// Its bytes.
    pub body: Bytes,
    /// Its headers, without keys of ours.
    pub headers: HeaderMap,
    /// Its own key, which is used in place of ours.
    pub key: Option<Secret>,
    /// What is recorded of it; nothing where it is none.
    pub record: Option<Recorded>,
    /// Its conversation, where it is one.
    pub recognised: Option<Recognised>,
    /// What was added to it.
    pub additions: Additions,
}

/// What is recorded of a request.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Its session.
    pub session: Option<String>,
    /// Its body as text.
    pub body: String,
    /// What else is known of it.
    pub about: About,
}

/// What is known of a request beside its bytes, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Its level.
    #[serde(default)]
    pub level: String,
    /// Its path, without the query.
    #[serde(default)]
    pub path: String,
    /// The program it comes from, as that calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// What that calls the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
    /// The name of the key of this server that it came with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The session that it is a side call of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// How its session was recognised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
    /// What its session is about, with the first request of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What was added to it: where that stands in its body, and how long it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<(usize, usize)>,
}

impl About {
    /// Reads what is stored; of an older version nothing is.
    pub fn read(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

/// Passes requests on.
#[derive(Debug)]
pub struct Forwarder {
    recorder: Recorder,
    /// The sessions that requests belong to.
    pub sessions: Arc<Sessions>,
    /// What was spent.
    pub spending: Arc<Spending>,
    /// By the API, and the name that a client has for the model.
    routes: Mutex<BTreeMap<(Family, String), Arc<Route>>>,
}

impl Forwarder {
    /// With a store to put them on record.
    pub fn new(store: &Shared) -> Self {
        Self { recorder: Recorder::new(store), sessions: Arc::default(), spending: Arc::default(), routes: Mutex::default() }
    }

    /// Where the requests for a model go. `choose` finds the model where its name is new, and who speaks to its provider.
    pub fn route<E>(
        &self,
        family: Family,
        name: &str,
        config: &Config,
        choose: impl FnOnce(Option<&str>) -> Result<Way, E>,
    ) -> Result<Arc<Route>, E> {
        let key = (family, name.to_owned());
        if let Some(route) = self.routes.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(Arc::clone(route));
        }
        let Way { model, client, level, is_assumed, client_keys } = choose(Some(name).filter(|name| !is_any_model(name)))?;
        let prefixed = name.split_once('/').filter(|(lead, _)| config.providers().any(|provider| provider.name == *lead));
        let wire = match prefixed {
            Some((_, short)) => Some(short.to_owned()),
            None => is_any_model(name).then(|| model.wire.clone()),
        };
        let route = Arc::new(Route { client, model, wire, level, is_assumed, client_keys });
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        if routes.len() >= NAMES {
            routes.clear();
        }
        routes.insert(key, Arc::clone(&route));
        Ok(route)
    }

    /// Puts a request on record and sends it. An answer that cannot be put on record goes on without.
    pub async fn forward(&self, route: &Route, given: Given, at_ms: i64) -> Result<Passing, SendError> {
        let started = Instant::now();
        let Given { endpoint, method, path, body, headers, key, record, recognised, additions } = given;
        let Some(client) = &route.client else {
            let why = "the model runs in this process".to_owned();
            return Err(SendError::Network { host: String::new(), why });
        };
        let (prompt, is_recorded) = (body.len(), record.is_some());
        let about = record.as_ref().map(|record| record.about.clone()).unwrap_or_default();
        let session = record.as_ref().and_then(|record| record.session.clone());
        let sent = record.map(|Recorded { session, body, about }| {
            self.recorder.sent(NewForwarded {
                at_ms,
                front: endpoint.name().to_owned(),
                model: route.model.name.clone(),
                session,
                body,
                about: serde_json::to_string(&about).ok(),
            })
        });
        let (number, unrecorded) = match sent {
            Some(Ok(number)) => (Some(number), None),
            Some(Err(why)) => (None, Some(why.to_string())),
            None => (None, None),
        };
        let (recorder, model) = (self.recorder.clone(), route.model.clone());
        let spending = is_recorded.then(|| (Arc::clone(&self.spending), Payer { session, key: about.key, at_ms }));
        let record = Record { recorder, spending, number, model, started, first_ms: None };
        match client.forward(Untouched { method, path, body, headers, key }).await {
            Ok(answer) => {
                let is_taken = (200..300).contains(&answer.status());
                let aside = is_taken.then(|| SideExchange::new(endpoint.kind, endpoint.dialect(), answer.form()));
                // What was refused leaves no trace in what later requests are compared with.
                if let (true, Some(of)) = (is_taken, &recognised) {
                    self.sessions.answered(of, &additions, at_ms);
                }
                let thread = recognised.map(|of| (Arc::clone(&self.sessions), of.thread));
                Ok(Passing { answer, aside, thread, prompt, record, unrecorded })
            }
            Err(error) => {
                record.end(None, Came::default());
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
pub fn renamed(body: &str, wire: &str) -> String {
    let Ok(Named { model: Some(model) }) = serde_json::from_str(body) else { return body.to_owned() };
    let Some(at) = place(body, model.get()) else { return body.to_owned() };
    let mut name = Vec::new();
    foreword_core::json::write_str(&mut name, wire);
    let (before, after) = (&body[..at.start], &body[at.end..]);
    [before, &String::from_utf8_lossy(&name), after].concat()
}

/// What is still to be recorded of a request.
#[derive(Debug)]
struct Record {
    recorder: Recorder,
    spending: Option<(Arc<Spending>, Payer)>,
    number: Option<u64>,
    model: Model,
    started: Instant,
    first_ms: Option<u64>,
}

/// What is known of an answer beside its usage, as it is stored.
#[derive(Serialize)]
struct FinishedAnswer {
    /// Whether what it used is an estimate.
    estimated: bool,
}

impl Record {
    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn end(self, status: Option<u16>, came: Came) {
        let (used, model) = (came.usage.unwrap_or_default(), &self.model);
        let prompt = used.cache_use();
        let reply = output_cost(model, prompt.total(), Tokens(used.output.0));
        let cost = cost(model, &prompt) + reply;
        if let Some((spending, payer)) = &self.spending {
            spending.add(payer, cost);
        }
        let Some(number) = self.number else { return };
        let usage = Usage {
            model: model.name.clone(),
            read: prompt.read.0,
            write: prompt.write.0,
            uncached: prompt.uncached.0,
            output: used.output.0,
            cost,
            cost_uncached: uncached_cost(model, prompt.total()) + reply,
            broke: None,
            first_token_ms: self.first_ms,
            total_ms: Some(self.elapsed_ms()),
        };
        let about = came.is_estimate.then(|| serde_json::to_string(&FinishedAnswer { estimated: true }).ok()).flatten();
        self.recorder.answered(number, Answered { status, usage, about });
    }
}

/// An answer that goes by.
#[derive(Debug)]
pub struct Passing {
    answer: Forwarded,
    /// Reads along, where there is something to read.
    aside: Option<SideExchange>,
    thread: Option<(Arc<Sessions>, u64)>,
    /// Bytes of the request.
    prompt: usize,
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

    /// How its body is written: the media type and the coding.
    pub fn form(&self) -> (Form, Option<&str>) {
        self.answer.form()
    }

    /// Why the request is not on record, where it should be.
    pub fn unrecorded(&self) -> Option<&str> {
        self.unrecorded.as_deref()
    }

    /// Its number on record.
    pub fn number(&self) -> Option<u64> {
        self.record.number
    }

    /// Its next bytes; none after the last.
    pub async fn next(&mut self) -> Result<Option<Bytes>, SendError> {
        let bytes = self.answer.next().await?;
        if let Some(bytes) = &bytes {
            let now_ms = self.record.elapsed_ms();
            self.record.first_ms.get_or_insert(now_ms);
            if let Some(aside) = &mut self.aside {
                aside.push(bytes);
            }
            // Before its client has it, and goes on from it.
            self.tell_made();
        }
        Ok(bytes)
    }

    fn tell_made(&mut self) {
        let (Some(aside), Some((sessions, thread))) = (&mut self.aside, &self.thread) else { return };
        for what in aside.made() {
            sessions.made(*thread, what);
        }
    }

    /// Records what came of it, at its end or where nobody wants more.
    pub fn end(mut self) {
        let came = self.aside.as_mut().map(|aside| aside.end(self.prompt)).unwrap_or_default();
        self.tell_made();
        let Self { answer, record, .. } = self;
        let status = answer.status();
        // The provider hears at once that nobody listens any more.
        drop(answer);
        record.end(Some(status), came);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_renamed_and_nothing_else() {
        let check = |body: &str, expect: &str| {
            assert_eq!(renamed(body, "wire\"1"), expect);
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
