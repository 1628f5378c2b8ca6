//! The partition of memory, T_l and the sample rate: from victims to memory for them.

use super::super::decoder::{Distribution, Expected};
use super::super::{EncoderParameters, Partition};
use super::seen::{Losses, Observation, rate};
use super::sizing::{AIM, FULL, FULL_SAMPLED, LIMIT, LOW, MARGIN, Sizing};
use super::{Attention, State, smallest};

/// Fewer victims than these tell nothing of others.
const ENOUGH: f64 = 16.0;
/// The least share of all memory that victims get when they are too many to count.
const CAUTIOUS: f64 = 0.9;
/// The factor by which memory exceeds what was foreseen, when nothing shows yet whether that was
/// right.
pub(super) const MORE: f64 = 1.5;

/// Packets that a victim loses, as far as it matters whether it loses any as a heavy one; and steps
/// in which their number is found.
const LOST: [f64; 2] = [0.25, 64.0];
const STEPS: u32 = 12;

/// The parameters but T_h.
pub(super) struct Plan {
    pub partition: Partition,
    /// T_l; `None` is as T_h.
    pub hl_threshold: Option<u32>,
    pub sample: u32,
}

/// What was true of victims when all of them were known.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The share of flows that are victims.
    share: f64,
    packets_a_victim: f64,
    sizes: Distribution,
}

impl Known {
    pub fn of(seen: &Observation<'_>) -> Option<Self> {
        let losses =
            seen.losses.as_ref().filter(|losses| losses.sure && losses.heavy.complete && losses.light.complete)?;
        let victims = losses.heavy.flows? + losses.light_only / rate(&seen.parameters);
        let packets = losses.heavy.packets as f64 + losses.light.packets as f64 / rate(&seen.parameters);
        let sizes = Distribution::sum(&[&losses.heavy_sizes, &losses.light_sizes]);
        let share = victims / seen.flows()?;
        (victims >= ENOUGH && packets > 0.0).then(|| Self { share, packets_a_victim: packets / victims, sizes })
    }

    /// The share of victims of at least this size.
    fn tail(&self, size: u32) -> f64 {
        self.sizes.tail(size) / self.sizes.flows().max(1.0)
    }
}

/// How many victims there may be.
struct Guess {
    min: f64,
    likely: f64,
    max: f64,
}

impl Plan {
    fn keep(latest: &EncoderParameters) -> Self {
        Self { partition: latest.partition, hl_threshold: Some(latest.hl_threshold), sample: latest.sample }
    }

    fn healthy(partition: Partition) -> Self {
        Self { partition, hl_threshold: Some(1), sample: EncoderParameters::ALL }
    }
}

/// A sample rate as a threshold.
fn sample(rate: f64) -> u32 {
    (rate * f64::from(EncoderParameters::ALL)).round().clamp(1.0, f64::from(EncoderParameters::ALL)) as u32
}

/// The share of victims of a size that lose any of `lost` packets, each at a random place, from the
/// one on that makes them heavy.
fn late(threshold: u32, size: u32, lost: f64) -> f64 {
    if size < threshold {
        return 0.0;
    }
    1.0 - (f64::from(threshold.max(1) - 1) / f64::from(size)).powf(lost)
}

/// Packets that a victim loses, as far as it matters for whether it loses any as a heavy one: a
/// victim that is smaller than T_l, and one that is larger.
#[derive(Clone, Copy)]
struct Lost {
    small: f64,
    large: f64,
}

impl Lost {
    /// The number by which heavy and light victims of at least this size are as many as were seen:
    /// a flow that loses one packet early is a light victim, however large it becomes.
    fn of(losses: &Losses, threshold: u32) -> Self {
        let (heavy, light) = (losses.heavy_sizes.tail(threshold), losses.light_sizes.tail(threshold));
        let sizes = || losses.heavy_sizes.0.iter().chain(&losses.light_sizes.0).filter(|(size, _)| *size >= threshold);
        let [mut min, mut max] = LOST.map(f64::log2);
        if light > 0.0 && heavy > 0.0 {
            for _ in 0..STEPS {
                let middle = f64::midpoint(min, max);
                let expected: f64 = sizes().map(|&(size, flows)| flows * late(threshold, size, middle.exp2())).sum();
                if expected < heavy { min = middle } else { max = middle }
            }
        }
        Self { small: max.exp2(), large: max.exp2() }
    }

    /// The most heavy losses: all of the size are.
    fn max(self) -> Self {
        Self { small: f64::INFINITY, large: self.large.max(1.0) }
    }
}

