//! The telemetry shim that a packet carries from switch to switch, between its MACs and everything
//! else:
//!
//! ```text
//! dst MAC │ src MAC │ 0x88B5 │ hop 6b, loop 2b │ version 2b, epoch 4b, class 2b │ epoch or digest 16b │ EtherType …
//! ```
//!
//! It stands before any VLAN tag. The fourth byte holds the lowest four bits of the number of the
//! epoch in which the packet entered the network, the last two bytes the next 16 bits. In a network
//! with a program that needs a digest, the last two bytes are the digest instead
//! ([`Shim::digest`]), and the epoch is the nearest one with these four bits ([`nearest_epoch`]).

use std::fmt;

use super::error::{check, need};
use super::field::{get16, get32, put16, put32};
use super::{Frame, Layer, WireError};

pub use super::ethertype::SHIM as ETHERTYPE;

/// Bytes that the shim adds to a frame.
pub const LEN: usize = 6;

/// The version that this switch speaks. Version 1 had one bit of the epoch's number. Not 0, so that
/// a frame of zeros behind the EtherType is not taken for a shim.
pub const VERSION: u8 = 2;

/// Bits of an epoch's number that a packet carries.
pub const EPOCH_BITS: u32 = 20;

/// The bits of an epoch's number that a packet carries.
#[inline(always)]
pub fn epoch_of(number: u64) -> u32 {
    number as u32 & ((1 << EPOCH_BITS) - 1)
}

/// Bits of an epoch's number that a packet carries beside a digest.
const SHORT_EPOCH_BITS: u32 = 4;
const SHORT_EPOCH: u32 = (1 << SHORT_EPOCH_BITS) - 1;

/// The epoch nearest to `running` whose low four bits are those of `epoch`, both as packets carry
/// them. Of two that are equally near, the earlier one: packets are late, not early.
#[inline(always)]
pub fn nearest_epoch(running: u32, epoch: u32) -> u32 {
    let ahead = epoch.wrapping_sub(running) & SHORT_EPOCH;
    const EPOCHS: u32 = 1 << SHORT_EPOCH_BITS;
    let back = if ahead < EPOCHS / 2 { 0 } else { EPOCHS };
    epoch_of(u64::from(running.wrapping_add(ahead).wrapping_sub(back)))
}

/// The largest hop and loop counts; they stay there.
pub const MAX_HOP: u8 = 63;
pub const MAX_LOOPS: u8 = 3;

/// The class of a packet that is not measured.
pub const NO_CLASS: u8 = 0;
/// The class of one of several copies or fragments, which a switch that does not measure made of a
/// packet with a class.
pub const SEVERAL: u8 = 3;
/// The largest class.
const MAX_CLASS: u8 = 3;

/// Offset of the shim in a frame.
const AT: usize = 12;
/// Offset in the shim of what stands behind its EtherType.
const CONTENT: usize = 2;

/// The bits of the version in the shim's fourth byte.
pub const VERSION_BITS: u8 = 0xc0;

/// Whether this switch speaks the version in the shim's fourth byte.
#[inline(always)]
pub(super) fn is_known(byte: u8) -> bool {
    byte & VERSION_BITS == VERSION << VERSION_BITS.trailing_zeros()
}

/// A shim of a version that this switch speaks, from its EtherType on.
#[derive(Clone, Copy, Debug)]
pub struct View<T>(T);

impl<T: AsRef<[u8]>> View<T> {
    #[inline(always)]
    pub fn new(bytes: T) -> Result<Self, WireError> {
        let b = bytes.as_ref();
        need(Layer::Shim, LEN, b)?;
        check(Layer::Shim, "the EtherType", get16(b, 0), get16(b, 0) == ETHERTYPE)?;
        check(Layer::Shim, "the version", b[3] >> 6, is_known(b[3]))?;
        Ok(Self(bytes))
    }

    #[inline(always)]
    fn content(&self) -> u32 {
        get32(self.0.as_ref(), CONTENT)
    }
}

/// The content of a shim: the four bytes behind its EtherType as one word, so that a switch reads
/// and writes it in one step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shim(u32);

/// Where a field begins in the word. The high part of the epoch's number begins at 0.
const HOP_AT: u32 = 26;
const LOOPS_AT: u32 = 24;
const VERSION_AT: u32 = 22;
const SHORT_EPOCH_AT: u32 = 18;
const CLASS_AT: u32 = 16;
/// The high part of the epoch's number, or the digest.
const LOW: u32 = 0xffff;

impl Shim {
    /// Of each field the low bits.
    #[inline(always)]
    pub const fn new(hop: u8, loops: u8, epoch: u32, class: u8) -> Self {
        Self((VERSION as u32) << VERSION_AT | ((loops & MAX_LOOPS) as u32) << LOOPS_AT)
            .with_hop(hop)
            .with_epoch(epoch)
            .with_class(class)
    }

