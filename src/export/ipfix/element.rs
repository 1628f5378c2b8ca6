//! Information elements of IANA's registry.

/// An element of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    pub id: u16,
    /// In bytes; [`VARIABLE`] where each record says its own.
    pub length: u16,
}

/// The length of an element whose length each record says.
pub const VARIABLE: u16 = u16::MAX;

const fn element(id: u16, length: u16) -> Element {
    Element { id, length }
}

pub const PACKET_DELTA_COUNT: Element = element(2, 8);
pub const PROTOCOL_IDENTIFIER: Element = element(4, 1);
pub const SOURCE_TRANSPORT_PORT: Element = element(7, 2);
pub const SOURCE_IPV4_ADDRESS: Element = element(8, 4);
pub const DESTINATION_TRANSPORT_PORT: Element = element(11, 2);
pub const DESTINATION_IPV4_ADDRESS: Element = element(12, 4);
pub const SOURCE_IPV6_ADDRESS: Element = element(27, 16);
pub const DESTINATION_IPV6_ADDRESS: Element = element(28, 16);
pub const EXPORTED_MESSAGE_TOTAL_COUNT: Element = element(41, 8);
pub const EXPORTED_FLOW_RECORD_TOTAL_COUNT: Element = element(42, 8);
pub const INTERFACE_NAME: Element = element(82, VARIABLE);
pub const FORWARDING_STATUS: Element = element(89, 1);
pub const DROPPED_PACKET_DELTA_COUNT: Element = element(133, 8);
pub const DROPPED_PACKET_TOTAL_COUNT: Element = element(135, 8);
pub const METERING_PROCESS_ID: Element = element(143, 4);
pub const EXPORTING_PROCESS_ID: Element = element(144, 4);
pub const OBSERVATION_DOMAIN_ID: Element = element(149, 4);
pub const FLOW_START_MILLISECONDS: Element = element(152, 8);
pub const FLOW_END_MILLISECONDS: Element = element(153, 8);
pub const NOT_SENT_FLOW_TOTAL_COUNT: Element = element(166, 8);
pub const BASIC_LIST: Element = element(291, VARIABLE);
pub const OBSERVATION_DOMAIN_NAME: Element = element(300, VARIABLE);
pub const OBSERVATION_TIME_MILLISECONDS: Element = element(323, 8);
pub const SELECTOR_NAME: Element = element(335, VARIABLE);
/// From the destination MAC on, where `octetDeltaCount` begins with the IP header.
pub const LAYER2_OCTET_DELTA_COUNT: Element = element(352, 8);
