//! Obsidian's behaviours, one row each. A remark says where a row is our choice because Obsidian's own answer is not known.

mod against;
mod hostile;
mod lookup;
mod structure;

use super::read;
use crate::note::{Link, LinkForm, Note, Part};

/// Reads a note and holds it to what every note keeps: ranges lie in the text, on character boundaries, in order.
fn sound(text: &str) -> Note {
    let note = read(text);
    let is_range = |range: &std::ops::Range<usize>| range.start <= range.end && text.get(range.clone()).is_some();
    assert!(is_range(&note.frontmatter.range));
    assert!(note.headings.iter().all(|heading| is_range(&heading.section)), "{text:?}");
    assert!(note.headings.is_sorted_by_key(|heading| heading.section.start), "{text:?}");
    assert!(note.blocks.iter().all(|block| is_range(&block.range)), "{text:?}: {:?}", note.blocks);
    assert!(note.links.iter().all(|link| is_range(&link.range)), "{text:?}");
    assert!(note.queries.iter().all(|query| is_range(&query.range)), "{text:?}");
    assert!(
        note.items.iter().enumerate().all(|(place, item)| item.parent.is_none_or(|parent| (parent as usize) < place)),
        "{text:?}"
    );
    assert!(
        note.items.iter().all(|item| item.heading.is_none_or(|heading| (heading as usize) < note.headings.len())),
        "{text:?}"
    );
    note
}

/// A link in one line: `!` for an embed, target, `#` steps, `^` block, `|` text; markdown links in parentheses.
fn show(link: &Link) -> String {
    let part = match &link.part {
        None => String::new(),
        Some(Part::Heading(steps)) => format!("#{}", steps.join("#")),
        Some(Part::Block(id)) => format!("#^{id}"),
    };
    let text = link.text.as_ref().map(|text| format!("|{text}")).unwrap_or_default();
    let mark = if link.embed { "!" } else { "" };
    let shown = format!("{mark}{}{part}{text}", link.target);
    if link.form == LinkForm::Markdown { format!("({shown})") } else { shown }
}

fn tags(text: &str, expect: &[&str]) {
    assert_eq!(sound(text).tags, expect, "{text:?}");
}

fn links(text: &str, expect: &[&str]) {
    assert_eq!(sound(text).links.iter().map(show).collect::<Vec<_>>(), expect, "{text:?}");
}

/// Fields of the page, `key=value`.
fn fields(text: &str, expect: &[&str]) {
    let note = sound(text);
    assert_eq!(note.fields.iter().map(|field| format!("{}={}", field.key, field.value)).collect::<Vec<_>>(), expect, "{text:?}");
}

#[test]
fn tags_in_text() {
    tags("#a", &["a"]);
    tags("text #a and #b.", &["a", "b"]);
    tags("#a/b/c #a-b #a_b", &["a/b/c", "a-b", "a_b"]);
    tags("#a, #b; (#c) [#d] \"#e\"", &["a", "b"]); // only blanks or the line's start before `#`
    tags("a#b x/#c", &[]);
    tags("#a#b", &["a", "b"]); // a tag may follow a tag
    tags("x#a#b", &[]);
    tags("#123 #2024-01 #y2024 #1a #12/3", &["2024-01", "y2024", "1a", "12/3"]); // not only digits
    tags("#Größe #日本語 #тег #a😀 #🌱", &["Größe", "日本語", "тег", "a😀", "🌱"]);
    tags("#a\u{2014}b #c\u{3002}", &["a", "c"]); // a dash and other punctuation end a tag
    tags("#a. #b: #c! #d* #e~ #f' #g&x #h+", &["a", "b", "c", "d", "e", "f", "g", "h"]);
    tags("#A #a #Ä #ä", &["A", "Ä"]); // case aside, each once
    tags("#a/ #a", &["a"]); // our choice: a slash at the end names nothing
    tags("# a\n## b #c", &["c"]);
    tags("#", &[]);
    tags("##a ###", &[]);
    tags("\\#a", &[]);
    tags("line\n#a\n\t#b", &["a", "b"]);
    tags("> #a\n> - #b", &["a", "b"]);
    tags("- #a\n  1. #b\n- [ ] #c", &["a", "b", "c"]);
    tags("| #a | b |\n|---|---|\n|#c| #d\\|#e |", &["a", "c", "d", "e"]); // a cell begins after its bar
    tags("**#a**", &[]);
    tags("**x #a**", &["a"]);
    tags("https://example.org/#a http://x.org/ #b", &["b"]);
    tags("[[#a]] [[n #b]] [x #c](y) [x](y#d)", &[]);
    tags("`#a` ``x #b``", &[]);
    tags("```\n#a\n```\n~~~\n#b\n~~~\n\n    #c\n", &[]);
    tags("$x #a$ $$ #b $$\n\n$$\n#c\n$$", &[]);
    tags("it costs $5 #a or $6", &["a"]);
    tags("<span title=\" #a\"> #b</span>", &["b"]);
    tags("<div>\n#a\n</div>\n\n#b", &["b"]);
    tags("<!-- #a --> #b\n\nx <!-- #c --> #d", &["d"]); // a line that begins with HTML is HTML
    tags("[^1] #a\n\n[^1]: #b", &["a", "b"]);
    tags("==x #a== ~~ #b~~", &["a", "b"]);
}

