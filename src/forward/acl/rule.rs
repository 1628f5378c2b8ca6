//! A rule: its match and its action.

use std::ops::RangeInclusive;

use crate::pisa::PortId;
use crate::pisa::table::Key;
use crate::wire::{Fragment, Mac};

/// The action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Permit,
    Deny,
    /// Counts it, and the rules behind decide.
    Count,
}

/// The leading bits of a MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacPrefix {
    pub mac: Mac,
    /// At most 48.
    pub len: u32,
}

/// The leading bits of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    V4 { address: u32, len: u32 },
    V6 { address: u128, len: u32 },
}

/// TCP flags that must be set, and that must be clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags {
    pub mask: u8,
    pub value: u8,
}

/// The kind of fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentMatch {
    /// The whole packet.
    Whole,
    /// Any piece of a larger packet.
    Any,
    /// The piece with the transport header.
    First,
    /// A piece without one.
    Later,
}

/// A rule's condition on each field; `None` matches anything. A packet that does not
/// have a field matches no rule that asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// The ingress port is one of these.
    pub ports: Option<Vec<PortId>>,
    pub src_mac: Option<MacPrefix>,
    pub dst_mac: Option<MacPrefix>,
    pub ethertype: Option<u16>,
    /// 0 for untagged frames.
    pub vlan: Option<Vec<RangeInclusive<u16>>>,
    pub src: Option<Prefix>,
    pub dst: Option<Prefix>,
    pub proto: Option<u8>,
    /// Ports of TCP and UDP.
    pub sport: Option<Vec<RangeInclusive<u16>>>,
    pub dport: Option<Vec<RangeInclusive<u16>>>,
    pub tcp_flags: Option<Flags>,
    pub dscp: Option<u8>,
    pub fragment: Option<FragmentMatch>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Unique in the list.
    pub name: String,
    pub matches: Match,
    pub action: Action,
    /// A copy of the packet goes to this port.
    pub mirror: Option<PortId>,
}

impl MacPrefix {
    pub fn range(self) -> RangeInclusive<u64> {
        let mask = u64::prefix_mask(self.len, 48);
        let low = self.mac.to_u64() & mask;
        low..=low | !mask & u64::prefix_mask(48, 48)
    }
}

/// The addresses of a prefix.
pub(super) fn range<K: Key + std::ops::BitOr<Output = K> + std::ops::Not<Output = K>>(
    address: K,
    len: u32,
    width: u32,
) -> RangeInclusive<K> {
    let mask = K::prefix_mask(len, width);
    let low = address & mask;
    low..=low | !mask
}

impl Flags {
    pub fn matches(self, flags: u8) -> bool {
        flags & self.mask == self.value
    }
}

impl FragmentMatch {
    pub fn matches(self, fragment: Fragment) -> bool {
        match self {
            Self::Whole => fragment == Fragment::Whole,
            Self::Any => fragment != Fragment::Whole,
            Self::First => fragment == Fragment::First,
            Self::Later => fragment == Fragment::Later,
        }
    }
}

impl Match {
    /// Rows of a TCAM that the rule takes: ranges are spread out over prefixes, and every
    /// combination is a row.
    pub fn tcam_rows(&self) -> u64 {
        let ranges = |ranges: &Option<Vec<RangeInclusive<u16>>>| match ranges {
            None => 1,
            Some(ranges) => ranges.iter().map(|range| prefixes(*range.start(), *range.end())).sum(),
        };
        let ports = self.ports.as_ref().map_or(1, |ports| ports.len() as u64);
        ports * ranges(&self.vlan) * ranges(&self.sport) * ranges(&self.dport)
    }
}

/// The fewest prefixes that cover a range and nothing else.
fn prefixes(low: u16, high: u16) -> u64 {
    let (mut low, end, mut rows) = (u32::from(low), u32::from(high) + 1, 0);
    while low < end {
        let aligned = if low == 0 { 1 << 16 } else { low & low.wrapping_neg() };
        let mut size: u32 = aligned;
        while size > end - low {
            size /= 2;
        }
        (low, rows) = (low + size, rows + 1);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_prefixes() {
        for (low, high, rows) in
            [(0, u16::MAX, 1), (80, 80, 1), (1, 65534, 30), (1024, 65535, 6), (80, 443, 8), (6, 7, 1)]
        {
            assert_eq!(prefixes(low, high), rows, "{low}-{high}");
        }
    }

    #[test]
    fn prefixes_become_ranges() {
        assert_eq!(range(0x0a01_0203_u32, 8, 32), 0x0a00_0000..=0x0aff_ffff);
        assert_eq!(range(7_u32, 0, 32), 0..=u32::MAX);
        assert_eq!(range(7_u128, 128, 128), 7..=7);
        let mac = Mac([2, 0, 0, 1, 2, 3]);
        assert_eq!(MacPrefix { mac, len: 24 }.range(), 0x0200_0000_0000..=0x0200_00ff_ffff);
        assert_eq!(MacPrefix { mac, len: 48 }.range(), mac.to_u64()..=mac.to_u64());
    }
}
