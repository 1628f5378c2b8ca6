//! The reader of tunnels against a naive one.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use weir::wire::{Headers, Net, Tunnels, parse};

use crate::{packets, tunnel_oracle};

const ALL: Tunnels = Tunnels { mpls_on_ethernet: true };

/// Holds the reader to the naive one.
fn check(frame: &[u8]) -> Result<(), TestCaseError> {
    let mut outer = Headers::default();
    if parse(frame, &mut outer).is_err() {
        return Ok(());
    }
    let of_flow = |headers: Headers| (headers.flow(), headers.fragment, headers.l3, headers.l4);
    let found = ALL.inner(frame, &outer).map(|inner| inner.map(of_flow));
    let expected = tunnel_oracle::inner(frame, &outer).map(|inner| inner.map(of_flow));
    prop_assert_eq!(found, expected);
    Ok(())
}

/// A frame, and the IP packet in it.
fn inside() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    packets::frame().prop_map(|frame| {
        let mut headers = Headers::default();
        let is_ip = parse(&frame, &mut headers).is_ok() && headers.net != Net::Other;
        let packet = if is_ip { frame[usize::from(headers.l3)..].to_vec() } else { frame.clone() };
        (frame, packet)
    })
}

/// Labels, the last of which says so, or none does.
fn labels() -> impl Strategy<Value = Vec<u8>> {
    (vec(any::<[u8; 4]>(), 1..20), prop_oneof![6 => Just(true), 1 => Just(false)]).prop_map(|(mut labels, ends)| {
        labels.iter_mut().for_each(|label| label[2] &= 0xfe);
        labels.iter_mut().rev().take(1).for_each(|label| label[2] |= u8::from(ends));
        labels.concat()
    })
}

/// By what a tunnel is known: a UDP port, or an IP protocol.
type Known = Result<u16, u8>;

fn to_port(port: u16) -> Known {
    Ok(port)
}

fn of_ip(proto: u8) -> Known {
    Err(proto)
}

/// What stands between UDP or IP and a packet, with the port or the protocol by which it is known,
/// and whether a whole frame follows.
fn tunnel() -> impl Strategy<Value = (Known, Vec<u8>, bool)> {
    let ethertypes = || select(vec![0x0800u16, 0x86dd, 0x6558, 0x8847, 0x8848, 0x88be]);
    let mostly = |byte: u8| prop_oneof![8 => Just(byte), 1 => any::<u8>()];
    let words = |max: usize| vec(any::<[u8; 4]>(), 0..max).prop_map(|words| words.concat());
    let extension = (1..3u8, any::<[u8; 12]>(), select(vec![0x85u8, 0xc0, 0x85, 0]));
    let extensions = vec(extension, 0..6).prop_map(|list| {
        let one = |(words, content, next): (u8, [u8; 12], u8)| {
            let len = usize::from(words) * 4;
            [&[words][..], &content[..len - 2], &[next]].concat()
        };
        list.into_iter().map(one).collect::<Vec<_>>().concat()
    });
    prop_oneof![
        (select(vec![4789, 8472]), mostly(8), any::<[u8; 7]>()).prop_map(|(port, flags, rest)| (
            Ok(port),
            [&[flags][..], &rest].concat(),
            true
        )),
        (mostly(0), ethertypes(), any::<[u8; 4]>(), words(6)).prop_map(|(flags, ethertype, rest, options)| {
            let first = (options.len() / 4) as u8;
            let header = [&[first, flags & 0xc0][..], &ethertype.to_be_bytes(), &rest, &options].concat();
            (to_port(6081), header, ethertype == 0x6558)
        }),
        (select(vec![0u16, 0x8000, 0x2000, 0xb000, 0x3000, 0x4000, 1]), ethertypes(), any::<[u8; 12]>()).prop_map(
            |(flags, ethertype, fields)| {
                let len = 4 * (flags >> 12 & 0xb).count_ones() as usize;
                let header = [&flags.to_be_bytes()[..], &ethertype.to_be_bytes(), &fields[..len]].concat();
                (of_ip(47), header, ethertype == 0x6558)
            }
        ),
        (select(vec![0x30u8, 0x32, 0x34, 0x37, 0x20]), mostly(255), any::<[u8; 6]>(), any::<[u8; 3]>(), extensions)
            .prop_map(|(flags, message, rest, optional, extensions)| {
                let next = if extensions.is_empty() { 0 } else { 0x85 };
                let extensions = if flags & 4 == 0 { Vec::new() } else { extensions };
                let optional = if flags & 7 == 0 { Vec::new() } else { [&optional[..], &[next]].concat() };
                (to_port(2152), [&[flags, message][..], &rest, &optional, &extensions].concat(), false)
            }),
        labels().prop_map(|labels| (to_port(6635), labels, false)),
        labels().prop_map(|labels| (of_ip(137), labels, false)),
        select(vec![4u8, 41]).prop_map(|proto| (of_ip(proto), Vec::new(), false)),
        any::<u16>().prop_map(|port| (to_port(port), Vec::new(), true)),
    ]
}

/// A frame of a tunnel, and now and then one with MPLS on Ethernet.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let in_ip = (tunnel(), inside(), any::<bool>(), select(vec![0u16, 0, 0, 0x2000, 0x2001, 3])).prop_map(
        |((known_by, header, whole), (frame, packet), v6, fragment)| {
            let inside = [header, if whole { frame } else { packet }].concat();
            let (proto, inside) = match known_by {
                Ok(port) => {
                    let [high, low] = port.to_be_bytes();
                    (17, [&[0xc0, 1, high, low, 0, 0, 0, 0][..], &inside].concat())
                }
                Err(proto) => (proto, inside),
            };
            let len = |more: usize| ((inside.len() + more) as u16).to_be_bytes();
            let [high, low] = fragment.to_be_bytes();
            let header = match v6 {
                true => [&[0x60, 0, 0, 0][..], &len(0), &[proto, 64], &[1; 16], &[2; 16]].concat(),
                false => [&[0x45, 0][..], &len(20), &[0, 1, high, low, 64, proto, 0, 0], &[1; 4], &[2; 4]].concat(),
            };
            let ethertype = if v6 { [0x86, 0xdd] } else { [8, 0] };
            [&[2u8; 12][..], &ethertype, &header, &inside].concat()
        },
    );
    let on_ethernet = (labels(), inside())
        .prop_map(|(labels, (_, packet))| [&[2u8; 12][..], &[0x88, 0x47], &labels, &packet].concat());
    let frame = prop_oneof![6 => in_ip, 1 => on_ethernet];
    (frame, proptest::option::of(packets::shim_values())).prop_map(|(frame, shim)| match shim {
        Some(shim) => packets::with_shim(&frame, shim),
        None => frame,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_packet_has_the_inner_flow_of_the_naive_reader(
        frame in frame(),
        end in any::<prop::sample::Index>(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        check(&frame)?;
        check(&frame[..end.index(frame.len() + 1)])?;
        let mut damaged = frame;
        for (at, byte) in damage {
            let at = at.index(damaged.len());
            damaged[at] = byte;
        }
        check(&damaged)?;
    }

    #[test]
    fn a_packet_without_a_tunnel_is_none(frame in packets::damaged_frame()) {
        check(&frame)?;
    }
}
