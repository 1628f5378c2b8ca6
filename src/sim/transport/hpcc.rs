//! The sender of HPCC (Li et al.: "HPCC: High Precision Congestion Control", SIGCOMM 2019,
//! Algorithm 1), on the values of each hop (INT), or on the utilisation of the busiest link alone,
//! which switches have averaged themselves and fits a digest.
//!
//! *Deviation:* a hop whose time has not passed since the last acknowledgement is left out. It has
//! no rate.

/// Time in picoseconds: a byte takes 80 on a link of 100 Gbit/s, 20 on one of 400.
pub type Picos = u64;

/// Parameters of a sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// The utilisation that it aims for, η.
    pub target: f64,
    /// Additive increase W_AI in bytes.
    pub increase: f64,
    /// Rounds of additive increase alone before it follows the utilisation upwards.
    pub max_stage: u32,
    /// Base round-trip time T.
    pub rtt: Picos,
    /// The largest window in bytes: what the host's link sends in T.
    pub max_window: f64,
    /// The smallest window in bytes. One packet may be under way even so.
    pub min_window: f64,
}

impl Parameters {
    /// HPCC's own for links of 100 Gbit/s (§5.1), with a window that begins as what a link that
    /// takes `byte` for a byte sends in `rtt`, and with no round of additive increase alone. The
    /// smallest rate is that of HPCC's simulation, a thousandth of the link's.
    pub fn new(byte: Picos, rtt: Picos) -> Self {
        let max_window = rtt as f64 / byte as f64;
        Self { target: 0.95, increase: 80.0, max_stage: 0, rtt, max_window, min_window: max_window / 1000.0 }
    }
}

/// Values of one hop in a packet with INT, at the time when the packet's transmission begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hop {
    pub at: Picos,
    /// Bytes that the port has sent.
    pub sent: u64,
    /// Bytes that wait in the port's queue.
    pub queue: u32,
    /// Picoseconds that a byte takes on the link.
    pub byte: Picos,
}

/// The measurement that an acknowledgement carries back to the sender.
pub enum Feedback<'a> {
    Int(&'a [Hop]),
    /// The utilisation of the path's busiest link; 1 is a full one.
    Utilisation(f64),
}

/// The window of one flow.
#[derive(Clone, Debug)]
pub struct Sender {
    /// Bytes that may be under way, W.
    window: f64,
    /// The window of a round-trip time ago, from which the next one is computed: W_c.
    reference: f64,
    stage: u32,
    /// Acknowledgements of bytes beyond this one see what the last change of `reference` did.
    last_update: u64,
    /// INT: the average of the utilisation, and the last values of each hop, none before the first.
    utilisation: f64,
    hops: Vec<Hop>,
}

impl Sender {
    /// A flow begins at the rate of its host's link.
    pub fn new(parameters: &Parameters) -> Self {
        Self {
            window: parameters.max_window,
            reference: parameters.max_window,
            stage: 0,
            last_update: 0,
            utilisation: 1.0,
            hops: Vec::new(),
        }
    }

    pub fn window(&self) -> f64 {
        self.window
    }

    /// The time between the beginnings of a packet of `bytes` and of the next: the rate is W / T.
    pub fn gap(&self, parameters: &Parameters, bytes: u32) -> Picos {
        (f64::from(bytes) * parameters.rtt as f64 / self.window) as Picos
    }

    /// Takes the acknowledgement of all bytes below `acknowledged`; `next` is the byte to be sent
    /// next.
    pub fn acknowledge(&mut self, parameters: &Parameters, acknowledged: u64, next: u64, feedback: Feedback) {
        let utilisation = match feedback {
            Feedback::Utilisation(utilisation) => utilisation,
            Feedback::Int(hops) if self.hops.len() == hops.len() => self.in_flight(parameters, hops),
            Feedback::Int(hops) => {
                // Rates are differences: the first acknowledgement has none.
                self.hops = hops.to_vec();
                self.last_update = next;
                return;
            }
        };
        let once_in_a_round = acknowledged > self.last_update;
        self.window = self.compute(parameters, utilisation, once_in_a_round);
        if once_in_a_round {
            self.last_update = next;
        }
    }

