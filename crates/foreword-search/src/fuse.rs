//! Combines keyword and embedding scores.
//!
//! Cosine similarities are comparable between queries, BM25 scores are not, so a keyword score counts as a share of the best one of
//! the query. This gives both lists equal weight for any query and corpus size. Alternatives do not: reciprocal rank fusion ignores
//! how far ahead the best result is, and standard scores grow without bound for rare words in a large corpus.

/// What the best keyword match adds to a cosine. The measured optimum is flat from 0.4 to 0.6.
const KEYWORD_SHARE: f32 = 0.5;

/// How much the best sentence counts beside the whole query: enough to bring in what only it asks for, too little to let a remark lead.
const SENTENCE_SHARE: f32 = 0.3;

/// What speaks for a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Its cosine; `None` where it has no vector yet.
    pub semantic: Option<f32>,
    /// Its BM25.
    pub keyword: f32,
}

/// The best evidence there is for one probe (the whole query, or a sentence of it): what other rows are measured by.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Best {
    semantic: Option<f32>,
    keyword: f32,
    joined: f32,
}

impl Best {
    /// The best of all rows looked at.
    pub fn of(rows: impl Iterator<Item = Evidence> + Clone) -> Self {
        let semantic = rows.clone().filter_map(|row| row.semantic).map(|cosine| cosine.max(0.0)).reduce(f32::max);
        let keyword = rows.clone().map(|row| row.keyword).fold(0.0, f32::max);
        let best = Self { semantic, keyword, joined: 0.0 };
        Self { joined: rows.map(|row| best.join(row)).fold(0.0, f32::max), ..best }
    }

    /// The joined score of a row. One without a vector is taken to mean what its words say, so that it stands where its words put it.
    pub fn join(&self, row: Evidence) -> f32 {
        let share = if self.keyword > 0.0 { row.keyword / self.keyword } else { 0.0 };
        match (self.semantic, row.semantic) {
            (_, Some(cosine)) => cosine.max(0.0) + KEYWORD_SHARE * share,
            (Some(best), None) => (best + KEYWORD_SHARE) * share,
            (None, None) => share,
        }
    }

    fn relative(&self, row: Evidence) -> f32 {
        if self.joined > 0.0 { self.join(row) / self.joined } else { 0.0 }
    }
}

/// The joined score of a row over all probes, of which the first is the whole query. A sentence counts by how well the row fits it beside
/// the other rows, so that no sentence crowds out another.
pub fn combine(bests: &[Best], row: &[Evidence]) -> f32 {
    let mut probes = bests.iter().zip(row);
    let Some((best, whole)) = probes.next() else { return 0.0 };
    let sentence = probes.map(|(best, row)| best.relative(*row)).reduce(f32::max);
    sentence.map_or_else(|| best.join(*whole), |sentence| best.relative(*whole) + SENTENCE_SHARE * sentence)
}

/// How good an answer can be said to be, from 0 to 1 and for every query alike. `found` is the share of the query's words that the answer has.
///
/// The two lines are laid so that an unrelated question stays below 0.2 and a related one comes above 0.4: among a thousand unrelated texts the
/// best has a cosine near 0.25 and a tenth of the words, among related ones 0.55 and a third.
pub fn confidence(semantic: Option<f32>, found: f32) -> f64 {
    let confidence = semantic.map_or(1.5 * found, |cosine| {
        let evidence = cosine.max(0.0) + found;
        // The second line keeps even the weakest evidence above none.
        (0.8 * (evidence - 0.2)).max(0.2 * evidence)
    });
    f64::from(confidence).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(semantic: f32, keyword: f32) -> Evidence {
        Evidence { semantic: Some(semantic), keyword }
    }

    fn words(keyword: f32) -> Evidence {
        Evidence { semantic: None, keyword }
    }

    fn check(rows: &[Evidence], expect: &[f32]) {
        let best = Best::of(rows.iter().copied());
        let found: Vec<f32> = rows.iter().map(|row| best.join(*row)).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn both_kinds_of_evidence_add_up() {
        check(&[row(0.5, 0.0), row(0.25, 8.0), row(-0.5, 4.0)], &[0.5, 0.75, 0.25]);
        check(&[row(0.5, 0.0)], &[0.5]);
        check(&[words(2.0), words(1.0)], &[1.0, 0.5]);
    }

    #[test]
    fn what_has_no_vector_yet_stands_where_its_words_put_it() {
        check(&[row(0.5, 8.0), words(8.0), words(4.0), words(0.0)], &[1.0, 1.0, 0.5, 0.0]);
    }

    #[test]
    fn a_sentence_brings_in_what_it_asks_for() {
        let probes = [[0.6, 0.3, 0.4], [0.8, 0.0, 0.3], [0.0, 0.9, 0.3]];
        let bests = probes.map(|rows| Best::of(rows.into_iter().map(|cosine| row(cosine, 0.0))));
        let combined: Vec<f32> = (0..3).map(|at| combine(&bests, &probes.map(|rows| row(rows[at], 0.0)))).collect();
        assert!(combined[1] > combined[2] && combined[0] > combined[1], "{combined:?}");
    }

    #[test]
    fn confidence_means_the_same_for_every_query() {
        for (semantic, found, expect) in [
            (Some(0.25), 0.1, 0.12),
            (Some(0.55), 0.3, 0.52),
            (Some(0.1), 0.0, 0.02),
            (Some(-0.1), 0.0, 0.0),
            (Some(1.0), 1.0, 1.0),
            (None, 0.1, 0.15),
            (None, 0.4, 0.6),
        ] {
            assert!((confidence(semantic, found) - expect).abs() < 1e-6, "{semantic:?} {found}");
        }
    }
}
