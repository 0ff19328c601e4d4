//! A long text a page at a time, by lines.

/// Some lines of a text.
#[derive(Debug, PartialEq, Eq)]
pub struct Page {
    /// The lines.
    pub text: String,
    /// The number of the first one, from 1.
    pub first: usize,
    /// The number of the last one; `first - 1` if there are none.
    pub last: usize,
    /// How many lines the whole text has.
    pub all: usize,
}

impl Page {
    /// The lines from `first` on (the first line is 1): `count` of them, or as many as `most` bytes hold. A line of more bytes counts as
    /// several, so that every part of any text stands on some page.
    pub fn of(text: &str, first: usize, count: usize, most: usize) -> Result<Self, String> {
        let first = first.max(1);
        let mut page = Self { text: String::new(), first, last: first - 1, all: 0 };
        for line in lines(text, most) {
            page.all += 1;
            let next = page.all == page.last + 1 && page.all >= first;
            if next && page.last + 1 - first < count && (page.last < first || page.text.len() + line.len() < most) {
                if page.last >= first {
                    page.text.push('\n');
                }
                page.text.push_str(line);
                page.last = page.all;
            }
        }
        match page.all {
            0 => Ok(page),
            all if first > all => {
                Err(format!("It has {all} lines, so there is no line {first}. Give a fromLine from 1 to {all}."))
            }
            _ => Ok(page),
        }
    }

    /// Which lines these are, and how to go on.
    pub fn place(&self) -> String {
        let Self { first, last, all, .. } = self;
        match (*all, *last) {
            (0, _) => "empty".to_owned(),
            (all, last) if last < all => format!("lines {first} to {last} of {all}; go on with fromLine {}", last + 1),
            _ => format!("lines {first} to {last} of {all}"),
        }
    }
}

fn lines(text: &str, most: usize) -> impl Iterator<Item = &str> {
    text.lines().flat_map(move |line| {
        let mut rest = Some(line);
        std::iter::from_fn(move || {
            let line = rest?;
            let (piece, after) = line.split_at(line.floor_char_boundary(most.max(4)));
            rest = (!after.is_empty()).then_some(after);
            Some(piece)
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pages() {
        fn check(text: &str, first: usize, count: usize, expect: &str) {
            let page = Page::of(text, first, count, 1_000);
            let shown = page.map_or_else(|fault| fault, |page| format!("{}|{}", page.place(), page.text));
            assert_eq!(shown, expect);
        }
        check("", 1, 9, "empty|");
        check("", 7, 9, "empty|");
        check("a\nb\nc\n", 1, 9, "lines 1 to 3 of 3|a\nb\nc");
        check("a\nb\nc", 0, 2, "lines 1 to 2 of 3; go on with fromLine 3|a\nb");
        check("a\r\n\r\nc", 2, usize::MAX, "lines 2 to 3 of 3|\nc");
        check("a\nb", 3, 1, "It has 2 lines, so there is no line 3. Give a fromLine from 1 to 2.");
        check("a\nb", 1, 0, "lines 1 to 0 of 2; go on with fromLine 1|");
    }

    proptest! {
        #[test]
        fn going_on_shows_everything_once(text in "([a-zé]{0,40}\n?){0,60}", long in 0..9_000_usize, count in 1..50_usize, most in 4..9_000_usize) {
            let text = format!("{text}{}", "é".repeat(long));
            let (mut shown, mut first) = (Vec::new(), 1);
            loop {
                let page = Page::of(&text, first, count, most).unwrap();
                prop_assert!(page.text.len() <= most);
                shown.push(page.text.clone());
                first = page.last + 1;
                if first > page.all {
                    break;
                }
            }
            prop_assert_eq!(shown.concat().replace('\n', ""), text.replace('\n', ""));
        }
    }
}
