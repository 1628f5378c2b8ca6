//! The half that sees every frame.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crossbeam_channel::Sender;

use super::{Digest, MacKey, MacTable, seconds};
use crate::pisa::table::Reader;
use crate::pisa::{DropReason, LookupTrace, Phv, Probe, Verdict};
use crate::wire::Mac;

/// One worker's dataplane of a learning switch.
#[derive(Debug)]
pub struct Learn {
    macs: Reader<MacTable>,
    /// The second in which an address was last heard, by [`MacEntry::index`](super::MacEntry).
    seen: Arc<[AtomicU32]>,
    reporter: Reporter,
    /// Whether frames to the bridge group are forwarded, but for PAUSE.
    link_local: bool,
}

impl Learn {
    pub(super) fn new(macs: Reader<MacTable>, seen: Arc<[AtomicU32]>, queue: Sender<Digest>, link_local: bool) -> Self {
        Self { macs, seen, reporter: Reporter::new(queue), link_local }
    }

    /// ```text
    /// to the bridge group: drop, unless that is forwarded and not PAUSE
    /// source known at the ingress port: note the time;  else, unless a group or zero: report it
    /// destination a group or unknown: flood;  at the ingress port: drop;  else: to its port
    /// ```
    pub fn decide(&mut self, phvs: &mut [Phv], now: u64) {
        let now = seconds(now);
        let macs = self.macs.load();
        self.reporter.begin(macs.version);
        for phv in phvs {
            let headers = &phv.headers;
            if is_kept_back(headers.dst, self.link_local) {
                phv.verdict = Verdict::Drop(DropReason::LinkLocal);
                continue;
            }
            let source = MacKey::new(headers.vid(), headers.src);
            match macs.table.get(source.0) {
                Some(entry) if entry.port == phv.ingress => touch(&self.seen[entry.index as usize], now),
                _ if headers.src.is_group() || headers.src == Mac::default() => {}
                _ => self.reporter.report(Digest { key: source, port: phv.ingress }),
            }
            let destination = MacKey::new(headers.vid(), headers.dst);
            phv.verdict = match macs.table.get(destination.0) {
                None => Verdict::Flood,
                Some(entry) if entry.port == phv.ingress => Verdict::Drop(DropReason::SamePort),
                Some(entry) => Verdict::Port(entry.port),
            };
        }
    }

    /// As [`Self::decide`] for one packet, with both look-ups for the probe.
    pub fn trace(&mut self, phv: &mut Phv, now: u64, probe: &mut dyn Probe) {
        let (src, dst, vid) = (phv.headers.src, phv.headers.dst, phv.headers.vid());
        let macs = self.macs.load();
        let find = |mac: Mac| macs.table.get(MacKey::new(vid, mac).0).map(|entry| entry.port);
        let lookup = |key: &str, mac: Mac, action: &str| LookupTrace {
            table: "macs",
            key: format!("{key} {mac}, vlan {vid}"),
            entry: find(mac).map(|_| "a MAC entry".into()),
            port: find(mac),
            action: action.into(),
        };
        if is_kept_back(dst, self.link_local) {
            let entry = Some("01:80:c2:00:00:00 to 0f".into());
            let (key, action) = (format!("destination {dst}"), "drop, link_local".into());
            probe.lookup(LookupTrace { table: "bridge group", key, entry, port: None, action });
        } else {
            let noted = match find(src) {
                Some(port) if port == phv.ingress => "note when it was heard",
                _ if src.is_group() || src == Mac::default() => "none, it is nobody's address",
                Some(_) => "report that it has moved",
                None => "report it, to be learned",
            };
            probe.lookup(lookup("source", src, noted));
            let way = match find(dst) {
                None => "flood",
                Some(port) if port == phv.ingress => "drop, same_port",
                Some(_) => "to its port",
            };
            probe.lookup(lookup("destination", dst, way));
        }
        self.decide(std::slice::from_mut(phv), now);
    }

    /// Digests that found the queue full. Nothing is lost for good: the address's next frame is
    /// reported again.
    pub fn lost_digests(&self) -> u64 {
        self.reporter.lost
    }
}

/// Writes only when the second has changed, so that cores that hear the same MAC address do not
/// fight for the cache line.
#[inline(always)]
pub(super) fn touch(seen: &AtomicU32, now: u32) {
    if seen.load(Ordering::Relaxed) != now {
        seen.store(now, Ordering::Relaxed);
    }
}

/// 01-80-C2-00-00-00 to -0F, which no bridge forwards (IEEE 802.1Q, 8.6.3).
const BRIDGE_GROUP: u64 = 0x0180_c200_0000;
/// PAUSE and priority flow control: about one link, and never beyond it (IEEE 802.3, 31B).
const PAUSE: u64 = BRIDGE_GROUP + 1;

/// Whether frames to this address are dropped, when those to the bridge group are forwarded or not.
#[inline(always)]
fn is_kept_back(mac: Mac, link_local: bool) -> bool {
    let mac = mac.to_u64();
    mac & !0xf == BRIDGE_GROUP && (!link_local || mac == PAUSE)
}

/// Sends digests, each once per version of the table: an unknown MAC address's train of frames
/// would fill the queue before the control side has answered the first.
#[derive(Debug)]
struct Reporter {
    queue: Sender<Digest>,
    version: u64,
    /// Digests sent since `version` began, at slots that the addresses choose. A later one may
    /// push it out: it is sent again then.
    sent: Box<[Option<Digest>; Self::SLOTS]>,
    lost: u64,
    /// The queue was full in this burst: another try for each packet of a flood would only cost.
    full: bool,
}

impl Reporter {
    const SLOTS: usize = 256;

    fn new(queue: Sender<Digest>) -> Self {
        Self { queue, version: 0, sent: Box::new([None; Self::SLOTS]), lost: 0, full: false }
    }

    fn begin(&mut self, version: u64) {
        self.full = false;
        if self.version != version {
            self.version = version;
            self.sent.fill(None);
        }
    }

    #[cold]
    fn report(&mut self, digest: Digest) {
        let slot = (digest.key.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize;
        if self.sent[slot] == Some(digest) {
            return;
        }
        if self.full {
            self.lost += 1;
            return;
        }
        match self.queue.try_send(digest) {
            Ok(()) => self.sent[slot] = Some(digest),
            // Also when the control side has gone, as at the end of a run.
            Err(_) => {
                self.lost += 1;
                self.full = true;
            }
        }
    }
}
