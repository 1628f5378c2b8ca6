//! What the parser should find, read naively, one layer at a time.

use weir::wire::{Fragment, Headers, MAX_EXTENSIONS, MAX_TAGS, Mac, Net, ethertype, proto, shim};

/// `None` for a runt.
pub fn headers(frame: &[u8]) -> Option<Headers> {
    if frame.len() < 14 {
        return None;
    }
    let mac = |at: usize| Mac(frame[at..at + 6].try_into().unwrap());
    let mut h = Headers { dst: mac(0), src: mac(6), ethertype: word(frame, 12), ..Headers::default() };
    let mut rest = &frame[14..];
    if shim::peek(frame).is_ok() {
        h.shim = true;
        h.ethertype = word(frame, 18);
        rest = &frame[20..];
    }
    for tag in 0..MAX_TAGS {
        if rest.len() < 4 || ![ethertype::VLAN, ethertype::QINQ, ethertype::QINQ_OLD].contains(&h.ethertype) {
            break;
        }
        h.tagged = true;
        h.inner_tags = tag as u8;
        let [third, fourth] = &mut h.deeper_tcis;
        *[&mut h.vlan_tci, &mut h.inner_tci, third, fourth][tag] = word(rest, 0);
        h.ethertype = word(rest, 2);
        rest = &rest[4..];
    }
    let l3 = frame.len() - rest.len();
    match h.ethertype {
        ethertype::IPV4 => ipv4(&mut h, l3, rest),
        ethertype::IPV6 => ipv6(&mut h, l3, rest),
        0x8864 if rest.len() >= 8 && rest[..2] == [0x11, 0] => match word(rest, 6) {
            0x0021 => ipv4(&mut h, l3 + 8, &rest[8..]),
            0x0057 => ipv6(&mut h, l3 + 8, &rest[8..]),
            _ => {}
        },
        _ => {}
    }
    Some(h)
}

fn ipv4(h: &mut Headers, l3: usize, bytes: &[u8]) {
    if bytes.len() < 20 {
        return;
    }
    let (header, total) = (usize::from(bytes[0] & 15) * 4, stated(bytes, 2, bytes.len()));
    if bytes[0] >> 4 != 4 || header < 20 || total < header {
        return;
    }
    h.net = Net::Ipv4;
    h.l3 = l3 as u16;
    (h.tos, h.ttl, h.proto) = (bytes[1], bytes[8], bytes[9]);
    h.fragment = Fragment::new(word(bytes, 6) & 0x1fff, bytes[6] & 0x20 != 0);
    let address = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()).into();
    (h.src_ip, h.dst_ip) = (address(12), address(16));
    let end = total.min(bytes.len());
    let (next_header, rest) = (h.proto, bytes.get(header..end).unwrap_or_default());
    let rest = if h.fragment == Fragment::Later { rest } else { extensions(h, next_header, &[51, 139], rest) };
    transport(h, l3 + end - rest.len(), rest);
}

fn ipv6(h: &mut Headers, l3: usize, bytes: &[u8]) {
    if bytes.len() < 40 || bytes[0] >> 4 != 6 {
        return;
    }
    h.net = Net::Ipv6;
    h.l3 = l3 as u16;
    (h.tos, h.ttl) = ((word(bytes, 0) >> 4) as u8, bytes[7]);
    let address = |at: usize| u128::from_be_bytes(bytes[at..at + 16].try_into().unwrap());
    (h.src_ip, h.dst_ip) = (address(8), address(24));
    let end = bytes.len().min(40 + stated(bytes, 4, bytes.len() - 40));
    let rest = extensions(h, bytes[6], &[0, 43, 44, 51, 60, 135, 139, 140], &bytes[40..end]);
    transport(h, l3 + end - rest.len(), rest);
}

/// What stands behind the extension headers of these numbers.
fn extensions<'a>(h: &mut Headers, mut next_header: u8, numbers: &[u8], mut rest: &'a [u8]) -> &'a [u8] {
    for _ in 0..MAX_EXTENSIONS {
        if h.fragment == Fragment::Later || !numbers.contains(&next_header) || rest.len() < 2 {
            break;
        }
        // A message of mobility, HIP or Shim6, and no header before another.
        if next_header >= 135 && rest[0] == 59 {
            break;
        }
        let len = proto::extension_len(next_header, rest[1]);
        if rest.len() < len {
            break;
        }
        if next_header == proto::FRAGMENT {
            h.fragment = Fragment::new(word(rest, 2) >> 3, rest[3] & 1 != 0);
        }
        next_header = rest[0];
        rest = &rest[len..];
    }
    h.proto = next_header;
    rest
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// A packet whose length field, at `at`, is 0 is one of the length that is there.
fn stated(bytes: &[u8], at: usize, there: usize) -> usize {
    match word(bytes, at) {
        0 => there,
        stated => stated.into(),
    }
}

fn transport(h: &mut Headers, l4: usize, bytes: &[u8]) {
    let (with_ports, icmp) = ([6, 17, 33, 113, 132, 136].contains(&h.proto), [1, 58].contains(&h.proto));
    if h.fragment == Fragment::Later {
        return;
    }
    if with_ports && bytes.len() >= 4 {
        (h.sport, h.dport) = (word(bytes, 0), word(bytes, 2));
    }
    if (with_ports && bytes.len() >= 4) || (icmp && bytes.len() >= 8) {
        h.l4 = l4 as u16;
    }
}
