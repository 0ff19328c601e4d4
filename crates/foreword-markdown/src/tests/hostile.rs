//! Text made to be slow or to break a reader.

use std::time::{Duration, Instant};

use super::sound;

/// Bytes of each text. A reader that is not linear takes minutes for this.
const SIZE: usize = 1 << 18;
/// Generous: a debug build on a busy machine.
const LIMIT: Duration = Duration::from_secs(10);

fn check(name: &str, text: &str) {
    let started = Instant::now();
    sound(text);
    assert!(started.elapsed() < LIMIT, "{name} took {:?}", started.elapsed());
}

const UNITS: &[&str] = &[
    "[",
    "]",
    "[[",
    "]]",
    "[[a",
    "![[",
    "![",
    "[a](",
    "[a](b",
    "[a](b \"",
    "[a](b '",
    "[a](b (",
    "[a](<",
    "[a]",
    "[a][",
    "![a](b)[",
    "[![a](b)",
    "#",
    "# ",
    "#a",
    " #a",
    "a\n# ",
    ">",
    "> ",
    ">\n",
    "> a\n",
    "- ",
    "-\n",
    "- a\n",
    "* ",
    "*",
    "**a ",
    "_",
    "_a",
    "1. ",
    "1) a\n",
    "`",
    "``` ",
    "```\n",
    "``",
    "` `` ",
    "~~~\n",
    "$",
    "$$",
    "$a ",
    "$$ ",
    "%",
    "%%",
    "%%\n",
    "%% a\n\n",
    "<",
    "<a",
    "<a ",
    "<a b=\"",
    "<a b='",
    "<!--",
    "<!-- ",
    "<?",
    "<div>\n",
    "<div>\n\n",
    "<a:",
    "<![CDATA[",
    "\\",
    "\\[",
    "&",
    "|",
    "|-",
    "| a |\n",
    "a|b\n-|-\n",
    "::",
    "[a::",
    "(a:: ",
    "[a:: b] ",
    "a:: b\n",
    "- a:: [\n",
    "[a]: b\n",
    "[^a]: ",
    "[^a]",
    "^",
    " ^a",
    "^a\n",
    "a ^a\n\n",
    "\t",
    " ",
    "\n",
    " \n",
    "    a\n",
    "\t- a\n",
    "=\n",
    "a\n=\n",
    "---\n",
    "a\n---\n",
    "http://",
    "https://a)",
    "h",
    "\u{1f4c5} ",
    "é",
    "\u{200d}",
    "- [ ] a\n",
    "- [ ] 📅 2024-01-01\n",
    "\r",
    "\0",
];

#[test]
fn repeated_marks_take_linear_time() {
    for unit in UNITS {
        check(unit, &unit.repeat(SIZE / unit.len()));
    }
}

#[test]
fn deep_nesting_takes_linear_time() {
    let half = SIZE / 2;
    check("deep quotes, then lines", &format!("{}\n{}", ">".repeat(half), "a\n".repeat(half / 2)));
    check("deep list, then blank lines", &format!("{}a{}", "- ".repeat(half / 2), "\n".repeat(half)));
    check("deep list, then a lazy paragraph", &format!("{}a{}", "- ".repeat(half / 2), "\nb".repeat(half / 2)));
    check("deep list, then fenced lines", &format!("{}```{}", "- ".repeat(60), "\n".repeat(half)));
    check("stairs", &(0..1000).map(|depth| "  ".repeat(depth) + "- a\n").collect::<String>());
    check("wide lines", &format!("- a\n{}", format!("{}b\n", " ".repeat(1000)).repeat(half / 1000)));
    check("one blank line", &format!("{}{}\n", "- ".repeat(60), " ".repeat(half)));
    check("brackets around one field", &format!("{}a:: b{}", "[".repeat(16_000), "]".repeat(16_000)));
    check("brackets around a reference", &format!("{}a{}\n\n[a]: b", "[".repeat(half), "]".repeat(half)));
    check("backticks of all lengths", &(1..1000).map(|length| "`".repeat(length) + " ").collect::<String>());
    check("wiki link with much in it", &format!("[[{}]]", "a#".repeat(half)));
    check("one long tag", &format!("#{}", "a/".repeat(half)));
    check("one long heading", &format!("# {}", "*a* [[b]] ".repeat(half / 10)));
    check("frontmatter links", &format!("---\na: [{}]\n---\n", "\"[[a]]\", ".repeat(10_000)));
    check("frontmatter links with escapes", &format!("---\na: [{}]\n---\n", "\"[[\\u0061]]\", ".repeat(10_000)));
    check("frontmatter never closed", &format!("---\n{}", "a: b\n".repeat(half / 5)));
}

#[test]
fn odd_characters_break_nothing() {
    for text in [
        "é",
        "\u{feff}# a",
        "#é\u{301}",
        "[[é",
        "- [é",
        "^é",
        "%é%",
        "$é$é",
        "<é>",
        "`é",
        "a\r\nb\r\n",
        "\u{85}\u{2028}#a",
        "[é](é%",
        "[a](%e",
        "📅",
        "📅 2024-01-0é",
        "é:: é",
        "(é::",
        "- \u{a0}a",
    ] {
        sound(text);
        sound(&format!("> - {text}\n  {text}"));
        sound(&format!("---\n{text}\n---\n{text}"));
        sound(&format!("|{text}|é|\n|-|-|\n|{text}"));
    }
}
