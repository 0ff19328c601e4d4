//! Functions that make dates, durations and links, and the one that writes dates.

use jiff::civil::DateTime;

use crate::cursor::Cursor;
use crate::evaluate::{Eval, Evaluator};
use crate::syntax::RawLink;
use crate::value::{Base, Link, Value};

/// `None` where there is no such function for these values.
pub(super) fn call(evaluator: &Evaluator, name: &str, arguments: &[Value]) -> Option<Eval> {
    use Value::{Date, Duration, Link as To, Null, Text};
    let e = evaluator;
    Some(match (name, arguments) {
        (_, [Null, ..]) => Ok(Null),
        ("date" | "localtime", [Date(date)]) => Ok(Date(*date)),
        ("date", [Text(text)]) => Ok(date(e, text).map_or(Null, Date)),
        ("date", [Text(text), Text(format)]) => Ok(formatted_date(text, format).map_or(Null, Date)),
        ("date", [To(link)]) => Ok(link_date(e, link)),
        ("striptime", [date @ Date(_)]) => Ok(date.clone().without_time()),
        ("dur", [Duration(span)]) => Ok(Duration(*span)),
        ("dur", [Text(text)]) => {
            let mut cursor = Cursor::new(text.trim());
            Ok(cursor.take_duration().filter(|_| cursor.is_at_end()).map_or(Null, Duration))
        }
        ("dateformat", [Date(date), Text(format)]) => e.new_text(format_date(*date, format)),
        ("link", [To(link)] | [To(link), Null]) => Ok(To(link.clone())),
        ("link", [Text(target)] | [Text(target), Null]) => Ok(Value::link(e.notes.link(&RawLink::read(target), &e.this))),
        ("link", [Text(target), Text(text)]) => {
            let link = e.notes.link(&RawLink::read(target), &e.this);
            Ok(Value::link(Link { text: Some(text.to_string()), ..link }))
        }
        ("link", [To(link), Text(text)]) => Ok(Value::link(Link { text: Some(text.to_string()), ..(**link).clone() })),
        ("embed", [To(link)]) => Ok(Value::link(Link { embed: true, ..(**link).clone() })),
        ("embed", [To(link), wanted]) => Ok(Value::link(Link { embed: wanted.is_true(), ..(**link).clone() })),
        ("elink", [Text(address)] | [Text(address), Null]) => e.new_text(format!("[{address}]({address})")),
        ("elink", [Text(address), Text(text)]) => e.new_text(format!("[{text}]({address})")),
        _ => return None,
    })
}

fn date(evaluator: &Evaluator, text: &str) -> Option<DateTime> {
    let mut cursor = Cursor::new(text.trim());
    cursor.take_date(&evaluator.notes.zone).filter(|_| cursor.is_at_end())
}

/// The date a link shows, names, or leads to.
fn link_date(evaluator: &Evaluator, link: &Link) -> Value {
    let shown = link.text.as_deref().and_then(|text| date(evaluator, text));
    if let Some(date) = shown.or_else(|| date(evaluator, &link.path)) {
        return Value::Date(date);
    }
    evaluator.notes.field(&Base::File(link.path.clone()), "day").unwrap_or(Value::Null)
}

const MONTHS: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Writes a date by a pattern such as `yyyy-MM-dd`; what is no part of a date, or in single quotes, stays.
fn format_date(date: DateTime, format: &str) -> String {
    let mut out = String::new();
    let mut rest = format;
    while let Some(first) = rest.chars().next() {
        if first == '\'' {
            let inner = &rest[1..];
            let end = inner.find('\'').unwrap_or(inner.len());
            out.push_str(&inner[..end]);
            rest = inner.get(end + 1..).unwrap_or_default();
            continue;
        }
        let len = rest.find(|c| c != first).unwrap_or(rest.len());
        let (token, behind) = rest.split_at(len);
        match date_part(date, token) {
            Some(part) => out.push_str(&part),
            None => out.push_str(token),
        }
        rest = behind;
    }
    out
}

fn date_part(date: DateTime, token: &str) -> Option<String> {
    let name = |names: &[&str], number: i8| names.get(usize::try_from(number - 1).ok()?).map(|name| (*name).to_owned());
    let short = |name: Option<String>| name.map(|name| name.chars().take(3).collect::<String>());
    let month = || name(&MONTHS, date.month());
    let weekday = date.weekday().to_monday_one_offset();
    let week = date.date().iso_week_date();
    let hour12 = (date.hour() + 11) % 12 + 1;
    Some(match token {
        "yyyy" => format!("{:04}", date.year()),
        "y" => date.year().to_string(),
        "yy" => format!("{:02}", date.year().rem_euclid(100)),
        "MMMM" | "LLLL" => month()?,
        "MMM" | "LLL" => short(month())?,
        "MM" | "LL" => format!("{:02}", date.month()),
        "M" | "L" => date.month().to_string(),
        "dd" => format!("{:02}", date.day()),
        "d" => date.day().to_string(),
        "EEEE" | "cccc" => name(&DAYS, weekday)?,
        "EEE" | "ccc" => short(name(&DAYS, weekday))?,
        "E" | "c" => weekday.to_string(),
        "HH" => format!("{:02}", date.hour()),
        "H" => date.hour().to_string(),
        "hh" => format!("{hour12:02}"),
        "h" => hour12.to_string(),
        "mm" => format!("{:02}", date.minute()),
        "m" => date.minute().to_string(),
        "ss" => format!("{:02}", date.second()),
        "s" => date.second().to_string(),
        "SSS" => format!("{:03}", date.millisecond()),
        "a" => if date.hour() < 12 { "AM" } else { "PM" }.to_owned(),
        "WW" => format!("{:02}", week.week()),
        "W" => week.week().to_string(),
        "kkkk" => format!("{:04}", week.year()),
        "kk" => format!("{:02}", week.year().rem_euclid(100)),
        "o" => date.day_of_year().to_string(),
        "ooo" => format!("{:03}", date.day_of_year()),
        "q" => ((date.month() + 2) / 3).to_string(),
        _ => return None,
    })
}

/// Reads a date by a pattern of whole numbers such as `dd.MM.yyyy`.
fn formatted_date(text: &str, format: &str) -> Option<DateTime> {
    let (mut year, mut month, mut day) = (None::<i16>, 1_i8, 1_i8);
    let (mut text, mut format) = (text, format);
    while let Some(first) = format.chars().next() {
        let len = format.find(|c| c != first).unwrap_or(format.len());
        let token = &format[..len];
        let digits = match token {
            "yyyy" => 4,
            "MM" | "dd" => 2,
            "M" | "d" => text.bytes().take(2).take_while(u8::is_ascii_digit).count().max(1),
            _ => {
                text = text.strip_prefix(token)?;
                format = &format[len..];
                continue;
            }
        };
        let number: i16 = text.get(..digits).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()?;
        match first {
            'y' => year = Some(number),
            'M' => month = i8::try_from(number).ok()?,
            _ => day = i8::try_from(number).ok()?,
        }
        text = &text[digits..];
        format = &format[len..];
    }
    let date = jiff::civil::Date::new(year?, month, day).ok()?;
    text.is_empty().then(|| date.at(0, 0, 0, 0))
}