#[test]
fn tags_in_frontmatter() {
    tags("---\ntags: [a, b/c]\n---\n#d", &["a", "b/c", "d"]);
    tags("---\ntags:\n  - a\n  - '#b'\n---", &["a", "b"]);
    tags("---\ntags: a, b c\n---", &["a", "b", "c"]);
    tags("---\ntag: a\nTags: b\n---", &["b", "a"]);
    tags("---\ntags: \"#a #b\"\n---", &["a", "b"]);
    tags("---\ntags: [2024, y2024, true, null, [x]]\n---", &["y2024"]);
    tags("---\ntags: [A, a]\n---\n#a", &["A"]);
    tags("---\ntags: #a\n---", &[]); // a comment in YAML
    tags("---\ntags: [a\ntitle: x\n---\n", &[]); // `[a` cannot be a tag
    tags("---\ntags: a: b\n---\n#c", &["b", "c"]);
}

#[test]
fn comments() {
    // Obsidian has been seen both to index and to pass over what a comment holds; here it is passed over.
    tags("%% #a %% #b", &["b"]);
    tags("#a\n%%\n#b\n\n#c\n%%\n#d", &["a", "d"]);
    tags("%%\n#a\n%% #b", &["b"]);
    links("%% [[a]] %% [[b]]", &["b"]);
    tags("100%% #a", &["a"]); // never closed: text
    tags("%%\n#a", &["a"]);
    tags("`%%` #a %% #b %%", &["a"]);
    links("> %%\n> [[a]]\n> %%\n> [[b]]", &["b"]);
    links("- %%\n  [[a]]\n  %%\n- [[b]]", &["b"]);
    fields("%% a:: b %%", &["a=b"]); // Dataview looks into comments
    fields("%%\na:: b\n[c:: d]\n%%", &["a=b", "c=d"]);
}

#[test]
fn wiki_links() {
    links("[[a]] [[a b/c.md]]", &["a", "a b/c.md"]);
    links("[[a|b]] [[a|b|c]] [[ a | b ]]", &["a|b", "a|b|c", "a|b"]);
    links("[[a#h]] [[a#h#h2]] [[#h]] [[a#^b]] [[#^b]] [[a#h#^b]]", &["a#h", "a#h#h2", "#h", "a#^b", "#^b", "a#^b"]);
    links("[[a#h|x]]", &["a#h|x"]);
    links("[[a#]] [[a|]]", &["a", "a"]);
    links("[[]] [[ ]] [[|x]] [[#]]", &[]);
    links("[[a\nb]] [[c", &[]);
    links("[[a [[b]] c]]", &["b"]);
    links("[[a]b]] [[c]]]", &["a]b", "c"]);
    links("\\[[a]] \\![[b]]", &["b"]);
    links("[[C# notes]]", &["C#notes"]); // a heading, as in Obsidian
    links("[[50%25]]", &["50%25"]); // no percent signs in wiki links
    links("[[a\u{a0}b]]", &["a b"]);
    links("# [[a]]\n\n[[b]]\n===", &["a", "b"]);
    links("> [!note] [[a]]\n> [[b]]\n\n> - [[c]]", &["a", "b", "c"]);
    links("x[^1]\n\n[^1]: [[a]]\n    [[b]]", &["a", "b"]);
    links("inline^[see [[a]]]", &["a"]);
    links("| [[a\\|b]] | c |\n|---|---|\n| ![[d\\|300]] | [[e]] |", &["a|b", "!d|300", "e"]);
    links("**[[a]]** ==[[b]]== ~~[[c]]~~ *[[d]]*", &["a", "b", "c", "d"]);
    links("`[[a]]` ``[[b]] ` `` \\`[[c]]\\`", &["c"]);
    links("`unclosed [[a]]", &["a"]);
    links("```\n[[a]]\n```\n[[b]]", &["b"]);
    links("~~~~\n[[a]]\n~~~\n[[b]]\n~~~~\n[[c]]", &["c"]);
    links("    [[a]]\n\ntext\n    [[b]]", &["b"]); // indented code, but not below a paragraph
    links("- a\n\n      [[x]]\n\n    [[y]]", &["y"]);
    links("$[[a]]$ $$[[b]]$$", &[]);
    links("<div>[[a]]</div>\n\n<b>[[c]]</b> [[d]]", &["c", "d"]);
    links("[[a$]] [[b$]]", &["a$", "b$"]); // what begins first wins
}

