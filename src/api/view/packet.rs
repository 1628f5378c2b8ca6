//! One traced packet: `weir trace --json`, and the answer to `POST /v1/trace`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json::{Digits, digits};
use crate::observe::{PacketTrace, ProgramTrace, SentTrace};
use crate::pisa::{LookupTrace, PortId, Verdict};
use crate::wire::{Flow, Fragment, Headers, Net};

/// All that happened to one packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Packet {
    /// Nanoseconds since 1970, or of the capture's clock.
    #[serde(with = "digits")]
    #[schemars(with = "Digits")]
    pub at_ns: u64,
    /// The port it came in by.
    pub port: String,
    pub wire_bytes: u32,
    /// The frame as it came in, in hexadecimal.
    pub frame: String,
    /// None for a runt.
    pub headers: Option<PacketHeaders>,
    /// The flow inside a tunnel, where such flows are measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub inner: Option<Flow>,
    pub programs: Vec<ProgramTrace>,
    pub lookups: Vec<Lookup>,
    /// port, flood or drop; none when the packet was not let in.
    pub verdict: Option<String>,
    /// The port of a verdict `port`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub egress: Option<String>,
    pub drops: Vec<PacketDrop>,
    pub outputs: Vec<Output>,
}

/// The headers found by the parser.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PacketHeaders {
    pub src_mac: String,
    pub dst_mac: String,
    pub ethertype: u16,
    /// VLAN identifiers, the outer one first.
    pub vlans: Vec<u16>,
    pub shim: bool,
    /// ipv4, ipv6, or none.
    pub net: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub src: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub dst: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub proto: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tos: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ttl: Option<u8>,
    /// whole, first or later.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fragment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sport: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub dport: Option<u16>,
}

/// A look-up in a match-action table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lookup {
    pub table: String,
    pub key: String,
    /// None on a miss.
    pub entry: Option<String>,
    /// The port that the entry names.
    pub port: Option<String>,
    pub action: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PacketDrop {
    pub reason: String,
    pub packets: u64,
}

/// A frame given to a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    pub port: String,
    pub frame: String,
    /// Whether it differs from the frame that came in.
    pub rewritten: bool,
}

impl Packet {
    /// `name` gives a port's name.
    pub fn new(trace: &PacketTrace, name: &dyn Fn(PortId) -> String) -> Self {
        let lookup = |lookup: &LookupTrace| Lookup {
            table: lookup.table.into(),
            key: lookup.key.clone(),
            entry: lookup.entry.clone(),
            port: lookup.port.map(name),
            action: lookup.action.clone(),
        };
        let output = |sent: &SentTrace| Output {
            port: name(sent.port),
            frame: hex(&sent.bytes),
            rewritten: sent.bytes != trace.bytes,
        };
        Self {
            at_ns: trace.at_ns,
            port: name(trace.ingress),
            wire_bytes: trace.wire_bytes,
            frame: hex(&trace.bytes),
            headers: trace.headers.as_ref().map(PacketHeaders::new),
            inner: trace.inner,
            programs: trace.programs.clone(),
            lookups: trace.lookups.iter().map(lookup).collect(),
            verdict: trace.verdict.map(|verdict| verdict_name(verdict).into()),
            egress: match trace.verdict {
                Some(Verdict::Port(port)) => Some(name(port)),
                _ => None,
            },
            drops: (trace.drops.iter())
                .map(|(reason, packets)| PacketDrop { reason: reason.name().into(), packets: *packets })
                .collect(),
            outputs: trace.sent.iter().map(output).collect(),
        }
    }
}

fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Port(_) => "port",
        Verdict::Flood => "flood",
        Verdict::Drop(_) => "drop",
    }
}

impl PacketHeaders {
    pub fn new(h: &Headers) -> Self {
        let ip = h.net != Net::Other;
        let ports = h.has_ports();
        let address = |bits: u128| match h.net {
            Net::Ipv6 => IpAddr::V6(Ipv6Addr::from(bits)),
            _ => IpAddr::V4(Ipv4Addr::from(bits as u32)),
        };
        let fragment = match h.fragment {
            Fragment::Whole => "whole",
            Fragment::First => "first",
            Fragment::Later => "later",
        };
        Self {
            src_mac: h.src.to_string(),
            dst_mac: h.dst.to_string(),
            ethertype: h.ethertype,
            vlans: h.tcis().map(|tci| tci & 0xfff).collect(),
            shim: h.shim,
            net: ip.then(|| if h.net == Net::Ipv4 { "ipv4" } else { "ipv6" }.into()),
            src: ip.then(|| address(h.src_ip)),
            dst: ip.then(|| address(h.dst_ip)),
            proto: ip.then_some(h.proto),
            tos: ip.then_some(h.tos),
            ttl: ip.then_some(h.ttl),
            fragment: ip.then(|| fragment.into()),
            sport: ports.then_some(h.sport),
            dport: ports.then_some(h.dport),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
