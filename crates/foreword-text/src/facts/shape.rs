//! The shapes of exact things: one pass over a text, line by line, word by word.

use super::FactKind;

/// Extensions by which a name without a folder is a file.
const EXTENSIONS: [&str; 48] = [
    "bib", "c", "canvas", "cfg", "conf", "cpp", "cs", "css", "csv", "db", "docx", "env", "gguf", "go", "gz", "h", "html", "ini",
    "ipynb", "java", "jpeg", "jpg", "js", "json", "jsonl", "jsx", "kt", "lock", "log", "md", "pdf", "php", "png", "py", "rb",
    "rs", "sh", "sql", "svg", "swift", "tar", "tex", "toml", "ts", "tsx", "txt", "yaml", "yml",
];

/// Words that make a number in front of them a quantity, in lower case.
const UNITS: [&str; 94] = [
    "%", "°", "°c", "°f", "a", "b", "bar", "bit", "bits", "bpm", "byte", "bytes", "cent", "cents", "chars", "chf", "cm", "core",
    "cores", "cups", "day", "days", "db", "degrees", "dollars", "dpi", "eur", "euro", "euros", "fps", "ft", "g", "gb", "gbp",
    "ghz", "gib", "grams", "h", "hour", "hours", "hz", "inch", "inches", "items", "j", "k", "kb", "kcal", "kg", "khz", "kib",
    "km", "km/h", "kw", "kwh", "l", "lb", "lines", "liters", "litres", "m", "mb", "meters", "metres", "mg", "mhz", "mib",
    "miles", "min", "minutes", "ml", "mm", "months", "ms", "mw", "nm", "ns", "pages", "people", "percent", "pounds", "px",
    "rows", "s", "seconds", "tb", "tokens", "turns", "users", "usd", "v", "w", "weeks", "years",
];

const MONTHS: [&str; 23] = [
    "jan",
    "january",
    "feb",
    "february",
    "mar",
    "march",
    "apr",
    "april",
    "may",
    "jun",
    "june",
    "jul",
    "july",
    "aug",
    "august",
    "sep",
    "sept",
    "september",
    "oct",
    "october",
    "nov",
    "november",
    "dec", // `december` is looked for by its start
];

/// Calls `found` with each exact fact in a text, in order, until the limit is reached.
pub(super) fn scan(text: &str, found: &mut dyn FnMut(FactKind, String) -> bool) {
    let mut fenced = false;
    for line in text.lines() {
        let bare = line.trim_start();
        if bare.starts_with("```") || bare.starts_with("~~~") {
            fenced = !fenced;
            continue;
        }
        // Code is full of names; what matters of it is which files it is about.
        let mut tell = |kind: FactKind, text: String| {
            let wanted = !fenced || matches!(kind, FactKind::Path | FactKind::Url);
            !wanted || found(kind, text)
        };
        if !scan_line(line, &mut tell) {
            return;
        }
    }
}

/// Whether there is a wish for more.
fn scan_line(line: &str, found: &mut dyn FnMut(FactKind, String) -> bool) -> bool {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    // What is marked as one thing is one thing, blanks included; the other words are looked at without it.
    while let Some((at, open, close)) = next_mark(rest) {
        plain.push_str(&rest[..at]);
        let inside = &rest[at + open.len()..];
        let Some(end) = inside.find(close) else {
            plain.push_str(&rest[at..]);
            rest = "";
            break;
        };
        let marked = inside[..end].trim();
        let whole = match open {
            "`" => Some(classify(marked).unwrap_or(FactKind::Identifier)),
            // A link's target, without its heading and what it is called here.
            "[[" => Some(FactKind::Path),
            _ => Some(FactKind::Path).filter(|_| has_extension(marked) && !marked.contains("://")),
        };
        match whole {
            Some(kind) if !marked.is_empty() => {
                let name = if open == "[[" { marked.split(['|', '#']).next().unwrap_or_default().trim_end() } else { marked };
                if !name.is_empty() && !found(kind, name.to_owned()) {
                    return false;
                }
                plain.push_str(" \u{fffc} ");
            }
            // A quotation is words like any other.
            _ => {
                plain.push_str(open);
                rest = inside;
                continue;
            }
        }
        rest = &inside[end + close.len()..];
    }
    plain.push_str(rest);
    scan_words(&plain, found)
}

