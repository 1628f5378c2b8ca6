//! Gaps: what is missing of an epoch, and whose it is.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Why an epoch's answers lack a switch, or its losses cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// No record came in time.
    Missing,
    /// It joined, or started again, during the epoch.
    Started,
    /// A core was late or stopped, or its clock was set back: its record lacks it, or a part of the
    /// epoch.
    Part,
    /// Its record runs from this epoch on over several, because its collector was behind.
    Spans { first_epoch: u64 },
    /// Its cores measured with different parameters.
    Mixed,
    /// It measured with other parameters than the update said.
    Parameters,
    /// Its sketches are of another length or of other hash functions.
    Foreign,
    /// What left before the transit time was over is unknown, because the record of the epoch
    /// before is. Only losses lack it.
    Before,
    /// Packets leave it by fabric ports, for switches that are not in this network. Only losses
    /// lack them.
    Elsewhere,
    /// So many of its packets left while it was not counted, later than the transit time or ahead
    /// of it, or were of a class that had no memory: they seem lost, and are not.
    Strays { packets: u64 },
    /// It closed the epoch later than the transit time allows, by this number of nanoseconds, because it stood
    /// still: packets may have waited meanwhile. Its next records say how many.
    StoodStill { nanos: u64 },
    /// Its record of this later epoch did not come. It would have counted packets that left late.
    Unconfirmed { epoch: u64 },
    /// So many packets left in an epoch far from their own: they may be of this one.
    Unplaced { packets: u64 },
    /// Its clock is off by `ahead` nanoseconds, ahead when above 0: what it counted in the epoch
    /// entered in another.
    Clock { ahead: i64 },
    /// It reported the epoch more than once, because its clock was set back: packets of all of its
    /// parts carry the same number.
    Repeated,
    /// So many packets went on to another switch without their class: they seem lost, and may not
    /// be.
    Unmarked { packets: u64 },
    /// Packets that became copies or fragments, of which some went on to another switch or could
    /// not be sent, and copies and fragments that a switch without the program made: their losses
    /// are not known.
    Unfollowed { packets: u64 },
    /// Reports about single packets that found no room. Only they are missing.
    Overflow { reports: u64 },
    /// Number of packets that were not kept because their flows had too many. A hash chose the
    /// packets that were kept, so numbers of such flows are of a share of their packets.
    LargeFlows { packets: u64 },
    /// So many reports about single packets were made with other parameters than the network's, and
    /// say nothing. Only they are missing.
    Unread { reports: u64 },
    /// Number of packets that are missing from a capture that is replayed, as it says.
    NotCaptured { packets: u64 },
    /// Number of packets whose IP header or ports are cut off or out of reach: they are in no flow,
    /// or in one without ports.
    Headers { packets: u64 },
}

impl Gap {
    /// Whether the switch's own flows are missing from the epoch, and not its losses alone.
    pub fn hides_flows(&self) -> bool {
        !matches!(
            self,
            Self::Before
                | Self::Elsewhere
                | Self::Strays { .. }
                | Self::StoodStill { .. }
                | Self::Unconfirmed { .. }
                | Self::Unplaced { .. }
                | Self::Clock { .. }
                | Self::Unmarked { .. }
                | Self::Unfollowed { .. }
                | Self::Overflow { .. }
                | Self::LargeFlows { .. }
                | Self::Unread { .. }
        )
    }

