use serde_json::{Value, json};

use super::read;

/// Reads `---`, the lines, `---` and compares the keys with their values, in order, and the line of the fault.
fn check(yaml: &str, expect: &Value, fault_line: Option<u32>) {
    let text = format!("---\n{yaml}\n---\nbody");
    let read = read(&text);
    assert_eq!(read.range, 0..text.len() - "body".len(), "{yaml}");
    let fields: Value = read.fields.iter().map(|(key, value)| json!([key, value])).collect();
    assert_eq!(fields, *expect, "{yaml}");
    match (fault_line, &read.fault) {
        (None, None) => {}
        (Some(line), Some(fault)) => assert!(line == 0 || fault.starts_with(&format!("line {line} ")), "{yaml}: {fault}"),
        (expected, found) => panic!("{yaml}: expected a fault in {expected:?}, found {found:?}"),
    }
}

#[test]
fn where_it_stands() {
    fn check(text: &str, end: usize) {
        assert_eq!(read(text).range, 0..end, "{text:?}");
    }
    check("---\na: 1\n---\nbody", 13);
    check("---\na: 1\n---", 12); // the end of the file closes the line
    check("---\n---\n", 8);
    check("---\n\n---\n", 9);
    check("---  \na: 1\n--- \n", 16); // spaces after the dashes
    check("", 0);
    check("\n---\na: 1\n---\n", 0); // not at the very start
    check(" ---\na: 1\n---\n", 0);
    check("---\na: 1\n", 0); // never closed: a rule and text
    check("---\na: 1\n...\n", 0); // Obsidian wants dashes
    check("----\na: 1\n----\n", 0);
    check("---\na: |\n  ---\n---\n", 19); // an indented line does not close
    check("--- a\n---\n", 0);
}

#[test]
fn values() {
    check("", &json!([]), None);
    check("# only a comment", &json!([]), None);
    check("a: 1\nb: -2\nc: 1.5", &json!([["a", 1], ["b", -2], ["c", 1.5]]), None);
    check("z: 1\na: 2", &json!([["z", 1], ["a", 2]]), None); // in the order written
    check("a: true\nb: false", &json!([["a", true], ["b", false]]), None);
    check("a: no\nb: yes\nc: on\nd: off", &json!([["a", "no"], ["b", "yes"], ["c", "on"], ["d", "off"]]), None);
    check("a:\nb: ~\nc: null", &json!([["a", null], ["b", null], ["c", null]]), None);
    check("a: 2024-01-31\nb: 2024-01-31T10:00", &json!([["a", "2024-01-31"], ["b", "2024-01-31T10:00"]]), None);
    check("a: 10:30", &json!([["a", "10:30"]]), None); // not base 60
    check("a: 007\nb: [010, 1]\nc: 0", &json!([["a", "007"], ["b", ["010", 1]], ["c", 0]]), None);
    check("a: 0.5\nb: 00.5", &json!([["a", 0.5], ["b", 0.5]]), None);
    check("a: 123456789012345678901234567890", &json!([["a", "123456789012345678901234567890"]]), None);
    check("a: 18446744073709551615", &json!([["a", u64::MAX]]), None);
    check("a: [x, y]\nb:\n  - x\n  - y\nc:\n- x", &json!([["a", ["x", "y"]], ["b", ["x", "y"]], ["c", ["x"]]]), None);
    check("a: {b: {c: 1}}", &json!([["a", {"b": {"c": 1}}]]), None);
    check("a: |\n  one\n  two\nb: >-\n  one\n  two", &json!([["a", "one\ntwo\n"], ["b", "one two"]]), None);
    check("a: \"[[Note]]\"", &json!([["a", "[[Note]]"]]), None);
    check("a: [[Note]]", &json!([["a", [["Note"]]]]), None); // as YAML has it; Obsidian asks for quotes
    check("a: https://example.org/#x", &json!([["a", "https://example.org/#x"]]), None);
    check("a: x # comment", &json!([["a", "x"]]), None);
    check("'a b': 1\n\"c\": 2\n3: 4", &json!([["a b", 1], ["c", 2], ["3", 4]]), None);
    check("a: 1\nb: 2\na: 3", &json!([["a", 3], ["b", 2]]), None); // the last one counts
    check("a: &x [1]\nb: *x", &json!([["a", [1]], ["b", [1]]]), None);
    check("ключ: значение\n键: 值\n🌱: 🌳", &json!([["ключ", "значение"], ["键", "值"], ["🌱", "🌳"]]), None);
}

