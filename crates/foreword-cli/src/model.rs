//! Chooses the model that answers: the embedded one, a provider's, or a script.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args as ClapArgs;
use foreword_engine::config::{ChooseError, Chosen, ClientConfig, Config, KeySource, Server};
use foreword_engine::destination::{Destinations, address, may_move};
use foreword_engine::session::{
    BoxFuture, CacheRequest, CancellationToken, ChatModel, Embedded, Outgoing, Outputs, RecordedSession, Remote, ReplyStream,
    Script, Stopper, embedded_file,
};
use foreword_engine::workbench::Workbench;
use foreword_trust::audit::Audit;
use foreword_vault_tools::weights::SMOLLM2;

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
    /// The model to use from now on: a name from `foreword models --all`, or PROVIDER/NAME [default: the session's model, the
    /// configured model, or the embedded small model]
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// The provider's base URL, for your own server: `http://127.0.0.1:8080/v1`
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// The model's context window in tokens (prompt and reply), if it is not in the model table
    #[arg(long, value_name = "TOKENS")]
    pub(crate) window: Option<u64>,
    /// Read the replies from this file instead of calling a model (see `foreword ask --help`)
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
}

/// A model and the tools it can call.
pub(crate) struct Answering {
    pub(crate) speaker: Box<dyn ChatModel>,
    pub(crate) hands: Workbench,
    pub(crate) stopper: Stopper,
    /// Where the model runs, in words for the user.
    pub(crate) place: String,
}

/// What the first Ctrl-C stops; the second Ctrl-C ends the program. Everything received so far is stored either way.
pub(crate) fn stopper() -> Stopper {
    let stopper = Stopper::default();
    let on_signal = stopper.clone();
    // If another handler is installed, Ctrl-C ends the program.
    let _ = ctrlc::set_handler(move || {
        if on_signal.stop() {
            std::process::exit(130);
        }
    });
    stopper
}

