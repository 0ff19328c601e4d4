//! Headings, list items, tasks, block ids, query blocks.

use super::sound;

/// Headings: level, text.
fn headings(text: &str, expect: &[(u8, &str)]) {
    let note = sound(text);
    assert_eq!(
        note.headings.iter().map(|heading| (heading.level, heading.text.as_str())).collect::<Vec<_>>(),
        expect,
        "{text:?}"
    );
}

/// Items: depth by dots, status in brackets, text, then fields, tags and block id.
fn items(text: &str, expect: &[&str]) {
    let note = sound(text);
    let mut depths: Vec<usize> = Vec::new();
    let shown = note.items.iter().map(|item| {
        let depth = item.parent.map_or(0, |parent| depths[parent as usize] + 1);
        depths.push(depth);
        let status = item.status.map(|status| format!("[{status}] ")).unwrap_or_default();
        let fields = item.fields.iter().map(|field| format!(" {{{}={}}}", field.key, field.value)).collect::<Vec<_>>().concat();
        let tags = item.tags.iter().map(|tag| format!(" <{tag}>")).collect::<Vec<_>>().concat();
        let block = item.block.as_ref().map(|id| format!(" ^{id}")).unwrap_or_default();
        format!("{}{status}{}{fields}{tags}{block}", ".".repeat(depth), item.text)
    });
    assert_eq!(shown.collect::<Vec<_>>(), expect, "{text:?}");
}

/// Blocks: id, text.
fn blocks(text: &str, expect: &[(&str, &str)]) {
    let note = sound(text);
    assert_eq!(
        note.blocks.iter().map(|block| (block.id.as_str(), &text[block.range.clone()])).collect::<Vec<_>>(),
        expect,
        "{text:?}"
    );
}

fn queries(text: &str, expect: &[&str]) {
    assert_eq!(sound(text).queries.iter().map(|query| query.text.as_str()).collect::<Vec<_>>(), expect, "{text:?}");
}

#[test]
fn heading_forms() {
    headings("# a\n## b\n###### c\n####### d", &[(1, "a"), (2, "b"), (6, "c")]);
    headings("#a\n#\n# ", &[(1, ""), (1, "")]);
    headings("# a #\n## b ##   \n# c#\n# d \\#\n#\te", &[(1, "a"), (2, "b"), (1, "c#"), (1, "d #"), (1, "e")]);
    headings("a\n===\nb\nc\n---\n\n---\n", &[(1, "a"), (2, "b c")]);
    headings("   # a\n    # b", &[(1, "a")]); // four spaces below a heading: code
    headings("text\n# a", &[(1, "a")]);
    headings("```\n# a\n```\n%%\n# b\n%%\n<!--\n# c\n-->\n$$\n# d\n$$\n", &[]);
    headings("> # a\n\n- # b\n", &[]); // Obsidian's outline knows only headings outside of containers
    headings("---\na: 1\n---\n# b", &[(1, "b")]);
    headings("a | b\n---|---\nc | d", &[]);
    headings("- a\n---\nb", &[]);
    headings("> a\n---", &[]);
    headings("[x]: y\n# a", &[(1, "a")]);
}

#[test]
fn heading_text() {
    headings("# **a** *b* __c__ _d_ ~~e~~ ==f==", &[(1, "a b c d e f")]);
    headings("# `a_b*c*` and snake_case_name", &[(1, "a_b*c* and snake_case_name")]);
    headings("# [[a]] [[b|c]] [[d#e]] [f](g) ![[h]]", &[(1, "a c d > e f h")]);
    headings("# a %%b%% <b>c</b> $x_1$", &[(1, "a c $x_1$")]);
    headings("# 2 * 3 \\*d\\* #tag", &[(1, "2 * 3 *d* #tag")]);
    headings("# a ^id", &[(1, "a")]);
}

#[test]
fn sections() {
    fn check(text: &str, expect: &[&str]) {
        assert_eq!(
            sound(text).headings.iter().map(|heading| &text[heading.section.clone()]).collect::<Vec<_>>(),
            expect,
            "{text:?}"
        );
    }
    check("x\n# a\n1\n## b\n2\n# c\n3", &["# a\n1\n## b\n2\n", "## b\n2\n", "# c\n3"]);
    check("### a\n# b\n## c\n", &["### a\n", "# b\n## c\n", "## c\n"]);
    check("a\n=\nb\n\nc\n-\n", &["a\n=\nb\n\nc\n-\n", "c\n-\n"]);
    let note = sound("---\na: 1\n---\n\n# a\n\n\n# b");
    assert_eq!(note.headings.iter().map(|heading| heading.line).collect::<Vec<_>>(), [5, 8]);
}

#[test]
fn list_items() {
    items("- a\n* b\n+ c\n1. d\n2) e", &["a", "b", "c", "d", "e"]);
    items("- a\n  - b\n    - c\n- d", &["a", ".b", "..c", "d"]);
    items("- a\n\t- b\n\t\t- c\n\t- d", &["a", ".b", "..c", ".d"]);
    items("1. a\n   - b\n   - c\n2. d", &["a", ".b", ".c", "d"]);
    items("- a\n  more\nlazy\n\n  para\n- b", &["a\nmore\nlazy\npara", "b"]);
    items("- a\n  ```\n  - x\n  ```\n- b", &["a", "b"]);
    items("-\n- \n-a\n1.a", &["", ""]);
    items("text\n- a\n\ntext\n2. b\n\ntext\n1. c", &["a", "c"]); // only 1 interrupts a paragraph
    items("> - a\n>   - b\n\n> [!todo]\n> - [ ] c", &["a", ".b", "[ ] c"]);
    items("- > - a", &["", ".a"]);
    items("- - a", &["", ".a"]);
    items("* * *\n- - -", &[]);
    items("```\n- a\n```\n%%\n- b\n%%", &[]);
    items("- a #t #u ^x1", &["a #t #u <t> <u> ^x1"]);
    items(
        "- a:: b\n- x [c:: d] (e:: f)\n- **g**:: h\n  i",
        &["a:: b {a=b}", "x [c:: d] (e:: f) {c=d} {e=f}", "**g**:: h\ni {g=h i}"],
    );
    items("- `a:: b`", &["`a:: b`"]);
}

