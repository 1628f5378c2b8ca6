//! A router's actions on packets: it verifies headers, rewrites MACs and TTL, and makes its own
//! packets.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::Ordering::Relaxed;

use super::asked::Advice;
use super::dataplane::Decision;
use super::fragment;
use super::reply::{self, Error};
use super::{Digest, Hop, Neighbour, REASK_SECONDS, Route, address, key, link_local, seconds, touch};
use crate::pisa::{DropReason, Phv, PortId, Verdict};
use crate::wire::{Fragment, Frame, Headers, Mac, Net, arp, checksum, ethernet, icmp, ipv4, ipv6, ndp, proto, shim};

const MACS: usize = 12;

/// The result for a packet, beside its verdict.
#[derive(Debug)]
pub struct Finished<F> {
    /// It has ended under this name, and a packet of the router's own goes on in its frame.
    pub ended: Option<DropReason>,
    /// One more packet of the router's own, and the port it is for.
    pub extra: Option<(F, PortId)>,
    /// It goes on, in fragments: [`fragment`](fn@super::fragment).
    pub long: bool,
}

impl Route {
    /// Applies the decision on packet `i` of the burst, and writes the verdict of the packet that
    /// is then in the frame.
    #[inline]
    pub fn finish<F: Frame>(&mut self, i: usize, frame: &mut F, phv: &mut Phv) -> Finished<F> {
        let decision = self.decisions.get(i).copied().unwrap_or_default();
        let ended = match decision {
            Decision::Done => None,
            Decision::Arp => self.arp(frame, phv),
            _ if !header_is_right(frame, &phv.headers) => {
                phv.verdict = Verdict::Drop(DropReason::BadHeader);
                None
            }
            Decision::Forward { hop, neighbour } => match self.forward(frame, phv, hop, neighbour) {
                Ok((extra, long)) => return Finished { ended: None, extra, long },
                Err(too_big) => self.error(frame, phv, too_big, DropReason::TooLong),
            },
            Decision::Resolve(hop) => self.resolve(frame, phv, hop),
            Decision::Answer(error, reason) => self.error(frame, phv, error, reason),
            Decision::Local => self.local(frame, phv),
            Decision::Discovery => self.discovery(frame, phv),
        };
        Finished { ended, extra: None, long: false }
    }

    /// Forwards a packet. Returns a question for the neighbour if one is due, and whether the
    /// packet is to be fragmented; an error if it is too long for the next link.
    #[inline(always)]
    fn forward<F: Frame>(
        &mut self,
        frame: &mut F,
        phv: &Phv,
        hop: Hop,
        neighbour: Neighbour,
    ) -> Result<(Option<(F, PortId)>, bool), Error> {
        let port = &self.ports[usize::from(hop.port)];
        let l3 = usize::from(phv.headers.l3);
        let long = packet_len(frame.bytes(), &phv.headers) > port.mtu as usize;
        if long && !(frame.gather() && fragment::can_fragment(frame, &phv.headers, port.mtu)) {
            return Err(Error::TooBig(port.mtu));
        }
        rewrite(frame.bytes_mut(), l3, phv.headers.net, neighbour.mac, port.mac());
        let heard = self.signs[neighbour.index as usize].heard.load(Relaxed);
        let due = !neighbour.fixed && seconds(self.now).saturating_sub(heard) >= REASK_SECONDS;
        Ok((if due { self.ask_again(frame, hop, neighbour) } else { None }, long))
    }

    /// A question for a neighbour that is in use and has long been silent, in a buffer of its own.
    #[cold]
    fn ask_again<F: Frame>(&mut self, frame: &F, hop: Hop, neighbour: Neighbour) -> Option<(F, PortId)> {
        let now = seconds(self.now);
        if self.asked.advise(hop.address, now) != Advice::Ask || !self.may_ask() {
            return None;
        }
        let target = address(hop.address);
        let own = self.own(hop.port, target)?;
        let mut question = frame.duplicate()?;
        if !reply::question(&mut question, own, target, Some(neighbour.mac)) {
            return None;
        }
        let signs = &self.signs[neighbour.index as usize];
        if signs.probed.load(Relaxed) <= signs.heard.load(Relaxed) {
            signs.probed.store(now, Relaxed);
        }
        Some((question, hop.port))
    }

