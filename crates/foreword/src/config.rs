//! The user's configuration: found, read, and what is wrong with it said.

use std::fs::File;
use std::io::{ErrorKind, Read as _};

use anyhow::{Context as _, Result, bail};
use foreword_engine::config::Config;

use crate::places::config_file;

/// More than this is no configuration.
const MOST_BYTES: u64 = 1 << 20;

/// What can be configured, for `--help`.
pub(crate) const HELP: &str = "\
Configuration (foreword/config.toml in the user's configuration folder, or FOREWORD_CONFIG):
  model = \"ollama/qwen3:8b\"                      the model where none is named
  layout = \"log\"                                 or \"library\"
  [settings]                                     what docs/settings.md lists: budget, history, caps, layout
  budget = { prompt_tokens = 32000 }
  [search]                                       how notes, items and tools are chosen
  preset = \"conservative\"                        or normal, aggressive
  [providers.work]                               a server of your own; `work/NAME` is a model there
  base_url = \"https://llm.example/v1\"
  dialect = \"openai-chat\"                        or openai-responses, anthropic, gemini, llamacpp
  key = { env = \"WORK_KEY\" }                     or { command = \"pass show work\" } or { keyring = \"work\" }
  models = [\"house-model\"]                       what `foreword models` lists
  [models.\"ollama/qwen3:8b\"]                     what the model table does not know, or says otherwise
  window = 32768
  [tools]                                        what tool servers of a vault may do
  variables = [\"GITHUB_TOKEN\"]                   variables that they may be given, and no others
  unasked = [\"weather/get_forecast\", \"files/*\"]  tools that run without asking you
  [weights]
  url = \"https://mirror.example/weights\"         where weights are fetched first; FOREWORD_WEIGHTS_URL comes before it
Known without: openai, anthropic, gemini, deepseek, openrouter, ollama, lmstudio, llamacpp, vllm.";

/// The user's configuration; the built-in one where there is no file.
pub(crate) fn load() -> Result<Config> {
    let (path, must_be_there) = config_file()?;
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound && !must_be_there => return Ok(Config::builtin()?),
        opened => opened.with_context(|| format!("the configuration {} cannot be read", path.display()))?,
    };
    let mut text = String::new();
    let read = file.take(MOST_BYTES).read_to_string(&mut text);
    read.with_context(|| format!("the configuration {} cannot be read", path.display()))?;
    match Config::read(&text) {
        Ok(config) => Ok(config),
        Err(error) => bail!("the configuration {}, {error}", path.display()),
    }
}

/// The mirror that weights are fetched from before pip is tried: `FOREWORD_WEIGHTS_URL`, else the configuration's.
pub(crate) fn weights_mirror() -> Result<Option<String>> {
    match std::env::var("FOREWORD_WEIGHTS_URL") {
        Ok(url) if !url.is_empty() => Ok(Some(url)),
        _ => Ok(load()?.weights_mirror),
    }
}

/// Whether a variable of the environment has something in it.
pub(crate) fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}
