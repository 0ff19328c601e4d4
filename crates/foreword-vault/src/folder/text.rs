//! From the bytes of a file to text in one form: UTF-8, `\n` at line ends, no byte order mark.

/// The text of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Line ends are `\n`; there is no byte order mark.
    pub text: String,
    /// What was wrong with its bytes.
    pub fault: Option<&'static str>,
}

const LOSSY: &str = "not UTF-8: unreadable bytes are shown as \u{fffd}; save it as UTF-8";
const LOSSY_16: &str = "invalid UTF-16: unreadable parts are shown as \u{fffd}; save it as UTF-8";

const ZEROS: &str = "it contains zero bytes: either UTF-16 without a byte order mark, or not text; save it as UTF-8";

impl Text {
    /// Reads UTF-8, or UTF-16 where a byte order mark says so, or zero bytes in every other place do.
    pub fn decode(bytes: Vec<u8>) -> Self {
        let is_even = bytes.len().is_multiple_of(2);
        let (text, fault) = match bytes.as_slice() {
            [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
            [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
            _ => match zeros(&bytes) {
                [0, odd] if is_even && odd * 4 > bytes.len() => utf16(&bytes, u16::from_le_bytes),
                [even, 0] if is_even && even * 4 > bytes.len() => utf16(&bytes, u16::from_be_bytes),
                [0, 0] => utf8(bytes),
                _ => {
                    let (text, fault) = utf8(bytes);
                    (text, fault.or(Some(ZEROS)))
                }
            },
        };
        Self { text: with_plain_line_ends(text), fault }
    }
}

/// How many zero bytes stand in even places and in odd ones.
fn zeros(bytes: &[u8]) -> [usize; 2] {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let count = |place: usize| pairs.iter().filter(|pair| pair[place] == 0).count();
    [count(0) + usize::from(rest == [0]), count(1)]
}

fn utf8(mut bytes: Vec<u8>) -> (String, Option<&'static str>) {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    match String::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), Some(LOSSY)),
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> (String, Option<&'static str>) {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let mut fault = (!rest.is_empty()).then_some(LOSSY_16);
    let chars = char::decode_utf16(pairs.iter().map(|pair| unit(*pair)));
    let text = chars
        .map(|c| {
            c.unwrap_or_else(|_| {
                fault = Some(LOSSY_16);
                char::REPLACEMENT_CHARACTER
            })
        })
        .collect();
    (text, fault)
}

fn with_plain_line_ends(text: String) -> String {
    if !text.contains('\r') {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((line, after)) = rest.split_once('\r') {
        out.push_str(line);
        out.push('\n');
        rest = after.strip_prefix('\n').unwrap_or(after);
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_form() {
        fn check(bytes: &[u8], text: &str, faulty: bool) {
            let read = Text::decode(bytes.to_vec());
            assert_eq!((read.text.as_str(), read.fault.is_some()), (text, faulty), "{bytes:?}");
        }
        check(b"", "", false);
        check(b"a\r\nb\rc\n\r\nd\r", "a\nb\nc\n\nd\n", false);
        check(b"\xef\xbb\xbfa", "a", false);
        check(b"a\xffb", "a\u{fffd}b", true);
        check(b"\xff\xfea\0\xe9\0", "aé", false);
        check(b"\xfe\xff\0a\xd8\x3d\xde\x00", "a😀", false);
        check(b"\xff\xfea\0b", "a", true);
        check(b"\xff\xfe\x00\xd8", "\u{fffd}", true);
        check(b"\xff\xfe", "", false);
    }

    #[test]
    fn utf_16_without_a_mark_was_read_as_text_with_zeros() {
        fn check(bytes: &[u8], text: &str, faulty: bool) {
            let read = Text::decode(bytes.to_vec());
            assert_eq!((read.text.as_str(), read.fault.is_some()), (text, faulty), "{bytes:?}");
        }
        check(b"#\0 \0\xe9\0\n\0", "# é\n", false);
        check(b"\0#\0 \0\xe9", "# é", false);
        check(b"a\0b\0\xac\x20", "ab€", false);
        check(b"a\0b", "a\0b", true);
        check(b"abcdefgh\0", "abcdefgh\0", true);
        check(b"\0\0\0\0", "\0\0\0\0", true);
    }
}
