//! Who answers: the model that comes with Foreword, a provider, or a script.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, bail};
use clap::Args as ClapArgs;
use foreword_engine::audit::Audit;
use foreword_engine::config::{Chosen, ClientConfig, Config, KeySource, Model, Server};
use foreword_engine::session::{
    Embedded, Kept, Outgoing, Outputs, Prompt, Remote, Reply, Script, SpeakError, Speaker, Stop, embedded_file,
};
use foreword_engine::weights::SMOLLM2;
use foreword_engine::workbench::Workbench;

use crate::ask::Keep;
use crate::config;
use crate::equip::Find;
use crate::kept::now_ms;
use crate::paint::{grouped, note, shown};
use crate::places::places;
use crate::progress;

/// Options that choose a model.
#[derive(ClapArgs)]
pub(crate) struct ModelArgs {
    /// The model that answers from here on: a name of `foreword models --all`, or PROVIDER/NAME; else that of the session, else the
    /// configured one, else the small one that comes with Foreword
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Where the model is spoken to, for servers of your own: `http://127.0.0.1:8080/v1`
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Tokens that a new session's model takes, prompt and reply together, where nobody knows it
    #[arg(long, value_name = "TOKENS")]
    pub(crate) window: Option<u64>,
    /// Take the answers from this file instead (see `foreword ask --help`)
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
}

/// Something that answers and something that runs its tools.
pub(crate) struct Answering {
    pub(crate) speaker: Box<dyn Speaker>,
    pub(crate) hands: Workbench,
    pub(crate) stop: Stop,
    /// Where it is, and what that means for what is said, in words.
    pub(crate) place: String,
}

