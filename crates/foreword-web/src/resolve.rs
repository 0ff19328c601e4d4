//! Names to addresses, checked. The client connects to the very addresses that were checked here, so a name that resolves differently a
//! moment later changes nothing.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::is_public;

/// What is found for a name.
pub(super) type Looking = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Where addresses come from; tests bring their own.
pub(super) trait Lookup: Send + Sync {
    /// The addresses of a name.
    fn lookup(&self, host: String) -> Looking;
}

/// The system's resolver.
pub(super) struct System;

impl Lookup for System {
    fn lookup(&self, host: String) -> Looking {
        Box::pin(async move { Ok(tokio::net::lookup_host((host.as_str(), 0)).await?.map(|address| address.ip()).collect()) })
    }
}

/// Which addresses pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// Public ones.
    Public,
    /// All: the host is on the list of those allowed.
    All,
}

/// A name that leads to no public address.
#[derive(Debug, thiserror::Error)]
#[error("it leads to no public address")]
pub(super) struct NotPublic;

/// A resolver that keeps to what passes.
pub(super) struct Checked {
    pub(super) lookup: Arc<dyn Lookup>,
    pub(super) pass: Pass,
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let looking = self.lookup.lookup(name.as_str().to_owned());
        let pass = self.pass;
        Box::pin(async move {
            let found = looking.await?;
            let passed: Vec<SocketAddr> = found
                .into_iter()
                .filter(|address| pass == Pass::All || is_public(*address))
                .map(|address| (address, 0).into())
                .collect();
            if passed.is_empty() {
                return Err(NotPublic.into());
            }
            let passed: Addrs = Box::new(passed.into_iter());
            Ok(passed)
        })
    }
}
