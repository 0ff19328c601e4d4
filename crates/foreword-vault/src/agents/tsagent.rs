//! Agents of `TsAgent`: one YAML file each. Vectors are left behind (ours are made from the text), and so are the providers, whose
//! settings may hold keys.

use foreword_core::catalog::Entry;
use serde_json::{Map, Value};

use super::entry::{Given, string, yaml};
use super::folder::read;
use super::{Asking, Files, Found, Generation, Loaded, Problems, SettingsFile, add, servers};

pub(super) fn load(files: &dyn Files, found: &Found) -> Loaded {
    let mut loaded = Loaded { name: found.name.clone(), ..Loaded::default() };
    let mut problems = Problems::of(&found.path);
    match read(files, &found.path, &mut problems).map(|text| yaml(text.strip_prefix('\u{feff}').unwrap_or(&text))) {
        Some(Ok(fields)) => fill(&mut loaded, &fields, &mut problems),
        Some(Err(fault)) => problems.push(format!("not valid YAML ({fault}); nothing was loaded")),
        None if problems.list.is_empty() => problems.push("file not found".to_owned()),
        None => {}
    }
    loaded.problems = problems.list;
    loaded
}

fn fill(loaded: &mut Loaded, fields: &Map<String, Value>, problems: &mut Problems) {
    let none = Map::new();
    let object = |key: &str| fields.get(key).and_then(Value::as_object).unwrap_or(&none);
    let metadata = object("metadata");
    if let Some(name) = string(metadata, "name") {
        loaded.name = name;
    }
    loaded.description = string(metadata, "description");

    let settings = object("settings");
    loaded.model = string(settings, "model");
    loaded.generation = Generation {
        temperature: settings.get("temperature").and_then(Value::as_f64),
        top_p: settings.get("topP").and_then(Value::as_f64),
        max_output_tokens: settings.get("maxOutputTokens").and_then(Value::as_u64),
        max_turns: settings.get("maxChatTurns").and_then(Value::as_u64).and_then(|turns| u32::try_from(turns).ok()),
    };
    let asking = settings.get("toolPermission").and_then(Value::as_str);
    loaded.asking = Asking::read(asking, "settings.toolPermission", problems);
    loaded.settings = search(&problems.file, settings);
    loaded.agent.system_prompt = string(fields, "systemPrompt").unwrap_or_default();
    loaded.agent.rules = entries(fields, "rules", problems);
    loaded.agent.references = entries(fields, "references", problems);
    if let Some(value) = fields.get("mcpServers").filter(|value| !value.is_null()) {
        loaded.servers = servers::read(value, problems);
        loaded.agent.servers = loaded.servers.iter().map(servers::ServerSpec::server).collect();
    }
}

/// What it says of the search, in the words of an `agent.toml`.
fn search(path: &str, settings: &Map<String, Value>) -> Option<SettingsFile> {
    let keys = [("contextTopK", "top_k"), ("contextTopN", "top_n"), ("contextIncludeScore", "include_score")];
    let said = keys.into_iter().filter_map(|(theirs, ours)| Some(format!("{ours} = {}\n", settings.get(theirs)?.as_number()?)));
    let text: String = said.collect();
    (!text.is_empty()).then(|| SettingsFile { path: path.to_owned(), text: format!("[search]\n{text}") })
}

fn entries(fields: &Map<String, Value>, key: &str, problems: &mut Problems) -> Vec<Entry> {
    let mut found = Vec::new();
    for (at, value) in fields.get(key).and_then(Value::as_array).into_iter().flatten().enumerate() {
        let name = value.get("name").and_then(Value::as_str).unwrap_or_default();
        let mut own = problems.inside(&if name.is_empty() { format!("{key}[{at}]") } else { format!("{key}.{name}") });
        let none = Map::new();
        let given = Given { fields: value.as_object().unwrap_or(&none), priority: "priorityLevel" };
        let text = string(given.fields, "text").unwrap_or_default();
        if let Some(entry) = given.entry(name, text, &mut own) {
            add(&mut found, entry, &mut own);
        }
        problems.extend(own);
    }
    found
}
