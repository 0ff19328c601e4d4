use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use foreword_core::catalog::Permission;
use foreword_core::hash::Hash;
use foreword_tools::{Builtin, Output};
use jiff::Zoned;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{VaultTools, own_tools};
use crate::corpus::Corpus;
use crate::embedding::{EmbeddingModel, Fetch};
use foreword_trust::VaultTrust;
use foreword_trust::places::Places;

mod notes;
mod search;

/// A vault with the tools of a session, on a Sunday.
struct Session {
    dir: TempDir,
    desk: VaultTools,
    tools: Vec<Box<dyn Builtin>>,
}

/// What a tool gave back before.
/// Two texts whose hashes begin with the same eight digits.
const TWINS: (&str, &str) = ("output 24", "output 58366");
const LOG: &str = "start\nall fine\nERROR: no flour\nend\n";

const NOW: &str = "2026-11-15T12:00:00+00:00[UTC]";

impl Session {
    fn over(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("vault");
        fs::create_dir(&root).unwrap();
        for (path, text) in files {
            put(&root, path, text);
        }
        let session = Self::at(dir, &root);
        // As the first question does.
        VaultTrust::open(session.desk.places(), &root).unwrap().make_state().unwrap();
        session
    }

    fn over_the_examples() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/vault");
        Self::at(tempfile::tempdir().unwrap(), &root)
    }

    fn at(dir: TempDir, root: &Path) -> Self {
        let places = Places { cache: dir.path().join("cache"), models: models(), state: dir.path().join("state") };
        let corpus = Corpus::open(root, &places, TimeZone::UTC).unwrap();
        let meaning = EmbeddingModel::new(&dir.path().join("none"), Fetch::Never);
        let now: Zoned = NOW.parse().unwrap();
        let desk = VaultTools::new(Arc::new(Mutex::new(corpus)), Arc::new(meaning), places, move || now.clone());
        let outputs = |digits: &str| {
            let kept = [LOG, "", TWINS.0, TWINS.1].map(|text| (Hash::of(text), text.to_owned())).into_iter();
            kept.filter(|(hash, _)| hash.to_string().starts_with(digits)).collect()
        };
        let tools = own_tools(&desk, Box::new(outputs));
        Self { dir, desk, tools }
    }

    /// Allows what a file of the vault asks for.
    fn trust(&self, file: &str) {
        let corpus = self.desk.corpus();
        let mut trust = VaultTrust::open(self.desk.places(), corpus.vault().root()).unwrap();
        trust.allow_own_change(corpus.vault(), file).unwrap();
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("vault")
    }

    fn run(&mut self, name: &str, arguments: &Value) -> Output {
        self.tools.iter_mut().find(|tool| tool.tool().name == name).unwrap().run(arguments)
    }

    fn done(&mut self, name: &str, arguments: &Value) -> String {
        let Output { text, failed, .. } = self.run(name, arguments);
        assert!(!failed, "{name} {arguments}: {text}");
        text
    }

    fn failed(&mut self, name: &str, arguments: &Value) -> String {
        let Output { text, failed, .. } = self.run(name, arguments);
        assert!(failed, "{name} {arguments}: {text}");
        text
    }
}

fn put(root: &Path, path: &str, text: &str) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

fn models() -> PathBuf {
    std::env::var_os("FOREWORD_MODELS").map(PathBuf::from).unwrap_or_default()
}

/// The paths of a search's results, in order.

#[test]
fn days_of_a_phrase() {
    let mut session = Session::over(&[]);
    let mut check = |phrase: &str, expect: &str| assert_eq!(session.done("timeRange", &json!({"phrase": phrase})), expect);
    check("last week", "\"last week\" is from Monday 2026-11-02 to Sunday 2026-11-08. Today is Sunday 2026-11-15.");
    check("today", "\"today\" is Sunday 2026-11-15. Today is Sunday 2026-11-15.");
    let fault = session.failed("timeRange", &json!({"phrase": "when pigs fly\n"}));
    assert!(fault.starts_with("\"when pigs fly \" names no time"), "{fault}");
}

/// Serves one page to whoever asks.
fn served(page: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                page.len()
            );
            let _ = stream.write_all(format!("{head}{page}").as_bytes());
        }
    });
    port
}

#[test]
fn pages_of_the_web() {
    let page = "<html><head><title>Scales</title></head><body><article><h1>Scales</h1><p>Play them slowly, hands apart, every day of the week, \
                and count aloud while you do so; the metronome stays off.</p><p>Then faster.</p></article></body></html>";
    let port = served(page);
    let allow = format!("[web]\nallow = [\"127.0.0.1:{port}\"]\n");
    let mut session = Session::over(&[("foreword.toml", &allow)]);
    let url = format!("http://127.0.0.1:{port}/scales");
    let fault = session.failed("webFetch", &json!({"url": url}));
    assert!(fault.contains("it is not on the public internet"), "the vault alone opens no host: {fault}");
    session.trust("foreword.toml");
    let text = session.done("webFetch", &json!({"url": url}));
    assert!(text.starts_with(&format!("{url}, lines 1 to ")) && text.contains("\ntitle: Scales\n\n"), "{text}");
    assert!(text.contains("Play them slowly") && !text.contains("<p>"), "{text}");
    assert_eq!(session.done("webFetch", &json!({"url": url})), text);
    // Inside of another runtime it works as well.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(async { session.done("webFetch", &json!({"url": url})) }), text);

    let mut check = |url: &str, expect: &str| {
        let fault = session.failed("webFetch", &json!({"url": url}));
        assert!(fault.contains(expect), "{fault}");
    };
    check("http://127.0.0.1:1/", "it is not on the public internet");
    check("http://[::1]/", "it is not on the public internet");
    check("http://169.254.169.254/latest/meta-data", "it is not on the public internet");
    check("file:///etc/passwd", "only http and https are fetched");
    check("https://user:secret@example.com/", "user name or password");
    check("not an address", "this is no web address");
    check("", "this is no web address");
}

