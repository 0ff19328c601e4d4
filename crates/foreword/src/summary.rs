//! What came of managing a history, as a person reads it.

use foreword_engine::manager::View;
use foreword_engine::session::dollars;

use crate::paint::{Paint, count, one_line, shown};

/// How many lost facts are named.
const NAMED: usize = 12;

/// Shows a managed view: who wrote it, what it saves, what the check found.
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
                    figures.after,
                    figures.before,
                    dollars(figures.cost)
                ))
            )
        ),
    }
    let (survived, missing) = (view.check.survived.len(), view.check.missing.len());
    if survived + missing > 0 {
        println!("{} of {} survived in its words", survived, count(survived + missing, "exact thing"));
    }
    for kept in view.check.missing.iter().take(NAMED) {
        println!(
            "  lost and kept below it, or to be recalled: {} {} [{}]",
            kept.fact.kind.as_str(),
            one_line(&kept.fact.text, 80),
            kept.from
        );
    }
    for section in &view.sections {
        for sentence in &section.unfounded {
            println!("  left out, because nobody said it: {}", one_line(sentence, 90));
        }
        if let Some(why) = &section.skipped {
            println!("  {} was left out: {}", shown(&section.name), one_line(why, 90));
        }
    }
}
