//! The models a session can have, for choosing.

use foreword_provider::model::Model;
use foreword_provider::table::ModelTable;

use super::setup::{EMBEDDED, SetupError};

/// The models of the table, by name; the one that comes with Foreword first.
pub fn models() -> Result<Vec<Model>, SetupError> {
    let mut models: Vec<Model> = ModelTable::builtin()?.rows().cloned().collect();
    models.sort_by_key(|model| (model.name != EMBEDDED.0, model.name.clone()));
    Ok(models)
}
