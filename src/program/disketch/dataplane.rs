//! The stateful ALUs of a fragment: one addition to each array for each packet that is counted there.

use std::marker::PhantomData;

use super::counter::Counter;
use super::hashes::LevelHashes;
use crate::pisa::hash::HighRange;
use crate::pisa::{Salu, Slot};

/// A packet that is counted.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    pub slot: u32,
    /// 1, or the bytes of the packet.
    pub weight: u32,
    pub is_negative: bool,
}

/// Adds a packet to its counter, or with `SIGNED` subtracts it where the flow's sign is negative.
#[derive(Clone, Copy, Debug, Default)]
pub struct Add<C, const SIGNED: bool>(PhantomData<C>);

impl<C: Counter, const SIGNED: bool> Salu for Add<C, SIGNED> {
    type Phv = Counted;
    type Cell = C;
    type Out = ();
    const ALWAYS: bool = true;

    #[inline(always)]
    fn slot(&self, packet: &Counted) -> Slot {
        Slot(packet.slot)
    }

    #[inline(always)]
    fn rmw(&self, count: C, packet: &Counted) -> (C, ()) {
        let count =
            if SIGNED { count.add(packet.weight, packet.is_negative) } else { count.add_unsigned(packet.weight) };
        (count, ())
    }

    #[inline(always)]
    fn commit(&self, (): (), _: &mut Counted) {}

    fn describe(&self, (): &()) -> String {
        "nothing".into()
    }
}

/// A packet that is counted in the levels down to its flow's depth.
#[derive(Clone, Copy, Debug)]
pub struct CountedInLevels {
    pub hashes: LevelHashes,
    /// 1, or the bytes of the packet.
    pub weight: u32,
}

/// Adds a packet to its counter of one level, or subtracts it where the flow's sign is negative.
#[derive(Clone, Copy, Debug)]
pub struct AddInLevel<C> {
    level: u8,
    range: HighRange,
    counter: PhantomData<C>,
}

impl<C> AddInLevel<C> {
    pub fn new(level: u8, range: HighRange) -> Self {
        Self { level, range, counter: PhantomData }
    }
}

impl<C: Counter> Salu for AddInLevel<C> {
    type Phv = CountedInLevels;
    type Cell = C;
    type Out = ();

    #[inline(always)]
    fn enabled(&self, packet: &CountedInLevels) -> bool {
        packet.hashes.depth >= self.level.into()
    }

    #[inline(always)]
    fn slot(&self, packet: &CountedInLevels) -> Slot {
        Slot(packet.hashes.slot(self.range, self.level.into()))
    }

    #[inline(always)]
    fn rmw(&self, count: C, packet: &CountedInLevels) -> (C, ()) {
        (count.add(packet.weight, packet.hashes.is_negative(self.level.into())), ())
    }

    #[inline(always)]
    fn commit(&self, (): (), _: &mut CountedInLevels) {}

    fn describe(&self, (): &()) -> String {
        "nothing".into()
    }
}