#[test]
fn tasks() {
    items("- [ ] a\n* [x] b\n1. [/] c\n+ [-] d\n2) [X] e", &["[ ] a", "[x] b", "[/] c", "[-] d", "[X] e"]);
    items("- [?] a\n- [😀] b\n- [é] c\n- [ ]", &["[?] a", "[😀] b", "[é] c", "[ ] "]);
    items("- []\n- [xx] a\n- [x]a\n- [a](b)\n- [[a]]\n-[ ] b", &["[]", "[xx] a", "[x]a", "[a](b)", "[[a]]\n-[ ] b"]);
    items("- [ ] a\n  - [x] b\n    - c\n      - [ ] d", &["[ ] a", ".[x] b", "..c", "...[ ] d"]);
    items("> [!todo] t\n> - [ ] a\n>   - [x] b", &["[ ] a", ".[x] b"]);
    items("- [ ]   a\n      b", &["[ ] a\nb"]);
    items("- [ ] a:: b [c:: d]\n- [ ] e:: f", &["[ ] a:: b [c:: d] {c=d}", "[ ] e:: f"]); // no whole-line fields in tasks
    items(
        "- [ ] a 📅 2024-01-31 ⏳2024-02-01 ✅ 2024-99",
        &["[ ] a 📅 2024-01-31 ⏳2024-02-01 ✅ 2024-99 {due=2024-01-31} {scheduled=2024-02-01}"],
    );
    items("- [ ] a 🗓️ 2024-01-31", &["[ ] a 🗓️ 2024-01-31 {due=2024-01-31}"]);
    let note = sound("# a\n- [ ] b\n\n# c\n\n- [ ] d");
    assert_eq!(note.items.iter().map(|item| (item.line, item.heading)).collect::<Vec<_>>(), [(2, Some(0)), (6, Some(1))]);
    assert_eq!(sound("- a\n# b").items[0].heading, None);
}

#[test]
fn block_ids() {
    blocks("text ^a1\n\nmore\ntext ^b-2", &[("a1", "text"), ("b-2", "more\ntext")]);
    blocks("text^a\n\nx ^a_b\n\n^a b\n\nx ^\n\nx ^é", &[]);
    blocks("text\n^a", &[("a", "text")]);
    blocks("> a <b> ^c", &[("c", "> a <b>")]);
    blocks("- x ^a\n- y\n  - z ^b\n  - w\n- v ^c\n  - u", &[("a", "- x"), ("b", "- z"), ("c", "- v ^c\n  - u")]);
    blocks("- x\n- y\n\n^a", &[("a", "- x\n- y")]);
    blocks("> x\n> y\n\n^a", &[("a", "> x\n> y")]);
    blocks("> x\n> y ^a", &[("a", "> x\n> y")]);
    blocks("> x ^a\n>\n> y", &[("a", "x")]);
    blocks("> [!note] t\n> x\n> ^a", &[("a", "> [!note] t\n> x")]);
    blocks("| x | y |\n|---|---|\n| 1 | 2 |\n\n^a", &[("a", "| x | y |\n|---|---|\n| 1 | 2 |")]);
    blocks("| x | y |\n|---|---|\n| 1 | 2 |\n^a", &[("a", "| x | y |\n|---|---|\n| 1 | 2 |")]);
    blocks("```\nx\n```\n^a", &[("a", "```\nx\n```")]);
    blocks("$$\nx\n$$\n^a", &[("a", "$$\nx\n$$")]);
    blocks("# x ^a", &[("a", "# x")]);
    blocks("`x ^a`\n\n```\nx ^b\n```\n\n$x ^c$", &[]);
    blocks("^a", &[]);
    blocks("p\n\n- x\n\n  ^a", &[("a", "x")]);
}

#[test]
fn query_blocks() {
    queries("```dataview\nLIST\nFROM #a\n```", &["LIST\nFROM #a"]);
    queries("~~~dataview\nLIST\n~~~\n\n````Dataview x\nTABLE\n```\n````", &["LIST", "TABLE\n```"]);
    queries("> ```dataview\n> LIST\n> ```\n\n- x\n  ```dataview\n  TASK\n    WHERE x\n  ```", &["LIST", "TASK\n  WHERE x"]);
    queries("```dataview\nLIST", &["LIST"]); // the end of the note closes it
    queries("```dataviewjs\ndv.list()\n```\n`= this.a`\n```\ndataview\n```", &["dv.list()"]);
    queries("```dataviews\nLIST\n```", &[]);
    queries("````\n```dataview\nLIST\n```\n````", &[]);
    queries("```dataview\n```", &[""]);
    let text = "a\n> ```dataview\n> LIST\n> ```\nb";
    assert_eq!(&text[sound(text).queries[0].range.clone()], "```dataview\n> LIST\n> ```");
}
