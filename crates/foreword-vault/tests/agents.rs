//! Agents from files, on the example folders beside this file.

#![allow(clippy::unwrap_used, clippy::panic)] // tests: a panic is how they fail

use std::path::Path;

use foreword_core::catalog::{Entry, Include, Permission};
use foreword_vault::agents::{Asking, Form, Generation, Loaded, OnDisk, Transport, import, list, load};

fn files(folder: &str) -> OnDisk {
    OnDisk::new(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents").join(folder)).unwrap()
}

fn agent(folder: &str, name: &str) -> Loaded {
    let files = files(folder);
    let found = list(&files).into_iter().find(|found| found.name == name).unwrap();
    load(&files, &found)
}

fn rows(entries: &[Entry]) -> Vec<(&str, u16, Include, &str)> {
    entries.iter().map(|entry| (entry.name.as_str(), entry.priority.get(), entry.include, entry.text.as_str())).collect()
}

fn problems(loaded: &Loaded) -> Vec<String> {
    loaded.problems.iter().map(|problem| format!("{}: {}", problem.file, problem.what)).collect()
}

#[test]
fn agents_are_listed() {
    let found: Vec<_> = list(&files("")).into_iter().map(|found| (found.name, found.form)).collect();
    assert_eq!(found, [("Editor".to_owned(), Form::Folder), ("support".to_owned(), Form::TsAgent)]);
    assert!(list(&files("docs")).is_empty());
}

#[test]
fn a_folder() {
    let editor = agent("", "Editor");
    assert_eq!(problems(&editor), [""; 0]);
    assert_eq!(editor.agent.check(), Ok(()));
    assert_eq!(editor.agent.system_prompt, "You edit texts.\n\nYou never change quotations.");
    assert_eq!((editor.name.as_str(), editor.model.as_deref()), ("Editor", Some("sonnet")));
    assert_eq!(editor.generation, Generation { temperature: Some(0.3), max_output_tokens: Some(2000), ..Generation::default() });
    let settings = editor.settings.unwrap();
    assert_eq!(settings.path, "Foreword/Agents/Editor/agent.toml");
    assert!(settings.text.contains("[settings]\nlayout = \"log\""), "as it is written");
    assert_eq!(
        rows(&editor.agent.rules),
        [
            ("Tone of voice", 10, Include::Always, "Short sentences. No exclamation marks."),
            ("figures", 500, Include::Agent, "Write numbers up to twelve as words."),
        ]
    );
    assert_eq!(rows(&editor.agent.references), [("house-style", 500, Include::Manual, "The house style of 2024, in full.")]);

    let servers: Vec<_> = editor.servers.iter().map(|spec| (spec.name.as_str(), spec.include, spec.permission)).collect();
    assert_eq!(servers, [("dictionary", None, None), ("files", Some(Include::Agent), Some(Permission::Required))]);
    let Transport::Stdio { env, .. } = &editor.servers[1].transport else { panic!("files is started") };
    assert_eq!(env.0["FILES_TOKEN"], "${FILES_TOKEN}", "left to the start of the server");
    assert_eq!(editor.servers[1].tools["read_file"].permission, Some(Permission::NotRequired));
    assert_eq!(editor.agent.servers.len(), 2);
}

#[test]
fn an_agent_of_tsagent() {
    let support = agent("", "support");
    assert_eq!(support.agent.check(), Ok(()));
    assert_eq!((support.name.as_str(), support.asking), ("Support desk", Asking::Always));
    assert_eq!(support.agent.system_prompt, "You answer questions about orders.\nYou never promise dates.");
    let generation = Generation { temperature: Some(0.0), top_p: Some(0.05), max_output_tokens: Some(4000), max_turns: Some(20) };
    assert_eq!(support.generation, generation);
    assert_eq!(
        support.settings.as_ref().map(|file| file.text.as_str()),
        Some("[search]\ntop_k = 30\ntop_n = 4\ninclude_score = 0.6\n")
    );
    assert_eq!(
        rows(&support.agent.rules),
        [
            ("refunds", 50, Include::Always, "Refunds are paid within 14 days."),
            ("greeting", 500, Include::Manual, "Greet by name.")
        ]
    );
    assert_eq!(
        rows(&support.agent.references),
        [("carriers", 100, Include::Agent, "Parcels go by road.\n\nLetters go by rail.")]
    );
    let orders = &support.servers[0];
    assert_eq!(
        (orders.name.as_str(), orders.include, orders.permission),
        ("orders", Some(Include::Agent), Some(Permission::NotRequired))
    );
    assert_eq!(orders.tools["cancel_order"].permission, Some(Permission::Required));
    let file = "Foreword/Agents/support.yaml";
    assert_eq!(
        problems(&support),
        [
            format!("{file}: rules.greeting: priorityLevel must be an integer from 0 to 999; using 500"),
            format!("{file}: rules.refunds: the name refunds is already used; this one is ignored"),
            format!("{file}: rules.silent: no text; it is ignored"),
            format!("{file}: mcpServers.rules: a server needs either a command (type stdio) or a url (type http); it is ignored"),
        ]
    );
    assert!(!format!("{support:?}").contains("sk-not-to-be-kept"));
}

#[test]
fn imports() {
    let imported = import(&files(""), ["docs/api/AGENTS.md", "docs/other.md", "docs/api/AGENTS.md"]);
    let rules: Vec<_> = imported.rules.iter().map(|(_, entry)| entry.clone()).collect();
    assert_eq!(
        rows(&rules),
        [
            ("AGENTS", 500, Include::Always, "# House rules\n\nAnswer in English."),
            ("docs/api/AGENTS", 500, Include::Agent, "This holds for files in docs/api/ only.\n\nEndpoints are nouns."),
            ("cursorrules", 500, Include::Always, "Prefer plain words."),
            ("asked", 500, Include::Manual, "Only when asked."),
            ("short", 500, Include::Always, "Keep it short."),
            ("typescript", 500, Include::Agent, "Use strict types."),
            ("web/styles", 500, Include::Agent, "No inline styles."),
        ]
    );
    assert_eq!(rules[4].description.as_deref(), Some("Everything: always"));
    let scopes: Vec<_> = imported.scopes.iter().map(|scope| (scope.rule.as_str(), scope.globs.join(" "))).collect();
    assert_eq!(
        scopes,
        [
            ("docs/api/AGENTS", "docs/api/**".to_owned()),
            ("typescript", "*.ts *.tsx".to_owned()),
            ("web/styles", "web/**/*.css".to_owned()),
        ]
    );
    let references: Vec<_> = imported.references.iter().map(|(_, entry)| entry.clone()).collect();
    assert_eq!(
        rows(&references),
        [
            (
                "invoices",
                500,
                Include::Agent,
                "Run scripts/total.py.\n\nFiles of this skill, in skills/invoices/:\n- scripts/total.py"
            ),
            ("minutes", 500, Include::Agent, "# Minutes\n\nList who was there."),
        ]
    );
    assert_eq!(imported.problems.len(), 1, "{:?}", imported.problems);

    let mut editor = agent("", "Editor");
    editor.agent.rules.push(rules[5].clone());
    editor.join(imported);
    assert_eq!(editor.agent.check(), Ok(()));
    assert_eq!((editor.agent.rules.len(), editor.agent.references.len(), editor.scopes.len()), (9, 3, 2));
    assert!(problems(&editor)[1].starts_with(".cursor/rules/typescript.mdc: the agent has its own rule typescript"));
}

#[test]
fn what_is_broken_is_named_and_the_rest_loads() {
    let odd = agent("broken", "Odd");
    assert_eq!(odd.name, "Odd");
    assert_eq!(
        rows(&odd.agent.rules),
        [("good", 500, Include::Manual, "Still here."), ("odd", 500, Include::Manual, "Defaults are used.")]
    );
    let folder = "Foreword/Agents/Odd";
    let expect = [
        "agent.toml: name: invalid type",
        "agent.toml: system_prompt_file must be a path inside the agent's folder, not ../secret.md",
        "agent.toml: favourite_colour is not a setting of an agent",
        "rules/empty.md: no text",
        "rules/odd.md: priority must be an integer",
        "rules/odd.md: include must be always, manual or agent",
        "mcp.json: mcpServers.a: a server needs either a command",
    ];
    let found = problems(&odd);
    assert_eq!(found.len(), expect.len(), "{found:#?}");
    for (found, expect) in found.iter().zip(expect) {
        assert!(found.starts_with(&format!("{folder}/{expect}")), "{found}");
    }
    let torn = agent("broken", "torn");
    assert!(problems(&torn)[0].starts_with("Foreword/Agents/torn.yaml: not valid YAML"), "{:?}", problems(&torn));
}

/// Whatever a file says, it cannot turn the questions off.
#[test]
fn a_file_of_the_vault_cannot_turn_asking_off() {
    #[track_caller]
    fn check(file: &str, text: &str, expect: Asking, problem: Option<&str>) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("Foreword/Agents").join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        let files = OnDisk::new(folder.path()).unwrap();
        let loaded = load(&files, &list(&files)[0]);
        assert_eq!(loaded.asking, expect);
        let told: Vec<_> = loaded.problems.iter().map(|problem| problem.what.as_str()).collect();
        assert_eq!(told.is_empty(), problem.is_none(), "{told:?}");
        assert!(problem.is_none_or(|words| told[0].contains(words)), "{told:?}");
    }
    let yaml = |word: &str| format!("settings:\n  toolPermission: {word}\n");
    let toml = |word: &str| format!("tool_permission = {word}\n");
    for (file, form) in [("a.yaml", &yaml as &dyn Fn(&str) -> String), ("a/agent.toml", &toml)] {
        let quoted = |word: &str| if file.ends_with("toml") { format!("{word:?}") } else { word.to_owned() };
        check(file, &form(&quoted("always")), Asking::Always, None);
        check(file, &form(&quoted("tool")), Asking::Tool, None);
        check(file, &form(&quoted("never")), Asking::Tool, Some("which only you can set"));
        check(file, &form(&quoted("Never")), Asking::Tool, Some("must be always or tool"));
    }
}