    /// The frame becomes the question for the packet's next hop, or the message that there is none.
    #[cold]
    fn resolve<F: Frame>(&mut self, frame: &mut F, phv: &mut Phv, hop: Hop) -> Option<DropReason> {
        if !self.ports[usize::from(hop.port)].is_up() {
            phv.verdict = Verdict::Drop(DropReason::PortDown);
            return None;
        }
        match self.asked.advise(hop.address, seconds(self.now)) {
            Advice::Wait => None,
            Advice::Unreachable => self.error(frame, phv, Error::HostUnreachable, DropReason::NoNeighbour),
            Advice::Ask => {
                let target = address(hop.address);
                let own = self.own(hop.port, target)?;
                let asked = self.may_ask() && reply::question(frame, own, target, None);
                asked.then(|| replaced(frame, phv, hop.port, DropReason::NoNeighbour))
            }
        }
    }

    /// Answers with an ICMP error, if one may be sent.
    #[cold]
    fn error<F: Frame>(
        &mut self,
        frame: &mut F,
        phv: &mut Phv,
        error: Error,
        reason: DropReason,
    ) -> Option<DropReason> {
        phv.verdict = Verdict::Drop(reason);
        if !reply::may_be_answered(&phv.headers, frame.bytes()) {
            return None;
        }
        let mac = self.ports.get(usize::from(phv.ingress))?.mac();
        let own = self.routes.load().ports.get(usize::from(phv.ingress))?;
        let (v4, v6) = (own.source4(), own.source6());
        if !self.errors.take(self.now) {
            self.suppressed += 1;
            return None;
        }
        // The quotation may hold more than headers.
        frame.gather();
        let made = bare(frame, &mut phv.headers)
            && match phv.headers.net {
                Net::Ipv4 => v4.is_some_and(|v4| reply::error4(frame, (mac, v4), error)),
                _ => v6.is_some_and(|v6| reply::error6(frame, (mac, v6), error)),
            };
        made.then(|| replaced(frame, phv, phv.ingress, reason))
    }

    /// A packet to the router itself: echo requests and discovery are answered, others refused.
    #[cold]
    fn local<F: Frame>(&mut self, frame: &mut F, phv: &mut Phv) -> Option<DropReason> {
        let headers = &phv.headers;
        if headers.fragment != Fragment::Whole {
            return None;
        }
        match (headers.net, headers.proto, icmp_kind(frame.bytes(), headers)) {
            (Net::Ipv4, proto::ICMP, Some(icmp::ECHO_REQUEST))
            | (Net::Ipv6, proto::ICMPV6, Some(icmp::V6_ECHO_REQUEST)) => {
                let mac = self.ports.get(usize::from(phv.ingress))?.mac();
                let made = bare(frame, &mut phv.headers) && reply::echo(frame, mac, &phv.headers);
                made.then(|| replaced(frame, phv, phv.ingress, DropReason::ToRouter))
            }
            (Net::Ipv6, proto::ICMPV6, Some(ndp::SOLICITATION | ndp::ADVERTISEMENT)) => self.discovery(frame, phv),
            (_, proto::TCP | proto::UDP, _) => self.error(frame, phv, Error::PortUnreachable, DropReason::ToRouter),
            (Net::Ipv4, proto, _) if proto != proto::ICMP => {
                self.error(frame, phv, Error::ProtocolUnreachable, DropReason::ToRouter)
            }
            _ => None,
        }
    }

