//! Prints the result of managing a history (conversation summaries).

use foreword_engine::manager::View;
use foreword_engine::session::dollars;

use crate::paint::{Paint, count, grouped, one_line, shown};

/// The largest number of lost facts to list.
const NAMED: usize = 12;

/// Prints a managed view: its model, its size, and what the check found.
pub(crate) fn show(view: &View) {
    let paint = Paint::stdout();
    let figures = &view.figures;
    let template = view.template.as_deref().unwrap_or("no template");
    match &view.why {
        Some(why) => println!("{}", paint.with("33", shown(&format!("not managed ({template}): {why}")))),
        None => println!(
            "{}",
            paint.with(
                "2",
                shown(&format!(
                    "{template} ({}), by {}: {} tokens stand for {}, {}",
                    view.source,
                    view.model,
                    grouped(figures.after.0),
                    grouped(figures.before.0),
                    dollars(figures.cost)
                ))
            )
        ),
    }
    let (survived, missing) = (view.check.survived.len(), view.check.missing.len());
    if survived + missing > 0 {
        println!("{} of {} kept in the summary", survived, count(survived + missing, "exact fact"));
    }
    for kept in view.check.missing.iter().take(NAMED) {
        println!(
            "  not in the summary, listed below it or recalled on demand: {} {} [{}]",
            kept.fact.kind.as_str(),
            one_line(&kept.fact.text, 80),
            kept.from
        );
    }
    for section in &view.sections {
        for sentence in &section.unfounded {
            println!("  removed, because no message supports it: {}", one_line(sentence, 90));
        }
        if let Some(why) = &section.skipped {
            println!("  {} was left out: {}", shown(&section.name), one_line(why, 90));
        }
    }
}
