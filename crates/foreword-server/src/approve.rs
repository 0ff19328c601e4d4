//! Asks the clients of a session before a tool runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use foreword_vault_tools::{Approval, Approve, Decision};
use serde_json::{Value, json};

use crate::hub::SessionHandle;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_mins(10);

/// What waits for an answer, by number.
#[derive(Debug, Default)]
pub(crate) struct Approvals {
    waiting: Mutex<(u64, BTreeMap<u64, Asked>)>,
    /// Whether something was allowed for the rest of the session.
    lasting: AtomicBool,
}

/// A question, and where its answer goes.
type Asked = (Value, SyncSender<Decision>);

impl Approvals {
    /// Registers a question. Returns its number.
    fn add(&self, mut question: Value, answer: SyncSender<Decision>) -> (u64, Value) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.0 += 1;
        let number = waiting.0;
        question["approval"] = json!(number);
        waiting.1.insert(number, (question.clone(), answer));
        (number, question)
    }

    /// Whether something was allowed for the rest of the session.
    pub(crate) fn is_any_lasting(&self) -> bool {
        self.lasting.load(Ordering::Relaxed)
    }

    /// What waits.
    pub(crate) fn waiting(&self) -> Vec<Value> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.1.values().map(|(question, _)| question.clone()).collect()
    }

    /// Refuses everything that waits for an answer.
    pub(crate) fn refuse_all(&self) {
        let waiting = std::mem::take(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner).1);
        for (_, answer) in waiting.into_values() {
            let _ = answer.send(Decision::No); // the question may have timed out
        }
    }

    /// Answers; whether anybody had asked.
    pub(crate) fn answer(&self, number: u64, decision: Decision) -> bool {
        if decision == Decision::Session {
            self.lasting.store(true, Ordering::Relaxed);
        }
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&number);
        waiting.is_some_and(|(_, waiting)| waiting.send(decision).is_ok())
    }
}

/// Asks through a session's feed.
pub(crate) struct Asker {
    line: SessionHandle,
}

impl Asker {
    pub(crate) fn new(line: SessionHandle) -> Self {
        Self { line }
    }
}

impl Approve for Asker {
    fn ask(&mut self, approval: &Approval<'_>) -> Decision {
        let (answer, answered) = sync_channel(1);
        let question = json!({
            "tool": approval.tool, "arguments": approval.arguments, "preview": approval.preview, "change": approval.change,
        });
        let (number, question) = self.line.approvals.add(question, answer);
        self.line.feed.tell("approval", &question);
        // A stop that came before the question was added has not refused it.
        let decision = if self.line.stopper.is_stopped() {
            Decision::No
        } else {
            answered.recv_timeout(PATIENCE).unwrap_or(Decision::Absent)
        };
        self.line.approvals.answer(number, decision);
        let allowed = matches!(decision, Decision::Once | Decision::Session);
        self.line.feed.tell("approved", &json!({"approval": number, "allowed": allowed}));
        decision
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use foreword_engine::session::ItemId;

    use super::*;
    use crate::feed::{Feed, Next};

    #[test]
    fn an_answer_reaches_whoever_asked_and_nobody_else() {
        let line = SessionHandle::new(Arc::new(Feed::new("a".to_owned())));
        let mut asker = Asker::new(line.clone());
        let waiting = std::thread::spawn(move || {
            let (tool, arguments) = (ItemId::tool("foreword", "writeNote"), json!({"path": "a.md"}));
            asker.ask(&Approval { tool: &tool, arguments: &arguments, preview: Some("+a"), change: Some("-old\n+new") })
        });
        while line.approvals.waiting().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(line.approvals.waiting()[0]["tool"], "tool:foreword/writeNote");
        assert_eq!(line.approvals.waiting()[0]["change"], "-old\n+new");
        assert!(line.approvals.answer(1, Decision::Session));
        assert_eq!(waiting.join().unwrap(), Decision::Session);
        assert!(!line.approvals.answer(1, Decision::Once));
        assert!(!line.approvals.answer(7, Decision::Once));
        let Next::Events(events) = line.feed.after(0) else { panic!("lost") };
        assert_eq!(events.iter().map(|event| event.name).collect::<Vec<_>>(), ["approval", "approved"]);
    }

    #[test]
    fn a_question_holds_the_whole_change() {
        let line = SessionHandle::new(Arc::new(Feed::new("a".to_owned())));
        let lines: Vec<String> = (0..60_000).map(|number| format!("+{number}")).collect();
        let preview = lines.join("\n");
        let (shown, mut asker) = (preview.clone(), Asker::new(line.clone()));
        let waiting = std::thread::spawn(move || {
            let (tool, arguments) = (ItemId::tool("foreword", "writeNote"), json!({"path": "a.md"}));
            asker.ask(&Approval { tool: &tool, arguments: &arguments, preview: Some(&shown), change: None })
        });
        while line.approvals.waiting().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(line.approvals.waiting()[0]["preview"], preview.as_str());
        assert!(line.approvals.answer(1, Decision::No));
        assert_eq!(waiting.join().unwrap(), Decision::No);
        let Next::Events(events) = line.feed.after(0) else { panic!("lost") };
        assert!(events[0].data.contains("+59999"));
    }

    #[test]
    fn a_turn_that_is_stopped_waits_for_nobody() {
        let line = SessionHandle::new(Arc::new(Feed::new("a".to_owned())));
        line.stop();
        let (tool, arguments) = (ItemId::tool("foreword", "writeNote"), json!({}));
        let decision = Asker::new(line).ask(&Approval { tool: &tool, arguments: &arguments, preview: None, change: None });
        assert_eq!(decision, Decision::No);
    }
}
