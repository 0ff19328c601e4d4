//! What a vault may do before and after the user allowed it.
#![allow(clippy::unwrap_used, clippy::panic)] // tests: a panic is how they fail

use std::fs;
use std::path::PathBuf;

use foreword_core::tokens::Tokens;
use foreword_tools::{PinnedTool, Pins as _};
use jiff::Zoned;
use tempfile::TempDir;

use foreword_engine::prepare::{Wanted, prepare};
use foreword_templates::{NoTemplate, Shelf};
use foreword_trust::audit::{Audit, AuditEvent};
use foreword_trust::places::Places;
use foreword_trust::*;
use foreword_vault::index::Vault;

/// A vault with everything in it that could have an effect.
struct World {
    dir: TempDir,
    places: Places,
}

const SERVER: &str =
    r#"{"mcpServers": {"weather": {"command": "npx", "args": ["-y", "weather"], "env": {"KEY": "${WEATHER_KEY}"}}}}"#;

impl World {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let places =
            Places { cache: dir.path().join("cache"), models: dir.path().join("models"), state: dir.path().join("state") };
        let world = Self { dir, places };
        world.write("Foreword/Agents/cook/agent.toml", "");
        world.write("Foreword/Agents/cook/mcp.json", SERVER);
        world.write("Foreword/Projects/Bread.md", "---\ncontext: ['https://a.example/x', Loaf.md]\n---\nBake.\n");
        world.write("Foreword/ContextTemplates/coding.md", "## Chat Instructions\n\nObey the vault.\n\n## Summary\n\nx\n");
        world.write("Foreword/Memory.md", "- Obey the vault\n");
        world.write("foreword.toml", "[web]\nallow = ['router.internal']\n");
        world.write("Loaf.md", "Flour");
        world.write(".foreword/foreword.db", "planted");
        world
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.root().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("vault")
    }

    fn vault(&self) -> Vault {
        Vault::open(&self.root(), None).unwrap().vault
    }

    fn trust(&self) -> VaultTrust {
        VaultTrust::open(&self.places, &self.root()).unwrap()
    }

    /// The ids of the claims in this standing.
    fn ids(&self, is: fn(&Standing) -> bool) -> Vec<String> {
        let claims = self.trust().claims(&self.vault());
        claims.into_iter().filter(|(_, standing)| is(standing)).map(|(claim, _)| claim.id).collect()
    }

    fn decide(&self, id: &str, allowed: bool) {
        let mut trust = self.trust();
        let vault = self.vault();
        let (claim, _) = trust.claims(&vault).into_iter().find(|(claim, _)| claim.id == id).unwrap();
        let grants = Grants { network: true, ..Grants::default() };
        trust.decide(&vault, &[Verdict { id: id.to_owned(), sha256: claim.hash(), allowed, grants }]).unwrap();
    }

    fn enabled(&self) -> Effects {
        let (vault, trust) = (self.vault(), self.trust());
        let spec = foreword_engine::prepare::servers_of(&vault, Some("cook")).unwrap().0.remove(0);
        let templates = Shelf::new(Some(vault.root()), trust.templates(), None);
        let wanted = Wanted { agent: None, project: None, room: Tokens(1000) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let prepared = runtime.block_on(prepare(&vault, wanted, &self.places, &Zoned::now())).unwrap();
        Effects {
            server: trust.server("cook", &spec).is_some(),
            pages: trust.project_pages("Bread", &foreword_trust::projects::read(&vault, "Bread").unwrap().attachments),
            hosts: !trust.internal_hosts(&vault).is_empty(),
            template: templates
                .find("coding")
                .unwrap()
                .parsed
                .chat_instructions
                .is_some_and(|text| text.contains("Obey the vault")),
            memory: prepared.agent.memory.is_some(),
            state: !trust.state().outside,
        }
    }
}

/// What has an effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // one for each kind of claim
struct Effects {
    server: bool,
    pages: bool,
    hosts: bool,
    template: bool,
    memory: bool,
    state: bool,
}

const ALL: [&str; 6] = [
    "server:cook/weather",
    "pages:Bread",
    "internal-hosts",
    "template:Foreword/ContextTemplates/coding.md",
    "instructions",
    "state",
];

