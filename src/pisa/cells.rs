//! The content of register arrays, copied out of a bank for dumps.

use super::{GroupRegisters, Registers, Word};

/// The cells of one array: cell after cell its fields in order, each a little-endian number in whole
/// bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayCells {
    pub cells: u64,
    /// Bits of each field of a cell.
    pub field_bits: Vec<u32>,
    pub bytes: Vec<u8>,
}

impl ArrayCells {
    fn of<C: Word>(cells: impl ExactSizeIterator<Item = C>) -> Self {
        let (number, field_bits) = (cells.len() as u64, C::fields());
        let mut bytes = Vec::with_capacity(cells.len() * bytes_of(&field_bits));
        cells.for_each(|cell| cell.write(&mut bytes));
        Self { cells: number, field_bits, bytes }
    }

    /// Memory in hardware bits.
    pub fn bits(&self) -> u64 {
        self.cells * self.field_bits.iter().map(|bits| u64::from(*bits)).sum::<u64>()
    }

    /// The fields of each cell, as their bytes.
    pub fn fields(&self) -> impl Iterator<Item = Vec<&[u8]>> {
        let cells = self.bytes.chunks(bytes_of(&self.field_bits).max(1));
        cells.map(|mut cell| {
            let field = |bits: &u32| {
                let (field, rest) = cell.split_at((bits.div_ceil(8) as usize).min(cell.len()));
                cell = rest;
                field
            };
            self.field_bits.iter().map(field).collect()
        })
    }
}

/// Bytes of a cell with fields of these bits.
fn bytes_of(field_bits: &[u32]) -> usize {
    field_bits.iter().map(|bits| bits.div_ceil(8) as usize).sum()
}

impl<C: Word> Registers<C> {
    /// A copy of all cells.
    pub fn read(&self) -> ArrayCells {
        ArrayCells::of(self.cells().iter().copied())
    }
}

impl<C: Word, const N: usize> GroupRegisters<C, N> {
    /// A copy of each array.
    pub fn read(&self) -> [ArrayCells; N] {
        std::array::from_fn(|array| ArrayCells::of(self.cells().iter().map(|cells| cells[array])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Tuple4;

    #[test]
    fn cells_are_little_endian_fields() {
        let read = ArrayCells::of([(Tuple4(0x0102_0304 << 72 | 6), 7u32), (Tuple4(0), u32::MAX)].into_iter());
        assert_eq!((read.cells, &read.field_bits[..], read.bytes.len(), read.bits()), (2, &[104, 32][..], 34, 272));
        let fields: Vec<_> = read.fields().collect();
        assert_eq!((fields[0][0][0], &fields[0][0][9..], fields[0][1]), (6, &[4, 3, 2, 1][..], &[7, 0, 0, 0][..]));
        assert_eq!(fields[1][1], [255; 4]);
        let flags = ArrayCells::of([true, false].into_iter());
        assert_eq!((flags.bytes, flags.field_bits), (vec![1, 0], vec![1]));
    }
}