#[test]
fn broken_yaml_is_saved_key_by_key() {
    check("title: Plan: v2\ntags: [a, b]", &json!([["title", "Plan: v2"], ["tags", ["a", "b"]]]), Some(2));
    check("a: 1\nby: @me", &json!([["a", 1], ["by", "@me"]]), Some(3));
    check("a: \"open\nb: 2", &json!([["a", "\"open"], ["b", 2]]), Some(0));
    check("a: it's 'so'\nb: 'it's'", &json!([["a", "it's 'so'"], ["b", "it's"]]), Some(0));
    check("title: {{title}}\nn: 3", &json!([["title", "{{title}}"], ["n", 3]]), Some(0)); // a template not filled in
    check("date: <% tp.date.now() %>\na: 1", &json!([["date", "<% tp.date.now() %>"], ["a", 1]]), None); // valid YAML, as it happens
    check("a:\n\t- x\n\t- y\nb: 1", &json!([["a", ["x", "y"]], ["b", 1]]), Some(0));
    check("a: [x, y\nb: 1", &json!([["a", "[x, y"], ["b", 1]]), Some(0));
    check("a: 1\n  b: 2\nc: 3", &json!([["a", "1"], ["c", 3]]), Some(0));
    check("a: *gone\nb: 1", &json!([["a", "*gone"], ["b", 1]]), Some(0));
    check("a: `x`", &json!([["a", "`x`"]]), Some(0));
    check("a: 100%\nb: %x", &json!([["a", "100%"], ["b", "%x"]]), Some(0));
    check("just text", &json!([]), Some(0));
    check("- a\n- b", &json!([]), Some(0));
    check("a: 1\n---x\nb: 2", &json!([["a", "1"], ["b", 2]]), Some(0));
}

#[test]
fn the_deepest_yaml_fits_half_a_usual_stack() {
    let deep = |levels: usize| format!("---\na: {}x{}\n---\n", "[".repeat(levels), "]".repeat(levels));
    let reading = move || {
        let fits = read(&deep(super::MAX_DEPTH - 2));
        assert_eq!((fits.fields.len(), fits.fault), (1, None));
        assert!(read(&deep(super::MAX_DEPTH + 1)).fault.is_some());
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(reading).unwrap().join().unwrap();
}

#[test]
fn hostile_yaml_is_bounded() {
    let bomb = (1..12).fold("a0: &a0 [x, x, x, x, x, x, x, x, x, x]".to_owned(), |yaml, n| {
        let refs = vec![format!("*a{}", n - 1); 10].join(", ");
        format!("{yaml}\na{n}: &a{n} [{refs}]")
    });
    let nested = [
        "a: ".to_owned() + &"[".repeat(100_000),
        "a: ".to_owned() + &"{a: ".repeat(50_000),
        "- ".repeat(50_000),
        "? ".repeat(50_000),
    ];
    let long =
        ["a: 1\n".repeat(100_000), "a:\n".repeat(40_000), "é\n".repeat(50_000), "a: \"".to_owned() + &"\\u0041".repeat(40_000)];
    let deep = (0..400).map(|n| " ".repeat(n) + "a:\n").collect::<String>();
    for yaml in nested.iter().chain(&long).chain([&bomb, &deep]) {
        let started = std::time::Instant::now();
        let read = read(&format!("---\n{yaml}\n---\n"));
        assert!(started.elapsed().as_secs() < 5, "{} took {:?}", &yaml[..20.min(yaml.len())], started.elapsed());
        assert!(read.fields.len() <= super::SAVED_KEYS, "{} keys", read.fields.len());
    }
}
