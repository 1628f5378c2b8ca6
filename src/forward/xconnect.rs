//! Port pairs: what comes in at one port of a pair goes out at the other.

use crate::pisa::{DropReason, LookupTrace, Phv, PortId, Probe, Verdict};

/// The verdict for each ingress port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xconnect(Box<[Verdict]>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum XconnectError {
    #[error("port {0} is paired with itself")]
    Loop(PortId),
    #[error("port {0} is in two pairs")]
    Twice(PortId),
}

const NO_PAIR: Verdict = Verdict::Drop(DropReason::NoRoute);

impl Xconnect {
    pub fn new(pairs: &[(PortId, PortId)]) -> Result<Self, XconnectError> {
        let ports = pairs.iter().map(|(a, b)| usize::from(*a.max(b)) + 1).max().unwrap_or(0);
        let mut verdicts = vec![NO_PAIR; ports];
        for &(a, b) in pairs {
            if a == b {
                return Err(XconnectError::Loop(a));
            }
            for (from, to) in [(a, b), (b, a)] {
                let verdict = &mut verdicts[usize::from(from)];
                if *verdict != NO_PAIR {
                    return Err(XconnectError::Twice(from));
                }
                *verdict = Verdict::Port(to);
            }
        }
        Ok(Self(verdicts.into()))
    }

    #[inline]
    pub fn verdict(&self, ingress: PortId) -> Verdict {
        self.0.get(usize::from(ingress)).copied().unwrap_or(NO_PAIR)
    }

    #[inline]
    pub fn decide(&self, phvs: &mut [Phv]) {
        for phv in phvs {
            phv.verdict = self.verdict(phv.ingress);
        }
    }

    /// As [`Self::decide`] for one packet, with its look-up for the probe.
    pub fn trace(&self, phv: &mut Phv, probe: &mut dyn Probe) {
        self.decide(std::slice::from_mut(phv));
        let port = match phv.verdict {
            Verdict::Port(port) => Some(port),
            _ => None,
        };
        probe.lookup(LookupTrace {
            table: "xconnect",
            key: "ingress port".into(),
            entry: port.map(|_| "paired".into()),
            port,
            action: if port.is_some() { "to its pair" } else { "drop, no_route" }.into(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_forward_both_ways_and_the_rest_has_no_route() {
        let xconnect = Xconnect::new(&[(0, 1), (4, 2)]).unwrap();
        let mut phvs: Vec<Phv> = (0..7).map(|ingress| Phv { ingress, ..Phv::default() }).collect();
        xconnect.decide(&mut phvs);
        let verdicts: Vec<Verdict> = phvs.iter().map(|phv| phv.verdict).collect();
        let to = Verdict::Port;
        assert_eq!(verdicts, [to(1), to(0), to(4), NO_PAIR, to(2), NO_PAIR, NO_PAIR]);
    }

    #[test]
    fn contradictions_are_refused() {
        assert_eq!(Xconnect::new(&[(3, 3)]), Err(XconnectError::Loop(3)));
        assert_eq!(Xconnect::new(&[(0, 1), (2, 1)]), Err(XconnectError::Twice(1)));
        assert_eq!(Xconnect::new(&[(0, 1), (1, 0)]), Err(XconnectError::Twice(1)));
        assert!(Xconnect::new(&[]).is_ok());
    }
}