impl Attention {
    pub(super) fn plan(&mut self, seen: &Observation<'_>, latest: &EncoderParameters, why: &mut Vec<String>) -> Plan {
        match &seen.losses {
            None => {
                why.push("losses are unknown: their memory stays".into());
                Plan::keep(latest)
            }
            Some(losses) if State::of(&seen.parameters) == State::Healthy => {
                self.while_healthy(seen, losses, latest, why)
            }
            Some(losses) => self.while_ill(seen, losses, latest, why),
        }
    }

    /// §4.3.1, step 2.
    fn while_healthy(
        &mut self,
        seen: &Observation<'_>,
        losses: &Losses,
        latest: &EncoderParameters,
        why: &mut Vec<String>,
    ) -> Plan {
        let before = self.blind.take();
        if let (true, true, Some(victims)) = (losses.sure, losses.heavy.complete, losses.heavy.flows) {
            let well = self.sizing.flows(AIM / self.victims.span(), self.sizing.most_hl());
            if State::of(latest) == State::Ill && victims > well {
                why.push("the epoch before was ill with such traffic: it stays".into());
                return Plan::keep(latest);
            }
            if let Some(peak) = self.beyond(victims) {
                why.push(format!("{victims:.0} flows lost packets, up to {peak:.0} are expected: ill"));
                return self.ill(peak, Known::of(seen).as_ref(), latest);
            }
            return self.well(victims, false, seen, latest, why);
        }
        let Some(guess) = self.guess(seen, losses) else {
            why.push("heavy hitters were not decoded, so losses are unknown: their memory stays".into());
            return Plan::keep(latest);
        };
        let (mut victims, blind) = (guess.likely, guess.min < guess.max);
        // So few that all memory holds them, which failed by chance.
        let chance = !blind && seen.parameters.partition.hl == self.sizing.most_hl();
        let load = if losses.sure && !chance { AIM } else { FULL };
        let room = self.sizing.flows(load, self.sizing.most_hl());
        let doubtful = guess.min <= room && room < guess.max;
        if let Some(tried) = before.filter(|_| blind) {
            // The epoch before could not tell either. Its update may be wrong, which shows two
            // epochs after it: the alternative is chosen for the epoch after that.
            victims = match tried {
                State::Healthy if doubtful => guess.max,
                State::Healthy => (guess.likely * MORE).min(room).max(guess.likely),
                State::Ill => guess.likely,
            };
        }
        let fits = victims <= room && (blind || self.beyond(victims).is_none());
        let state = if fits { State::Healthy } else { State::Ill };
        self.blind = (blind && before.is_none()).then_some(state);
        if state == State::Healthy {
            let victims = if doubtful { victims.max(CAUTIOUS * room) } else { victims };
            return self.well(victims, losses.sure, seen, latest, why);
        }
        why.push(format!("about {victims:.0} flows lost packets, more than there is memory for: ill"));
        self.ill(victims, self.known.as_ref(), latest)
    }

    /// The ill state, where this number of flows with the sizes of the known ones lose packets.
    fn ill(&self, victims: f64, known: Option<&Known>, latest: &EncoderParameters) -> Plan {
        if State::of(latest) == State::Ill {
            return Plan::keep(latest);
        }
        let partition = self.sizing.ill();
        let room = self.sizing.flows(LOW, partition.hl);
        let foreseen = known.map(|known| smallest(2, |size| victims * known.tail(size) <= room));
        let rate = self.sizing.flows(AIM, partition.ll) / victims;
        Plan { partition, hl_threshold: foreseen, sample: sample(rate) }
    }

    /// The most victims that are expected where so many were seen, when all memory cannot decode
    /// them.
    fn beyond(&self, victims: f64) -> Option<f64> {
        let peak = victims * self.victims.reserve(victims);
        (peak > self.sizing.flows(LIMIT, self.sizing.most_hl())).then_some(peak)
    }

    /// The number of victims when decoding failed. `None` when nothing is known.
    fn guess(&self, seen: &Observation<'_>, losses: &Losses) -> Option<Guess> {
        // By linear counting on the delta encoder (§4.3.1).
        if let (true, Some(counted)) = (losses.sure, losses.heavy.flows) {
            return Some(Guess { min: counted, likely: counted, max: counted });
        }
        // Each lost a packet at the least.
        let limit = losses.heavy.packets.max(0) as f64;
        let room = self.sizing.flows(AIM, self.sizing.most_hl());
        // As many as would lose these packets, if each loses as many as before.
        let max = self.known.as_ref().map_or(limit, |known| limit / known.packets_a_victim);
        let max = max.min(seen.flows().unwrap_or(f64::INFINITY));
        // As large a share of the flows as before; and more than can be counted, when they could
        // not be.
        let min = if losses.sure {
            Sizing::uncountable(seen.parameters.partition.hl)
        } else {
            self.known.as_ref()?.share * seen.flows().unwrap_or(0.0)
        };
        // When they may fit, all memory is tried.
        let mut likely = if min <= room { max.min(room) } else { max };
        if losses.sure {
            likely = likely.max(CAUTIOUS * room);
        }
        let [min, likely, max] = [min, likely.max(min), max.max(min)].map(|victims| victims.min(limit));
        Some(Guess { min, likely, max })
    }

