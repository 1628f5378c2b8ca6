//! A VLAN tag as it follows its EtherType: the tag control information and the next EtherType.

use super::error::{check, need};
use super::field::{get16, put16};
use super::{Frame, Layer, WireError};

pub const LEN: usize = 4;

/// A whole tag and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct View<T>(T);

impl<T: AsRef<[u8]>> View<T> {
    pub fn new(bytes: T) -> Result<Self, WireError> {
        need(Layer::Vlan, LEN, bytes.as_ref())?;
        Ok(Self(bytes))
    }

    pub fn tci(&self) -> u16 {
        get16(self.0.as_ref(), 0)
    }

    pub fn priority(&self) -> u8 {
        (self.tci() >> 13) as u8
    }

    pub fn drop_eligible(&self) -> bool {
        self.tci() & 0x1000 != 0
    }

    pub fn vid(&self) -> u16 {
        self.tci() & 0x0fff
    }

    pub fn ethertype(&self) -> u16 {
        get16(self.0.as_ref(), 2)
    }

    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    pub fn set_tci(&mut self, tci: u16) {
        put16(self.0.as_mut(), 0, tci);
    }

    pub fn set_ethertype(&mut self, ethertype: u16) {
        put16(self.0.as_mut(), 2, ethertype);
    }
}

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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// At most 7.
    pub priority: u8,
    pub drop_eligible: bool,
    /// At most 4095.
    pub vid: u16,
    pub ethertype: u16,
}

impl Repr {
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        Self {
            priority: view.priority(),
            drop_eligible: view.drop_eligible(),
            vid: view.vid(),
            ethertype: view.ethertype(),
        }
    }

    pub fn header_len(&self) -> usize {
        LEN
    }

    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), WireError> {
        check(Layer::Vlan, "the priority", self.priority, self.priority < 8)?;
        check(Layer::Vlan, "the VLAN", self.vid, self.vid < 4096)?;
        let mut view = View::new(bytes)?;
        view.set_tci(u16::from(self.priority) << 13 | u16::from(self.drop_eligible) << 12 | self.vid);
        view.set_ethertype(self.ethertype);
        Ok(())
    }
}
