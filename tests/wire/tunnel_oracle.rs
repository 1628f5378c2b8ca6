//! What a tunnel's packet carries, read naively: headers are taken off the front one after the
//! other, and what is left is parsed as a frame of its own.

use weir::wire::{Fragment, Headers, MissingHeader, Net, Unread, parse, proto};

/// What is left of a packet.
#[derive(Clone, Copy)]
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Unread> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(Unread::Cut)?;
        self.0 = rest;
        Ok(taken)
    }

    fn word(&mut self) -> Result<u16, Unread> {
        self.take(2).map(|word| u16::from_be_bytes([word[0], word[1]]))
    }

    fn byte(&mut self) -> Result<u8, Unread> {
        self.take(1).map(|byte| byte[0])
    }
}

/// The flow, and where its IP and transport headers stand, of the packet inside the first tunnel of
/// a frame.
pub fn inner(frame: &[u8], outer: &Headers) -> Result<Option<Headers>, Unread> {
    let mut found = match outer.net {
        Net::Other if [0x8847, 0x8848].contains(&outer.ethertype) => labels(Rest(&frame[14 + outer.tag_bytes()..]))?,
        Net::Other => return Ok(None),
        _ => {
            let packet = &frame[usize::from(outer.l3)..];
            let (stated, fixed) = match outer.net {
                Net::Ipv4 => (u16::from_be_bytes([packet[2], packet[3]]).into(), usize::from(packet[0] & 15) * 4),
                _ => (u16::from_be_bytes([packet[4], packet[5]]) as usize, 40),
            };
            let stated = if stated > 0 && outer.net == Net::Ipv6 { stated + 40 } else { stated };
            let packet = if stated == 0 { packet } else { &packet[..stated.min(packet.len())] };
            let next_header = packet[if outer.net == Net::Ipv4 { 9 } else { 6 }];
            let behind = || extensions(next_header, outer, Rest(packet.get(fixed..).unwrap_or_default()));
            match outer.proto {
                17 if outer.l4 > 0 => match outer.dport {
                    4789 | 8472 => vxlan(udp(behind()))?,
                    6081 => geneve(udp(behind()))?,
                    6635 => labels(udp(behind()))?,
                    2152 => match gtp(udp(behind()))? {
                        Some(found) => found,
                        None => return Ok(None),
                    },
                    _ => return Ok(None),
                },
                4 | 41 | 47 | 137 if outer.fragment == Fragment::Later => return Err(Unread::Fragment),
                4 => ip(0x0800, behind())?,
                41 => ip(0x86dd, behind())?,
                47 => gre(behind())?,
                137 => labels(behind())?,
                _ => return Ok(None),
            }
        }
    };
    // The end of a packet is that of the outer one, and what is inside ends there: places count
    // from its end.
    let end = packet_end(frame, outer) as u16;
    (found.l3, found.l4) = (end.wrapping_sub(found.l3), if found.l4 == 0 { 0 } else { end.wrapping_sub(found.l4) });
    Ok(Some(found))
}

/// Where the outer packet ends in its frame.
fn packet_end(frame: &[u8], outer: &Headers) -> usize {
    let at = usize::from(outer.l3);
    let stated: usize = match outer.net {
        Net::Other => 0,
        Net::Ipv4 => u16::from_be_bytes([frame[at + 2], frame[at + 3]]).into(),
        Net::Ipv6 => match u16::from_be_bytes([frame[at + 4], frame[at + 5]]) {
            0 => 0,
            stated => usize::from(stated) + 40,
        },
    };
    if stated == 0 { frame.len() } else { frame.len().min(at + stated) }
}

/// What is behind the extension headers that lead to the protocol that the parser found.
fn extensions<'a>(mut next_header: u8, outer: &Headers, mut rest: Rest<'a>) -> Rest<'a> {
    while next_header != outer.proto {
        let len = proto::extension_len(next_header, rest.0[1]);
        next_header = rest.0[0];
        rest.0 = &rest.0[len..];
    }
    rest
}

