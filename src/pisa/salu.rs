//! The stateful ALU: all that a program can do to memory.

use std::fmt::Debug;

use super::{BATCH, Pairs, Word};

/// The index of a cell in a register array. An index past the array's end reads and writes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Slot(pub u32);

/// One stateful ALU with its register array. For an enabled packet the engine reads the cell that
/// `slot` names, calls `rmw` once, writes the cell back and calls `commit` once; the program never
/// holds the array.
///
/// `Copy` keeps a stateful ALU from carrying memory of its own beside the array: what it holds are
/// constants.
pub trait Salu: Copy + Send + 'static {
    /// The PHV as this program sees it: the fields it matches on, and its own metadata.
    type Phv;
    type Cell: Word;
    /// What leaves the ALU for the PHV.
    type Out: Copy + Debug;
    /// How many fields of the PHV that output fills. Tofino's register action has one, Tofino 2's
    /// up to four.
    const OUTPUTS: u32 = 1;
    /// Whether the output decides what the next stage does, which takes a match of its own on some
    /// targets.
    const DECIDES: bool = false;
    /// Fields of the PHV that may hold the next stage's key, among which the output chooses: a chip hashes
    /// each of them while it decides.
    const KEYS: u32 = 1;

    /// What [`Self::rmw`] computes and the stateful ALU of no chip does, as the rest of "its stateful
    /// ALU …". Such a program fits the target `software` alone. It is the program's word: types hold
    /// memory, stages and accesses, and not what an `rmw` computes.
    const BEYOND_CHIPS: Option<&'static str> = None;

    /// Every packet is enabled and none [ends](Self::ended) here, so that the engine need not ask. What
    /// the stateful ALU holds fits CPU registers.
    const ALWAYS: bool = false;

    /// A packet is enabled until it has [ended](Self::ended), so that the engine need not ask
    /// ([`Stage::sift`](super::Stage::sift)).
    const UNTIL_END: bool = false;

    /// Whether the packet touches the array at all: the match in front of the ALU.
    #[inline(always)]
    fn enabled(&self, _phv: &Self::Phv) -> bool {
        true
    }

    /// The cell that an enabled packet touches.
    fn slot(&self, phv: &Self::Phv) -> Slot;
    /// The cells of all these packets, in order. What it leaves behind them is of no meaning.
    #[inline(always)]
    fn slots(&self, phvs: &[Self::Phv], slots: &mut [Slot; BATCH]) {
        for (slot, phv) in slots.iter_mut().zip(phvs) {
            *slot = self.slot(phv);
        }
    }
    /// The cell's successor, and what the packet takes along.
    fn rmw(&self, cell: Self::Cell, phv: &Self::Phv) -> (Self::Cell, Self::Out);
    /// Whether [`Self::rmw_of_pairs`] is a form of its own.
    const PAIRS: bool = false;
    /// The same as [`Self::rmw`], in the form for CPUs that have [`Pairs`]. The engine asks for
    /// these once a batch, so that a loop over packets is compiled for either form.
    #[inline(always)]
    fn rmw_of_pairs(&self, _: Pairs, cell: Self::Cell, phv: &Self::Phv) -> (Self::Cell, Self::Out) {
        self.rmw(cell, phv)
    }
    /// Writes the output into the PHV.
    fn commit(&self, out: Self::Out, phv: &mut Self::Phv);
    /// Writes what a packet goes on with into another PHV, where it [is moved
    /// to](super::Stage::sift): all that later stages of the chain look at.
    #[inline(always)]
    fn pass_on(&self, out: Self::Out, phv: &Self::Phv, next: &mut Self::Phv)
    where
        Self::Phv: Copy,
    {
        *next = *phv;
        self.commit(out, next);
    }
    /// Whether this packet is disabled here and in all later stages of the same chain, so that the
    /// engine may stop. Saying so never changes a result.
    #[inline(always)]
    fn ended(_phv: &Self::Phv) -> bool {
        false
    }

    /// The output as a person reads it, for traces.
    fn describe(&self, out: &Self::Out) -> String {
        format!("{out:?}")
    }
}
