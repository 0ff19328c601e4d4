//! Who answers in a session: the model that comes with Foreword, a provider, or a script.

use std::sync::{Arc, PoisonError};

use foreword_engine::session::{ClientConfig, Embedded, Hands, Kept, NoHands, Remote, Script, Speaker, Stop, embedded_file};

use crate::app::Common;
use crate::problem::{Problem, UNAVAILABLE};

/// Something that answers and something that runs its tools.
pub(crate) struct Answering {
    pub(crate) speaker: Box<dyn Speaker>,
    pub(crate) hands: Box<dyn Hands>,
}

impl Answering {
    /// Gets ready whoever answers. A model stays: it may remember the last prompt.
    pub(crate) fn ready(held: &mut Option<Self>, common: &Common, kept: &mut Kept, stop: &Stop) -> Result<(), Problem> {
        let answers = &common.config.answers;
        if let Some(file) = &answers.script {
            let mut script = Script::read(file).map_err(|error| Problem::new(UNAVAILABLE, error))?;
            script.skip(usize::try_from(kept.counts().requests).unwrap_or(0));
            kept.recall_prompt()?;
            if let Some((at_ms, prompt)) = kept.last_prompt() {
                script.remember(at_ms, prompt, &kept.setup().model);
            }
            let hands = Box::new(script.hands());
            *held = Some(Self { speaker: Box::new(script), hands });
            return Ok(());
        }
        if held.is_some() {
            return Ok(());
        }
        let (name, dialect) = (kept.setup().model.name.clone(), kept.setup().dialect);
        let speaker: Box<dyn Speaker> = match answers.choose(Some(&name))?.client {
            None => Box::new(embedded(common, stop)?),
            // The session's record says how its model is spoken to, whatever the configuration has become.
            Some(client) => {
                let client = ClientConfig { dialect, ..client };
                Box::new(Remote::new(client, Arc::clone(stop)).map_err(|error| Problem::new(UNAVAILABLE, error))?)
            }
        };
        *held = Some(Self { speaker, hands: Box::new(NoHands) });
        Ok(())
    }
}

/// The model that comes with Foreword; its weights are read once for all sessions.
fn embedded(common: &Common, stop: &Stop) -> Result<Embedded, Problem> {
    let mut held = common.embedded.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(model) = &*held {
        return Ok(model.beside(Arc::clone(stop)));
    }
    let Some(file) = embedded_file(Some(&common.config.places.models)) else {
        return Err(Problem::new(UNAVAILABLE, "the embedded model is not here; `foreword models fetch --all` fetches it"));
    };
    let model = Embedded::open(&file, Arc::clone(stop)).map_err(|error| Problem::new(UNAVAILABLE, error))?;
    let own = model.beside(Arc::clone(stop));
    *held = Some(model);
    Ok(own)
}
