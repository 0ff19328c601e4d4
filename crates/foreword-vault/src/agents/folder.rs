//! An agent's own folder: `agent.toml`, `prompt.md`, `rules/*.md`, `references/*.md`, `mcp.json`; every one of them may be absent.

use std::io;

use foreword_core::catalog::Entry;
use foreword_core::item::{ItemId, Kind};
use foreword_text::nearest::nearest;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::entry::{checked_name, entry};
use super::{Asking, Files, Found, Loaded, Problems, SettingsFile, add, servers};

const MAX_ENTRIES: usize = 1_000;

/// What an `agent.toml` can say.
const KEYS: [&str; 10] = [
    "name",
    "description",
    "model",
    "generation",
    "tool_permission",
    "memory",
    "system_prompt",
    "system_prompt_file",
    "search",
    "settings",
];

pub(super) fn load(files: &dyn Files, found: &Found) -> Loaded {
    let mut loaded = Loaded { name: found.name.clone(), ..Loaded::default() };
    describe(files, &found.path, &mut loaded);
    loaded.agent.rules = entries(files, &format!("{}/rules", found.path), Kind::Rule, &mut loaded);
    loaded.agent.references = entries(files, &format!("{}/references", found.path), Kind::Reference, &mut loaded);

    let path = format!("{}/mcp.json", found.path);
    let mut problems = Problems::of(&path);
    if let Some(text) = read(files, &path, &mut problems) {
        loaded.servers = servers::from_json(&text, &mut problems);
        loaded.agent.servers = loaded.servers.iter().map(servers::ServerSpec::server).collect();
        loaded.servers_file = Some(path);
    }
    loaded.problems.extend(problems.list);
    loaded
}

/// The text of a file that need not be there.
pub(super) fn read(files: &dyn Files, path: &str, problems: &mut Problems) -> Option<String> {
    match files.read(path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            problems.push(format!("cannot read the file ({error}); it is ignored"));
            None
        }
    }
}

fn describe(files: &dyn Files, folder: &str, loaded: &mut Loaded) {
    let path = format!("{folder}/agent.toml");
    let mut problems = Problems::of(&path);
    let mut table = Table::new();
    let text = read(files, &path, &mut problems).unwrap_or_default();
    match text.parse::<Table>() {
        Ok(found) => table = found,
        Err(fault) => problems.push(format!("not valid TOML ({}); only the other files are used", fault.message())),
    }
    if let Some(name) = take::<String>(&mut table, "name", &mut problems) {
        loaded.name = checked_name(&name, &mut problems).unwrap_or_else(|| loaded.name.clone());
    }
    loaded.description = take(&mut table, "description", &mut problems);
    loaded.model = take(&mut table, "model", &mut problems);
    loaded.generation = take(&mut table, "generation", &mut problems).unwrap_or_default();
    let asking: Option<String> = take(&mut table, "tool_permission", &mut problems);
    loaded.asking = Asking::read(asking.as_deref(), "tool_permission", &mut problems);
    // What they say is known to the engine.
    table.remove("search");
    table.remove("settings");
    loaded.agent.memory = take(&mut table, "memory", &mut problems);

    let inline: Option<String> = take(&mut table, "system_prompt", &mut problems);
    let file: Option<String> = take(&mut table, "system_prompt_file", &mut problems);
    (loaded.agent.system_prompt, loaded.prompt_file) = prompt(files, folder, inline, file, &mut problems);
    for key in table.keys() {
        let meant = nearest(key, KEYS).map(|known| format!(" (did you mean {known}?)")).unwrap_or_default();
        problems.push(format!("{key} is not a setting of an agent{meant}; see docs/agents.md"));
    }
    loaded.settings = (!text.is_empty()).then_some(SettingsFile { path, text });
    loaded.problems.extend(problems.list);
}

/// The system prompt, and its file where it has one of its own.
fn prompt(
    files: &dyn Files,
    folder: &str,
    inline: Option<String>,
    file: Option<String>,
    problems: &mut Problems,
) -> (String, Option<String>) {
    if let Some(inline) = inline {
        if file.is_some() {
            problems.push("both system_prompt and system_prompt_file are set; the file is ignored".to_owned());
        }
        return (inline.trim().to_owned(), None);
    }
    let named = file.is_some();
    let file = file.unwrap_or_else(|| "prompt.md".to_owned());
    if file.contains('\\') || file.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
        problems
            .push(format!("system_prompt_file must be a path inside the agent's folder, not {file}; the system prompt is empty"));
        return (String::new(), None);
    }
    let path = format!("{folder}/{file}");
    if let Some(text) = read(files, &path, problems) {
        return (text.strip_prefix('\u{feff}').unwrap_or(&text).replace("\r\n", "\n").trim().to_owned(), Some(path));
    }
    if named {
        problems.push(format!("system_prompt_file {file} not found; the system prompt is empty"));
    }
    (String::new(), Some(path))
}

/// Takes one key out of `table`, if it is there and right.
fn take<T: DeserializeOwned>(table: &mut Table, key: &str, problems: &mut Problems) -> Option<T> {
    let value: Value = table.remove(key)?;
    match value.try_into() {
        Ok(value) => Some(value),
        Err(fault) => {
            problems.push(format!("{key}: {}; it is ignored", fault.message()));
            None
        }
    }
}

fn entries(files: &dyn Files, folder: &str, kind: Kind, loaded: &mut Loaded) -> Vec<Entry> {
    let mut found = Vec::new();
    let listed = files.list(folder).unwrap_or_default();
    let named = listed.iter().filter(|entry| !entry.folder && !entry.name.starts_with('.'));
    let stems = named.filter_map(|entry| Some((entry, entry.name.strip_suffix(".md")?)));
    for (at, (listed, stem)) in stems.enumerate() {
        let path = format!("{folder}/{}", listed.name);
        let mut problems = Problems::of(&path);
        if at >= MAX_ENTRIES {
            problems.push(format!("the folder has more than {MAX_ENTRIES} files; the others are ignored"));
            loaded.problems.extend(problems.list);
            break;
        }
        if let Some(entry) = read(files, &path, &mut problems).and_then(|text| entry(stem, &text, &mut problems)) {
            let id = ItemId::new(kind, &entry.name);
            if add(&mut found, entry, &mut problems) {
                loaded.files.insert(id, path);
            }
        }
        loaded.problems.extend(problems.list);
    }
    found
}
