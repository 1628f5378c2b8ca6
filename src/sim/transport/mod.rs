//! Hosts that answer: flows come in, their packets are acknowledged, and each sender keeps to the
//! window and the rate that congestion control gives it.
//!
//! The sender is HPCC's ([`hpcc`]). Its feedback is what a packet learns on its way: the values of
//! each hop (INT), which the simulated links write into packets with room for them, or the
//! utilisation of the busiest link, which a program of the switches writes into the digest
//! ([`Program::congestion_feedback`](crate::program::Program::congestion_feedback)). The last switch
//! takes the digest off; the host behind it learns what it held, as from a network card, and sends it
//! back with the acknowledgement.
//!
//! *Memory:* a connection for each flow that has not ended, and a result for each that has.
//!
//! *Deviations* from the hosts of HPCC's paper (RDMA over a network without losses):
//! - Links may lose packets. A receiver takes packets in their order and names the first that is
//!   missing; the sender goes back to it, at once or after a timeout (go-back-N).
//! - INT has the time at which a packet's transmission begins, but the queue that the packet finds as
//!   it comes. So has a program's utilisation.

mod connection;
mod hosts;
pub mod hpcc;
pub mod report;
mod segment;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::loss::{LossError, percent};
use crate::config::Length;
use crate::telemetry::epoch::Nanos;
use crate::text::share;

pub use hosts::{BESIDE, Hosts, Outgoing};
pub use report::{Completion, TransportReport};
pub use segment::{Kind, Segment};

/// What a sender learns of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedbackSource {
    /// The values of each hop, in the packet.
    Int,
    /// The utilisation of the busiest link, in the digest.
    Digest,
    /// Nothing: the window stays as it begins.
    None,
}

impl FeedbackSource {
    const ALL: [Self; 3] = [Self::Int, Self::Digest, Self::None];

    pub fn name(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Digest => "digest",
            Self::None => "none",
        }
    }
}

/// One `--transport` of the command line: how hosts send, and how much.
#[derive(Clone, Debug, PartialEq)]
pub struct Transport {
    pub feedback: FeedbackSource,
    /// The share of the hosts' links that the payload of all flows takes.
    pub load: f64,
    /// The utilisation that senders aim for, η.
    pub target: f64,
    /// Additive increase W_AI in bytes.
    pub increase: u32,
    /// Rounds of additive increase alone, maxStage.
    pub max_stage: u32,
    /// Base round-trip time T; by default that of the longest path without queues.
    pub rtt: Option<Nanos>,
    /// Payload of a full packet in bytes.
    pub payload: u32,
}

impl Default for Transport {
    fn default() -> Self {
        let feedback = FeedbackSource::Digest;
        Self { feedback, load: 0.5, target: 0.95, increase: 80, max_stage: 0, rtt: None, payload: 1000 }
    }
}

const NAME: &str = "hpcc";
const EXAMPLES: &str = "write hpcc, or hpcc,feedback=int,load=50%; feedback is int, digest or none, further keys are \
                        eta=0.95, max_stage=0, w_ai=80, rtt=13us, payload=1000";
const LOAD: &str = "a load is 1% to 100%";
const ETA: &str = "eta is 0.5 to 1";
const RTT: &str = "rtt is 1us to 1s";
const PAYLOAD: &str = "payload is 64 to 8900 bytes";
const NUMBERS: &str = "w_ai is 0 to 1000000 bytes, max_stage 0 to 1000";
const SECOND: Nanos = 1_000_000_000;

impl FromStr for Transport {
    type Err = LossError;

    fn from_str(text: &str) -> Result<Self, LossError> {
        let wrong = |right| LossError::new(text, right);
        let mut parts = text.split(',').map(str::trim);
        if parts.next() != Some(NAME) {
            return Err(wrong(EXAMPLES));
        }
        let mut transport = Self::default();
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(|| wrong(EXAMPLES))?;
            let value = value.trim();
            let number = |max: u32| value.parse().ok().filter(|number| *number <= max).ok_or_else(|| wrong(NUMBERS));
            match key.trim() {
                "feedback" => {
                    let mut all = FeedbackSource::ALL.into_iter();
                    transport.feedback = all.find(|source| source.name() == value).ok_or_else(|| wrong(EXAMPLES))?;
                }
                "load" => transport.load = share(value).filter(|load| *load >= 0.01).ok_or_else(|| wrong(LOAD))?,
                "eta" => transport.target = share(value).filter(|eta| *eta >= 0.5).ok_or_else(|| wrong(ETA))?,
                "w_ai" => transport.increase = number(1_000_000)?,
                "max_stage" => transport.max_stage = number(1000)?,
                "rtt" => {
                    let Length(rtt) = value.parse().map_err(|_| wrong(RTT))?;
                    let nanos = Nanos::try_from(rtt.as_nanos()).ok().filter(|rtt| (1000..=SECOND).contains(rtt));
                    transport.rtt = Some(nanos.ok_or_else(|| wrong(RTT))?);
                }
                "payload" => {
                    let bytes = value.parse().ok().filter(|bytes| (64..=8900).contains(bytes));
                    transport.payload = bytes.ok_or_else(|| wrong(PAYLOAD))?;
                }
                _ => return Err(wrong(EXAMPLES)),
            }
        }
        Ok(transport)
    }
}

impl fmt::Display for Transport {
    /// What is not the default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { feedback, load, target, increase, max_stage, rtt, payload } = self;
        let default = Self::default();
        write!(f, "{NAME},feedback={},load={}", feedback.name(), percent(*load))?;
        if *target != default.target {
            write!(f, ",eta={target}")?;
        }
        if *max_stage != default.max_stage {
            write!(f, ",max_stage={max_stage}")?;
        }
        if *increase != default.increase {
            write!(f, ",w_ai={increase}")?;
        }
        if let Some(rtt) = rtt {
            write!(f, ",rtt={}", humantime::format_duration(Duration::from_nanos(*rtt)).to_string().replace(' ', ""))?;
        }
        if *payload != default.payload {
            write!(f, ",payload={payload}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
