//! Random traffic that stays, changes and varies, and what is asked of a controller that measures
//! it.

use weir::program::chamelemon::EncoderParameters;
use weir::program::chamelemon::attention::State;
use weir::trace::SplitMix64;

/// Epochs before the first change, and between two.
const FIRST: usize = 12;
const PERIOD: usize = 10;
const CHANGES: usize = 4;
/// Epochs within which a change is to be absorbed.
const SOON: usize = 3;
/// The epochs at the end of a period in which its traffic has come to rest.
const REST: usize = 6;
/// Limits of what is drawn.
const FLOWS: [f64; 2] = [5e3, 100e3];
const SHARES: [f64; 2] = [0.005, 0.4];
const RATES: [f64; 2] = [0.002, 0.2];
const LONGEST: [u32; 6] = [10, 30, 100, 300, 1000, 5000];
const NOISE: f64 = 0.1;
/// An epoch of more packets is not drawn: longer flows are cut.
const MAX_PACKETS: f64 = 6e5;
const LAWS: [&str; 7] = ["dctcp", "keyvalue", "vl2", "hadoop", "cache", "isp-scaled", "zipf1.1"];

/// What enters in an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    pub flows: f64,
    /// Of the flows, those that lose packets, and of their packets those that are lost.
    pub share: f64,
    pub rate: f64,
}

/// One network's traffic over time.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub law: &'static str,
    pub order: &'static str,
    pub longest: u32,
    /// By so large a part flows and victims vary from epoch to epoch.
    pub noise: f64,
    pub periods: Vec<Load>,
    seed: u64,
}

impl Scenario {
    /// `mean` tells the packets of a flow, on average, of a law whose flows are cut.
    pub fn draw(seed: u64, mean: impl Fn(&'static str, u32) -> f64) -> Self {
        let mut rng = SplitMix64::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xa77e);
        let mut one_of = |n: usize| rng.below(n as u64) as usize;
        let (law, order) = (LAWS[one_of(LAWS.len())], ["uniform", "burst"][one_of(2)]);
        let mut cut = one_of(LONGEST.len());
        let noisy = one_of(2) == 1;
        let mut between = |[from, to]: [f64; 2]| from * (to / from).powf(rng.unit());
        let mut load = Load { flows: between(FLOWS), share: between(SHARES), rate: between(RATES) };
        let mut periods = vec![load];
        for _ in 0..CHANGES {
            let what = 1 + (between([1.0, 8.0]).floor() as u32 - 1).min(6);
            let mut change = |bit: u32, value: f64, by: f64, [from, to]: [f64; 2]| {
                let factor = between([1.0 / by, by]);
                if what & bit != 0 { (value * factor).clamp(from, to) } else { value }
            };
            load.flows = change(1, load.flows, 4.0, FLOWS);
            load.share = change(2, load.share, 4.0, SHARES);
            load.rate = change(4, load.rate, 10.0, RATES);
            periods.push(load);
        }
        let noise = if noisy { NOISE * rng.unit() } else { 0.0 };
        let max = periods.iter().map(|load| load.flows).fold(0.0, f64::max);
        while cut > 0 && max * mean(law, LONGEST[cut]) > MAX_PACKETS {
            cut -= 1;
        }
        Self { law, order, longest: LONGEST[cut], noise, periods, seed }
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The traffic of each epoch, by period.
    fn epochs(&self) -> Vec<Vec<Load>> {
        let mut rng = SplitMix64::new(self.seed ^ 0x5eed);
        let mut varied = |value: f64| value * (1.0 + self.noise * (2.0 * rng.unit() - 1.0));
        let mut period = |(number, load): (usize, &Load)| {
            let length = if number == 0 { FIRST } else { PERIOD };
            (0..length).map(|_| Load { flows: varied(load.flows), share: varied(load.share), ..*load }).collect()
        };
        self.periods.iter().enumerate().map(&mut period).collect()
    }

    /// Lets it pass through a network, and judges what was shown.
    pub fn run<E>(&self, mut network: impl FnMut(&Load) -> Result<Shown, E>) -> Result<Outcome, E> {
        let mut outcome = Outcome::default();
        for (number, loads) in self.epochs().iter().enumerate() {
            let period = loads.iter().map(&mut network).collect::<Result<Vec<_>, E>>()?;
            outcome.judge(&period, number > 0, self.noise > 0.0);
        }
        Ok(outcome)
    }
}

/// What an epoch showed.
#[derive(Clone, Debug)]
pub struct Shown {
    pub parameters: EncoderParameters,
    /// Whether all candidates and all losses that have memory were decoded.
    pub decoded: bool,
    /// Whether all true victims would have room in the memory for losses, at the load that is aimed
    /// at.
    pub fits: bool,
    /// How full the memory of heavy hitters was at the switch with most of them.
    pub load: Option<f64>,
}

impl Shown {
    fn state(&self) -> State {
        State::of(&self.parameters)
    }

