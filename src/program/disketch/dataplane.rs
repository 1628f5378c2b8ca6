//! The stateful ALU of a fragment: one addition for each packet that is counted.

use std::marker::PhantomData;

use super::counter::Counter;
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
