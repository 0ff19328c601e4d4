//! Whose chat a file is, told by its first few kilobytes, so that a moved file is found without reading a whole vault.

use super::head::{self, Head};
use super::{Transcript, format, hidden};

/// What a file says of the Session it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The Session's own name, where our comment has it.
    pub session: Option<String>,
    /// The `epoch` of the frontmatter, where it is a number.
    pub epoch_ms: Option<i64>,
}

impl Identity {
    /// Whether the file is the one of `transcript`. The name decides; the epoch counts where the file has no name, since another program
    /// that saves the chat drops our comment.
    pub fn is_of(&self, transcript: &Transcript) -> bool {
        match &self.session {
            Some(session) => transcript.session.as_ref() == Some(session),
            None => self.epoch_ms == Some(transcript.epoch_ms),
        }
    }
}

/// Whose chat a file is that begins with `start`; none where nothing shows that it is one.
pub fn identify(start: &str) -> Option<Identity> {
    let start = start.strip_prefix('\u{feff}').unwrap_or(start);
    let start = format::unix_lines(start);
    let (head, body) = head::split(&start).map_or((Head::default(), &*start), |(lines, body)| (head::read(lines), body));
    let epoch_ms = head.epoch.as_deref().and_then(head::number);
    let session = hidden::session(body);
    // The tag of chats can be set in obsidian-copilot, the name of the model's key cannot.
    let is_chat = head.tagged || head.model.is_some();
    (session.is_some() || (is_chat && epoch_ms.is_some())).then_some(Identity { session, epoch_ms })
}
