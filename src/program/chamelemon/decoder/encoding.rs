//! Sketches as bytes, for a controller. docs/record-format.md describes them to others.
//!
//! Empty counters and buckets are not written: cells come as runs of empty ones and of filled ones.
//! Every record has one encoding only, and a reader takes no other; what it allocates follows from
//! the shape that it was made for, never from the bytes.

use std::sync::Arc;

use super::{Bucket, Fermat, INFINITE, Level, Sketches};
use crate::history::Described;
use crate::pisa::hash::HashFamily;
use crate::program::bytes::{self, DecodeError, MAX_U32, MAX_U64, Writer};
use crate::program::chamelemon::field::P;
use crate::program::chamelemon::id::FRAGMENTS;
use crate::program::chamelemon::names::Name;
use crate::program::chamelemon::{
    Config, EncoderParameters, Hashes, MAX_STRAY_EPOCHS, Partition, Shape, Strays, TowerShape,
};
use crate::program::{MAX_REPLICAS, Parameters, Reports};
use crate::wire::shim::EPOCH_BITS;

/// The first byte.
pub const VERSION: u8 = 4;
/// Bits of the second byte.
const BIT: u8 = 1;
const MIXED: u8 = 2;
/// Largest count of a bucket, of either sign: a bucket is a register of 32 bits in each replica, and
/// the replicas' registers add up.
const MAX_COUNT: u64 = MAX_REPLICAS as u64 * u32::MAX as u64;
/// Longest encodings: of a bucket, and of all strays.
const LONGEST_BUCKET: usize = 4 * FRAGMENTS + MAX_U64;
const LONGEST_STRAYS: usize = MAX_STRAY_EPOCHS * (MAX_U32 + MAX_U64) + 2 * MAX_U64;

/// What sketches must have in common to be added or subtracted, but for their hash functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    pub tower: TowerShape,
    pub shape: Shape,
    /// Maximum number of IPv6 flows that a record names.
    pub names: usize,
}

impl Form {
    pub fn of(config: &Config) -> Self {
        Self { tower: config.tower.clone(), shape: config.shape(), names: config.names as usize }
    }

    /// The length in bytes that no encoding exceeds.
    pub fn longest(&self) -> usize {
        // Between two runs lies a cell of each, so what says how long they are takes less than the
        // cells it stands for.
        let counters: usize = self.tower.0.iter().map(|level| level.counters as usize).sum();
        let row = |row| self.shape.cells(row, self.shape.upstream) + 2 * self.shape.cells(row, self.shape.downstream);
        let buckets: usize = (0..self.shape.rows()).map(|number| row(number) as usize).sum();
        128 + LONGEST_STRAYS
            + Reports::<Name>::max_bytes(self.names)
            + counters * (2 + MAX_U32)
            + buckets * (2 + LONGEST_BUCKET)
    }
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Shape { arrays, small, upstream, downstream, parts: _ } = self.shape;
        write!(
            f,
            "tower={},arrays={arrays},small={small},upstream={upstream},downstream={downstream},names={}",
            self.tower, self.names
        )
    }
}

impl Sketches {
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        to.0.extend([VERSION, u8::from(self.bit) * BIT + u8::from(self.mixed) * MIXED]);
        self.parameters.write(&mut to);
        to.strays(&self.strays);
        to.number(self.unmarked);
        to.number(self.unfollowed);
        self.names.encode(&mut to);
        // The lengths of what entered are those of the partition.
        self.parts()[3..].iter().for_each(|part| to.number(part.row(0).len() as u64));
        self.tower.iter().for_each(|level| to.runs(&level.sizes, |size| *size == 0, Writer::size));
        self.parts().into_iter().for_each(|part| to.fermat(part));
        to.0
    }
}

