//! What a person may write to attach something, as values.

use std::fmt;

use jiff::civil::Date;
use jiff::{Span, ToSpan, Zoned};

use foreword_markdown::note::Part;

/// So far a neighbourhood goes at most.
const MOST_DEPTH: u8 = 5;

/// Something to attach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// `Piano/Lesson 4.md`, `Lesson 4`, `[[Lesson 4]]`, `[[Lesson 4#Scales]]`, `Lesson 4#^block`: one file or a part of it.
    File {
        /// As in a link.
        target: String,
        /// A part of the note.
        part: Option<Part>,
    },
    /// `#music`: the notes with this tag or one below it.
    Tag(String),
    /// `Piano/`: the notes in a folder and the folders in it.
    Folder(String),
    /// `**/*.md`: the notes whose path fits.
    Glob(String),
    /// `link:Lesson 4`, `link:Lesson 4~2`: a note, and the notes so many links away, either way.
    Linked {
        /// As in a link.
        target: String,
        /// How many links away.
        depth: u8,
    },
    /// `since:7d`, `since:2025-09-01`, `since:yesterday`: the notes that changed since.
    Since(Since),
    /// `Piano/Lesson 4.md#L10-L24`, `Piano/Lesson 4.md:10-24`: lines of a note.
    Lines {
        /// As in a link.
        target: String,
        /// From 1.
        first: u32,
        /// Not before the first.
        last: u32,
    },
    /// `https://…`: a page. It is fetched by the caller.
    Url(String),
}

/// A time to look back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// The start of a day.
    Day(Date),
    /// So many days ago at this time of day.
    Ago(Ago),
    /// The start of the day so many days ago.
    DaysBack(u16),
}

/// A length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ago {
    /// `h`
    Hours(u16),
    /// `d`
    Days(u16),
    /// `w`
    Weeks(u16),
    /// `m`
    Months(u16),
}

/// A text that attaches nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot attach {text:?}: {why}")]
pub struct NotAnAttachment {
    text: String,
    why: String,
}

impl Attachment {
    /// Reads what a person wrote, where no vault is at hand; else [`crate::index::Vault::attachment`] does.
    pub fn parse(text: &str) -> Result<Self, NotAnAttachment> {
        let text = text.trim();
        let not = |why: &str| NotAnAttachment { text: text.to_owned(), why: why.to_owned() };
        if text.is_empty() || text.contains('\0') {
            return Err(not("give a path, a name, a [[link]], a #tag, a folder/, a glob, link:NOTE, since:TIME or an address"));
        }
        if let Some(link) = text.strip_prefix("![[").or_else(|| text.strip_prefix("[[")).and_then(|rest| rest.strip_suffix("]]"))
        {
            let target = link.split_once('|').map_or(link, |(target, _)| target);
            return Ok(file(target));
        }
        if let Some(time) = text.strip_prefix("since:") {
            let known = "write a date such as 2025-09-01, a time back such as 12h, 7d, 2w or 3m, `today` or `yesterday`";
            return since(time.trim()).map(Self::Since).ok_or_else(|| not(known));
        }
        if let Some(rest) = text.strip_prefix("link:") {
            let (target, depth) = match rest.rsplit_once('~') {
                Some((target, depth)) => (target, depth.parse().ok().filter(|depth| (1..=MOST_DEPTH).contains(depth))),
                None => (rest, Some(1)),
            };
            let target = target.trim().trim_start_matches("[[").trim_end_matches("]]").to_owned();
            let depth = depth.ok_or_else(|| not("what follows the ~ is how many links to follow, 1 to 5"))?;
            return if target.is_empty() { Err(not("give the note after link:")) } else { Ok(Self::Linked { target, depth }) };
        }
        if let Some(tag) = text.strip_prefix('#') {
            let tag = tag.trim_end_matches('/');
            return if tag.is_empty() { Err(not("give the tag after #")) } else { Ok(Self::Tag(tag.to_owned())) };
        }
        let lower = text.to_ascii_lowercase();
        if lower.starts_with("http://") || lower.starts_with("https://") {
            return Ok(Self::Url(text.to_owned()));
        }
        if let Some((target, first, last)) = lines(text) {
            let fits = first >= 1 && first <= last && !target.is_empty();
            return if fits {
                Ok(Self::Lines { target: target.to_owned(), first, last })
            } else {
                Err(not("lines go up, from 1"))
            };
        }
        if text.contains(['*', '?']) || (text.contains('{') && text.contains('}')) {
            return Ok(Self::Glob(text.to_owned()));
        }
        if let Some(folder) = text.strip_suffix('/') {
            return Ok(Self::Folder(folder.trim_start_matches("./").trim_matches('/').to_owned()));
        }
        Ok(file(text))
    }
}

