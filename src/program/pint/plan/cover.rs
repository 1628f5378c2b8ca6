//! A small linear program, solved exactly: sets of queries are given weights, so that those that
//! have a query weigh at least as much as it demands, and all together as little as can be.
//!
//! Its dual gives each query a price, so that no set costs more than 1 and the demands cost as much
//! as can be. That one has an obvious start, all prices 0, so the simplex method begins there, and
//! the weights are read off its last tableau. The tableau is one of integers over a common
//! denominator (Edmonds' and Bareiss' integer pivoting): each is a subdeterminant of the first
//! tableau, of at most eight rows of ones and zeros and one of demands, so below 2³⁰, and every
//! division leaves no remainder. Bland's rule excludes cycles.

use super::QuerySet;

/// The solution: all numbers are multiples of `1 / denominator`.
#[derive(Debug, PartialEq, Eq)]
pub struct Cover {
    /// The weight of each set.
    pub weights: Vec<i128>,
    /// The price of each query: by how much `total` grows with its demand.
    pub prices: Vec<i128>,
    /// The sum of all weights.
    pub total: i128,
    pub denominator: i128,
}

/// Weighs the sets. Each query must be in some set.
pub fn cover(sets: &[QuerySet], demands: &[i128]) -> Cover {
    let mut tableau = Tableau::new(sets, demands);
    while let Some(column) = tableau.entering() {
        let Some(row) = tableau.leaving(column) else { break };
        tableau.pivot(row, column);
    }
    tableau.read(sets.len(), demands.len())
}

struct Tableau {
    /// A row for each set, then the objective's; a column for each query, then the constants.
    cells: Vec<Vec<i128>>,
    /// The variable of each row and column: queries' prices come first, then the sets' slacks.
    rows: Vec<usize>,
    columns: Vec<usize>,
    denominator: i128,
}

impl Tableau {
    fn new(sets: &[QuerySet], demands: &[i128]) -> Self {
        let queries = demands.len();
        let row = |set: &QuerySet| (0..queries).map(|query| i128::from(set.contains(query))).chain([1]).collect();
        let objective = demands.iter().map(|demand| -demand).chain([0]).collect();
        let cells = sets.iter().map(row).chain([objective]).collect();
        let rows = (queries..queries + sets.len()).collect();
        Self { cells, rows, columns: (0..queries).collect(), denominator: 1 }
    }

    /// The column whose variable makes the objective larger, the first in Bland's order.
    fn entering(&self) -> Option<usize> {
        let objective = self.cells.last()?;
        let improving = (0..self.columns.len()).filter(|column| objective[*column] < 0);
        improving.min_by_key(|column| self.columns[*column])
    }

    /// The row that limits it most.
    fn leaving(&self, column: usize) -> Option<usize> {
        let constant = self.columns.len();
        let limiting = (0..self.rows.len()).filter(|row| self.cells[*row][column] > 0);
        limiting.min_by(|a, b| {
            let [left, right] = [[*a, *b], [*b, *a]].map(|[of, by]| self.cells[of][constant] * self.cells[by][column]);
            left.cmp(&right).then(self.rows[*a].cmp(&self.rows[*b]))
        })
    }

    fn pivot(&mut self, row: usize, column: usize) {
        let pivot_row = self.cells[row].clone();
        let pivot = pivot_row[column];
        for (_, cells) in self.cells.iter_mut().enumerate().filter(|(i, _)| *i != row) {
            let factor = cells[column];
            for (j, cell) in cells.iter_mut().enumerate() {
                *cell = if j == column { -factor } else { (*cell * pivot - factor * pivot_row[j]) / self.denominator };
            }
        }
        self.cells[row][column] = self.denominator;
        self.denominator = pivot;
        std::mem::swap(&mut self.rows[row], &mut self.columns[column]);
    }

    fn read(&self, sets: usize, queries: usize) -> Cover {
        let constant = self.columns.len();
        let objective = &self.cells[self.rows.len()];
        let (mut weights, mut prices) = (vec![0; sets], vec![0; queries]);
        for (cell, variable) in objective.iter().zip(&self.columns).filter(|(_, variable)| **variable >= queries) {
            weights[variable - queries] = *cell;
        }
        for (cells, variable) in self.cells.iter().zip(&self.rows).filter(|(_, variable)| **variable < queries) {
            prices[*variable] = cells[constant];
        }
        Cover { weights, prices, total: objective[constant], denominator: self.denominator }
    }
}
