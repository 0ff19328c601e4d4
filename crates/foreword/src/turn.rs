//! A turn before it is applied: the user's message and what comes with it.

use foreword_core::item::ItemId;
use foreword_core::session::{Input, TurnInput, TurnResult};

use crate::{Attachment, Error, Request, Session};

/// A user message with its attachments. Nothing happens until [`Turn::request`] or [`Turn::apply`].
///
/// ```
/// use foreword::{Attachment, Session};
/// # fn main() -> Result<(), foreword::Error> {
/// let mut session = Session::builder("gpt-5.4").build()?;
/// let note = Attachment::note("Bread.md", "A flat loaf proved too long.");
/// let request = session.turn("Why was it flat?").attach(note).request()?;
/// assert_eq!(request.explanation().context[0].item.to_string(), "note:Bread.md");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a turn is applied by `request` or `apply`"]
pub struct Turn<'a> {
    session: &'a mut Session,
    input: TurnInput,
    error: Option<Error>,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(session: &'a mut Session, words: String) -> Self {
        Self { session, input: TurnInput { words, ..TurnInput::default() }, error: None }
    }

    /// Attaches something.
    pub fn attach(mut self, attachment: Attachment) -> Self {
        self.input.attached.push(attachment.0);
        self
    }

    /// Attaches several things.
    pub fn attach_all(mut self, attachments: impl IntoIterator<Item = Attachment>) -> Self {
        self.input.attached.extend(attachments.into_iter().map(|attachment| attachment.0));
        self
    }

    /// The note that is open in the user's editor. Attach its text too.
    pub fn active_note(mut self, path: &str) -> Self {
        self.input.active_note = Some(ItemId::note(path));
        self
    }

    /// The output of a tool that ran before the turn, with attributes for its block.
    pub fn result(mut self, tool: &str, attributes: &[(&str, &str)], output: &str) -> Self {
        let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.input.results.push(TurnResult {
            tool: tool.to_owned(),
            attributes,
            output: output.to_owned(),
            ..TurnResult::default()
        });
        self
    }

    /// How well an item fits this turn, for items that a search chooses: one score from 0 to 1 for each chunk of it.
    pub fn score(mut self, item: &str, scores: impl IntoIterator<Item = f64>) -> Self {
        match item.parse() {
            Ok(id) => drop(self.input.scores.insert(id, scores.into_iter().collect())),
            Err(error) => {
                let error: foreword_core::item::NotAnItemId = error;
                self.error.get_or_insert(Error::Attachment(error.to_string()));
            }
        }
        self
    }

    /// Applies the turn without building its request.
    pub fn apply(self) -> Result<(), Error> {
        self.error.map_or(Ok(()), Err)?;
        self.session.apply(Input::Turn(self.input)).map(drop)
    }

    /// Applies the turn and builds its request.
    pub fn request(self) -> Result<Request, Error> {
        self.error.map_or(Ok(()), Err)?;
        self.session.apply(Input::Turn(self.input))?;
        self.session.request()
    }
}
