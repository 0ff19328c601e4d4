//! Who may come in and how much they may take, byte by byte over a socket.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value, clippy::format_push_string)]

mod common;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::{AUTHORIZED, Running, SCRIPT, TOKEN, loopback};
use foreword_server::{Limits, Reach, Token};
use serde_json::json;

#[test]
fn only_this_machine_under_its_own_name() {
    let server = Running::start();
    let port = server.address.port();
    let check = |path: &str, headers: &str, expect: u16| {
        let reply = server.raw(format!("GET {path} HTTP/1.1\r\nconnection: close\r\n{AUTHORIZED}{headers}\r\n").as_bytes());
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
                "POST /api/v1/sessions HTTP/1.1\r\nhost: {host}\r\n{AUTHORIZED}connection: close\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
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
fn from_outside_and_on_this_machine_only_with_the_token() {
    let network = Reach::Network { token: Token::of(TOKEN), hosts: vec!["notes.example".to_owned()] };
    for reach in [loopback(), network] {
        let server = Running::with(SCRIPT, reach, Limits::default());
        let check = |path: &str, headers: &[(&str, &str)], expect: u16| {
            let reply = server.call_as_stranger("GET", path, headers, None);
            assert_eq!(reply.status, expect, "{path} {headers:?}: {}", reply.body);
            assert!(!reply.body.contains(TOKEN));
        };
        check("/", &[], 200);
        check("/api/v1/health", &[], 200);
        check("/api/v1/openapi.json", &[], 200);
        check("/api/v1/sessions", &[], 401);
        check("/v1/models", &[], 401);
        check("/api/v1/sessions", &[("authorization", &format!("Bearer {TOKEN}"))], 200);
        check("/api/v1/sessions", &[("x-api-key", TOKEN)], 200);
        check("/v1/models", &[("x-api-key", TOKEN)], 200);
        check("/nothing", &[], 401);
        check("/nothing", &[("x-api-key", TOKEN)], 404);
    }
}

#[test]
fn where_no_token_is_asked_for_none_is_needed() {
    let server = Running::with(SCRIPT, Reach::Open, Limits::default());
    for path in ["/api/v1/sessions", "/v1/models", "/"] {
        assert_eq!(server.call_as_stranger("GET", path, &[], None).status, 200, "{path}");
        let foreign = [("origin", "http://evil.example")];
        assert_eq!(server.call_as_stranger("GET", path, &foreign, None).status, if path == "/" { 200 } else { 403 }, "{path}");
    }
    assert_eq!(server.call_as_stranger("POST", "/api/v1/login", &[], Some(&json!({"code": "x"}))).status, 401);
}

#[test]
fn a_code_opens_the_page_once() {
    let mut server = Running::start();
    let page = server.page();
    let (_, code) = page.split_once("#code=").unwrap();
    let login = |code: &str| server.call_as_stranger("POST", "/api/v1/login", &[], Some(&json!({"code": code})));
    let reply = login(code);
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.header("set-cookie"), None);
    let key = reply.json()["key"].as_str().unwrap().to_owned();
    let open = |headers: &[(&str, &str)]| server.call_as_stranger("GET", "/api/v1/sessions", headers, None).status;
    assert_eq!(open(&[("authorization", &format!("Bearer {key}"))]), 200);
    let again = login(code);
    assert!(again.status == 401 && again.body.contains("foreword keys url"), "{}", again.body);
    // A code is for one server, and no key by itself.
    let fresh = Token::of(TOKEN).code(server.address.port()).unwrap();
    for wrong in
        ["", "x", &Token::of(TOKEN).code(1).unwrap(), &Token::of("other").code(server.address.port()).unwrap(), TOKEN, &key]
    {
        assert_eq!(login(wrong).status, 401, "{wrong}");
    }
    assert_eq!(open(&[("authorization", &format!("Bearer {fresh}"))]), 401);
    let foreign = [("origin", "http://evil.example")];
    let stolen = server.call_as_stranger("POST", "/api/v1/login", &foreign, Some(&json!({"code": fresh})));
    assert_eq!(stolen.status, 403);
    assert_eq!(login(&fresh).status, 200, "a refused request used it up");
    server.end();
    // Another server of the same user knows the page's key.
    let after = Running::start();
    assert_eq!(after.call_as_stranger("GET", "/api/v1/sessions", &[("x-api-key", &key)], None).status, 200);
}

#[test]
fn wrong_guesses_cost_who_has_the_token_nothing() {
    let limits = Limits { requests_per_s: Some(50), refused_per_s: 1, files_per_s: 1, ..Limits::default() };
    let server = Running::with(SCRIPT, Reach::Network { token: Token::of(TOKEN), hosts: Vec::new() }, limits);
    let guess = || server.call_as_stranger("GET", "/api/v1/sessions", &[("x-api-key", "fw-server-guess")], None).status;
    let guesses: Vec<u16> = (0..30).map(|_| guess()).collect();
    assert!(guesses.contains(&401) && guesses.contains(&429) && guesses.iter().all(|status| *status > 400), "{guesses:?}");
    let files: Vec<u16> = (0..30).map(|_| server.call_as_stranger("GET", "/", &[], None).status).collect();
    assert!(files.contains(&200) && files.contains(&429), "{files:?}");
    for _ in 0..30 {
        assert_eq!(server.call("GET", "/api/v1/sessions", None).status, 200);
        assert!(guess() > 400);
    }
}

#[test]
fn everything_has_an_end() {
    let limits = Limits { body: 1000, head: 8192, headers: 20, idle: Duration::from_millis(400), ..Limits::default() };
    let server = Running::with(SCRIPT, loopback(), limits);
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
    let reach = Reach::Network { token: Token::of(TOKEN), hosts: Vec::new() };
    let server = Running::with(SCRIPT, reach, Limits { requests_per_s: Some(1), ..Limits::default() });
    let statuses: Vec<u16> = (0..12).map(|_| server.call("GET", "/api/v1/sessions", None).status).collect();
    assert!(statuses.contains(&200) && statuses.contains(&429), "{statuses:?}");
}

/// Whether the server still serves: a request on a connection of its own.
fn is_served(server: &Running) -> bool {
    server.call("GET", "/api/v1/health", None).status == 200
}

/// Whether the other side has closed a connection, behind what it wrote.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    loop {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

#[test]
fn idle_connections_make_room_for_new_ones() {
    for limits in [Limits { connections: 10, ..Limits::default() }, Limits { connections_per_address: 10, ..Limits::default() }] {
        let server = Running::with(SCRIPT, loopback(), limits);
        // One that says nothing, one in the middle of its head, the others after an answer.
        let mut held: Vec<TcpStream> = (0..10).map(|_| server.connect()).collect();
        held[1].write_all(b"GET / HTTP/1.1\r\nhost: loc").unwrap();
        for stream in &mut held[2..] {
            write!(stream, "GET /api/v1/health HTTP/1.1\r\nhost: {}\r\n\r\n", server.address).unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        }
        std::thread::sleep(Duration::from_millis(100));
        for _ in 0..30 {
            assert!(is_served(&server));
        }
        // The one that was idle for longest went first, the one that was used last is still there.
        assert!(is_closed(&mut held[0]));
        assert!(!is_closed(&mut held[9]));
    }
}

#[test]
fn connections_that_do_something_are_not_closed_for_others() {
    let server = Running::with(SCRIPT, loopback(), Limits { connections_per_address: 4, ..Limits::default() });
    let session = server.begin();
    let mut busy: Vec<TcpStream> = (0..4).map(|_| server.connect()).collect();
    for stream in &mut busy {
        let head = format!("GET /api/v1/sessions/{session}/events HTTP/1.1\r\nhost: {}\r\n{AUTHORIZED}\r\n", server.address);
        stream.write_all(head.as_bytes()).unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
    }
    // No room: the new one is closed at once.
    assert_eq!(server.call("GET", "/api/v1/health", None).status, 0);
    assert!(busy.iter_mut().all(|stream| !is_closed(stream)));
    drop(busy.pop());
    std::thread::sleep(Duration::from_millis(300));
    assert!(is_served(&server));
}

#[test]
fn more_idle_connections_than_there_is_room_for_shut_nobody_out() {
    let server =
        Running::with(SCRIPT, loopback(), Limits { connections: 200, connections_per_address: 150, ..Limits::default() });
    let held: Vec<TcpStream> = (0..400).map(|_| server.connect()).collect();
    let started = Instant::now();
    for _ in 0..20 {
        assert!(is_served(&server));
    }
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    drop(held);
}

#[test]
fn a_body_comes_in_time_or_not_at_all() {
    let limits = Limits { body_idle: Duration::from_millis(300), body_time: Duration::from_millis(900), ..Limits::default() };
    let server = Running::with(SCRIPT, loopback(), limits);
    for path in ["/api/v1/sessions", "/api/v1/login", "/v1/chat/completions", "/v1/messages", "/v1/responses"] {
        for drips in [false, true] {
            let mut stream = server.connect();
            let head = format!("POST {path} HTTP/1.1\r\nhost: {}\r\n{AUTHORIZED}", server.address);
            write!(stream, "{head}content-type: application/json\r\ncontent-length: 9999\r\n\r\n{{").unwrap();
            let (started, mut writes) = (Instant::now(), stream.try_clone().unwrap());
            if drips {
                std::thread::spawn(move || {
                    for _ in 0..100 {
                        std::thread::sleep(Duration::from_millis(100));
                        if writes.write_all(b" ").is_err() {
                            return;
                        }
                    }
                });
            }
            let mut text = vec![0; 16384];
            let read = stream.read(&mut text).unwrap();
            let text = String::from_utf8_lossy(&text[..read]);
            assert!(text.starts_with("HTTP/1.1 408"), "{path} {drips}: {text}");
            let least = if drips { 800 } else { 250 };
            let took = started.elapsed();
            assert!((Duration::from_millis(least)..Duration::from_secs(5)).contains(&took), "{path} {drips}: {took:?}");
        }
    }
}

#[test]
fn a_connection_that_is_idle_ends() {
    let server = Running::with(SCRIPT, loopback(), Limits { idle: Duration::from_millis(400), ..Limits::default() });
    let mut silent = server.connect();
    let mut answered = server.connect();
    write!(answered, "GET /api/v1/health HTTP/1.1\r\nhost: {}\r\n\r\n", server.address).unwrap();
    assert!(answered.read(&mut [0; 4096]).unwrap() > 0);
    std::thread::sleep(Duration::from_millis(1200));
    assert!(is_closed(&mut silent), "before its first byte");
    assert!(is_closed(&mut answered), "between requests");
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
            "POST /api/v1/sessions HTTP/1.1\r\nhost: {host}\r\n{AUTHORIZED}connection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        check([head.as_bytes(), body].concat());
    }
    let deep = format!("{{\"agent\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let head = format!(
        "POST /api/v1/sessions HTTP/1.1\r\nhost: {host}\r\n{AUTHORIZED}connection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        deep.len()
    );
    check([head.as_bytes(), deep.as_bytes()].concat());
    assert_eq!(server.get("/api/v1/health")["status"], "ok");
}
