//! ARP, neighbour discovery, echo, and what the router knows of its neighbours over time.

use etherparse::PacketBuilder;
use std::sync::{Arc, Mutex};
use weir::pisa::DropReason;

use weir::tables::{Routed, Table};
use weir::wire::{Mac, arp, checksum, ndp};

use crate::bench::{Bench, SECOND, config, host_mac, icmp, own, udp4, udp6, v6};

fn arp(operation: u16, dst: [u8; 6], (mac, ip): ([u8; 6], [u8; 4]), target: ([u8; 6], [u8; 4])) -> Vec<u8> {
    let mut frame = [dst.as_slice(), &mac, &[8, 6], &[0; 46]].concat();
    let packet = arp::Repr {
        operation,
        sender_mac: Mac(mac),
        sender_ip: ip.into(),
        target_mac: Mac(target.0),
        target_ip: target.1.into(),
    };
    packet.emit(&mut frame[14..]).unwrap();
    frame
}

fn heard(bench: &Bench) -> Vec<serde_json::Value> {
    let rows = table(bench, "neighbours").rows();
    rows.into_iter().filter(|row| row["origin"] == "learned").collect()
}

fn table(bench: &Bench, name: &str) -> Box<dyn Table> {
    Routed::all(&Arc::new(Mutex::new(Some(bench.routing.clone()))))
        .into_iter()
        .find(|table| table.name() == name)
        .unwrap()
}

fn discovery(dst: [u8; 6], src: [u8; 6], from: &str, to: &str, message: ndp::Repr) -> Vec<u8> {
    let mut body = vec![0; message.header_len()];
    message.emit(&mut body).unwrap();
    let mut frame = Vec::new();
    let kind = body[0];
    let builder = PacketBuilder::ethernet2(src, dst).ipv6(v6(from), v6(to), 255);
    builder.icmpv6_raw(kind, 0, body[4..8].try_into().unwrap()).write(&mut frame, &body[8..]).unwrap();
    frame
}

#[test]
fn answers_for_its_own_addresses_alone() {
    let mut bench = Bench::new(&config());
    let host = (host_mac(1, 50), [10, 0, 1, 50]);
    let (port, answer) = bench.one(0, &arp(1, [0xff; 6], host, ([0; 6], [10, 0, 1, 1]))).expect("an answer");
    assert_eq!((port, answer.len()), (0, 60));
    assert_eq!(answer, arp(2, host.0, (own(0), [10, 0, 1, 1]), host));
    for other in [[10, 0, 1, 2], [10, 0, 2, 1]] {
        assert_eq!(bench.one(0, &arp(1, [0xff; 6], host, ([0; 6], other))), None);
    }
    // One that tries its address out (RFC 5227) is answered, and not learned; a stranger to the
    // network gets nothing.
    bench.wait(1);
    let known = heard(&bench).len();
    let answer = bench.one(0, &arp(1, [0xff; 6], (host_mac(1, 51), [0; 4]), ([0; 6], [10, 0, 1, 1])));
    assert!(answer.is_some());
    assert_eq!(bench.one(0, &arp(1, [0xff; 6], (host_mac(1, 51), [10, 0, 2, 51]), ([0; 6], [10, 0, 1, 1]))), None);
    bench.wait(1);
    assert_eq!((known, heard(&bench).len()), (1, 1));
    assert_eq!((bench.dropped(DropReason::ToRouter), bench.dropped(DropReason::Martian)), (4, 1));
}

#[test]
fn a_neighbour_is_asked_for_and_heard() {
    let mut bench = Bench::new(&config());
    let packet = udp4(0, [10, 0, 2, 50], 64, b"hello");
    let (port, question) = bench.one(0, &packet).expect("a question");
    assert_eq!(port, 1);
    assert_eq!(question, arp(1, [0xff; 6], (own(1), [10, 0, 2, 1]), ([0; 6], [10, 0, 2, 50])));
    assert_eq!(bench.one(0, &packet), None, "one question a second");
    // What another says of it unasked is not believed; its own answer is.
    let host = (host_mac(2, 50), [10, 0, 2, 50]);
    bench.one(1, &arp(2, [0xff; 6], (host_mac(2, 66), host.1), ([0xff; 6], host.1)));
    bench.wait(0);
    assert_eq!(heard(&bench), [] as [serde_json::Value; 0]);
    bench.one(1, &arp(2, own(1), host, (own(1), [10, 0, 2, 1])));
    bench.wait(0);
    let (port, out) = bench.one(0, &packet).expect("it goes on");
    assert_eq!((port, &out[..6]), (1, &host.0[..]));
    // It has moved, and says so to all.
    let moved = (host_mac(2, 51), host.1);
    bench.one(1, &arp(1, [0xff; 6], moved, ([0; 6], host.1)));
    bench.wait(0);
    assert_eq!(bench.one(0, &packet).unwrap().1[..6], moved.0);
    assert_eq!(bench.dropped(DropReason::NoNeighbour), 2);
}

