//! A session as bytes: what it was set up with and what happened in it. Loading replays it, which gives the same prompt to the byte.

use std::sync::Arc;

use foreword_core::tokens::Tokenizer;
use foreword_provider::model::TokenizerName;
use serde::{Deserialize, Serialize};

use crate::session::{Setup, Step};
use crate::{Error, Session};

/// The version of the format.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Saving<'a> {
    foreword_session: u32,
    tokenizer: &'a str,
    setup: &'a Setup,
    log: &'a [Step],
}

#[derive(Deserialize)]
struct Saved {
    foreword_session: u32,
    tokenizer: String,
    setup: Setup,
    log: Vec<Step>,
}

impl Session {
    /// The session as JSON. Keep it wherever you like, and load it later, also in another language.
    ///
    /// ```
    /// # fn main() -> Result<(), foreword::Error> {
    /// use foreword::Session;
    /// let mut session = Session::builder("claude-sonnet-5").build()?;
    /// session.turn("Hello").request()?;
    /// session.reply_text("Hi.")?;
    /// let mut later = Session::load(session.save())?;
    /// assert_eq!(later.turn("And now?").request()?.body(), session.turn("And now?").request()?.body());
    /// # Ok(())
    /// # }
    /// ```
    pub fn save(&self) -> Vec<u8> {
        let saving =
            Saving { foreword_session: VERSION, tokenizer: self.core.tokenizer().name(), setup: &self.setup, log: &self.log };
        // Writing to memory cannot fail: every map has names as keys, and every value was JSON before or can be.
        serde_json::to_vec(&saving).unwrap_or_default()
    }

    /// The session that these bytes were saved from.
    pub fn load(saved: impl AsRef<[u8]>) -> Result<Self, Error> {
        let saved = read(saved.as_ref())?;
        let name: TokenizerName = saved.tokenizer.parse().map_err(|_| Error::Tokenizer(saved.tokenizer.clone()))?;
        let tokenizer = name.tokenizer();
        if tokenizer.name() != saved.tokenizer {
            return Err(Error::Tokenizer(saved.tokenizer));
        }
        Self::replayed(&Arc::new(saved.setup), Arc::new(tokenizer), &saved.log)
    }

    /// The same for a session that counts tokens with a tokenizer that is not built in.
    pub fn load_with(saved: impl AsRef<[u8]>, tokenizer: Arc<dyn Tokenizer>) -> Result<Self, Error> {
        let saved = read(saved.as_ref())?;
        if tokenizer.name() != saved.tokenizer {
            return Err(Error::Tokenizer(saved.tokenizer));
        }
        Self::replayed(&Arc::new(saved.setup), tokenizer, &saved.log)
    }
}

fn read(bytes: &[u8]) -> Result<Saved, Error> {
    let saved: Saved = serde_json::from_slice(bytes).map_err(|error| Error::NotASession(error.to_string()))?;
    if saved.foreword_session != VERSION {
        return Err(Error::NotASession(format!("it has version {}, expected {VERSION}", saved.foreword_session)));
    }
    Ok(saved)
}
