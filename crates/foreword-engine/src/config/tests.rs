use foreword_core::tokens::Tokens;

use super::*;

fn config(text: &str) -> Config {
    Config::read(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    fn check(text: &str, line: usize, expect: &str) {
        let error = Config::read(text).unwrap_err();
        assert_eq!(error.line, Some(line), "{error}: {text}");
        assert!(error.what.contains(expect), "{error}, not {expect:?}");
    }
    check("model = 3", 1, "invalid type: integer `3`");
    check("\nmodell = 'x'", 2, "unknown key `modell` (did you mean `model`?)");
    check("model = 'a'\nlayout = 'book'", 2, "log or library");
    check("mode = 'sing'", 1, "expected chat, qa, plan or agent");
    check("a b", 1, "");
    check("[providers.x]\nbase_url = 3", 2, "invalid type");
    check("\n[providers.x]\ndialect = 'openai-chat'", 2, "needs a `base_url`");
    check("[providers.x]\nbase_url = 'http://x'\ndialect = 'klingon'", 3, "openai-responses, openai-chat");
    check("[providers.x]\nbase_ulr = 'http://x'", 2, "unknown key `base_ulr` (did you mean `base_url`?)");
    check("[providers.'a/b']\nbase_url = 'http://x'", 1, "invalid provider name");
    check("[models.x]\nwindow = 'big'", 1, "field `window`: invalid type");
    check("[models.x]\nlike = 'gpt-5.44'", 1, "close names: gpt-5.4");
    check("[models.x]\nwindow = 4000\nreply_limit = 5000", 1, "reply_limit");
    check("[tools]\nvariable = ['A']", 2, "unknown key `variable` (did you mean `variables`?)");
    check("[tools]\nvariables = 'A'", 2, "invalid type");
    for name in ["", "*", "A*", "${A}", "A B", "A=b"] {
        check(&format!("[tools]\nvariables = ['A',\n'{name}']"), 3, "names of single variables");
    }
    for written in ["", "*", "*/*", "files", "files/", "/read", "files/re*", "f*/read"] {
        check(&format!("[tools]\nunasked = ['a/b',\n'{written}']"), 3, "\"server/tool\", or \"server/*\"");
    }
    check("[tools]\nunasked = ['foreword/writeNote']", 2, "approval of built-in tools is set per session");
}

#[test]
fn what_tool_servers_may_do_is_only_what_is_said() {
    let rules = config("[tools]\nvariables = ['GITHUB_TOKEN']\nunasked = ['weather/get_forecast', 'files/*', 'a/b/c']").tools;
    assert!(rules.allows_variable("GITHUB_TOKEN"));
    for name in ["github_token", "GITHUB", "OPENAI_API_KEY", "", "*"] {
        assert!(!rules.allows_variable(name), "{name}");
    }
    let check =
        |server: &str, tool: Option<&str>, expect: bool| assert_eq!(rules.is_unasked(server, tool), expect, "{server} {tool:?}");
    check("weather", Some("get_forecast"), true);
    check("weather", Some("send"), false);
    check("weather", None, false);
    check("files", None, true);
    check("a", Some("b/c"), true);
    check("other", None, false);
    assert_eq!(config("").tools, ToolRules::default());
}

#[test]
fn a_key_in_the_file_is_refused_and_not_repeated() {
    for key in ["'sk-1234'", "{ env = 'X', command = 'sk-1234' }", "{ given = 'sk-1234' }", "['sk-1234']"] {
        let error = Config::read(&format!("[providers.openai]\nkey = {key}")).unwrap_err().to_string();
        assert!(error.contains("line 2: `key` must be the source of the API key") && !error.contains("1234"), "{error}");
    }
}

#[test]
fn keys_come_from_where_the_file_says() {
    for (key, expect) in [
        ("{ env = 'X' }", KeySource::Env("X".to_owned())),
        ("{ command = 'pass x' }", KeySource::Command("pass x".to_owned())),
        ("{ keyring = 'x' }", KeySource::Keyring("x".to_owned())),
        ("'none'", KeySource::None),
    ] {
        let config = config(&format!("[providers.openai]\nkey = {key}"));
        assert_eq!(config.providers().find(|provider| provider.name == "openai").unwrap().key, expect);
    }
}

/// A name, and what it leads to: the model's name, what the server is told, the dialect, the address, the key, the window.
#[test]
fn names_lead_to_models() {
    const USERS: &str = "
        [providers.work]
        base_url = 'https://llm.example/v1'
        dialect = 'openai-chat'
        key = { command = 'pass llm' }
        models = ['house-model']
        [providers.box]
        base_url = 'http://127.0.0.1:9000/v1'
        [providers.anthropic]
        base_url = 'https://gateway.example/v1'
        key = { env = 'GATEWAY_KEY' }
        [models.'ollama/qwen3:8b']
        window = 32768
        [models.'gpt-5.6']
        window = 100000
        reply_limit = 8000
        price = { input = 1.0, output = 2.0 }";
    fn check(text: &str, name: &str, [row, wire, dialect, base, key]: [&str; 5], window: u64) {
        let Chosen { model, client, .. } = config(text).choose(Some(name), Server::default()).unwrap();
        let client = client.unwrap();
        let found_key = match client.key {
            KeySource::None => "none".to_owned(),
            KeySource::Env(name) | KeySource::Command(name) => name,
            other => format!("{other:?}"),
        };
        assert_eq!(
            [model.name.as_str(), &model.wire, client.dialect.as_str(), client.base_url.as_deref().unwrap_or("-"), &found_key],
            [row, wire, dialect, base, key],
            "{name}"
        );
        assert_eq!((model.window, model.dialect), (Tokens(window), client.dialect), "{name}");
    }
    check("", "gpt-5.4", ["gpt-5.4", "gpt-5.4", "openai-chat", "-", "OPENAI_API_KEY"], 400_000);
    check("", "openai/gpt-5.4", ["gpt-5.4", "gpt-5.4", "openai-chat", "-", "OPENAI_API_KEY"], 400_000);
    check("", "gpt-4o-2024-08-06", ["gpt-4o", "gpt-4o-2024-08-06", "openai-chat", "-", "OPENAI_API_KEY"], 128_000);
    check("", "claude-sonnet-5", ["claude-sonnet-5", "claude-sonnet-5", "anthropic", "-", "ANTHROPIC_API_KEY"], 200_000);
    check("", "anthropic/claude-9", ["anthropic/claude-9", "claude-9", "anthropic", "-", "ANTHROPIC_API_KEY"], 128_000);
    let deepseek = ["deepseek-chat", "deepseek-chat", "openai-chat", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"];
    check("", "deepseek-chat", deepseek, 128_000);
    check("", "deepseek/deepseek-chat", deepseek, 128_000);
    let qwen = ["ollama/qwen3:8b", "qwen3:8b", "llamacpp", "http://127.0.0.1:11434/v1", "none"];
    check("", "ollama/qwen3:8b", qwen, 8192);
    check(USERS, "ollama/qwen3:8b", qwen, 32_768);
    check("", "llama.cpp", ["llama.cpp", "llama.cpp", "llamacpp", "http://127.0.0.1:8080/v1", "none"], 8192);
    check("", "ollama", ["ollama", "ollama", "llamacpp", "http://127.0.0.1:11434/v1", "none"], 8192);
    let router = ["openrouter/x-ai/grok-9", "x-ai/grok-9", "openai-chat", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"];
    check("", "openrouter/x-ai/grok-9", router, 128_000);
    let house = ["work/house-model", "house-model", "openai-chat", "https://llm.example/v1", "pass llm"];
    check(USERS, "house-model", house, 8192);
    check(USERS, "work/house-model", house, 8192);
    check(USERS, "work/gpt-4o", ["work/gpt-4o", "gpt-4o", "openai-chat", "https://llm.example/v1", "pass llm"], 128_000);
    check(USERS, "box/any", ["box/any", "any", "llamacpp", "http://127.0.0.1:9000/v1", "none"], 8192);
    let gateway = ["claude-opus-5", "claude-opus-5", "anthropic", "https://gateway.example/v1", "GATEWAY_KEY"];
    check(USERS, "claude-opus-5", gateway, 200_000);
    check(USERS, "gpt-5.6", ["gpt-5.6-sol", "gpt-5.6-sol", "openai-responses", "-", "OPENAI_API_KEY"], 100_000);
}

#[test]
fn an_address_takes_any_name_and_a_window() {
    let server = Server { base_url: Some("http://192.168.1.5:8080/v1"), window: Some(16_384) };
    let chosen = config("").choose(Some("whatever-20251001"), server).unwrap();
    assert_eq!((chosen.model.name.as_str(), chosen.model.wire.as_str()), ("whatever-20251001", "whatever-20251001"));
    assert_eq!((chosen.model.window, chosen.is_assumed), (Tokens(16_384), true));
    assert_eq!(chosen.client.unwrap().base_url.as_deref(), server.base_url);
    let known = config("").choose(Some("gpt-5.4"), Server { window: Some(5000), ..server }).unwrap();
    assert_eq!((known.model.window, known.model.reply_limit), (Tokens(5000), Tokens(2500)));
    assert!(config("").choose(None, Server { window: Some(3), ..Server::default() }).is_err());
}

#[test]
fn without_a_name_the_configured_or_the_embedded_model_answers() {
    let embedded = config("").choose(None, Server::default()).unwrap();
    assert!(embedded.client.is_none() && embedded.model.name == "smollm2-135m-instruct");
    assert_eq!(config("model = 'ollama/x'").choose(None, Server::default()).unwrap().model.name, "ollama/x");
    let error = config("").choose(Some("gpt-5.44"), Server::default()).unwrap_err().to_string();
    assert!(error.contains("close names: gpt-5.4") && error.contains("`ollama/gpt-5.44`"), "{error}");
}

#[test]
fn what_a_name_leads_to_is_found_again_by_its_own_name() {
    let config = config("[providers.work]\nbase_url = 'https://llm.example/v1'\nmodels = ['house-model', 'gpt-4o']");
    for listed in config.models(&|_| false) {
        let again = config.choose(Some(&listed.model.name), Server::default()).unwrap();
        assert_eq!(again.model, listed.model);
    }
}

#[test]
fn models_are_listed_with_whether_their_key_is_there() {
    let config = config("[providers.ollama]\nmodels = ['qwen3:8b']");
    let listed = config.models(&|variable| variable == "ANTHROPIC_API_KEY");
    let check = |name: &str, provider: Option<&str>, has_key: bool| {
        let found = listed.iter().find(|listed| listed.model.name == name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!((found.provider.as_deref(), found.has_key), (provider, has_key), "{name}");
    };
    check("claude-opus-5", Some("anthropic"), true);
    check("gpt-5.4", Some("openai"), false);
    check("ollama/qwen3:8b", Some("ollama"), true);
    check("llama.cpp", Some("llamacpp"), false);
    check("smollm2-135m-instruct", None, true);
}

#[test]
fn a_mirror_of_weights_is_an_https_address() {
    let check = |text: &str, expect: Result<Option<&str>, &str>| match (Config::read(text), expect) {
        (Ok(config), Ok(expect)) => assert_eq!(config.weights_mirror.as_deref(), expect),
        (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
        (found, _) => panic!("{text}: {found:?}"),
    };
    check("", Ok(None));
    check("[weights]\nurl = 'https://mirror.example/w'", Ok(Some("https://mirror.example/w")));
    check("[weights]\nurl = 'http://mirror.example/w'", Err("line 2: `url` under [weights]"));
    check("[weights]\nurl = 'https://user:hunter2@mirror.example/w'", Err("contains a password"));
    check("[weights]\nurl = 'file:///tmp'", Err("https"));
    check("[weights]\nuri = 'https://mirror.example/w'", Err("uri"));
}
