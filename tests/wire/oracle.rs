//! What the parser should find, by the checked views, one layer at a time.

use weir::wire::{
    Fragment, Headers, MAX_EXTENSIONS, MAX_TAGS, Net, ethernet, ethertype, ipv4, ipv6, proto, shim, vlan,
};

/// `None` for a runt.
pub fn headers(frame: &[u8]) -> Option<Headers> {
    let eth = ethernet::View::new(frame).ok()?;
    let mut h = Headers { dst: eth.dst(), src: eth.src(), ethertype: eth.ethertype(), ..Headers::default() };
    let mut rest = eth.payload();
    if shim::peek(frame).is_ok() {
        h.shim = true;
        h.ethertype = u16::from_be_bytes([frame[18], frame[19]]);
        rest = &frame[20..];
    }
    for tag in 0..MAX_TAGS {
        let Ok(view) = vlan::View::new(rest) else { break };
        if ![ethertype::VLAN, ethertype::QINQ, ethertype::QINQ_OLD].contains(&h.ethertype) {
            break;
        }
        match tag {
            0 => (h.tagged, h.vlan_tci) = (true, view.tci()),
            _ => (h.double_tagged, h.inner_tci) = (true, view.tci()),
        }
        h.ethertype = view.ethertype();
        rest = &rest[vlan::LEN..];
    }
    let l3 = frame.len() - rest.len();
    match h.ethertype {
        ethertype::IPV4 => ipv4(&mut h, l3, rest),
        ethertype::IPV6 => ipv6(&mut h, l3, rest),
        _ => {}
    }
    Some(h)
}

fn ipv4(h: &mut Headers, l3: usize, bytes: &[u8]) {
    let stated = with_length(bytes, 2, bytes.len());
    let Ok(ip) = ipv4::View::new(&stated[..]) else { return };
    h.net = Net::Ipv4;
    h.l3 = l3 as u16;
    (h.tos, h.ttl, h.proto, h.fragment) = (ip.tos(), ip.ttl(), ip.proto(), ip.fragment());
    (h.src_ip, h.dst_ip) = (u32::from(ip.src()).into(), u32::from(ip.dst()).into());
    transport(h, l3 + ip.header_len(), ip.payload());
}

fn ipv6(h: &mut Headers, l3: usize, bytes: &[u8]) {
    let stated = with_length(bytes, 4, bytes.len().saturating_sub(ipv6::LEN));
    let Ok(ip) = ipv6::View::new(&stated[..]) else { return };
    h.net = Net::Ipv6;
    h.l3 = l3 as u16;
    (h.tos, h.ttl) = (ip.traffic_class(), ip.hop_limit());
    (h.src_ip, h.dst_ip) = (ip.src().into(), ip.dst().into());
    let mut chain = ip.extensions();
    for extension in chain.by_ref().take(MAX_EXTENSIONS) {
        if let Some((offset, more)) = extension.fragment() {
            h.fragment = Fragment::new(offset, more);
        }
    }
    h.proto = chain.next_header;
    transport(h, l3 + ipv6::LEN + ip.payload().len() - chain.rest.len(), chain.rest);
}

/// A packet whose length field, at `at`, is 0 is one of the length that is there.
fn with_length(bytes: &[u8], at: usize, there: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some(field) = bytes.get_mut(at..at + 2).filter(|field| field.iter().all(|&byte| byte == 0)) {
        field.copy_from_slice(&u16::try_from(there).unwrap_or(u16::MAX).to_be_bytes());
    }
    bytes
}

fn transport(h: &mut Headers, l4: usize, bytes: &[u8]) {
    let known = [proto::TCP, proto::UDP, proto::ICMP, proto::ICMPV6].contains(&h.proto);
    if h.fragment == Fragment::Later || !known || bytes.len() < 8 {
        return;
    }
    h.l4 = l4 as u16;
    if h.proto == proto::TCP || h.proto == proto::UDP {
        h.sport = u16::from_be_bytes([bytes[0], bytes[1]]);
        h.dport = u16::from_be_bytes([bytes[2], bytes[3]]);
    }
}
