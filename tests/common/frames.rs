//! Frames of numbered hosts, and ports in words, for tests of switches in memory.

use std::net::Ipv4Addr;

use etherparse::PacketBuilder;
use weir::wire::checksum;

/// The MAC of a host, which has a number.
pub fn host_mac(n: u8) -> [u8; 6] {
    [2, 1, 0, 0, 0, n]
}

/// Its address.
pub fn address(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, n, 10)
}

/// An IPv4 packet with DF, from a host to another's address.
pub fn udp(from: u8, to: u8, dst_mac: [u8; 6], dport: u16, length: usize) -> Vec<u8> {
    let builder =
        PacketBuilder::ethernet2(host_mac(from), dst_mac).ipv4(address(from).octets(), address(to).octets(), 64);
    let mut frame = Vec::new();
    builder.udp(4000, dport).write(&mut frame, &vec![7; length]).unwrap();
    frame
}

/// Makes the IPv4 checksum right.
pub fn mend(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let sum = checksum::internet(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// A port in a switch's configuration.
pub fn port(name: &str, role: &str, mtu: u32, more: &str) -> String {
    format!("[[port]]\nname = \"{name}\"\ndev = \"memory\"\nrole = \"{role}\"\nmtu = {mtu}\n{more}\n")
}

/// The router's MAC on a port.
pub fn own(port: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, port]
}