/// Set by the first Ctrl-C; the second ends the program. Everything said is stored either way.
pub(crate) fn stop() -> Stop {
    let stop: Stop = Arc::new(AtomicBool::new(false));
    let on_signal = Arc::clone(&stop);
    // Where another handler is there already, Ctrl-C ends the program.
    let _ = ctrlc::set_handler(move || {
        if on_signal.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
    stop
}

impl ModelArgs {
    fn server(&self) -> Server<'_> {
        Server { base_url: self.base_url.as_deref(), window: self.window }
    }

    /// The model that is meant.
    pub(crate) fn choose(&self, config: &Config) -> Result<Chosen> {
        let chosen = config.choose(self.model.as_deref(), self.server())?;
        if chosen.is_assumed && self.window.is_none() {
            note(format!(
                "nobody knows {}: its window is taken to be {} tokens; --window or the configuration says otherwise",
                shown(&chosen.model.name),
                grouped(chosen.model.window.0)
            ));
        }
        Ok(chosen)
    }

    /// Gets ready whoever answers in a session, and what runs its tools.
    pub(crate) fn answering(&self, kept: &mut Kept, bench: Workbench, stop: &Stop) -> Result<Answering> {
        let (speaker, outputs, place) = self.speaker(kept, stop)?;
        Ok(Answering { speaker, hands: bench.played(outputs), stop: Arc::clone(stop), place })
    }

    /// Whoever answers, what its tools are said to give back where a script plays it, and where it is.
    pub(crate) fn speaker(&self, kept: &mut Kept, stop: &Stop) -> Result<(Box<dyn Speaker>, Option<Outputs>, String)> {
        if let Some(file) = &self.script {
            let mut script = Script::read(file)?;
            script.skip(usize::try_from(kept.counts().requests).unwrap_or(0));
            kept.recall_prompt()?;
            if let Some((at_ms, prompt)) = kept.last_prompt() {
                script.remember(at_ms, prompt, &kept.setup().model);
            }
            let (outputs, place) = (script.hands(), format!("played by the script {}", file.display()));
            return Ok((Box::new(script), Some(outputs), place));
        }
        let (speaker, place) = reach(self.way(kept)?, stop)?;
        Ok((speaker, None, place))
    }

    /// Whether the key is there, where that can be told without asking anybody. A question that cannot be sent begins no session.
    pub(crate) fn check_key(&self, chosen: &Chosen) -> Result<()> {
        match (&chosen.client, &self.script) {
            (Some(client), None) => Ok(client.key.check()?),
            _ => Ok(()),
        }
    }

    /// Lets the model that is named answer in a session that is there.
    pub(crate) fn change(&self, kept: &mut Kept) -> Result<()> {
        let window = || {
            if self.window.is_some() {
                bail!(
                    "--window says how large the window of a new session's model is; session {} goes on with its own",
                    kept.id()
                );
            }
            Ok(())
        };
        if self.model.is_none() {
            return window();
        }
        let chosen = self.choose(&config::load()?)?;
        if chosen.model.name == kept.setup().model.name {
            return window();
        }
        self.prepare(&chosen)?;
        change(kept, chosen.model)
    }

    /// How notes are found beside this model: where a script answers or nothing is sent, nothing is fetched.
    pub(crate) fn find(&self, keep: Keep) -> Find {
        if self.script.is_some() || keep == Keep::Nothing { Find::AsIs } else { Find::Fetched }
    }

    /// The way to a session's model; none to the one that runs in this process.
    fn way(&self, kept: &Kept) -> Result<Option<ClientConfig>> {
        let (name, dialect) = (&kept.setup().model.name, kept.setup().dialect);
        let chosen = config::load()?.choose(Some(name), Server { window: None, ..self.server() });
        let chosen = chosen.with_context(|| format!("session {} cannot go on with its model", kept.id()))?;
        // The session's record says how it is spoken to, whatever the configuration has become.
        Ok(chosen.client.map(|client| ClientConfig { dialect, ..client }))
    }

    /// Sees to it that the embedded model is here before a session with it begins, so that its tokens are counted exactly.
    pub(crate) fn prepare(&self, chosen: &Chosen) -> Result<()> {
        if let Some(file) = &self.script {
            Script::read(file)?;
            return Ok(());
        }
        if chosen.client.is_some() {
            return Ok(());
        }
        let models = places()?.models;
        if embedded_file(Some(&models)).is_none() {
            note(format!(
                "no model is named, so {} answers: the small one that comes with Foreword. It is fetched once",
                SMOLLM2.name
            ));
            progress::fetch(&SMOLLM2, &models)
                .context("the embedded model cannot be fetched; name another one with --model, or see `foreword models`")?;
        }
        Ok(())
    }
}

/// A model at the end of that way, or the one that runs in this process; and where it is, in words.
pub(crate) fn reach(way: Option<ClientConfig>, stop: &Stop) -> Result<(Box<dyn Speaker>, String)> {
    Ok(match way {
        Some(client) => {
            let (audit, host, key) = (Audit::new(&places()?.state), client.address().to_owned(), client.key.clone());
            let address = client.base_url.clone().unwrap_or_else(|| client.dialect.to_string());
            let place = format!("at {address}: what you ask and attach is sent there");
            let remote = Remote::new(client, Arc::clone(stop))?;
            (Box::new(Audited { remote, audit, host, key }), place)
        }
        None => (Box::new(embedded(Arc::clone(stop))?), "in this process: nothing leaves this machine".to_owned()),
    })
}

/// A provider whose address is put into the audit log before something goes out to it.
struct Audited {
    remote: Remote,
    audit: Audit,
    host: String,
    key: KeySource,
}

impl Audited {
    fn goes_out(&self) {
        // Without a key nothing does. A log that cannot be written does not keep people from their model.
        if self.key.check().is_ok() {
            let _ = self.audit.url(&self.host, "model");
        }
    }
}

impl Speaker for Audited {
    fn cache(&mut self, model: &Model, prompt: &Prompt<'_>) -> Option<String> {
        let cached = self.remote.cache(model, prompt);
        if cached.is_some() {
            self.goes_out();
        }
        cached
    }

    fn answer(&mut self, request: &Outgoing, part: &mut dyn FnMut(&str)) -> Result<Reply, SpeakError> {
        self.goes_out();
        self.remote.answer(request, part)
    }
}

/// Lets another model answer in a session from here on.
pub(crate) fn change(kept: &mut Kept, model: Model) -> Result<()> {
    Ok(kept.use_model(model, Some(&places()?.models), now_ms())?)
}

fn embedded(stop: Stop) -> Result<Embedded> {
    let models = places()?.models;
    let Some(file) = embedded_file(Some(&models)) else {
        bail!("the embedded model is not here; `foreword models fetch --all` fetches it");
    };
    Ok(Embedded::open(&file, stop)?)
}
