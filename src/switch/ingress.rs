//! Ingress: what a port lets in, and the PHVs of that.

use super::{BURST, Burst, Role, Switch, TelemetryHeader};
use crate::pisa::{DropAt, DropReason, Pairs, Phv, PortId, Vectors, Wide, wide};
use crate::wire::{self, Frame, Headers, Net, Shim};

/// Why each packet of a burst may not enter.
pub(super) type Rejected = [Option<DropReason>; BURST];

impl Switch {
    /// Fills the PHVs, and counts the bytes that came in. What may not enter is counted and leaves the
    /// burst.
    #[inline(always)]
    pub(super) fn parse<F: Frame>(&mut self, ingress: PortId, burst: &mut Burst<F>) {
        let (role, header) = (self.ports[usize::from(ingress)].role, self.header);
        let epoch = wire::shim::epoch_of(self.telemetry.clock.running());
        let telemetry = self.telemetry_at(ingress);
        let begun = &mut *self.begun;
        let headers = if telemetry.takes_shims { Headers::of_shimmed() } else { Headers::of_plain() };
        *begun = Phv { headers, ..Phv::of_port(ingress) };
        if role == Role::Host {
            (begun.enters, begun.shim) = (true, begun.shim.with_epoch(epoch));
        }
        let mut rejected: Rejected = [None; BURST];
        let mut found = Found::default();
        let (phvs, burst_rejected) = (&mut self.phvs[..], &mut rejected);
        wide(Parsed { burst, phvs, begun, telemetry: &telemetry, rejected: burst_rejected, found: &mut found });
        if let Some(inner) = &mut self.telemetry.inner {
            found.unmeasured -= inner.read(burst, &mut self.phvs[..], &rejected, &self.stats.tunnels);
        }
        let Found { bytes, lacking, unmeasured, too_many_tags, rejects } = found;
        self.stats.port(ingress).rx_bytes.add(bytes);
        self.stats.unmeasured.add(unmeasured);
        self.stats.too_many_tags.add(too_many_tags);
        if lacking > 0 {
            let packets = self.phvs.iter().take(burst.len()).zip(&rejected).filter(|(_, rejected)| rejected.is_none());
            let packets = packets.filter(|(phv, _)| phv.headers.inner == 0);
            packets.filter_map(|(phv, _)| phv.headers.missing()).for_each(|missing| self.stats.lacking.count(missing));
        }
        if role == Role::Fabric && header == TelemetryHeader::Dscp {
            self.read_dscp(burst.len());
        }
        if rejects > 0 {
            self.reject(ingress, burst, &rejected);
        }
    }

    /// How the packets of a port say what was measured of them.
    #[inline(always)]
    pub(super) fn telemetry_at(&self, port: PortId) -> Telemetry {
        let takes_shims = self.ports[usize::from(port)].role == Role::Fabric && self.header == TelemetryHeader::Shim;
        let epoch = wire::shim::epoch_of(self.telemetry.clock.running());
        Telemetry { takes_shims, digest_beside: self.telemetry.digest.then_some(epoch) }
    }

    /// Takes class and epoch bit out of the DSCP of the first packets of a burst.
    #[inline(never)]
    fn read_dscp(&mut self, packets: usize) {
        let by_bit = self.telemetry.clock.by_bit();
        self.phvs.iter_mut().take(packets).for_each(|phv| take_dscp(phv, by_bit));
    }

    /// Takes what was rejected out of the burst, and its PHVs.
    #[cold]
    pub(super) fn reject<F: Frame>(&mut self, ingress: PortId, burst: &mut Burst<F>, rejected: &Rejected) {
        if self.telemetry.drops {
            for (phv, reason) in self.phvs.iter().zip(rejected).take(burst.len()) {
                reason.iter().for_each(|reason| self.telemetry.dropped(phv, *reason, DropAt::Before));
            }
        }
        let places = 0..burst.len();
        for (kept, place) in places.filter(|place| rejected[*place].is_none()).enumerate() {
            self.phvs[kept] = self.phvs[place];
        }
        let mut reasons = rejected.iter();
        burst.retain(|_| match reasons.next().copied().flatten() {
            None => true,
            Some(reason) => {
                self.stats.port(ingress).drop(reason, 1);
                false
            }
        });
    }
}

/// Takes class and epoch bit out of a packet's DSCP.
#[inline(always)]
pub(super) fn take_dscp(phv: &mut Phv, by_bit: [u32; 2]) {
    let (class, bit) = wire::dscp::read(phv.headers.tos);
    phv.shim = phv.shim.with_class(class).with_epoch(by_bit[usize::from(bit)]);
    phv.headers.tos &= !wire::dscp::MASK;
}

/// A burst that is parsed.
struct Parsed<'a, F> {
    burst: &'a [F],
    phvs: &'a mut [Phv],
    /// What the plain packets of the burst begin with.
    begun: &'a Phv,
    telemetry: &'a Telemetry,
    rejected: &'a mut Rejected,
    found: &'a mut Found,
}

