//! stub
use crate::pisa::{DropReason, Phv, PortId, Verdict};
pub enum Forward { Xconnect(Vec<Verdict>), Flood }
impl Forward {
    pub fn xconnect(ports: usize, pairs: &[(PortId, PortId)]) -> Self {
        let mut v = vec![Verdict::Drop(DropReason::NoRoute); ports];
        for &(a, b) in pairs { v[a as usize] = Verdict::Port(b); v[b as usize] = Verdict::Port(a); }
        Self::Xconnect(v)
    }
    pub fn fixed(&self, ingress: PortId) -> Option<Verdict> { match self { Self::Xconnect(v) => v.get(usize::from(ingress)).copied(), Self::Flood => None } }
    pub fn decide(&mut self, phvs: &mut [Phv], _now: u64) {
        for phv in phvs { phv.verdict = self.fixed(phv.ingress).unwrap_or(Verdict::Flood) }
    }
}
