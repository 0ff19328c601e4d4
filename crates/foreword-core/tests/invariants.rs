//! The promises of the design page, over random sequences of events.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foreword_core::budget::OverBudget;
use foreword_core::envelope::Form;
use foreword_core::hash::Hash;
use foreword_core::item::{ItemId, Kind};
use foreword_core::layer::LayerId;
use foreword_core::message::{Message, Origin, Role};
use foreword_core::pairing;
use foreword_core::prompt::ToolStyle;
use foreword_core::session::{Input, PastMessage, Session};
use foreword_core::settings::{HistoryPolicy, Layout};
use foreword_core::tokens::Tokens;
use proptest::prelude::*;
use world::{Event, MODEL, SEARCHED, STEP, Sent, Step, World, holds, replay, run, run_with, tokenizer};

fn bytes(message: &Message) -> String {
    let Message { role, calls, answers, opaque, failed, .. } = message;
    format!("{role:?}|{}|{calls:?}|{answers:?}|{failed}|{opaque:?}", message.content())
}

fn system(messages: &[Arc<Message>]) -> String {
    messages
        .first()
        .filter(|message| message.role == Role::System)
        .map(|message| message.content().into_owned())
        .unwrap_or_default()
}

/// The text of a message without what stands inside the summary block, where words are quoted.
fn outside_summary(text: &str) -> String {
    match (text.find("<conversation_summary>"), text.find("</conversation_summary>")) {
        (Some(start), Some(end)) if start < end => format!("{}{}", &text[..start], &text[end..]),
        _ => text.to_owned(),
    }
}

#[test]
fn invariant_1_deterministic() {
    holds(|world| {
        let trace = |world: &World| {
            let mut trace = Vec::new();
            let end = run(world, |_, sent| {
                trace.push((sent.envelope.combined, sent.messages.iter().map(|message| bytes(message)).collect::<Vec<_>>()));
            });
            (trace, end)
        };
        prop_assert_eq!(trace(world), trace(world));
        Ok(())
    });
}

#[test]
fn invariant_2_append_only() {
    holds(|world| {
        let mut last: Option<(usize, Vec<String>, String)> = None;
        let mut failure = None;
        let _ = run(world, |_, sent| {
            let now: Vec<String> = sent.messages.iter().map(|message| bytes(message)).collect();
            let head = system(&sent.messages);
            if let Some((epoch, before, head_before)) = &last
                && *epoch == sent.envelope.epoch
                && sent.envelope.index > 0
            {
                let holds = match sent.layout {
                    Layout::Log => now.starts_with(before),
                    Layout::Library => head.starts_with(head_before.as_str()),
                };
                if !holds && failure.is_none() {
                    failure = Some(format!(
                        "request {} does not begin with the one before it\n{before:#?}\n{now:#?}",
                        sent.envelope.index
                    ));
                }
            }
            last = Some((sent.envelope.epoch, now, head));
        });
        // A fork goes back to an earlier state; its epoch number may repeat.
        if !world.events.iter().any(|event| matches!(event, Event::Fork(_))) {
            prop_assert!(failure.is_none(), "{}", failure.unwrap_or_default());
        }
        Ok(())
    });
}

#[test]
fn opaque_blocks_stay_behind_the_very_messages_they_were_made_after() {
    holds(|world| {
        let mut failure = None;
        let mut before: Vec<Vec<String>> = Vec::new();
        let _ = run(world, |_, sent| {
            let now: Vec<String> = sent.messages.iter().map(|message| bytes(message)).collect();
            for at in sent.messages.iter().enumerate().filter(|(_, message)| !message.opaque.is_empty()).map(|(at, _)| at) {
                if !before.iter().any(|request| now[..at] == **request) {
                    failure = Some(format!("message {at} answers another request\n{now:#?}"));
                }
                if sent.messages[at].opaque.iter().any(|opaque| opaque.from != world.models[sent.model]) {
                    failure = Some(format!("message {at} was made by another model\n{now:#?}"));
                }
            }
            before.push(now);
        });
        prop_assert!(failure.is_none(), "{}", failure.unwrap_or_default());
        Ok(())
    });
}