#[test]
fn a_neighbour_in_use_is_asked_again_and_forgotten_when_it_is_gone() {
    let mut bench = Bench::new(&config());
    let (host, packet) = ((host_mac(2, 50), [10, 0, 2, 50]), udp4(0, [10, 0, 2, 50], 64, b"hello"));
    let answer = arp(2, own(1), host, (own(1), [10, 0, 2, 1]));
    bench.one(1, &answer);
    bench.wait(0);
    bench.wait(31);
    let sent = bench.burst(0, &[packet.clone(), packet.clone()]);
    // Questions are sent at once, packets behind the burst: nothing is lost.
    let question = arp(1, host.0, (own(1), [10, 0, 2, 1]), (host.0, host.1));
    assert_eq!(sent.iter().filter(|(port, out)| (*port, out) == (1, &question)).count(), 1);
    assert_eq!(sent.len(), 3);
    bench.one(1, &answer);
    bench.wait(20);
    assert_eq!(bench.burst(0, std::slice::from_ref(&packet)).len(), 1, "it has answered");
    for _ in 0..25 {
        bench.wait(1);
        bench.burst(0, std::slice::from_ref(&packet));
    }
    assert_eq!(heard(&bench), [] as [serde_json::Value; 0], "it has not answered for ten seconds");
    let told = (0..5).find_map(|_| {
        bench.wait(1);
        bench.one(0, &packet).filter(|(port, out)| *port == 0 && icmp(out).kind == (3, 1))
    });
    assert!(told.is_some(), "and its packets are answered for");
}

#[test]
fn a_flood_pushes_out_nobody_in_use() {
    let mut bench = Bench::new(&config().replace("reproducible = 1", "reproducible = 1\nneighbour_table = 40"));
    let (host, packet) = ((host_mac(2, 50), [10, 0, 2, 50]), udp4(0, [10, 0, 2, 50], 64, b"hello"));
    bench.one(1, &arp(2, own(1), host, (own(1), [10, 0, 2, 1])));
    for round in 0..200u8 {
        bench.wait(1);
        let liar = |n: u8| (host_mac(9, round ^ n), [10, 0, 1, 60 + (round.wrapping_mul(13) ^ n) % 190]);
        let flood: Vec<_> = (0..30).map(|n| arp(1, [0xff; 6], liar(n), ([0; 6], [10, 0, 1, 1]))).collect();
        bench.burst(0, &flood);
        let sent = bench.burst(0, std::slice::from_ref(&packet));
        assert!(
            sent.iter().any(|(port, out)| *port == 1 && out[..6] == host.0 && out[12] == 8 && out[13] == 0),
            "{round}"
        );
        if sent.len() > 1 {
            bench.one(1, &arp(2, own(1), host, (own(1), [10, 0, 2, 1])));
        }
    }
    assert!(bench.routing.refused() > 0);
    assert!(heard(&bench).len() <= 40 - 24, "24 are static");
}

