//! Stands in for the real scan until the branches meet.

use crate::Vector;

/// Vectors by row.
#[derive(Clone, Debug, Default)]
pub struct Vectors {
    rows: Vec<Option<Vector>>,
    free: Vec<u32>,
}

impl Vectors {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds one.
    pub fn push(&mut self, vector: &Vector) -> u32 {
        if let Some(row) = self.free.pop() {
            self.rows[row as usize] = Some(*vector);
            return row;
        }
        self.rows.push(Some(*vector));
        u32::try_from(self.rows.len() - 1).unwrap_or(u32::MAX)
    }
    /// Takes one out.
    pub fn remove(&mut self, row: u32) {
        if let Some(slot) = self.rows.get_mut(row as usize)
            && slot.take().is_some()
        {
            self.free.push(row);
        }
    }
    /// Cosine with each row; 0 for removed rows.
    pub fn scores(&self, query: &Vector) -> Vec<f32> {
        let dot = |row: &Vector| row.iter().zip(query).map(|(a, b)| a * b).sum();
        self.rows.iter().map(|row| row.as_ref().map_or(0.0, dot)).collect()
    }
}
