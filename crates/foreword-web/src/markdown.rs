//! A fetched body as markdown. Of an HTML page the readable part is kept: readability first, the whole body where that finds no article.

use std::borrow::Cow;
use std::fmt::Write as _;

use dom_query::{Document, NodeRef};
use dom_smoothie::{Config, Readability, TextMode};
use url::Url;

/// The most markdown that is kept of one page.
const MAX_TEXT_BYTES: usize = 2 << 20;
/// Deeper pages are read as plain text: parsing takes time in the square of the depth.
const MAX_DEPTH: usize = 512;
/// The same holds for the attributes of one element.
const MAX_ATTRIBUTES: usize = 2_000;
const MAX_ELEMENTS: usize = 200_000;
/// Below this size readability finds no article but scraps, and the whole body is the better choice.
const SHORT_BYTES: usize = 250;

const UNSEEN: &str = "script, style, template, noscript, svg, iframe, object, canvas, [hidden], [aria-hidden=\"true\"], \
    [style*=\"display:none\" i], [style*=\"display: none\" i], [style*=\"visibility:hidden\" i], [style*=\"visibility: hidden\" i], \
    img[src^=\"data:\"]";
const AROUND: &str = "nav, footer, aside, form, button, [role=\"navigation\"], [role=\"banner\"], [role=\"contentinfo\"]";

/// What a body says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Readable {
    pub(super) title: Option<String>,
    pub(super) markdown: String,
}

/// HTML as markdown; `address` is what its links are relative to.
pub(super) fn from_html(html: &str, address: &Url) -> Readable {
    if depth(html) > MAX_DEPTH || is_crowded(html) {
        return Readable { title: None, markdown: cut(without_tags(html)) };
    }
    let document = Document::from(html);
    let title = title(&document);
    document.select(UNSEEN).remove();
    absolute(&document, address);
    name_languages(&document);

    // Readability changes its document, so the other candidate is made first.
    let whole = document.body().map(|body| body.to_fragment()).map(|body| {
        body.select(AROUND).remove();
        body.md(None).trim().to_owned()
    });
    let config =
        Config { keep_classes: true, max_elements_to_parse: MAX_ELEMENTS, text_mode: TextMode::Markdown, ..Config::default() };
    let article = Readability::with_document(document, None, Some(config)).and_then(|mut reader| reader.parse()).ok();
    let (found, article) =
        article.map_or((None, String::new()), |article| (Some(article.title), article.text_content.trim().to_owned()));
    let whole = whole.unwrap_or_default();
    let markdown = if article.len() < SHORT_BYTES && !whole.is_empty() { whole } else { article };
    let title = found.map(|title| one_line(&title)).filter(|title| !title.is_empty()).or(title);
    Readable { title, markdown: cut(markdown) }
}

/// Plain text and markdown as they are; the first heading is the title.
pub(super) fn from_text(text: &str) -> Readable {
    let text = text.replace("\r\n", "\n");
    let title = text.lines().find_map(|line| line.strip_prefix("# ")).map(one_line).filter(|title| !title.is_empty());
    Readable { title, markdown: cut(text.trim().to_owned()) }
}

/// Data in a code block; JSON indented where it is one value.
pub(super) fn from_data(text: &str, language: &str) -> Readable {
    let value: Option<serde_json::Value> = if language == "json" { serde_json::from_str(text).ok() } else { None };
    let pretty = value.and_then(|value| serde_json::to_string_pretty(&value).ok());
    let text = cut(pretty.unwrap_or_else(|| text.trim().to_owned()));
    let ticks = text.split(|c| c != '`').map(str::len).max().unwrap_or(0).max(2) + 1;
    let fence = "`".repeat(ticks);
    Readable { title: None, markdown: format!("{fence}{language}\n{text}\n{fence}") }
}

