//! What is lost on purpose: packets of chosen flows, and packets on chosen links.

use std::fmt;
use std::str::FromStr;

use super::fault::SwitchName;
use crate::text::{self, share};

/// One `--loss` of the command line.
#[derive(Clone, Debug, PartialEq)]
pub enum Loss {
    /// Some flows of each epoch lose packets on the links between switches.
    Flows(Victims),
    /// A link loses packets of all flows.
    Link { link: LinkName, rate: f64 },
    /// A switch loses packets of all flows, behind the ingress stages of its programs.
    Switch { switch: SwitchName, rate: f64 },
}

/// Flows that lose packets. They are drawn among those whose way leads over a link between
/// switches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Victims {
    pub flows: Flows,
    /// Of a victim's packets, the share that is lost: rounded to whole packets, and at least one.
    pub rate: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Flows {
    Number(u32),
    /// Of all flows of an epoch.
    Share(f64),
}

/// One of several by its name, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<T> {
    All,
    One(T),
}

/// A link by its number in the topology.
pub type LinkName = Named<u32>;

impl<T: fmt::Display> fmt::Display for Named<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::One(name) => name.fmt(f),
        }
    }
}

impl<T: FromStr> FromStr for Named<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        match text.trim() {
            "all" => Ok(Self::All),
            name => name.parse().map(Self::One),
        }
    }
}

impl Victims {
    /// How many of `flows` flows are victims.
    pub fn number(&self, flows: usize) -> usize {
        match self.flows {
            Flows::Number(number) => number as usize,
            Flows::Share(share) => (share * flows as f64).round() as usize,
        }
    }

    /// How many of a victim's packets are lost.
    pub fn packets(&self, size: u32) -> u32 {
        ((self.rate * f64::from(size)).round() as u32).clamp(1, size.max(1))
    }
}

/// What is wrong with the text of a loss or fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?}: {right}")]
pub struct LossError {
    text: String,
    pub right: &'static str,
}

impl LossError {
    pub(super) fn new(text: &str, right: &'static str) -> Self {
        Self { text: text.chars().take(80).collect(), right }
    }
}

pub(super) const RATE: &str = "a rate is 0% to 100%, as 1% or 0.01; write 100% for all";
pub(super) const LINK: &str = "a link is a number, or all";

const EXAMPLES: &str =
    "write flows=1000,rate=1% or flows=10%,rate=1%, link=all,rate=0.1% or link=3,rate=0.1%, or switch=core0,rate=1%";

impl FromStr for Loss {
    type Err = LossError;

    fn from_str(text: &str) -> Result<Self, LossError> {
        let wrong = |right| LossError::new(text, right);
        let (mut flows, mut link, mut switch, mut rate) = (None, None, None, None);
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(|| wrong(EXAMPLES))?;
            let value = value.trim();
            match key.trim() {
                "flows" if value.ends_with('%') => {
                    flows = Some(Flows::Share(share(value).ok_or_else(|| wrong("flows are 0% to 100%"))?));
                }
                "flows" => {
                    let number = value.replace('_', "").parse();
                    flows =
                        Some(Flows::Number(number.map_err(|_| wrong("flows are a number, or a share such as 10%"))?));
                }
                "link" => link = Some(value.parse().map_err(|_| wrong(LINK))?),
                "switch" => switch = Some(value.parse().map_err(|_| wrong(EXAMPLES))?),
                "rate" => rate = Some(text::rate(value).ok_or_else(|| wrong(RATE))?),
                _ => return Err(wrong(EXAMPLES)),
            }
        }
        match (flows, link, switch, rate) {
            (Some(flows), None, None, Some(rate)) => Ok(Self::Flows(Victims { flows, rate })),
            (None, Some(link), None, Some(rate)) => Ok(Self::Link { link, rate }),
            (None, None, Some(switch), Some(rate)) => Ok(Self::Switch { switch, rate }),
            _ => Err(wrong(EXAMPLES)),
        }
    }
}

/// 0.01 as 1%.
pub fn percent(share: f64) -> String {
    format!("{}%", (share * 1e8).round() / 1e6)
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flows(Victims { flows: Flows::Number(number), rate }) => {
                write!(f, "flows={number},rate={}", percent(*rate))
            }
            Self::Flows(Victims { flows: Flows::Share(share), rate }) => {
                write!(f, "flows={},rate={}", percent(*share), percent(*rate))
            }
            Self::Link { link, rate } => write!(f, "link={link},rate={}", percent(*rate)),
            Self::Switch { switch, rate } => write!(f, "switch={switch},rate={}", percent(*rate)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_round() {
        for text in [
            "flows=1000,rate=1%",
            "flows=2.5%,rate=0.01%",
            "link=all,rate=100%",
            "link=3,rate=0.1%",
            "switch=core0,rate=1%",
        ] {
            assert_eq!(text.parse::<Loss>().unwrap().to_string(), text);
        }
        let spaced = "flows = 1_000, rate = 0.5".parse::<Loss>().unwrap();
        assert_eq!(spaced, Loss::Flows(Victims { flows: Flows::Number(1000), rate: 0.5 }));
    }

    #[test]
    fn errors_say_what_would_be_right() {
        let wrong = [
            "",
            "flows=3",
            "flows=x,rate=1%",
            "flows=101%,rate=1%",
            "flows=1,rate=2",
            "link=all,rate=1",
            "link=a,rate=1%",
            "loss=1%",
        ];
        let errors = wrong.map(|text| text.parse::<Loss>().unwrap_err().to_string());
        insta::assert_snapshot!(errors.join("\n"), @r#"
        "": write flows=1000,rate=1% or flows=10%,rate=1%, link=all,rate=0.1% or link=3,rate=0.1%, or switch=core0,rate=1%
        "flows=3": write flows=1000,rate=1% or flows=10%,rate=1%, link=all,rate=0.1% or link=3,rate=0.1%, or switch=core0,rate=1%
        "flows=x,rate=1%": flows are a number, or a share such as 10%
        "flows=101%,rate=1%": flows are 0% to 100%
        "flows=1,rate=2": a rate is 0% to 100%, as 1% or 0.01; write 100% for all
        "link=all,rate=1": a rate is 0% to 100%, as 1% or 0.01; write 100% for all
        "link=a,rate=1%": a link is a number, or all
        "loss=1%": write flows=1000,rate=1% or flows=10%,rate=1%, link=all,rate=0.1% or link=3,rate=0.1%, or switch=core0,rate=1%
        "#);
    }

    #[test]
    fn a_victim_loses_at_least_one_packet_and_no_more_than_it_has() {
        let victims = Victims { flows: Flows::Share(0.1), rate: 0.01 };
        assert_eq!(victims.number(1004), 100);
        assert_eq!([1, 49, 151, 1000].map(|size| victims.packets(size)), [1, 1, 2, 10]);
        assert_eq!(Victims { rate: 1.0, ..victims }.packets(7), 7);
    }
}