impl ModelArgs {
    fn server(&self) -> Server<'_> {
        Server { base_url: self.base_url.as_deref(), window: self.window }
    }

    /// The model that the flags or the configuration name.
    pub(crate) fn choose(&self, config: &Config) -> Result<Chosen> {
        let chosen = config.choose(self.model.as_deref(), self.server())?;
        if chosen.is_assumed && self.window.is_none() {
            note(format!(
                "{} is not in the model table: assuming a context window of {} tokens; set it with --window or in the configuration",
                shown(&chosen.model.name),
                grouped(chosen.model.window.0)
            ));
        }
        Ok(chosen)
    }

    /// Prepares the model and the tools of a session.
    pub(crate) fn answering(&self, kept: &mut RecordedSession, bench: Workbench, stopper: Stopper) -> Result<Answering> {
        let (speaker, outputs, place) = self.speaker(kept)?;
        Ok(Answering { speaker, hands: bench.played(outputs), stopper, place })
    }

    /// The model, the tool outputs of a script if there is one, and where the model runs.
    pub(crate) fn speaker(&self, kept: &mut RecordedSession) -> Result<(Box<dyn ChatModel>, Option<Outputs>, String)> {
        if let Some(file) = &self.script {
            let script = Script::read(file)?.go_on(kept)?;
            let (outputs, place) = (script.hands(), format!("replies are read from {}", file.display()));
            return Ok((Box::new(script), Some(outputs), place));
        }
        let (speaker, place) = reach(self.way(kept)?)?;
        Ok((speaker, None, place))
    }

    /// Fails if the key is known to be missing, so that a question that cannot be sent begins no session.
    pub(crate) fn check_key(&self, chosen: &Chosen) -> Result<()> {
        match (&chosen.client, &self.script) {
            (Some(client), None) => Ok(client.key.check()?),
            _ => Ok(()),
        }
    }

    /// Switches an existing session to the model that `--model` names.
    pub(crate) fn change(&self, kept: &mut RecordedSession) -> Result<()> {
        let window = || {
            if self.window.is_some() {
                bail!(
                    "--window says how large the window of a new session's model is; session {} goes on with its own",
                    kept.id()
                );
            }
            Ok(())
        };
        let Some(name) = &self.model else { return window() };
        if *name == kept.setup().model.name {
            return window();
        }
        let config = config::load()?;
        let chosen = self.choose(&config)?;
        if chosen.model.name == kept.setup().model.name {
            return window();
        }
        self.move_to(kept, &config, chosen).map(drop)
    }

    /// Lets a chosen model answer in a session that is there, unless the session would leave its server in silence.
    pub(crate) fn move_to(&self, kept: &mut RecordedSession, config: &Config, chosen: Chosen) -> Result<Option<ClientConfig>> {
        self.prepare(&chosen)?;
        if self.script.is_none() {
            let configured = config.choose(Some(&kept.setup().model.name), Server::default()).ok();
            may_move::<ChooseError>(kept.setup(), configured.as_ref(), &chosen, self.base_url.is_some())?;
        }
        self.remember_address()?;
        let destination = chosen.client.as_ref().filter(|_| self.script.is_none()).map(address);
        kept.use_model(chosen.model, destination, Some(&places()?.models), now_ms())?;
        Ok(chosen.client)
    }

    /// The user named this address, so that later sessions may go on there.
    pub(crate) fn remember_address(&self) -> Result<()> {
        if let Some(url) = &self.base_url {
            let remembered = Destinations::new(&places()?.state).allow(url);
            remembered.context("Failed to remember the address of --base-url")?;
        }
        Ok(())
    }

    /// How notes are searched with this model. Nothing is downloaded if a script answers or nothing is sent.
    pub(crate) fn find(&self, keep: Keep) -> Find {
        if self.script.is_some() || keep == Keep::Nothing { Find::AsIs } else { Find::Fetched }
    }

    /// The way to a session's model; none to the one that runs in this process.
    fn way(&self, kept: &mut RecordedSession) -> Result<Option<ClientConfig>> {
        let (name, dialect) = (kept.setup().model.name.clone(), kept.setup().dialect);
        let config = config::load()?;
        let choose = |base_url: Option<&str>| config.choose(Some(&name), Server { base_url, window: None });
        let chosen = Destinations::new(&places()?.state).going_on(kept.setup(), self.base_url.as_deref(), choose);
        let chosen = chosen.with_context(|| format!("session {} cannot go on with its model", kept.id()))?;
        kept.set_destination(chosen.client.as_ref().map(address), now_ms());
        // The session's record says how it is spoken to, whatever the configuration has become.
        Ok(chosen.client.map(|client| ClientConfig { dialect, ..client }))
    }

    /// Downloads the embedded model before a session with it begins, so that its tokens are counted exactly.
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
            note(format!("No model is configured: using the embedded small model {}, which is downloaded once", SMOLLM2.name));
            progress::fetch(&SMOLLM2, &models)
                .context("Failed to download the embedded model; choose another model with --model, or see `foreword models`")?;
        }
        Ok(())
    }
}

/// Connects to the model, remote or embedded, and says where it runs.
pub(crate) fn reach(way: Option<ClientConfig>) -> Result<(Box<dyn ChatModel>, String)> {
    Ok(match way {
        Some(client) => {
            let (audit, host, key) = (Audit::new(&places()?.state), client.address().to_owned(), client.key.clone());
            let place = format!("at {}: what you ask and attach is sent there", address(&client));
            let remote = Remote::new(client)?;
            (Box::new(Audited { remote, audit, host, key }), place)
        }
        None => (Box::new(embedded()?), "in this process: nothing leaves this machine".to_owned()),
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
            self.audit.url(&self.host, "model");
        }
    }
}

impl ChatModel for Audited {
    fn cache_lifetime(&self) -> Option<Duration> {
        self.remote.cache_lifetime()
    }

    fn cache(&mut self, request: CacheRequest) -> BoxFuture<'static, Option<String>> {
        self.goes_out();
        self.remote.cache(request)
    }

    fn answer(&mut self, request: Arc<Outgoing>, stop: CancellationToken) -> ReplyStream {
        self.goes_out();
        self.remote.answer(request, stop)
    }
}

fn embedded() -> Result<Embedded> {
    let models = places()?.models;
    let Some(file) = embedded_file(Some(&models)) else {
        bail!("The embedded model is not downloaded; run `foreword models fetch --all`");
    };
    Ok(Embedded::open(&file)?)
}
