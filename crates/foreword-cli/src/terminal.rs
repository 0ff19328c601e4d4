//! All output of the program passes through this module. On a terminal, only colours pass: nothing can move the cursor, change the
//! title, write to the clipboard or change the writing direction. In a pipe or a file, bytes are unchanged.

use std::fmt::Arguments;
use std::io::{self, IsTerminal as _, Write};
use std::sync::OnceLock;

use crate::paint::is_unsafe;

/// Replaces a character that a terminal must not receive.
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// The longest sequence that sets a colour.
const MAX_COLOUR: usize = 16;

/// Writes a line to standard output, like the macro of the standard library, but through [`stdout`].
macro_rules! println {
    () => { println!("") };
    ($($text:tt)*) => { $crate::terminal::line($crate::terminal::stdout(), format_args!($($text)*)) };
}

/// Writes a line to standard error, like the macro of the standard library, but through [`stderr`].
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::terminal::line($crate::terminal::stderr(), format_args!($($text)*)) };
}

/// Writes to standard error, like the macro of the standard library, but through [`stderr`].
macro_rules! eprint {
    ($($text:tt)*) => { $crate::terminal::text($crate::terminal::stderr(), format_args!($($text)*)) };
}

/// One of the two outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

#[allow(clippy::disallowed_methods)] // the one place that may
impl Stream {
    /// Whether the stream is a terminal.
    pub(crate) fn is_terminal(self) -> bool {
        match self {
            Self::Stdout => io::stdout().is_terminal(),
            Self::Stderr => io::stderr().is_terminal(),
        }
    }

    fn lock(self) -> Box<dyn Write> {
        match self {
            Self::Stdout => Box::new(Watched(io::stdout().lock())),
            Self::Stderr => Box::new(io::stderr().lock()),
        }
    }

    fn output(self, colours: Colours) -> Output<Box<dyn Write>> {
        Output::new(self.lock(), self.is_terminal().then_some(colours))
    }
}

/// Standard output for text that the program formats. Colours pass.
pub(crate) fn stdout() -> Output<Box<dyn Write>> {
    Stream::Stdout.output(Colours::Pass)
}

/// Standard output for text from outside. On a terminal, colours are removed too.
pub(crate) fn plain_stdout() -> Output<Box<dyn Write>> {
    Stream::Stdout.output(Colours::Replaced)
}

/// Standard error. Colours pass.
pub(crate) fn stderr() -> Output<Box<dyn Write>> {
    Stream::Stderr.output(Colours::Pass)
}

/// The first failure of standard output, of which a process has one.
static FAILURE: OnceLock<Failure> = OnceLock::new();

/// Why standard output took no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Whoever read it has seen enough.
    ReaderGone,
    /// The disk is full, say.
    Other(String),
}

/// Why something that was written to standard output did not get there, if so.
pub(crate) fn failure() -> Option<&'static Failure> {
    FAILURE.get()
}

/// Remembers that writing failed, whatever becomes of the error.
struct Watched<W>(W);

impl<W> Watched<W> {
    fn seen<T>(result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            let failure = match error.kind() {
                io::ErrorKind::BrokenPipe => Failure::ReaderGone,
                io::ErrorKind::Interrupted => return result,
                _ => Failure::Other(error.to_string()),
            };
            // The first failure is the one to report.
            let _ = FAILURE.set(failure);
        }
        result
    }
}

impl<W: Write> Write for Watched<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::seen(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Self::seen(self.0.flush())
    }
}

/// Writes a line. A failure of standard output is told at the end of the program.
pub(crate) fn line(mut out: impl Write, text: Arguments<'_>) {
    let _ = writeln!(out, "{text}");
}

/// Writes text that does not end its line.
pub(crate) fn text(mut out: impl Write, text: Arguments<'_>) {
    // A closed output is not an error; `FAILURE` keeps all others.
    let _ = out.write_fmt(text).and_then(|()| out.flush());
}

