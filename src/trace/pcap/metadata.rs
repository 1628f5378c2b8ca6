//! What a capture says about itself.

use serde::Serialize;

use super::Captured;
use crate::json::large;

/// Filters that are kept. A file may describe any number of interfaces.
const MAX_FILTERS: usize = 16;

/// What a capture says about itself and its packets, as far as it has been read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Metadata {
    /// Packets that the capturer received, and of these the ones that it lost. `None` where the
    /// capture does not say.
    #[serde(with = "large")]
    pub received_packets: Option<u64>,
    #[serde(with = "large")]
    pub missed_packets: Option<u64>,
    /// Filters that the capturer chose the packets with.
    pub filters: Vec<String>,
    /// Packets that were captured with their frame check sequence, which is cut off.
    pub fcs_packets: u64,
    /// Packets with an error on their link, such as a wrong frame check sequence.
    pub damaged_packets: u64,
    /// Packets without a time, or with one before 1970 or after 2554: they have that of the packet
    /// before.
    pub untimed_packets: u64,
}

impl Metadata {
    /// Adds what another capture says.
    pub fn add(&mut self, other: &Self) {
        add_known(&mut self.received_packets, other.received_packets);
        add_known(&mut self.missed_packets, other.missed_packets);
        other.filters.iter().for_each(|filter| self.add_filter(filter));
        self.fcs_packets += other.fcs_packets;
        self.damaged_packets += other.damaged_packets;
        self.untimed_packets += other.untimed_packets;
    }

    /// A line for each thing that it says.
    pub fn text(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(missed @ 1..) = self.missed_packets {
            let of = self.received_packets.map(|received| format!(" of {received}")).unwrap_or_default();
            lines.push(format!("packets that the capturer missed, as the capture says: {missed}{of}"));
        }
        for filter in &self.filters {
            lines.push(format!("the capture has packets alone that match a filter: {filter:?}"));
        }
        let packets = [
            (self.fcs_packets, "packets with a frame check sequence, which is cut off"),
            (self.damaged_packets, "packets with an error on their link, as the capture says, which count as others"),
            (self.untimed_packets, "packets without a time in the capture, which get that of the packet before"),
        ];
        let packets = packets.iter().filter(|(packets, _)| *packets > 0);
        lines.extend(packets.map(|(packets, what)| format!("{what}: {packets}")));
        lines
    }

    pub(super) fn add_filter(&mut self, filter: &str) {
        if self.filters.len() < MAX_FILTERS && self.filters.iter().all(|known| known != filter) {
            self.filters.push(filter.to_owned());
        }
    }
}

/// Adds a number that is not always known.
pub(super) fn add_known(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or_default().saturating_add(more));
    }
}

/// A packet as it stands in the file.
#[derive(Debug)]
pub(super) struct Stored<'a> {
    /// `at_ns` is of no meaning without `has_time`, and the length is that with `fcs_len`.
    pub captured: Captured<'a>,
    pub has_time: bool,
    /// Bytes of frame check sequence behind the packet.
    pub fcs_len: u32,
    pub is_damaged: bool,
}

impl<'a> Stored<'a> {
    /// The packet by itself. `latest_ns` is the time of the packet before.
    pub fn captured(self, latest_ns: &mut u64, said: &mut Metadata) -> Captured<'a> {
        let Self { mut captured, has_time, fcs_len, is_damaged } = self;
        match has_time {
            true => *latest_ns = captured.at_ns,
            false => {
                captured.at_ns = *latest_ns;
                said.untimed_packets += 1;
            }
        }
        said.damaged_packets += u64::from(is_damaged);
        if fcs_len > 0 && captured.wire_len > fcs_len {
            said.fcs_packets += 1;
            captured.wire_len -= fcs_len;
            captured.bytes = captured.bytes.get(..captured.wire_len as usize).unwrap_or(captured.bytes);
        }
        captured
    }
}