#[test]
fn neighbour_discovery() {
    let mut bench = Bench::new(&config());
    let target = "fd00:1::1".parse().unwrap();
    let host = host_mac(1, 50);
    let group = [0x33, 0x33, 0xff, 0, 0, 1];
    let ask = |link_layer| ndp::Repr { kind: ndp::SOLICITATION, flags: 0, target, link_layer };
    let question = discovery(group, host, "fd00:1::50", "ff02::1:ff00:1", ask(Some(Mac(host))));
    let (port, answer) = bench.one(0, &question).expect("an answer");
    let message = icmp(&answer);
    assert_eq!((port, &answer[..12]), (0, &[host, own(0)].concat()[..]));
    assert_eq!((message.src, message.dst), (v6("fd00:1::1").to_vec(), v6("fd00:1::50").to_vec()));
    assert_eq!((message.kind, message.word), ((136, 0), [0xe0, 0, 0, 0]));
    assert_eq!(message.rest, [&v6("fd00:1::1")[..], &[2, 1], &own(0)].concat());
    assert_eq!(answer[21], 255, "hop limit");
    bench.wait(0);
    assert_eq!(heard(&bench)[0]["address"], "fd00:1::50");

    // One that tries out the router's own address is told, to all.
    let tried = discovery(group, host, "::", "ff02::1:ff00:1", ask(None));
    let (_, answer) = bench.one(0, &tried).expect("an answer");
    assert_eq!((icmp(&answer).dst, icmp(&answer).word), (v6("ff02::1").to_vec(), [0xa0, 0, 0, 0]));

    // From beyond the link, wrong, or for another: nothing.
    let mut far = question.clone();
    far[21] = 254;
    let mut wrong = question.clone();
    wrong[60] ^= 1;
    let other = ndp::Repr { target: "fd00:1::2".parse().unwrap(), ..ask(Some(Mac(host))) };
    for frame in [far, wrong, discovery(group, host, "fd00:1::50", "ff02::1:ff00:2", other)] {
        assert_eq!(bench.one(0, &frame), None);
    }
    assert_eq!((bench.dropped(DropReason::BadHeader), bench.dropped(DropReason::ToRouter)), (2, 3));

    // The router asks in its turn, and hears the answer.
    let packet = udp6(0, "fd00:2::50", 64, b"hello");
    let (port, question) = bench.one(0, &packet).expect("a question");
    assert_eq!((port, &question[..6]), (1, &[0x33, 0x33, 0xff, 0, 0, 0x50][..]));
    let message = icmp(&question);
    assert_eq!((message.kind, message.dst), ((135, 0), v6("ff02::1:ff00:50").to_vec()));
    let found = host_mac(2, 50);
    let target = "fd00:2::50".parse().unwrap();
    let answer = ndp::Repr { kind: ndp::ADVERTISEMENT, flags: ndp::SOLICITED, target, link_layer: Some(Mac(found)) };
    bench.one(1, &discovery(own(1), found, "fd00:2::50", "fd00:2::1", answer));
    bench.wait(0);
    assert_eq!(bench.one(0, &packet).expect("it goes on").1[..6], found);
}

#[test]
fn echoes() {
    let mut bench = Bench::new(&config());
    for own_address in [[10, 0, 1, 1], [10, 0, 2, 1]] {
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2(host_mac(1, 10), own(0)).ipv4([10, 0, 1, 10], own_address, 9);
        builder.icmpv4_echo_request(7, 8).write(&mut frame, b"are you there").unwrap();
        let (_, answer) = bench.one(0, &frame).expect("an answer");
        let message = icmp(&answer);
        assert_eq!((message.src.as_slice(), message.kind), (&own_address[..], (0, 0)));
        assert_eq!((message.word, message.rest), ([0, 7, 0, 8], &b"are you there"[..]));
        assert_eq!(answer[22], 64, "TTL");
    }
    for own_address in ["fd00:1::1", "fd00:3::1", "fe80::ff:fe00:0"] {
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2(host_mac(1, 10), own(0)).ipv6(v6("fd00:1::10"), v6(own_address), 9);
        builder.icmpv6_echo_request(7, 8).write(&mut frame, b"are you there").unwrap();
        let (_, answer) = bench.one(0, &frame).unwrap_or_else(|| panic!("an answer from {own_address}"));
        let message = icmp(&answer);
        assert_eq!((message.src, message.kind, message.word), (v6(own_address).to_vec(), (129, 0), [0, 7, 0, 8]));
    }
}

/// RFC 1812, 4.3.2.7 and 4.3.2.8.
#[test]
fn errors_are_bounded_and_never_about_errors() {
    let mut bench = Bench::new(&config());
    let error = bench.one(0, &udp4(0, [10, 99, 0, 1], 64, b"")).expect("an error").1;
    let mut about = error.clone();
    // The router's own error, sent to where there is no route.
    about[..6].copy_from_slice(&own(0));
    about[26..34].copy_from_slice(&[10, 0, 1, 10, 10, 99, 0, 1]);
    let mut later = udp4(0, [10, 99, 0, 1], 64, b"");
    later[20..22].copy_from_slice(&[0, 9]);
    for mut frame in [about, later] {
        frame[24..26].fill(0);
        let sum = checksum::internet(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(bench.one(0, &frame), None);
    }
    assert_eq!(bench.dropped(DropReason::NoRoute), 3);
    bench.now += SECOND;
    let stray = udp4(0, [10, 99, 0, 1], 64, b"");
    let answered: usize = (0..1000).map(|_| bench.burst(0, std::slice::from_ref(&stray)).len()).sum();
    assert_eq!(answered, 64);
    assert_eq!(bench.switch.stats().suppressed_messages.get(), 936);
}