#[test]
fn invariant_3_bounded() {
    holds(|world| {
        let mut failure = None;
        let end = run(world, |session, sent| {
            let budget = session.settings().budget.prompt;
            let counted: Tokens =
                sent.messages.iter().map(|message| message.tokens()).sum::<Tokens>() + sent.envelope.tools.tokens;
            let by_layer: Tokens =
                sent.envelope.layers.iter().map(|layer| layer.tokens).sum::<Tokens>() + sent.envelope.tools.tokens;
            if counted > budget || counted != sent.envelope.tokens || by_layer != counted {
                failure = Some(format!("{counted} of {budget}, on record {}, by layer {by_layer}", sent.envelope.tokens));
            }
        });
        prop_assert!(failure.is_none(), "{}", failure.unwrap_or_default());
        // Only what may never be given up makes a request fail, and its sizes are named.
        let too_small = |over: OverBudget| over.mandatory.l1 > Tokens::ZERO && over.mandatory.total() > over.budget;
        prop_assert!(end.is_ok() || end.is_err_and(too_small), "{end:?}");
        Ok(())
    });
}

#[test]
fn invariant_4_paired() {
    holds(|world| {
        let mut failure = None;
        let _ = run(world, |_, sent| {
            if let Err(unpaired) = pairing::check(&sent.messages) {
                failure =
                    Some(format!("{unpaired}\n{:#?}", sent.messages.iter().map(|message| bytes(message)).collect::<Vec<_>>()));
            }
        });
        prop_assert!(failure.is_none(), "{}", failure.unwrap_or_default());
        Ok(())
    });
}

#[test]
fn invariant_5_replay_gives_the_same_bytes() {
    holds(|world| {
        let mut failure = None;
        let _ = run(world, |session, sent| {
            if sent.envelope.index.is_multiple_of(3) && replay(world, sent.past).messages() != session.messages() {
                failure = Some(format!("replay of request {} differs", sent.envelope.index));
            }
        });
        prop_assert!(failure.is_none(), "{}", failure.unwrap_or_default());
        Ok(())
    });
}

#[test]
fn invariant_5_a_session_that_was_put_away_goes_on_the_same() {
    holds(|world| {
        let trace = |between: fn(Session, usize) -> Session| {
            let mut trace = Vec::new();
            let end = run_with(world, between, |session, sent| {
                let messages: Vec<_> = sent.messages.iter().map(|message| Message::clone(message)).collect();
                trace.push((
                    format!("{:?}", sent.envelope),
                    session.context(&sent.envelope),
                    session.layers(&sent.envelope),
                    messages,
                ));
            });
            (trace, end)
        };
        let put_away = |session: Session, model| Session::restore(&session.checkpoint(), Arc::new(tokenizer(model))).unwrap();
        prop_assert_eq!(trace(|session, _| session), trace(put_away));
        Ok(())
    });
}

#[test]
fn invariant_6_no_authority_gained() {
    holds(|world| {
        let mut failure = None;
        let _ = run(world, |_, sent| {
            for message in sent.messages.iter().filter(|message| matches!(message.role, Role::System | Role::User)) {
                let text = message.content();
                if text.contains(STEP) || outside_summary(&text).contains(MODEL) {
                    failure = Some(format!("the model's words in a {:?} message: {text}", message.role));
                }
                // Blocks open and close in pairs whatever stands inside, and the engine's own lines are its own.
                for tag in [
                    "note_context",
                    "active_note",
                    "url_content",
                    "selected_text",
                    "rule",
                    "reference",
                    "content",
                    "grep",
                    "localSearch",
                ] {
                    let (open, close) = (
                        text.matches(&format!("\n<{tag}")).count() + usize::from(text.starts_with(&format!("<{tag}"))),
                        text.matches(&format!("</{tag}>")).count(),
                    );
                    if open != close {
                        failure = Some(format!("{tag}: {open} open, {close} close: {text}"));
                    }
                }
                let queries = text.lines().filter(|line| line.starts_with("[User query]:")).count();
                if queries > 1 {
                    failure = Some(format!("a forged query: {text}"));
                }
            }
        });
        prop_assert!(failure.is_none(), "{}", failure.unwrap_or_default());
        Ok(())
    });
}

#[test]
fn invariant_9_explained() {
    holds(|world| {
        let failure = unexplained(world);
        prop_assert!(failure.is_none(), "{}", failure.unwrap_or_default());
        Ok(())
    });
}

/// Whether a turn was begun; one that was only had elsewhere chose nothing.
fn has_turn(sent: &Sent<'_>) -> bool {
    sent.past.iter().any(|told| match told {
        Step::Input(Input::Turn(_)) => true,
        Step::Input(Input::Past(said)) => {
            matches!(said.last(), Some(PastMessage::Called { .. }))
                && said.iter().any(|said| matches!(said, PastMessage::User(_)))
        }
        _ => false,
    })
}