/// The next `` ` ``, `[[` or `"` and what closes it.
fn next_mark(text: &str) -> Option<(usize, &'static str, &'static str)> {
    const MARKS: [(&str, &str); 3] = [("`", "`"), ("[[", "]]"), ("\"", "\"")];
    let mut from = 0;
    while let Some(at) = text[from..].find(['`', '[', '"']).map(|at| at + from) {
        let mark = MARKS.iter().find(|(open, _)| text[at..].starts_with(open));
        if let Some((open, close)) = mark {
            return Some((at, open, close));
        }
        from = at + 1;
    }
    None
}

fn scan_words(line: &str, found: &mut dyn FnMut(FactKind, String) -> bool) -> bool {
    let separated = |c: char| c.is_whitespace() || matches!(c, '|' | '<' | '>' | '"' | '“' | '”' | '\u{fffc}');
    let words: Vec<&str> = line.split(separated).filter(|word| !word.is_empty()).collect();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        // `[text](target)`
        if let Some((_, target)) = word.split_once(']').and_then(|_| word.split_once("](")) {
            let target = trim(target);
            if let Some(kind) = classify(target)
                && !found(kind, target.to_owned())
            {
                return false;
            }
            at += 1;
            continue;
        }
        let (taken, fact) = at_word(&words[at..]);
        if let Some((kind, text)) = fact
            && !found(kind, text)
        {
            return false;
        }
        at += taken;
    }
    true
}

/// What begins with the first of these words, and how many of them it has.
fn at_word(words: &[&str]) -> (usize, Option<(FactKind, String)>) {
    let Some(first) = words.first() else { return (1, None) };
    let word = trim(first);
    if let Some(length) = date_words(words) {
        let date: Vec<&str> = words[..length].iter().map(|word| trim(word)).collect();
        return (length, Some((FactKind::Date, date.join(" "))));
    }
    // A unit belongs to the number if nothing stands between them.
    if first.ends_with(word)
        && is_number(without_currency(word))
        && let Some(unit) = words.get(1).map(|unit| trim(unit)).filter(|unit| is_unit(unit))
    {
        return (2, Some((FactKind::Number, format!("{word} {unit}"))));
    }
    (1, classify(word).map(|kind| (kind, word.to_owned())))
}

/// Without the marks around a word.
fn trim(word: &str) -> &str {
    let word = word.trim_start_matches(['(', '[', '{', '\'', '‘', '’', '«', '*', ',', ';', ':', '!', '?']);
    let end = |c: char| matches!(c, ')' | ']' | '}' | '\'' | '‘' | '’' | '»' | '*' | ',' | ';' | ':' | '!' | '?' | '.' | '…');
    let bare = word.trim_end_matches(end);
    // `main()` keeps what makes it a call.
    match word[bare.len()..].strip_prefix("()").or_else(|| word[bare.len()..].strip_prefix(')').filter(|_| bare.ends_with('('))) {
        Some(_) if word[bare.len()..].starts_with("()") => &word[..bare.len() + 2],
        Some(_) => &word[..=bare.len()],
        None => underscored(bare),
    }
}

/// `_word_` is emphasis, `_word` a name.
fn underscored(word: &str) -> &str {
    word.strip_prefix('_')
        .and_then(|word| word.strip_suffix('_'))
        .filter(|word| !word.is_empty() && !word.contains('_'))
        .unwrap_or(word)
}

/// What a single word is.
fn classify(word: &str) -> Option<FactKind> {
    if is_plain(word) { None } else { exact(word) }
}

