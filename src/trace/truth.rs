//! What was really sent: exact packets and bytes of each flow, as CSV.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::net::IpAddr;

use thiserror::Error;

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

/// Why a file of exact counts could not be read.
#[derive(Debug, Error)]
pub enum TruthError {
    #[error("reading exact counts: {0}")]
    Io(#[from] io::Error),
    #[error("line 1: expected the header `{HEADER}`, found `{0}`")]
    Header(String),
    #[error("line {line}: {column} is `{value}`, expected {expected}")]
    Field { line: usize, column: &'static str, value: String, expected: &'static str },
    #[error("line {line}: {found} columns instead of 7")]
    Columns { line: usize, found: usize },
}

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

    pub fn read_csv(from: impl BufRead) -> Result<Self, TruthError> {
        let mut lines = from.lines();
        let header = lines.next().transpose()?.unwrap_or_default();
        if header.trim_end() != HEADER {
            return Err(TruthError::Header(header.chars().take(80).collect()));
        }
        let mut counts = Vec::new();
        for (n, line) in lines.enumerate() {
            let line = line?;
            if !line.trim().is_empty() {
                counts.push(row(n + 2, line.trim_end())?);
            }
        }
        Ok(Self::new(counts))
    }
}

fn row(line: usize, text: &str) -> Result<(Flow, u64, u64), TruthError> {
    let fields: Vec<&str> = text.split(',').collect();
    let [src, dst, sport, dport, proto, packets, bytes] = fields[..] else {
        return Err(TruthError::Columns { line, found: fields.len() });
    };
    let wrong = |column, value: &str, expected| TruthError::Field { line, column, value: value.to_owned(), expected };
    let address = |column, value: &str| match value {
        "" => Ok(None),
        _ => value.parse::<IpAddr>().map(Some).map_err(|_| wrong(column, value, "an address")),
    };
    let small = |column, value: &str, max: u16| match value {
        "" => Ok(None),
        _ => match value.parse::<u16>() {
            Ok(n) if n <= max => Ok(Some(n)),
            _ => Err(wrong(column, value, "a number in range")),
        },
    };
    let large = |column, value: &str| value.parse::<u64>().map_err(|_| wrong(column, value, "a whole number"));
    let flow = Flow {
        src: address("src", src)?,
        dst: address("dst", dst)?,
        sport: small("sport", sport, u16::MAX)?,
        dport: small("dport", dport, u16::MAX)?,
        proto: small("proto", proto, 255)?.map(|n| n as u8),
    };
    Ok((flow, large("packets", packets)?, large("bytes", bytes)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Workload;

    #[test]
    fn csv_goes_round() {
        let truth = Workload::parse("isp,flows=200,packets=4000,ipv6=0.4,len=imix").unwrap().generate().truth();
        let mut csv = Vec::new();
        truth.write_csv(&mut csv).unwrap();
        assert_eq!(Truth::read_csv(&csv[..]).unwrap(), truth);
    }

    #[test]
    fn fields_may_be_absent() {
        let csv = format!("{HEADER}\n10.0.0.1,,,,,3,180\n,::1,,,,4,240\n10.0.0.1,,,,,2,120\n");
        let truth = Truth::read_csv(csv.as_bytes()).unwrap();
        assert_eq!(truth.flows().iter().map(|f| f.packets).collect::<Vec<_>>(), [5, 4]);
    }

    #[test]
    fn errors_name_the_place() {
        let error = |csv: &str| Truth::read_csv(csv.as_bytes()).unwrap_err().to_string();
        assert!(error("a,b").contains("line 1"));
        assert_eq!(error(&format!("{HEADER}\n1,2")), "line 2: 2 columns instead of 7");
        let bad = format!("{HEADER}\n\n10.0.0.1,10.0.0.2,1,2,300,1,1");
        assert_eq!(error(&bad), "line 3: proto is `300`, expected a number in range");
    }
}
