//! The tool in a model's call: the provider crate resolves it.

pub use foreword_provider::tool_call::ResolvedCall as Called;
pub(super) use foreword_provider::tool_call::resolve as called;
