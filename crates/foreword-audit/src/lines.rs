//! The lines of a log, one at a time: a log of any size takes the memory of its longest line.

use std::io::{self, BufRead};

use serde::Deserialize;

use crate::log::Lines;

/// A longer line is skipped: whatever it is, it is no record of a call.
const LONGEST: usize = 64 << 20;

/// Reads lines of JSON, mends those that are nearly JSON, and counts those that are not.
pub(crate) struct JsonLines<R> {
    from: R,
    line: Vec<u8>,
    mended: Vec<u8>,
    /// How they were read so far.
    pub(crate) lines: Lines,
}

impl<R: BufRead> JsonLines<R> {
    pub(crate) fn new(from: R) -> Self {
        Self { from, line: Vec::new(), mended: Vec::new(), lines: Lines::default() }
    }

    /// Goes to the next line that is not empty; its number, from 1. Ends at the end, or where the file can no longer be read.
    pub(crate) fn advance(&mut self) -> Option<u32> {
        let mut number = u32::try_from(self.lines.read).unwrap_or(u32::MAX);
        loop {
            let found = read_line(&mut self.from, &mut self.line, LONGEST).ok()?;
            number = number.saturating_add(1);
            self.lines.read += 1;
            match found {
                LineRead::End => {
                    self.lines.read -= 1;
                    return None;
                }
                LineRead::Line if self.line.iter().all(u8::is_ascii_whitespace) => {}
                LineRead::Line => return Some(number),
                LineRead::TooLong => self.lines.skipped += 1,
            }
        }
    }

    /// Takes a whole text as one line.
    pub(crate) fn take_all(&mut self, text: &[u8]) {
        self.line.clear();
        self.line.extend_from_slice(text);
        self.lines.read += 1;
    }

    /// The current line as it stands.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.line
    }

    /// The current line as a `T`; one that is no such thing is counted as skipped.
    pub(crate) fn parse<'a, T: Deserialize<'a>>(&'a mut self) -> Option<T> {
        if let Ok(value) = serde_json::from_slice(&self.line) {
            return Some(value);
        }
        mend(&self.line, &mut self.mended);
        let value = serde_json::from_slice(&self.mended).ok();
        if value.is_some() {
            self.lines.mended += 1;
        } else {
            self.lines.skipped += 1;
        }
        value
    }
}

enum LineRead {
    Line,
    TooLong,
    End,
}

/// Reads up to the end of a line, which is left out. Of a line that is too long, only its end is looked for.
fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>, longest: usize) -> io::Result<LineRead> {
    line.clear();
    let mut length = 0;
    loop {
        let bytes = match from.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            bytes => bytes?,
        };
        if bytes.is_empty() {
            return Ok(match length {
                0 => LineRead::End,
                length if length > longest => LineRead::TooLong,
                _ => LineRead::Line,
            });
        }
        let end = memchr::memchr(b'\n', bytes);
        let part = &bytes[..end.unwrap_or(bytes.len())];
        length += part.len();
        if length <= longest {
            line.extend_from_slice(part);
        } else {
            line.clear();
        }
        let used = part.len() + usize::from(end.is_some());
        from.consume(used);
        if end.is_some() {
            return Ok(if length > longest { LineRead::TooLong } else { LineRead::Line });
        }
        length = length.max(1); // an end without a line break is a line as well
    }
}

/// Mends what programs get wrong in JSON: escapes that there are not (`\x`), control characters in texts, bytes that are not UTF-8.
fn mend(line: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let text = String::from_utf8_lossy(line);
    let mut bytes = text.bytes().peekable();
    let mut quoted = false;
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                quoted = !quoted;
                out.push(byte);
            }
            b'\\' if quoted => match bytes.peek().copied() {
                Some(next @ (b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')) => {
                    out.extend([byte, next]);
                    bytes.next();
                }
                Some(b'u') => {
                    let rest: Vec<u8> = bytes.clone().skip(1).take(4).collect();
                    let whole = rest.len() == 4 && rest.iter().all(u8::is_ascii_hexdigit);
                    out.extend_from_slice(if whole { b"\\" } else { b"\\\\" });
                }
                _ => out.extend_from_slice(b"\\\\"),
            },
            0..0x20 if quoted => out.push(b' '),
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, serde::Deserialize)]
    #[serde(default)]
    struct Record {
        a: String,
    }

    fn read(text: &[u8]) -> (Vec<(u32, String)>, Lines) {
        let mut lines = JsonLines::new(io::BufReader::with_capacity(7, text));
        let mut found = Vec::new();
        while let Some(number) = lines.advance() {
            if let Some(record) = lines.parse::<Record>() {
                found.push((number, record.a));
            }
        }
        (found, lines.lines)
    }

    fn check(text: impl AsRef<[u8]>, expect: &[(u32, &str)], mended: u64, skipped: u64) {
        let (found, lines) = read(text.as_ref());
        let expect: Vec<(u32, String)> = expect.iter().map(|(number, text)| (*number, (*text).to_owned())).collect();
        assert_eq!(found, expect);
        assert_eq!((lines.mended, lines.skipped), (mended, skipped));
    }

    #[test]
    fn lines_are_read_mended_or_counted() {
        check("", &[], 0, 0);
        check("{\"a\":\"1\"}", &[(1, "1")], 0, 0);
        check("{\"a\":\"1\"}\n\n{\"a\":\"2\"}\r\n", &[(1, "1"), (3, "2")], 0, 0);
        check("{\"a\":\"1\"}\n{\"a\":\"2", &[(1, "1")], 0, 1);
        check("{\"a\":\"\\x\"}\n{\"a\":\"\\u12\"}", &[(1, "\\x"), (2, "\\u12")], 2, 0);
        check("{\"a\":\"\\u0041\\\"\\x\"}", &[(1, "A\"\\x")], 1, 0);
        check(b"{\"a\":\"\xff\"}", &[(1, "\u{fffd}")], 1, 0);
        check("{\"a\":\"1\t2\"}\nnonsense", &[(1, "1 2")], 1, 1);
    }

    #[test]
    fn long_lines_are_passed_over() {
        let mut from = io::BufReader::with_capacity(4, &b"123456\n12\n1234567"[..]);
        let mut line = Vec::new();
        let mut kinds = Vec::new();
        loop {
            match read_line(&mut from, &mut line, 3).unwrap() {
                LineRead::Line => kinds.push(String::from_utf8(line.clone()).unwrap()),
                LineRead::TooLong => kinds.push("too long".to_owned()),
                LineRead::End => break,
            }
        }
        assert_eq!(kinds, ["too long", "12", "too long"]);
    }
}
