//! One page of a PDF whose text is known: what `![[file.pdf#page=3]]` asks for.

/// One page out of the text of a PDF, its `[Page n]` line included.
pub(super) fn page(text: &str, number: u32) -> Option<&str> {
    let (head, next) = (format!("[Page {number}]"), format!("\n[Page {}]\n", number.checked_add(1)?));
    let is_line = |at: &usize| {
        (*at == 0 || text[..*at].ends_with('\n')) && text[at + head.len()..].chars().next().is_none_or(|c| c == '\n')
    };
    let start = text.match_indices(&head).map(|(at, _)| at).find(is_line)?;
    let page = &text[start..];
    // The last page may be empty and end the text.
    let end = page.find(&next).or_else(|| page.ends_with(next.trim_end()).then(|| page.len() - next.trim_end().len()));
    Some(page[..end.unwrap_or(page.len())].trim_end())
}

#[cfg(test)]
mod tests {
    use super::page;

    #[test]
    fn one_page_alone() {
        fn check(number: u32, expect: Option<&str>) {
            assert_eq!(page("[Page 1]\n\na\n\n[Page 2]\n\nb [Page 3]\n\n[Page 3]", number), expect);
        }
        check(0, None);
        check(1, Some("[Page 1]\n\na"));
        check(2, Some("[Page 2]\n\nb [Page 3]"));
        check(3, Some("[Page 3]"));
        check(4, None);
        check(u32::MAX, None);
    }
}
