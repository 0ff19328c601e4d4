//! The clients: how each is started without a person in front of it, turn by turn.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// A file that tools can read.
pub(crate) static NOTE: LazyLock<PathBuf> = LazyLock::new(|| {
    let note = std::env::temp_dir().join("foreword-client-note.txt");
    fs::write(&note, "The beds get compost in March.\n").unwrap();
    note
});

/// Where the clients are installed: `npm` and a Python each.
fn installed() -> PathBuf {
    PathBuf::from(
        std::env::var_os("FOREWORD_CLIENTS").expect("FOREWORD_CLIENTS names the folder that `cargo xtask clients` makes"),
    )
}

/// A home and a working folder for one run, and the address that is asked.
pub(crate) struct Place {
    home: PathBuf,
    work: PathBuf,
    base: String,
}

impl Place {
    pub(crate) fn new(folder: &Path, port: u16) -> Self {
        let (home, work) = (folder.join("home"), folder.join("work"));
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(&work).unwrap();
        fs::write(work.join("note.txt"), "The beds get compost in March.\n").unwrap();
        Self { home, work, base: format!("http://127.0.0.1:{port}") }
    }

    fn file(&self, path: &str, text: &str) {
        let file = self.home.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
}

/// A client.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// Its program, below the folder in which clients are installed.
    file: &'static str,
    /// Whether it makes all turns in one process.
    at_once: bool,
    /// Whether it asks for a model of another API than its own.
    pub(crate) is_translated: bool,
    arguments: fn(&Place, usize) -> Vec<String>,
}

const WORDS: [&str; 3] = ["What does the note say?", "Read it once more, please.", "And what comes after that?"];

/// The name of a conversation, for clients that take one.
const SESSION: &str = "0f6ac3d2-1111-4222-8333-444455556666";

fn words(turn: usize) -> String {
    WORDS[turn].to_owned()
}

fn list(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|&argument| argument.to_owned()).collect()
}

fn python(_: &Place, _: usize) -> Vec<String> {
    Vec::new()
}

fn codex(place: &Place, turn: usize) -> Vec<String> {
    let provider = format!(
        "model_providers.s={{name=\"s\",base_url=\"{}/v1\",env_key=\"OPENAI_API_KEY\",wire_api=\"responses\"}}",
        place.base
    );
    let mut all =
        list(&["exec", "--skip-git-repo-check", "-s", "read-only", "-m", "gpt-5.4", "-c", "model_provider=s", "-c", &provider]);
    if turn > 0 {
        all.extend(list(&["resume", "--last"]));
    }
    all.push(words(turn));
    all
}

fn codex_for_claude(place: &Place, turn: usize) -> Vec<String> {
    let mut all = codex(place, turn);
    let model = all.iter().position(|word| word == "gpt-5.4").unwrap();
    "claude-sonnet-4-6".clone_into(&mut all[model]);
    // What runs at OpenAI has no equivalent.
    all.splice(1..1, list(&["-c", "web_search=\"disabled\""]));
    all
}

fn claude(model: &str, turn: usize) -> Vec<String> {
    let session = if turn == 0 { "--session-id" } else { "--resume" };
    list(&["-p", WORDS[turn], session, SESSION, "--model", model, "--allowedTools", "Read,Bash", "--add-dir", "/tmp"])
}

fn goose(turn: usize) -> Vec<String> {
    let mut all = list(&["run", "--name", "talk", "--with-builtin", "developer", "--text", WORDS[turn]]);
    if turn > 0 {
        all.push("--resume".to_owned());
    }
    all
}

fn opencode(place: &Place, turn: usize) -> Vec<String> {
    let base = &place.base;
    let config = format!(
        "{{\"provider\":{{\"s\":{{\"npm\":\"@ai-sdk/openai-compatible\",\"name\":\"s\",\"options\":{{\"baseURL\":\"{base}/v1\",\"apiKey\":\"dummy\"}},\
         \"models\":{{\"gpt-4.1\":{{\"name\":\"m\"}}}}}}}},\"permission\":{{\"*\":\"allow\"}},\"autoupdate\":false,\"share\":\"disabled\"}}"
    );
    fs::write(place.work.join("opencode.json"), config).unwrap();
    let mut all = list(&["run", "-m", "s/gpt-4.1"]);
    if turn > 0 {
        all.push("-c".to_owned());
    }
    all.push(words(turn));
    all
}

fn gemini(place: &Place, turn: usize) -> Vec<String> {
    place.file(".gemini/settings.json", "{\"security\":{\"auth\":{\"selectedType\":\"gemini-api-key\"}},\"general\":{\"disableAutoUpdate\":true},\"privacy\":{\"usageStatisticsEnabled\":false}}");
    let mut all = list(&["-m", "gemini-2.5-flash", "--skip-trust", "-y", "-p", WORDS[turn]]);
    if turn > 0 {
        all.extend(list(&["--resume", "latest"]));
    }
    all
}

