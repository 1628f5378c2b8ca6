//! Exact packets and bytes of each flow that was sent, as CSV.

use std::collections::HashMap;
use std::io::{self, Write};

use crate::wire::Flow;

/// One flow's exact counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowTruth {
    pub flow: Flow,
    pub packets: u64,
    /// Bytes from the destination MAC on, without FCS.
    pub bytes: u64,
}

/// The exact counts of a trace, the flow with most packets first; equal ones in the order of their
/// keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth(Vec<FlowTruth>);

const HEADER: &str = "src,dst,sport,dport,proto,packets,bytes";

impl Truth {
    /// From (flow, packets, bytes); a flow that comes more than once is summed.
    pub fn new(counts: impl IntoIterator<Item = (Flow, u64, u64)>) -> Self {
        let mut flows: HashMap<Flow, (u64, u64)> = HashMap::new();
        for (flow, packets, bytes) in counts {
            let sum = flows.entry(flow).or_default();
            *sum = (sum.0.saturating_add(packets), sum.1.saturating_add(bytes));
        }
        let mut all: Vec<FlowTruth> =
            flows.into_iter().map(|(flow, (packets, bytes))| FlowTruth { flow, packets, bytes }).collect();
        all.sort_unstable_by(|a, b| b.packets.cmp(&a.packets).then(a.flow.cmp(&b.flow)));
        Self(all)
    }

    pub fn flows(&self) -> &[FlowTruth] {
        &self.0
    }

    pub fn packets(&self) -> u64 {
        self.0.iter().map(|f| f.packets).fold(0, u64::saturating_add)
    }

    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|f| f.bytes).fold(0, u64::saturating_add)
    }

    /// Writes CSV with a header line. Fields that a flow does not have are empty.
    pub fn write_csv(&self, mut to: impl Write) -> io::Result<()> {
        fn text<T: ToString>(field: Option<T>) -> String {
            field.map_or_else(String::new, |f| f.to_string())
        }
        writeln!(to, "{HEADER}")?;
        for FlowTruth { flow, packets, bytes } in &self.0 {
            let (src, dst) = (text(flow.src), text(flow.dst));
            let (sport, dport, proto) = (text(flow.sport), text(flow.dport), text(flow.proto));
            writeln!(to, "{src},{dst},{sport},{dport},{proto},{packets},{bytes}")?;
        }
        to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flow_has_a_line() {
        let flow = |proto, src: Option<&str>| Flow { src: src.map(|ip| ip.parse().unwrap()), proto, ..Flow::default() };
        let counts = [(flow(Some(6), Some("10.0.0.1")), 3, 180), (flow(None, Some("::1")), 4, 240)];
        let mut csv = Vec::new();
        Truth::new(counts.into_iter().chain([counts[0]])).write_csv(&mut csv).unwrap();
        assert_eq!(String::from_utf8(csv).unwrap(), format!("{HEADER}\n10.0.0.1,,,,6,6,360\n::1,,,,,4,240\n"));
    }
}