    /// RFC 826: learns neighbours that ask for the router, updates known ones, and answers for the
    /// router's addresses.
    #[cold]
    fn arp<F: Frame>(&mut self, frame: &mut F, phv: &mut Phv) -> Option<DropReason> {
        let at = ethernet::LEN + if phv.headers.shim { shim::LEN } else { 0 };
        let Some(Ok(packet)) = frame.bytes().get(at..).map(arp::Repr::parse) else {
            phv.verdict = Verdict::Drop(DropReason::BadHeader);
            return None;
        };
        let sender = IpAddr::V4(packet.sender_ip);
        let routes = self.routes.load();
        let mine = routes.ports.get(usize::from(phv.ingress))?.has(packet.target_ip.into());
        // An address that is being tried out has no sender yet (RFC 5227).
        let tried = packet.sender_ip.is_unspecified();
        if packet.sender_mac.is_group() || !(tried || routes.is_on_link(sender, phv.ingress)) {
            phv.verdict = Verdict::Drop(DropReason::Martian);
            return None;
        }
        if !tried {
            self.hear(Digest { address: sender, mac: packet.sender_mac, port: phv.ingress }, mine);
        }
        if packet.operation != arp::REQUEST || !mine {
            return None;
        }
        let answer = arp::Repr {
            operation: arp::REPLY,
            sender_mac: self.ports.get(usize::from(phv.ingress))?.mac(),
            sender_ip: packet.target_ip,
            target_mac: packet.sender_mac,
            target_ip: packet.sender_ip,
        };
        reply::arp(frame, packet.sender_mac, answer).then(|| replaced(frame, phv, phv.ingress, DropReason::ToRouter))
    }

    /// RFC 4861, 7.1: takes only messages that are right in all parts and come from the link
    /// itself.
    #[cold]
    fn discovery<F: Frame>(&mut self, frame: &mut F, phv: &mut Phv) -> Option<DropReason> {
        let headers = &phv.headers;
        if !matches!(icmp_kind(frame.bytes(), headers), Some(ndp::SOLICITATION | ndp::ADVERTISEMENT)) {
            phv.verdict = Verdict::Drop(DropReason::Multicast);
            return None;
        }
        let bytes = frame.bytes();
        let end = usize::from(headers.l3) + packet_len(bytes, headers);
        let message = bytes.get(usize::from(headers.l4)..end).and_then(|bytes| ndp::Repr::parse(bytes).ok());
        let right = headers.ttl == 255 && checksum::is_valid(bytes, headers) == Some(true);
        let Some(message) = message.filter(|_| right) else {
            phv.verdict = Verdict::Drop(DropReason::BadHeader);
            return None;
        };
        match message.kind {
            ndp::SOLICITATION => self.solicited(frame, phv, message),
            _ => {
                let mac = message.link_layer.unwrap_or(headers.src);
                self.hear_v6(message.target, mac, phv, message.flags & ndp::SOLICITED != 0);
                None
            }
        }
    }

    /// Answers for the router's addresses, to duplicate address detection too.
    fn solicited<F: Frame>(&mut self, frame: &mut F, phv: &mut Phv, message: ndp::Repr) -> Option<DropReason> {
        let mac = self.ports.get(usize::from(phv.ingress))?.mac();
        let own = self.routes.load().ports.get(usize::from(phv.ingress))?;
        let target = message.target;
        if !own.has(target.into()) && (own.v6.is_empty() || target != link_local(mac)) {
            return None;
        }
        let from = Ipv6Addr::from(phv.headers.src_ip);
        let mut flags = ndp::ROUTER | ndp::OVERRIDE;
        let to = if from.is_unspecified() {
            (Mac([0x33, 0x33, 0, 0, 0, 1]), Ipv6Addr::from(0xff02 << 112 | 1))
        } else {
            flags |= ndp::SOLICITED;
            if let Some(mac) = message.link_layer {
                self.hear_v6(from, mac, phv, true);
            }
            (phv.headers.src, from)
        };
        let answer = ndp::Repr { kind: ndp::ADVERTISEMENT, flags, target, link_layer: Some(mac) };
        reply::discovery(frame, (mac, target), to, answer)
            .then(|| replaced(frame, phv, phv.ingress, DropReason::ToRouter))
    }

    fn hear_v6(&mut self, address: Ipv6Addr, mac: Mac, phv: &Phv, solicited: bool) {
        if !mac.is_group() && self.routes.load().is_on_link(address.into(), phv.ingress) {
            self.hear(Digest { address: address.into(), mac, port: phv.ingress }, solicited);
        }
    }

    /// Notes a sign of a neighbour. A new one is learned only from messages to the router.
    fn hear(&mut self, digest: Digest, to_us: bool) {
        let now = seconds(self.now);
        match self.neighbours.load().table.get(key(digest.address)) {
            Some(known) if known.fixed => {}
            Some(known) if (known.mac, known.port) == (digest.mac, digest.port) => {
                touch(&self.signs[known.index as usize].heard, now);
            }
            None if !to_us => {}
            _ => self.lost += u64::from(self.digests.try_send(digest).is_err()),
        }
    }

