//! Begins sessions and gets them ready for a turn, in the same way for the command line, the server and other programs.

use foreword_core::session::TurnInput;
use foreword_core::tokens::Tokens;
use foreword_core::version::Version;
use foreword_store::{Store, StoreError};
use foreword_vault::folder::Problem;
use foreword_vault::index::Vault;
use jiff::Zoned;

use crate::config::Chosen;
use crate::destination::address;
use crate::prepare::{AgentAsking, Begin, PrepareError, Prepared, ServerSpec, Wanted, prepare};
use crate::session::{Mode, OpenSessionError, Question, RecordedSession, Setup, changed_agent, library_of, refresh_notes};
use crate::settings::SessionSettings;
use crate::workbench::Workbench;
use foreword_templates::Shelf;
use foreword_trust::places::Places;
use foreword_vault_tools::chats::Chats;

/// What sessions of a vault are built from.
#[derive(Clone, Copy)]
pub struct SessionBuilder<'a> {
    /// The notes.
    pub vault: &'a Vault,
    /// The folders of this account.
    pub places: &'a Places,
    /// The templates for managed histories.
    pub shelf: &'a Shelf,
}

/// A session to begin.
#[derive(Clone, Debug)]
pub struct NewSession<'a> {
    /// Its ID.
    pub id: &'a str,
    /// The name of its agent; `None` for the default agent.
    pub agent: Option<&'a str>,
    /// The name of its project.
    pub project: Option<&'a str>,
    /// Its mode; `None` for chat, or for qa with the embedded model.
    pub mode: Option<Mode>,
    /// Its model.
    pub chosen: Chosen,
    /// Whether a script answers in the model's place.
    pub is_scripted: bool,
    /// What flags or the API say about it.
    pub flags: SessionSettings,
    /// The user's configuration.
    pub config: SessionSettings,
}

/// A session whose agent and settings are read. It begins once its tools are there.
#[derive(Debug)]
pub struct PreparedSession {
    prepared: Prepared,
    setup: Setup,
    mode: Mode,
    is_embedded: bool,
}

impl SessionBuilder<'_> {
    /// Reads the agent and the project, and works out the settings.
    pub async fn prepare(&self, new: NewSession<'_>, now: &Zoned) -> Result<PreparedSession, PrepareError> {
        let NewSession { id, agent, project, mode, chosen, is_scripted, flags, config } = new;
        // A project's material may fill half of the prompt.
        let wanted = Wanted { agent, project, room: Tokens(chosen.model.window.0 / 2) };
        let mut prepared = prepare(self.vault, wanted, self.places, now).await?;
        let is_embedded = chosen.client.is_none();
        let usual = if is_embedded { Mode::Qa } else { Mode::Chat };
        let setup = prepared.begin(Begin {
            session: id,
            agent,
            project,
            destination: chosen.client.as_ref().filter(|_| !is_scripted).map(address),
            model: chosen.model,
            flags,
            config,
            shelf: self.shelf,
            models: &self.places.models,
        })?;
        Ok(PreparedSession { prepared, setup, mode: mode.unwrap_or(usual), is_embedded })
    }

    /// Continues a session with the files of its agent and project as they are now. Returns what changed, in words.
    pub async fn refresh_agent(&self, session: &mut RecordedSession, now: &Zoned) -> Result<Vec<String>, OpenSessionError> {
        match changed_agent(session, self.vault, self.places, self.shelf, now).await {
            Ok(Some((agent, changes))) => {
                let replaced = session.replace_agent(agent, now.timestamp().as_millisecond());
                replaced.map_err(|error| OpenSessionError::Input(session.id().to_owned(), error))?;
                Ok(vec![format!("{}; this holds from this question on", changes.join(", "))])
            }
            Ok(None) => Ok(Vec::new()),
            Err(error) => Ok(vec![format!("{error}; the session keeps the agent and project that it has")]),
        }
    }

    /// The question of a turn, and what changed in the notes that the session holds, in words. With `is_frozen`, notes stay as the session
    /// took them in.
    pub fn question(
        &self,
        session: &RecordedSession,
        words: String,
        mut attached: Vec<Version>,
        active: Option<Version>,
        is_frozen: bool,
        now: &Zoned,
    ) -> Result<(Question, Vec<String>), StoreError> {
        let library = library_of(session, self.vault, now)?;
        let active_note = active.as_ref().map(|version| version.id.clone());
        attached.extend(active);
        let mut turn = TurnInput { words, attached, active_note, ..TurnInput::default() };
        let changed = if is_frozen { Vec::new() } else { refresh_notes(session, self.vault, &mut turn, now) };
        Ok((Question { turn, library }, changed))
    }
}

impl PreparedSession {
    /// The tool servers of its agent.
    pub fn servers(&self) -> &[ServerSpec] {
        &self.prepared.servers
    }

    /// When its agent wants tools to be approved.
    pub fn asking(&self) -> AgentAsking {
        self.prepared.asking
    }

    /// Problems to show to the user.
    pub fn problems(&self) -> &[Problem] {
        &self.prepared.problems
    }

    /// Its settings.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Its mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Begins the session with the tools of `bench`.
    pub fn begin(
        self,
        bench: &Workbench,
        store: Box<dyn Store>,
        chats: Option<Chats>,
        places: &Places,
        now_ms: i64,
    ) -> Result<RecordedSession, OpenSessionError> {
        let Self { prepared: Prepared { agent, .. }, mut setup, mode, is_embedded } = self;
        // The small model cannot use tools: they would only fill its window.
        let agent = if is_embedded { agent } else { bench.equip(&agent) };
        setup.choose_tool_style(&agent);
        let id = setup.settings.session.clone();
        let mut session = RecordedSession::begin(store, &id, &agent, &setup, Some(&places.models), chats, now_ms)?;
        session.set_mode(mode, now_ms);
        Ok(session)
    }
}
