//! `foreword simulate`: conversations through steps 2 to 6, with no model, and what a provider's cache would make of them.
//!
//! A scenario file is parsed into plain values ([`scenario`]), checked into what a session needs (`setup`), run (`run`) and
//! put on record (`report`). A stored session can be run likewise, under other settings ([`stored`]).

mod hindsight;
mod images;
mod load;
mod objects;
pub mod report;
mod reuse;
mod run;
pub mod scenario;
mod setup;
mod simulation;
pub mod stored;

pub use self::load::{Loaded, ScenarioError, load};
pub use self::run::run;
pub use self::setup::Overrides;