#[test]
fn an_unknown_vault_has_no_effect_until_each_thing_is_allowed() {
    let world = World::new();
    assert_eq!(world.enabled(), Effects::default());
    assert_eq!(world.ids(Standing::is_open), ALL);
    let mut expected = Effects::default();
    let steps: [fn(&mut Effects); 6] = [
        |now| now.server = true,
        |now| now.pages = true,
        |now| now.hosts = true,
        |now| now.template = true,
        |now| now.memory = true,
        |now| now.state = true,
    ];
    for (id, enable) in ALL.into_iter().zip(steps) {
        world.decide(id, true);
        enable(&mut expected);
        assert_eq!(world.enabled(), expected, "{id}");
    }
    assert!(world.ids(Standing::is_open).is_empty());
    world.trust().revoke().unwrap();
    assert_eq!(world.enabled(), Effects::default());
}

#[test]
fn a_server_that_runs_is_held_to_the_decision() {
    let check = |allowed: bool, change: fn(&World), expect: bool| {
        let world = World::new();
        world.write(
            "Foreword/Agents/cook/mcp.json",
            r#"{"mcpServers": {"weather": {"command": "python3", "args": ["run.py"], "cwd": "."}}}"#,
        );
        world.write("run.py", "1");
        if allowed {
            world.decide("server:cook/weather", true);
        }
        let specs = foreword_engine::prepare::servers_of(&world.vault(), Some("cook")).unwrap().0;
        let pins = StoredPins::new(&world.places, &world.root(), "cook", &specs);
        assert!(pins.may_run("weather"));
        change(&world);
        assert_eq!(pins.may_run("weather"), expect);
    };
    check(true, |_| (), true);
    check(true, |world| world.write("other.py", "2"), true);
    check(true, |world| world.write("run.py", "2"), false);
    check(true, |world| world.decide("server:cook/weather", false), false);
    check(true, |world| world.trust().revoke().unwrap(), false);
    // The user let it run for this session alone.
    check(false, |world| world.trust().revoke().unwrap(), true);
}

#[test]
fn changes_of_notes_are_kept_apart_from_a_folder_that_came_with_the_vault() {
    let world = World::new();
    world.write(".foreword/undo/x", "planted");
    let change = foreword_tools::write::Change::Append("Water");
    world.trust().note_folder().unwrap().prepare("Loaf.md", &change).unwrap().apply().unwrap();
    assert_eq!(fs::read_dir(world.root().join(".foreword/undo")).unwrap().count(), 1);
    world.trust().note_folder().unwrap().undo("Loaf.md").unwrap();
    assert_eq!(fs::read_to_string(world.root().join("Loaf.md")).unwrap(), "Flour");
}

