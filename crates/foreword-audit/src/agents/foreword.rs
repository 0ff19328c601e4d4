//! Foreword's own sessions, from the store that keeps them.

use std::collections::BTreeMap;

use foreword_store::{Store, Usage};

use super::builder::{Builder, MAIN};
use crate::log::{Agent, Call, FileLog, Signs, Tokens, hash};

/// The sessions that made requests, and those of clients whose requests the gateway forwarded. `file` is the name that reports show.
pub(crate) fn read(store: &impl Store, file: &str) -> foreword_store::Result<Vec<FileLog>> {
    let mut found = Vec::new();
    for row in store.sessions()? {
        let ledger: BTreeMap<u64, _> = store.ledger(&row.id)?.into_iter().collect();
        if ledger.is_empty() {
            continue;
        }
        let mut log = FileLog::new(Agent::Foreword, &row.id, file);
        let chain = log.intern(MAIN);
        log.project = row.title.unwrap_or_default();
        let mut builder = Builder::new(log);
        for request in store.requests(&row.id)? {
            builder.log.lines.read += 1;
            let Some(usage) = ledger.get(&request.number) else { continue };
            // What a fork took over is the other session's.
            let copied = request.number < row.taken.requests;
            let line = u32::try_from(request.number).unwrap_or(u32::MAX).saturating_add(1);
            if let Some(began) = &request.began {
                builder.sign(chain, line, own_sign(began));
            }
            let model = builder.log.intern(&usage.model);
            let took = usage.total_ms.and_then(|took| i64::try_from(took).ok()).unwrap_or_default();
            builder.call(Call {
                id: hash(&format!("{} {}", row.id, request.number)),
                line,
                chain,
                model,
                start_ms: request.at_ms,
                end_ms: request.at_ms.saturating_add(took),
                tokens: tokens(usage),
                copied,
                ..Call::default()
            });
        }
        if !builder.log.calls.is_empty() {
            found.push(builder.log);
        }
    }
    found.extend(read_forwarded(store, file)?);
    Ok(found)
}

/// The sessions of clients, as far as their requests name them.
fn read_forwarded(store: &impl Store, file: &str) -> foreword_store::Result<Vec<FileLog>> {
    let mut sessions: BTreeMap<String, Builder> = BTreeMap::new();
    for request in store.forwarded()? {
        let Some(session) = request.session.filter(|_| !request.usage.model.is_empty()) else { continue };
        let builder = sessions.entry(session).or_insert_with_key(|session| {
            let mut log = FileLog::new(Agent::Foreword, session, file);
            log.project.clone_from(&request.front);
            Builder::new(log)
        });
        builder.log.lines.read += 1;
        let (chain, model) = (builder.chain(""), builder.log.intern(&request.usage.model));
        let took = request.usage.total_ms.and_then(|took| i64::try_from(took).ok()).unwrap_or_default();
        let call = Call {
            id: hash(&format!("forwarded {}", request.number)),
            line: u32::try_from(request.number).unwrap_or(u32::MAX),
            chain,
            model,
            start_ms: request.at_ms,
            end_ms: request.at_ms.saturating_add(took),
            tokens: tokens(&request.usage),
            ..Call::default()
        };
        if !call.tokens.is_zero() {
            builder.call(call);
        }
    }
    Ok(sessions.into_values().map(|builder| builder.log).filter(|log| !log.calls.is_empty()).collect())
}

fn tokens(usage: &Usage) -> Tokens {
    Tokens { input: usage.uncached, cache_read: usage.read, cache_write_5m: usage.write, cache_write_1h: 0, output: usage.output }
}

/// What began an epoch, as a sign.
fn own_sign(began: &str) -> Signs {
    match began {
        // The names of the models tell that.
        "model_changed" => Signs::default(),
        "forked" => Signs::REWOUND,
        "tools_changed" => Signs::TOOLS,
        "agent_changed" | "rules_changed" | "layout_changed" => Signs::SYSTEM,
        _ => Signs::COMPACTED,
    }
}