#[test]
fn links_in_frontmatter() {
    links("---\nup: \"[[a|b]]\"\n---\n[[c]]", &["a|b", "c"]);
    links("---\nup:\n  - \"[[a]]\"\n  - '[[b#h]]'\n---", &["a", "b#h"]);
    links("---\nup: {x: \"[[a]]\"}\n---", &["a"]);
    links("---\nup: [[a]]\n---", &[]); // a list in a list, for YAML and Obsidian
    links("---\nup: \"see [[a]]\"\n---", &[]); // only a value that is a link as a whole
    links("---\nup: \"[[a]] [[b]]\"\n---", &[]);
    let text = "---\na: 1\nup: \"[[é]]\"\n---\n";
    assert_eq!(&text[sound(text).links[0].range.clone()], "[[é]]");
    let text = "---\nup: \"[[\\u0061]]\"\n---\n";
    assert_eq!(&text[sound(text).links[0].range.clone()], text); // written with escapes: somewhere in there
}

#[test]
fn markdown_links() {
    links("[x](a.md) [x](a%20b.md) [x](<a b.md>)", &["(a.md|x)", "(a b.md|x)", "(a b.md|x)"]);
    links("[x](a b.md)", &[]);
    links("[x](a.md \"t\") [x](a.md 't') [x](a.md (t)) [x]( a.md )", &["(a.md|x)", "(a.md|x)", "(a.md|x)", "(a.md|x)"]);
    links(
        "[x](note.md#heading) [x](note.md#a%20b#c) [x](#h) [x](n#^b)",
        &["(note.md#heading|x)", "(note.md#a b#c|x)", "(#h|x)", "(n#^b|x)"],
    );
    links("[x](a(b).md) [x](a\\)b) [x](a(b)", &["(a(b).md|x)", "(a)b|x)"]);
    links("[](a) [x]() [x]", &["(a)"]);
    links("[**x** `]`](a)", &["(a|**x** `]`)"]);
    links("[a [b](c) d](e)", &["(c|b)"]); // no link in a link
    links("[![a](b.png)](c)", &["(c|![a](b.png))", "(!b.png|a)"]);
    links("[[a]](b)", &["a"]);
    links("[x](a%zz) [x](%FF)", &["(a%zz|x)", "(%FF|x)"]);
    links("[x](https://a.org/b#c?d=%20) [m](mailto:a@b.c)", &["(https://a.org/b#c?d=%20|x)", "(mailto:a@b.c|m)"]);
    links("[x](obsidian://open?vault=a)", &["(obsidian://open?vault=a|x)"]);
    links("`[x](a)` \\[x](a)", &[]);
    links("[a\nb](c)", &["(c|a\nb)"]);
    links("[x] (a)", &[]);
    links("[x]: a", &[]);
    links("[x][r] [r][] [r] [R ] [n]\n\n[r]: a%20b.md \"t\"\n[r]: c", &["(a b.md|x)", "(a b.md|r)", "(a b.md|r)", "(a b.md|R)"]);
    links("[x][r]\n\n> [r]: <a b>", &["(a b|x)"]);
    links("![x][r]\n\n[r]: a.png", &["(!a.png|x)"]);
    links("[^1] [^1]: x\n\n[^1]: y", &[]);
    links("- [ ] x\n- [x] y\n\n[x]: a", &[]); // a box is not a link
}

#[test]
fn addresses() {
    links("<https://a.org/b> https://a.org/b#c.", &["(https://a.org/b)", "(https://a.org/b#c)"]);
    links(
        "(https://a.org/b) https://a.org/b_(c), https://a.org/x_",
        &["(https://a.org/b)", "(https://a.org/b_(c))", "(https://a.org/x)"],
    );
    links("xhttps://a.org https:// http", &[]);
    links("HTTPS://A.org", &["(HTTPS://A.org)"]);
    links("<mailto:a@b.c> <a@b.c> <x:y z>", &["(mailto:a@b.c)"]);
    links("[see https://a.org](b)", &["(b|see https://a.org)"]);
    links("| https://a.org | b |\n|--|--|", &["(https://a.org)"]);
    links("`https://a.org`", &[]);
    links("<a href=\"https://a.org\">x</a>", &[]);
    links("<https://a.org>\n\n[[b]]", &["(https://a.org)", "b"]);
}