    /// The healthy state, with as much memory for heavy losses as this number of victims needs.
    fn well(
        &self,
        victims: f64,
        failed: bool,
        seen: &Observation<'_>,
        latest: &EncoderParameters,
        why: &mut Vec<String>,
    ) -> Plan {
        let measured = seen.parameters.partition.hl;
        let now = if State::of(latest) == State::Healthy { latest.partition.hl } else { measured };
        let reserved = victims * self.victims.reserve(victims);
        let load = self.sizing.load(reserved, now);
        let max = if failed && now == measured { AIM } else { FULL };
        let mut hl = if (LOW..=max).contains(&load) { now } else { self.sizing.required(reserved) };
        if failed {
            // Flows that share all their buckets are apart in an encoder of another length.
            hl = hl.max(measured.saturating_add(measured / 8)).min(self.sizing.most_hl());
            hl -= if hl == measured { measured / 64 } else { 0 };
        }
        let partition = self.sizing.healthy(hl);
        if partition != latest.partition {
            let (about, hl) = (if failed { "about " } else { "" }, partition.hl);
            why.push(format!("{about}{victims:.0} flows lost packets: {hl} buckets for them"));
        }
        Plan::healthy(partition)
    }

    /// §4.3.2, steps 1 to 3.
    fn while_ill(
        &self,
        seen: &Observation<'_>,
        losses: &Losses,
        latest: &EncoderParameters,
        why: &mut Vec<String>,
    ) -> Plan {
        let decoded = losses.sure && losses.heavy.complete;
        let light = losses.light_only / rate(&seen.parameters);
        let victims = losses.heavy.flows.map(|heavy| heavy + light);
        // Parameter updates from epochs of the two states meet here, and the healthy one stands
        // when it can.
        let well = if State::of(latest) == State::Healthy { LIMIT } else { AIM / self.victims.span() };
        if let (true, true, Some(victims)) = (decoded, losses.light.complete, victims)
            && victims <= self.sizing.flows(well, self.sizing.most_hl())
            && seen.parameters.sample > 0
        {
            return self.well(victims, false, seen, latest, why);
        }
        // An update that was made from an epoch of the healthy state, and comes too early.
        let base = if State::of(latest) == State::Ill { latest } else { &seen.parameters };
        let partition = self.sizing.ill();
        let lost = Lost::of(losses, seen.parameters.hl_threshold.max(1));
        let hl_threshold = self.hl_threshold(seen, (losses, lost), base, partition.hl, why);
        let share = self.sample(seen, (losses, lost), base, (partition.ll, hl_threshold), decoded);
        if share != base.sample {
            let percent = |sample: u32| 100.0 * f64::from(sample) / f64::from(EncoderParameters::ALL);
            let (from, to) = (percent(base.sample), percent(share));
            why.push(format!("{from:.2} % of light losses sampled, now {to:.2} %"));
        }
        Plan { partition, hl_threshold: Some(hl_threshold), sample: share }
    }

    /// The sample rate that fills `ll` buckets an array with light losses to [`AIM`] when T_l is
    /// `hl_threshold`. It is turned up only when all was decoded.
    fn sample(
        &self,
        seen: &Observation<'_>,
        (losses, lost): (&Losses, Lost),
        base: &EncoderParameters,
        (ll, hl_threshold): (u32, u32),
        heavy_decoded: bool,
    ) -> u32 {
        let measured = seen.parameters.sample.max(1);
        let failed = !losses.light.complete;
        let flows = losses.light.flows.unwrap_or_else(|| Sizing::uncountable(seen.parameters.partition.ll));
        // A higher T_l makes light losses of heavy ones. A lower one need not take any away: flows
        // begin small.
        let heavy = |threshold| self.heavy_at(seen, losses, lost, threshold).unwrap_or(0.0);
        let moved = (heavy(seen.parameters.hl_threshold) - heavy(hl_threshold)).max(0.0);
        let light = flows / rate(&seen.parameters);
        let reserve = self.victims.reserve(losses.heavy.flows.unwrap_or(0.0) + light);
        let light = reserve * (light + moved).max(1.0);
        let load = self.sizing.load(light * rate(base), ll);
        let unchanged = failed && base.sample >= measured;
        if failed && !unchanged {
            // An update was made from such an epoch before: the next one is on the safe side of it.
            return sample(self.sizing.flows(AIM / MORE, ll) / light).min(base.sample);
        }
        if !unchanged && ((LOW..=FULL_SAMPLED).contains(&load) || (load < LOW && !heavy_decoded)) {
            return base.sample;
        }
        let wanted = sample(self.sizing.flows(AIM, ll) / light);
        // One that failed below its load has flows that share all their buckets, and others are
        // sampled next time.
        if failed { wanted.min(measured) } else { wanted }
    }

