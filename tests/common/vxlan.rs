//! Packets of several flows in one VXLAN tunnel.

use etherparse::PacketBuilder;
use weir::wire::Flow;

const INNER: [[u8; 4]; 2] = [[172, 16, 0, 1], [172, 16, 0, 2]];

/// A packet of the tunnel between these MAC addresses and addresses, each the source and the
/// destination. The inner flow is the one of this source port.
pub fn packet(macs: [[u8; 6]; 2], ends: [[u8; 4]; 2], sport: u16) -> Vec<u8> {
    let mut inner = vec![8, 0, 0, 0, 0, 0, 7, 0];
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(INNER[0], INNER[1], 64).udp(sport, 80);
    builder.write(&mut inner, &[7; 20]).unwrap();
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2(macs[0], macs[1]).ipv4(ends[0], ends[1], 64).udp(50_000, 4789);
    builder.write(&mut frame, &inner).unwrap();
    frame
}

/// The inner flow of the packet with this source port.
pub fn flow(sport: u16) -> Flow {
    let [src, dst] = INNER.map(|address| Some(address.into()));
    Flow { src, dst, sport: Some(sport), dport: Some(80), proto: Some(17) }
}
