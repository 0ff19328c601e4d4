#![allow(clippy::needless_pass_by_value)] // a table of cases reads better without ampersands

use super::*;
use proptest::prelude::*;
use serde_json::json;

#[track_caller]
fn check_at(schema: Value, arguments: Value, expect: &str) {
    let found = check(&schema, &arguments).err().map(|misfits| misfits.to_string()).unwrap_or_default();
    assert_eq!(found, expect, "{schema} {arguments}");
}

/// One property `x`.
#[track_caller]
fn check_x(schema: Value, value: Value, expect: &str) {
    check_at(json!({"type": "object", "properties": {"x": schema}}), json!({"x": value}), expect);
}

#[test]
fn kinds() {
    check_x(json!({"type": "string"}), json!("a"), "");
    check_x(json!({"type": "integer"}), json!("ten"), r#"/x: found the string "ten", expected an integer"#);
    check_x(json!({"type": "integer"}), json!(1.0), "");
    check_x(json!({"type": "integer"}), json!(1.5), "/x: found the number 1.5, expected an integer");
    check_x(json!({"type": ["string", "null"]}), json!(null), "");
    check_x(json!({"type": ["string", "null"]}), json!(true), "/x: found true, expected a string or null");
    check_x(json!({"type": "string", "nullable": true}), json!(null), "");
    check_x(json!({"type": "object"}), json!([1, 2]), "/x: found an array of 2, expected an object");
    check_x(json!({"type": "array"}), json!({"a": 1}), r#"/x: found an object with "a", expected an array"#);
    check_x(json!({"enum": ["slow", "safe", 3]}), json!("fast"), r#"/x: found the string "fast", allowed are "slow", "safe", 3"#);
    check_x(json!({"enum": [1]}), json!(1.0), "");
    check_x(json!({"const": "a"}), json!("b"), r#"/x: found the string "b", allowed are "a""#);
    check_x(json!(false), json!(1), "/x: nothing is allowed here");
    check_x(json!(true), json!(1), "");
    check_x(json!({"type": "quaternion"}), json!(1), "");
}

#[test]
fn objects() {
    let note = json!({
        "type": "object",
        "properties": {"path": {"type": "string"}, "line": {"type": "integer"}},
        "required": ["path", "line"],
        "additionalProperties": false,
    });
    check_at(note.clone(), json!({"path": "a", "line": 1}), "");
    check_at(note.clone(), json!({}), r#"arguments: required and missing: "path", "line""#);
    check_at(
        note.clone(),
        json!({"path": "a", "line": 1, "lines": 2}),
        r#"/lines: there is no such property; allowed are "line", "path""#,
    );
    check_at(note, json!([1]), "arguments: found an array of 1, expected an object");
    check_at(json!({}), json!("x"), r#"arguments: found the string "x", expected an object"#);
    check_x(
        json!({"additionalProperties": {"type": "string"}}),
        json!({"a/b": 1}),
        "/x/a~1b: found the number 1, expected a string",
    );
    check_x(json!({"patternProperties": {"^n": {"type": "number"}}, "additionalProperties": false}), json!({"n1": 2}), "");
    check_x(
        json!({"patternProperties": {"^n": {"type": "number"}}}),
        json!({"n1": "2"}),
        r#"/x/n1: found the string "2", expected a number"#,
    );
    check_x(json!({"propertyNames": {"maxLength": 2}}), json!({"abc": 1}), "/x/abc: found 3 characters, expected at most 2");
    check_x(json!({"minProperties": 1}), json!({}), "/x: found 0 properties, expected at least 1");
    check_x(json!({"dependentRequired": {"a": ["b"]}}), json!({"a": 1}), r#"/x: required beside "a" and missing: "b""#);
    check_x(json!({"dependentSchemas": {"a": {"required": ["b"]}}}), json!({"a": 1}), r#"/x: required and missing: "b""#);
}

#[test]
fn arrays() {
    check_x(json!({"items": {"type": "string"}}), json!(["a", 1]), "/x/1: found the number 1, expected a string");
    check_x(json!({"prefixItems": [{"type": "string"}], "items": false}), json!(["a", 1]), "/x/1: nothing is allowed here");
    check_x(
        json!({"items": [{"type": "string"}], "additionalItems": {"type": "null"}}),
        json!(["a", 1]),
        "/x/1: found the number 1, expected null",
    );
    check_x(json!({"minItems": 2}), json!([1]), "/x: found 1 elements, expected at least 2");
    check_x(
        json!({"uniqueItems": true}),
        json!([{"a": 1}, 2, {"a": 1}]),
        "/x/2: stands there twice; each element may stand there once",
    );
    check_x(json!({"contains": {"type": "null"}}), json!([1, null]), "");
    check_x(json!({"contains": {"type": "null"}}), json!([1]), "/x: has no element of the kind it must contain");
}

#[test]
fn strings_and_numbers() {
    check_x(json!({"minLength": 2}), json!("é"), "/x: found 1 characters, expected at least 2");
    check_x(json!({"pattern": "^[a-z]+$"}), json!("A"), r#"/x: the string "A" does not match the pattern ^[a-z]+$"#);
    check_x(json!({"pattern": "(?=a)b"}), json!("A"), "");
    check_x(json!({"minimum": 1, "maximum": 5}), json!(0), "/x: found 0, expected at least 1");
    check_x(json!({"minimum": 1, "maximum": 5}), json!(5.5), "/x: found 5.5, expected at most 5");
    check_x(json!({"exclusiveMinimum": 0}), json!(0), "/x: found 0, expected more than 0");
    check_x(json!({"minimum": 0, "exclusiveMinimum": true}), json!(0), "/x: found 0, expected more than 0");
    check_x(json!({"multipleOf": 0.1}), json!(0.3), "");
    check_x(json!({"multipleOf": 5}), json!(7), "/x: found 7, expected a multiple of 5");
}

#[test]
fn combinations() {
    let either = json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]});
    check_x(either.clone(), json!(["a"]), "");
    check_x(
        either,
        json!([1]),
        "/x: fits none of 2 alternatives: (/x: found an array of 1, expected a string), (/x/0: found the number 1, expected a string)",
    );
    check_x(
        json!({"oneOf": [{"minimum": 1}, {"minimum": 2}]}),
        json!(3),
        "/x: fits 2 of 2 alternatives, and exactly one is allowed",
    );
    check_x(json!({"allOf": [{"minimum": 1}, {"maximum": 2}]}), json!(3), "/x: found 3, expected at most 2");
    check_x(json!({"not": {"const": "a"}}), json!("a"), r#"/x: the string "a" is not allowed here"#);
    let when = json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}});
    check_x(when.clone(), json!({"a": 1}), r#"/x: required and missing: "b""#);
    check_x(when, json!({}), r#"/x: required and missing: "c""#);
}

#[test]
fn references_stay_inside() {
    let tree = json!({
        "properties": {"tree": {"$ref": "#/$defs/No%20de"}},
        "$defs": {"No de": {"type": "object", "properties": {"left": {"$ref": "#/$defs/No%20de"}, "value": {"type": "integer"}}}},
    });
    check_at(tree.clone(), json!({"tree": {"left": {"left": {"value": 1}}}}), "");
    check_at(tree, json!({"tree": {"left": {"value": "1"}}}), r#"/tree/left/value: found the string "1", expected an integer"#);
    check_x(json!({"$ref": "https://a.example/schema.json"}), json!(1), "");
    check_x(json!({"$ref": "#/nowhere"}), json!(1), "");
    check_x(json!({"$ref": "#/%zz"}), json!(1), "");
}

#[test]
fn hostile_schemas_end() {
    check_at(json!({"$ref": "#"}), json!({}), "arguments: too large or too deep to be checked; send less");
    // Each level tries the next one twice.
    let bomb = json!({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"});
    assert!(check(&bomb, &json!({})).is_err());
    let many: Vec<_> = (0..1000).map(|n| json!({"const": n})).collect();
    let told = check(&json!({"properties": {"x": {"anyOf": many}}}), &json!({"x": "y".repeat(10_000)})).unwrap_err().to_string();
    assert!(told.len() < 10_000, "{}", told.len());
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z~/%#]{0,4}".prop_map(Value::from),
        prop::sample::select(vec!["string", "object", "array", "integer", "#", "#/x", "^a"]).prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "type",
        "properties",
        "required",
        "items",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "if",
        "then",
        "$ref",
        "enum",
        "pattern",
        "minimum",
        "multipleOf",
        "minItems",
        "uniqueItems",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "x",
        "contains",
    ]);
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((keys.clone(), inner), 0..5).prop_map(|entries| entries
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

proptest! {
    #[test]
    fn any_schema_and_any_arguments_give_an_answer(schema in any_json(), arguments in any_json()) {
        if let Err(misfits) = check(&schema, &arguments) {
            prop_assert!(!misfits.0.is_empty() && misfits.0.len() <= MAX_MISFITS);
        }
    }
}
