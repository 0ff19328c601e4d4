//! The page in a real Chromium, driven over `WebDriver`: the flows a person goes through, without an error on the console.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value, clippy::format_push_string)]

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use common::Running;
use foreword_server::{Limits, Reach};
use serde_json::{Value, json};

const SCRIPT: &str = r#"{"replies": [
    {"text": "The starter was **too young**: [[Bread]] says that it should double first.\n\n```sh\necho <b>hi</b>\n```\n\n<img src=x onerror=alert(1)>", "delay_ms": 5},
    {"text": "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen", "delay_ms": 100},
    {"text": "And again."}
]}"#;

/// A browser window, and the driver that moves it.
struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    fn open(size: (u32, u32)) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver cannot be started: `cargo xtask test` installs it (Debian: chromium-driver)");
        let mut browser = Self { driver, port, session: String::new() };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < Duration::from_secs(30), "chromedriver does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        let options = json!({"args": [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", format!("--window-size={},{}", size.0, size.1),
        ]});
        let wanted = json!({"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}});
        let made = browser.call("POST", "/session", &wanted);
        made["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {made}")).clone_into(&mut browser.session);
        browser
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        // The driver keeps its connections open, whatever it is told.
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            match line.trim().split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.trim().parse().unwrap(),
                _ if line.trim().is_empty() => break,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let value: Value = serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{path}: {error}"));
        value["value"].clone()
    }

    fn on(&self, path: &str, body: &Value) -> Value {
        self.call("POST", &format!("/session/{}{path}", self.session), body)
    }

    fn go(&self, address: &str) {
        self.on("/url", &json!({"url": address}));
    }

    /// What a script gives back.
    fn run(&self, script: &str) -> Value {
        self.on("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until a script gives something that is true.
    fn wait(&self, what: &str, script: &str) -> Value {
        let started = Instant::now();
        loop {
            let value = self.run(script);
            let is_true = !(value.is_null() || value == json!(false) || value == json!(0) || value == json!(""));
            if is_true {
                return value;
            }
            assert!(
                started.elapsed() < Duration::from_secs(30),
                "{what}: {script} stays {value}; the page says {}",
                self.run("return document.body.innerText")
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn element(&self, css: &str) -> String {
        self.wait(css, &format!("return document.querySelector({})", json!(css)));
        let found = self.on("/element", &json!({"using": "css selector", "value": css}));
        found.as_object().and_then(|found| found.values().next()?.as_str()).unwrap_or_else(|| panic!("{css}: {found}")).to_owned()
    }

    fn click(&self, css: &str) {
        let element = self.element(css);
        let done = self.on(&format!("/element/{element}/click"), &json!({}));
        assert!(done.is_null(), "{css}: {done}");
    }

    fn type_into(&self, css: &str, text: &str) {
        let element = self.element(css);
        self.on(&format!("/element/{element}/value"), &json!({"text": text}));
    }

    fn text(&self, css: &str) -> String {
        self.run(&format!("return document.querySelector({})?.innerText ?? ''", json!(css)))
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Saved where `FOREWORD_SCREENSHOTS` names a folder, for a person to look at.
    fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("FOREWORD_SCREENSHOTS") else { return };
        let shot = self.call("GET", &format!("/session/{}/screenshot", self.session), &Value::Null);
        let bytes = base64::engine::general_purpose::STANDARD.decode(shot.as_str().unwrap()).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(std::path::Path::new(&folder).join(format!("{name}.png")), bytes).unwrap();
    }

    fn no_errors(&self) {
        let log = self.on("/se/log", &json!({"type": "browser"}));
        let bad: Vec<&Value> = log.as_array().into_iter().flatten().filter(|entry| entry["level"] == "SEVERE").collect();
        assert!(bad.is_empty(), "{bad:?}");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            self.call("DELETE", &format!("/session/{}", self.session), &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

const ENTER: &str = "\u{e007}";
const IDLE: &str = "return document.querySelector('.send[aria-label=Send]') && !document.querySelector('.running')";

#[test]
fn asking_seeing_and_changing() {
    let server = Running::with(SCRIPT, Reach::Loopback, Limits::default());
    let browser = Browser::open((1400, 900));
    browser.go(&format!("http://{}/", server.address));
    browser
        .wait("the page", "return document.querySelector('.welcome') && document.querySelector('.options option[value=cook]')");
    browser.picture("welcome");

    // A note by typing [[, an answer as it comes, its markdown as nodes and nothing from it as markup.
    browser.run("const agent = document.querySelectorAll('.options select')[0]; agent.value = 'cook'; return 1");
    browser.type_into("#composer", "Why was the loaf flat? [[Brea");
    browser.wait("completions", "return !document.querySelector('.completions').hidden");
    browser.picture("completion");
    browser.type_into("#composer", ENTER);
    assert_eq!(browser.run("return document.querySelector('#composer').value"), "Why was the loaf flat? [[Kitchen/Bread]]");
    browser.type_into("#composer", ENTER);
    browser.wait("the answer", "return document.querySelector('.message.assistant .view-context')");
    browser.wait("the end", IDLE);
    assert_eq!(browser.run("return document.querySelector('.assistant strong').textContent"), "too young");
    assert_eq!(browser.run("return document.querySelectorAll('.words img').length"), 0);
    assert_eq!(browser.run("return document.querySelector('.code code').textContent"), "echo <b>hi</b>");
    assert!(browser.text(".attached").contains("Kitchen/Bread"));
    browser.wait("the picture", "return document.querySelectorAll('.chart .bar-group').length === 1");
    browser.picture("answer");

    // View context: three columns, badges, where each item stands.
    browser.click(".view-context");
    browser.wait("the columns", "return document.querySelectorAll('dialog .columns section').length === 3");
    let shown = browser.text("dialog");
    for words in ["Rules", "References", "Tools", "units", "007", "Always", "Kitchen/Bread", "Manual", "Left out"] {
        assert!(shown.contains(words), "{words} is not in {shown}");
    }
    browser.picture("context");
    browser.click("dialog [data-name=text]");
    browser.wait("the layers", "return [...document.querySelectorAll('dialog .segment pre')].some((pre) => pre.textContent.includes('doubles in four hours'))");
    browser.picture("prompt-text");
    browser.click("dialog [data-name=wire]");
    browser.wait("the bytes", "return document.querySelector('dialog .wire')?.textContent.includes('loaf')");
    browser.click("dialog [aria-label=Close]");

    // Stopping in mid-answer keeps what was said.
    browser.type_into("#composer", "Count");
    browser.type_into("#composer", ENTER);
    browser.wait("some words", "return document.querySelector('.running .words')?.innerText.includes('two')");
    browser.picture("streaming");
    browser.click(".send.stop");
    browser.wait("the end", IDLE);
    assert_eq!(browser.run("return document.querySelectorAll('.message.assistant').length"), 2);

    // Editing an earlier message, then a fork.
    browser.run("document.querySelectorAll('.message.user')[1].querySelector('[aria-label=Edit]').click(); return 1");
    browser.type_into("textarea.edit", " again");
    browser.type_into("textarea.edit", ENTER);
    browser.wait(
        "the edited message",
        "return [...document.querySelectorAll('.bubble')].some((bubble) => bubble.innerText === 'Count again')",
    );
    browser.wait("the end", IDLE);

    // Items: one in, one out.
    browser.click("[data-panel=context]");
    browser.wait("the items", "return document.querySelector('.context [aria-label=\"Add tone\"]')");
    browser.picture("items");
    browser.click(".context [aria-label=\"Add tone\"]");
    browser.wait("it is in", "return document.querySelector('.context [aria-label=\"Remove tone\"]')");

    // Cost, search, a new session by key, and the list.
    browser.run(
        "[...document.querySelectorAll('.bar-button')].find((button) => button.innerText.includes('Cost')).click(); return 1",
    );
    browser.wait("the ledger", "return document.querySelector('dialog .sums.large')");
    browser.picture("cost");
    browser.click("dialog [aria-label=Close]");
    browser.type_into(".side-search input", "loaf");
    browser.wait("what was found", "return document.querySelector('.session-open.hit')");
    browser.no_errors();
}

#[test]
fn on_a_phone_in_the_dark() {
    let server = Running::with(SCRIPT, Reach::Loopback, Limits::default());
    let browser = Browser::open((400, 800));
    browser.go(&format!("http://{}/", server.address));
    browser.wait("the page", "return document.querySelector('.welcome')");
    browser.run("document.documentElement.dataset.theme = 'dark'; return 1");
    browser.type_into("#composer", "Why was the loaf flat?");
    browser.type_into("#composer", ENTER);
    browser.wait("the answer", "return document.querySelector('.view-context')");
    browser.wait("the end", IDLE);
    browser.picture("phone");
    let wide = browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth");
    assert_eq!(wide, 0, "the page is wider than the screen");
    browser.click(".view-context");
    browser.wait("the columns", "return document.querySelector('dialog .columns')");
    browser.picture("phone-context");
    browser.click("dialog [aria-label=Close]");
    browser.click(".menu-button");
    browser.wait("the sessions", "return document.querySelector('.session')");
    browser.picture("phone-sessions");
    browser.no_errors();
}

#[test]
fn the_page_of_the_api() {
    let server = Running::start();
    let browser = Browser::open((1200, 900));
    browser.go(&format!("http://{}/api.html", server.address));
    browser.wait("the calls", "return document.querySelectorAll('.operation').length > 20");
    browser.run("const one = [...document.querySelectorAll('.operation')].find((one) => one.innerText.includes('/api/v1/health')); one.open = true; one.querySelector('.primary').click(); return 1");
    browser.wait("an answer", "return [...document.querySelectorAll('.out')].some((out) => out.textContent.includes('\"ok\"'))");
    browser.picture("api");
    browser.no_errors();
}
