//! The known word that somebody probably meant.

/// The word of `known` that is nearest to `word`, if one is near: at most a third of it differs.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.into_iter().map(|known| (distance(word, known), known));
    let near = near.filter(|(distance, known)| *distance <= known.chars().count().max(3).div_ceil(3));
    near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// How many characters have to be changed, added, left out or swapped with their neighbour to make `b` of `a`.
fn distance(a: &str, b: &str) -> usize {
    let lower = |text: &str| text.to_lowercase().chars().take(100).collect::<Vec<char>>();
    let (a, b) = (lower(a), lower(b));
    let mut rows: [Vec<usize>; 3] = [Vec::new(), Vec::new(), (0..=b.len()).collect()];
    for (i, from) in a.iter().enumerate() {
        rows.rotate_left(1);
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let changed = rows[1][j] + usize::from(from != to);
            let mut least = changed.min(rows[1][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *from == b[j - 1] && a[i - 1] == *to {
                least = least.min(rows[0][j - 1] + 1);
            }
            row.push(least);
        }
        rows[2] = row;
    }
    rows[2][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word() {
        let known = ["budget", "history", "layout", "search", "top_k", "top_n"];
        let check = |word: &str, expect: Option<&str>| assert_eq!(nearest(word, known), expect, "{word}");
        check("budgt", Some("budget"));
        check("bugdet", Some("budget"));
        check("Layout", Some("layout"));
        check("topk", Some("top_k"));
        check("top_m", Some("top_k"));
        check("hist", Some("history"));
        check("colour", None);
        check("", None);
    }
}
