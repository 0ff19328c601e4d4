//! Finds and reads the user's configuration file.

use std::fs::File;
use std::io::{ErrorKind, Read as _};

use anyhow::{Context as _, Result, bail};
use foreword_engine::config::Config;

use crate::places::config_file;

/// The largest configuration file that is read.
const MOST_BYTES: u64 = 1 << 20;

/// The configuration keys, for `--help`.
pub(crate) const HELP: &str = "\
Configuration (FOREWORD_CONFIG, or foreword/config.toml in your configuration folder):
  model = \"ollama/qwen3:8b\"                      default model
  layout = \"log\"                                 or \"library\"
  [settings]                                     budget, history, caps, layout: see docs/settings.md
  budget = { prompt_tokens = 32000 }
  [search]                                       how notes, items and tools are selected
  preset = \"conservative\"                        or normal, aggressive
  [providers.work]                               your own server; its models are named `work/NAME`
  base_url = \"https://llm.example/v1\"
  dialect = \"openai-chat\"                        or openai-responses, anthropic, gemini, llamacpp
  key = { env = \"WORK_KEY\" }                     or { command = \"pass show work\" } or { keyring = \"work\" }
  models = [\"house-model\"]                       models that `foreword models` lists
  [models.\"ollama/qwen3:8b\"]                     adds to or overrides the built-in model table
  window = 32768
  [tools]                                        limits for the tool servers of a vault
  variables = [\"GITHUB_TOKEN\"]                   environment variables they may receive
  unasked = [\"weather/get_forecast\", \"files/*\"]  tools that run without approval
  [weights]
  url = \"https://mirror.example/weights\"         download mirror for model files; FOREWORD_WEIGHTS_URL overrides it
Built-in providers: openai, anthropic, gemini, deepseek, openrouter, ollama, lmstudio, llamacpp, vllm.";

/// Loads the user's configuration, or the built-in one if there is no file.
pub(crate) fn load() -> Result<Config> {
    let (path, must_be_there) = config_file()?;
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound && !must_be_there => return Ok(Config::builtin()?),
        opened => opened.with_context(|| format!("Failed to read {}", path.display()))?,
    };
    let mut text = String::new();
    let read = file.take(MOST_BYTES).read_to_string(&mut text);
    read.with_context(|| format!("Failed to read {}", path.display()))?;
    match Config::read(&text) {
        Ok(config) => Ok(config),
        Err(error) => bail!("Failed to read {}: {error}", path.display()),
    }
}

/// The download mirror for model files: `FOREWORD_WEIGHTS_URL`, or `weights.url` of the configuration. Without one, pip is used.
pub(crate) fn weights_mirror() -> Result<Option<String>> {
    match std::env::var("FOREWORD_WEIGHTS_URL") {
        Ok(url) if !url.is_empty() => Ok(Some(url)),
        _ => Ok(load()?.weights_mirror),
    }
}

/// Whether an environment variable is set and not empty.
pub(crate) fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}