/// Clears the line of a progress display on standard error, which is a terminal, and writes `text` there.
#[allow(clippy::disallowed_methods)] // the cursor moves on purpose
pub(crate) fn rewrite_line(text: &str) {
    let safe = Output::new(Vec::new(), Some(Colours::Replaced)).finished(text);
    let _ = write!(io::stderr(), "\r\x1b[K{safe}");
}

/// How escape sequences for colours are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Colours {
    Pass,
    Replaced,
}

/// Filters output for a terminal, or passes everything if there is none.
pub(crate) struct Output<W: Write> {
    out: W,
    /// `None` if the output is not a terminal.
    colours: Option<Colours>,
    /// Bytes that may be the start of a character, of a colour or of a line break.
    held: Vec<u8>,
}

impl<W: Write> Output<W> {
    fn new(out: W, colours: Option<Colours>) -> Self {
        Self { out, colours, held: Vec::new() }
    }

    /// Takes all of `bytes` that can be judged out of it and gives what is safe of that.
    fn filtered(colours: Colours, bytes: &mut Vec<u8>, is_end: bool) -> Vec<u8> {
        let mut safe = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let Some((c, length)) = character(rest, is_end) else { break };
            match (c, rest.get(length)) {
                // A line break of another system is one, too.
                (Some('\r'), Some(b'\n')) => {}
                (Some('\r'), None) if !is_end => break,
                (Some('\u{1b}'), _) if colours == Colours::Pass => match colour(rest) {
                    Colour::Is(length) => {
                        safe.extend_from_slice(&rest[..length]);
                        at += length;
                        continue;
                    }
                    Colour::MayBe if !is_end => break,
                    Colour::MayBe | Colour::IsNot => safe.extend_from_slice(REPLACEMENT),
                },
                (Some(c), _) if !is_unsafe(c) || matches!(c, '\n' | '\t') => safe.extend_from_slice(&rest[..length]),
                _ => safe.extend_from_slice(REPLACEMENT),
            }
            at += length;
        }
        bytes.drain(..at);
        safe
    }

    fn release(&mut self) -> io::Result<()> {
        let Some(colours) = self.colours else { return Ok(()) };
        let safe = Self::filtered(colours, &mut self.held, true);
        self.out.write_all(&safe)
    }
}

