//! Where a scenario must have an object. The parser would take a list there too, field by field, and a list is a wrong type.

use serde_json::Value;

/// Paths of objects: `[]` stands for every entry of a list, `*` for every field.
const OBJECTS: [&str; 17] = [
    "",
    "agent",
    "agent.project",
    "agent.rules[]",
    "agent.references[]",
    "agent.servers[]",
    "agent.tools[]",
    "settings",
    "settings.budget",
    "settings.history",
    "settings.select",
    "settings.plan",
    "events[].*",
    "events[].turn.attach[]",
    "events[].turn.attach[].images[]",
    "events[].turn.tool_results[]",
    "events[].assistant.tool_calls[]",
];

/// The path of the first list that should be an object.
pub(super) fn misplaced_list(scenario: &Value) -> Option<String> {
    let changes = ["project", "rules[]", "references[]", "servers[]", "tools[]"].map(|field| format!("events[].agent.{field}"));
    let paths = OBJECTS.into_iter().chain(changes.iter().map(String::as_str));
    paths.into_iter().find_map(|path| {
        let steps: Vec<&str> = path.split('.').filter(|step| !step.is_empty()).collect();
        list_at(scenario, &steps, String::new())
    })
}

fn list_at(value: &Value, steps: &[&str], path: String) -> Option<String> {
    let Some((step, rest)) = steps.split_first() else {
        return value.is_array().then(|| if path.is_empty() { ".".to_owned() } else { path });
    };
    let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    if *step == "*" {
        let fields = value.as_object()?;
        return fields.iter().find_map(|(name, value)| list_at(value, rest, join(name)));
    }
    match step.strip_suffix("[]") {
        None => list_at(value.get(*step)?, rest, join(step)),
        Some(name) => {
            let entries = value.get(name)?.as_array()?;
            entries.iter().enumerate().find_map(|(at, value)| list_at(value, rest, format!("{}[{at}]", join(name))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_in_the_place_of_objects_are_found() {
        let check = |value: Value, expect: Option<&str>| assert_eq!(misplaced_list(&value).as_deref(), expect, "{value}");
        check(json!([1]), Some("."));
        check(json!({"agent": ["S"]}), Some("agent"));
        check(json!({"agent": {"rules": [["a", "b"]]}}), Some("agent.rules[0]"));
        check(json!({"events": [{"idle_s": 3}, {"turn": ["hello"]}]}), Some("events[1].turn"));
        check(json!({"events": [{"turn": {"user": "x", "attach": [["note"]]}}]}), Some("events[0].turn.attach[0]"));
        check(json!({"events": [{"agent": {"tools": [[]]}}]}), Some("events[0].agent.tools[0]"));
        check(json!({"agent": {"rules": [{"name": "a"}]}, "events": [{"turn": {"user": "x", "attach": []}}]}), None);
    }
}
