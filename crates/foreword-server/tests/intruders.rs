//! Attempts to come in, as tables: secrets that are none, other hosts and origins, paths that lead elsewhere, two requests in one. None of
//! them gets a note, a session or a change.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::format_push_string)]

mod common;

use std::fs;
use std::time::Duration;

use common::{AUTHORIZED, Reply, Running, SCRIPT, TOKEN, loopback};
use foreword_server::{Keys, Level, Limits, Reach, Token};
use serde_json::{Value, json};

/// Words of a note, the name of a folder and the title of a session: where an answer holds one of them, somebody came in.
const SECRETS: [&str; 4] = ["doubles in four hours", "Kitchen", "Grandmother", "heirloom"];

/// What an intruder wants: to read, to change, and to use the provider's key.
const ROUTES: [(&str, &str, &str); 14] = [
    ("GET", "/api/v1/vault/note?path=Kitchen/Bread.md", ""),
    ("GET", "/api/v1/vault/tree", ""),
    ("GET", "/api/v1/sessions", ""),
    ("GET", "/api/v1/sessions/SESSION", ""),
    ("GET", "/api/v1/sessions/SESSION/events", ""),
    ("GET", "/api/v1/forwarded", ""),
    ("GET", "/api/v1/ledger", ""),
    ("GET", "/api/v1/agents", ""),
    ("POST", "/api/v1/sessions", "{}"),
    ("PATCH", "/api/v1/sessions/SESSION", r#"{"title": "Mine now"}"#),
    ("PATCH", "/api/v1/sessions/SESSION/settings", r#"{"asking": "never"}"#),
    ("POST", "/api/v1/sessions/SESSION/messages", r#"{"words": "Write a note"}"#),
    ("DELETE", "/api/v1/sessions/SESSION", ""),
    ("POST", "/v1/chat/completions", r#"{"model": "foreword", "messages": [{"role": "user", "content": "Hi"}]}"#),
];

/// A server that somebody wants to get into, and what they tried.
struct Attacked {
    server: Running,
    session: String,
    attempts: usize,
}

impl Attacked {
    fn new(reach: Reach) -> Self {
        // What is left of a request that was cut in two is not waited for.
        let idle = Duration::from_millis(100);
        let limits = Limits { refused_per_s: 1_000_000, files_per_s: 1_000_000, idle, ..Limits::default() };
        let server = Running::made(Some(SCRIPT), "", reach, limits, Level::Manage);
        fs::write(server.folder.path().join("secret.md"), "heirloom").unwrap();
        let session = server.begin();
        let renamed = server.call("PATCH", &format!("/api/v1/sessions/{session}"), Some(&json!({"title": "Grandmother"})));
        assert_eq!(renamed.status, 204, "{}", renamed.body);
        server.say(&session, "Hello", &[]);
        Self { server, session, attempts: 0 }
    }

    /// A request with these lines in its head, `host` included.
    fn request(&self, (method, path, body): (&str, &str, &str), lines: &str) -> Vec<u8> {
        let (path, lines) = (self.filled(path), self.filled(lines));
        let body = if body.is_empty() {
            String::new()
        } else {
            format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        };
        let end = if body.is_empty() { "\r\n" } else { "" };
        format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n{lines}{body}{end}").into_bytes()
    }

    fn filled(&self, text: &str) -> String {
        let port = self.server.address.port();
        let text = text.replace("SESSION", &self.session).replace("NEXTPORT", &port.wrapping_add(1).to_string());
        text.replace("PORT", &port.to_string())
    }

    /// Tries it; nothing may come of it.
    fn attempt(&mut self, bytes: &[u8]) -> Reply {
        self.attempts += 1;
        let reply = self.server.raw(bytes);
        let shown = String::from_utf8_lossy(bytes);
        let said = format!("{}\r\n\r\n{}", reply.head, reply.body);
        for secret in SECRETS {
            assert!(!said.contains(secret), "{secret} came out:\n{shown}\n{said}");
        }
        assert!(!(200..300).contains(&reply.status), "{}:\n{shown}\n{said}", reply.status);
        assert!(!said.contains(TOKEN), "the token came out:\n{shown}\n{said}");
        reply
    }

    /// At the end everything is as it was.
    fn is_unharmed(&self) {
        let sessions = self.server.get("/api/v1/sessions");
        assert_eq!(sessions.as_array().map(Vec::len), Some(1), "{sessions}");
        assert_eq!(sessions[0]["title"], "Grandmother");
        assert_eq!(sessions[0]["requests"], 1);
        let settings = self.server.get(&format!("/api/v1/sessions/{}/settings", self.session));
        assert_ne!(settings["asking"], "never", "{settings}");
    }
}

/// Lines of a head that hold no secret which opens anything.
fn strangers(folder: &std::path::Path) -> Vec<String> {
    use base64::Engine as _;
    let hex = |text: &str| {
        use sha2::Digest as _;
        sha2::Sha256::digest(text.as_bytes()).iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
    };
    // What a vault carries is nobody's token.
    let planted = "fw-server-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    for name in ["server-token", "gateway-keys.json"] {
        let text = if name == "server-token" {
            hex(planted)
        } else {
            json!([{"name": "x", "created_ms": 1, "sha256": hex(planted)}]).to_string()
        };
        fs::write(folder.join("vault/.foreword").join(name), text).unwrap();
    }
    let other = Token::of("fw-server-other");
    let page = other.take_code(1, &other.code(1).unwrap()).unwrap().unwrap();
    let code = Token::of(TOKEN).code(1).unwrap();
    let texts = [
        String::new(),
        TOKEN[..TOKEN.len() - 1].to_owned(),
        TOKEN[1..].to_owned(),
        TOKEN[..4].to_owned(),
        format!("{TOKEN}x"),
        format!("{TOKEN}{TOKEN}"),
        format!("{TOKEN}, {TOKEN}"),
        format!("\"{TOKEN}\""),
        format!("{TOKEN}%00"),
        TOKEN.to_uppercase(),
        hex(TOKEN),
        base64::engine::general_purpose::STANDARD.encode(TOKEN),
        TOKEN.replace('e', "е"), // a Cyrillic letter that looks the same
        TOKEN.chars().map(|c| char::from_u32(u32::from(c) + 0xfee0).unwrap_or(c)).collect(),
        planted.to_owned(),
        hex(planted),
        page,
        code,
        "fw-page.9999999999999.x.x".to_owned(),
        "null".to_owned(),
        "undefined".to_owned(),
        "*".to_owned(),
        "../server-token".to_owned(),
    ];
    let mut lines = vec![String::new()];
    for text in texts {
        lines.push(format!("authorization: Bearer {text}\r\n"));
        lines.push(format!("x-api-key: {text}\r\n"));
    }
    lines.extend([
        format!("authorization: {TOKEN}\r\n"),
        format!("authorization: Basic {TOKEN}\r\n"),
        format!("authorization: Token {TOKEN}\r\n"),
        format!("authorization: Bearer\t{TOKEN}\r\n"),
        format!("authorization: Bearer{TOKEN}\r\n"),
        format!("authorization: Bearer x\r\nauthorization: Bearer {TOKEN}\r\n"),
        format!("authorization: Bearer {TOKEN}\r\nauthorization: Bearer x\r\n"),
        format!("x-api-key: x\r\nx-api-key: {TOKEN}\r\n"),
        format!("cookie: foreword={TOKEN}\r\n"),
        format!("cookie: foreword-NEXTPORT={TOKEN}; foreword-key={TOKEN}; token={TOKEN}\r\n"),
        format!("proxy-authorization: Bearer {TOKEN}\r\n"),
        format!("x-forwarded-authorization: Bearer {TOKEN}\r\n"),
        format!("x-auth-token: {TOKEN}\r\n"),
        "x-forwarded-for: 127.0.0.1\r\nx-real-ip: 127.0.0.1\r\nforwarded: for=127.0.0.1\r\n".to_owned(),
        "x-original-url: /api/v1/health\r\nx-rewrite-url: /\r\n".to_owned(),
        "x-http-method-override: GET\r\n".to_owned(),
    ]);
    lines
}

#[test]
fn without_a_secret_nobody_comes_in() {
    let network = Reach::Network { token: Token::of(TOKEN), hosts: Vec::new() };
    let mut attempts = 0;
    for reach in [loopback(), network] {
        let mut attacked = Attacked::new(reach);
        for lines in strangers(attacked.server.folder.path()) {
            for route in ROUTES {
                let bytes = attacked.request(route, &format!("host: 127.0.0.1:PORT\r\n{lines}"));
                let reply = attacked.attempt(&bytes);
                assert!([400, 401].contains(&reply.status), "{lines}{route:?}: {} {}", reply.status, reply.body);
            }
        }
        // The token elsewhere than in a header.
        for (method, path, body) in ROUTES {
            let join = if path.contains('?') { '&' } else { '?' };
            for name in ["token", "access_token", "key", "api_key", "code", "authorization"] {
                let path = format!("{path}{join}{name}={TOKEN}");
                let bytes = attacked.request((method, &path, body), "host: 127.0.0.1:PORT\r\n");
                assert_eq!(attacked.attempt(&bytes).status, 401, "{path}");
            }
        }
        attacked.is_unharmed();
        attempts += attacked.attempts;
    }
    assert!(attempts >= 1800, "{attempts}");
}

#[test]
fn a_page_of_another_site_does_not_come_in_also_with_the_token() {
    let mut attacked = Attacked::new(loopback());
    let hosts = [
        "evil.example",
        "evil.example:PORT",
        "localhost.evil.example:PORT",
        "127.0.0.1.evil.example",
        "127.0.0.1:PORT@evil.example",
        "evil.example#127.0.0.1",
        "localhost.",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "0.0.0.0:PORT",
        "192.168.1.5:PORT",
        "[::ffff:10.0.0.1]:PORT",
        "[::]:PORT",
        "",
    ];
    let origins = [
        "origin: http://evil.example",
        "origin: https://evil.example",
        "origin: null",
        "origin: ",
        "origin: file://",
        "origin: http://127.0.0.1:NEXTPORT",
        "origin: http://127.0.0.1",
        "origin: http://localhost:PORT",
        "origin: http://127.0.0.1:PORT.evil.example",
        "origin: http://127.0.0.1:PORT@evil.example",
        "origin: http://127.0.0.1:PORT/",
        "origin: http://127.0.0.1:PORT\r\norigin: http://evil.example",
        "origin: moz-extension://127.0.0.1:PORT",
        "sec-fetch-site: cross-site",
        "sec-fetch-site: same-site",
        "sec-fetch-site: ",
        "sec-fetch-site: same-origin\r\nsec-fetch-site: cross-site",
    ];
    let mut lines: Vec<String> = hosts.iter().map(|host| format!("host: {host}\r\n")).collect();
    lines.push(String::new());
    lines.push("host: 127.0.0.1:PORT\r\nhost: evil.example\r\n".to_owned());
    lines.push("host: evil.example\r\nhost: 127.0.0.1:PORT\r\n".to_owned());
    lines.extend(origins.iter().map(|origin| format!("host: 127.0.0.1:PORT\r\n{origin}\r\n")));
    for lines in lines {
        for route in ROUTES {
            let bytes = attacked.request(route, &format!("{lines}{AUTHORIZED}"));
            let reply = attacked.attempt(&bytes);
            assert!([400, 403].contains(&reply.status), "{lines}{route:?}: {} {}", reply.status, reply.body);
        }
    }
    // What a form of another site can send without asking first.
    for kind in ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x", "", "application/jsonx"] {
        for (method, path, body) in ROUTES.into_iter().filter(|(_, path, body)| !body.is_empty() && path.starts_with("/api")) {
            let path = attacked.filled(path);
            let head = format!(
                "{method} {path} HTTP/1.1\r\nconnection: close\r\nhost: 127.0.0.1:PORT\r\n{AUTHORIZED}content-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            let bytes = attacked.filled(&head).into_bytes();
            assert_eq!(attacked.attempt(&bytes).status, 400, "{kind} {path}");
        }
    }
    attacked.is_unharmed();
    assert!(attacked.attempts >= 500, "{}", attacked.attempts);
}

#[test]
fn no_path_leads_around_the_guard() {
    let mut attacked = Attacked::new(loopback());
    let paths = [
        "//api/v1/sessions",
        "/./api/v1/sessions",
        "/../api/v1/sessions",
        "/%61pi/v1/sessions",
        "/api%2fv1%2fsessions",
        "/API/v1/sessions",
        "/api/V1/sessions",
        "/api/v1//sessions",
        "/api/v1/./sessions",
        "/api/v1/health/../sessions",
        "/api/v1/health/..%2fsessions",
        "/api/v1/health;/../sessions",
        "/api/v1/login/../vault/tree",
        "/index.html/../api/v1/sessions",
        "/style.css/../api/v1/sessions",
        "/style.css/..%2f..%2fapi/v1/sessions",
        "/v1/../api/v1/sessions",
        "/v1/%2e%2e/api/v1/sessions",
        "/api/v1/sessions/",
        "/api/v1/sessions%00",
        "/api/v1/sessions%20",
        "/api/v1/sessions.json",
        "/api\\v1\\sessions",
        "http://127.0.0.1:PORT/api/v1/sessions",
        "http://127.0.0.1:PORT//api/v1/sessions",
        "/.foreword/foreword.db",
        "/Kitchen/Bread.md",
        "/vault/Kitchen/Bread.md",
        "/../secret.md",
        "/%2e%2e/secret.md",
        "/..%5csecret.md",
        "/etc/passwd",
        "/%2fetc%2fpasswd",
    ];
    for path in paths {
        for method in ["GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE", "PATCH", "get", "PROPFIND"] {
            let bytes = attacked.request((method, path, ""), "host: 127.0.0.1:PORT\r\n");
            attacked.attempt(&bytes);
        }
    }
    // With the token: notes of the vault, and nothing else.
    for path in [
        "../secret.md",
        "..%2fsecret.md",
        "%2e%2e%2fsecret.md",
        "..%5csecret.md",
        "Foreword/../../secret.md",
        "./../secret.md",
        "/secret.md",
        "//secret.md",
        "file:///etc/passwd",
        "/etc/passwd",
        "../../../../../../etc/passwd",
        "..%252fsecret.md",
        "%00/../secret.md",
        ".foreword/foreword.db",
        "~/.ssh/id_rsa",
    ] {
        for route in ["vault/note?path=", "vault/tree?under="] {
            let route = format!("/api/v1/{route}{path}");
            let bytes = attacked.request(("GET", &route, ""), &format!("host: 127.0.0.1:PORT\r\n{AUTHORIZED}"));
            let reply = attacked.attempt(&bytes);
            assert!((400..500).contains(&reply.status), "{route}: {}", reply.status);
        }
    }
    attacked.is_unharmed();
    assert!(attacked.attempts >= 350, "{}", attacked.attempts);
}

#[test]
fn no_request_hides_another_one() {
    let mut attacked = Attacked::new(loopback());
    let hidden = [
        "GET /api/v1/vault/note?path=Kitchen/Bread.md HTTP/1.1\r\nhost: 127.0.0.1:PORT\r\n\r\n",
        "GET /api/v1/sessions HTTP/1.1\r\nhost: 127.0.0.1:PORT\r\nx-api-key: TOKE\r\n\r\n",
        "PATCH /api/v1/sessions/SESSION/settings HTTP/1.1\r\nhost: 127.0.0.1:PORT\r\ncontent-type: application/json\r\ncontent-length: 19\r\n\r\n{\"asking\": \"never\"}",
    ];
    let framings = [
        "content-length: 0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nHIDDEN",
        "transfer-encoding: chunked\r\ncontent-length: 0\r\n\r\n0\r\n\r\nHIDDEN",
        "content-length: 0\r\ncontent-length: 5\r\n\r\nHIDDEN",
        "content-length: 0, 5\r\n\r\nHIDDEN",
        "content-length: +0\r\n\r\nHIDDEN",
        "content-length: -1\r\n\r\nHIDDEN",
        "content-length: 0x0\r\n\r\nHIDDEN",
        "content-length : 0\r\n\r\nHIDDEN",
        "transfer-encoding: xchunked\r\n\r\n0\r\n\r\nHIDDEN",
        "transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\nHIDDEN",
        "transfer-encoding : chunked\r\n\r\n0\r\n\r\nHIDDEN",
        "transfer-encoding:\x0bchunked\r\n\r\n0\r\n\r\nHIDDEN",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\nHIDDEN",
        "transfer-encoding: chunked\r\n\r\n0;x=\r\n\r\nHIDDEN",
        "transfer-encoding: chunked\r\n\r\n-1\r\nHIDDEN",
        "transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\nHIDDEN",
        "x: a\r\n host: evil.example\r\n\r\nHIDDEN",
        "x: a\nhost: evil.example\n\nHIDDEN",
        "x: a\rhost: evil.example\r\n\r\nHIDDEN",
        "upgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: AAAA\r\n\r\nHIDDEN",
        "expect: 100-continue\r\ncontent-length: 0\r\n\r\nHIDDEN",
        "\r\nHIDDEN",
    ];
    for first in
        ["GET /api/v1/sessions", "POST /api/v1/sessions", "POST /v1/chat/completions", "GET /nothing", "POST /api/v1/login"]
    {
        for framing in framings {
            for hidden in hidden {
                let text = format!("{first} HTTP/1.1\r\nhost: 127.0.0.1:PORT\r\n{}", framing.replace("HIDDEN", hidden));
                let bytes = attacked.filled(&text).into_bytes();
                attacked.attempt(&bytes);
            }
        }
    }
    attacked.is_unharmed();
    assert!(attacked.attempts >= 300, "{}", attacked.attempts);
}

#[test]
fn a_key_for_the_gateway_opens_nothing_else() {
    let mut attacked = Attacked::new(loopback());
    let keys = Keys::new(&attacked.server.folder.path().join("state"));
    let (name, key) = keys.create(None).unwrap();
    for line in
        [format!("authorization: Bearer {key}\r\n"), format!("x-api-key: {key}\r\n"), format!("x-goog-api-key: {key}\r\n")]
    {
        for route in ROUTES.into_iter().filter(|(_, path, _)| path.starts_with("/api/")) {
            let bytes = attacked.request(route, &format!("host: 127.0.0.1:PORT\r\n{line}"));
            assert_eq!(attacked.attempt(&bytes).status, 401, "{line}{route:?}");
        }
    }
    attacked.is_unharmed();
    let ask = |key: &str| {
        let body: Value = serde_json::from_str(ROUTES[13].2).unwrap();
        attacked.server.call_as_stranger("POST", "/v1/chat/completions", &[("x-api-key", key)], Some(&body)).status
    };
    assert_eq!(ask(&key), 200);
    keys.delete(&name).unwrap();
    assert_eq!(ask(&key), 401);
    // A provider's key of somebody's own does not pay for answers from here.
    assert_eq!(ask("sk-somebodys"), 401);
}