impl EncoderParameters {
    fn write(&self, to: &mut Writer) {
        let Self { partition: Partition { hh, hl, ll }, hh_threshold, hl_threshold, sample, sample_seed } = *self;
        let numbers = [hh, hl, ll, hh_threshold, hl_threshold, sample, sample_seed.into()];
        numbers.into_iter().for_each(|number| to.number(number.into()));
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let mut numbers = [0; 6];
        for number in &mut numbers {
            *number = from.u32("the parameters")?;
        }
        let sample_seed = from.u16("the sample seed")?;
        let [hh, hl, ll, hh_threshold, hl_threshold, sample] = numbers;
        Ok(Self { partition: Partition { hh, hl, ll }, hh_threshold, hl_threshold, sample, sample_seed })
    }
}

impl Parameters for EncoderParameters {
    fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        self.write(&mut to);
        to.0
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Bytes::new(bytes);
        let parameters = Self::read(&mut from)?;
        from.end()?;
        Ok(parameters)
    }

    fn is_like(&self, other: &Self) -> bool {
        let unseeded = |parameters: &Self| Self { sample_seed: 0, ..*parameters };
        unseeded(self) == unseeded(other)
    }

    fn describe(&self) -> Option<Described> {
        Some(self.described())
    }
}

impl Writer {
    /// The epochs, their packets, and the packets of other epochs.
    fn strays(&mut self, strays: &Strays) {
        self.number(strays.by_epoch().len() as u64);
        for (&epoch, &packets) in strays.by_epoch() {
            self.number(epoch.into());
            self.number(packets);
        }
        self.number(strays.elsewhere());
    }

    /// Cells as runs: how many are empty, how many are filled, and those.
    fn runs<T>(&mut self, mut cells: &[T], empty: impl Fn(&T) -> bool, write: impl Fn(&mut Self, &T)) {
        while !cells.is_empty() {
            let blank = cells.iter().take_while(|cell| empty(cell)).count();
            let filled = cells[blank..].iter().take_while(|cell| !empty(cell)).count();
            self.number(blank as u64);
            self.number(filled as u64);
            cells[blank..blank + filled].iter().for_each(|cell| write(self, cell));
            cells = &cells[blank + filled..];
        }
    }

    /// A size that is not 0, so that 0 can be infinity.
    fn size(&mut self, size: &u32) {
        self.number(if *size == INFINITE { 0 } else { (*size).into() });
    }

    fn fermat(&mut self, sketch: &Fermat) {
        let rows = (0..).map(|row| sketch.row(row)).take_while(|row| !row.is_empty());
        rows.for_each(|row| self.runs(row, Bucket::is_empty, Self::bucket));
    }

    fn bucket(&mut self, bucket: &Bucket) {
        bucket.ids.iter().for_each(|sum| self.0.extend(sum.to_le_bytes()));
        // Zigzag: small numbers of either sign are short.
        self.number((bucket.count << 1 ^ bucket.count >> 63) as u64);
    }
}

/// Reads sketches of one form, which were made with one deployment's hash functions.
#[derive(Clone, Debug)]
pub struct Reader {
    form: Form,
    hashes: Arc<Hashes>,
}

impl Reader {
    pub fn new(form: Form, hashes: &HashFamily) -> Self {
        let hashes = Hashes::new(hashes, form.tower.0.len(), form.shape.rows() as usize);
        Self { form, hashes: Arc::new(hashes) }
    }

