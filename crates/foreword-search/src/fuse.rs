//! Joins what the words say with what the meaning says into one score.
//!
//! A cosine is comparable between queries, a BM25 score is not: so keywords enter as a share of the best keyword score of this query. That makes
//! the two lists equally loud for any query and any size of corpus, which neither ranks (reciprocal rank fusion) nor standard scores do:
//! the first forget how far the best is ahead, the second grow without bound where a word is rare in a large corpus.

/// What the best keyword match adds to a cosine. The measured optimum is flat from 0.4 to 0.6.
const KEYWORD_SHARE: f32 = 0.5;

/// How much the best sentence counts beside the whole query: enough to bring in what only it asks for, too little to let a remark lead.
const SENTENCE_SHARE: f32 = 0.5;

/// The scores of one probe: the whole query, or one sentence of it.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Cosine per row; `None` without vectors.
    pub semantic: Option<Vec<f32>>,
    /// BM25 per row.
    pub keyword: Vec<f32>,
    best_keyword: f32,
    best_fused: f32,
}

impl Probe {
    /// Takes the scores, of which only those in `rows` are looked at.
    pub fn new(semantic: Option<Vec<f32>>, keyword: Vec<f32>, rows: &[u32]) -> Self {
        let mut probe = Self { semantic, keyword, best_keyword: 0.0, best_fused: 0.0 };
        let keywords = rows.iter().filter_map(|row| probe.keyword.get(*row as usize));
        probe.best_keyword = keywords.copied().fold(0.0, f32::max);
        probe.best_fused = rows.iter().map(|row| probe.fused(*row as usize)).fold(0.0, f32::max);
        probe
    }

    /// The best BM25 of the rows looked at.
    pub fn best_keyword(&self) -> f32 {
        self.best_keyword
    }

    /// The joined score of a row.
    pub fn fused(&self, row: usize) -> f32 {
        let keyword = self.keyword.get(row).copied().unwrap_or_default();
        let share = if self.best_keyword > 0.0 { keyword / self.best_keyword } else { 0.0 };
        match &self.semantic {
            Some(semantic) => semantic.get(row).copied().unwrap_or_default().max(0.0) + KEYWORD_SHARE * share,
            None => share,
        }
    }

    /// The joined score as a share of the best.
    fn relative(&self, row: usize) -> f32 {
        if self.best_fused > 0.0 { self.fused(row) / self.best_fused } else { 0.0 }
    }
}

/// The joined score of a row over all probes, of which the first is the whole query. A sentence counts by how well the row fits it beside
/// the other rows, so that no sentence crowds out another.
pub fn combine(probes: &[Probe], row: usize) -> f32 {
    let Some((whole, sentences)) = probes.split_first() else { return 0.0 };
    let sentence = sentences.iter().map(|probe| probe.relative(row)).reduce(f32::max);
    sentence.map_or_else(|| whole.fused(row), |sentence| whole.relative(row) + SENTENCE_SHARE * sentence)
}

/// Turns joined scores into ones that mean the same for every query: the best answer is as good as the better of its two kinds of evidence
/// (the highest cosine, the share of the query's words that is found), the others stand in proportion to it.
pub fn calibrate(fused: f32, best_fused: f32, evidence: f32) -> f64 {
    if best_fused <= 0.0 {
        return 0.0;
    }
    (f64::from(fused) / f64::from(best_fused) * f64::from(evidence)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(semantic: Option<&[f32]>, keyword: &[f32], expect: &[f32]) {
        let rows: Vec<u32> = (0..).take(keyword.len()).collect();
        let probe = Probe::new(semantic.map(<[f32]>::to_vec), keyword.to_vec(), &rows);
        let found: Vec<f32> = (0..keyword.len()).map(|row| probe.fused(row)).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn both_kinds_of_evidence_add_up() {
        check(Some(&[0.5, 0.25, -0.5]), &[0.0, 8.0, 4.0], &[0.5, 0.75, 0.25]);
        check(Some(&[0.5]), &[0.0], &[0.5]);
        check(None, &[2.0, 1.0], &[1.0, 0.5]);
    }

    #[test]
    fn a_sentence_brings_in_what_it_asks_for() {
        let probe = |scores: [f32; 3]| Probe::new(Some(scores.to_vec()), vec![0.0; 3], &[0, 1, 2]);
        let probes = [probe([0.6, 0.3, 0.4]), probe([0.8, 0.0, 0.3]), probe([0.0, 0.9, 0.3])];
        let combined: Vec<f32> = (0..3).map(|row| combine(&probes, row)).collect();
        assert!(combined[1] > combined[2] && combined[0] > combined[1], "{combined:?}");
    }

    #[test]
    fn scores_mean_the_same_for_every_query() {
        assert!((calibrate(0.9, 0.9, 0.6) - 0.6).abs() < 1e-6);
        assert!((calibrate(0.3, 0.9, 0.6) - 0.2).abs() < 1e-6);
        assert!((calibrate(0.6, 0.6, 0.1) - 0.1).abs() < 1e-6);
        assert!(calibrate(0.0, 0.0, 1.0) == 0.0);
    }
}
