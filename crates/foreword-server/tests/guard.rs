//! Who may come in and how much they may take, byte by byte over a socket.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value, clippy::format_push_string)]

mod common;

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use common::{Running, SCRIPT};
use foreword_server::{Limits, Reach, Token};
use serde_json::json;

#[test]
fn only_this_machine_under_its_own_name() {
    let server = Running::start();
    let port = server.address.port();
    let check = |path: &str, headers: &str, expect: u16| {
        let reply = server.raw(format!("GET {path} HTTP/1.1\r\nconnection: close\r\n{headers}\r\n").as_bytes());
        assert_eq!(reply.status, expect, "{path} {headers:?}: {}", reply.body);
        if expect >= 400 {
            assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{path} {headers:?}");
            assert_eq!(reply.json()["status"], expect);
        }
    };
    check("/", &format!("host: localhost:{port}\r\n"), 200);
    check("/api/v1/sessions", &format!("host: 127.0.0.1:{port}\r\n"), 200);
    check("/api/v1/sessions", "host: [::1]\r\n", 200);
    check("/", "host: evil.example\r\n", 403);
    check("/api/v1/sessions", &format!("host: evil.example:{port}\r\n"), 403);
    check("/api/v1/sessions", "", 400);
    check("/api/v1/sessions", "host: localhost\r\nhost: evil.example\r\n", 400);
    check("http://evil.example/api/v1/sessions", "host: localhost\r\n", 400);
    check("http://evil.example/api/v1/sessions", "host: evil.example\r\n", 403);
    let own = format!("host: localhost:{port}\r\n");
    check("/api/v1/sessions", &format!("{own}origin: http://localhost:{port}\r\n"), 200);
    check("/api/v1/sessions", &format!("{own}origin: http://evil.example\r\n"), 403);
    check("/api/v1/sessions", &format!("{own}origin: null\r\n"), 403);
    check("/api/v1/sessions", &format!("{own}origin: http://localhost:{}\r\n", port.wrapping_add(1)), 403);
    check("/api/v1/sessions", &format!("{own}sec-fetch-site: cross-site\r\n"), 403);
    // A link from elsewhere leads to the page, which holds nothing.
    check("/", &format!("{own}sec-fetch-site: cross-site\r\n"), 200);
    check("/nothing", &own, 404);
    check("/api/v1/nothing", &own, 404);
}

#[test]
fn a_form_of_another_site_does_nothing() {
    let server = Running::start();
    let host = server.address;
    for kind in ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data"] {
        let body = "{\"agent\": null}";
        let reply = server.raw(
            format!(
                "POST /api/v1/sessions HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .as_bytes(),
        );
        assert_eq!(reply.status, 400, "{kind}: {}", reply.body);
    }
    assert_eq!(server.get("/api/v1/sessions"), json!([]));
}

#[test]
fn what_a_browser_may_do_with_an_answer() {
    let server = Running::start();
    for path in ["/", "/main.js", "/api/v1/sessions", "/api/v1/nothing"] {
        let reply = server.call("GET", path, None);
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(reply.header("x-frame-options"), Some("deny"), "{path}");
        assert_eq!(reply.header("access-control-allow-origin"), None, "{path}");
    }
}

#[test]
fn from_outside_only_with_the_token() {
    let reach = Reach::Token { token: Token::of("sesame"), hosts: vec!["notes.example".to_owned()] };
    let server = Running::with(SCRIPT, reach, Limits::default());
    let check = |path: &str, headers: &[(&str, &str)], expect: u16| {
        let reply = server.call_with("GET", path, headers, None);
        assert_eq!(reply.status, expect, "{path} {headers:?}: {}", reply.body);
        assert!(!reply.body.contains("sesame"));
    };
    check("/", &[], 200);
    check("/api/v1/health", &[], 200);
    check("/api/v1/sessions", &[], 401);
    check("/v1/models", &[], 401);
    check("/api/v1/sessions", &[("authorization", "Bearer sesame")], 200);
    check("/api/v1/sessions", &[("x-api-key", "sesame")], 200);
    check("/api/v1/sessions", &[("authorization", "Bearer sesam")], 401);
    check("/api/v1/sessions", &[("authorization", "sesame")], 401);
    check("/api/v1/sessions", &[("authorization", "Bearer ")], 401);
}

#[test]
fn everything_has_an_end() {
    let limits = Limits { body: 1000, head: 8192, headers: 20, idle: Duration::from_millis(400), ..Limits::default() };
    let server = Running::with(SCRIPT, Reach::Loopback, limits);
    let large = json!({"agent": "x".repeat(2000)});
    let reply = server.call("POST", "/api/v1/sessions", Some(&large));
    assert_eq!(reply.status, 413, "{}", reply.body);
    let long = "x".repeat(20_000);
    assert_eq!(server.call_with("GET", "/api/v1/sessions", &[("x-long", &long)], None).status, 431);
    let many: Vec<(String, &str)> = (0..40).map(|number| (format!("x-{number}"), "y")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(server.call_with("GET", "/api/v1/sessions", &many, None).status, 431);
    // A head that never ends.
    let mut slow = server.connect();
    slow.write_all(b"GET / HTTP/1.1\r\nhost: loc").unwrap();
    let started = Instant::now();
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest);
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn not_too_often() {
    let reach = Reach::Token { token: Token::of("sesame"), hosts: Vec::new() };
    let server = Running::with(SCRIPT, reach, Limits { requests_per_s: Some(1), ..Limits::default() });
    let statuses: Vec<u16> = (0..12).map(|_| server.call("GET", "/api/v1/sessions", None).status).collect();
    assert!(statuses.contains(&401) && statuses.contains(&429), "{statuses:?}");
}

#[test]
fn so_many_connections_and_no_more() {
    let server = Running::with(SCRIPT, Reach::Loopback, Limits { connections: 3, ..Limits::default() });
    let held: Vec<_> = (0..3).map(|_| server.connect()).collect();
    std::thread::sleep(Duration::from_millis(200));
    let mut waiting = server.connect();
    waiting.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    waiting.write_all(format!("GET / HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", server.address).as_bytes()).unwrap();
    assert!(waiting.read(&mut [0; 16]).is_err(), "it was served although there is no room");
    drop(held);
    waiting.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut text = String::new();
    waiting.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"));
}

#[test]
fn garbage_gets_a_clear_no() {
    let server = Running::start();
    let host = server.address;
    let check = |bytes: Vec<u8>| {
        let reply = server.raw(&bytes);
        assert!((400..500).contains(&reply.status), "{:?}: {}", String::from_utf8_lossy(&bytes), reply.status);
    };
    check(b"\x00\x01\x02\r\n\r\n".to_vec());
    check(b"GET\r\n\r\n".to_vec());
    check(b"GET / HTTP/9.9\r\n\r\n".to_vec());
    let bodies: [&[u8]; 7] = [b"{", b"[]", b"\"x\"", b"{\"unknown\": 1}", b"\xff\xfe", b"{\"agent\": 5}", b"null"];
    for body in bodies {
        let head = format!(
            "POST /api/v1/sessions HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        check([head.as_bytes(), body].concat());
    }
    let deep = format!("{{\"agent\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let head = format!(
        "POST /api/v1/sessions HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        deep.len()
    );
    check([head.as_bytes(), deep.as_bytes()].concat());
    assert_eq!(server.get("/api/v1/health")["status"], "ok");
}