fn llm(place: &Place, turn: usize) -> Vec<String> {
    let model = format!(
        "- model_id: s\n  model_name: gpt-4.1\n  api_base: {}/v1\n  api_key_name: dummy\n  supports_tools: true\n",
        place.base
    );
    place.file("llm/extra-openai-models.yaml", &model);
    let tool = "def lookup(path: str) -> str:\n    \"Reads a file.\"\n    return open(path).read()\n";
    let mut all = list(&["-m", "s", "--functions", tool, "--key", "dummy"]);
    if turn > 0 {
        all.push("-c".to_owned());
    }
    all.push(words(turn));
    all
}

fn aider(model: &str, turn: usize) -> Vec<String> {
    let mut all = list(&["--model", model, "--no-git", "--yes-always", "--no-check-update", "--no-show-model-warnings"]);
    all.extend(list(&["--analytics-disable", "--restore-chat-history", "--message", WORDS[turn]]));
    all
}

pub(crate) fn all() -> Vec<Program> {
    let one = |name, file, arguments| Program { name, file, at_once: false, is_translated: false, arguments };
    let other = |name, file, arguments| Program { is_translated: true, ..one(name, file, arguments) };
    let script = |name, file| Program { at_once: true, ..one(name, file, python) };
    vec![
        one("claude", "npm/node_modules/.bin/claude", |_, turn| claude("claude-sonnet-4-6", turn)),
        other("claude-gpt", "npm/node_modules/.bin/claude", |_, turn| claude("gpt-5.4", turn)),
        one("codex", "npm/node_modules/.bin/codex", codex),
        other("codex-claude", "npm/node_modules/.bin/codex", codex_for_claude),
        one("opencode", "npm/node_modules/.bin/opencode", opencode),
        one("qwen-code", "npm/node_modules/.bin/qwen", |_, turn| {
            let mut all = list(&["--auth-type", "openai", "-y", "-p", WORDS[turn]]);
            if turn > 0 {
                all.push("--continue".to_owned());
            }
            all
        }),
        one("goose", "npm/node_modules/.bin/goose-binary-linux-x64", |_, turn| goose(turn)),
        one("gemini-cli", "npm/node_modules/.bin/gemini", gemini),
        one("aider", "aider/bin/aider", |_, turn| aider("openai/gpt-4.1", turn)),
        one("aider-claude", "aider/bin/aider", |_, turn| aider("anthropic/claude-sonnet-4-6", turn)),
        one("llm", "python/bin/llm", llm),
        script("pydantic-ai", "pydantic_ai_client.py"),
        script("openai-agents", "openai_agents_client.py"),
        script("langchain", "langchain_client.py"),
        script("anthropic", "anthropic_client.py"),
    ]
}

impl Program {
    fn path(&self) -> PathBuf {
        if self.at_once { installed().join("python/bin/python") } else { installed().join(self.file) }
    }

    /// Why it cannot be used, where it cannot.
    pub(crate) fn is_there(&self) -> Result<(), String> {
        let path = self.path();
        if path.exists() { Ok(()) } else { Err(format!("there is no {}", path.display())) }
    }

    pub(crate) fn processes(&self) -> usize {
        if self.at_once { 1 } else { WORDS.len() }
    }

    pub(crate) fn command(&self, place: &Place, turn: usize) -> Command {
        let mut command = Command::new(self.path());
        let path = std::env::var("PATH").unwrap_or_default();
        let node = std::env::var("FOREWORD_NODE").map(|node| format!("{node}:")).unwrap_or_default();
        command
            .env_clear()
            .env("PATH", format!("{node}{path}"))
            .env("HOME", &place.home)
            .env("LANG", "C.UTF-8")
            .env("TERM", "dumb");
        command.current_dir(&place.work);
        if self.at_once {
            command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/clients").join(self.file)).arg(NOTE.as_path());
        }
        command.args((self.arguments)(place, turn));
        let base = &place.base;
        let variables = [
            ("ANTHROPIC_BASE_URL", base.clone()),
            ("ANTHROPIC_API_BASE", base.clone()),
            ("ANTHROPIC_API_KEY", "dummy".to_owned()),
            ("OPENAI_BASE_URL", format!("{base}/v1")),
            ("OPENAI_API_BASE", format!("{base}/v1")),
            ("OPENAI_API_KEY", "dummy".to_owned()),
            ("OPENAI_MODEL", "gpt-4.1".to_owned()),
            ("OPENAI_HOST", base.clone()),
            ("GOOSE_PROVIDER", "openai".to_owned()),
            ("GOOSE_MODEL", "gpt-4.1".to_owned()),
            ("GOOSE_MODE", "auto".to_owned()),
            ("GOOSE_DISABLE_KEYRING", "1".to_owned()),
            ("GEMINI_API_KEY", "dummy".to_owned()),
            ("GOOGLE_GEMINI_BASE_URL", base.clone()),
            ("LLM_USER_PATH", place.home.join("llm").display().to_string()),
            ("CODEX_HOME", place.home.join("codex").display().to_string()),
        ];
        command.envs(variables);
        if self.name.starts_with("codex") {
            fs::create_dir_all(place.home.join("codex")).unwrap();
        }
        for quiet in [
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
            "DISABLE_AUTOUPDATER",
            "OPENAI_AGENTS_DISABLE_TRACING",
            "OPENCODE_DISABLE_AUTOUPDATE",
        ] {
            command.env(quiet, "1");
        }
        command
    }
}
