//! Incast: many senders answer one receiver at the same time, as storage servers answer a client.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{FlowPlan, Shape, Templates};
use crate::signature::LEN;
use crate::words;

/// Most senders.
const SENDERS: u64 = 1 << 16;
/// Longest response, in bytes.
const LONGEST: u64 = 1 << 30;
/// The shortest frame without FCS.
const SHORTEST: u16 = 60;

/// Fan-in, response and interval, written `SENDERS,BYTES,INTERVAL` such as `32,64k,10ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incast {
    /// Fan-in: source addresses, of one flow each.
    pub senders: u32,
    /// Payload bytes of each sender's response.
    pub bytes: u64,
    /// Time from the start of a burst to the start of the next.
    pub interval: Duration,
}

impl FromStr for Incast {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: write senders, bytes of a response and interval, such as 32,64k,10ms");
        let [senders, bytes, interval] = text.split(',').collect::<Vec<_>>()[..] else { return Err(wrong()) };
        let (senders, bytes, interval) = (words::count(senders)?, words::count(bytes)?, words::time(interval)?);
        let range = Duration::from_micros(10)..=Duration::from_secs(60);
        if senders > SENDERS || bytes > LONGEST || !range.contains(&interval) {
            let limits = format!("at most {SENDERS} senders of {LONGEST} bytes each, every 10us to 60s");
            return Err(format!("{text:?}: {limits}"));
        }
        Ok(Self { senders: senders as u32, bytes, interval })
    }
}

/// An incast in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    pub incast: Incast,
    /// Frames of each response.
    pub frames: u64,
    /// Length of all but the last one, without FCS.
    length: u16,
    /// Length of the last one, without FCS.
    last: u16,
}

impl Response {
    /// The frames of each response, which are as long as the sizes of `shape` say. The last frame
    /// carries the rest of the payload, and a signature at least.
    ///
    /// # Errors
    /// If `shape` mixes sizes.
    pub fn new(incast: Incast, plan: &FlowPlan, shape: &Shape) -> Result<Self, String> {
        let size = shape.sizes.single().ok_or("--incast: frames of one --size, not of a mix")?;
        let (templates, fields) = Templates::new(&shape.headers).flows([(0, plan.tuple(0))]);
        let shortest = fields.iter().map(|flow| templates.shortest(flow)).max().unwrap_or_default();
        let (headers, length) = (shortest - LEN as u16, size.max(shortest));
        let payload = u64::from(length - headers);
        let frames = incast.bytes.div_ceil(payload);
        let rest = (incast.bytes - (frames - 1) * payload) as u16;
        let last = (headers + rest).max(shortest).max(SHORTEST);
        Ok(Self { incast, frames, length, last })
    }

    /// Length without FCS of a sender's frame with this number.
    #[inline(always)]
    pub fn length(&self, sequence: u64) -> u16 {
        if sequence % self.frames == self.frames - 1 { self.last } else { self.length }
    }

    /// Frames of all senders in a burst.
    pub fn burst(&self) -> u64 {
        u64::from(self.incast.senders) * self.frames
    }

    /// Mean length of a frame, with FCS.
    pub fn mean(&self) -> f64 {
        let others = (self.frames - 1) as f64 * f64::from(self.length);
        (others + f64::from(self.last)) / self.frames as f64 + f64::from(super::FCS)
    }
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Incast { senders, bytes, interval } = self.incast;
        let (every, frames) = (humantime::format_duration(interval), self.frames);
        write!(f, "incast of {senders} senders, {bytes} bytes in {frames} frames each, every {every}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::{Generated, Protocol, Source};
    use proptest::prelude::*;
    use weir::trace::{Tuple, Workload};
    use weir::wire::Tuple4;

    #[test]
    fn words_mean_what_they_say() {
        let incast = Incast { senders: 32, bytes: 64_000, interval: Duration::from_millis(10) };
        assert_eq!("32,64k,10ms".parse(), Ok(incast));
        for wrong in ["", "32", "32,64k", "0,1,1s", "70k,1,1s", "1,2G,1s", "1,1,1us", "1,1,2m", "1,1,1s,1"] {
            assert!(wrong.parse::<Incast>().is_err(), "{wrong}");
        }
    }

    proptest! {
        /// Of each burst every sender sends its response, one frame of each in turn, to one receiver.
        #[test]
        fn senders_answer_together(senders in 1u32..40, bytes in 1u64..20_000, size in 64u16..1519, tcp: bool, seed: u64) {
            let incast = Incast { senders, bytes, interval: Duration::from_millis(1) };
            let protocol = if tcp { Protocol::Tcp } else { Protocol::Udp };
            let plan = FlowPlan::incast(senders, Workload { seed, ..Workload::default() }, protocol);
            let shape = Shape { sizes: size.to_string().parse().unwrap(), ..Shape::default() };
            let response = Response::new(incast, &plan, &shape).unwrap();
            let shape = Shape { response: Some(response), packets: Some(2 * response.burst()), ..shape };
            let mut source = Generated::new(&plan, &shape, 0, 1);
            let headers = if tcp { 54 } else { 42 };
            let mut payloads = vec![0; senders as usize];
            let mut packets = 0;
            while let Some(pick) = source.pick() {
                prop_assert_eq!(source.flow(&pick), Some(packets % senders));
                payloads[(packets % senders) as usize] += u64::from(Generated::length(&pick)) - headers;
                packets += 1;
            }
            prop_assert_eq!(u64::from(packets), 2 * response.burst());
            // A last frame of less than a signature is filled up.
            let rest = bytes - (response.frames - 1) * (u64::from(size.max(headers as u16 + 22)) - 4 - headers);
            prop_assert!(payloads.iter().all(|sum| *sum == 2 * (bytes + 18u64.saturating_sub(rest))), "{:?}", payloads);
            let mean = payloads[0] as f64 / 2.0 / response.frames as f64 + headers as f64 + 4.0;
            prop_assert!((response.mean() - mean).abs() < 1e-9);
            let v4 = |n| match plan.tuple(n) { Tuple::V4(Tuple4(bits)) => bits, Tuple::V6(_) => unreachable!("IPv4") };
            for n in 0..senders {
                prop_assert_eq!(v4(n) as u64, v4(0) as u64, "ports");
                prop_assert_eq!(v4(n) >> 40 & 0xffff_ffff, v4(0) >> 40 & 0xffff_ffff, "receiver");
                prop_assert_eq!(v4(n) >> 72, (v4(0) >> 72) + u128::from(n), "sender");
            }
        }
    }

    #[test]
    fn sizes_are_not_mixed() {
        let plan = FlowPlan::incast(2, Workload::default(), Protocol::Udp);
        let shape = Shape { sizes: "imix".parse().unwrap(), ..Shape::default() };
        let incast = Incast { senders: 2, bytes: 100, interval: Duration::from_millis(1) };
        assert!(Response::new(incast, &plan, &shape).is_err());
    }
}
