//! From the bytes of tokens to text, as soon as a character is whole.

/// Bytes that are not yet a whole character, of a text that comes in parts.
#[derive(Default)]
pub(super) struct Characters {
    rest: Vec<u8>,
}

impl Characters {
    /// What becomes readable with `bytes`; what can be no character is replaced.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        self.rest.extend(bytes);
        let mut text = String::new();
        let mut taken = 0;
        for chunk in self.rest.utf8_chunks() {
            text.push_str(chunk.valid());
            taken += chunk.valid().len();
            let invalid = chunk.invalid();
            // The last bytes may be the start of a character, which `from_utf8` tells by giving no length of an error.
            let open = taken + invalid.len() == self.rest.len()
                && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if invalid.is_empty() || open {
                break;
            }
            text.push(char::REPLACEMENT_CHARACTER);
            taken += invalid.len();
        }
        self.rest.drain(..taken);
        text
    }

    /// What is left at the end.
    pub(super) fn finish(self) -> &'static str {
        if self.rest.is_empty() { "" } else { "\u{fffd}" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(parts: &[&[u8]], expect: &[&str]) {
        let mut characters = Characters::default();
        let mut found: Vec<String> = parts.iter().map(|part| characters.push(part)).collect();
        found.push(characters.finish().to_owned());
        assert_eq!(found, expect);
    }

    #[test]
    fn only_whole_characters() {
        check(&[b"a", b"bc"], &["a", "bc", ""]);
        check(&[b"\xc3", b"\xa9!"], &["", "é!", ""]);
        check(&[b"\xf0\x9f", b"\x98", b"\x80"], &["", "", "😀", ""]);
        check(&[b"a\xf0\x9f", b"b"], &["a", "\u{fffd}b", ""]);
        check(&[b"\xff\xfe"], &["\u{fffd}\u{fffd}", ""]);
        check(&[b"\xe6\x97"], &["", "\u{fffd}"]);
        check(&[b"", b""], &["", "", ""]);
    }

    proptest! {
        #[test]
        fn parts_give_what_the_whole_gives(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xe6), Just(0x97)], 0..60), cuts in prop::collection::vec(0..6_usize, 60)) {
            let mut characters = Characters::default();
            let (mut rest, mut found) = (bytes.as_slice(), String::new());
            for cut in cuts {
                let (part, more) = rest.split_at(cut.min(rest.len()));
                found += &characters.push(part);
                rest = more;
            }
            found += &characters.push(rest);
            found += characters.finish();
            prop_assert_eq!(found, String::from_utf8_lossy(&bytes));
        }
    }
}
