//! `foreword setup`, completions and manual pages.

use std::fs;
use std::path::Path;

use crate::world::{World, succeeded};

/// The files of other programs before setup: with comments, an order of their own and unknown keys.
const FILES: [(&str, &str); 4] = [
    (
        ".claude.json",
        "{\n  \"numStartups\": 7,\n  \"mcpServers\": {\n    \"other\": {\"command\": \"x\"}\n  },\n  \"zebra\": true\n}",
    ),
    (".codex/config.toml", "# my settings\nmodel = \"m\" # the best\n\n[mcp_servers.other]\ncommand = 'x'\n"),
    (".config/zed/settings.json", "// Zed\n{\n    \"theme\": \"One Dark\", // dark\n    \"vim_mode\": true,\n}\n"),
    (".cursor/mcp.json", ""),
];

fn setup(world: &World, arguments: &[&str]) -> std::process::Output {
    let mut setup = world.foreword();
    setup.env("HOME", world.folder.path()).env("XDG_CONFIG_HOME", world.folder.path().join(".config")).env("PATH", "");
    setup.arg("setup").args(arguments).output().unwrap()
}

fn texts(home: &Path) -> Vec<String> {
    FILES.iter().map(|(file, _)| fs::read_to_string(home.join(file)).unwrap()).collect()
}

#[test]
fn other_programs_keep_what_they_have() {
    let world = World::empty();
    let home = world.folder.path();
    for (file, text) in FILES {
        fs::create_dir_all(home.join(file).parent().unwrap()).unwrap();
        fs::write(home.join(file), text).unwrap();
    }
    let before = texts(home);
    let vault = world.vault().canonicalize().unwrap();
    let vault = vault.to_str().unwrap();

    let shown = succeeded(&setup(&world, &["--vault", vault, "--dry-run"]));
    assert!(shown.contains('+') && shown.contains("\"foreword\": {"), "{shown}");
    assert_eq!(texts(home), before, "a dry run writes nothing");
    let asked = setup(&world, &["--vault", vault]);
    assert_eq!(asked.status.code(), Some(1), "without a terminal nothing is written");
    assert_eq!(texts(home), before);

    succeeded(&setup(&world, &["--vault", vault, "--yes"]));
    let after = texts(home);
    for ((before, after), (file, _)) in before.iter().zip(&after).zip(FILES) {
        assert!(after.contains(vault), "{file}: {after}");
        let mut rest = after.lines();
        for line in before.lines() {
            let is_kept = rest.any(|other| other.trim_end_matches(',') == line.trim_end_matches(','));
            assert!(is_kept, "{file} lost {line:?}: {after}");
        }
    }
    let again = setup(&world, &["--vault", vault, "--yes"]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("set up already"), "{}", String::from_utf8_lossy(&again.stderr));

    // What somebody changes meanwhile is not taken back.
    fs::write(home.join(".cursor/mcp.json"), "{}").unwrap();
    let undone = setup(&world, &["--undo"]);
    assert_eq!(undone.status.code(), Some(1), "{}", String::from_utf8_lossy(&undone.stderr));
    let undone = texts(home);
    assert_eq!(undone[..3], before[..3]);
    assert_eq!(undone[3], "{}");
}

#[test]
fn a_file_that_cannot_be_read_is_left_as_it_is() {
    let world = World::empty();
    let file = world.folder.path().join(".claude.json");
    fs::write(&file, "{ broken").unwrap();
    let ran = setup(&world, &["--vault", world.vault().to_str().unwrap(), "--clients", "claude-code", "--yes"]);
    assert!(String::from_utf8_lossy(&ran.stderr).contains("left as it is"), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(fs::read_to_string(&file).unwrap(), "{ broken");
}

#[test]
fn shells_and_man_know_every_command() {
    let world = World::empty();
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = succeeded(&world.foreword().args(["completions", shell]).output().unwrap());
        for word in ["simulate", "mcp", "acp", "setup", "trust"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let script = world.folder.path().join("completions.bash");
    fs::write(&script, succeeded(&world.foreword().args(["completions", "bash"]).output().unwrap())).unwrap();
    let complete = "COMP_WORDS=(foreword mc); COMP_CWORD=1; _foreword foreword mc foreword; echo ${COMPREPLY[@]}";
    let bash =
        std::process::Command::new("bash").arg("-c").arg(format!("source {}; {complete}", script.display())).output().unwrap();
    assert_eq!(succeeded(&bash).trim(), "mcp");

    let pages = world.folder.path().join("man");
    succeeded(&world.foreword().args(["man", "--all"]).arg(&pages).output().unwrap());
    let names: Vec<String> =
        fs::read_dir(&pages).unwrap().map(|page| page.unwrap().file_name().to_string_lossy().into_owned()).collect();
    for page in ["foreword.1", "foreword-mcp.1", "foreword-sessions-fork.1"] {
        assert!(names.iter().any(|name| name == page), "{page}: {names:?}");
    }
    assert!(fs::read_to_string(pages.join("foreword-mcp.1")).unwrap().contains(".TH"));
}
