//! Records of flows.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use super::element::{self, Element, VARIABLE};
use super::template::{self, Template, write_variable};
use crate::wire::Flow;

/// A measured number or path of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measured {
    Packets(u64),
    /// From the destination MAC on.
    Bytes(u64),
    LostPackets(u64),
    /// The switches that it crosses, from the first to the last.
    Path(Vec<Arc<str>>),
}

/// A measured number or path of a flow, and the time for which it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    pub flow: Flow,
    /// Nanoseconds since 1970.
    pub time: Range<u64>,
    pub measured: Measured,
}

/// Names of templates: a kind has 64, one for each set of fields of each family.
const FAMILIES: u16 = 2;
const FIELD_SETS: u16 = 1 << 5;
/// The number behind those of all templates of flows.
pub const END: u16 = template::FIRST + 4 * FAMILIES * FIELD_SETS;

/// The semantic of a list whose order matters (RFC 6313, 4.5).
const ORDERED: u8 = 4;

/// Dropped, and no reason is known.
const DROPPED: u8 = 0x80;

impl Measured {
    /// The place of its templates among those of all kinds.
    fn kind(&self) -> u16 {
        match self {
            Self::Packets(_) => 0,
            Self::Bytes(_) => 1,
            Self::LostPackets(_) => 2,
            Self::Path(_) => 3,
        }
    }

    fn elements(&self) -> &'static [Element] {
        match self {
            Self::Packets(_) => &[element::PACKET_DELTA_COUNT],
            Self::Bytes(_) => &[element::LAYER2_OCTET_DELTA_COUNT],
            Self::LostPackets(_) => &[element::FORWARDING_STATUS, element::DROPPED_PACKET_DELTA_COUNT],
            Self::Path(_) => &[element::BASIC_LIST],
        }
    }

    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Self::Packets(count) | Self::Bytes(count) => to.extend(count.to_be_bytes()),
            Self::LostPackets(packets) => {
                to.push(DROPPED);
                to.extend(packets.to_be_bytes());
            }
            Self::Path(switches) => write_variable(to, &names(switches)),
        }
    }
}

/// A basicList of names.
fn names(names: &[Arc<str>]) -> Vec<u8> {
    let mut list = vec![ORDERED];
    list.extend(element::OBSERVATION_DOMAIN_NAME.id.to_be_bytes());
    list.extend(VARIABLE.to_be_bytes());
    names.iter().for_each(|name| write_variable(&mut list, name.as_bytes()));
    list
}

impl FlowRecord {
    /// The template and the record; `None` of a flow without any field, or with addresses of two families.
    pub fn encode(&self) -> Option<(Template, Vec<u8>)> {
        let Self { flow, time, measured } = self;
        let is_ipv6 = match (flow.src, flow.dst) {
            (Some(src), Some(dst)) if src.is_ipv6() != dst.is_ipv6() => return None,
            (src, dst) => src.or(dst).is_some_and(|address| address.is_ipv6()),
        };
        let (mut elements, mut record) = (Vec::new(), Vec::new());
        let mut absent = 0;
        let mut field = |element: Element, value: Option<&[u8]>| {
            absent = absent << 1 | u16::from(value.is_none());
            if let Some(value) = value {
                elements.push(element);
                record.extend(value);
            }
        };
        let addresses = match is_ipv6 {
            false => [element::SOURCE_IPV4_ADDRESS, element::DESTINATION_IPV4_ADDRESS],
            true => [element::SOURCE_IPV6_ADDRESS, element::DESTINATION_IPV6_ADDRESS],
        };
        let [src, dst] = [flow.src, flow.dst].map(|address| address.map(octets));
        let [sport, dport] = [flow.sport, flow.dport].map(|port| port.map(u16::to_be_bytes));
        field(addresses[0], src.as_deref());
        field(addresses[1], dst.as_deref());
        field(element::SOURCE_TRANSPORT_PORT, sport.as_ref().map(|port| &port[..]));
        field(element::DESTINATION_TRANSPORT_PORT, dport.as_ref().map(|port| &port[..]));
        field(element::PROTOCOL_IDENTIFIER, flow.proto.as_ref().map(std::slice::from_ref));
        if elements.is_empty() {
            return None;
        }
        elements.extend([element::FLOW_START_MILLISECONDS, element::FLOW_END_MILLISECONDS]);
        elements.extend(measured.elements());
        record.extend([time.start, time.end].map(|ns| (ns / 1_000_000).to_be_bytes()).as_flattened());
        measured.write(&mut record);
        let id = template::FIRST + (measured.kind() * FAMILIES + u16::from(is_ipv6)) * FIELD_SETS + absent;
        Some((Template { id, scopes: 0, elements }, record))
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