    /// The name of its kind, as in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Started => "started",
            Self::Part => "part",
            Self::Spans { .. } => "spans",
            Self::Mixed => "mixed",
            Self::Parameters => "parameters",
            Self::Foreign => "foreign",
            Self::Before => "before",
            Self::Elsewhere => "elsewhere",
            Self::Strays { .. } => "strays",
            Self::StoodStill { .. } => "stood_still",
            Self::Unconfirmed { .. } => "unconfirmed",
            Self::Unplaced { .. } => "unplaced",
            Self::Clock { .. } => "clock",
            Self::Repeated => "repeated",
            Self::Unmarked { .. } => "unmarked",
            Self::Unfollowed { .. } => "unfollowed",
            Self::Overflow { .. } => "overflow",
            Self::LargeFlows { .. } => "large_flows",
            Self::Unread { .. } => "unread",
            Self::NotCaptured { .. } => "not_captured",
            Self::Headers { .. } => "headers",
        }
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("no record came in time"),
            Self::Started => f.write_str("it started during the epoch"),
            Self::Part => f.write_str("its record is of a part of the epoch, or of some of its cores"),
            Self::Spans { .. } => f.write_str("its record covers earlier epochs as well"),
            Self::Mixed => f.write_str("its cores measured with different parameters"),
            Self::Parameters => f.write_str("it measured with other parameters than the update said"),
            Self::Foreign => f.write_str("its sketches have another length or other hash functions"),
            Self::Before => f.write_str("nothing is known of the epoch before"),
            Self::Elsewhere => {
                f.write_str("packets leave it by fabric ports, so only a controller can tell what is lost")
            }
            Self::Strays { packets } => write!(f, "{packets} packets left too late to be counted"),
            Self::StoodStill { nanos } => {
                write!(f, "it stood still for {:.0} ms more than packets may take", *nanos as f64 / 1e6)
            }
            Self::Unconfirmed { .. } => {
                f.write_str("a later record of it, which would count packets that left late, did not come")
            }
            Self::Unplaced { packets } => {
                write!(f, "{packets} packets left far from their epoch, which may be this one")
            }
            Self::Clock { ahead } => {
                let direction = if *ahead > 0 { "ahead" } else { "behind" };
                write!(f, "its clock is {:.2} s {direction}", ahead.unsigned_abs() as f64 / 1e9)
            }
            Self::Repeated => f.write_str("its clock was set back, and it measured the epoch again"),
            Self::Unmarked { packets } => {
                write!(f, "{packets} packets went on without a shim, for which there was no room")
            }
            Self::Overflow { reports } => write!(f, "{reports} reports about single packets found no room"),
            Self::LargeFlows { packets } => write!(f, "{packets} packets of large flows were not kept"),
            Self::Unread { reports } => {
                write!(f, "{reports} reports about single packets were made with other parameters")
            }
            Self::Headers { packets } => {
                write!(
                    f,
                    "{packets} packets have no IP header or no ports that could be read, and may be of other flows"
                )
            }
            Self::NotCaptured { packets } => write!(f, "{packets} packets are missing from the captures, as these say"),
            Self::Unfollowed { packets } => {
                write!(f, "{packets} packets became copies or fragments, which cannot be followed")
            }
        }
    }
}

/// A gap and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchGap {
    pub switch: Arc<str>,
    pub gap: Gap,
}

impl SwitchGap {
    /// Adds a gap of a switch to those of an epoch. Strays are counted together; what is there
    /// already is not there twice.
    pub fn add(gaps: &mut Vec<Self>, switch: &Arc<str>, gap: Gap) {
        for earlier in gaps.iter_mut().filter(|earlier| earlier.switch == *switch) {
            match (&mut earlier.gap, gap) {
                (Gap::Strays { packets }, Gap::Strays { packets: more })
                | (Gap::Unplaced { packets }, Gap::Unplaced { packets: more }) => {
                    *packets = packets.saturating_add(more);
                    return;
                }
                (Gap::Unread { reports }, Gap::Unread { reports: more }) => {
                    *reports = reports.saturating_add(more);
                    return;
                }
                (Gap::Clock { .. }, Gap::Clock { .. }) | (Gap::Unconfirmed { .. }, Gap::Unconfirmed { .. }) => return,
                (earlier, gap) if *earlier == gap => return,
                _ => {}
            }
        }
        gaps.push(Self { switch: switch.clone(), gap });
    }
}

impl fmt::Display for SwitchGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.switch, self.gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those with data are objects of one key in JSON.
    #[test]
    fn kinds_have_the_names_of_json() {
        let gaps = [
            Gap::Missing,
            Gap::Started,
            Gap::Part,
            Gap::Spans { first_epoch: 1 },
            Gap::Mixed,
            Gap::Parameters,
            Gap::Foreign,
            Gap::Before,
            Gap::Elsewhere,
            Gap::Strays { packets: 1 },
            Gap::StoodStill { nanos: 1 },
            Gap::Unconfirmed { epoch: 1 },
            Gap::Unplaced { packets: 1 },
            Gap::Clock { ahead: 1 },
            Gap::Repeated,
            Gap::Unmarked { packets: 1 },
            Gap::Unfollowed { packets: 1 },
            Gap::Overflow { reports: 1 },
            Gap::LargeFlows { packets: 1 },
            Gap::Unread { reports: 1 },
            Gap::NotCaptured { packets: 1 },
            Gap::Headers { packets: 1 },
        ];
        for gap in gaps {
            let json = serde_json::to_value(gap).unwrap();
            let key = json.as_object().and_then(|object| object.keys().next().cloned());
            assert_eq!(key.as_deref().or(json.as_str()), Some(gap.name()));
        }
    }
}