fn exact(word: &str) -> Option<FactKind> {
    if word.is_empty() || word.contains(char::is_whitespace) {
        return has_extension(word).then_some(FactKind::Path);
    }
    if word.contains("://") {
        let (scheme, rest) = word.split_once("://")?;
        let named = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
        return (named && !rest.is_empty()).then_some(FactKind::Url);
    }
    if let Some(rest) = word.strip_prefix("www.") {
        return rest.contains('.').then_some(FactKind::Url);
    }
    if is_date(word) {
        return Some(FactKind::Date);
    }
    if let Some(kind) = number_kind(word) {
        return Some(kind);
    }
    if is_path(word) {
        return Some(FactKind::Path);
    }
    is_identifier(word).then_some(FactKind::Identifier)
}

/// Whether it is letters alone, none but the first a capital: most words are, and none of them is exact.
fn is_plain(word: &str) -> bool {
    let mut bytes = word.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic()) && bytes.all(|byte| byte.is_ascii_lowercase())
}

fn has_extension(word: &str) -> bool {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    name.rsplit_once('.').is_some_and(|(stem, extension)| {
        !stem.is_empty() && EXTENSIONS.binary_search(&extension.to_ascii_lowercase().as_str()).is_ok()
    })
}

fn is_path(word: &str) -> bool {
    if has_extension(word) {
        return true;
    }
    let rooted = ["/", "./", "../", "~/"].iter().any(|root| word.len() > root.len() && word.starts_with(root));
    let drive = word.as_bytes().get(1..3) == Some(b":\\") || word.starts_with("\\\\");
    let slashes = word.matches('/').count();
    let parts = || word.split('/').filter(|part| !part.is_empty());
    let letters = word.contains(char::is_alphanumeric);
    // `and/or` and `km/h` are words; a folder has more to it.
    let folders = slashes > 1 || (slashes == 1 && (word.ends_with('/') || word.contains(['_', '-', '.'])));
    letters && (rooted || drive || (folders && parts().count() > 0 && !word.contains("//")))
}

fn is_identifier(word: &str) -> bool {
    let name = word.strip_suffix("()").unwrap_or(word);
    let inner = |pattern: &str| {
        name.split_once(pattern).is_some_and(|(a, b)| {
            a.ends_with(|c: char| c.is_ascii_alphanumeric()) && b.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    if name.len() < word.len() && !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | ':')) {
        return true;
    }
    if let Some(flag) = word.strip_prefix("--") {
        return flag.starts_with(|c: char| c.is_ascii_alphabetic());
    }
    if let Some(number) = word.strip_prefix('#') {
        return !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    }
    if let Some((user, host)) = word.split_once('@') {
        return !user.is_empty() && host.contains('.');
    }
    let ascii = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '+');
    if !name.chars().all(ascii) {
        return false;
    }
    let humps = name.as_bytes().windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    let mixed =
        name.len() >= 4 && name.contains(|c: char| c.is_ascii_digit()) && name.contains(|c: char| c.is_ascii_alphabetic());
    let version = name.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.contains('.'));
    inner("::") || inner("_") || humps || version || (mixed && !is_ordinal(name))
}

fn is_ordinal(word: &str) -> bool {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && matches!(&word[digits.len()..], "st" | "nd" | "rd" | "th")
}

fn without_currency(word: &str) -> &str {
    word.strip_prefix(['$', '€', '£', '¥', '~', '≈', '±', '+', '-', '−', '<', '>', '=']).unwrap_or(word)
}

fn begins_with_digit(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}

/// Digits with separators.
fn is_number(word: &str) -> bool {
    begins_with_digit(word)
        && word.ends_with(|c: char| c.is_ascii_digit())
        && word.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b',' | b'\'' | b'_'))
}