    fn may_ask(&mut self) -> bool {
        let may = self.questions.take(self.now);
        self.suppressed += u64::from(!may);
        may
    }

    /// The router's MAC and address on a port, for messages to `target`.
    fn own(&mut self, port: PortId, target: IpAddr) -> Option<(Mac, IpAddr)> {
        let mac = self.ports.get(usize::from(port))?.mac();
        Some((mac, self.routes.load().ports.get(usize::from(port))?.source(target)?))
    }
}

/// The packet has ended under `reason`; the new packet in its frame goes to `port`.
fn replaced<F: Frame>(frame: &F, phv: &mut Phv, port: PortId, reason: DropReason) -> DropReason {
    phv.headers.shim = false;
    phv.wire_bytes = frame.wire_len() as u32;
    phv.verdict = Verdict::Port(port);
    reason
}

/// Leaves the MACs and the IP packet of a frame that is to be answered: the answer is a frame of
/// its own, without the shim between the two. False when that cannot be.
fn bare<F: Frame>(frame: &mut F, headers: &mut Headers) -> bool {
    if !headers.shim {
        return true;
    }
    let back = |at: u16| at.saturating_sub(shim::LEN as u16);
    (headers.shim, headers.l3, headers.l4) = (false, back(headers.l3), back(headers.l4));
    if frame.bytes().len() < MACS + shim::LEN {
        return false;
    }
    frame.bytes_mut().copy_within(0..MACS, shim::LEN);
    frame.shrink_front(shim::LEN)
}

/// The checks of a hardware parser (RFC 1812, 5.2.2): the checksum, and that the packet is
/// whole.
#[inline(always)]
fn header_is_right<F: Frame>(frame: &F, headers: &Headers) -> bool {
    let l3 = usize::from(headers.l3);
    let Some(packet) = frame.bytes().get(l3..) else { return false };
    match headers.net {
        Net::Ipv4 => ipv4::View::new(packet)
            .is_ok_and(|view| view.checksum_is_valid() && l3 + view.total_len() <= frame.wire_len()),
        Net::Ipv6 => ipv6::View::new(packet).is_ok_and(|view| l3 + ipv6::LEN + view.payload_len() <= frame.wire_len()),
        Net::Other => false,
    }
}

/// Length of the IP packet as its header has it.
#[inline(always)]
fn packet_len(bytes: &[u8], headers: &Headers) -> usize {
    let word = |at: usize| match bytes.get(at..) {
        Some([high, low, ..]) => usize::from(u16::from_be_bytes([*high, *low])),
        _ => 0,
    };
    let l3 = usize::from(headers.l3);
    if headers.net == Net::Ipv4 { word(l3 + 2) } else { ipv6::LEN + word(l3 + 4) }
}

/// Both MACs, the TTL or hop limit, and the IPv4 checksum by what changed of it (RFC 1624).
#[inline(always)]
fn rewrite(bytes: &mut [u8], l3: usize, net: Net, dst: Mac, src: Mac) {
    if let Some(macs) = bytes.first_chunk_mut::<12>() {
        macs[..6].copy_from_slice(&dst.0);
        macs[6..].copy_from_slice(&src.0);
    }
    let Some(header) = bytes.get_mut(l3..).and_then(|packet| packet.first_chunk_mut::<20>()) else { return };
    if net == Net::Ipv4 {
        let word = |header: &[u8; 20]| u16::from_be_bytes([header[8], header[9]]);
        let old = word(header);
        header[8] = header[8].saturating_sub(1);
        let sum = checksum::update(u16::from_be_bytes([header[10], header[11]]), old, word(header));
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        header[7] = header[7].saturating_sub(1);
    }
}

fn icmp_kind(bytes: &[u8], headers: &Headers) -> Option<u8> {
    let is_icmp = matches!(headers.proto, proto::ICMP | proto::ICMPV6) && headers.l4 != 0;
    bytes.get(usize::from(headers.l4)).copied().filter(|_| is_icmp)
}
