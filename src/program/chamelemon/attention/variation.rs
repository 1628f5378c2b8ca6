//! How much a number varies from epoch to epoch though the traffic stays as it is.

/// Epochs that are remembered, and steps from one to the next.
const EPOCHS: usize = 6;
const STEPS: usize = 10;
const LEAST: usize = 4;
/// Where the usual step stands among all, from the smallest on: of ten, three may be changes of the
/// traffic.
const USUAL: f64 = 0.6;
/// Steps of chance are larger than this times the usual one twice in ten times, by a normal law.
const LARGE: f64 = 1.23;
/// A value is of other traffic when it is above the expected peak by this share, or below the mean
/// by this share and [`FAR`] usual steps.
const OTHER: f64 = 0.05;
const FAR: f64 = 2.5;
/// A step of this size is expected of any count: a sample varies by it.
const COUNTED: f64 = 0.02;

/// A number's last values of traffic that stayed as it is, and how far it stepped.
#[derive(Clone, Debug, Default)]
pub(super) struct Variation {
    recent: Vec<f64>,
    /// Also of traffic that changed between.
    steps: Vec<f64>,
}

fn keep(values: &mut Vec<f64>, value: f64, max: usize) {
    if values.len() == max {
        values.remove(0);
    }
    values.push(value);
}

impl Variation {
    /// Takes an epoch's number.
    pub fn push(&mut self, value: f64) {
        let value = value.max(1.0);
        if let Some(last) = self.recent.last() {
            let (other, step) = (self.is_other(value), (value / last).ln().abs());
            keep(&mut self.steps, step, STEPS);
            if other {
                self.recent.clear();
            }
        }
        keep(&mut self.recent, value, EPOCHS);
    }

    /// Whether it is of other traffic than the last ones.
    fn is_other(&self, value: f64) -> bool {
        let max = self.expected() * (1.0 + OTHER);
        let min = self.mean() / (OTHER + self.span());
        !(min..max).contains(&value)
    }

    /// The usual step from epoch to epoch, as a share.
    fn step(&self) -> f64 {
        let mut sorted = self.steps.clone();
        sorted.sort_by(f64::total_cmp);
        let usual = sorted.get((USUAL * sorted.len() as f64) as usize).filter(|_| sorted.len() >= LEAST);
        usual.map_or(0.0, |step| (LARGE * step - COUNTED).max(0.0))
    }

    /// The factor between a number at its least and its peak.
    pub fn span(&self) -> f64 {
        1.0 + FAR * self.step()
    }

    fn mean(&self) -> f64 {
        self.recent.iter().sum::<f64>() / self.recent.len().max(1) as f64
    }

    /// The most that is to be expected.
    fn expected(&self) -> f64 {
        // One epoch alone may be the least of them.
        let above = 1.0 + self.step() * (1.0 + (self.recent.len().max(1) as f64).recip());
        let peak = self.recent.iter().copied().fold(0.0, f64::max);
        if self.step() > 0.0 { peak.max(self.mean() * above) } else { self.recent.last().copied().unwrap_or(0.0) }
    }

    /// The factor between a number and the most that is to be expected of the next epochs; at least 1. The
    /// number is an epoch's, or foreseen.
    pub fn reserve(&self, value: f64) -> f64 {
        let value = value.max(1.0);
        // The first number of other traffic.
        let expected = if self.is_other(value) { value * (1.0 + 2.0 * self.step()) } else { self.expected() };
        (expected / value).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_needs_no_reserve_and_what_varies_its_peak() {
        let mut still = Variation::default();
        [1000.0, 1004.0, 996.0, 1001.0, 1003.0, 400.0].into_iter().for_each(|value| still.push(value));
        assert_eq!(still.reserve(400.0), 1.0, "a change is no variation");
        let mut noisy = Variation::default();
        [1000.0, 1100.0, 920.0, 1050.0, 900.0, 1000.0].into_iter().for_each(|value| noisy.push(value));
        assert!((1.1..1.4).contains(&noisy.reserve(1000.0)), "{}", noisy.reserve(1000.0));
        [2000.0, 4000.0, 1000.0].into_iter().for_each(|value| (0..4).for_each(|_| still.push(value)));
        assert_eq!((still.reserve(1000.0), still.span()), (1.0, 1.0), "nor are changes of every fourth epoch");
        noisy.push(3000.0);
        assert!((1.0..1.4).contains(&noisy.reserve(3000.0)), "the peak of other traffic is forgotten");
    }
}