    /// # Errors
    /// If these are not the bytes of sketches of this form, whole and without anything behind them.
    pub fn read(&self, bytes: &[u8]) -> Result<Sketches, DecodeError> {
        let mut from = Bytes::new(bytes);
        let shape = &self.form.shape;
        from.version(VERSION)?;
        let [flags] = from.take("the flags")?;
        if flags & !(BIT | MIXED) != 0 {
            return from.wrong("the flags", "only bits 0 and 1 have a meaning");
        }
        let parameters = EncoderParameters::read(&mut from)?;
        parameters.validate(shape)?;
        let (strays, unmarked) = (from.strays()?, from.number("the unmarked packets")?);
        let unfollowed = from.number("the unfollowed packets")?;
        let names = Reports::decode(&mut from, self.form.names)?;
        let Partition { hh, hl, ll } = parameters.partition;
        let mut lengths = [hh, hl, ll, 0, 0, 0, 0];
        for left in lengths[3..].chunks_mut(2) {
            for length in &mut *left {
                *length = from.u32("a part's length")?;
            }
            if left.iter().copied().map(u64::from).sum::<u64>() > shape.downstream.into() {
                return from.wrong("a part's length", "the parts fit into the downstream encoder");
            }
        }
        let mut tower = Vec::with_capacity(self.form.tower.0.len());
        for level in &self.form.tower.0 {
            let mut sizes = vec![0; level.counters as usize];
            from.runs(&mut sizes, Bytes::size)?;
            tower.push(Level::new(level.width.bits(), sizes));
        }
        let mut parts = lengths.map(|buckets| Fermat::new(self.hashes.clone(), shape.sketch(buckets)));
        for part in &mut parts {
            (0..part.rows.len()).try_for_each(|row| from.runs(part.row_mut(row), Bytes::bucket))?;
        }
        from.end()?;
        let (bit, mixed) = (flags & BIT != 0, flags & MIXED != 0);
        let sketches = Sketches::new(parameters, *shape, tower, parts, self.hashes.clone());
        Ok(Sketches { bit, strays, unmarked, unfollowed, names, mixed, ..sketches })
    }
}

type Bytes<'a> = bytes::Reader<'a>;

impl Bytes<'_> {
    fn strays(&mut self) -> Result<Strays, DecodeError> {
        let mut strays = Strays::default();
        let mut next = 0;
        for _ in 0..self.number("the strays' epochs")? {
            let (epoch, packets) = (self.u32("a stray's epoch")?, self.number("the strays of an epoch")?);
            if epoch < next || epoch >= 1 << EPOCH_BITS {
                return self.wrong("a stray's epoch", "they have 20 bits, and the lowest comes first");
            }
            if packets == 0 || !strays.add(epoch, packets) {
                return self.wrong("the strays of an epoch", "up to 64 epochs have any");
            }
            next = epoch + 1;
        }
        strays.add_elsewhere(self.number("the strays of other epochs")?);
        Ok(strays)
    }

    /// Fills the cells, which are empty.
    fn runs<T>(
        &mut self,
        mut cells: &mut [T],
        read: impl Fn(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<(), DecodeError> {
        let mut first = true;
        while !cells.is_empty() {
            let (blank, filled) = (self.number("a run")?, self.number("a run")?);
            let end = blank.checked_add(filled).filter(|end| *end <= cells.len() as u64);
            let Some(end) = end else { return self.wrong("a run", "it ends with the cells") };
            if blank == 0 && !first || filled == 0 && end < cells.len() as u64 {
                return self.wrong("a run", "only the first has no empty cells, only the last no filled ones");
            }
            let (run, rest) = cells.split_at_mut(end as usize);
            for cell in &mut run[blank as usize..] {
                *cell = read(self)?;
            }
            (cells, first) = (rest, false);
        }
        Ok(())
    }

    fn size(&mut self) -> Result<u32, DecodeError> {
        match self.u32("a counter")? {
            0 => Ok(INFINITE),
            INFINITE => self.wrong("a counter", "0 stands for infinity"),
            size => Ok(size),
        }
    }

    fn bucket(&mut self) -> Result<Bucket, DecodeError> {
        let mut ids = [0; FRAGMENTS];
        for sum in &mut ids {
            *sum = u32::from_le_bytes(self.take("a bucket")?);
            if *sum >= P {
                return self.wrong("a bucket", "sums are below 2^32 - 5");
            }
        }
        let count = self.number("a bucket's count")?;
        let count = (count >> 1) as i64 ^ -((count & 1) as i64);
        if count.unsigned_abs() > MAX_COUNT {
            return self.wrong("a bucket's count", "32 bits from each of up to 128 cores");
        }
        let bucket = Bucket { ids, count };
        if bucket.is_empty() { self.wrong("a bucket", "empty ones are not written") } else { Ok(bucket) }
    }
}

#[cfg(test)]
mod tests;