fn title(document: &Document) -> Option<String> {
    let text = |selector: &str| Some(one_line(&document.select_single(selector).text())).filter(|text| !text.is_empty());
    text("head title").or_else(|| text("h1"))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Links and images lead where they would in a browser; what leads nowhere (`javascript:`, `data:`) is only its text.
fn absolute(document: &Document, address: &Url) {
    let base = document.select_single("base[href]").attr("href").and_then(|href| address.join(&href).ok());
    let base = base.as_ref().unwrap_or(address);
    for (selector, attribute) in [("a[href]", "href"), ("img[src]", "src")] {
        for node in document.select(selector).nodes() {
            let target = node.attr(attribute).and_then(|target| base.join(target.trim()).ok());
            match target.filter(|target| matches!(target.scheme(), "http" | "https" | "mailto")) {
                Some(target) => node.set_attr(attribute, target.as_str()),
                None => node.remove_attr(attribute),
            }
        }
    }
}

/// Readability drops the wrappers on which sites say a code block's language, so it is noted on the block itself.
fn name_languages(document: &Document) {
    for block in document.select("pre").nodes() {
        // Collected first: an iterator over nodes keeps the tree from being changed.
        let near: Vec<_> = block.first_element_child().into_iter().chain([*block]).chain(block.ancestors(Some(2))).collect();
        let found = near.iter().filter(|node| node.is_element()).find_map(language);
        if let Some(language) = found {
            block.set_attr("data-lang", &language);
        }
    }
}

fn language(node: &NodeRef<'_>) -> Option<String> {
    if let Some(named) = node.attr("data-lang").or_else(|| node.attr("data-language")) {
        return Some(named.to_string());
    }
    let classes = node.class()?;
    let prefixes = ["language-", "lang-", "highlight-source-", "brush:"];
    let named = classes.split_whitespace().find_map(|class| prefixes.iter().find_map(|prefix| class.strip_prefix(prefix)));
    named
        .filter(|name| !name.is_empty() && name.len() < 30 && !matches!(*name, "none" | "default" | "plaintext"))
        .map(str::to_owned)
}

/// At most `MAX_TEXT_BYTES` of it, and a line that says so.
fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        let left_out = text.len() - text.floor_char_boundary(MAX_TEXT_BYTES);
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        let _ = write!(text, "\n\n[{left_out} further bytes of this page are left out.]");
    }
    text
}

/// How deep the elements of `html` nest at most, by its tags. Those that may stay open do not count.
fn depth(html: &str) -> usize {
    const OPEN: [&str; 30] = [
        "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr", "p", "li",
        "td", "tr", "th", "dt", "dd", "option", "optgroup", "thead", "tbody", "tfoot", "colgroup", "rt", "rp", "body",
    ];
    let (mut depth, mut deepest) = (0_usize, 0);
    for (name, closes) in tags(html) {
        let name = name.to_ascii_lowercase();
        if OPEN.contains(&name.as_str()) {
            continue;
        }
        depth = if closes { depth.saturating_sub(1) } else { depth + 1 };
        deepest = deepest.max(depth);
    }
    deepest
}

/// Whether some tag has more than `MAX_ATTRIBUTES`. Each tag is read from its own start, so none can hide behind another's quotes.
fn is_crowded(html: &str) -> bool {
    let bytes = html.as_bytes();
    let starts = bytes.windows(2).enumerate().filter(|(_, two)| two[0] == b'<' && two[1].is_ascii_alphabetic());
    starts.into_iter().any(|(start, _)| {
        let (mut at, mut attributes, mut after) = (start + 1, 0, b' ');
        while let Some(byte) = bytes.get(at).copied().filter(|byte| *byte != b'>') {
            at += 1;
            if matches!(byte, b'"' | b'\'') && after == b'=' {
                let closing = bytes.get(at..).and_then(|rest| rest.iter().position(|other| *other == byte));
                at = closing.map_or(bytes.len(), |closing| at + closing + 1);
                after = b' ';
            } else if byte.is_ascii_whitespace() || byte == b'/' {
                after = if after == b'=' { b'=' } else { b' ' };
            } else {
                attributes += usize::from(after == b' ');
                after = byte;
            }
            if attributes > MAX_ATTRIBUTES {
                return true;
            }
        }
        false
    })
}

/// The names of all tags and whether they close, scripts and styles skipped.
fn tags(html: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut rest = html;
    std::iter::from_fn(move || {
        loop {
            let at = rest.find('<')?;
            rest = &rest[at + 1..];
            let (closes, named) = match rest.strip_prefix('/') {
                Some(named) => (true, named),
                None => (false, rest),
            };
            let end = named.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(named.len());
            let name = &named[..end];
            rest = &named[end..];
            if !name.is_empty() {
                let raw = ["script", "style"].iter().find(|raw| name.eq_ignore_ascii_case(raw)).filter(|_| !closes);
                if let Some(raw) = raw {
                    rest = rest.find(&format!("</{raw}")).map_or("", |end| &rest[end..]);
                }
                return Some((name, closes));
            }
        }
    })
}

