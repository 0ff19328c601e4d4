//! Lists that come in pages: whoever follows them sees each thing once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value, clippy::format_push_string)]

mod common;

use common::Running;
use serde_json::{Value, json};

/// All pages of a list, from its first address on.
fn pages(server: &Running, first: &str) -> Vec<Vec<Value>> {
    let (mut next, mut pages) = (Some(first.to_owned()), Vec::new());
    while let Some(address) = next {
        let reply = server.call("GET", &address, None);
        assert_eq!(reply.status, 200, "{address}: {}", reply.body);
        pages.push(reply.json().as_array().unwrap().clone());
        next = reply.header("link").map(|link| {
            let address = link.strip_prefix('<').and_then(|rest| rest.strip_suffix(">; rel=\"next\""));
            address.unwrap_or_else(|| panic!("{link}")).to_owned()
        });
        assert!(pages.len() < 50, "{first} has no end");
    }
    pages
}

fn ids(pages: &[Vec<Value>]) -> Vec<Vec<&str>> {
    pages.iter().map(|page| page.iter().map(|session| session["id"].as_str().unwrap()).collect()).collect()
}

#[test]
fn sessions_come_in_pages_and_those_of_clients_apart() {
    let server = Running::start();
    let own: Vec<String> = (0..5).map(|_| server.begin()).collect();
    for id in &own {
        server.say(id, "Mine", &[]);
    }
    let ask = |words: &str| {
        let body = json!({"model": "foreword", "messages": [{"role": "user", "content": words}]});
        let reply = server.call("POST", "/v1/chat/completions", Some(&body));
        reply.header("x-foreword-session").unwrap_or_else(|| panic!("{}", reply.body)).to_owned()
    };
    let clients: Vec<String> = ["One", "Two", "Three"].into_iter().map(ask).collect();
    // A fork of a client's conversation is one too.
    let fork = server.post(&format!("/api/v1/sessions/{}/fork", clients[0]), json!({}))["id"].as_str().unwrap().to_owned();

    let all = pages(&server, "/api/v1/sessions");
    assert_eq!((all.len(), all[0].len()), (1, 9), "{all:?}");
    let all: Vec<&str> = ids(&all)[0].clone();
    let is_client = |id: &str| clients.iter().any(|client| client == id) || id == fork;
    // However large a page is, and whoever is asked for.
    let check = |query: &str, sizes: &[usize], wanted: &dyn Fn(&str) -> bool| {
        let found = pages(&server, &format!("/api/v1/sessions?{query}"));
        assert!(found.iter().flatten().all(|session| session["client"] == is_client(session["id"].as_str().unwrap())), "{query}");
        let found = ids(&found);
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), sizes, "{query}");
        let expected: Vec<&str> = all.iter().copied().filter(|id| wanted(id)).collect();
        assert_eq!(found.concat(), expected, "{query}");
    };
    check("limit=4", &[4, 4, 1], &|_| true);
    check("limit=3", &[3, 3, 3], &|_| true);
    check("limit=9", &[9], &|_| true);
    check("client=true", &[4], &is_client);
    check("client=true&limit=3", &[3, 1], &is_client);
    check("client=false", &[5], &|id| !is_client(id));
    check("client=false&limit=2", &[2, 2, 1], &|id| !is_client(id));

    // One that is used while its list is read goes to the start and pushes nothing twice into view.
    let first = server.call("GET", "/api/v1/sessions?limit=4", None);
    let seen: Vec<String> = ids(&[first.json().as_array().unwrap().clone()])[0].iter().map(|id| (*id).to_owned()).collect();
    server.say(&own[0], "Again", &[]);
    let last = &first.json()[3];
    let rest = server.get(&format!("/api/v1/sessions?before={}-{}", last["touched_ms"], last["id"].as_str().unwrap()));
    let rest = [rest.as_array().unwrap().clone()];
    assert!(ids(&rest)[0].iter().all(|id| !seen.iter().any(|seen| seen == id)), "{seen:?} {rest:?}");
    for wrong in ["x", "5", "5x-abc", ""] {
        assert_eq!(server.call("GET", &format!("/api/v1/sessions?before={wrong}"), None).status, 400, "{wrong:?}");
    }
}
