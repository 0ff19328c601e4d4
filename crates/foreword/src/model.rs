//! Who answers: the model that comes with Foreword, a provider, or a script.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, bail};
use clap::Args as ClapArgs;
use foreword_engine::session::{ClientConfig, Embedded, Hands, Kept, NoHands, Remote, Script, Speaker, Stop, embedded_file};
use foreword_engine::weights::{self, SMOLLM2};

use crate::paint::note;
use crate::places::places;
use crate::progress;

/// Options that choose a model.
#[derive(ClapArgs)]
pub(crate) struct ModelArgs {
    /// The model of a new session, as the model table calls it; without it, the small one that comes with Foreword
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Where the model is spoken to, for servers of your own: `http://127.0.0.1:8080/v1`
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Take the answers from this file instead (see `foreword ask --help`)
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
}

/// Something that answers and something that runs its tools.
pub(crate) struct Answering {
    pub(crate) speaker: Box<dyn Speaker>,
    pub(crate) hands: Box<dyn Hands>,
    pub(crate) stop: Stop,
}

impl ModelArgs {
    /// Gets ready whoever answers in a session.
    pub(crate) fn answering(&self, kept: &mut Kept) -> Result<Answering> {
        let stop: Stop = Arc::new(AtomicBool::new(false));
        let on_signal = Arc::clone(&stop);
        // Where another handler is there already, Ctrl-C ends the program; everything said is stored.
        let _ = ctrlc::set_handler(move || {
            if on_signal.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        });
        if let Some(file) = &self.script {
            let mut script = Script::read(file)?;
            script.skip(usize::try_from(kept.counts().requests).unwrap_or(0));
            kept.recall_prompt()?;
            if let Some((at_ms, prompt)) = kept.last_prompt() {
                script.remember(at_ms, prompt, &kept.setup().model);
            }
            let hands = Box::new(script.hands());
            return Ok(Answering { speaker: Box::new(script), hands, stop });
        }
        let speaker: Box<dyn Speaker> = if kept.setup().is_embedded() && self.base_url.is_none() {
            Box::new(embedded(Arc::clone(&stop))?)
        } else {
            let config = ClientConfig { base_url: self.base_url.clone(), ..ClientConfig::new(kept.setup().dialect) };
            Box::new(Remote::new(config, Arc::clone(&stop))?)
        };
        Ok(Answering { speaker, hands: Box::new(NoHands), stop })
    }

    /// Sees to it that the embedded model is here before a session with it begins, so that its tokens are counted exactly.
    pub(crate) fn prepare(&self) -> Result<()> {
        if let Some(file) = &self.script {
            Script::read(file)?;
        }
        if self.model.is_some() || self.script.is_some() {
            return Ok(());
        }
        let models = places()?.models;
        if embedded_file(Some(&models)).is_none() {
            note(format!(
                "no model is named, so {} answers: the small one that comes with Foreword. It is fetched once",
                SMOLLM2.name
            ));
            weights::fetch(&SMOLLM2, &models, &mut progress::fetching(SMOLLM2.name))
                .context("the embedded model cannot be fetched; name another one with --model, or see `foreword models`")?;
        }
        Ok(())
    }
}

fn embedded(stop: Stop) -> Result<Embedded> {
    let models = places()?.models;
    let Some(file) = embedded_file(Some(&models)) else {
        bail!("the embedded model is not here; `foreword models fetch --all` fetches it");
    };
    Ok(Embedded::open(&file, stop)?)
}