fn file(text: &str) -> Attachment {
    let (target, part) = text.split_once('#').map_or((text, None), |(target, part)| (target, Some(part.trim())));
    let part = part.filter(|part| !part.is_empty()).map(|part| match part.strip_prefix('^') {
        Some(id) => Part::Block(id.to_owned()),
        None => Part::Heading(part.split('#').map(|name| name.trim().to_owned()).collect()),
    });
    Attachment::File { target: target.trim().to_owned(), part }
}

/// `target#L10-L24`, `target#L10`, `target:10-24`, `target:10`
fn lines(text: &str) -> Option<(&str, u32, u32)> {
    let (target, range) = text.rsplit_once("#L").or_else(|| text.rsplit_once(':'))?;
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    Some((target, number(first)?, number(last.strip_prefix('L').unwrap_or(last))?))
}

fn since(text: &str) -> Option<Since> {
    match text.to_ascii_lowercase().as_str() {
        "today" => return Some(Since::DaysBack(0)),
        "yesterday" => return Some(Since::DaysBack(1)),
        _ => {}
    }
    if let Ok(day) = text.parse::<Date>() {
        return Some(Since::Day(day));
    }
    let unit = text.chars().next_back()?;
    let count = text.strip_suffix(unit)?.parse().ok()?;
    let ago = match unit {
        'h' => Ago::Hours(count),
        'd' => Ago::Days(count),
        'w' => Ago::Weeks(count),
        'm' => Ago::Months(count),
        _ => return None,
    };
    Some(Since::Ago(ago))
}

impl Since {
    /// The moment in milliseconds since 1970; the earliest there is where it lies before all times.
    pub fn moment(self, now: &Zoned) -> i64 {
        let start = |day: Date| day.to_zoned(now.time_zone().clone()).ok();
        let moment = match self {
            Self::Day(day) => start(day),
            Self::DaysBack(days) => now.date().checked_sub(i32::from(days).days()).ok().and_then(start),
            Self::Ago(ago) => now.checked_sub(ago.span()).ok(),
        };
        moment.map_or(i64::MIN, |moment| moment.timestamp().as_millisecond())
    }
}

impl Ago {
    fn span(self) -> Span {
        match self {
            Self::Hours(count) => i32::from(count).hours(),
            Self::Days(count) => i32::from(count).days(),
            Self::Weeks(count) => i32::from(count).weeks(),
            Self::Months(count) => i32::from(count).months(),
        }
    }
}

