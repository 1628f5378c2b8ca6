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

/// Whether this switch speaks the version in the shim's fourth byte.
#[inline(always)]
pub(super) fn is_known(byte: u8) -> bool {
    byte >> 6 == VERSION
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

/// The content of a shim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shim {
    /// Switches passed, at most [`MAX_HOP`].
    pub hop: u8,
    /// At most [`MAX_LOOPS`].
    pub loops: u8,
    /// The lowest [`EPOCH_BITS`] bits of the number of the epoch in which the packet entered.
    pub epoch: u32,
    /// At most 3.
    pub class: u8,
}

impl Shim {
    #[inline(always)]
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        Self::of_content(view.content())
    }

    /// Writes the shim: of each field the low bits.
    #[inline(always)]
    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), WireError> {
        need(Layer::Shim, LEN, bytes)?;
        put16(bytes, 0, ETHERTYPE);
        put32(bytes, CONTENT, self.content());
        Ok(())
    }

    /// From the four bytes behind the EtherType.
    #[inline(always)]
    fn of_content(content: u32) -> Self {
        let [counts, marks] = [(content >> 24) as u8, (content >> 16) as u8];
        let epoch = content << SHORT_EPOCH_BITS & 0xf_fff0 | u32::from(marks >> 2) & SHORT_EPOCH;
        Self { hop: counts >> 2, loops: counts & MAX_LOOPS, epoch, class: marks & MAX_CLASS }
    }

    /// The four bytes behind the EtherType.
    #[inline(always)]
    fn content(&self) -> u32 {
        let counts = self.hop << 2 | self.loops & MAX_LOOPS;
        let marks = (VERSION << 6) | ((self.epoch & SHORT_EPOCH) as u8 * 4) | (self.class & MAX_CLASS);
        u32::from(counts) << 24 | u32::from(marks) << 16 | self.epoch >> SHORT_EPOCH_BITS & 0xffff
    }

    /// One switch further.
    #[must_use]
    #[inline(always)]
    pub fn next_hop(self) -> Self {
        Self { hop: self.hop.saturating_add(1).min(MAX_HOP), ..self }
    }

    /// The last two bytes, where they are a digest.
    #[inline(always)]
    pub fn digest(&self) -> u16 {
        (self.epoch >> SHORT_EPOCH_BITS) as u16
    }

    /// With a digest in the last two bytes, in place of all but four bits of the epoch's number.
    #[must_use]
    #[inline(always)]
    pub fn with_digest(self, digest: u16) -> Self {
        Self { epoch: u32::from(digest) << SHORT_EPOCH_BITS | self.epoch & SHORT_EPOCH, ..self }
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
    Some(Shim::of_content(get32(shim, CONTENT)))
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
    put32(head, AT + CONTENT, shim.content());
    true
}
