//! The words that queries and field values are made of: numbers, strings, links, dates, durations, names.
//!
//! Each `take_…` moves past what it takes, or stays where it is and says `None`. None looks further ahead than what it takes.

use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};

use super::span::Span;
use super::syntax::RawLink;

/// A place in a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// The text from an earlier place to here.
    pub(super) fn since(&self, start: usize) -> &'t str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    pub(super) fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn take_char(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn take_while(&mut self, mut wanted: impl FnMut(char) -> bool) -> &'t str {
        let rest = self.rest();
        let len = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// Runs `read`, and goes back if it finds nothing.
    fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let start = self.at;
        let found = read(self);
        if found.is_none() {
            self.at = start;
        }
        found
    }

    /// Skips white space and `//` comments; says whether there was any.
    pub(super) fn skip_space(&mut self) -> bool {
        let start = self.at;
        loop {
            self.take_while(char::is_whitespace);
            if !self.rest().starts_with("//") {
                return self.at > start;
            }
            self.take_while(|c| c != '\n');
        }
    }

    /// Takes a keyword, without regard to case, if the word ends there.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_at_word(word);
        if found {
            self.at += word.len();
        }
        found
    }

    pub(super) fn is_at_word(&self, word: &str) -> bool {
        let rest = self.rest();
        let head = rest.get(..word.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(word)) && !rest[word.len()..].starts_with(is_name_char)
    }

    /// A variable or a field: it starts with a letter or an emoji.
    pub(super) fn take_name(&mut self) -> Option<&'t str> {
        let first = self.peek()?;
        (first.is_alphabetic() || is_emoji(first)).then(|| self.take_while(is_name_char))
    }

    pub(super) fn take_number(&mut self) -> Option<f64> {
        self.attempt(|cursor| {
            let start = cursor.at;
            cursor.take("-");
            cursor.take_digits(1..=usize::MAX)?;
            cursor.attempt(|cursor| {
                cursor.take(".").then_some(())?;
                cursor.take_digits(1..=usize::MAX)
            });
            cursor.since(start).parse().ok()
        })
    }

    fn take_digits(&mut self, count: std::ops::RangeInclusive<usize>) -> Option<&'t str> {
        let most = *count.end();
        self.attempt(|cursor| {
            let mut taken = 0;
            let digits = cursor.take_while(|c| {
                taken += 1;
                c.is_ascii_digit() && taken <= most
            });
            count.contains(&digits.len()).then_some(digits)
        })
    }

    fn take_two_digits<T: std::str::FromStr>(&mut self) -> Option<T> {
        self.take_digits(2..=2)?.parse().ok()
    }

    /// `"…"` with `\"` and `\\`; other backslashes stay, for the sake of patterns.
    pub(super) fn take_string(&mut self) -> Option<String> {
        self.attempt(|cursor| {
            cursor.take("\"").then_some(())?;
            let mut text = String::new();
            loop {
                match cursor.take_char()? {
                    '"' => return Some(text),
                    '\\' => match cursor.take_char()? {
                        c @ ('"' | '\\') => text.push(c),
                        c => text.extend(['\\', c]),
                    },
                    c => text.push(c),
                }
            }
        })
    }

    /// `#tag`, returned without `#`.
    pub(super) fn take_tag(&mut self) -> Option<&'t str> {
        self.take("#").then(|| self.take_while(|c| is_name_char(c) || c == '/'))
    }

    /// `[[target#part|text]]`
    pub(super) fn take_link(&mut self) -> Option<RawLink> {
        self.attempt(|cursor| {
            let embed = cursor.take("!");
            cursor.take("[[").then_some(())?;
            let inner = cursor.take_while(|c| !matches!(c, '[' | ']'));
            cursor.take("]]").then(|| RawLink { embed, ..RawLink::read(inner) })
        })
    }

    /// `2025-09`, `2025-09-01`, `2025-09-01T12:30:15.250+02:00`. Times with an offset are told in `zone`.
    pub(super) fn take_date(&mut self, zone: &TimeZone) -> Option<DateTime> {
        self.attempt(|cursor| {
            let year: i16 = cursor.take_digits(4..=4)?.parse().ok()?;
            cursor.take("-").then_some(())?;
            let month: i8 = cursor.take_two_digits()?;
            let Some(day) = cursor.take_part("-") else {
                return Some(Date::new(year, month, 1).ok()?.at(0, 0, 0, 0));
            };
            let date = Date::new(year, month, day).ok()?;
            let Some(hour) = cursor.take_part("T") else {
                return Some(date.at(0, 0, 0, 0));
            };
            let minute = cursor.take_part(":").unwrap_or(0);
            let second = cursor.take_part(":").unwrap_or(0);
            let fraction = cursor.attempt(|cursor| {
                cursor.take(".").then_some(())?;
                let digits = cursor.take_digits(1..=9)?;
                digits.parse::<i32>().ok()?.checked_mul(10_i32.pow(9 - u32::try_from(digits.len()).ok()?))
            });
            let time = jiff::civil::Time::new(hour, minute, second, fraction.unwrap_or(0)).ok()?;
            let told = date.to_datetime(time);
            let Some(offset) = cursor.take_offset() else { return Some(told) };
            Some(zone.to_datetime(offset.to_timestamp(told).ok()?))
        })
    }

    fn take_part(&mut self, before: &str) -> Option<i8> {
        self.attempt(|cursor| {
            cursor.take(before).then_some(())?;
            cursor.take_two_digits()
        })
    }

    fn take_offset(&mut self) -> Option<Offset> {
        self.attempt(|cursor| {
            if cursor.take("Z") {
                return Some(Offset::UTC);
            }
            let sign = match cursor.take_char()? {
                '+' => 1,
                '-' => -1,
                _ => return None,
            };
            let hours: i32 = cursor.take_digits(1..=2)?.parse().ok()?;
            cursor.take(":");
            let minutes: i32 = cursor.take_two_digits().unwrap_or(0);
            Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()
        })
    }

    /// `3 days`, `4hr 2min`, `1 yr, 2 mo`
    pub(super) fn take_duration(&mut self) -> Option<Span> {
        let mut all = self.take_span()?;
        while let Some(more) = self.attempt(|cursor| {
            cursor.skip_space();
            cursor.take(",");
            cursor.skip_space();
            cursor.take_span()
        }) {
            all = all.plus(more);
        }
        Some(all)
    }

    fn take_span(&mut self) -> Option<Span> {
        self.attempt(|cursor| {
            let count = cursor.take_number()?;
            cursor.skip_space();
            Span::of(count, cursor.take_while(|c| c.is_ascii_alphabetic()))
        })
    }
}

