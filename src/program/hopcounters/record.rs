//! Records of hop counters.
//!
//! ```text
//! version 1 ‖ packets of this epoch ‖ first packets of the next epoch ‖ late packets ‖ strays ‖ packets of other ports
//! packets: received ‖ sent ‖ balance ‖ drops ‖ { place ‖ port ‖ reason ‖ packets }
//! late packets: number ‖ { epoch ‖ 1 if they left ‖ port ‖ packets }
//! strays: number ‖ { epoch ‖ packets } ‖ of epochs that are not told apart
//! ```
//! All are LEB128 numbers. Rows stand port by port; behind a counter of 0 stands how many more follow it.
//! A balance is a signed number in zigzag order: 0, −1, 1, −2, …

use std::sync::Arc;

use super::apart::{Drops, LATE_EPOCHS, Late};
use super::hashes::Hashes;
use super::{Config, HopCounters};
use crate::answers::PortRows;
use crate::pisa::hash::HashFamily;
use crate::pisa::{DropAt, DropReason};
use crate::program::bytes::{DecodeError, MAX_U32, MAX_U64, Reader, Writer};
use crate::program::{MAX_STRAY_EPOCHS, MergeError, Program, Record, Strays};

const VERSION: u8 = 1;

/// The form that records have in common if they can be added.
#[derive(Debug, PartialEq)]
pub struct Shape {
    pub config: Config,
    pub hashes: Hashes,
}

/// The packets of one epoch that a switch counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Counters of a row.
    pub groups: u32,
    /// Port by port.
    pub received: Box<[u32]>,
    pub sent: Box<[u32]>,
    /// By group: packets that ended here without a loss, less those that the switch made.
    pub balance: Box<[i32]>,
    pub drops: Drops,
}

impl Counted {
    fn zeroed(config: &Config) -> Self {
        let (rows, groups) = (config.rows(), config.groups());
        let row = || vec![0; (rows * groups) as usize].into();
        Self { groups, received: row(), sent: row(), balance: vec![0; groups as usize].into(), drops: Drops::new() }
    }

    pub fn add(&mut self, other: &Self) {
        let rows = [(&mut self.received, &other.received), (&mut self.sent, &other.sent)];
        for (sums, more) in rows {
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
        }
        self.balance.iter_mut().zip(&other.balance).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
        other.drops.iter().for_each(|(key, packets)| *self.drops.entry(*key).or_default() += packets);
    }

    /// Whether a counter had its largest number.
    pub fn is_full(&self) -> bool {
        self.received.iter().chain(&self.sent).any(|count| *count == u32::MAX)
    }

    /// The rows with at most this number of groups: those of one group have the same highest bits.
    pub fn folded(&self, groups: u32) -> Self {
        let groups = groups.min(self.groups).max(1);
        let of = (self.groups / groups) as usize;
        let fold = |row: &[u32]| {
            row.chunks(of).map(|part| part.iter().fold(0, |sum: u32, count| sum.saturating_add(*count))).collect()
        };
        Self {
            groups,
            received: fold(&self.received),
            sent: fold(&self.sent),
            balance: self.balance.chunks(of).map(|part| part.iter().sum()).collect(),
            drops: self.drops.clone(),
        }
    }

    pub fn write(&self, to: &mut Writer) {
        write_row(to, self.received.iter().copied());
        write_row(to, self.sent.iter().copied());
        write_row(to, self.balance.iter().map(|balance| (balance << 1 ^ balance >> 31) as u32));
        to.number(self.drops.len() as u64);
        for ((at, port, reason), packets) in &self.drops {
            [*at as u64, u64::from(*port), u64::from(*reason), *packets]
                .into_iter()
                .for_each(|number| to.number(number));
        }
    }

