//! What a register cell may hold: words with a declared number of bits.

use std::hint::select_unpredictable;

use super::hash::Digest;
use super::vectors::{self, Pairs};
use crate::wire::{Addr4, Addr6, FlowKey, Pair4, Pair6, Tuple4, Tuple6};

mod sealed {
    pub trait Sealed {}
}

/// A register cell's content. Sealed, so that memory is always counted in the bits that the
/// hardware would use, never in `size_of`. The default value is all zero: a cleared cell.
pub trait Word: sealed::Sealed + Copy + Default + PartialEq + Send + Sync + 'static {
    const BITS: u32;

    /// Bits of each field of the content.
    fn fields() -> Vec<u32> {
        vec![Self::BITS]
    }

    /// Writes the fields in order, each as a little-endian number in whole bytes. A key's number is
    /// that of its bytes in network order.
    fn write(&self, to: &mut Vec<u8>);

    /// The content as a person reads it, for traces.
    fn describe(&self) -> String;

    /// All ones if both are equal, else 0; and both, in the other order if `swap`. Without a branch.
    #[inline(always)]
    fn compare_and_swap(swap: bool, a: Self, b: Self) -> (u32, Self, Self) {
        (u32::from(a == b).wrapping_neg(), select_unpredictable(swap, b, a), select_unpredictable(swap, a, b))
    }

    /// Merges a cell's word and count with those that a packet carries. Returns the pair for the
    /// cell, and the one that is carried on. Of equal words the cell gets both counts, at most the
    /// largest number, and a count of 0 is carried on; else it keeps the pair with the larger
    /// count, of equal ones its own. Without a branch.
    #[inline(always)]
    fn merge((word, count): (Self, u32), (carried, carried_count): (Self, u32)) -> [(Self, u32); 2] {
        let (more, less) = (count.max(carried_count), count.min(carried_count));
        let (same, kept, next) = Self::compare_and_swap(count < carried_count, word, carried);
        let added = less & same;
        [(kept, more.saturating_add(added)), (next, less ^ added)]
    }

    /// The same as [`Self::merge`], on a CPU that has [`Pairs`].
    #[inline(always)]
    fn merge_pairs(_: Pairs, cell: (Self, u32), carried: (Self, u32)) -> [(Self, u32); 2] {
        Self::merge(cell, carried)
    }
}

macro_rules! words {
    ($($t:ty: $bits:expr),* $(,)?) => {$(
        impl sealed::Sealed for $t {}
        impl Word for $t {
            const BITS: u32 = $bits;

            fn describe(&self) -> String {
                self.to_string()
            }

            fn write(&self, to: &mut Vec<u8>) {
                let bytes = u64::from(*self).to_le_bytes();
                to.extend(bytes.iter().take(Self::BITS.div_ceil(8) as usize));
            }
        }
    )*};
}

/// A key's bytes, the last one first.
fn write_key(key: impl FlowKey, to: &mut Vec<u8>) {
    to.extend(key.bytes().as_ref().iter().rev());
}

macro_rules! key_words {
    ($($t:ty),*) => {$(
        impl sealed::Sealed for $t {}
        impl Word for $t {
            const BITS: u32 = <Self as FlowKey>::BITS;

            fn describe(&self) -> String {
                self.flow().to_string()
            }

            fn write(&self, to: &mut Vec<u8>) {
                write_key(*self, to);
            }
        }
    )*};
}

words!(bool: 1, u8: 8, u16: 16, u32: 32, u64: 64);
key_words!(Tuple6, Pair4, Pair6);

impl sealed::Sealed for Tuple4 {}
impl Word for Tuple4 {
    const BITS: u32 = <Self as FlowKey>::BITS;

    fn describe(&self) -> String {
        self.flow().to_string()
    }

    fn write(&self, to: &mut Vec<u8>) {
        write_key(*self, to);
    }

    #[inline(always)]
    fn compare_and_swap(swap: bool, a: Self, b: Self) -> (u32, Self, Self) {
        let (same, a, b) = vectors::compare_and_swap(swap, a.0, b.0);
        (same, Self(a), Self(b))
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn merge_pairs(pairs: Pairs, cell: (Self, u32), carried: (Self, u32)) -> [(Self, u32); 2] {
        let [cell, carried] = [cell, carried].map(|(Self(key), count)| (key, count));
        pairs.merge(cell, carried).map(|(key, count)| (Self(key), count))
    }
}

macro_rules! address_words {
    ($($t:ident),*) => {$(
        impl<const DST: bool> sealed::Sealed for $t<DST> {}
        impl<const DST: bool> Word for $t<DST> {
            const BITS: u32 = <Self as FlowKey>::BITS;

            fn describe(&self) -> String {
                self.flow().to_string()
            }

            fn write(&self, to: &mut Vec<u8>) {
                write_key(*self, to);
            }
        }
    )*};
}

address_words!(Addr4, Addr6);

impl<const V6: bool> sealed::Sealed for Digest<V6> {}
impl<const V6: bool> Word for Digest<V6> {
    const BITS: u32 = <Self as FlowKey>::BITS;

    fn describe(&self) -> String {
        format!("digest {:08x}", self.0)
    }

    fn write(&self, to: &mut Vec<u8>) {
        write_key(*self, to);
    }
}

impl<A: Word, B: Word> sealed::Sealed for (A, B) {}

/// A wide cell: two fields that one stateful ALU reads and writes together.
impl<A: Word, B: Word> Word for (A, B) {
    const BITS: u32 = A::BITS + B::BITS;

    fn fields() -> Vec<u32> {
        [A::fields(), B::fields()].concat()
    }

    fn write(&self, to: &mut Vec<u8>) {
        self.0.write(to);
        self.1.write(to);
    }

    fn describe(&self) -> String {
        if *self == Self::default() {
            return "empty".into();
        }
        format!("{}, {}", self.0.describe(), self.1.describe())
    }
}