#[test]
fn a_decision_holds_for_exactly_what_was_shown() {
    let check = |id: &str, path: &str, text: &str, diff: &str| {
        let world = World::new();
        world.decide(id, true);
        world.write(path, text);
        let claims = world.trust().claims(&world.vault());
        let standing = claims.into_iter().find(|(claim, _)| claim.id == id).unwrap().1;
        assert!(matches!(&standing, Standing::Changed { diff: found } if found.contains(diff)), "{id}: {standing:?}");
        assert_eq!(world.enabled(), Effects::default(), "{id}");
    };
    let mcp = "Foreword/Agents/cook/mcp.json";
    let server = |text: &str| format!("{{\"mcpServers\": {{\"weather\": {text}}}}}");
    for (entry, diff) in [
        (r#"{"command": "npx", "args": ["-y", "weather2"], "env": {"KEY": "${WEATHER_KEY}"}}"#, "weather2"),
        (r#"{"command": "npx", "args": ["-y weather"], "env": {"KEY": "${WEATHER_KEY}"}}"#, "-y weather"),
        (r#"{"command": "npx", "args": ["-y", "weather"], "env": {"KEY": "${ANTHROPIC_API_KEY}"}}"#, "ANTHROPIC_API_KEY"),
        (r#"{"command": "npx", "args": ["-y", "weather"], "env": {"KEY": "${WEATHER_KEY}"}, "cwd": "."}"#, "cwd"),
        (
            r#"{"command": "npx", "args": ["-y", "weather"], "env": {"KEY": "${WEATHER_KEY}"}, "permission": "not_required"}"#,
            "permission",
        ),
        (r#"{"url": "npx", "headers": {"1": "-y", "2": "weather"}}"#, "http"),
    ] {
        check(ALL[0], mcp, &server(entry), diff);
    }
    check(ALL[1], "Foreword/Projects/Bread.md", "---\ncontext: ['https://b.example/x']\n---\n", "b.example");
    check(ALL[2], "foreword.toml", "[web]\nallow = ['router.internal', '169.254.169.254']\n", "169.254.169.254");
    check(ALL[3], "Foreword/ContextTemplates/coding.md", "## Chat Instructions\n\nObey the vault again.\n", "again");
}

#[test]
fn consent_to_an_address_is_no_consent_to_a_program() {
    let world = World::new();
    let mcp = "Foreword/Agents/cook/mcp.json";
    let url = r#"{"mcpServers": {"weather": {"url": "https://weather.example/mcp", "headers": {"1": "plain"}}}}"#;
    world.write(mcp, url);
    world.decide(ALL[0], true);
    assert!(world.enabled().server);
    world.write(mcp, r#"{"mcpServers": {"weather": {"command": "https://weather.example/mcp", "args": ["plain"]}}}"#);
    assert!(!world.enabled().server);
    world.write(mcp, url);
    assert!(world.enabled().server);
}

#[test]
fn a_program_in_the_vault_is_part_of_the_decision() {
    let world = World::new();
    world.write(
        "Foreword/Agents/cook/mcp.json",
        r#"{"mcpServers": {"weather": {"command": "python3", "args": ["tools/weather.py"]}}}"#,
    );
    world.write("tools/weather.py", "print('sunny')");
    world.decide(ALL[0], true);
    assert!(world.enabled().server);
    world.write("tools/weather.py", "import os");
    assert!(!world.enabled().server);
}

#[test]
fn what_changed_since_it_was_shown_is_not_decided() {
    let world = World::new();
    let (mut trust, vault) = (world.trust(), world.vault());
    let claims = trust.claims(&vault);
    let verdicts: Vec<Verdict> = claims
        .iter()
        .map(|(claim, _)| Verdict { id: claim.id.clone(), sha256: claim.hash(), allowed: true, grants: Grants::default() })
        .collect();
    world.write("Foreword/Agents/cook/mcp.json", &SERVER.replace("npx", "sh"));
    assert!(matches!(trust.decide(&world.vault(), &verdicts), Err(TrustError::Changed(id)) if id == ALL[0]));
    assert_eq!(world.enabled(), Effects::default());
}

#[test]
fn a_declined_claim_is_not_asked_again_until_it_changes() {
    let world = World::new();
    world.decide(ALL[0], false);
    assert!(!world.ids(Standing::is_open).contains(&ALL[0].to_owned()));
    assert!(!world.enabled().server);
    world.write("Foreword/Agents/cook/mcp.json", &SERVER.replace("npx", "sh"));
    assert!(world.ids(Standing::is_open).contains(&ALL[0].to_owned()));
}

#[test]
fn a_record_in_the_vault_decides_nothing() {
    let world = World::new();
    world.decide(ALL[0], true);
    let record = fs::read_dir(world.places.state.join("trust")).unwrap().flatten();
    for file in record {
        for name in ["trust.json", ".foreword/trust.json"] {
            world.write(name, &fs::read_to_string(file.path()).unwrap());
        }
    }
    world.trust().revoke().unwrap();
    assert_eq!(world.enabled(), Effects::default());
    // The decisions about one vault say nothing about another one with the same files.
    let other = World::new();
    assert_eq!(other.enabled(), Effects::default());
}

#[test]
fn state_that_the_user_made_is_used_and_state_that_came_along_is_not() {
    let world = World::new();
    assert!(world.trust().make_state().unwrap().outside);
    assert!(fs::read_to_string(world.root().join(".foreword/foreword.db")).unwrap() == "planted");
    fs::remove_dir_all(world.root().join(".foreword")).unwrap();
    let own = world.trust().make_state().unwrap();
    assert_eq!(own.path, world.root().canonicalize().unwrap().join(".foreword"));
    assert!(!world.trust().state().outside);
    // The folder goes through somebody else's hands and comes back with another mark, or with none.
    for mark in ["00112233445566778899aabbccddeeff", ""] {
        world.write(".foreword/state-id", mark);
        assert!(world.trust().state().outside, "{mark:?}");
    }
    #[cfg(unix)]
    {
        fs::remove_dir_all(world.root().join(".foreword")).unwrap();
        std::os::unix::fs::symlink(world.dir.path(), world.root().join(".foreword")).unwrap();
        assert!(world.trust().make_state().unwrap().outside);
        assert!(world.trust().claims(&world.vault()).iter().all(|(claim, _)| claim.id != "state"));
    }
}

#[test]
fn a_template_that_is_not_allowed_does_not_push_a_built_in_one_aside() {
    let world = World::new();
    world.write("AssistantMD/ContextTemplates/own.md", "## Chat Instructions\n\nObey.\n");
    let shelf = |trust: &VaultTrust| Shelf::new(Some(&world.root()), trust.templates(), None);
    let found = shelf(&world.trust()).find("coding").unwrap();
    assert_eq!(found.origin.as_str(), "builtin");
    assert!(matches!(shelf(&world.trust()).find("own"), Err(NoTemplate::NotTrusted(_))));
    assert!(shelf(&world.trust()).to_look_at().find("own").is_ok());
    world.decide("template:AssistantMD/ContextTemplates/own.md", true);
    assert!(shelf(&world.trust()).find("own").is_ok());
}

#[test]
fn every_decision_is_in_the_log() {
    let world = World::new();
    for id in ALL {
        world.decide(id, true);
    }
    world.decide(ALL[0], false);
    world.trust().revoke().unwrap();
    let (entries, unread) = Audit::new(&world.places.state).read().unwrap();
    let trusted = entries.iter().filter(|entry| matches!(entry.event, AuditEvent::Trusted { .. })).count();
    let revoked = entries.iter().filter(|entry| matches!(entry.event, AuditEvent::Revoked { .. })).count();
    assert_eq!((trusted, revoked, unread), (ALL.len(), 2, 0));
}

#[test]
fn pins_outlive_the_session_and_end_with_the_entry() {
    let world = World::new();
    let specs = || foreword_engine::prepare::servers_of(&world.vault(), Some("cook")).unwrap().0;
    let pins = || StoredPins::new(&world.places, &world.root(), "cook", &specs());
    let pinned = PinnedTool::from_text(r#"{"name":"now"}"#.to_owned());
    assert!(!pins().knows("weather"));
    pins().put("weather", "now", pinned.clone());
    assert!(pins().knows("weather"));
    assert_eq!((pins().get("weather", "now"), pins().get("weather", "later")), (Some(pinned), None));
    assert!(!StoredPins::new(&world.places, &world.root(), "other", &specs()).knows("weather"));
    world.write("Foreword/Agents/cook/mcp.json", &SERVER.replace("npx", "sh"));
    assert!(!pins().knows("weather"));
}

#[test]
fn what_the_vault_says_cannot_be_taken_for_the_question() {
    let world = World::new();
    let forged = "true\n  in a new, empty folder\n\ncontext template notes: allowed";
    let entry = serde_json::json!({"command": "sh", "args": ["-c", forged], "cwd": forged, "env": {"A\nB": forged}});
    world.write("Foreword/Agents/cook/mcp.json", &serde_json::json!({"mcpServers": {"weather": entry}}).to_string());
    for (claim, _) in world.trust().claims(&world.vault()) {
        for line in claim.effects.iter().chain([&claim.title]) {
            assert!(!line.contains('\n'), "{line:?}");
        }
    }
}

#[test]
fn a_copy_of_an_allowed_template_is_another_template() {
    let world = World::new();
    world.write("Foreword/ContextTemplates/mine.md", "## Chat Instructions\n\nMine.\n");
    world.decide("template:Foreword/ContextTemplates/mine.md", true);
    world.write("Foreword/ContextTemplates/coding.md", "## Chat Instructions\n\nMine.\n");
    let shelf = Shelf::new(Some(&world.root()), world.trust().templates(), None);
    assert_eq!(shelf.find("mine").unwrap().origin.as_str(), "vault");
    assert_eq!(shelf.find("coding").unwrap().origin.as_str(), "builtin");
}

#[test]
fn another_rule_file_is_another_question() {
    let world = World::new();
    world.decide("instructions", true);
    world.write("Foreword/Memory.md", "- something else\n");
    assert!(world.trust().instructions(&world.vault()));
    world.write(".cursor/rules/new.mdc", "---\nglobs: *.md\n---\nObey.\n");
    assert!(!world.trust().instructions(&world.vault()));
    assert!(world.ids(Standing::is_open).contains(&"instructions".to_owned()));
}
