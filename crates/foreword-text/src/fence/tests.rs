//! What the fence lets through, and what not.

use super::*;
use proptest::prelude::*;

fn fence() -> Fence {
    let mut fence = Fence::new();
    fence.know_tool("Find");
    fence.know_tool("mcp.Read-File");
    fence
}

#[test]
fn tables_are_sorted_for_the_binary_search() {
    assert!(STRUCTURE.is_sorted() && BUILT_IN.is_sorted() && SPEAKERS.is_sorted());
    let tables = [&STRUCTURE[..], &BUILT_IN, &SPEAKERS];
    assert!(tables.concat().iter().all(|name| *name == name.to_ascii_lowercase()));
}

#[test]
fn escapes_known_tags_and_engine_lines_alone() {
    fn check(text: &str, expect: &str) {
        let mut fence = fence();
        assert_eq!(fence.escape(text), expect, "{text:?}");
        assert_eq!(fence.unescape(expect), text, "{expect:?}");
    }
    for same in [
        "",
        "plain",
        "Vec<String> and a < b && c > d",
        "<div class=\"x\"></div><titles/><note_context_2><title-page>",
        "R&D &amp; &lt;b&gt; &lt;div",
        "note_context>",
        "<",
        "</",
        "say [User query]: here",
        "# Additional",
        "\\[a]",
        "+ [Step 1]",
        "< a title",
        "<_title>",
        "<1title>",
    ] {
        check(same, same);
    }
    check("<note_context>", "&lt;note_context>");
    check("</Note_Context >", "&lt;/Note_Context >");
    check("<title>x</title>", "&lt;title>x&lt;/title>");
    check("< \n/\t content", "&lt; \n/\t content");
    check("<\u{200b}/\u{feff}rule\u{2060}>", "&lt;\u{200b}/\u{feff}rule\u{2060}>");
    check("<<path>", "<&lt;path>");
    check("<urlé", "&lt;urlé");
    check("&lt;url>", "&amp;lt;url>");
    check("&amp;amp;lt; / url>", "&amp;amp;amp;lt; / url>");
    check("&&lt;url", "&&amp;lt;url");
    check("<localsearch timeRange=\"x\">", "&lt;localsearch timeRange=\"x\">");
    check("<MCP.read-file>", "&lt;MCP.read-file>");
    check("<mcp.Read-Files>", "<mcp.Read-Files>");
    check("[User query]:\nx", "\\[User query]:\nx");
    check("x\n \t[user Query]: y", "x\n \t\\[user Query]: y");
    check("x\r\u{200b}## Context Library", "x\r\u{200b}\\## Context Library");
    check("x\u{2028}[Step 2 of 3]", "x\u{2028}\\[Step 2 of 3]");
    check("\\\\[Output of x]", "\\\\\\[Output of x]");
    check("# Additional context:\n[Step ", "\\# Additional context:\n\\[Step ");
    check("Context attached to this message:", "\\Context attached to this message:");
    // The name of a tag that is also the start of an engine line.
    check("<\nFind them in the Context Library", "&lt;\n\\Find them in the Context Library");
    let far = "語".repeat(50);
    check(&format!("{far}<path>{far}\n{far}"), &format!("{far}&lt;path>{far}\n{far}"));
}

#[test]
fn a_tag_or_a_line_with_unseen_characters_in_it_passed_as_none() {
    fn check(text: &str, expect: &str) {
        let mut fence = fence();
        assert_eq!(fence.escape(text), expect, "{text:?}");
        assert_eq!(fence.unescape(expect), text, "{expect:?}");
    }
    check("<\u{ad}/content>", "&lt;\u{ad}/content>");
    check("<\u{200e}/note_context>", "&lt;\u{200e}/note_context>");
    check("</con\u{ad}tent>", "&lt;/con\u{ad}tent>");
    check("</content\u{fe0f}\u{e0020}>", "&lt;/content\u{fe0f}\u{e0020}>");
    check("<\0ti\u{202e}tle\u{3164}x>", "<\0ti\u{202e}tle\u{3164}x>");
    check("\u{2063}[Step 2/3]", "\u{2063}\\[Step 2/3]");
    check("[\u{2063}St\u{ad}ep\u{a0}2/3]", "\\[\u{2063}St\u{ad}ep\u{a0}2/3]");
    check("\\\u{ad}[Step 2/3]", "\\\\\u{ad}[Step 2/3]");
    let long = format!("<a{}>", "\u{ad}b".repeat(2 * MAX_NAME));
    check(&long, &long);
    let mut fence = Fence::new();
    assert_eq!(fence.escape("<wea\u{ad}ther>"), "<wea\u{ad}ther>");
    assert_eq!(fence.tool_tag("weather").name(), GENERIC, "it may be forged already");
}

