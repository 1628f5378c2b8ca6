//! Packets as bytes: the frame that carries them, the headers that the switch reads and writes
//! itself, and the one parser that the dataplane calls.

mod error;
mod field;
mod flow;
mod frame;
mod headers;
mod key;
mod numbers;
mod parse;
mod pattern;

pub mod arp;
pub mod checksum;
pub mod ethernet;
pub mod filter;
pub mod icmp;
pub mod identity;
pub mod ipv4;
pub mod ipv6;
pub mod ndp;
pub mod shim;
pub mod tcp;
pub mod dscp;
pub mod tunnel;
pub mod vlan;

pub use error::{Layer, WireError};
pub use filter::{Filter, FilterError};
pub use flow::{Addr4, Addr6, FiveTuple, Flow, FlowKey, NOTHING, Pair4, Pair6, Places, Tuple4, Tuple6, places};
pub use frame::{Frame, HeapFrame};
pub use headers::{Fragment, Headers, Mac, MissingHeader, Net};
pub use key::KeyField;
pub use numbers::{ethertype, ppp, proto, tunnel_port};
pub use parse::{MAX_EXTENSIONS, MAX_TAGS, Runt, parse, parse_any, parse_plain, parse_shimmed};
pub use pattern::{Pattern, PatternError};
pub use shim::Shim;
pub use tunnel::{Tunnels, Unread};

/// Maximum number of frames that are received, processed and sent together.
pub const BURST: usize = 64;

/// Maximum bytes of a frame before its IP packet: an Ethernet header and [`MAX_TAGS`] VLAN tags.
pub const L2_OVERHEAD: u32 = ethernet::LEN as u32 + MAX_TAGS as u32 * 4;

/// The same with the telemetry shim.
pub const FABRIC_L2_OVERHEAD: u32 = L2_OVERHEAD + shim::LEN as u32;
