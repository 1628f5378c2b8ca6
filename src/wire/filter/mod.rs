//! Packet filters: which packets a capture keeps and a trace waits for.
//!
//! The words are tcpdump's, on the fields that the parser finds, so `vlan`, `pppoes` and the shim
//! change nothing for the words behind them:
//!
//! ```text
//! ip  ip6  arp  tcp  udp  icmp  icmp6        the protocol
//! vlan [N]                                   some VLAN tag, or one with this identifier
//! pppoed, pppoes [N]                         PPPoE: discovery; a session, or the one with this number
//! [src|dst] host A                           IPv4 or IPv6 address
//! [src|dst] net P/L                          prefix
//! [src|dst] port N[-M]                       TCP or UDP port
//! ether [src|dst] host M                     Ethernet address
//! less N, greater N                          at most, at least N bytes on the wire
//! not X, X and Y, X or Y, (X)                also ! && ||
//! ```
//!
//! A protocol may stand before what it qualifies: `tcp dst port 80`, `ip6 host ::1`. Unlike
//! tcpdump's, a filter that joins `and` with `or` needs parentheses (there they bind alike,
//! elsewhere not), and addresses within ARP are not looked at.
//!
//! A filter is compiled to tests in a row with two ways on from each, always forward: matching
//! takes no stack, and no more steps than there are tests.

mod parse;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use super::{Headers, Mac, Net, ethertype, parse::pppoe_session, proto};

/// Maximum tests in a filter.
pub const MAX_TESTS: usize = 64;
/// Deepest nesting of parentheses and `not`.
pub const MAX_DEPTH: usize = 32;
/// Longest filter, in bytes.
pub const MAX_TEXT: usize = 2048;

/// A checked filter. The default one matches every packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    text: String,
    /// Each goes on at lower indices only.
    steps: Vec<Step>,
    start: usize,
}

/// One test, and where it goes on from there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    test: Test,
    yes: usize,
    no: usize,
}

/// The two ends of every way.
const ACCEPT: usize = usize::MAX;
const REJECT: usize = usize::MAX - 1;

/// The end of a packet that a test is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Source,
    Destination,
    Either,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    Net(Net),
    EtherType(u16),
    Proto(Net, u8),
    /// TCP or UDP over either version.
    Transport(u8),
    Tagged,
    Vlan(u16),
    Session(u16),
    /// Addresses whose bits under the mask are these; an IPv4 address stands in the low 32 bits.
    Address {
        side: Side,
        net: Net,
        bits: u128,
        mask: u128,
    },
    Port {
        side: Side,
        first: u16,
        last: u16,
    },
    Ether {
        side: Side,
        mac: Mac,
    },
    AtMost(u32),
    AtLeast(u32),
}

/// A filter before it is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Expr {
    Test(Test),
    Not(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
}

/// An error in a filter, and its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct FilterError {
    /// The filter as given.
    pub text: String,
    /// The word's place, in bytes. At the end of the text it is empty.
    pub at: std::ops::Range<usize>,
    pub why: String,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |text: Option<&str>| text.map_or(0, |text| text.chars().count());
        let (before, word) = (width(self.text.get(..self.at.start)), width(self.text.get(self.at.clone())));
        // Control characters must not reach a terminal, and each character keeps its width.
        let text: String = self.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        write!(f, "filter: {}\n    {text}\n    {:before$}{}", self.why, "", "^".repeat(word.max(1)))
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let expr = parse::parse(text)?;
        let mut filter = Self { text: text.trim().to_string(), steps: Vec::new(), start: ACCEPT };
        if let Some(expr) = &expr {
            filter.start = filter.compile(expr, ACCEPT, REJECT);
        }
        Ok(filter)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Filter {
    /// Adds the steps of an expression that goes on at `yes` or `no`, and gives the first of them.
    /// As deep as the expression, which the parser has bounded.
    fn compile(&mut self, expr: &Expr, yes: usize, no: usize) -> usize {
        match expr {
            Expr::Test(test) => {
                self.steps.push(Step { test: *test, yes, no });
                self.steps.len() - 1
            }
            Expr::Not(inner) => self.compile(inner, no, yes),
            Expr::And(first, second) => {
                let second = self.compile(second, yes, no);
                self.compile(first, second, no)
            }
            Expr::Or(first, second) => {
                let second = self.compile(second, yes, no);
                self.compile(first, yes, second)
            }
        }
    }

    /// Whether every packet matches.
    pub fn is_all(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether a packet of `wire_bytes` bytes with these headers matches, of which `frame` is there.
    /// A runt's headers are all zero.
    pub fn matches(&self, headers: &Headers, frame: &[u8], wire_bytes: u32) -> bool {
        if self.is_all() {
            return true;
        }
        let mut at = self.start;
        while let Some(step) = self.steps.get(at) {
            let next = if step.test.holds(headers, frame, wire_bytes) { step.yes } else { step.no };
            debug_assert!(next < at || next >= REJECT);
            at = next;
        }
        at == ACCEPT
    }
}

impl Side {
    fn any<T: Copy>(self, source: T, destination: T, holds: impl Fn(T) -> bool) -> bool {
        match self {
            Self::Source => holds(source),
            Self::Destination => holds(destination),
            Self::Either => holds(source) || holds(destination),
        }
    }
}

impl Test {
    fn holds(&self, h: &Headers, frame: &[u8], wire_bytes: u32) -> bool {
        match *self {
            Self::Net(net) => h.net == net,
            Self::EtherType(ethertype) => h.ethertype == ethertype,
            Self::Proto(net, proto) => h.net == net && h.proto == proto,
            Self::Transport(proto) => h.net != Net::Other && h.proto == proto,
            Self::Tagged => h.tagged,
            Self::Vlan(vid) => h.tcis().any(|tci| tci & 0xfff == vid),
            Self::Session(number) => pppoe_session(frame, h) == Some(number),
            Self::Address { side, net, bits, mask } => {
                h.net == net && side.any(h.src_ip, h.dst_ip, |address| address & mask == bits)
            }
            Self::Port { side, first, last } => {
                h.has_ports() && side.any(h.sport, h.dport, |port| (first..=last).contains(&port))
            }
            Self::Ether { side, mac } => side.any(h.src, h.dst, |address| address == mac),
            Self::AtMost(bytes) => wire_bytes <= bytes,
            Self::AtLeast(bytes) => wire_bytes >= bytes,
        }
    }

    /// A word that stands for a test by itself.
    fn protocol(word: &str) -> Option<Self> {
        Some(match word {
            "ip" => Self::Net(Net::Ipv4),
            "ip6" => Self::Net(Net::Ipv6),
            "arp" => Self::EtherType(ethertype::ARP),
            "pppoed" => Self::EtherType(ethertype::PPPOE_DISCOVERY),
            "tcp" => Self::Transport(proto::TCP),
            "udp" => Self::Transport(proto::UDP),
            "icmp" => Self::Proto(Net::Ipv4, proto::ICMP),
            "icmp6" => Self::Proto(Net::Ipv6, proto::ICMPV6),
            _ => return None,
        })
    }
}
