//! Parses server-sent events from bytes in pieces of any size. Providers use a part of the standard: a frame is a group of `event:`
//! and `data:` lines up to an empty line. The size of a frame is limited.

/// A server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Its name; empty if there is none.
    pub event: String,
    /// Its data; lines are joined by line feeds.
    pub data: String,
}

/// A frame exceeds the size limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stream event is longer than {max} bytes")]
pub struct FrameTooLong {
    /// The limit in bytes.
    pub max: usize,
}

/// Parses frames. The result does not depend on how the bytes are split.
#[derive(Debug)]
pub struct SseReader {
    max: usize,
    line: Vec<u8>,
    frame: Frame,
    has_data: bool,
    /// Whether the last byte was a carriage return, to which a line feed may belong.
    after_cr: bool,
    first_line: bool,
}

impl SseReader {
    /// A reader with a limit of `max` bytes per frame.
    pub fn new(max: usize) -> Self {
        Self { max, line: Vec::new(), frame: Frame::default(), has_data: false, after_cr: false, first_line: true }
    }

    /// Adds bytes; `each` receives the complete frames.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Frame)) -> Result<(), FrameTooLong> {
        let mut rest = bytes;
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.take(&rest[..end])?;
            let cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if cr {
                self.after_cr = rest.is_empty();
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
            if let Some(frame) = self.end_line() {
                each(frame);
            }
        }
        self.take(rest)
    }

    /// The last frame, if the stream ended without an empty line.
    pub fn finish(&mut self) -> Option<Frame> {
        let last = if self.line.is_empty() { None } else { self.end_line() };
        last.or_else(|| self.end_frame())
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), FrameTooLong> {
        if self.line.len() + self.frame.data.len() + bytes.len() > self.max {
            return Err(FrameTooLong { max: self.max });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Option<Frame> {
        let bytes = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&bytes);
        let mut line = &*text;
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            return self.end_frame();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.frame.data.push('\n');
                }
                self.has_data = true;
                self.frame.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.frame.event),
            // Comments, `id` and `retry`: nothing here is resumed.
            _ => {}
        }
        None
    }

    fn end_frame(&mut self) -> Option<Frame> {
        let frame = std::mem::take(&mut self.frame);
        std::mem::take(&mut self.has_data).then_some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames(chunks: &[&[u8]]) -> Vec<Frame> {
        let mut reader = SseReader::new(1 << 16);
        let mut all = Vec::new();
        for chunk in chunks {
            reader.push(chunk, |frame| all.push(frame)).unwrap();
        }
        all.extend(reader.finish());
        all
    }

    fn check(text: &str, expect: &[(&str, &str)]) {
        let found = frames(&[text.as_bytes()]);
        let found: Vec<(&str, &str)> = found.iter().map(|frame| (&*frame.event, &*frame.data)).collect();
        assert_eq!(found, expect, "{text:?}");
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        let single = frames(&bytes);
        assert_eq!(
            single.iter().map(|frame| (&*frame.event, &*frame.data)).collect::<Vec<_>>(),
            expect,
            "{text:?}, byte by byte"
        );
    }

    #[test]
    fn the_standard_and_what_servers_make_of_it() {
        check("data: a\n\n", &[("", "a")]);
        check("event: x\ndata: a\n\ndata:b\n\n", &[("x", "a"), ("", "b")]);
        check("event: x\r\ndata: a\r\n\r\n", &[("x", "a")]);
        check("data: a\r\rdata: b\r\r", &[("", "a"), ("", "b")]);
        check("data: a\ndata:  b\n\n", &[("", "a\n b")]);
        check("\u{feff}data: a\n\n", &[("", "a")]);
        check(": ping\n\n: ping\ndata: a\n\n", &[("", "a")]);
        check("event: gone\n\ndata: a\n\n", &[("", "a")]);
        check("data\n\n", &[("", "")]);
        check("data: é🎹\n\n", &[("", "é🎹")]);
        check("id: 1\nretry: 5\ndata: a\n\n", &[("", "a")]);
        check("data: a\n", &[("", "a")]);
        check("data: a", &[("", "a")]);
        check("", &[]);
    }

    #[test]
    fn a_frame_is_bounded() {
        let mut reader = SseReader::new(10);
        let endless = |reader: &mut SseReader, bytes: &[u8]| (0..10).any(|_| reader.push(bytes, |_| {}).is_err());
        assert!(endless(&mut reader, b"xx"));
        assert!(endless(&mut SseReader::new(10), b"data:x\n"));
        assert!(!endless(&mut SseReader::new(10), b"data:x\n\n"));
    }

    proptest! {
        #[test]
        fn where_bytes_are_cut_changes_nothing(
            lines in prop::collection::vec("(data: ?|event: ?|:|)[a-zé\u{feff}\"{}]{0,6}(\n|\r|\r\n)|\n", 0..20),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let bytes = lines.concat().into_bytes();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            at.push(bytes.len());
            at.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for to in at {
                chunks.push(&bytes[from..to]);
                from = to;
            }
            prop_assert_eq!(frames(&chunks), frames(&[&bytes]));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = frames(&[&bytes]);
        }
    }
}