#[test]
fn embeds_and_images() {
    links("![[a]] ![[a#h]] ![[a#^b]]", &["!a", "!a#h", "!a#^b"]);
    links("![[i.png|300]] ![[i.png|alt|100x200]]", &["!i.png|300", "!i.png|alt|100x200"]);
    links("![a](b.png) ![](b%20c.png) ![a|300](b.png)", &["(!b.png|a)", "(!b c.png)", "(!b.png|a|300)"]);
    links("![a](https://a.org/b.png)", &["(!https://a.org/b.png|a)"]);
    links("![a](data:image/png;base64,iVBOR+/=)", &["(!data:image/png;base64,iVBOR+/=|a)"]);
    links("![[a]]\n- ![[b]]\n  > ![[c]]", &["!a", "!b", "!c"]);
    links("! [[a]] !![[b]]", &["a", "!b"]);
    links("`![[a]]`", &[]);
    let text = "é ![[a]] > x\n> ![b](c)";
    let ranges: Vec<_> = sound(text).links.iter().map(|link| &text[link.range.clone()]).collect();
    assert_eq!(ranges, ["![[a]]", "![b](c)"]);
}

#[test]
fn aliases() {
    fn check(yaml: &str, expect: &[&str]) {
        assert_eq!(sound(&format!("---\n{yaml}\n---\n")).aliases, expect, "{yaml}");
    }
    check("aliases: [a b, c]", &["a b", "c"]);
    check("aliases:\n  - a, b\n  - 12", &["a, b", "12"]);
    check("aliases: a b, c", &["a b", "c"]);
    check("alias: a\naliases: [b]", &["b", "a"]);
    check("Aliases: a", &["a"]);
    check("aliases:", &[]);
}

#[test]
fn inline_fields() {
    fields("a:: b", &["a=b"]);
    fields("a::b\nc::", &["a=b", "c="]);
    fields("a b:: c [[d]], e", &["a b=c [[d]], e"]);
    fields("**a**:: b\n_c_:: d\n**e f:** g", &["a=b", "_c=d"]); // Dataview keeps the first `_`: it may begin a key
    fields("🌱 a:: b\na🌱:: c", &["a=b", "a🌱=c"]);
    fields("größe/ä-1:: 2", &["größe/ä-1=2"]);
    fields("x [a:: b] y (c:: d) z", &["a=b", "c=d"]);
    fields("[a:: b] e:: f", &["a=b"]); // brackets first
    fields("[a:: [[b]]] [c:: [x](y)] (d:: (e) f)", &["a=[[b]]", "c=[x](y)", "d=(e) f"]);
    fields("[a:: b::c]", &["a=b::c"]);
    fields("[a:: (b:: c)]", &["a=(b:: c)", "b=c"]);
    fields("[a:: [b:: c]]", &["a=[b:: c]"]);
    fields("[a:: b\\] c]", &["a=b\\] c"]);
    fields("[**a**:: b] [:: c]", &["a=b"]);
    fields("[x] a [b:: c", &[]);
    fields("std::vec is a type, std::map too", &["std=vec is a type, std::map too"]); // as Dataview does
    fields("see: std::vec", &[]);
    fields("`a:: b`\n`std::vec` x\n`[a:: b]`", &[]);
    fields("```\na:: b\n```\n\n    a:: b\n\n$$\na:: b\n$$", &[]);
    fields("[[a::b]] [x](y::z) <https://a::b>", &[]);
    fields("# a:: b\n> c:: d\n> [!note] e:: f\n> [g:: h]", &["a=b", "c=d", "g=h"]);
    fields("| [a:: b] | c |\n|---|---|\n| d | (e:: f) |", &["a=b", "e=f"]);
    fields("- a:: b\n- [ ] c:: d", &[]); // those of items belong to them
    let text = format!("{}:: b", "a".repeat(40_000));
    fields(&text, &[]);
    let note = sound("---\nx: 1\n---\n\na:: b\nc:: d");
    assert_eq!(note.fields.iter().map(|field| field.line).collect::<Vec<_>>(), [5, 6]);
}