/// What is behind a UDP header, of which the ports alone have to be there.
fn udp(rest: Rest<'_>) -> Rest<'_> {
    Rest(rest.0.get(8..).unwrap_or_default())
}

fn vxlan(mut rest: Rest<'_>) -> Result<Headers, Unread> {
    let header = rest.take(8)?;
    if header[0] & 8 == 0 { Err(Unread::Other) } else { ethernet(rest) }
}

fn geneve(mut rest: Rest<'_>) -> Result<Headers, Unread> {
    let header = rest.take(8)?;
    if header[0] & 0xc0 != 0 || header[1] & 0x80 != 0 {
        return Err(Unread::Other);
    }
    let ethertype = u16::from_be_bytes([header[2], header[3]]);
    let options = usize::from(header[0]) * 4;
    // What an unknown protocol has behind options that are cut is not looked for.
    if !is_known(ethertype) {
        return Err(Unread::Other);
    }
    rest.take(options)?;
    any(ethertype, rest)
}

fn gre(mut rest: Rest<'_>) -> Result<Headers, Unread> {
    let (flags, ethertype) = (rest.word()?, rest.word()?);
    if flags & 0x4007 != 0 {
        return Err(Unread::Other);
    }
    if !is_known(ethertype) {
        return Err(Unread::Other);
    }
    for field in [0x8000, 0x2000, 0x1000] {
        if flags & field != 0 {
            rest.take(4)?;
        }
    }
    any(ethertype, rest)
}

fn gtp(mut rest: Rest<'_>) -> Result<Option<Headers>, Unread> {
    let header = rest.take(8)?;
    if header[0] / 16 != 3 {
        return Err(Unread::Other);
    }
    if header[1] != 255 {
        return Ok(None);
    }
    let mut next = 0;
    if header[0] % 8 != 0 {
        let optional = rest.take(4)?;
        if header[0] & 4 != 0 {
            next = optional[3];
        }
    }
    let mut number = 0;
    while next != 0 {
        if number == 4 {
            return Err(Unread::TooDeep);
        }
        let Some(content) = (usize::from(rest.byte()?) * 4).checked_sub(2) else { return Err(Unread::Other) };
        rest.take(content)?;
        next = rest.byte()?;
        number += 1;
    }
    by_version(rest).map(Some)
}

fn labels(mut rest: Rest<'_>) -> Result<Headers, Unread> {
    for _ in 0..16 {
        if rest.take(4)?[2] % 2 == 1 {
            return by_version(rest);
        }
    }
    Err(Unread::TooDeep)
}

fn is_known(ethertype: u16) -> bool {
    [0x0800, 0x86dd, 0x6558, 0x8847, 0x8848].contains(&ethertype)
}

fn any(ethertype: u16, rest: Rest<'_>) -> Result<Headers, Unread> {
    match ethertype {
        0x6558 => ethernet(rest),
        0x8847 | 0x8848 => labels(rest),
        _ => ip(ethertype, rest),
    }
}

fn ethernet(mut rest: Rest<'_>) -> Result<Headers, Unread> {
    rest.take(12)?;
    let mut ethertype = rest.word()?;
    let mut tags = 0;
    while [0x8100, 0x88a8, 0x9100].contains(&ethertype) {
        if tags == 4 {
            return Err(Unread::TooDeep);
        }
        rest.word()?;
        ethertype = rest.word()?;
        tags += 1;
    }
    if [0x0800, 0x86dd].contains(&ethertype) { ip(ethertype, rest) } else { Err(Unread::Other) }
}

fn by_version(rest: Rest<'_>) -> Result<Headers, Unread> {
    match rest.0.first().ok_or(Unread::Cut)? / 16 {
        4 => ip(0x0800, rest),
        6 => ip(0x86dd, rest),
        _ => Err(Unread::Other),
    }
}

/// The places of headers are counted from the end of the packet.
fn ip(ethertype: u16, rest: Rest<'_>) -> Result<Headers, Unread> {
    let frame = [&[0; 12], &ethertype.to_be_bytes()[..], rest.0].concat();
    let mut headers = Headers::default();
    parse(&frame, &mut headers).map_err(|_| Unread::Cut)?;
    let fixed = if ethertype == 0x0800 { 20 } else { 40 };
    match headers.missing() {
        Some(MissingHeader::Ip) if rest.0.len() < fixed => Err(Unread::Cut),
        Some(MissingHeader::Ip) => Err(Unread::Other),
        Some(MissingHeader::Ports) => Err(Unread::Cut),
        Some(MissingHeader::Fragment) => Err(Unread::Fragment),
        None | Some(MissingHeader::Transport) => {
            let end = frame.len() as u16;
            headers.l3 = end.wrapping_sub(headers.l3);
            headers.l4 = if headers.l4 == 0 { 0 } else { end.wrapping_sub(headers.l4) };
            Ok(headers)
        }
    }
}
