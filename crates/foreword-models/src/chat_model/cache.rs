//! What a model remembers of the tokens that it has evaluated: each head's keys and values, laid out as the attention reads them.
//!
//! They are kept in chunks of a fixed number of tokens, so that they grow without being moved, and so that sums over tokens are cut at
//! the same places whichever tokens are evaluated together.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pulp::Arch;

use super::shape::Shape;
use crate::compute::matmul::Panels;

/// Tokens in a chunk: a multiple of every panel's width.
pub(super) const CHUNK: usize = 128;

/// Keys and values of all layers.
pub(super) struct Cache {
    layers: Vec<Vec<Head>>,
    arch: Arch,
    head: usize,
    chunks: usize,
}

/// Keys and values of one head. A lock is never waited for: threads write different heads and meet before they read.
#[derive(Default)]
pub(super) struct Head {
    keys: RwLock<Vec<Panels>>,
    values: RwLock<Vec<Panels>>,
}

impl Cache {
    /// Room for nothing yet.
    pub(super) fn new(shape: &Shape, arch: Arch) -> Self {
        let layer = || (0..shape.key_heads).map(|_| Head::default()).collect();
        Self { layers: (0..shape.layers).map(|_| layer()).collect(), arch, head: shape.head, chunks: 0 }
    }

    /// Makes room for `tokens` tokens in all.
    pub(super) fn reserve(&mut self, tokens: usize) {
        let (arch, head) = (self.arch, self.head);
        while self.chunks * CHUNK < tokens {
            self.chunks += 1;
            for place in self.layers.iter_mut().flatten() {
                place.keys.get_mut().unwrap_or_else(PoisonError::into_inner).push(Panels::zeros(arch, head, CHUNK));
                place.values.get_mut().unwrap_or_else(PoisonError::into_inner).push(Panels::zeros(arch, CHUNK, head));
            }
        }
    }

    /// The heads of each layer.
    pub(super) fn layers(&self) -> &[Vec<Head>] {
        &self.layers
    }
}

impl Head {
    /// Writes the keys of the tokens from position `at` on.
    pub(super) fn set_keys<'a>(&self, at: usize, keys: impl Iterator<Item = &'a [f32]>) {
        let mut chunks = write(&self.keys);
        for (at, key) in (at..).zip(keys) {
            chunks[at / CHUNK].set_column(at % CHUNK, key);
        }
    }

    /// Writes the values of the tokens from position `at` on.
    pub(super) fn set_values<'a>(&self, at: usize, values: impl Iterator<Item = &'a [f32]>) {
        let mut chunks = write(&self.values);
        for (at, value) in (at..).zip(values) {
            chunks[at / CHUNK].set_row(at % CHUNK, value);
        }
    }

    /// The keys, chunk by chunk: the columns of a product.
    pub(super) fn keys(&self) -> RwLockReadGuard<'_, Vec<Panels>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The values, chunk by chunk: the rows of a product.
    pub(super) fn values(&self) -> RwLockReadGuard<'_, Vec<Panels>> {
        self.values.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
