// What holds for a log of any program, whatever its bytes are: nothing panics, nothing is counted twice, and sums are sums.

use std::sync::OnceLock;

use foreword_audit::agents::{read_lines, read_text};
use foreword_audit::log::{Agent, FileLog};
use foreword_audit::page::page;
use foreword_audit::redact::redact;
use foreword_audit::report::report;
use foreword_audit::screen::{Look, screen};
use foreword_audit::sessions::{Filter, Sessions};
use foreword_provider::table::ModelTable;
use jiff::tz::TimeZone;

fn check(agent: Agent, data: &[u8]) {
    static TABLE: OnceLock<ModelTable> = OnceLock::new();
    let table = TABLE.get_or_init(|| ModelTable::builtin().unwrap());
    let mut logs = read_text(agent, data);
    if agent == Agent::GeminiCli {
        logs.push(read_lines(agent, data, FileLog::new(agent, "lines", "lines")));
    }
    for log in &logs {
        let places = log.calls.len();
        assert!(log.results.iter().all(|result| (result.call as usize) < places));
        assert!(log.calls.iter().all(|call| call.end_ms >= call.start_ms));
        assert!(log.lines.mended + log.lines.skipped <= log.lines.read);
    }
    let sessions = Sessions::join(logs.clone(), &Filter::default());
    let mut found = report(&sessions, table, &TimeZone::UTC);
    assert_eq!(found.calls, found.sessions.iter().map(|session| session.calls).sum::<u64>());
    assert!(found.cost.is_finite() && found.cost >= 0.0);
    // The same log once more, as a copy elsewhere: calls that have an identity are not counted again.
    let known: u64 = logs.iter().flat_map(|log| &log.calls).filter(|call| call.id == 0).map(|call| u64::from(call.count)).sum();
    let twice: Vec<FileLog> =
        logs.iter().cloned().chain(logs.iter().cloned().map(|log| FileLog { session: "copy".into(), ..log })).collect();
    let again = report(&Sessions::join(twice, &Filter::default()), table, &TimeZone::UTC);
    assert!(again.calls <= found.calls + known, "{} {} {known}", again.calls, found.calls);
    let text = screen(&found, Look { width: data.len(), colours: false });
    assert!(!text.contains('\u{1b}'));
    redact(&mut found);
    let html = page(&found);
    assert_eq!(html.matches("</script>").count(), 2);
}