    #[inline(always)]
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        Self(view.content())
    }

    /// Writes the shim.
    #[inline(always)]
    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), WireError> {
        need(Layer::Shim, LEN, bytes)?;
        put16(bytes, 0, ETHERTYPE);
        put32(bytes, CONTENT, self.0);
        Ok(())
    }

    /// Switches passed, at most [`MAX_HOP`].
    #[inline(always)]
    pub const fn hop(self) -> u8 {
        (self.0 >> HOP_AT) as u8
    }

    /// How often a switch found its own hash in the packet's digest, at most [`MAX_LOOPS`]
    /// (`program::pint::loops`).
    #[inline(always)]
    pub const fn loops(self) -> u8 {
        (self.0 >> LOOPS_AT) as u8 & MAX_LOOPS
    }

    /// The lowest [`EPOCH_BITS`] bits of the number of the epoch in which the packet entered the
    /// network.
    #[inline(always)]
    pub const fn epoch(self) -> u32 {
        (self.0 & LOW) << SHORT_EPOCH_BITS | self.0 >> SHORT_EPOCH_AT & SHORT_EPOCH
    }

    /// At most 3: what ChameleMon took the packet for where it entered, or that it is one of
    /// several (`program::chamelemon::dataplane::class`).
    #[inline(always)]
    pub const fn class(self) -> u8 {
        (self.0 >> CLASS_AT) as u8 & MAX_CLASS
    }

    /// The last two bytes, where they are a digest.
    #[inline(always)]
    pub const fn digest(self) -> u16 {
        self.0 as u16
    }

    #[must_use]
    #[inline(always)]
    pub const fn with_hop(self, hop: u8) -> Self {
        Self(self.0 & !((MAX_HOP as u32) << HOP_AT) | (hop as u32) << HOP_AT)
    }

    #[must_use]
    #[inline(always)]
    pub const fn with_loops(self, loops: u8) -> Self {
        Self(self.0 & !((MAX_LOOPS as u32) << LOOPS_AT) | ((loops & MAX_LOOPS) as u32) << LOOPS_AT)
    }

    #[must_use]
    #[inline(always)]
    pub const fn with_epoch(self, epoch: u32) -> Self {
        let short = (epoch & SHORT_EPOCH) << SHORT_EPOCH_AT;
        Self(self.0 & !(SHORT_EPOCH << SHORT_EPOCH_AT | LOW) | short | epoch >> SHORT_EPOCH_BITS & LOW)
    }

    #[must_use]
    #[inline(always)]
    pub const fn with_class(self, class: u8) -> Self {
        Self(self.0 & !((MAX_CLASS as u32) << CLASS_AT) | ((class & MAX_CLASS) as u32) << CLASS_AT)
    }

    /// With a digest in the last two bytes, in place of all but four bits of the epoch's number.
    #[must_use]
    #[inline(always)]
    pub const fn with_digest(self, digest: u16) -> Self {
        Self(self.0 & !LOW | digest as u32)
    }

    /// One switch further.
    #[must_use]
    #[inline(always)]
    pub const fn next_hop(self) -> Self {
        if self.hop() < MAX_HOP { Self(self.0 + (1 << HOP_AT)) } else { self }
    }
}

impl Default for Shim {
    fn default() -> Self {
        Self::new(0, 0, 0, NO_CLASS)
    }
}

impl fmt::Debug for Shim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shim")
            .field("hop", &self.hop())
            .field("loops", &self.loops())
            .field("epoch", &self.epoch())
            .field("class", &self.class())
            .finish()
    }
}

/// Reads the shim of a frame and leaves it there.
pub fn peek(bytes: &[u8]) -> Result<Shim, WireError> {
    need(Layer::Shim, AT + LEN + 2, bytes)?;
    Ok(Shim::parse(&View::new(&bytes[AT..])?))
}

/// Reads the shim of a frame in which the parser found one. `None` for a runt.
#[inline(always)]
pub fn read(bytes: &[u8]) -> Option<Shim> {
    let shim = bytes.get(AT..)?.first_chunk::<LEN>()?;
    Some(Shim(get32(shim, CONTENT)))
}

/// Whether there is room for a shim, once the frame has grown by `growth` bytes.
#[inline(always)]
pub fn fits(frame: &impl Frame, growth: isize) -> bool {
    frame.headroom() as isize - growth >= LEN as isize && frame.bytes().len() as isize + growth >= (AT + 2) as isize
}

/// Inserts a shim. False, and nothing changed, when the headroom is too small or the frame a runt.
#[inline(always)]
pub fn push(frame: &mut impl Frame, shim: Shim) -> bool {
    if frame.bytes().len() < AT + 2 || !frame.grow_front(LEN) {
        return false;
    }
    // A length that is known here makes the move a few instructions.
    let Some(head) = frame.bytes_mut().first_chunk_mut::<{ AT + LEN }>() else { return false };
    let macs: [u8; AT] = std::array::from_fn(|at| head[LEN + at]);
    head[..AT].copy_from_slice(&macs);
    shim.emit(&mut head[AT..]).is_ok()
}

/// Removes the shim of a frame in which the parser found one. False, and nothing changed, for a
/// runt.
#[inline(always)]
pub fn pop(frame: &mut impl Frame) -> bool {
    let Some(head) = frame.bytes_mut().first_chunk_mut::<{ AT + LEN }>() else { return false };
    let macs: [u8; AT] = std::array::from_fn(|at| head[at]);
    head[LEN..].copy_from_slice(&macs);
    frame.shrink_front(LEN);
    true
}

/// Overwrites the shim of a frame in which the parser found one. False, and nothing changed, for a
/// runt.
#[inline(always)]
pub fn rewrite(frame: &mut impl Frame, shim: Shim) -> bool {
    let Some(head) = frame.bytes_mut().first_chunk_mut::<{ AT + LEN }>() else { return false };
    put32(head, AT + CONTENT, shim.0);
    true
}
