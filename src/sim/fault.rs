//! What goes wrong on purpose beside losses: switches that stand still, clocks that are wrong,
//! links that double or delay packets.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::loss::{LINK, LinkName, LossError, Named, RATE, percent};
use crate::config::Length;
use crate::telemetry::epoch::Nanos;
use crate::text;

/// One `--fault` of the command line.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// A switch does nothing for a while; what arrives meanwhile waits, and is taken afterwards.
    Pause { switch: SwitchName, at: Nanos, length: Nanos },
    /// From `at` on a switch's clock is ahead of the right time, or behind it.
    Clock { switch: SwitchName, at: Nanos, ahead: i64 },
    /// A link doubles a share of the packets.
    Double { link: LinkName, rate: f64 },
    /// A link delivers a share of the packets later, by up to `delay`: they are overtaken.
    Delay { link: LinkName, rate: f64, delay: Nanos },
}

/// A switch by its name in the topology.
pub type SwitchName = Named<String>;

impl SwitchName {
    pub fn is(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::One(this) => this == name,
        }
    }
}

const EXAMPLES: &str = "write pause=SWITCH,at=1s,for=100ms, clock=SWITCH,by=-200ms or clock=SWITCH,by=3s,at=1s, \
                        double=LINK,rate=1%, or delay=LINK,rate=1%,by=100ms; SWITCH is a name, LINK a number, or all";
/// Longest pause, delay and error of a clock.
const LONGEST: Duration = Duration::from_secs(3600);

impl FromStr for Fault {
    type Err = LossError;

    fn from_str(text: &str) -> Result<Self, LossError> {
        let wrong = |right| LossError::new(text, right);
        let mut parts = text.split(',').map(|part| part.split_once('='));
        let Some(Some((kind, whose))) = parts.next() else { return Err(wrong(EXAMPLES)) };
        let (mut at, mut length, mut by, mut rate) = (0, None, None, None);
        for part in parts {
            let (key, value) = part.ok_or_else(|| wrong(EXAMPLES))?;
            let time = |value: &str| time(value).ok_or_else(|| wrong("a time is written like 100ms, at most 1h"));
            match key.trim() {
                "at" => at = time(value)?,
                "for" => length = Some(time(value)?),
                "by" => {
                    let (sign, value) = value.trim().strip_prefix('-').map_or((1, value), |value| (-1, value));
                    by = Some(sign * time(value)? as i64);
                }
                "rate" => rate = Some(text::rate(value.trim()).ok_or_else(|| wrong(RATE))?),
                _ => return Err(wrong(EXAMPLES)),
            }
        }
        let switch = || whose.parse().map_err(|_| wrong(EXAMPLES));
        let link = || whose.parse().map_err(|_| wrong(LINK));
        match (kind.trim(), length, by, rate) {
            ("pause", Some(length), None, None) => Ok(Self::Pause { switch: switch()?, at, length }),
            ("clock", None, Some(ahead), None) => Ok(Self::Clock { switch: switch()?, at, ahead }),
            ("double", None, None, Some(rate)) => Ok(Self::Double { link: link()?, rate }),
            ("delay", None, Some(by @ 0..), Some(rate)) => {
                Ok(Self::Delay { link: link()?, rate, delay: by.unsigned_abs() })
            }
            _ => Err(wrong(EXAMPLES)),
        }
    }
}

fn time(text: &str) -> Option<Nanos> {
    let Length(length) = text.trim().parse().ok()?;
    (length <= LONGEST).then_some(length.as_nanos() as Nanos)
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |nanos: Nanos| humantime::format_duration(Duration::from_nanos(nanos)).to_string().replace(' ', "");
        let at = |at: Nanos| if at == 0 { String::new() } else { format!(",at={}", time(at)) };
        match self {
            Self::Pause { switch, at: from, length } => write!(f, "pause={switch}{},for={}", at(*from), time(*length)),
            Self::Clock { switch, at: from, ahead } => {
                let sign = if *ahead < 0 { "-" } else { "" };
                write!(f, "clock={switch},by={sign}{}{}", time(ahead.unsigned_abs()), at(*from))
            }
            Self::Double { link, rate } => write!(f, "double={link},rate={}", percent(*rate)),
            Self::Delay { link, rate, delay } => write!(f, "delay={link},rate={},by={}", percent(*rate), time(*delay)),
        }
    }
}

