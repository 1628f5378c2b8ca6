//! Arrays whose slots are index hashes of a packet's five-tuple. A program says of each what its
//! stateful ALU does.

use std::fmt::Debug;
use std::marker::PhantomData;

use crate::pisa::hash::IndexSlots;
use crate::pisa::{Array, ArrayGroup, GroupSalu, Phv, Salu, Slot, Stage, Word};
use crate::wire::FiveTuple;

/// A packet as such stages see it: its slots in up to `N` arrays, and what the program knows of it.
#[derive(Clone, Copy, Debug)]
pub struct Indexed<S, const N: usize> {
    pub tuple: FiveTuple,
    pub slots: [u32; N],
    pub state: S,
}

impl<S, const N: usize> Indexed<S, N> {
    /// `None` for a packet that is neither IPv4 nor IPv6.
    #[inline(always)]
    pub fn new(phv: &Phv, slots: &IndexSlots<N>, state: S) -> Option<Self> {
        let tuple = FiveTuple::of(&phv.headers)?;
        Some(Self { tuple, slots: slots.slots(tuple.bytes()), state })
    }
}

/// The stateful ALU of an array, of packets of which the program knows a [`Self::State`].
pub trait Step: Send + 'static {
    type State;
    type Cell: Word;
    type Out: Copy + Debug;
    /// [`Salu::DECIDES`].
    const DECIDES: bool = false;
    /// The cell's successor, and what the packet takes along.
    fn rmw(cell: Self::Cell, state: &Self::State) -> (Self::Cell, Self::Out);
    /// Takes it along.
    fn commit(out: Self::Out, state: &mut Self::State);
}

/// What a program knows of a packet that may leave its five-tuple in a table.
pub trait Keeps: Send + 'static {
    fn keeps(&self) -> bool;
}

/// An array by its place among the slots.
#[derive(Debug)]
pub struct At<T, const N: usize> {
    array: usize,
    bits: u32,
    of: PhantomData<fn() -> T>,
}

impl<T, const N: usize> Clone for At<T, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const N: usize> Copy for At<T, N> {}

impl<T, const N: usize> At<T, N> {
    fn new(slots: &IndexSlots<N>, array: usize) -> Self {
        Self { array, bits: slots.bits(array), of: PhantomData }
    }

    #[inline(always)]
    fn slot<S>(&self, packet: &Indexed<S, N>) -> Slot {
        Slot(packet.slots.get(self.array).copied().unwrap_or(u32::MAX))
    }
}

/// A stage of one array, number `array` of `slots`.
pub fn stage<T: Step, const N: usize>(
    name: &'static str,
    slots: &IndexSlots<N>,
    array: usize,
    cells: u32,
) -> Stage<Array<At<T, N>>> {
    Stage(Array::planned(name, At::new(slots, array), cells))
}

/// A stage that holds five-tuples, side by side an array for each word, number `array` of `slots`.
pub fn tuples<S: Keeps, const N: usize>(
    name: &'static str,
    slots: &IndexSlots<N>,
    array: usize,
    cells: u32,
) -> Stage<ArrayGroup<At<S, N>, 5>> {
    Stage(ArrayGroup::planned(name, At::new(slots, array), cells))
}

impl<T: Step, const N: usize> Salu for At<T, N> {
    type Phv = Indexed<T::State, N>;
    type Cell = T::Cell;
    type Out = T::Out;
    const DECIDES: bool = T::DECIDES;

    #[inline(always)]
    fn slot(&self, packet: &Self::Phv) -> Slot {
        self.slot(packet)
    }

    #[inline(always)]
    fn rmw(&self, cell: T::Cell, packet: &Self::Phv) -> (T::Cell, T::Out) {
        T::rmw(cell, &packet.state)
    }

    #[inline(always)]
    fn commit(&self, out: T::Out, packet: &mut Self::Phv) {
        T::commit(out, &mut packet.state);
    }

    fn hash_bits(&self) -> u32 {
        self.bits
    }
}

impl<S: Keeps, const N: usize> GroupSalu<5> for At<S, N> {
    type Phv = Indexed<S, N>;
    type Cell = u64;

    #[inline(always)]
    fn enabled(&self, packet: &Self::Phv) -> bool {
        packet.state.keeps()
    }

    #[inline(always)]
    fn slot(&self, packet: &Self::Phv) -> Slot {
        self.slot(packet)
    }

    #[inline(always)]
    fn rmw(&self, word: usize, _: u64, packet: &Self::Phv) -> u64 {
        packet.tuple.0.get(word).copied().unwrap_or_default()
    }

    fn hash_bits(&self) -> u32 {
        self.bits
    }
}