    fn parameters(&self) -> [u32; 4] {
        let EncoderParameters { partition, hh_threshold, hl_threshold, .. } = self.parameters;
        [partition.hl, partition.ll, hh_threshold, hl_threshold]
    }
}

/// Whether the first of these epochs shows all, and so do those after it until the state changes
/// or, where it does not change any more, whatever they show: a single failure later on is one of
/// the steady epochs.
fn shows(epochs: &[Shown]) -> bool {
    let Some(first) = epochs.first().filter(|first| first.decoded) else { return false };
    let held = epochs.iter().take_while(|shown| shown.state() == first.state()).count();
    held == epochs.len() || epochs[..held].iter().all(|shown| shown.decoded)
}

/// How often the state changes.
fn flips(epochs: &[Shown]) -> usize {
    epochs.windows(2).filter(|pair| pair[0].state() != pair[1].state()).count()
}

/// What came of one scenario, or of several.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Of each change, the first epoch that shows all, in a state in which every epoch shows all
    /// until the next state begins; the same in the state at the end of the period; and the first
    /// epoch from which on all show all in that state.
    pub absorbed: Vec<usize>,
    pub lasting: Vec<usize>,
    pub settled: Vec<usize>,
    /// Epochs from [`SOON`] after a change on, and those of them in which something was not
    /// decoded.
    pub steady: usize,
    pub failed: usize,
    pub periods: usize,
    /// Periods at whose end parameters that had been left came back, or still moved without noise.
    pub oscillating: usize,
    pub moving: usize,
    /// Periods that end in the ill state though every epoch of their end would fit.
    pub ill: usize,
    /// Periods whose end changes the state.
    pub flipping: usize,
    /// Changes of the state from [`SOON`] after a change of the traffic on.
    pub later: usize,
    /// Loads at the end of periods in which not every flow is a candidate.
    pub loads: Vec<f64>,
}

impl Outcome {
    fn judge(&mut self, period: &[Shown], changed: bool, noisy: bool) {
        let Some(last) = period.last() else { return };
        let right = |shown: &Shown| shown.decoded && shown.state() == last.state();
        let tail = &period[period.len() - REST..];
        if changed {
            self.absorbed.push((0..period.len()).find(|&epoch| shows(&period[epoch..])).unwrap_or(period.len()));
            self.lasting.push(period.iter().position(right).unwrap_or(period.len()));
            // A failure long after the change is one of the steady epochs.
            let early = &period[..period.len() - REST + SOON];
            self.settled.push(early.iter().rposition(|shown| !right(shown)).map_or(0, |last| last + 1));
        }
        let steady = &period[if changed { SOON } else { period.len() - REST }..];
        self.later += flips(steady);
        self.steady += steady.len();
        self.failed += steady.iter().filter(|shown| !shown.decoded).count();
        self.periods += 1;
        let mut held: Vec<_> = tail.iter().map(Shown::parameters).collect();
        held.dedup();
        self.oscillating += usize::from((1..held.len()).any(|i| held[..i].contains(&held[i])));
        self.moving += usize::from(!noisy && held.len() > 1);
        self.flipping += usize::from(flips(tail) > 0);
        self.ill += usize::from(last.state() == State::Ill && period.iter().all(|shown| shown.fits));
        self.loads.extend(last.load.filter(|_| last.parameters.hh_threshold > 1));
    }

    pub fn add(&mut self, other: &Self) {
        self.absorbed.extend(&other.absorbed);
        self.lasting.extend(&other.lasting);
        self.settled.extend(&other.settled);
        self.loads.extend(&other.loads);
        let sums = [
            (&mut self.steady, other.steady),
            (&mut self.failed, other.failed),
            (&mut self.periods, other.periods),
            (&mut self.oscillating, other.oscillating),
            (&mut self.moving, other.moving),
            (&mut self.flipping, other.flipping),
            (&mut self.later, other.later),
            (&mut self.ill, other.ill),
        ];
        sums.into_iter().for_each(|(sum, more)| *sum += more);
    }

    /// Whether nothing went wrong.
    pub fn is_right(&self) -> bool {
        self.late() + self.failed + self.oscillating + self.flipping + self.ill == 0
    }

    /// Changes that took longer than [`SOON`].
    pub fn late(&self) -> usize {
        self.absorbed.iter().filter(|epochs| **epochs > SOON).count()
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let histogram = |epochs: &[usize]| {
            let count = |n: usize| epochs.iter().filter(|&&e| e == n || (n == PERIOD && e > n)).count();
            (0..=PERIOD).map(|n| count(n).to_string()).collect::<Vec<_>>().join(" ")
        };
        let percent = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
        writeln!(
            f,
            "{} changes; absorbed after 0, 1, 2, … epochs: {}",
            self.absorbed.len(),
            histogram(&self.absorbed)
        )?;
        writeln!(f, "    in the state at the end of the period: {}", histogram(&self.lasting))?;
        writeln!(f, "    and undisturbed from there on: {}", histogram(&self.settled))?;
        writeln!(f, "    later than {SOON}: {} ({:.1} %)", self.late(), percent(self.late(), self.absorbed.len()))?;
        let Self { steady, failed, periods, .. } = *self;
        writeln!(f, "{steady} steady epochs, {failed} not decoded ({:.2} %)", percent(failed, steady))?;
        writeln!(f, "    {} changes of the state among them", self.later)?;
        let (oscillating, flipping, moving, ill) = (self.oscillating, self.flipping, self.moving, self.ill);
        writeln!(
            f,
            "{periods} periods: {oscillating} with parameters that come back, {flipping} with a state that changes, {moving} without noise that move, {ill} ill though all fits"
        )?;
        let mut loads = self.loads.clone();
        loads.sort_by(f64::total_cmp);
        let at = |share: f64| 100.0 * loads.get((share * loads.len() as f64) as usize).copied().unwrap_or(0.0);
        write!(
            f,
            "load of heavy hitters' memory: median {:.0} %, a tenth below {:.0} %, a tenth above {:.0} %",
            at(0.5),
            at(0.1),
            at(0.9)
        )
    }
}
