//! Sessions that nothing is done to: they give back their thread and their memory, and go on where they were.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::{AUTHORIZED, Running, SCRIPT, loopback};
use foreword_server::{Limits, Rest};

/// How many threads of this process are a session's.
fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    // The one that looks after all of them is called `sessions`.
    names.filter(|name| name.starts_with("session ")).count()
}

/// What a stream tells until it has told a word.
fn read_until(stream: &mut TcpStream, word: &str) -> String {
    let (mut text, mut buffer) = (String::new(), [0; 4096]);
    while !text.contains(word) {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the stream ended: {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    text
}

#[test]
fn a_session_at_rest_has_no_thread_and_its_streams_hear_what_happens_next() {
    let after = Duration::from_millis(200);
    let server = Running::with(SCRIPT, loopback(), Limits { rest: Rest { after, soon: after }, ..Limits::default() });
    let sessions: Vec<String> = (0..8).map(|_| server.begin()).collect();
    let session = &sessions[0];
    server.say(session, "One", &["Kitchen/Bread.md"]);
    assert!(threads() >= 8);
    // Somebody listens all along, which keeps nothing open.
    let mut stream = server.connect();
    write!(stream, "GET /api/v1/sessions/{session}/events HTTP/1.1\r\nhost: {}\r\n{AUTHORIZED}\r\n", server.address).unwrap();
    read_until(&mut stream, "event: open");
    let started = Instant::now();
    while threads() > 0 {
        assert!(started.elapsed() < Duration::from_secs(15), "{} threads are left", threads());
        std::thread::sleep(Duration::from_millis(100));
    }
    // It is still there for who asks, and a new turn is told to who listened before.
    assert_eq!(server.get("/api/v1/sessions").as_array().map(Vec::len), Some(8));
    server.say(session, "Two", &[]);
    let told = read_until(&mut stream, "event: done");
    assert!(told.contains("Two") && !told.contains("event: lost"), "{told}");
    let messages = server.get(&format!("/api/v1/sessions/{session}"))["messages"].clone();
    assert_eq!(messages.as_array().map(Vec::len), Some(4), "{messages}");
    assert!(messages.to_string().contains("Kitchen/Bread.md"), "{messages}");
}
