//! Keeping what is secret about a server out of what is told about it.

use crate::{ServerConfig, Transport};

/// A shorter value is not taken for a secret: hiding every `1` would hide everything.
const SHORTEST: usize = 6;

/// The longest message about a server, in characters.
const LONGEST: usize = 600;

/// The values that must not be shown.
#[derive(Clone)]
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    pub(super) fn of(config: &ServerConfig) -> Self {
        let mut values: Vec<String> = match &config.transport {
            Transport::Stdio { env, .. } => env.values().cloned().collect(),
            Transport::Http { url, headers } => {
                let query = url.split_once('?').map(|(_, query)| query);
                let user = url.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next()?.rsplit_once('@'));
                // A header often is a scheme and a key; either may be repeated alone.
                let words = headers.values().flat_map(|value| [value.as_str()].into_iter().chain(value.split_whitespace()));
                words.chain(query).chain(user.map(|(user, _)| user)).map(ToOwned::to_owned).collect()
            }
        };
        values.extend(config.secrets.0.iter().cloned());
        values.retain(|value| value.len() >= SHORTEST);
        // Longest first, so that no part of a longer one is left.
        values.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        Self(values)
    }

    /// `text` without them.
    pub(super) fn hide(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "[hidden]"))
    }

    /// `text` without them, as one line of a message.
    pub(super) fn line(&self, text: &str) -> String {
        super::listing::line(&self.hide(text), LONGEST)
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value)] // a table of cases reads better without ampersands
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::SecretValues;

    #[test]
    fn nothing_secret_is_left() {
        #[track_caller]
        fn check(transport: Transport, text: &str, expect: &str) {
            let config = ServerConfig { secrets: SecretValues(vec!["expanded".to_owned()]), ..ServerConfig::new("s", transport) };
            assert_eq!(Secrets::of(&config).line(text), expect);
        }
        let env = BTreeMap::from([("KEY".to_owned(), "sk-12345".to_owned()), ("N".to_owned(), "1".to_owned())]);
        let stdio = Transport::Stdio { command: "/node".into(), args: Vec::new(), env, cwd: "/".into() };
        check(stdio, "1 bad\nkey sk-12345! --token=expanded", "1 bad key [hidden]! --token=[hidden]");
        let headers = BTreeMap::from([("Authorization".to_owned(), "Bearer abcdefg".to_owned())]);
        let http = Transport::Http { url: "https://me:pass@a.example/mcp?key=hush".into(), headers };
        check(
            http,
            "https://me:pass@a.example/mcp?key=hush: Bearer abcdefg, abcdefg",
            "https://[hidden]@a.example/mcp?[hidden]: [hidden], [hidden]",
        );
    }
}