/// Bytes on the wire, packets without a whole transport header, of these the ones that are neither IPv4 nor
/// IPv6, of these the ones with more tags than are looked behind, and packets that may not enter.
#[derive(Default)]
struct Found {
    bytes: u64,
    lacking: u64,
    unmeasured: u64,
    too_many_tags: u64,
    rejects: u64,
}

impl<F: Frame> Wide for Parsed<'_, F> {
    #[inline(always)]
    fn run(mut self) {
        // A loop for each kind of CPU and of port.
        let others = match (Vectors::here().picks(), Pairs::here(), self.telemetry.takes_shims) {
            (Some(picks), _, false) => self.plain::<false>(picks.into()),
            (None, Some(pairs), false) => self.plain::<false>(pairs.into()),
            (None, None, false) => self.plain::<false>(Vectors::NONE),
            (Some(picks), _, true) => self.plain::<true>(picks.into()),
            (None, Some(pairs), true) => self.plain::<true>(pairs.into()),
            (None, None, true) => self.plain::<true>(Vectors::NONE),
        };
        if others != 0 {
            self.others(others);
        }
    }
}

const _: () = assert!(BURST <= u64::BITS as usize);

impl<F: Frame> Parsed<'_, F> {
    /// Begins all PHVs, and parses plain packets, where packets are `SHIMMED` those behind a shim. Returns a bit for
    /// each other one. The loop calls nothing, so that what it compares with stays in registers.
    #[inline(always)]
    fn plain<const SHIMMED: bool>(&mut self, vectors: Vectors) -> u64 {
        let (begun, telemetry) = (*self.begun, self.telemetry);
        let (mut others, mut bytes) = (0, 0);
        for (place, (frame, phv)) in self.burst.iter().zip(&mut *self.phvs).enumerate() {
            *phv = begun;
            phv.wire_bytes = frame.wire_len() as u32;
            bytes += u64::from(phv.wire_bytes);
            let is_plain = match SHIMMED {
                true => {
                    vectors.parse_shimmed(frame.bytes(), &mut phv.headers)
                        && wire::shim::read(frame.bytes()).map(|shim| telemetry.take(phv, shim)).is_some()
                }
                false => vectors.parse_plain(frame.bytes(), &mut phv.headers),
            };
            others |= u64::from(!is_plain) << place;
        }
        self.found.bytes = bytes;
        others
    }

    /// Parses the packets whose bits are set.
    #[inline(never)]
    fn others(&mut self, others: u64) {
        let Self { burst, phvs, telemetry, rejected, found, .. } = self;
        let packets = burst.iter().zip(&mut **phvs).zip(&mut **rejected).enumerate();
        for (_, ((frame, phv), rejected)) in packets.filter(|(place, _)| others >> place & 1 == 1) {
            match telemetry.read(phv, frame.bytes()) {
                Ok(()) if phv.headers.l4 != 0 => {}
                Ok(()) => {
                    found.lacking += 1;
                    found.unmeasured += u64::from(phv.headers.net == Net::Other);
                    found.too_many_tags += u64::from(phv.headers.has_too_many_tags());
                }
                Err(reason) => {
                    *rejected = Some(reason);
                    found.rejects += 1;
                }
            }
        }
    }
}

/// How a port's packets say what was measured of them.
pub(super) struct Telemetry {
    /// They carry shims.
    takes_shims: bool,
    /// The running epoch as packets carry it, where they carry a digest and four bits of theirs.
    digest_beside: Option<u32>,
}

impl Telemetry {
    /// Parses a frame that is not plain, with its shim.
    ///
    /// # Errors
    /// For a runt, a shim from a host, one that this version cannot read, and one where the DSCP is
    /// used.
    #[inline(never)]
    pub(super) fn read(&self, phv: &mut Phv, frame: &[u8]) -> Result<(), DropReason> {
        wire::parse_any(frame, &mut phv.headers).map_err(|_| DropReason::Runt)?;
        let unreadable = phv.headers.ethertype == wire::ethertype::SHIM;
        if unreadable || (phv.headers.shim && !self.takes_shims) {
            return Err(DropReason::BadShim);
        }
        if phv.headers.shim {
            self.take(phv, wire::shim::read(frame).ok_or(DropReason::BadShim)?);
        }
        Ok(())
    }

    /// Takes the shim that a packet carries.
    #[inline(always)]
    fn take(&self, phv: &mut Phv, shim: Shim) {
        phv.wire_bytes -= wire::shim::LEN as u32;
        phv.shim = shim.next_hop();
        if let Some(running) = self.digest_beside {
            let epoch = wire::shim::nearest_epoch(running, phv.shim.epoch());
            (phv.digest, phv.shim) = (phv.shim.digest(), phv.shim.with_epoch(epoch));
        }
    }
}