#[test]
fn outputs_that_were_left_out() {
    let mut session = Session::over(&[]);
    let id = format!("output:{}", Hash::of(LOG));
    let all = session.done("readOutput", &json!({"id": id}));
    assert!(all.contains(LOG), "{all}");
    assert_eq!(session.done("readOutput", &json!({"id": Hash::of(LOG).to_string(), "offset": 0, "grep": ""})), all);
    assert!(!session.done("readOutput", &json!({"id": id, "offset": 15})).contains("all fine"));
    assert!(session.done("readOutput", &json!({"id": id, "grep": "(?i)error"})).contains("3:ERROR: no flour"));
    let mut check = |arguments: Value, expect: &str| {
        let fault = session.failed("readOutput", &arguments);
        assert!(fault.contains(expect), "{fault}");
    };
    check(json!({"id": id, "grep": "(", "offset": null}), "the pattern cannot be used");
    check(json!({"id": id, "grep": "a", "offset": 1}), "either an offset or grep");
    check(json!({"id": format!("output:{}", Hash::of("other"))}), "No tool of this session gave back output:");
    check(json!({"id": "output:12"}), "`output:12` is no id of an output");
    check(json!({"id": "output:1234567z"}), "is no id of an output");
    check(json!({"id": "12345678"}), "No tool of this session gave back output:12345678.");
    let twins = [TWINS.0, TWINS.1].map(Hash::of);
    assert_eq!(twins[0].short(), twins[1].short());
    check(json!({"id": twins[0].short()}), &format!("is the beginning of several outputs: output:{}", twins[0]));
    // As a summary names it.
    assert_eq!(session.done("readOutput", &json!({"id": Hash::of(LOG).short()})), all);
    assert_eq!(session.done("readOutput", &json!({"id": format!("output:{}…", Hash::of(LOG).short())})), all);
}

#[test]
fn who_is_asked() {
    let session = Session::over(&[]);
    let asked: Vec<String> = session
        .tools
        .iter()
        .map(|tool| tool.tool())
        .filter(|tool| tool.permission != Some(Permission::NotRequired) || !tool.read_only)
        .map(|tool| tool.name)
        .collect();
    assert_eq!(asked, ["webFetch", "writeNote"]);
}

/// What a schema allows and what a tool reads must be the same.
#[test]
fn every_parameter_of_a_schema_is_read() {
    let mut session = Session::over(&[]);
    for tool in &mut session.tools {
        let described = tool.tool();
        let parameters = described.schema["properties"].as_object().unwrap();
        for (name, parameter) in parameters {
            assert!(parameter["description"].as_str().is_some_and(|text| text.len() > 20), "{}.{name}", described.name);
            let given = match parameter["type"].as_str().unwrap() {
                "string" => json!("x"),
                "integer" => json!(1),
                "boolean" => json!(true),
                "array" => json!([]),
                other => panic!("{other}"),
            };
            let text = tool.run(&json!({ name: given })).text;
            assert!(!text.contains("unknown field") && !text.contains("invalid type"), "{}.{name}: {text}", described.name);
        }
        let unknown = tool.run(&json!({"nonsense": 1})).text;
        assert!(unknown.contains("unknown field `nonsense`"), "{}: {unknown}", described.name);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        any::<String>().prop_map(Value::from),
        prop_oneof![Just("a.md"), Just("[[a#H]]"), Just("../a"), Just("last week"), Just("a.md:1-9"), Just("#t"), Just("F/")]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Value::from))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn any_arguments_get_a_bounded_answer(values in prop::collection::vec(any_json(), 12), other in any_json()) {
        let mut session = Session::over(&[("a.md", "# H\nzeppelin\n"), ("F/b.md", "![[a]]")]);
        for tool in &mut session.tools {
            let described = tool.tool();
            let names = described.schema["properties"].as_object().unwrap().keys();
            let arguments: Value = names.cloned().zip(values.iter().cloned()).collect::<serde_json::Map<_, _>>().into();
            for arguments in [&arguments, &other] {
                let first = tool.run(arguments);
                prop_assert!(!first.text.is_empty() && first.text.len() <= 8_000);
                if described.read_only {
                    prop_assert_eq!(&first, &tool.run(arguments));
                }
            }
        }
    }
}