impl fmt::Display for Attachment {
    /// As a person would write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { target, part } => write!(f, "{target}{}", part.as_ref().map(crate::render::written).unwrap_or_default()),
            Self::Tag(tag) => write!(f, "#{tag}"),
            Self::Folder(folder) => write!(f, "{folder}/"),
            Self::Glob(glob) => f.write_str(glob),
            Self::Linked { target, depth: 1 } => write!(f, "link:{target}"),
            Self::Linked { target, depth } => write!(f, "link:{target}~{depth}"),
            Self::Since(Since::Day(day)) => write!(f, "since:{day}"),
            Self::Since(Since::DaysBack(0)) => f.write_str("since:today"),
            Self::Since(Since::DaysBack(1)) => f.write_str("since:yesterday"),
            Self::Since(Since::DaysBack(days)) => write!(f, "since:{days}d"),
            Self::Since(Since::Ago(ago)) => match ago {
                Ago::Hours(count) => write!(f, "since:{count}h"),
                Ago::Days(count) => write!(f, "since:{count}d"),
                Ago::Weeks(count) => write!(f, "since:{count}w"),
                Ago::Months(count) => write!(f, "since:{count}m"),
            },
            Self::Lines { target, first, last } => write!(f, "{target}#L{first}-L{last}"),
            Self::Url(url) => f.write_str(url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_may_write() {
        fn check(text: &str, expect: &Attachment, again: &str) {
            let parsed = Attachment::parse(text).unwrap();
            assert_eq!(parsed, *expect, "{text}");
            assert_eq!(parsed.to_string(), again, "{text}");
            assert_eq!(Attachment::parse(again).unwrap(), parsed, "{again}");
        }
        let file = |target: &str, part: Option<Part>| Attachment::File { target: target.to_owned(), part };
        let heading = |names: &[&str]| Some(Part::Heading(names.iter().map(|name| (*name).to_owned()).collect()));
        let lines = |target: &str, first, last| Attachment::Lines { target: target.to_owned(), first, last };
        let linked = |target: &str, depth| Attachment::Linked { target: target.to_owned(), depth };
        check(" Piano/Lesson 4.md ", &file("Piano/Lesson 4.md", None), "Piano/Lesson 4.md");
        check("[[Lesson 4]]", &file("Lesson 4", None), "Lesson 4");
        check("![[Lesson 4#A#B|shown]]", &file("Lesson 4", heading(&["A", "B"])), "Lesson 4#A#B");
        check("Lesson 4#^x", &file("Lesson 4", Some(Part::Block("x".to_owned()))), "Lesson 4#^x");
        check("#music/piano", &Attachment::Tag("music/piano".to_owned()), "#music/piano");
        check("./Piano/", &Attachment::Folder("Piano".to_owned()), "Piano/");
        check("/", &Attachment::Folder(String::new()), "/");
        check("**/*.md", &Attachment::Glob("**/*.md".to_owned()), "**/*.md");
        check("link:Lesson 4", &linked("Lesson 4", 1), "link:Lesson 4");
        check("link:[[Lesson 4]]~2", &linked("Lesson 4", 2), "link:Lesson 4~2");
        check("a.md#L10-L24", &lines("a.md", 10, 24), "a.md#L10-L24");
        check("a.md#L7", &lines("a.md", 7, 7), "a.md#L7-L7");
        check("a.md:10-24", &lines("a.md", 10, 24), "a.md#L10-L24");
        check("a.md#Life", &file("a.md", heading(&["Life"])), "a.md#Life");
        check("https://a.example/x?y=*", &Attachment::Url("https://a.example/x?y=*".to_owned()), "https://a.example/x?y=*");
        check("since:7d", &Attachment::Since(Since::Ago(Ago::Days(7))), "since:7d");
        check("since: Yesterday", &Attachment::Since(Since::DaysBack(1)), "since:yesterday");
        check("since:2025-09-01", &Attachment::Since(Since::Day(jiff::civil::date(2025, 9, 1))), "since:2025-09-01");
    }

    #[test]
    fn what_attaches_nothing_says_why() {
        for text in
            ["", "#", "since:", "since:soon", "since:99999d", "link:", "link:a~", "link:a~9", "a.md:0-3", "a.md#L9-L3", "a\0"]
        {
            assert!(Attachment::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_to_look_back_to() {
        fn check(text: &str, expect: &str) {
            let now: Zoned = "2025-03-31T12:00:00+02:00[Europe/Berlin]".parse().unwrap();
            let Ok(Attachment::Since(since)) = Attachment::parse(text) else { panic!("{text}") };
            let expect: Zoned = expect.parse().unwrap();
            assert_eq!(since.moment(&now), expect.timestamp().as_millisecond(), "{text}");
        }
        check("since:today", "2025-03-31T00:00:00+02:00[Europe/Berlin]");
        check("since:yesterday", "2025-03-30T00:00:00+01:00[Europe/Berlin]");
        check("since:36h", "2025-03-29T23:00:00+01:00[Europe/Berlin]");
        check("since:2d", "2025-03-29T12:00:00+01:00[Europe/Berlin]");
        check("since:1m", "2025-02-28T12:00:00+01:00[Europe/Berlin]");
        check("since:2024-12-24", "2024-12-24T00:00:00+01:00[Europe/Berlin]");
    }
}
