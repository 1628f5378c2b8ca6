//! The fields of packets that name a flow, for programs that count flows.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::ProgramError;
use crate::wire::{Addr4, Addr6, Flow, FlowKey, Headers};

/// The fields that name a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub enum Key {
    #[default]
    #[serde(rename = "5tuple")]
    Tuple,
    #[serde(rename = "pair")]
    Pair,
    #[serde(rename = "src")]
    Source,
    #[serde(rename = "dst")]
    Destination,
}

impl Key {
    /// Source, destination, both ports and the protocol, where they belong to the key.
    pub fn fields(self) -> [bool; 5] {
        let is_tuple = self == Self::Tuple;
        [self != Self::Destination, self != Self::Source, is_tuple, is_tuple, is_tuple]
    }
}

/// How flows are named: the fields, and the leading bits of addresses that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Naming {
    pub key: Key,
    pub prefix: u8,
    pub prefix6: u8,
}

impl Default for Naming {
    fn default() -> Self {
        Self { key: Key::Tuple, prefix: 32, prefix6: 128 }
    }
}

impl Naming {
    /// # Errors
    /// If a prefix is too long, or does not go together with the key.
    pub fn validate(&self, program: &'static str) -> Result<(), ProgramError> {
        ProgramError::check(program, "prefix", self.prefix.into(), 0..=32)?;
        ProgramError::check(program, "prefix6", self.prefix6.into(), 0..=128)?;
        if self.key == Key::Tuple && *self != Self::default() {
            let why = "prefix and prefix6 belong to key=pair, src or dst, not to key=5tuple";
            return Err(ProgramError::Combination { program, why });
        }
        Ok(())
    }

    /// The part of a flow that names it.
    pub fn narrow(&self, flow: &Flow) -> Flow {
        if self.key == Key::Tuple {
            return *flow;
        }
        let cut = |ip: Option<IpAddr>| match ip? {
            IpAddr::V4(ip) => Addr4::<false>(ip.into()).and(Addr4::mask(self.prefix)).flow().src,
            IpAddr::V6(ip) => Addr6::<false>(ip.into()).and(Addr6::mask(self.prefix6)).flow().src,
        };
        Flow { src: cut(flow.src), dst: cut(flow.dst), ..*flow }.only(self.key.fields())
    }

    /// Headers with the fields that name this flow and 0 in all others; `None` of a flow that is named by
    /// other fields.
    pub fn headers(&self, flow: &Flow) -> Option<Headers> {
        if flow.fields() != self.key.fields() {
            return None;
        }
        let any = |ip: Option<IpAddr>| match ip {
            Some(IpAddr::V6(_)) => IpAddr::from([0; 16]),
            _ => IpAddr::from([0; 4]),
        };
        let Flow { src, dst, sport, dport, proto } = self.narrow(flow);
        Headers::of_flow(&Flow {
            src: src.or(Some(any(dst))),
            dst: dst.or(Some(any(src))),
            sport: sport.or(Some(0)),
            dport: dport.or(Some(0)),
            proto: proto.or(Some(0)),
        })
    }

    /// A mask for headers: all ones in the bits that name a flow of this address family.
    pub fn mask(&self, is_ipv6: bool) -> Headers {
        let address = match is_ipv6 {
            true => Addr6::<false>::mask(self.prefix6).0,
            false => Addr4::<false>::mask(self.prefix).0.into(),
        };
        let [src, dst, sport, dport, proto] = self.key.fields();
        Headers {
            src_ip: if src { address } else { 0 },
            dst_ip: if dst { address } else { 0 },
            sport: if sport { u16::MAX } else { 0 },
            dport: if dport { u16::MAX } else { 0 },
            proto: if proto { u8::MAX } else { 0 },
            ..Headers::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Tuple4, Tuple6};

    /// A flow that is narrowed and one whose key is masked are the same, whatever the key.
    #[test]
    fn narrowed_flows_are_masked_keys() {
        let flow = |src: IpAddr, dst: IpAddr| Flow {
            src: Some(src),
            dst: Some(dst),
            sport: Some(4711),
            dport: Some(80),
            proto: Some(6),
        };
        let flow4 = flow([10, 1, 2, 3].into(), [192, 168, 7, 9].into());
        let flow6 = flow([0x20; 16].into(), [0xfd; 16].into());
        for key in [Key::Tuple, Key::Pair, Key::Source, Key::Destination] {
            for (prefix, prefix6) in [(32, 128), (24, 64), (0, 0)] {
                let naming = Naming { key, prefix, prefix6 };
                assert_eq!(naming.validate("x").is_ok(), key != Key::Tuple || prefix == 32);
                if naming.validate("x").is_err() {
                    continue;
                }
                let named = |flow| naming.headers(&naming.narrow(flow)).unwrap();
                let [whole4, whole6] = [flow4, flow6].map(|flow| Headers::of_flow(&flow).unwrap());
                let (masked4, masked6) = (Tuple4::of(&naming.mask(false)), Tuple6::of(&naming.mask(true)));
                assert_eq!(Tuple4::of(&named(&flow4)).0, Tuple4::of(&whole4).0 & masked4.0, "{naming:?}");
                let (named, whole) = (Tuple6::of(&named(&flow6)), Tuple6::of(&whole6));
                assert_eq!((named.0, named.1), (whole.0 & masked6.0, whole.1 & masked6.1), "{naming:?}");
                assert_eq!(named.2, whole.2 & masked6.2, "{naming:?}");
                assert_eq!(naming.headers(&flow4).is_some(), key == Key::Tuple);
            }
        }
        let source = Naming { key: Key::Source, prefix: 24, ..Naming::default() };
        assert_eq!(source.narrow(&flow4).to_string(), "10.1.2.0 → *");
        assert!(Naming { prefix: 33, ..source }.validate("x").is_err());
    }
}
