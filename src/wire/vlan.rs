//! Changes of a VLAN tag.

use super::Frame;
use super::field::put16;

/// A change of a frame's outermost tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TagEdit {
    #[default]
    Keep,
    Pop,
    /// Another TCI in the tag that is there.
    Set(u16),
    Push {
        ethertype: u16,
        tci: u16,
    },
}

/// EtherType and TCI.
const TAG: usize = 4;

impl TagEdit {
    /// Bytes that a frame grows by.
    #[inline(always)]
    pub fn growth(self) -> isize {
        match self {
            Self::Keep | Self::Set(_) => 0,
            Self::Pop => -(TAG as isize),
            Self::Push { .. } => TAG as isize,
        }
    }

    /// Whether [`Self::write_tag`] will work.
    #[inline(always)]
    pub fn fits(self, frame: &impl Frame, at: usize) -> bool {
        let len = frame.bytes().len();
        match self {
            Self::Keep => true,
            Self::Pop | Self::Set(_) => len >= at + TAG,
            Self::Push { .. } => len >= at + 2 && frame.headroom() >= TAG,
        }
    }

    /// Changes the tag whose EtherType stands, or is to stand, `at` bytes into the frame. False,
    /// and nothing changed, where that does not [fit](Self::fits).
    pub fn write_tag(self, frame: &mut impl Frame, at: usize) -> bool {
        if !self.fits(frame, at) {
            return false;
        }
        match self {
            Self::Keep => {}
            Self::Pop => {
                frame.bytes_mut().copy_within(0..at, TAG);
                frame.shrink_front(TAG);
            }
            Self::Set(tci) => put16(frame.bytes_mut(), at + 2, tci),
            Self::Push { ethertype, tci } => {
                frame.grow_front(TAG);
                let bytes = frame.bytes_mut();
                bytes.copy_within(TAG..TAG + at, 0);
                put16(bytes, at, ethertype);
                put16(bytes, at + 2, tci);
            }
        }
        true
    }
}