    /// T_l, so that heavy losses fill their memory to [`AIM`].
    fn hl_threshold(
        &self,
        seen: &Observation<'_>,
        (losses, lost): (&Losses, Lost),
        base: &EncoderParameters,
        hl: u32,
        why: &mut Vec<String>,
    ) -> u32 {
        let (now, measured) = (base.hl_threshold.max(2), seen.parameters.hl_threshold.max(2));
        if self.heavy_at(seen, losses, lost, measured).is_none() {
            return now;
        }
        let failed = losses.sure && !losses.heavy.complete;
        let reserve = seen.victims().map_or(1.0, |victims| self.victims.reserve(victims));
        let at = |lost, threshold: u32| reserve * self.heavy_at(seen, losses, lost, threshold).unwrap_or(0.0);
        let expected = |threshold| at(lost, threshold);
        let load = self.sizing.load(expected(now), hl);
        if now > measured && failed && load <= FULL {
            // An update was made from such an epoch before: the next one is on the safe side of it.
            let room = self.sizing.flows(AIM / MORE, hl);
            return smallest(now, |threshold| expected(threshold) <= room).min(self.max);
        }
        if !failed && (load <= FULL && (load >= LOW || !losses.sure || !losses.light.complete)) {
            return now;
        }
        let lower = !failed && load < LOW;
        let min = if failed { measured.saturating_add(1) } else { 2 };
        let aim = if failed { LOW } else { AIM - if lower { MARGIN } else { 0.0 } };
        let room = self.sizing.flows(aim, hl);
        // It is turned down for what is certain, and up for what is likely: neither undoes the
        // other.
        let lost = if lower { lost.max() } else { lost };
        let found = smallest(min, |threshold| at(lost, threshold) <= room).min(self.max);
        let next = if lower { found.min(now) } else { found };
        if next != now {
            let load = load * 100.0;
            why.push(format!("T_l from {now} to {next}: heavy losses would fill {load:.0} % of {hl} buckets"));
        }
        next
    }

    /// The number of heavy losses at this T_l, if every victim of that size is one (§4.3.2, step
    /// 2): counted, or estimated, or foreseen. `None` when nothing is known.
    fn heavy_at(&self, seen: &Observation<'_>, losses: &Losses, lost: Lost, threshold: u32) -> Option<f64> {
        if !losses.sure {
            // As many of the victims are of that size as were, and at the least as many as the
            // counters say of all flows.
            let known = self.known.as_ref()?;
            let flows: f64 = seen.edges.iter().filter_map(|edge| (edge.expects)(threshold)).map(Expected::all).sum();
            return Some(known.share * flows.max(seen.flows()? * known.tail(threshold)));
        }
        let heavy = losses.heavy.flows.unwrap_or_else(|| Sizing::uncountable(seen.parameters.partition.hl));
        let measured = seen.parameters.hl_threshold.max(1);
        if losses.heavy.complete {
            // Victims of that size, in so far as they lose packets after they have become heavy.
            let stay = |sizes: &Distribution, by: u32, to: u32| {
                let share = |size| late(threshold, size, lost.small) / late(by, size, lost.small);
                let of_size = sizes.0.iter().filter(|(size, _)| (by.max(threshold)..=to).contains(size));
                of_size.map(|&(size, flows)| flows * share(size)).sum::<f64>()
            };
            if threshold >= measured {
                let all = losses.heavy_sizes.flows().max(1.0);
                return Some(heavy * stay(&losses.heavy_sizes, measured, u32::MAX) / all);
            }
            let large = losses.light_sizes.tail(measured) * late(threshold, measured - 1, lost.large);
            return Some(heavy + stay(&losses.light_sizes, 1, measured - 1) + large);
        }
        // The largest of what is known: as victims were, as all flows are, and as light losses of
        // that size are, if they are enough to tell. These lost packets before they were heavy, so
        // large ones are rare among them.
        let of = losses.light_sizes.tail(measured);
        let light = (of * rate(&seen.parameters) >= ENOUGH).then(|| losses.light_sizes.tail(threshold) / of);
        let known = self.known.as_ref().filter(|known| known.tail(measured) > 0.0);
        let known = known.map(|known| known.tail(threshold) / known.tail(measured));
        let flows = |size| seen.edges.iter().filter_map(|edge| (edge.expects)(size)).map(Expected::all).sum::<f64>();
        let all = Some(flows(measured)).filter(|of| *of > 0.0).map(|of| flows(threshold) / of);
        Some(heavy * [light, known, all].into_iter().flatten().reduce(f64::max).unwrap_or(0.0))
    }
}
