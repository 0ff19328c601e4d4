//! Checks that a provider is reachable and accepts the key, with a request that costs nothing.

use reqwest::Method;

use super::{Client, KeyError, SendError};

impl Client {
    /// Looks up the key. Returns whether the provider needs one.
    pub async fn has_key(&self) -> Result<bool, KeyError> {
        self.key.get().await.map(|key| key.is_some())
    }

    /// Requests the list of models and reads only the status of the answer.
    pub async fn reach(&self) -> Result<(), SendError> {
        self.call(Method::GET, &self.address(&["models"]), None).await.map(drop)
    }
}
