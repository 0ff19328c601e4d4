//! Tables a person can read: one row a request, a bar of its layers, where the cache broke.

use std::io::{self, Write};

use foreword_engine::session::dollars;
use foreword_simulate::report::{Report, RequestReport, Totals};

use crate::paint::{Paint, shown};

/// The layers in the order in which a provider reads them, with a letter for the bar and a colour.
const LAYERS: [(&str, &str, char, &str); 6] = [
    ("TOOLS", "tools", 't', "35"),
    ("L1_SYSTEM", "L1", '1', "34"),
    ("L2_LIBRARY", "L2", '2', "36"),
    ("L4_HISTORY", "L4", '4', "32"),
    ("L3_TURN", "L3", '3', "33"),
    ("L5_USER", "L5", '5', "37"),
];

const BAR: usize = 30;

/// An item's name as far as a person needs it: nobody reads a whole hash.
fn short(item: &str) -> String {
    match item.strip_prefix("output:") {
        Some(hash) => format!("output:{}…", shown(hash).chars().take(8).collect::<String>()),
        None => shown(item),
    }
}

pub(crate) fn money(usd: f64) -> String {
    dollars(usd)
}

pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "0 %".to_owned() } else { format!("{:.0} %", part as f64 * 100.0 / whole as f64) }
}

/// One scenario.
pub(crate) fn report(out: &mut impl Write, paint: Paint, report: &Report) -> io::Result<()> {
    let about = format!("{} layout, {}, {}, {}", report.layout, report.provider, report.model, report.tokenizer);
    writeln!(out, "{}  {}", paint.with("1", shown(&report.name)), paint.with("2", about))?;
    let head = LAYERS.map(|(_, name, ..)| format!("{name:>7}")).concat();
    writeln!(
        out,
        "{}",
        paint.with("2", format!("  # turn ep{head}   total  cached       cost  {:<BAR$}  cache break", "prompt"))
    )?;
    let largest = report.requests.iter().map(|request| request.tokens.total.0).max().unwrap_or(0);
    for request in &report.requests {
        row(out, paint, request, largest)?;
    }
    let totals = &report.totals;
    if report.requests.is_empty() {
        writeln!(out, "  no requests")?;
    } else {
        writeln!(out, "  {}", summary(totals))?;
    }
    writeln!(out)
}

fn row(out: &mut impl Write, paint: Paint, request: &RequestReport, largest: u64) -> io::Result<()> {
    write!(out, "{:>3} {:>4} {:>2}", request.index, request.turn, request.epoch)?;
    for (id, ..) in LAYERS {
        write!(out, "{:>7}", request.tokens.by_layer.get(id).map_or(0, |tokens| tokens.0))?;
    }
    let cache = &request.cache;
    let total = request.tokens.total.0;
    write!(out, " {total:>7}  {:>6} {:>10}  {}", percent(cache.read.0, total), money(cache.cost), bar(paint, request, largest))?;
    match &cache.broke {
        None => writeln!(out)?,
        Some(broke) => {
            let item = broke.item.as_deref().map(|item| format!(" ({})", short(item))).unwrap_or_default();
            let place = broke.path.as_deref().map(|path| format!(" at {path}")).unwrap_or_default();
            let text = format!("{}{item}{place}: {} tokens, {}", broke.cause, broke.tokens_lost, money(broke.cost_lost));
            writeln!(out, "  {}", paint.with("31", text))?;
        }
    }
    for note in request.notes.iter().filter(|note| note.kind != "fold") {
        writeln!(out, "           {}", paint.with("2", format!("{}: {}", note.kind, shown(&note.text))))?;
    }
    Ok(())
}

/// The layers to scale; every layer that is there gets at least one letter.
fn bar(paint: Paint, request: &RequestReport, largest: u64) -> String {
    let mut bar = String::new();
    let mut width = 0;
    let cells = |tokens: u64| usize::try_from((tokens * BAR as u64).div_ceil(largest.max(1))).unwrap_or(BAR);
    for (id, _, letter, colour) in LAYERS {
        let tokens = request.tokens.by_layer.get(id).map_or(0, |tokens| tokens.0);
        let room = cells(tokens).min(BAR.saturating_sub(width));
        let text = String::from(letter).repeat(room);
        bar += &if room > 0 { paint.with(colour, text) } else { text };
        width += room;
    }
    bar + &" ".repeat(BAR - width)
}

fn summary(totals: &Totals) -> String {
    format!(
        "{} requests, {} tokens in, {} from the cache: {} (without a cache {}, best fold times in hindsight {})",
        totals.requests,
        totals.input_tokens,
        percent(totals.read.0, totals.input_tokens.0),
        money(totals.cost),
        money(totals.cost_uncached),
        money(totals.hindsight_cost),
    )
}

/// All scenarios together, where there is more than one.
pub(crate) fn totals<'a>(out: &mut impl Write, paint: Paint, reports: impl Iterator<Item = &'a Report>) -> io::Result<()> {
    let mut all = Totals::default();
    let mut count = 0;
    for report in reports {
        let totals = &report.totals;
        count += 1;
        all.requests += totals.requests;
        all.input_tokens += totals.input_tokens;
        all.read += totals.read;
        all.cost += totals.cost;
        all.cost_uncached += totals.cost_uncached;
        all.hindsight_cost += totals.hindsight_cost;
    }
    if count > 1 {
        writeln!(out, "{}", paint.with("1", format!("{count} scenarios: {}", summary(&all))))?;
    }
    Ok(())
}

/// Layouts side by side: a row a scenario.
pub(crate) fn compare(out: &mut impl Write, paint: Paint, reports: &[Vec<Report>]) -> io::Result<()> {
    let Some(first) = reports.first() else { return Ok(()) };
    let name_width = reports.iter().flatten().map(|report| report.name.chars().count()).max().unwrap_or(0).clamp(8, 50);
    let columns =
        first.iter().map(|report| format!("  {:<36}", format!("{} layout", report.layout))).collect::<Vec<_>>().concat();
    writeln!(out, "{}", paint.with("1", format!("{:<name_width$}{columns}", "")))?;
    let columns = format!("  {:>8}{:>8}{:>8}{:>12}", "tokens", "cached", "breaks", "cost").repeat(first.len());
    writeln!(out, "{}", paint.with("2", format!("{:<name_width$}{columns}  cheapest", "scenario")))?;
    for row in reports {
        let name: String = row.first().map(|report| shown(&report.name).chars().take(name_width).collect()).unwrap_or_default();
        write!(out, "{name:<name_width$}")?;
        for report in row {
            let breaks = report.requests.iter().filter(|request| request.cache.broke.is_some()).count();
            let totals = &report.totals;
            let cached = percent(totals.read.0, totals.input_tokens.0);
            write!(out, "  {:>8}{cached:>8}{breaks:>8}{:>12}", totals.input_tokens.0, money(totals.cost))?;
        }
        let cheapest = row.iter().min_by(|a, b| a.totals.cost.total_cmp(&b.totals.cost));
        let same = row.windows(2).all(|pair| (pair[0].totals.cost - pair[1].totals.cost).abs() < f64::EPSILON);
        let cheapest = if same { "same" } else { cheapest.map_or("", |report| report.layout) };
        writeln!(out, "  {}", paint.with("32", cheapest))?;
    }
    Ok(())
}