/// A switch's faults, by time.
#[derive(Clone, Debug, Default)]
pub struct SwitchFaults {
    /// Beginnings and ends.
    pauses: Vec<(Nanos, Nanos)>,
    /// From when on the clock is ahead by so much.
    clock: Vec<(Nanos, i64)>,
}

impl SwitchFaults {
    pub fn new(faults: &[Fault], name: &str) -> Self {
        let mut own = Self::default();
        for fault in faults {
            match fault {
                Fault::Pause { switch, at, length } if switch.is(name) => own.pauses.push((*at, at + length)),
                Fault::Clock { switch, at, ahead } if switch.is(name) => own.clock.push((*at, *ahead)),
                _ => {}
            }
        }
        own.clock.sort_unstable();
        own
    }

    /// Until when a worker stands still, if it does; `of` is how many the switch has. A pause holds
    /// up one of them or all, by the nanosecond in which it begins.
    pub fn paused(&self, now: Nanos, worker: usize, of: usize) -> Option<Nanos> {
        let is_his = |from: Nanos| of == 1 || [worker, of].contains(&((from % (of as Nanos + 1)) as usize));
        let ends = self.pauses.iter().filter(|(from, until)| (*from..*until).contains(&now) && is_his(*from));
        ends.map(|(_, until)| *until).max()
    }

    /// The time that its clock shows.
    pub fn clock(&self, now: Nanos, offset: Nanos) -> Nanos {
        let ahead = self.clock.iter().rev().find(|(from, _)| *from <= now).map_or(0, |(_, ahead)| *ahead);
        (now + offset).saturating_add_signed(ahead)
    }
}

/// How long after their time packets may still be on their way, and records come, because of
/// faults.
pub fn longest(faults: &[Fault]) -> Nanos {
    let (mut pauses, mut delay, mut clock) = (0, 0, 0);
    for fault in faults {
        match fault {
            Fault::Pause { length, .. } => pauses += length,
            Fault::Clock { ahead, .. } => clock = ahead.unsigned_abs().max(clock),
            Fault::Delay { delay: longest, .. } => delay = delay.max(*longest),
            Fault::Double { .. } => {}
        }
    }
    pauses + delay * 2 + clock
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_round() {
        for text in [
            "pause=edge0-0,at=1s,for=100ms",
            "pause=all,for=10ms",
            "clock=core0,by=-200ms",
            "clock=core0,by=3s,at=1m",
            "double=all,rate=1%",
            "delay=3,rate=0.5%,by=1s",
        ] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn errors_say_what_would_be_right() {
        for (text, right) in [
            ("", EXAMPLES),
            ("pause", EXAMPLES),
            ("pause=s1", EXAMPLES),
            ("pause=s1,for=2h", "a time is written like 100ms, at most 1h"),
            ("double=x,rate=1%", "a link is a number, or all"),
            ("double=1,rate=2", RATE),
            ("delay=1,rate=1%,by=-1s", EXAMPLES),
            ("clock=s1,by=1s,rate=1%", EXAMPLES),
        ] {
            assert_eq!(text.parse::<Fault>().unwrap_err().right, right, "{text}");
        }
    }

    #[test]
    fn pauses_and_clocks_by_time() {
        let faults: Vec<Fault> = ["pause=a,at=1s,for=1s", "clock=a,by=-1s,at=5s", "clock=all,by=2s"]
            .map(|text| text.parse().unwrap())
            .into();
        let own = SwitchFaults::new(&faults, "a");
        const SECOND: Nanos = 1_000_000_000;
        assert_eq!([0, 1, 2].map(|at| own.paused(at * SECOND, 0, 1)), [None, Some(2 * SECOND), None]);
        assert_eq!([0, 4, 5].map(|at| own.clock(at * SECOND, 7)), [2, 6, 4].map(|at| at * SECOND + 7));
        assert_eq!(SwitchFaults::new(&faults, "b").paused(SECOND, 0, 1), None);
        assert_eq!(longest(&faults), 3 * SECOND);
    }
}