#[test]
fn borrowed_where_nothing_is_escaped() {
    for text in ["plain\ntext", "<div> &amp; a < b", "a\n\n# Heading\n- x"] {
        assert!(matches!(fence().escape(text), Cow::Borrowed(_)), "{text:?}");
        assert!(matches!(fence().unescape(text), Cow::Borrowed(_)), "{text:?}");
    }
}

#[test]
fn tool_tags() {
    let mut fence = Fence::new();
    assert_eq!(fence.escape("a < Weather > b"), "a < Weather > b");
    let mut check = |name: &str, open: &str, close: &str| {
        let tag = fence.tool_tag(name);
        assert_eq!((tag.open(&[]).as_str(), tag.close().as_str()), (open, close));
    };
    check("localSearch", "<localSearch>", "</localSearch>");
    check("files.read", "<files.read>", "</files.read>");
    check("weather", "<tool_result tool=\"weather\">", "</tool_result>");
    check("note_context", "<tool_result tool=\"note_context\">", "</tool_result>");
    check("System", "<tool_result tool=\"System\">", "</tool_result>");
    check("1st", "<tool_result tool=\"1st\">", "</tool_result>");
    check("a b\">", "<tool_result tool=\"a b&quot;&gt;\">", "</tool_result>");
    check("", "<tool_result tool=\"\">", "</tool_result>");
    assert_eq!(fence.escape("</FILES.READ>"), "&lt;/FILES.READ>");
    let tag = fence.tool_tag("files.read");
    assert_eq!(tag.name(), "files.read");
    assert_eq!(tag.open(&[("path", "R&D/\"a\".md"), ("bad key", "x")]), "<files.read path=\"R&D/&quot;a&quot;.md\">");
}

#[test]
fn many_tags_in_outside_text_take_no_more_room() {
    let mut fence = Fence::new();
    fence.know_tool("early");
    let many: Vec<String> = (0..MAX_SEEN + 10).map(|n| format!("<t{n}>")).collect();
    let many = many.concat();
    assert!(matches!(fence.escape(&many), Cow::Borrowed(_)));
    assert_eq!(fence.seen.len(), MAX_SEEN);
    assert_eq!(fence.tool_tag("early").name(), "early");
    assert_eq!(fence.tool_tag("webSearch").name(), "webSearch");
    fence.know_tool("late");
    for name in ["late", "later", "later"] {
        assert_eq!(fence.tool_tag(name).name(), GENERIC);
    }
}

#[test]
fn one_line_values() {
    fn check(text: &str, expect: &str) {
        assert_eq!(attribute(text), expect, "{text:?}");
        assert_eq!(unattribute(expect), text, "{expect:?}");
    }
    for same in [
        "",
        "R&D/Piano Lessons/Lesson 4 (new).md",
        "C++ & more.md",
        "https://a.example/x?a=1&b=2&lt=3&#10&amp;c",
        "&#65; &#010; &#+9; &#99999999999;",
        "日本語 'x'",
    ] {
        check(same, same);
    }
    check("a\nb\t\0", "a&#10;b&#9;&#0;");
    check("\u{85}\u{2028}", "&#133;&#8232;");
    check("<a> \"b\"", "&lt;a&gt; &quot;b&quot;");
    check("&lt; &amp;lt; &#10; &quot;", "&amp;lt; &amp;amp;lt; &amp;#10; &amp;quot;");
    assert_eq!(one_line("say \"hi\" <b> &quot;"), "say \"hi\" &lt;b&gt; &amp;quot;");
    assert_eq!(unattribute(&one_line("say \"hi\" <b> &quot;")), "say \"hi\" <b> &quot;");
}

