//! Whether a provider is there and takes the key, asked for nothing that costs.

use reqwest::Method;

use super::{Client, KeyError, SendError};

impl Client {
    /// Looks for the key; whether there is one, where one is wanted at all.
    pub async fn has_key(&self) -> Result<bool, KeyError> {
        self.key.get().await.map(|key| key.is_some())
    }

    /// Asks for the list of models, of which nothing but the answer's status is read.
    pub async fn reach(&self) -> Result<(), SendError> {
        self.call(Method::GET, &self.address(&["models"]), None).await.map(drop)
    }
}