impl RawLink {
    /// What stands between `[[` and `]]`.
    pub(super) fn read(inner: &str) -> Self {
        let bar = inner.match_indices('|').find(|(at, _)| !inner[..*at].ends_with('\\'));
        let (path, text) = match bar {
            Some((at, _)) => (&inner[..at], Some(inner[at + 1..].to_owned())),
            None => (inner, None),
        };
        let path = path.replace("\\|", "|");
        let (target, part) = match path.split_once('#') {
            Some((target, part)) => (target.to_owned(), (!part.is_empty()).then(|| part.to_owned())),
            None => (path, None),
        };
        Self { target, part, text, embed: false }
    }
}

pub(super) fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-' || is_emoji(c)
}

/// Symbols and what joins them; the blocks that emoji come from.
pub(super) fn is_emoji(c: char) -> bool {
    matches!(u32::from(c), 0x200D | 0x20E3 | 0xFE0F | 0x2190..=0x2BFF | 0x3030 | 0x303D | 0x1F000..=0x1FAFF | 0xE0020..=0xE007F)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<'t, T: std::fmt::Debug>(text: &'t str, read: impl Fn(&mut Cursor<'t>) -> Option<T>, expect: Option<(&str, &str)>) {
        let mut cursor = Cursor::new(text);
        let found = read(&mut cursor).map(|value| format!("{value:?}"));
        assert_eq!(found.as_deref().map(|value| (value, cursor.rest())), expect, "{text}");
        assert!(found.is_some() || cursor.at() == 0, "{text}: moved without taking");
    }

    #[test]
    fn dates() {
        let zone = TimeZone::fixed(Offset::from_seconds(3600).unwrap());
        for (text, expect) in [
            ("2025-09", Some(("2025-09-01T00:00:00", ""))),
            ("2025-09-03 x", Some(("2025-09-03T00:00:00", " x"))),
            ("2025-09-03T07", Some(("2025-09-03T07:00:00", ""))),
            ("2025-09-03T07:30:15.25", Some(("2025-09-03T07:30:15.25", ""))),
            ("2025-09-03T07:30Z", Some(("2025-09-03T08:30:00", ""))),
            ("2025-09-03T07:30+02:00", Some(("2025-09-03T06:30:00", ""))),
            ("2025-09-03T07:30-0500", Some(("2025-09-03T13:30:00", ""))),
            ("2025-13-01", None),
            ("2025-02-30", None),
            ("2025-09-03T25:00", None),
            ("20250903", None),
            ("2025", None),
        ] {
            check(text, |cursor| cursor.take_date(&zone), expect);
        }
    }

    #[test]
    fn durations() {
        for (text, expect) in [
            ("3 days", Some(("3 days", ""))),
            ("4hr2min", Some(("4 hours, 2 minutes", ""))),
            ("1 yr, 2 mo, 9 d", Some(("1 year, 2 months, 1 week, 2 days", ""))),
            ("90 m", Some(("1 hour, 30 minutes", ""))),
            ("-3 days", Some(("-3 days", ""))),
            ("3 apples", None),
            ("days", None),
        ] {
            let text_of = |cursor: &mut Cursor| cursor.take_duration().map(|span| Shown(span.text()));
            check(text, text_of, expect);
        }
    }

    struct Shown(String);

    impl std::fmt::Debug for Shown {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(&self.0)
        }
    }

    #[test]
    fn numbers_and_strings() {
        for (text, expect) in [("-1.5x", Some(("-1.5", "x"))), ("7.", Some(("7.0", "."))), ("-", None), (".5", None)] {
            check(text, Cursor::take_number, expect);
        }
        for (text, expect) in [(r#""a\"b\d""#, Some((r#""a\"b\\d""#, ""))), (r#""open"#, None), (r#""end\"#, None)] {
            check(text, Cursor::take_string, expect);
        }
    }

    #[test]
    fn links() {
        let show = |cursor: &mut Cursor| cursor.take_link().map(|link| Shown(format!("{link:?}").replace("RawLink ", "")));
        for (text, expect) in [
            ("[[A]]", Some((r#"{ target: "A", part: None, text: None, embed: false }"#, ""))),
            ("[[A#b|c]] d", Some((r#"{ target: "A", part: Some("b"), text: Some("c"), embed: false }"#, " d"))),
            ("![[#^b]]", Some((r#"{ target: "", part: Some("^b"), text: None, embed: true }"#, ""))),
            (r"[[A\|B]]", Some((r#"{ target: "A|B", part: None, text: None, embed: false }"#, ""))),
            ("[[A]", None),
            ("[[A[[B]]", None),
        ] {
            check(text, show, expect);
        }
    }
}
