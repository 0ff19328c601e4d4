//! Sessions of clients whose requests the gateway passes on, on the command line: what they used, and where their caches broke.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use foreword_engine::session::{Model, Point, Sqlite, Store, dollars};
use foreword_gateway::{ClientBreak, ClientLayer, ClientRequest, ClientSession, client_session, client_sessions, client_what_if};
use serde_json::json;

use crate::config;
use crate::kept::moment;
use crate::paint::{Paint, grouped, one_line, shown};
use crate::table::percent;
use crate::terminal;

/// The client's session that a point means; none where it means one of ours.
pub(crate) fn meant(store: &Sqlite, point: &Point) -> Result<Option<ClientSession>> {
    let clients = client_sessions(store)?;
    if point.session == "last" {
        let ours = store.sessions()?.into_iter().map(|row| row.touched_ms).max();
        return Ok(clients.into_iter().next().filter(|client| ours.is_none_or(|ours| client.touched_ms > ours)));
    }
    if point.name(store).is_ok() {
        return Ok(None);
    }
    let mut named: Vec<ClientSession> = clients.into_iter().filter(|client| client.id.starts_with(&point.session)).collect();
    if let Some(exact) = named.iter().position(|client| client.id == point.session) {
        return Ok(Some(named.swap_remove(exact)));
    }
    match named.len() {
        0 => Ok(None),
        1 => Ok(named.pop()),
        _ => bail!("{:?} is the start of several sessions of clients; write more of the name", point.session),
    }
}

/// Lists them, side calls under their session.
pub(crate) fn list(store: &Sqlite, as_json: bool) -> Result<bool> {
    let clients = client_sessions(store)?;
    let mut out = terminal::stdout();
    if as_json {
        for client in &clients {
            let mut row = serde_json::to_value(client)?;
            row["kind"] = json!("client");
            writeln!(out, "{row}")?;
        }
        return Ok(!clients.is_empty());
    }
    let is_there = |parent: &String| clients.iter().any(|client| client.id == *parent);
    for client in clients.iter().filter(|client| !client.parent.as_ref().is_some_and(is_there)) {
        line(&mut out, client, "")?;
        for side in clients.iter().filter(|side| side.parent.as_deref() == Some(&client.id)) {
            line(&mut out, side, "  ")?;
        }
    }
    Ok(!clients.is_empty())
}

fn line(out: &mut impl Write, client: &ClientSession, indent: &str) -> io::Result<()> {
    let paint = Paint::stdout();
    let title = one_line(client.title.as_deref().unwrap_or("(no title)"), 60);
    let by = client.client.as_deref().map(|client| format!(", {}", one_line(client, 30))).unwrap_or_default();
    let about = format!("{} requests, {} cached, ${:.4}{by}", client.requests, share(client), client.cost);
    writeln!(
        out,
        "{indent}{}  {}  {title}  {}",
        paint.with("1", shown(&client.id)),
        moment(client.touched_ms),
        paint.with("2", about)
    )
}

/// The share of all prompt tokens that came from a cache.
pub(crate) fn share(client: &ClientSession) -> String {
    let all = client.read + client.write + client.uncached;
    (client.read * 100).checked_div(all).map_or_else(|| "-".to_owned(), |percent| format!("{percent}%"))
}

/// Shows the requests of one: a line each, with its break.
pub(crate) fn show(store: &Sqlite, client: &ClientSession, as_json: bool) -> Result<()> {
    let requests = client_session(store, &client.id, &config::load()?)?;
    let mut out = terminal::stdout();
    if as_json {
        writeln!(out, "{}", json!({"session": client, "requests": requests}))?;
        return Ok(());
    }
    let paint = Paint::stdout();
    line(&mut out, client, "")?;
    writeln!(out, "{}", paint.with("2", "request  when              status  prompt   cached   reply      cost  model"))?;
    for request in &requests {
        let status = request.status.map_or("-".to_owned(), |status| status.to_string());
        let prompt = request.read + request.write + request.uncached;
        writeln!(
            out,
            "@{:<7} {}  {status:>6}  {prompt:>6}  {:>7}  {:>6}  {:>8.4}  {}",
            request.place,
            moment(request.at_ms),
            request.read,
            request.output,
            request.cost,
            one_line(&request.model, 40)
        )?;
        if let Some(broke) = &request.broke {
            writeln!(out, "         {}", paint.with("33", explained(broke)))?;
        }
    }
    Ok(())
}