    /// `ComputeWind` of the algorithm.
    fn compute(&mut self, parameters: &Parameters, utilisation: f64, update: bool) -> f64 {
        let follow = utilisation >= parameters.target || self.stage >= parameters.max_stage;
        let base = if follow { self.reference / (utilisation / parameters.target) } else { self.reference };
        let window = (base + parameters.increase).clamp(parameters.min_window, parameters.max_window);
        if update {
            self.stage = if follow { 0 } else { self.stage + 1 };
            self.reference = window;
        }
        window
    }

    /// `MeasureInflight` of the algorithm: the average of the busiest link's utilisation.
    fn in_flight(&mut self, parameters: &Parameters, hops: &[Hop]) -> f64 {
        let rtt = parameters.rtt as f64;
        let (mut busiest, mut gap) = (0.0, 0.0);
        for (before, hop) in self.hops.iter_mut().zip(hops) {
            let Some(passed @ 1..) = hop.at.checked_sub(before.at) else { continue };
            let (passed, byte) = (passed as f64, hop.byte as f64);
            let rate = hop.sent.saturating_sub(before.sent) as f64 * byte / passed;
            let queue = f64::from(hop.queue.min(before.queue)) * byte / rtt;
            if rate + queue > busiest {
                (busiest, gap) = (rate + queue, passed);
            }
            *before = *hop;
        }
        let weight = (gap / rtt).min(1.0);
        self.utilisation += weight * (busiest - self.utilisation);
        self.utilisation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Within a round the window follows the utilisation and starts from the same reference: what
    /// is seen twice is answered once.
    #[test]
    fn a_round_has_one_reference() {
        let parameters = Parameters::new(80, 13_000_000);
        let mut sender = Sender::new(&parameters);
        let full = parameters.max_window;
        assert_eq!(full, 162_500.0);
        let mut window = |acknowledged, next, utilisation| {
            sender.acknowledge(&parameters, acknowledged, next, Feedback::Utilisation(utilisation));
            sender.window()
        };
        assert_eq!(window(1000, 160_000, 1.9), full / 2.0 + 80.0);
        let reference = full / 2.0 + 80.0;
        assert_eq!(window(2000, 161_000, 1.9), reference / 2.0 + 80.0);
        assert_eq!(window(3000, 162_000, 1.9), reference / 2.0 + 80.0);
        assert_eq!(window(160_000, 240_000, 0.95), reference + 80.0);
        assert_eq!(window(161_000, 240_000, 1e6), parameters.min_window);
        assert_eq!(window(162_000, 240_000, 1e-6), full);
    }

    /// A queue counts as far as both ends of a round saw it, and a link's rate by its own bytes.
    #[test]
    fn int_takes_the_busiest_link() {
        let parameters = Parameters::new(80, 13_000_000);
        let mut sender = Sender::new(&parameters);
        let hop = |at, sent, queue| Hop { at, sent, queue, byte: 80 };
        sender.acknowledge(&parameters, 1000, 100_000, Feedback::Int(&[hop(0, 0, 500_000), hop(0, 0, 0)]));
        assert_eq!(sender.window(), parameters.max_window, "the first values have nothing before them");
        // After T: one link was half full, the other full with 16 250 bytes waiting.
        let later = [hop(parameters.rtt, 81_250, 0), hop(parameters.rtt, 162_500, 16_250)];
        sender.acknowledge(&parameters, 2000, 100_000, Feedback::Int(&later));
        assert_eq!(sender.utilisation, 1.0);
        let last = [hop(2 * parameters.rtt, 81_250, 0), hop(2 * parameters.rtt, 325_000, 40_000)];
        sender.acknowledge(&parameters, 3000, 100_000, Feedback::Int(&last));
        assert!((sender.utilisation - 1.1).abs() < 1e-9, "{}", sender.utilisation);
    }
}