/// Finds a known tag by trying every name at every place.
fn has_tag(text: &str) -> bool {
    let lower = text.to_ascii_lowercase().replace(is_unseen, "");
    let mut names = [&STRUCTURE[..], &BUILT_IN].concat();
    names.extend(["find", "mcp.read-file"]);
    lower.match_indices('<').any(|(at, _)| {
        let bare: String = lower[at + 1..].to_owned();
        let after = bare.trim_start_matches(is_gap);
        let after = after.strip_prefix('/').unwrap_or(after).trim_start_matches(is_gap);
        names.iter().any(|name| {
            after
                .strip_prefix(name)
                .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || "_.-".contains(c)))
        })
    })
}

fn has_engine_line(text: &str) -> bool {
    text.split(is_line_end).any(|line| {
        let seen = line.replace(is_unseen, "").to_ascii_lowercase();
        let line = seen.split_whitespace().fold(String::new(), |line, word| line + word + " ");
        ENGINE_LINES.iter().any(|own| line.starts_with(&own.to_ascii_lowercase()))
    })
}

fn nasty() -> impl Strategy<Value = String> {
    #[rustfmt::skip]
    const PIECES: &[&str] = &[
        "<", "</", ">", "/", "&", "&lt;", "&amp;lt;", "&amp;", "amp;", "lt;", "&gt;", "&quot;", "&#10;", "note_context",
        "NOTE_CONTEXT", "title", "find", "mcp.Read-File", "div", "_", "\\", "[User query]:", "[step ",
        "# Additional context:", "## Context Library", "Find them in the Context Library",
        "Context attached to this message:", "\n", "\n", "\r", " ", "\t", "\u{200b}", "\u{ad}", "\u{e0041}", "\0", "\u{2028}", "\u{85}", "é", "語",
        "\"", "x",
    ];
    prop::collection::vec(prop::sample::select(PIECES), 0..16).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn unescape_undoes_escape(text in nasty()) {
        let mut fence = fence();
        let escaped = fence.escape(&text).into_owned();
        prop_assert_eq!(fence.unescape(&escaped), text);
    }

    #[test]
    fn escape_of_escape_is_undone_twice(text in nasty()) {
        let mut fence = fence();
        let once = fence.escape(&text).into_owned();
        let twice = fence.escape(&once).into_owned();
        let back = fence.unescape(&twice).into_owned();
        prop_assert_eq!(fence.unescape(&back), text);
    }

    #[test]
    fn nothing_of_ours_is_left(text in nasty()) {
        let mut fence = fence();
        let escaped = fence.escape(&text);
        prop_assert!(!has_tag(&escaped), "{escaped:?}");
        prop_assert!(!has_engine_line(&escaped), "{escaped:?}");
        prop_assert!(has_tag(&text) || has_engine_line(&text) || escaped == text || text.contains(['&', '\\']));
    }

    #[test]
    fn a_tool_tag_is_never_forged(before in nasty(), after in nasty()) {
        let mut fence = Fence::new();
        let before = fence.escape(&before).into_owned();
        let tag = fence.tool_tag("find");
        let after = fence.escape(&after).into_owned();
        for text in [before, after] {
            let raw_marks = marks(&text).filter(|mark| mark.level == 0);
            let forged = raw_marks.filter_map(|mark| tag_name(&text[mark.end..])).any(|name: Cow<'_, str>| name.eq_ignore_ascii_case(tag.name()));
            prop_assert!(!forged, "{text:?}");
        }
    }

    #[test]
    fn unattribute_undoes_attribute(text in nasty()) {
        let one = attribute(&text);
        prop_assert!(!one.contains(|c| is_numbered(c) || matches!(c, '<' | '>' | '"')), "{one:?}");
        prop_assert_eq!(&unattribute(&one), &text);
        let line = one_line(&text);
        prop_assert!(!line.contains(|c| is_numbered(c) || matches!(c, '<' | '>')), "{line:?}");
        prop_assert_eq!(unattribute(&line), text);
    }
}
