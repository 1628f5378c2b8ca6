//! Options records: what is said about the export and the measurement, and drops.

use std::ops::Range;

use super::element as e;
use super::flows;
use super::template::{Template, write_variable};
use crate::pisa::DropReason;

/// Numbers of the templates, behind those of flows.
const DOMAIN: u16 = flows::END;
const EXPORT: u16 = flows::END + 1;
const INCOMPLETE: u16 = flows::END + 2;
const DROPS: u16 = flows::END + 3;

/// The number of the one exporting process.
const EXPORTING_PROCESS: u32 = 1;

/// Something that is no flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionsRecord<'a> {
    /// The name of the switch or controller whose observation domain this is.
    Domain { id: u32, name: &'a str },
    /// Totals of the export. Records that were not sent are of flows.
    Export { messages: u64, flow_records: u64, unsent_records: u64 },
    /// A metering process's records for this time, in nanoseconds since 1970, are not complete.
    Incomplete { metering_process: u32, time: Range<u64> },
    /// Packets that were dropped so far at a port, for a reason. `is_of_device` says that its device lost them.
    Drops { port: &'a str, reason: &'a str, is_of_device: bool, packets: u64 },
}

impl OptionsRecord<'_> {
    pub fn encode(&self) -> (Template, Vec<u8>) {
        let mut record = Vec::new();
        let (id, scopes, elements) = match self {
            Self::Domain { id, name } => {
                record.extend(id.to_be_bytes());
                write_variable(&mut record, name.as_bytes());
                (DOMAIN, 1, vec![e::OBSERVATION_DOMAIN_ID, e::OBSERVATION_DOMAIN_NAME])
            }
            Self::Export { messages, flow_records, unsent_records } => {
                record.extend(EXPORTING_PROCESS.to_be_bytes());
                record.extend([*messages, *flow_records, *unsent_records].map(u64::to_be_bytes).as_flattened());
                let totals = [
                    e::EXPORTED_MESSAGE_TOTAL_COUNT,
                    e::EXPORTED_FLOW_RECORD_TOTAL_COUNT,
                    e::NOT_SENT_FLOW_TOTAL_COUNT,
                ];
                (EXPORT, 1, [&[e::EXPORTING_PROCESS_ID], &totals[..]].concat())
            }
            Self::Incomplete { metering_process, time } => {
                record.extend(metering_process.to_be_bytes());
                record.extend([time.start, time.end].map(|ns| (ns / 1_000_000).to_be_bytes()).as_flattened());
                let times = [e::OBSERVATION_TIME_MILLISECONDS; 2];
                (INCOMPLETE, 1, [&[e::METERING_PROCESS_ID], &times[..]].concat())
            }
            Self::Drops { port, reason, is_of_device, packets } => {
                write_variable(&mut record, port.as_bytes());
                write_variable(&mut record, reason.as_bytes());
                record.push(if *is_of_device { HARDWARE } else { forwarding_status(reason) });
                record.extend(packets.to_be_bytes());
                let elements =
                    vec![e::INTERFACE_NAME, e::SELECTOR_NAME, e::FORWARDING_STATUS, e::DROPPED_PACKET_TOTAL_COUNT];
                (DROPS, 2, elements)
            }
        };
        (Template { id, scopes, elements }, record)
    }
}

/// IANA's codes of `forwardingStatus`: dropped, and why; consumed.
const UNKNOWN: u8 = 128;
const ACL_DENY: u8 = 129;
const UNROUTABLE: u8 = 131;
const ADJACENCY: u8 = 132;
const BAD_TTL: u8 = 137;
const POLICER: u8 = 138;
const FOR_US: u8 = 195;
const BAD_OUTPUT_INTERFACE: u8 = 142;
const HARDWARE: u8 = 143;

/// The code that is nearest to a reason.
fn forwarding_status(reason: &str) -> u8 {
    let Some(reason) = DropReason::ALL.into_iter().find(|known| known.name() == reason) else { return UNKNOWN };
    match reason {
        DropReason::AclDeny => ACL_DENY,
        DropReason::NoRoute | DropReason::Blackhole => UNROUTABLE,
        DropReason::NoNeighbour => ADJACENCY,
        DropReason::TtlExpired => BAD_TTL,
        DropReason::RxLimit | DropReason::TxLimit => POLICER,
        DropReason::ToRouter => FOR_US,
        DropReason::PortDown => BAD_OUTPUT_INTERFACE,
        DropReason::TxRefused => HARDWARE,
        _ => UNKNOWN,
    }
}