    /// Reads the packets of a switch with this configuration, whose rows have this number of groups.
    pub fn read(from: &mut Reader<'_>, config: &Config, groups: u32) -> Result<Self, DecodeError> {
        let rows = (config.rows() * groups) as usize;
        let (received, sent) = (read_row(from, rows)?, read_row(from, rows)?);
        let balance = read_row(from, groups as usize)?;
        let balance = balance.iter().map(|zigzag| (zigzag >> 1) as i32 ^ -((zigzag & 1) as i32)).collect();
        let number = from.number("the number of drops")?;
        let drops = from.ascending("drops", number, |from| {
            let at = from.number("a drop's place")?;
            let Some(at) = DropAt::ALL.into_iter().find(|place| *place as u64 == at) else {
                return from.wrong("a drop's place", "before, inside or behind");
            };
            let (port, reason) = (from.u16("a drop's port")?, from.number("a drop's reason")?);
            if reason >= DropReason::ALL.len() as u64 {
                return from.wrong("a drop's reason", "one that this version knows");
            }
            Ok(((at, port, reason as u8), from.number("dropped packets")?))
        })?;
        Ok(Self { groups, received, sent, balance, drops: drops.into_iter().collect() })
    }

    fn longest(config: &Config) -> usize {
        let counters = 2 * config.rows() as usize * config.groups() as usize + config.groups() as usize;
        let drops = DropAt::ALL.len() * DropReason::ALL.len() * (config.rows() as usize + 1);
        counters * MAX_U32 + MAX_U64 + drops * (1 + MAX_PORT + 1 + MAX_U64)
    }

    /// The rows as answers take them.
    pub fn rows(self) -> PortRows {
        let Self { groups, received, sent, balance, drops } = self;
        let reason = |reason: u8| DropReason::ALL.get(usize::from(reason)).map_or("", |reason| reason.name());
        let drops = drops.into_iter().map(|((at, port, of), packets)| (at, port, reason(of), packets)).collect();
        PortRows { groups, received, sent, balance, drops }
    }
}

fn write_row(to: &mut Writer, counters: impl Iterator<Item = u32>) {
    let mut zeros = 0u64;
    let end = |to: &mut Writer, zeros: &mut u64| {
        if *zeros > 0 {
            to.number(0);
            to.number(*zeros - 1);
            *zeros = 0;
        }
    };
    for counter in counters {
        if counter == 0 {
            zeros += 1;
        } else {
            end(to, &mut zeros);
            to.number(counter.into());
        }
    }
    end(to, &mut zeros);
}

fn read_row(from: &mut Reader<'_>, length: usize) -> Result<Box<[u32]>, DecodeError> {
    let (mut counters, mut was_zero) = (Vec::with_capacity(length), false);
    while counters.len() < length {
        match from.u32("a counter")? {
            0 => {
                let more = from.number("zeros")?;
                if was_zero || more > (length - counters.len() - 1) as u64 {
                    return from.wrong("zeros", "all in a row together, as many as the row has counters");
                }
                counters.resize(counters.len() + 1 + more as usize, 0);
                was_zero = true;
            }
            count => {
                counters.push(count);
                was_zero = false;
            }
        }
    }
    Ok(counters.into())
}

/// The record of a switch in an epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct HopRecord {
    pub shape: Arc<Shape>,
    /// Packets of the epoch, those alone that were counted from the transit time on.
    pub counted: Counted,
    /// The first packets of the next epoch; empty once they have been split off.
    pub next: Option<Counted>,
    pub late: Late,
    pub strays: Strays,
    /// Packets of ports without rows.
    pub elsewhere: u64,
}

impl HopRecord {
    pub fn zeroed(shape: &Arc<Shape>) -> Self {
        let [counted, next] = [(); 2].map(|()| Counted::zeroed(&shape.config));
        let (late, strays) = (Late::new(), Strays::default());
        Self { shape: shape.clone(), counted, next: Some(next), late, strays, elsewhere: 0 }
    }

