//! An async client: it sends the request that is due and passes the answer to the session.

use foreword_provider::client::{Answer, Client as Http, ClientConfig};
use foreword_provider::reply::{Event, Reply as Parts};

use crate::{Error, Reply, Session};

/// Sends requests to one provider, with retries before the model begins to answer. Cheap to share between sessions.
///
/// ```no_run
/// use foreword::{Client, Session};
/// # async fn example() -> Result<(), foreword::Error> {
/// let mut session = Session::builder("claude-sonnet-5").stream().build()?;
/// let client = Client::for_session(&session)?; // reads ANTHROPIC_API_KEY
/// session.turn("Why is my loaf flat?").apply()?;
/// let mut reply = client.stream(&mut session).await?;
/// while let Some(text) = reply.next().await? {
///     print!("{text}");
/// }
/// let reply = reply.finish()?;
/// println!("\n{:?} USD", reply.cost);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Client {
    http: Http,
}

impl Client {
    /// A client for the provider of a session, with its key from the usual environment variable.
    pub fn for_session(session: &Session) -> Result<Self, Error> {
        Self::new(ClientConfig::new(session.dialect()))
    }

    /// A client with another address, key, proxy, or other time limits.
    pub fn new(config: ClientConfig) -> Result<Self, Error> {
        Ok(Self { http: Http::new(config)? })
    }

    /// Sends the request that is due and takes the whole answer. After an error the same request is still due.
    pub async fn send(&self, session: &mut Session) -> Result<Reply, Error> {
        let mut reply = self.stream(session).await?;
        while reply.next().await?.is_some() {}
        reply.finish()
    }

    /// Sends the request that is due and returns the answer as it arrives.
    pub async fn stream<'a>(&self, session: &'a mut Session) -> Result<StreamedReply<'a>, Error> {
        let request = session.request()?;
        let (model, body, delivery) = request.parts();
        let answer = self.http.send(model, body, delivery).await?;
        Ok(StreamedReply { session, answer, parts: Parts::default(), is_whole: false })
    }
}

/// An answer that is arriving. Dropping it cancels the request; what has arrived is then not part of the session, and the request
/// is still due. [`StreamedReply::finish`] keeps what has arrived.
#[derive(Debug)]
pub struct StreamedReply<'a> {
    session: &'a mut Session,
    answer: Answer,
    parts: Parts,
    is_whole: bool,
}

impl StreamedReply<'_> {
    /// The next text for the user; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<String>, Error> {
        loop {
            match self.answer.next().await? {
                None => {
                    self.is_whole = true;
                    return Ok(None);
                }
                Some(Event::Text(text)) => {
                    self.parts.add(Event::Text(text.clone()));
                    return Ok(Some(text));
                }
                Some(event) => self.parts.add(event),
            }
        }
    }

    /// Takes the answer into the session: all of it, or the text that has arrived.
    pub fn finish(self) -> Result<Reply, Error> {
        self.session.take(&self.parts, !self.is_whole)
    }
}