impl Output<Vec<u8>> {
    fn finished(mut self, text: &str) -> String {
        // Writing to memory cannot fail.
        let _ = self.write_all(text.as_bytes()).and_then(|()| self.release());
        String::from_utf8_lossy(&self.out).into_owned()
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(colours) = self.colours else { return self.out.write(bytes) };
        self.held.extend_from_slice(bytes);
        let safe = Self::filtered(colours, &mut self.held, false);
        self.out.write_all(&safe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> Drop for Output<W> {
    fn drop(&mut self) {
        // `FAILURE` keeps what went wrong.
        let _ = self.release().and_then(|()| self.out.flush());
    }
}

/// The first character and its length, without a character if the bytes are none. Nothing if the rest of it may follow.
fn character(bytes: &[u8], is_end: bool) -> Option<(Option<char>, usize)> {
    let start = &bytes[..bytes.len().min(4)];
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() > 0 => std::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default(),
        Err(error) => match error.error_len() {
            Some(length) => return Some((None, length)),
            None if is_end => return Some((None, start.len())),
            None => return None,
        },
    };
    text.chars().next().map(|c| (Some(c), c.len_utf8()))
}

/// What the bytes from an escape on are.
enum Colour {
    /// A colour or weight that the program itself uses, so many bytes long.
    Is(usize),
    /// The start of one, perhaps.
    MayBe,
    /// Something else.
    IsNot,
}

fn colour(bytes: &[u8]) -> Colour {
    let Some(inner) = bytes.get(1..) else { return Colour::MayBe };
    let Some((bracket, inner)) = inner.split_first() else { return Colour::MayBe };
    if *bracket != b'[' {
        return Colour::IsNot;
    }
    let length = inner.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
    match inner.get(length) {
        _ if length > MAX_COLOUR => Colour::IsNot,
        None => Colour::MayBe,
        Some(b'm') if inner[..length].split(|byte| *byte == b';').all(is_harmless) => Colour::Is(length + 3),
        Some(_) => Colour::IsNot,
    }
}

/// Weights and colours of the text. Not what hides it, and no colour of the ground, which can hide it too.
fn is_harmless(code: &[u8]) -> bool {
    matches!(code, b"" | b"0" | b"1" | b"2" | b"3" | b"4" | b"7" | b"9")
        || matches!(code, [b'3', b'1'..=b'7' | b'9'] | [b'9', b'1'..=b'7'] | [b'2', b'2'..=b'9'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(colours: Option<Colours>, pieces: &[&[u8]]) -> String {
        let mut bytes = Vec::new();
        let mut out = Output::new(&mut bytes, colours);
        for piece in pieces {
            out.write_all(piece).unwrap();
        }
        drop(out);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[test]
    fn attacks_do_not_reach_a_terminal_and_data_is_not_changed_elsewhere() {
        let check = |text: &str, expect: &str| {
            for colours in [Colours::Pass, Colours::Replaced] {
                assert_eq!(written(Some(colours), &[text.as_bytes()]), expect, "{text:?}");
                // However the bytes are cut into pieces.
                let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
                assert_eq!(written(Some(colours), &bytes), expect, "{text:?} byte by byte");
            }
            assert_eq!(written(None, &[text.as_bytes()]), text);
        };
        check("plain\ttext\né 漢字 👨‍👩‍👧 שלום\n", "plain\ttext\né 漢字 👨‍👩‍👧 שלום\n");
        check("a\r\nb", "a\nb");
        check("\u{1b}]52;c;ZXZpbA==\u{7}", "�]52;c;ZXZpbA==�");
        check("\u{1b}]0;title\u{1b}\\", "�]0;title�\\");
        check("\u{1b}]8;;http://evil.example\u{1b}\\text\u{1b}]8;;\u{1b}\\", "�]8;;http://evil.example�\\text�]8;;�\\");
        check("\u{1b}[2J\u{1b}[H\u{1b}[1A\u{1b}[2K", "�[2J�[H�[1A�[2K");
        check("\u{1b}[8mhidden\u{1b}[30;40m", "�[8mhidden�[30;40m");
        check("\u{1b}[38;5;0m\u{1b}[0;8m", "�[38;5;0m�[0;8m");
        check("\u{1b}c\u{1b}P1$r\u{1b}_x\u{1b}^y\u{1b}(0", "�c�P1$r�_x�^y�(0");
        check("\u{9b}2J\u{9d}0;t\u{9c}\u{90}", "�2J�0;t��");
        check("safe\rEVIL", "safe�EVIL");
        check("a\u{8}\u{8}b\u{7f}\u{b}\u{c}\u{0}\u{5}\u{e}", "a��b������");
        check(
            "a\u{202e}b\u{202a}\u{202b}\u{202c}\u{202d}\u{2066}\u{2067}\u{2068}\u{2069}\u{200e}\u{200f}\u{61c}",
            "a�b�����������",
        );
        check("end\u{1b}", "end�");
        check("end\r", "end�");
        check("end\u{1b}[3", "end�[3");
        check(&format!("\u{1b}[{}m", "1;".repeat(50)), &format!("�[{}m", "1;".repeat(50)));
    }

    #[test]
    fn colours_pass_where_the_program_lays_text_out() {
        let text = "\u{1b}[1;36mForeword\u{1b}[0m \u{1b}[31merror\u{1b}[m\n";
        assert_eq!(written(Some(Colours::Pass), &[text.as_bytes()]), text);
        assert_eq!(written(Some(Colours::Pass), &text.as_bytes().chunks(1).collect::<Vec<_>>()), text);
        assert_eq!(written(Some(Colours::Replaced), &[b"\x1b[1mx"]), "�[1mx");
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(written(Some(Colours::Pass), &[b"a\xff\xc3", b"(b\xe2\x80"]), "a��(b�");
        assert_eq!(written(None, &[b"a\xffb"]), "a�b");
    }
}
