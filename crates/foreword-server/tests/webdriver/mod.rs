//! A real Chromium, moved over `WebDriver`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

/// A browser window, and the driver that moves it.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    pub(crate) fn open(size: (u32, u32)) -> Self {
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

    pub(crate) fn go(&self, address: &str) {
        self.on("/url", &json!({"url": address}));
    }

    /// What a script gives back.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.on("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until a script gives something that is true.
    pub(crate) fn wait(&self, what: &str, script: &str) -> Value {
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
        self.wait(css, &format!("return document.querySelector({}) ? 1 : 0", json!(css)));
        let found = self.on("/element", &json!({"using": "css selector", "value": css}));
        let id = found.as_object().filter(|found| !found.contains_key("error")).and_then(|found| found.values().next()?.as_str());
        id.unwrap_or_else(|| panic!("{css}: {found}")).to_owned()
    }

    pub(crate) fn click(&self, css: &str) {
        let started = Instant::now();
        loop {
            let element = self.element(css);
            let done = self.on(&format!("/element/{element}/click"), &json!({}));
            if done.is_null() {
                return;
            }
            // What was drawn anew between looking and clicking is looked for again.
            assert!(started.elapsed() < Duration::from_secs(10), "{css}: {done}");
        }
    }

    pub(crate) fn type_into(&self, css: &str, text: &str) {
        let element = self.element(css);
        self.on(&format!("/element/{element}/value"), &json!({"text": text}));
    }

    pub(crate) fn text(&self, css: &str) -> String {
        self.run(&format!("return document.querySelector({})?.innerText ?? ''", json!(css)))
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// A window of another size, light or dark.
    pub(crate) fn look(&self, width: u32, height: u32, theme: &str) {
        let size = json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}});
        self.on("/goog/cdp/execute", &size);
        self.run(&format!("document.documentElement.dataset.theme = {}; return 1", json!(theme)));
    }

    /// Saved where `FOREWORD_SCREENSHOTS` names a folder, for a person to look at.
    pub(crate) fn picture(&self, name: &str) {
        if let Some(folder) = std::env::var_os("FOREWORD_SCREENSHOTS") {
            std::fs::create_dir_all(&folder).unwrap();
            self.save(&Path::new(&folder).join(format!("{name}.png")));
        }
    }

    /// Saves what is shown.
    pub(crate) fn save(&self, file: &Path) {
        let shot = self.call("GET", &format!("/session/{}/screenshot", self.session), &Value::Null);
        let bytes = base64::engine::general_purpose::STANDARD.decode(shot.as_str().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    }

    /// Clicks what has these words on it.
    pub(crate) fn press(&self, css: &str, words: &str) {
        let find = format!(
            "return [...document.querySelectorAll({})].filter((one) => one.innerText.includes({})).at(-1)",
            json!(css),
            json!(words)
        );
        self.wait(words, &format!("{find} ? 1 : 0"));
        self.run(&find.replace("return ", "const found = ").replace(".at(-1)", ".at(-1); found.click(); return 1"));
    }

    pub(crate) fn no_errors(&self) {
        self.forget_log("nothing of this kind");
    }

    /// The same, but for what a test had the server refuse.
    pub(crate) fn forget_log(&self, meant: &str) {
        let log = self.on("/se/log", &json!({"type": "browser"}));
        let all = log.as_array().into_iter().flatten().filter(|entry| entry["level"] == "SEVERE");
        let bad: Vec<&Value> =
            all.filter(|entry| !entry["message"].as_str().is_some_and(|message| message.contains(meant))).collect();
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
