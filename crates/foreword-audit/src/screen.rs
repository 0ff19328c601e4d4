//! The report on one screen of a terminal, with bars.

use std::fmt::Write as _;

use crate::findings::short;
use crate::report::{Group, Report};

/// How it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Columns.
    pub width: usize,
    /// Whether colours are wanted.
    pub colours: bool,
}

/// Narrower than this, columns would run into each other.
const NARROWEST: usize = 60;
const WIDEST: usize = 160;
/// The names in front of bars, and the numbers behind them.
const NAME: usize = 26;
const NUMBERS: usize = 26;

/// The report as text.
pub fn screen(report: &Report, look: Look) -> String {
    let look = Look { width: look.width.clamp(NARROWEST, WIDEST), ..look };
    let mut out = String::new();
    head(&mut out, report, look);
    if report.calls == 0 {
        return out;
    }
    causes(&mut out, report, look);
    parts(&mut out, report, look);
    groups(&mut out, report, look);
    what_if(&mut out, report, look);
    findings(&mut out, report, look);
    // Columns are filled up with blanks; at the end of a line nobody needs them.
    let mut trimmed = String::with_capacity(out.len());
    for line in out.lines() {
        trimmed.push_str(line.trim_end());
        trimmed.push('\n');
    }
    trimmed
}

impl Look {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn title(self, left: &str, right: &str) -> String {
        let room = self.width.saturating_sub(left.chars().count() + right.chars().count());
        format!("\n{}{}{}", self.paint("1", left), " ".repeat(room), self.paint("2", right))
    }

    /// The room for bars.
    fn bars(self) -> usize {
        self.width.saturating_sub(NAME + NUMBERS + 3).min(60)
    }

    fn bar(self, share: f64, code: &str) -> String {
        let room = self.bars();
        let bar = bar(share, room);
        let rest = room.saturating_sub(bar.chars().count());
        format!("{}{}", self.paint(code, &bar), " ".repeat(rest))
    }

