//! Where a session's requests go. A session remembers the address, so that going on with it never sends a conversation to another
//! server in silence.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use foreword_provider::client::ClientConfig;

use crate::config::Chosen;
use crate::session::Setup;
use foreword_trust::private;

/// Why a session cannot go on without a word from the user.
#[derive(Debug, thiserror::Error)]
pub enum DestinationError<E: Display> {
    /// The model cannot be used.
    #[error("{0}")]
    Choose(E),
    /// Its requests would go elsewhere than before, or to an address that this user never named.
    #[error(
        "the requests of this session went to {was}{}. Name the address that it shall use from here on: `--base-url {was}`{}",
        now.as_ref().map(|now| format!(", and {model} is configured at {now}")).unwrap_or_default(),
        now.as_ref().map(|now| format!(" stays there, `--base-url {now}` sends the conversation to {now}")).unwrap_or_default()
    )]
    Elsewhere {
        /// The model.
        model: String,
        /// Where they went.
        was: String,
        /// Where they would go.
        now: Option<String>,
    },
}

/// The addresses that the user named on this machine. A session from somebody else cannot add to them.
#[derive(Clone, Debug)]
pub struct Destinations(PathBuf);

impl Destinations {
    /// Those in the folder for state (see [`foreword_trust::places::Places`]).
    pub fn new(state: &Path) -> Self {
        Self(state.join("destinations"))
    }

    /// The user named this address.
    pub fn allow(&self, url: &str) -> std::io::Result<()> {
        let url = plain(url);
        if self.is_allowed(&url) { Ok(()) } else { private::append_line(&self.0, &url) }
    }

    fn is_allowed(&self, url: &str) -> bool {
        private::read(&self.0).ok().flatten().is_some_and(|text| text.lines().any(|line| line == url))
    }

    /// The model of a session that goes on, and the way to it: the address that was named now, else the one it used before. `choose`
    /// finds the session's model at an address, or where it is configured.
    pub fn going_on<E: Display>(
        &self,
        setup: &Setup,
        named: Option<&str>,
        choose: impl Fn(Option<&str>) -> Result<Chosen, E>,
    ) -> Result<Chosen, DestinationError<E>> {
        if let Some(url) = named {
            // If it cannot be remembered, the user is asked again.
            let _ = self.allow(url);
            return choose(Some(url)).map_err(DestinationError::Choose);
        }
        let Some(was) = &setup.destination else { return choose(None).map_err(DestinationError::Choose) };
        let configured = choose(None);
        let now = configured.as_ref().ok().and_then(|chosen| chosen.client.as_ref()).map(address);
        if now.as_ref() == Some(was) {
            return configured.map_err(DestinationError::Choose);
        }
        if self.is_allowed(was) {
            return choose(Some(was)).map_err(DestinationError::Choose);
        }
        Err(DestinationError::Elsewhere { model: setup.model.name.clone(), was: was.clone(), now })
    }
}

/// Whether a session may go on with another model at another address. A session at a server that the user chose for it does not leave it
/// unless the user names the new address. `configured` is where the session's model is configured.
pub fn may_move<E: Display>(
    setup: &Setup,
    configured: Option<&Chosen>,
    chosen: &Chosen,
    is_named: bool,
) -> Result<(), DestinationError<E>> {
    let (Some(was), Some(client)) = (&setup.destination, &chosen.client) else { return Ok(()) };
    let configured = configured.and_then(|chosen| chosen.client.as_ref()).map(address);
    let now = address(client);
    if is_named || configured.as_ref() == Some(was) || now == *was {
        return Ok(());
    }
    Err(DestinationError::Elsewhere { model: chosen.model.name.clone(), was: was.clone(), now: Some(now) })
}

/// The address that a client sends to, without a password in it.
pub fn address(client: &ClientConfig) -> String {
    plain(client.address())
}

fn plain(url: &str) -> String {
    let url = url.trim_end_matches('/');
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}").replace(char::is_control, "")
}

#[cfg(test)]
mod tests {
    use foreword_core::settings::Layout;

    use super::*;
    use crate::config::{Config, Server};

    const MODEL: &str = "claude-sonnet-5";

    fn setup(destination: Option<&str>) -> Setup {
        let setup = Setup::new("s", Some(MODEL), Layout::Log, 0, None).unwrap();
        Setup { destination: destination.map(str::to_owned), ..setup }
    }

    /// Where a session with that destination goes on, or what the user is asked.
    fn goes(was: Option<&str>, named: Option<&str>, known: &[&str]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let destinations = Destinations::new(folder.path());
        for url in known {
            destinations.allow(url).unwrap();
        }
        let config = Config::builtin().unwrap();
        let choose = |base_url: Option<&str>| config.choose(Some(MODEL), Server { base_url, window: None });
        match destinations.going_on(&setup(was), named, choose) {
            Ok(chosen) => address(&chosen.client.unwrap()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_session_goes_on_where_it_was() {
        let usual = goes(None, None, &[]);
        let check = |was: &str, named: Option<&str>, known: &[&str], expect: &str| {
            assert_eq!(goes(Some(was), named, known), expect, "{was} {named:?} {known:?}");
        };
        check(&usual, None, &[], &usual);
        check("http://own:1/v1", None, &["http://own:1/v1"], "http://own:1/v1");
        check("http://own:1/v1", None, &["http://a:b@own:1/v1/"], "http://own:1/v1");
        check("http://own:1/v1", Some("http://new:2/v1"), &[], "http://new:2/v1");
        let asked = goes(Some("http://own:1/v1"), None, &["http://own:1"]);
        assert!(asked.contains("went to http://own:1/v1") && asked.contains(&format!("--base-url {usual}")), "{asked}");
    }

    #[test]
    fn another_model_does_not_take_a_session_from_its_server() {
        let config = Config::builtin().unwrap();
        let configured = config.choose(Some(MODEL), Server::default()).unwrap();
        let other = config.choose(Some("gpt-5.4"), Server::default()).unwrap();
        let usual = address(configured.client.as_ref().unwrap());
        let moves = |was: Option<&str>, is_named| may_move::<String>(&setup(was), Some(&configured), &other, is_named).is_ok();
        assert!(moves(None, false) && moves(Some(&usual), false) && moves(Some("http://own:1"), true));
        assert!(!moves(Some("http://own:1"), false));
    }

    #[test]
    fn passwords_are_not_part_of_an_address() {
        assert_eq!(plain("https://me:secret@host:1/v1/"), "https://host:1/v1");
        assert_eq!(plain("https://host/a@b"), "https://host/a@b");
    }
}