/// `foreword what-if` of a client's session: its prompts without a cache, as the client sends them, and at `assist`.
pub(crate) fn what_if(store: &Sqlite, client: &ClientSession, model: Option<&Model>, as_json: bool) -> Result<ExitCode> {
    let found = client_what_if(store, &client.id, &config::load()?, model)?;
    let mut out = terminal::stdout();
    if as_json {
        writeln!(out, "{}", serde_json::to_string(&found)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let paint = Paint::stdout();
    let title = one_line(client.title.as_deref().unwrap_or_default(), 60);
    writeln!(out, "{}  {title}", paint.with("1", format!("session {}", shown(&found.session))))?;
    writeln!(out, "{} requests; simulated by the cache rules and prices of {}", found.requests, shown(&found.model))?;
    let head = format!("{:<28}{:>14}{:>9}{:>9}{:>12}", "", "prompt tokens", "cached", "written", "cost");
    writeln!(out, "{}", paint.with("2", head))?;
    let rows = [
        ("as the provider counted", found.was),
        ("without a cache", found.uncached),
        ("observe (the client alone)", found.observe),
        ("assist", found.assist),
    ];
    for (name, cost) in rows {
        let share = |part: u64| percent(part, cost.prompt_tokens);
        let (cached, written) = (share(cost.cached_tokens), share(cost.written_tokens));
        writeln!(out, "{name:<28}{:>14}{cached:>9}{written:>9}{:>12}", grouped(cost.prompt_tokens), dollars(cost.cost))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A break in one line.
pub(crate) fn explained(broke: &ClientBreak) -> String {
    let at = if broke.path.is_empty() { String::new() } else { format!(" at {}", one_line(&broke.path, 80)) };
    format!("cache break: {}{at}, {} tokens again, ${:.4}", broke.cause, broke.tokens, broke.cost)
}

/// One request of a client's session: the one that a point names, else the last.
fn request(store: &Sqlite, client: &ClientSession, point: &Point) -> Result<ClientRequest> {
    let mut requests = client_session(store, &client.id, &config::load()?)?;
    let at = match point.turn {
        Some(place) => requests.iter().position(|request| request.place == place),
        None => requests.len().checked_sub(1),
    };
    match at {
        Some(at) => Ok(requests.swap_remove(at)),
        None => bail!("the session {} has no request @{}; it has {}", client.id, point.turn.unwrap_or(0), requests.len()),
    }
}

/// `foreword inspect` of a client's request.
pub(crate) fn inspect(store: &Sqlite, client: &ClientSession, point: &Point, wire: bool, as_json: bool) -> Result<ExitCode> {
    let found = request(store, client, point)?;
    let mut out = terminal::stdout();
    if wire {
        out.write_all(store.forwarded_body(found.number)?.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    if as_json {
        writeln!(out, "{}", serde_json::to_string(&found)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let style = Paint::stdout();
    let name = format!("session {}, request {} of {}", client.id, found.place, client.requests);
    writeln!(out, "{}  {}", style.with("1", shown(&name)), moment(found.at_ms))?;
    let status = found.status.map_or("no answer".to_owned(), |status| format!("status {status}"));
    writeln!(out, "{} ({}), level {}, {status}", shown(&found.model), shown(&found.front), shown(&found.level))?;
    writeln!(
        out,
        "{} cached, {} written, {} neither, {} in reply, {}",
        grouped(found.read),
        grouped(found.write),
        grouped(found.uncached),
        grouped(found.output),
        dollars(found.cost)
    )?;
    for added in &found.added {
        writeln!(out, "added: {}", one_line(added, 100))?;
    }
    if let Some(broke) = &found.broke {
        writeln!(out, "{}", style.with("33", explained(broke)))?;
        for (name, text) in [("before", &broke.before), ("now", &broke.now)] {
            writeln!(out, "  {name:<7} {}", text.as_deref().map_or("-".to_owned(), |text| one_line(text, 100)))?;
        }
    }
    writeln!(out, "\n{}", style.with("2", "layer     tokens   cached  sha256        prefix"))?;
    for ClientLayer { id, tokens, cached, sha256, prefix } in &found.layers {
        writeln!(out, "{id:<8}  {tokens:>6}  {cached:>7}  {:<12}  {}", sha256.short(), prefix.short())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `foreword diff` of two requests of clients.
pub(crate) fn diff(
    store: &Sqlite,
    (before, first): (&ClientSession, &Point),
    (after, second): (&ClientSession, &Point),
    as_json: bool,
) -> Result<ExitCode> {
    let (one, other) = (request(store, before, first)?, request(store, after, second)?);
    let found = foreword_gateway::client_diff(store, one.number, other.number, &config::load()?)?;
    let mut out = terminal::stdout();
    if as_json {
        writeln!(out, "{}", json!({"broke": found}))?;
        return Ok(ExitCode::SUCCESS);
    }
    match &found {
        None => writeln!(out, "the second continues the first")?,
        Some(broke) => {
            writeln!(out, "{}", explained(broke))?;
            for (name, text) in [("before", &broke.before), ("after", &broke.now)] {
                writeln!(out, "{name:<10} {}", text.as_deref().map_or("-".to_owned(), |text| one_line(text, 100)))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
