//! The include modes of tools in an agent's `mcp.json`. Only the bytes of what is set change: people write that file, in their own way.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// The file with another value at a place, which is made where it is not there; none where the file has something else on the way to it.
pub(super) fn set(text: &str, place: &[&str], value: &str) -> Option<String> {
    let (mark, json) = text.strip_prefix('\u{feff}').map_or(("", text), |json| ("\u{feff}", json));
    let object = json.trim();
    let at = json.find(object)?;
    Some(format!("{mark}{}{}{}", &json[..at], set_in(object, place, value)?, &json[at + object.len()..]))
}

fn set_in(object: &str, place: &[&str], value: &str) -> Option<String> {
    let (key, inner) = place.split_first()?;
    // Of a name that is there twice the last one counts, here as where the file is read.
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(object).ok()?;
    // They are borrowed from the object, so their addresses tell where they stand.
    let start = |member: &RawValue| (member.get().as_ptr() as usize).checked_sub(object.as_ptr() as usize);
    if let Some(old) = members.get(*key) {
        let new = if inner.is_empty() { value.to_owned() } else { set_in(old.get(), inner, value)? };
        let at = start(old)?;
        return Some(format!("{}{new}{}", object.get(..at)?, object.get(at + old.get().len()..)?));
    }
    let new = inner.iter().rev().fold(value.to_owned(), |inner, key| format!("{{{}: {inner}}}", quoted(key)));
    let new = format!("{}: {new}", quoted(key));
    let ends = members.values().filter_map(|member| Some(start(member)? + member.get().len()));
    match ends.max() {
        // As far in as the members before it.
        Some(end) => {
            let space = object[1..].find('"').and_then(|first| object.get(1..=first)).unwrap_or_default();
            let space = if space.is_empty() { " " } else { space };
            Some(format!("{},{space}{new}{}", object.get(..end)?, object.get(end..)?))
        }
        None => Some(format!("{{{new}}}")),
    }
}

fn quoted(key: &str) -> String {
    serde_json::Value::from(key).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_what_is_set_changes() {
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(set(text, &["s", "tools", "t", "include"], "\"agent\"").as_deref(), expect, "{text}");
        };
        check(
            r#"{"s": {"tools": {"t": {"include": "manual", "x": 1.0}}}}"#,
            Some(r#"{"s": {"tools": {"t": {"include": "agent", "x": 1.0}}}}"#),
        );
        check("{\"s\":{\"tools\":{}}}\n", Some("{\"s\":{\"tools\":{\"t\": {\"include\": \"agent\"}}}}\n"));
        check(
            "{\n  \"s\": {\n    \"command\": \"x\"\n  }\n}\n",
            Some("{\n  \"s\": {\n    \"command\": \"x\",\n    \"tools\": {\"t\": {\"include\": \"agent\"}}\n  }\n}\n"),
        );
        check(r#"{"a":1,"s":{"tools":{"o":{}}}}"#, Some(r#"{"a":1,"s":{"tools":{"o":{}, "t": {"include": "agent"}}}}"#));
        check("\u{feff} {} ", Some("\u{feff} {\"s\": {\"tools\": {\"t\": {\"include\": \"agent\"}}}} "));
        check(r#"{"s": {}, "s": {"tools": []}}"#, None);
        check(r#"{"s": 5}"#, None);
        check("[]", None);
        check("{", None);
        check("", None);
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<i32>().prop_map(|n| json!(n)),
            "[a\"\\\\ä{}, ]{0,6}".prop_map(|text| json!(text))
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop::collection::btree_map("[abt\"ä]{1,2}", inner, 0..4).prop_map(|map| json!(map))
        })
    }

    proptest! {
        #[test]
        fn what_is_set_reads_back_and_the_rest_stays(tree in tree(), place in prop::collection::vec("[abt\"ä]{1,2}", 1..4), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) }.unwrap();
            let names: Vec<&str> = place.iter().map(String::as_str).collect();
            if let Some(new) = set(&text, &names, "7") {
                let read: Value = serde_json::from_str(&new).unwrap();
                let found = names.iter().fold(&read, |value, name| &value[*name]);
                prop_assert_eq!(found, &json!(7));
                let gone = |value: &Value| { let mut value = value.clone(); remove(&mut value, &names); value };
                prop_assert_eq!(gone(&read), gone(&serde_json::from_str(&text).unwrap()));
            }
        }
    }

    /// Takes a place out, and what is empty without it.
    fn remove(value: &mut Value, names: &[&str]) {
        let (Some((name, inner)), Some(map)) = (names.split_first(), value.as_object_mut()) else { return };
        if let Some(held) = map.get_mut(*name).filter(|_| !inner.is_empty()) {
            remove(held, inner);
        }
        if inner.is_empty() || map.get(*name).is_some_and(|held| held.as_object().is_some_and(serde_json::Map::is_empty)) {
            map.remove(*name);
        }
    }
}