/// What of a conversation's requests is not on their record.
fn unexplained(world: &World) -> Option<String> {
    let mut failure = None;
    let _ = run(world, |session, sent| {
        let context: BTreeSet<ItemId> = session.context(&sent.envelope).into_iter().map(|entry| entry.item).collect();
        let layers = session.layers(&sent.envelope);
        for message in &sent.messages {
            for piece in &message.pieces {
                let explained = match &piece.origin {
                    Origin::Item(id) if message.role == Role::System || piece.layer == LayerId::L3 => {
                        let is_gone =
                            ["Removed by the user", "No longer in the vault"].iter().any(|said| piece.text.contains(said));
                        context.contains(id) || id.kind() == Kind::Output || is_gone
                    }
                    Origin::Item(_) | Origin::Engine(_) | Origin::User | Origin::Model => true,
                };
                if !explained {
                    failure = Some(format!("{:?} stands in the request but not on its record", piece.origin));
                }
            }
        }
        // Every item that waits for the search is in, or out for a reason, or a member.
        for id in SEARCHED.iter().map(|id| id.parse::<ItemId>().unwrap()) {
            let out = sent.envelope.left_out.iter().any(|left_out| left_out.item == id);
            if has_turn(sent) && !out && !context.contains(&id) {
                failure = Some(format!("{id} is neither in nor left out: {:?}", sent.envelope));
            }
        }
        // A Version is sent in full once an epoch, in L2 and L3 together.
        let mut versions: BTreeMap<String, BTreeSet<Hash>> = BTreeMap::new();
        for told in sent.past {
            let Step::Input(Input::Turn(turn)) = told else { continue };
            for version in turn.refreshed.iter().chain(&turn.attached) {
                versions.entry(version.id.to_string()).or_default().insert(version.hash);
            }
        }
        let mut full: BTreeMap<&str, usize> = BTreeMap::new();
        for segment in layers[1].segments.iter().chain(&layers[2].segments).filter(|segment| segment.form == Form::Full) {
            *full.entry(&segment.id).or_default() += 1;
        }
        for (id, times) in full.into_iter().filter(|(id, _)| id.starts_with("note:")) {
            if times > versions.get(id).map_or(0, BTreeSet::len) {
                let texts: Vec<_> = sent.messages.iter().map(|message| message.content().into_owned()).collect();
                failure = Some(format!("{id} stands {times} times in full: {texts:#?}"));
            }
        }
    });
    failure
}

#[test]
fn undo_of_a_fold_keeps_what_was_asked_for_since() {
    let scores = |first| vec![first, 0, 0, 0, 0];
    let turn = |words, first| Event::Turn { words, attach: vec![], active: None, results: vec![], scores: scores(first) };
    let world = World {
        layout: Layout::Log,
        tools: ToolStyle::Allowed,
        history: HistoryPolicy::Strip { keep_runs: 0, summary_tokens: Tokens(80) },
        prompt: 100_000,
        item: None,
        models: ["anthropic/a", "gemini/b", "openai-responses/c"].map(Into::into).into(),
        events: vec![
            turn(0, 2),
            Event::Fold,
            Event::Assistant { text: 0, calls: vec![0], thoughts: 0 },
            Event::Plan(0),
            turn(4, 0),
            Event::UndoFold,
            turn(0, 0),
        ],
    };
    assert_eq!(unexplained(&world), None);
}

#[test]
fn a_request_that_is_too_large_once_it_is_joined_names_its_sizes() {
    let turn = Event::Turn { words: 2, attach: vec![(0, 0, 0)], active: None, results: vec![], scores: vec![0, 2, 0, 0, 0] };
    let world = World {
        layout: Layout::Library,
        tools: ToolStyle::Allowed,
        history: HistoryPolicy::Full,
        prompt: 293,
        item: None,
        models: ["anthropic/a", "gemini/b", "openai-responses/c"].map(Into::into).into(),
        events: vec![
            Event::Assistant { text: 0, calls: vec![1], thoughts: 0 },
            turn,
            Event::Assistant { text: 1, calls: vec![3, 1], thoughts: 0 },
            Event::Result { id: 1, size: 4, failed: false },
            Event::Result { id: 3, size: 0, failed: false },
        ],
    };
    let over = run(&world, |_, _| ()).unwrap_err();
    assert!(over.mandatory.l1 > Tokens::ZERO, "{over:?}");
    assert!(over.mandatory.total() > over.budget, "{over:?}");
}
