//! How the blocks of markdown begin and end: one question each, asked of the rest of a line.

/// The fence that opens a code block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fence {
    pub(super) mark: u8,
    pub(super) length: usize,
}

impl Fence {
    pub(super) fn open(rest: &str) -> Option<Self> {
        let mark = rest.bytes().next().filter(|byte| matches!(byte, b'`' | b'~'))?;
        let length = run(rest, mark);
        let info = rest.get(length..)?;
        (length >= 3 && !(mark == b'`' && info.contains('`'))).then_some(Self { mark, length })
    }

    pub(super) fn is_closed_by(self, rest: &str) -> bool {
        let length = run(rest, self.mark);
        length >= self.length && rest.len() == length
    }
}

/// How many times a line begins with a byte.
fn run(rest: &str, mark: u8) -> usize {
    rest.bytes().take_while(|byte| *byte == mark).count()
}

/// The level of a heading and where its text stands in the line.
pub(super) fn heading(rest: &str) -> Option<(u8, &str)> {
    let level = run(rest, b'#');
    let text = rest.get(level..)?;
    if !(1..=6).contains(&level) || !(text.is_empty() || text.starts_with([' ', '\t'])) {
        return None;
    }
    let text = text.trim();
    let open = text.trim_end_matches('#');
    let text = if open.is_empty() || open.ends_with([' ', '\t']) { open.trim_end() } else { text };
    Some((u8::try_from(level).ok()?, text))
}

/// The level of the heading that a line of `=` or `-` makes of the paragraph above it.
pub(super) fn underline(rest: &str) -> Option<u8> {
    let mark = rest.bytes().next()?;
    (run(rest, mark) == rest.len()).then_some(())?;
    match mark {
        b'=' => Some(1),
        b'-' => Some(2),
        _ => None,
    }
}

pub(super) fn is_rule(rest: &str) -> bool {
    let Some(mark @ (b'-' | b'*' | b'_')) = rest.bytes().next() else { return false };
    let mut marks = 0;
    for byte in rest.bytes() {
        match byte {
            b' ' | b'\t' => {}
            _ if byte == mark => marks += 1,
            _ => return false,
        }
    }
    marks >= 3
}

/// The mark of a list item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bullet {
    /// What tells lists apart: the bullet, or what follows the number.
    pub(super) mark: u8,
    /// Its bytes.
    pub(super) length: usize,
    /// Whether it may stand right below a paragraph: not with a number other than 1.
    pub(super) interrupts: bool,
}

pub(super) fn bullet(rest: &str) -> Option<Bullet> {
    let digits = rest.bytes().take(10).take_while(u8::is_ascii_digit).count();
    let mark = *rest.as_bytes().get(digits)?;
    let fits = if digits == 0 { matches!(mark, b'-' | b'+' | b'*') } else { digits <= 9 && matches!(mark, b'.' | b')') };
    let ends = matches!(rest.as_bytes().get(digits + 1), None | Some(b' ' | b'\t'));
    let number = rest.get(..digits)?;
    (fits && ends).then_some(Bullet {
        mark,
        length: digits + 1,
        interrupts: digits == 0 || number.trim_start_matches('0') == "1",
    })
}

/// The status in the box of a task (`[ ]`, `[x]`, `[/]`) and the bytes of the box.
pub(super) fn task(rest: &str) -> Option<(char, usize)> {
    let inner = rest.strip_prefix('[')?;
    let status = inner.chars().next()?;
    let after = inner.get(status.len_utf8()..)?.strip_prefix(']')?;
    (after.is_empty() || after.starts_with([' ', '\t'])).then_some((status, rest.len() - after.len()))
}

/// The bytes of `[^label]:`.
pub(super) fn footnote(rest: &str) -> Option<usize> {
    let label = rest.strip_prefix("[^")?;
    let end = label.bytes().take(1000).position(|byte| matches!(byte, b']' | b'[' | b' ' | b'\t'))?;
    (end > 0 && label.get(end..)?.starts_with("]:")).then_some(end + 4)
}

/// The line below a table's head, by its number of cells.
pub(super) fn delimiter_row(rest: &str) -> Option<usize> {
    if !rest.contains('|') || !rest.bytes().all(|byte| matches!(byte, b'|' | b'-' | b':' | b' ' | b'\t')) {
        return None;
    }
    let row = rest.strip_prefix('|').unwrap_or(rest);
    let row = row.strip_suffix('|').unwrap_or(row);
    let is_cell = |cell: &str| {
        let dashes = cell.trim();
        let dashes = dashes.strip_prefix(':').unwrap_or(dashes);
        let dashes = dashes.strip_suffix(':').unwrap_or(dashes);
        !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-')
    };
    row.split('|').all(is_cell).then(|| row.split('|').count())
}

