//! The stateful ALUs of hop counters: one addition to an array for each packet that it counts.

use crate::pisa::{Salu, Slot};

/// A packet that is counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hop {
    pub slot: u32,
}

/// Adds a packet to the counter of its port, epoch and group. A counter stays at its largest number.
#[derive(Clone, Copy, Debug)]
pub struct Count;

impl Salu for Count {
    type Phv = Hop;
    type Cell = u32;
    type Out = ();
    const ALWAYS: bool = true;

    #[inline(always)]
    fn slot(&self, packet: &Hop) -> Slot {
        Slot(packet.slot)
    }

    #[inline(always)]
    fn rmw(&self, count: u32, _: &Hop) -> (u32, ()) {
        (count.saturating_add(1), ())
    }

    #[inline(always)]
    fn commit(&self, (): (), _: &mut Hop) {}

    fn describe(&self, (): &()) -> String {
        "nothing".into()
    }
}

/// A packet that came in and ended here without a loss, or one that the switch made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own {
    pub slot: u32,
    pub ends: bool,
}

/// Adds a packet that ended to the balance of its group, or subtracts one that the switch made.
#[derive(Clone, Copy, Debug)]
pub struct Balance;

impl Salu for Balance {
    type Phv = Own;
    type Cell = u32;
    type Out = ();
    const ALWAYS: bool = true;

    #[inline(always)]
    fn slot(&self, packet: &Own) -> Slot {
        Slot(packet.slot)
    }

    #[inline(always)]
    fn rmw(&self, balance: u32, packet: &Own) -> (u32, ()) {
        let next = if packet.ends { balance.wrapping_add(1) } else { balance.wrapping_sub(1) };
        (next, ())
    }

    #[inline(always)]
    fn commit(&self, (): (), _: &mut Own) {}

    fn describe(&self, (): &()) -> String {
        "nothing".into()
    }
}
