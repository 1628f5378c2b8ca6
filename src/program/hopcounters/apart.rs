//! Counts of a switch beside its rows: packets that came when their own epoch was not counted, drops
//! by reason, and packets of ports without rows.

use std::collections::BTreeMap;

use crate::pisa::{DropAt, DropReason, PortId};
use crate::program::{StrayRegisters, Strays};

/// Epochs that late packets are told apart by; a power of two.
pub const LATE_EPOCHS: usize = 16;
/// No epoch: no packet carries it.
const NONE: u32 = u32::MAX;

/// Drops by place, port and place of the reason in [`DropReason::ALL`].
pub type Drops = BTreeMap<(DropAt, PortId, u8), u64>;

/// Late packets by the epoch that they carry, whether they left, and port. The port behind the last one
/// stands for packets that ended in the switch, or were made by it.
pub type Late = BTreeMap<(u32, bool, PortId), u64>;

/// The registers.
#[derive(Clone, Debug)]
pub struct Apart {
    /// Binary logarithm of the number of ports for which there is room, those without rows among them.
    shift: u32,
    /// The epoch of each part of `late`.
    epochs: [u32; LATE_EPOCHS],
    late: Box<[u32]>,
    /// By epoch bit, place, reason and port.
    drops: Box<[u32]>,
    /// Late packets of epochs whose part was taken.
    pub strays: StrayRegisters,
    /// Packets of ports without rows.
    pub elsewhere: u64,
}

const _: () = assert!(LATE_EPOCHS.is_power_of_two() && DropReason::ALL.len() <= 1 << REASON_BITS);

/// Bits of a reason's place.
const REASON_BITS: u32 = 5;
/// Bits of a place where packets are dropped.
const AT_BITS: u32 = 2;

impl Apart {
    /// For this number of ports with rows.
    pub fn new(ports: u32) -> Self {
        let shift = (ports + 1).next_power_of_two().ilog2();
        let zeroed = |bits: u32| vec![0; 1 << (bits + shift)].into();
        Self {
            shift,
            epochs: [NONE; LATE_EPOCHS],
            late: zeroed(LATE_EPOCHS.ilog2() + 1),
            drops: zeroed(1 + AT_BITS + REASON_BITS),
            strays: StrayRegisters::default(),
            elsewhere: 0,
        }
    }

    /// Counts a packet that came or left when its epoch was not counted.
    #[cold]
    pub fn count_late(&mut self, epoch: u32, leaves: bool, port: PortId) {
        let part = epoch as usize & (LATE_EPOCHS - 1);
        if self.epochs[part] == NONE {
            self.epochs[part] = epoch;
        }
        let place = (((part << 1) | usize::from(leaves)) << self.shift) + usize::from(port);
        match self.late.get_mut(place).filter(|_| self.epochs[part] == epoch) {
            Some(count) => *count = count.saturating_add(1),
            None => self.strays.count(epoch, 1),
        }
    }

    /// Counts a packet that was dropped, of an epoch that is counted.
    #[cold]
    pub fn count_drop(&mut self, bit: bool, at: DropAt, port: PortId, reason: DropReason) {
        let part = (usize::from(bit) << AT_BITS | at as usize) << REASON_BITS | reason as usize;
        if let Some(count) = self.drops.get_mut((part << self.shift) + usize::from(port)) {
            *count = count.saturating_add(1);
        }
    }

    /// The drops of packets of this epoch bit.
    pub fn drops(&self, bit: bool) -> Drops {
        let part = |at: DropAt, reason: usize| (usize::from(bit) << AT_BITS | at as usize) << REASON_BITS | reason;
        let mut drops = Drops::new();
        for (at, reason) in DropAt::ALL.into_iter().flat_map(|at| (0..DropReason::ALL.len()).map(move |of| (at, of))) {
            let start = part(at, reason) << self.shift;
            let ports = self.drops[start..start + (1 << self.shift)].iter();
            let counted = (0..).zip(ports).filter(|(_, count)| **count > 0);
            drops.extend(counted.map(|(port, count)| ((at, port, reason as u8), u64::from(*count))));
        }
        drops
    }

    pub fn late(&self) -> Late {
        let mut late = Late::new();
        for (place, count) in self.late.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (part, port) = (place >> self.shift, place & ((1 << self.shift) - 1));
            late.insert((self.epochs[part >> 1], part & 1 == 1, port as PortId), u64::from(*count));
        }
        late
    }

    pub fn read_strays(&self) -> Strays {
        self.strays.read()
    }

    pub fn clear(&mut self) {
        self.epochs = [NONE; LATE_EPOCHS];
        self.late.fill(0);
        self.drops.fill(0);
        self.strays.clear();
        self.elsewhere = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_packets_are_told_apart_by_epoch_direction_and_port() {
        let mut apart = Apart::new(3);
        for (epoch, leaves, port) in [(7, false, 0), (7, true, 2), (7, true, 2), (8, false, 3), (23, true, 1)] {
            apart.count_late(epoch, leaves, port);
        }
        assert_eq!(apart.late(), [((7, false, 0), 1), ((7, true, 2), 2), ((8, false, 3), 1)].into());
        let strays: Vec<_> = apart.read_strays().by_epoch().clone().into_iter().collect();
        assert_eq!(strays, [(23, 1)], "23 shares a part with 7");
        apart.clear();
        assert!(apart.late().is_empty() && apart.read_strays().is_empty());
    }

    #[test]
    fn drops_are_told_apart_by_epoch_bit_place_port_and_reason() {
        let mut apart = Apart::new(3);
        apart.count_drop(true, DropAt::Inside, 2, DropReason::TtlExpired);
        apart.count_drop(true, DropAt::Inside, 2, DropReason::TtlExpired);
        apart.count_drop(true, DropAt::Before, 0, DropReason::NoHeadroom);
        apart.count_drop(false, DropAt::Behind, 1, DropReason::TxLimit);
        let key = |at, port, reason: DropReason| (at, port, reason as u8);
        let one =
            [(key(DropAt::Before, 0, DropReason::NoHeadroom), 1), (key(DropAt::Inside, 2, DropReason::TtlExpired), 2)];
        assert_eq!(apart.drops(true), one.into());
        assert_eq!(apart.drops(false), [(key(DropAt::Behind, 1, DropReason::TxLimit), 1)].into());
    }
}
