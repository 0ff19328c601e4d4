//! Where tests find model weights. Without them a test fails, unless the person who runs it opted out.

use std::path::PathBuf;

/// The folder that `FOREWORD_MODELS` names; `None` if it names none and `FOREWORD_TEST_WITHOUT_MODELS` is set.
pub(crate) fn test_models() -> Option<PathBuf> {
    let folder = std::env::var_os("FOREWORD_MODELS").map(PathBuf::from);
    let message = "this test needs model weights: run `cargo xtask test`, which fetches them and sets FOREWORD_MODELS, \
                   or set FOREWORD_TEST_WITHOUT_MODELS=1 to leave such tests out";
    assert!(folder.is_some() || std::env::var_os("FOREWORD_TEST_WITHOUT_MODELS").is_some(), "{message}");
    folder
}
