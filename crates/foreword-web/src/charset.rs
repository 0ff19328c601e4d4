//! Bytes to text: by byte order mark, by what the server says, by what the page says of itself, else by what fits.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// How far into a page its own declaration is looked for.
const DECLARED_WITHIN: usize = 2048;

/// Decodes `bytes`; what cannot be decoded becomes U+FFFD.
pub(super) fn decode(bytes: &[u8], charset: Option<&str>) -> String {
    if let Some((encoding, _)) = Encoding::for_bom(bytes) {
        return encoding.decode(bytes).0.into_owned();
    }
    let named = charset.and_then(|label| Encoding::for_label(label.as_bytes()));
    let encoding = named
        .or_else(|| declared(bytes))
        .unwrap_or_else(|| if std::str::from_utf8(bytes).is_ok() { UTF_8 } else { WINDOWS_1252 });
    encoding.decode_without_bom_handling(bytes).0.into_owned()
}

/// `<meta charset="…">`, `<meta … content="text/html; charset=…">`, `<?xml … encoding="…"?>`
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let start: String = bytes.iter().take(DECLARED_WITHIN).map(|byte| char::from(byte.to_ascii_lowercase())).collect();
    let markup = start.find("<meta").or_else(|| start.find("<?xml"))?;
    let start = &start[markup..];
    let label = ["charset=", "encoding="].iter().find_map(|key| start.find(key).map(|at| &start[at + key.len()..]))?;
    let label = label.trim_start_matches(['"', '\'', ' ']);
    let end = label.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | ':')).unwrap_or(label.len());
    Encoding::for_label(&label.as_bytes()[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings() {
        let check = |bytes: &[u8], charset: Option<&str>, expect: &str| assert_eq!(decode(bytes, charset), expect, "{charset:?}");
        check("naïve".as_bytes(), None, "naïve");
        check(b"na\xefve", None, "naïve");
        check(b"na\xefve", Some("iso-8859-1"), "naïve");
        check(b"\xcf\xf0\xe8", Some("windows-1251"), "При");
        check(b"\x93\xfa\x96\x7b", Some("shift_jis"), "日本");
        check(b"\xff\xfeh\0i\0", Some("utf-8"), "hi");
        check(b"\xef\xbb\xbfhi", None, "hi");
        check(b"<meta charset=\"windows-1251\">\xcf", None, "<meta charset=\"windows-1251\">П");
        check(
            b"<META http-equiv=x content='text/html; charset=KOI8-R'>\xf0",
            None,
            "<META http-equiv=x content='text/html; charset=KOI8-R'>П",
        );
        check(b"<?xml version='1.0' encoding='iso-8859-2'?>\xb1", None, "<?xml version='1.0' encoding='iso-8859-2'?>ą");
        check(b"\xff\xff", Some("no-such"), "ÿÿ");
        check(b"a\xffb", Some("utf-8"), "a\u{fffd}b");
    }
}