/// What stands between the tags.
fn without_tags(html: &str) -> String {
    let mut text = String::new();
    for part in html.split('<').skip(1) {
        let after = part.split_once('>').map_or("", |(_, after)| after).trim();
        if !after.is_empty() && !part.starts_with("script") && !part.starts_with("style") {
            text.push_str(after);
            text.push('\n');
        }
    }
    let plain: Cow<'_, str> = ["&lt;", "<", "&gt;", ">", "&quot;", "\"", "&#39;", "'", "&nbsp;", " ", "&amp;", "&"]
        .chunks_exact(2)
        .fold(Cow::Borrowed(text.as_str()), |text, pair| Cow::Owned(text.replace(pair[0], pair[1])));
    plain.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(body: &str) -> Readable {
        let address = Url::parse("https://a.example/docs/page.html").unwrap();
        from_html(&format!("<html><head><title>The  page</title></head><body>{body}</body></html>"), &address)
    }

    #[track_caller]
    fn check(body: &str, expect: &str) {
        assert_eq!(html(body).markdown, expect);
    }

    const LONG: &str = "This sentence is here so that the page has enough text, commas, and words to be taken for an article by anyone who reads it. ";

    #[test]
    fn small_pages_are_taken_whole() {
        check(
            "<h1>Hi</h1><p>A <b>bold</b> <a href='../x?q=1'>link</a> and <a href='javascript:alert(1)'>none</a>.</p>",
            "# Hi\n\nA **bold** [link](https://a.example/x?q=1) and none.",
        );
        check("<nav>menu</nav><p>text</p><footer>foot</footer>", "text");
        check(
            "<p>seen</p><p hidden>x</p><div style='color:red; display:none'>y</div><script>z</script><style>w</style><p aria-hidden=true>v</p>",
            "seen",
        );
        check("<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>", "| a | b |\n| - | - |\n| 1 | 2 |");
        check("<base href='/other/'><a href=z>k</a>", "[k](https://a.example/other/z)");
        check("<p>pic <img src='data:image/png;base64,AAAA' alt=x></p>", "pic");
    }

    #[test]
    fn code_keeps_its_language() {
        let block = |open: &str| format!("{open}let x = 1;\n</code></pre></div>");
        let fenced = "```rust\nlet x = 1;\n```";
        check(&block("<div><pre><code class='language-rust'>"), fenced);
        check(&block("<div><pre class='lang-rust'><code>"), fenced);
        check(&block("<div class='highlight highlight-source-rust'><pre><code>"), fenced);
        let article = format!(
            "<nav>menu</nav><article><h2>How</h2><p>{0}</p><div class='highlight-source-rust'><pre><code>let x = 1;\n</code></pre></div><p>{0}</p></article>",
            LONG.repeat(5)
        );
        let found = html(&article);
        assert!(found.markdown.contains(fenced) && !found.markdown.contains("menu"), "{}", found.markdown);
        assert_eq!(found.title.as_deref(), Some("The page"));
    }

    #[test]
    fn deep_pages_become_plain_text() {
        let page = html(&format!("{}deep &amp; down{}", "<div>".repeat(100_000), "</div>".repeat(100_000)));
        assert_eq!(page.markdown, "The  page\ndeep & down");
        let unclosed = format!("<p>{}", "x<p>".repeat(3000));
        assert!(depth(&unclosed) < 5 && depth(&"<b>".repeat(1000)) == 1000);
        assert_eq!(depth("<script>'<div><div><div>'</script><a>"), 1);
    }

    #[test]
    fn crowded_elements_become_plain_text() {
        let many = " a".repeat(3000);
        assert!(is_crowded(&format!("<p><div{many}>x</div>")) && is_crowded(&format!("<!-- <x a=\" --><div{many}>")));
        assert!(is_crowded(&format!("<div{}>", many.replace(' ', "/"))));
        assert!(!is_crowded(&format!("<path d=\"{many}\"><path d = '{many}'>{many}<p>")));
        for part in ["<a ", "<a b=\"", "<a b='", "<p>x", "<a href=x>y</a>", "<br>", "<li>a", "<b></b>"] {
            let started = std::time::Instant::now();
            html(&part.repeat((128 << 10) / part.len()));
            assert!(started.elapsed().as_secs() < 20, "{part}");
        }
    }

    #[test]
    fn texts_and_data() {
        assert_eq!(from_text("# T\r\n\r\nx\n"), Readable { title: Some("T".into()), markdown: "# T\n\nx".into() });
        assert_eq!(from_data("{\"a\":[1]}", "json").markdown, "```json\n{\n  \"a\": [\n    1\n  ]\n}\n```");
        assert_eq!(from_data("<a>```</a>", "xml").markdown, "````xml\n<a>```</a>\n````");
        assert!(from_text(&"ü".repeat(MAX_TEXT_BYTES)).markdown.ends_with("bytes of this page are left out.]"));
    }
}
