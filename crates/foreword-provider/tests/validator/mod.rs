//! What providers refuse, for tests of other crates that name it by this path.

pub(crate) use foreword_provider::rules::{Endpoint, validate};
