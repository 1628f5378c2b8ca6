//! Keys of packets: their bytes in network order, what a mask leaves of them, and the flow that they
//! name.

use std::net::IpAddr;

use weir::wire::{Addr4, Addr6, FiveTuple, Flow, FlowKey, Headers, Net, Pair4, Pair6, Tuple4, Tuple6, proto};

/// Headers of an IPv4 and of an IPv6 packet.
fn headers() -> [Headers; 2] {
    let of = |net, src_ip, dst_ip| Headers {
        net,
        src_ip,
        dst_ip,
        proto: proto::TCP,
        sport: 0x1234,
        dport: 0xfedc,
        ..Headers::default()
    };
    [of(Net::Ipv4, 0xc0a8_f102, 0x0aff_0c0d), of(Net::Ipv6, 0x20f1_0db8 << 96 | 1, 0xfd72 << 112 | 2)]
}

fn flow([src, dst]: [Option<&str>; 2], ported: bool) -> Flow {
    let ip = |text: Option<&str>| text.map(|text| text.parse::<IpAddr>().unwrap());
    let [sport, dport] = [0x1234, 0xfedc].map(|port| Some(port).filter(|_| ported));
    Flow { src: ip(src), dst: ip(dst), sport, dport, proto: Some(proto::TCP).filter(|_| ported) }
}

/// Bytes of the packet's key, whole and with the first 12 bits of each address, and its flow.
fn of<K: FlowKey>(headers: &Headers) -> (String, String, Flow) {
    let text = |key: K| key.bytes().as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let key = K::of(headers);
    (text(key), text(key.and(K::mask(12))), key.flow())
}

#[test]
fn keys_have_their_bytes_and_flows() {
    let [v4, v6] = &headers();
    let [src, dst] = [Some("192.168.241.2"), Some("10.255.12.13")];
    let expected = |whole: &str, masked: &str, flow| (whole.to_owned(), masked.to_owned(), flow);
    let tuple = "c0a8f1020aff0c0d1234fedc06";
    assert_eq!(of::<Tuple4>(v4), expected(tuple, tuple, flow([src, dst], true)));
    assert_eq!(of::<Pair4>(v4), expected("c0a8f1020aff0c0d", "c0a000000af00000", flow([src, dst], false)));
    assert_eq!(of::<Addr4<false>>(v4), expected("c0a8f102", "c0a00000", flow([src, None], false)));
    assert_eq!(of::<Addr4<true>>(v4), expected("0aff0c0d", "0af00000", flow([None, dst], false)));

    let [src, dst] = [Some("20f1:db8::1"), Some("fd72::2")];
    let [from, to] = ["20f10db8000000000000000000000001", "fd720000000000000000000000000002"];
    let [from_net, to_net] = ["20f00000000000000000000000000000", "fd700000000000000000000000000000"];
    let tuple = format!("{from}{to}1234fedc06");
    assert_eq!(of::<Tuple6>(v6), expected(&tuple, &tuple, flow([src, dst], true)));
    let pair = expected(&format!("{from}{to}"), &format!("{from_net}{to_net}"), flow([src, dst], false));
    assert_eq!(of::<Pair6>(v6), pair);
    assert_eq!(of::<Addr6<false>>(v6), expected(from, from_net, flow([src, None], false)));
    assert_eq!(of::<Addr6<true>>(v6), expected(to, to_net, flow([None, dst], false)));
}

/// A mask has all bits of a five-tuple and none where the key has no field, for it is a key as well.
#[test]
fn masks_of_five_tuples_are_whole() {
    assert_eq!(Tuple4::mask(8).bytes(), [0xff; 13]);
    assert_eq!(Tuple6::mask(8).bytes(), [0xff; 37]);
    assert_eq!((Tuple4::mask(8).0 >> 104, Tuple6::mask(8).2 >> 40), (0, 0));
    assert_eq!((Pair4::mask(0), Pair4::mask(32)), (Pair4(0), Pair4(u64::MAX)));
    assert_eq!((Pair6::mask(0), Pair6::mask(128)), (Pair6(0, 0), Pair6(u128::MAX, u128::MAX)));
}

#[test]
fn keys_differ_in_any_bit() {
    let key = Tuple4::of(&headers()[0]);
    for bit in 0..104 {
        assert_ne!(key, Tuple4(key.0 ^ 1 << bit), "bit {bit}");
    }
    assert_eq!(key, Tuple4::of_number(key.number()));
}

#[test]
fn five_tuples_of_flows_are_those_of_their_packets() {
    let flows = headers().map(|headers| {
        let flow = headers.flow().unwrap();
        assert_eq!(FiveTuple::of_flow(&flow), FiveTuple::of(&headers));
        assert_eq!(FiveTuple::of_flow(&Flow { sport: None, ..flow }), None);
        flow
    });
    let mixed = Flow { src: flows[0].src, ..flows[1] };
    assert_eq!(FiveTuple::of_flow(&mixed), None);
}
