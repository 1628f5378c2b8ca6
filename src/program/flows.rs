//! The byte form of counts by flow, which records and histories share: for each flow a byte that
//! says which fields follow and whether the count is the least that it can be, the fields in network
//! order, and the count.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::DecodeError;
use super::bytes::{MAX_U64, Reader, Writer};
use crate::answers::Counted;
use crate::wire::Flow;

/// Fields that follow: two bits each for the addresses (4 or 6, none 0), one for each of the
/// others.
const SRC4: u8 = 1;
const SRC6: u8 = 2;
const DST4: u8 = 4;
const DST6: u8 = 8;
const SPORT: u8 = 16;
const DPORT: u8 = 32;
const PROTO: u8 = 64;
/// A register of the flow was full.
const AT_LEAST: u8 = 128;

/// Largest length of a flow with its count, in bytes: fields, two IPv6 addresses, two ports,
/// protocol, count.
pub const LONGEST: usize = 1 + 32 + 4 + 1 + MAX_U64;

/// Writes a flow and its count.
pub fn write(to: &mut Writer, flow: &Flow, count: Counted) {
    let fields = to.0.len();
    to.0.push(if count.at_least { AT_LEAST } else { 0 });
    for (ip, bits) in [(flow.src, [SRC4, SRC6]), (flow.dst, [DST4, DST6])] {
        match ip {
            Some(IpAddr::V4(ip)) => {
                to.0[fields] |= bits[0];
                to.bytes(&ip.octets());
            }
            Some(IpAddr::V6(ip)) => {
                to.0[fields] |= bits[1];
                to.bytes(&ip.octets());
            }
            None => {}
        }
    }
    for (port, bit) in [(flow.sport, SPORT), (flow.dport, DPORT)] {
        if let Some(port) = port {
            to.0[fields] |= bit;
            to.bytes(&port.to_be_bytes());
        }
    }
    if let Some(proto) = flow.proto {
        to.0[fields] |= PROTO;
        to.bytes(&[proto]);
    }
    to.number(count.number);
}

/// Reads a flow and its count.
///
/// # Errors
/// If the bytes are no flow.
pub fn read(from: &mut Reader<'_>) -> Result<(Flow, Counted), DecodeError> {
    let [fields] = from.take("a flow's fields")?;
    let both = |bits: u8| fields & bits == bits;
    if both(SRC4 | SRC6) || both(DST4 | DST6) {
        return from.wrong("a flow's fields", "an address is of one family");
    }
    let mut ip = |v4: u8, v6: u8| -> Result<Option<IpAddr>, DecodeError> {
        Ok(match fields {
            fields if fields & v4 != 0 => Some(IpAddr::V4(Ipv4Addr::from(from.take::<4>("an address")?))),
            fields if fields & v6 != 0 => Some(IpAddr::V6(Ipv6Addr::from(from.take::<16>("an address")?))),
            _ => None,
        })
    };
    let (src, dst) = (ip(SRC4, SRC6)?, ip(DST4, DST6)?);
    let mut port = |bit: u8| -> Result<Option<u16>, DecodeError> {
        (fields & bit != 0).then(|| Ok(u16::from_be_bytes(from.take("a port")?))).transpose()
    };
    let (sport, dport) = (port(SPORT)?, port(DPORT)?);
    let proto = (fields & PROTO != 0).then(|| from.take::<1>("a protocol")).transpose()?;
    let flow = Flow { src, dst, sport, dport, proto: proto.map(|[proto]| proto) };
    Ok((flow, Counted { number: from.number("a count")?, at_least: fields & AT_LEAST != 0 }))
}