    /// One row: a name, a bar, numbers.
    fn row(self, name: &str, share: f64, code: &str, numbers: &str) -> String {
        format!("{:<NAME$} {} {numbers:>NUMBERS$}", fitted(name, NAME), self.bar(share, code))
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of a screen's width
fn bar(share: f64, room: usize) -> String {
    const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
    let eighths = (share.clamp(0.0, 1.0) * room as f64 * 8.0).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    if let Some(part) = (eighths % 8).checked_sub(1) {
        bar.push(EIGHTHS[part]);
    }
    if bar.is_empty() && share > 0.0 && room > 0 { "▏".to_owned() } else { bar }
}

/// A name that takes no more than `room` columns; its end says most.
fn fitted(name: &str, room: usize) -> String {
    let clean: String = name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    let length = clean.chars().count();
    if length <= room { clean } else { format!("…{}", clean.chars().skip(length - room + 1).collect::<String>()) }
}

/// `$41.20`, `$0.0042`.
pub fn money(usd: f64) -> String {
    let size = usd.abs();
    let digits = if size >= 100.0 || size == 0.0 {
        0
    } else if size >= 0.995 {
        2
    } else if size >= 0.01 {
        3
    } else {
        5
    };
    let sign = if usd < 0.0 { "−" } else { "" };
    format!("{sign}${size:.digits$}")
}

/// `1.2 M`.
pub fn amount(number: u64) -> String {
    let n = number as f64;
    match number {
        0..10_000 => number.to_string(),
        10_000..1_000_000 => format!("{:.0} k", n / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} M", n / 1e6),
        _ => format!("{:.1} G", n / 1e9),
    }
}

fn percent(part: f64, whole: f64) -> String {
    if whole <= 0.0 { "0 %".to_owned() } else { format!("{:.0} %", part / whole * 100.0) }
}

fn head(out: &mut String, report: &Report, look: Look) {
    let agents: Vec<String> = report.agents.iter().map(|agent| format!("{} {}", agent.name, amount(agent.calls))).collect();
    let span = report.span.map_or(String::new(), |(from, to)| {
        let day = |moment: crate::report::Moment| moment.to_string().chars().take(10).collect::<String>();
        format!(", {} to {}", day(from), day(to))
    });
    let plural = |number: u64| if number == 1 { "" } else { "s" };
    let count = report.sessions.len() as u64;
    let line = format!("{count} session{}, {} call{}{span}", plural(count), amount(report.calls), plural(report.calls));
    let _ = writeln!(out, "{}", look.paint("1", &line));
    if report.calls == 0 {
        let _ = writeln!(out, "no calls were found in {} files", report.files);
        return;
    }
    let _ = writeln!(out, "{}", look.paint("2", &format!("{}; prices of {}", agents.join(", "), report.prices_as_of)));
    let tokens = report.tokens;
    let prompt = tokens.prompt() as f64;
    let _ = writeln!(
        out,
        "{}  prompts {}: read {} ({}), written {}, fresh {}; output {}",
        look.paint("1", &money(report.cost)),
        amount(tokens.prompt()),
        amount(tokens.cache_read),
        percent(tokens.cache_read as f64, prompt),
        amount(tokens.written()),
        amount(tokens.input),
        amount(tokens.output),
    );
    if !report.unpriced.is_empty() {
        let models: Vec<String> =
            report.unpriced.iter().map(|(model, calls)| format!("{} ({calls})", fitted(model, 40))).collect();
        let _ = writeln!(out, "{}", look.paint("33", &format!("no price, so not in the sums: {}", models.join(", "))));
    }
    let skipped = report.lines.skipped;
    if skipped > 0 || !report.unread.is_empty() {
        let text = format!("not read: {} lines of {}, {} files", skipped, amount(report.lines.read), report.unread.len());
        let _ = writeln!(out, "{}", look.paint("33", &text));
    }
    if report.output_partial * 20 > report.calls {
        let text = format!(
            "output too small in {} calls: those versions log only what a stream began with",
            amount(report.output_partial)
        );
        let _ = writeln!(out, "{}", look.paint("33", &text));
    }
}

fn causes(out: &mut String, report: &Report, look: Look) {
    let sum: f64 = report.causes.iter().map(|cause| cause.cost).sum();
    let right = format!("{} of {}", money(sum), money(report.cost));
    let _ = writeln!(out, "{}", look.title("Breaks: what was written again although it could have been read", &right));
    let most = report.causes.iter().map(|cause| cause.cost).fold(report.misses.cost, f64::max).max(1e-12);
    for cause in &report.causes {
        let name = format!("{} {}×", cause.cause.name(), cause.count);
        let numbers = format!("{} tokens {:>9}", amount(cause.tokens), money(cause.cost));
        let _ = writeln!(out, "{}", look.row(&name, cause.cost / most, "31", &numbers));
    }
    if report.misses.count > 0 {
        let name = format!("lost by the provider {}×", report.misses.count);
        let numbers = format!("{} tokens {:>9}", amount(report.misses.tokens), money(report.misses.cost));
        let _ = writeln!(out, "{}", look.row(&name, report.misses.cost / most, "2", &numbers));
    }
    if report.causes.is_empty() && report.misses.count == 0 {
        let _ = writeln!(out, "none");
    }
}

fn parts(out: &mut String, report: &Report, look: Look) {
    let sum: f64 = report.parts.iter().map(|part| part.cost).sum();
    let _ = writeln!(out, "{}", look.title("What the prompts were", "by cost, about"));
    let most = report.parts.first().map_or(1.0, |part| part.cost.max(1e-12));
    for part in report.parts.iter().take(6) {
        let numbers = format!("{} {:>9}", percent(part.cost, sum), money(part.cost));
        let _ = writeln!(out, "{}", look.row(&part.name, part.cost / most, "36", &numbers));
    }
}

fn groups(out: &mut String, report: &Report, look: Look) {
    let list = |name: fn(&Group) -> &str, groups: &[Group]| -> String {
        let shown: Vec<String> =
            groups.iter().take(3).map(|group| format!("{} {}", fitted(name(group), 30), money(group.cost))).collect();
        let more = groups.len().saturating_sub(3);
        if more > 0 { format!("{}, {more} more", shown.join(", ")) } else { shown.join(", ") }
    };
    out.push('\n');
    for (name, text) in [
        ("models", list(|group| &group.name, &report.models)),
        ("projects", list(|group| short(&group.name), &report.projects)),
        ("threads", list(|group| &group.name, &report.chains)),
    ] {
        let line: String = format!("{name:<10}{text}");
        let line =
            if line.chars().count() > look.width { line.chars().take(look.width - 1).chain(['…']).collect() } else { line };
        let _ = writeln!(out, "{line}");
    }
    if !report.servers.is_empty() {
        let servers: Vec<String> = report
            .servers
            .iter()
            .take(3)
            .map(|server| format!("{} {}", fitted(&server.name, 24), money(server.cost + server.cost_later)))
            .collect();
        let _ = writeln!(out, "{:<10}{}", "MCP", servers.join(", "));
    }
}

fn what_if(out: &mut String, report: &Report, look: Look) {
    let _ = writeln!(out, "{}", look.title("What if", "cost, change, range"));
    let most = report.what_if.iter().map(|one| one.cost).fold(1e-12, f64::max);
    for one in &report.what_if {
        let change = if one.policy == "as logged" || report.cost <= 0.0 {
            String::new()
        } else {
            format!("{:+.0} %", (one.cost - report.cost) / report.cost * 100.0).replace('-', "−")
        };
        let range = if (one.high - one.low).abs() < 1e-12 {
            String::new()
        } else {
            format!("±{:.0} %", (one.high - one.low) / one.cost.max(1e-12) * 50.0)
        };
        let numbers = format!("{:>9} {change:>7} {range:>6}", money(one.cost));
        let code = if one.cost < report.cost * 0.995 { "32" } else { "2" };
        let _ = writeln!(out, "{}", look.row(&one.policy, one.cost / most, code, &numbers));
    }
}

fn findings(out: &mut String, report: &Report, look: Look) {
    if report.findings.is_empty() {
        return;
    }
    let _ = writeln!(out, "{}", look.title("Worth doing", "saving of what is spent there, per 30 days"));
    for (number, finding) in report.findings.iter().enumerate() {
        let saves = format!("−{} of {}", money(finding.saves_per_month), money(finding.of_per_month));
        let title = fitted(&format!("{}. {}", number + 1, finding.title), look.width.saturating_sub(saves.chars().count() + 1));
        let room = look.width.saturating_sub(title.chars().count() + saves.chars().count());
        let _ = writeln!(out, "{title}{}{}", " ".repeat(room), look.paint("32", &saves));
        for line in wrapped(&finding.setting, look.width.saturating_sub(3)) {
            let _ = writeln!(out, "{}", look.paint("2", &format!("   {line}")));
        }
    }
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_read_them() {
        let check = |usd: f64, expect: &str| assert_eq!(money(usd), expect);
        check(0.0, "$0");
        check(0.004_21, "$0.00421");
        check(0.25, "$0.250");
        check(41.2, "$41.20");
        check(312.4, "$312");
        check(-3.5, "−$3.50");
        for (number, expect) in [(0, "0"), (9_999, "9999"), (12_345, "12 k"), (1_250_000, "1.2 M"), (3_000_000_000, "3.0 G")] {
            assert_eq!(amount(number), expect);
        }
    }

    #[test]
    fn bars_are_to_scale() {
        let check = |share: f64, expect: &str| assert_eq!(bar(share, 4), expect);
        check(0.0, "");
        check(0.001, "▏");
        check(0.5, "██");
        check(0.53, "██▏");
        check(1.0, "████");
        check(7.0, "████");
    }

    #[test]
    fn long_names_keep_their_end() {
        assert_eq!(fitted("abcdef", 4), "…def");
        assert_eq!(fitted("a\u{1b}b", 4), "a\u{fffd}b");
    }
}