    /// Reads the byte form.
    ///
    /// # Errors
    /// If these are not the bytes of a record of this shape.
    pub fn decode(shape: &Arc<Shape>, bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        from.version(VERSION)?;
        let groups = shape.config.groups();
        let counted = Counted::read(&mut from, &shape.config, groups)?;
        let next = Some(Counted::read(&mut from, &shape.config, groups)?);
        let number = from.number("the number of late counts")?;
        let late = from.ascending("late packets", number, |from| {
            let epoch = from.u32("an epoch")?;
            let leaves = match from.number("whether they left")? {
                leaves @ 0..=1 => leaves == 1,
                _ => return from.wrong("whether they left", "0 or 1"),
            };
            Ok(((epoch, leaves, from.u16("a port")?), from.number("late packets")?))
        })?;
        let number = from.number("the number of epochs with strays")?;
        let by_epoch = from.ascending("strays", number, |from| Ok((from.u32("an epoch")?, from.number("strays")?)))?;
        let mut strays = Strays::default();
        for (epoch, packets) in by_epoch {
            if packets == 0 || !strays.add(epoch, packets) {
                return from.wrong("strays", "packets of at most 64 epochs");
            }
        }
        strays.add_elsewhere(from.number("strays")?);
        let elsewhere = from.number("packets of other ports")?;
        let late = late.into_iter().collect();
        from.end().map(|()| Self { shape: shape.clone(), counted, next, late, strays, elsewhere })
    }
}

/// Counts of late packets that a record has room for: four times those of a replica.
fn late_room(config: &Config) -> usize {
    4 * LATE_EPOCHS * 2 * (config.rows() as usize + 1)
}

/// Longest number of a port, in bytes.
const MAX_PORT: usize = 3;

/// The length in bytes that no record of a switch exceeds.
pub fn longest(config: &Config) -> usize {
    let late = late_room(config) * (MAX_U32 + 1 + MAX_PORT + MAX_U64);
    let strays = MAX_STRAY_EPOCHS * (MAX_U32 + MAX_U64);
    1 + 2 * Counted::longest(config) + late + strays + 5 * MAX_U64
}

impl Record for HopRecord {
    const PROGRAM: &'static str = HopCounters::NAME;

    fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        if self.shape != other.shape {
            return Err(MergeError::Shape { program: Self::PROGRAM, what: "parameters or hash functions" });
        }
        self.counted.add(&other.counted);
        if let (Some(next), Some(more)) = (&mut self.next, &other.next) {
            next.add(more);
        }
        let room = late_room(&self.shape.config);
        for (key, packets) in &other.late {
            // Replicas may have late packets of other epochs each.
            if self.late.len() < room || self.late.contains_key(key) {
                *self.late.entry(*key).or_default() += packets;
            } else {
                self.strays.add(key.0, *packets);
            }
        }
        self.strays.merge(&other.strays);
        self.elsewhere = self.elsewhere.saturating_add(other.elsewhere);
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut to = Writer(vec![VERSION]);
        self.counted.write(&mut to);
        match &self.next {
            Some(next) => next.write(&mut to),
            None => Counted::zeroed(&self.shape.config).write(&mut to),
        }
        to.number(self.late.len() as u64);
        for ((epoch, leaves, port), packets) in &self.late {
            [u64::from(*epoch), u64::from(*leaves), u64::from(*port), *packets].into_iter().for_each(|n| to.number(n));
        }
        to.number(self.strays.by_epoch().len() as u64);
        for (epoch, packets) in self.strays.by_epoch() {
            [u64::from(*epoch), *packets].into_iter().for_each(|number| to.number(number));
        }
        to.number(self.strays.elsewhere());
        to.number(self.elsewhere);
        to.0
    }

    fn strays(&self) -> Option<&Strays> {
        Some(&self.strays)
    }

    fn strays_mut(&mut self) -> Option<&mut Strays> {
        Some(&mut self.strays)
    }

    fn split_next(&mut self) -> Option<Self> {
        let counted = self.next.take()?;
        let (late, strays) = (Late::new(), Strays::default());
        Some(Self { shape: self.shape.clone(), counted, next: None, late, strays, elsewhere: 0 })
    }

    fn is_hashed_with(&self, family: &HashFamily) -> bool {
        self.shape.hashes.are_of(family)
    }
}

/// The place of a reason among those of a record.
#[cfg(test)]
pub fn drop_index(reason: DropReason) -> u8 {
    reason as u8
}