/// A word that begins with a number: with a unit at its end, a version, or long enough to matter by itself.
fn number_kind(word: &str) -> Option<FactKind> {
    let bare = without_currency(word);
    if !begins_with_digit(bare) {
        return None;
    }
    let digits = bare.trim_end_matches(|c: char| c.is_alphabetic() || matches!(c, '%' | '°' | '€' | '$' | '/' | '²' | '³'));
    let unit = &bare[digits.len()..];
    if !is_number(digits) {
        return None;
    }
    if digits.matches('.').count() > 1 {
        return Some(FactKind::Identifier);
    }
    let priced = word.starts_with(['$', '€', '£', '¥']);
    let counted = digits.bytes().filter(u8::is_ascii_digit).count() >= 3 || digits.contains('.');
    let quantity = if unit.is_empty() { priced || counted } else { is_unit(unit) || matches!(unit, "€" | "$" | "x" | "M") };
    quantity.then_some(FactKind::Number)
}

fn is_unit(word: &str) -> bool {
    word.len() <= 8 && UNITS.contains(&word.to_lowercase().as_str())
}

/// `2026-11-15`, `15.11.2026`, `11/15/2026`, `14:30`, with or without a time behind it.
fn is_date(word: &str) -> bool {
    if !begins_with_digit(word) {
        return false;
    }
    let day = word.split('T').next().unwrap_or(word);
    let numbers = |text: &str, mark: char| -> Option<Vec<usize>> {
        let parts: Vec<&str> = text.split(mark).collect();
        let digits = parts.iter().all(|part| (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit()));
        digits.then(|| parts.iter().map(|part| part.len()).collect())
    };
    let is_day = |mark: char, year_first: bool| match numbers(day, mark).as_deref() {
        Some([year, 1..=2, 1..=2]) if year_first => *year == 4,
        Some([1..=2, 1..=2, year]) if !year_first => *year == 4,
        _ => false,
    };
    let clock = word.strip_suffix("am").or_else(|| word.strip_suffix("pm")).unwrap_or(word);
    let time = matches!(numbers(clock, ':').as_deref(), Some([1..=2, 2] | [1..=2, 2, 2]));
    is_day('-', true) || is_day('/', true) || is_day('.', false) || is_day('/', false) || time
}

/// How many words a date written out has: `15 November 2026`, `November 15, 2026`, `Nov 15`, `March 2026`.
fn date_words(words: &[&str]) -> Option<usize> {
    let word = |at: usize| words.get(at).map(|word| trim(word)).unwrap_or_default();
    if !word(0).starts_with(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase()) {
        return None;
    }
    let day = |at: usize| {
        let digits = word(at).trim_end_matches(|c: char| c.is_ascii_alphabetic());
        (1..=2).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && matches!(&word(at)[digits.len()..], "" | "st" | "nd" | "rd" | "th")
    };
    let month = |at: usize| is_month(word(at));
    let year = |at: usize| word(at).len() == 4 && word(at).bytes().all(|byte| byte.is_ascii_digit());
    // What stands in another sentence does not belong to it.
    let goes_on = |at: usize| words.get(at).is_some_and(|word| !word.ends_with(['!', '?', ';', ')']));
    let with_year = |length: usize| if goes_on(length - 1) && year(length) { length + 1 } else { length };
    match () {
        () if day(0) && goes_on(0) && month(1) => Some(with_year(2)),
        () if month(0) && goes_on(0) && day(1) => Some(with_year(2)),
        () if month(0) && goes_on(0) && year(1) => Some(2),
        () => None,
    }
}

/// `may` and `march` are months only with a capital.
fn is_month(word: &str) -> bool {
    let is = |month: &&str| word.eq_ignore_ascii_case(month);
    word.starts_with(|c: char| c.is_ascii_uppercase()) && (is(&"december") || MONTHS.iter().any(is))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn extensions_are_in_order() {
        assert!(EXTENSIONS.is_sorted());
    }

    proptest! {
        #[test]
        fn what_is_plain_is_not_exact(word in "[A-Za-z][a-z]{0,12}") {
            prop_assert!(is_plain(&word));
            prop_assert_eq!(exact(&word), None);
        }
    }
}