/// The number of cells in a row of a table.
pub(super) fn cells(rest: &str) -> usize {
    let mut escaped = false;
    let mut bars = 0;
    let mut last_is_bar = false;
    for byte in rest.bytes() {
        last_is_bar = byte == b'|' && !escaped;
        bars += usize::from(last_is_bar);
        escaped = byte == b'\\' && !escaped;
    }
    (bars + 1).saturating_sub(usize::from(rest.starts_with('|'))).saturating_sub(usize::from(last_is_bar && rest.len() > 1))
}

/// What ends a block of HTML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HtmlEnd {
    /// A line that holds one of these.
    Text(&'static [&'static str]),
    /// A blank line.
    Blank,
}

impl HtmlEnd {
    pub(super) fn is_met_by(self, rest: &str) -> bool {
        match self {
            Self::Text(texts) => {
                let lower = rest.to_ascii_lowercase();
                texts.iter().any(|text| lower.contains(text))
            }
            Self::Blank => rest.is_empty(),
        }
    }
}

const RAW_TAGS: [&str; 4] = ["script", "pre", "style", "textarea"];
const BLOCK_TAGS: &str = "address article aside base basefont blockquote body caption center col colgroup dd details dialog dir div dl dt \
    fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hr html iframe legend li link main menu menuitem \
    nav noframes ol optgroup option p param search section summary table tbody td tfoot th thead title tr track ul";

/// Whether a paragraph is open above the line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Above {
    Paragraph,
    Nothing,
}

/// Whether a line begins a block of HTML, and what ends it.
pub(super) fn html(rest: &str, above: Above) -> Option<HtmlEnd> {
    let inner = rest.strip_prefix('<')?;
    if inner.starts_with("!--") {
        return Some(HtmlEnd::Text(&["-->"]));
    }
    if inner.starts_with('?') {
        return Some(HtmlEnd::Text(&["?>"]));
    }
    if inner.starts_with("![CDATA[") {
        return Some(HtmlEnd::Text(&["]]>"]));
    }
    if inner.strip_prefix('!').is_some_and(|name| name.starts_with(|letter: char| letter.is_ascii_alphabetic())) {
        return Some(HtmlEnd::Text(&[">"]));
    }
    let named = inner.strip_prefix('/').unwrap_or(inner);
    let length = named.bytes().take(16).take_while(u8::is_ascii_alphanumeric).count();
    let (name, after) = named.split_at_checked(length)?;
    let ends = after.is_empty() || after.starts_with([' ', '\t', '>']) || after.starts_with("/>");
    if ends && inner.len() == named.len() && RAW_TAGS.iter().any(|tag| tag.eq_ignore_ascii_case(name)) {
        return Some(HtmlEnd::Text(&["</script>", "</pre>", "</style>", "</textarea>"]));
    }
    if ends && BLOCK_TAGS.split(' ').any(|tag| tag.eq_ignore_ascii_case(name)) {
        return Some(HtmlEnd::Blank);
    }
    (above == Above::Nothing && tag(rest) == Some(rest.len())).then_some(HtmlEnd::Blank)
}

/// The bytes of the tag that a text begins with: `<a href="x">`, `</a>`, `<br/>`.
pub(super) fn tag(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let name = 1 + usize::from(bytes.get(1) == Some(&b'/'));
    bytes.get(name).filter(|byte| byte.is_ascii_alphabetic())?;
    let mut at = name + bytes.get(name..)?.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-').count();
    bytes.get(at).filter(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'/' | b'>'))?;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'>' => return Some(at),
            b'=' => match bytes.get(at) {
                Some(&quote @ (b'"' | b'\'')) => at += 2 + bytes.get(at + 1..)?.iter().position(|other| *other == quote)?,
                _ => {
                    at += bytes
                        .get(at..)?
                        .iter()
                        .take_while(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'<' | b'>' | b'"'))
                        .count();
                }
            },
            b' ' | b'\t' | b'\n' | b'/' | b'_' | b':' | b'.' | b'-' => {}
            _ if byte.is_ascii_alphanumeric() => {}
            _ => return None,
        }
    }
    None
}
