//! A device's buffer in units of time, from the longest bursts that it carried whole: RFC 9004,
//! section 5.4.

use serde::Serialize;

/// The longest bursts of several searches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bursts {
    pub mean_packets: f64,
    pub min_packets: u64,
    pub max_packets: u64,
    /// Of a sample: the root of the sum of squares over n − 1. 0 of a single search.
    pub standard_deviation_packets: f64,
}

impl Bursts {
    /// `None` without a search.
    pub fn of(packets: &[u64]) -> Option<Self> {
        let (min_packets, max_packets) = (*packets.iter().min()?, *packets.iter().max()?);
        let n = packets.len() as f64;
        let mean_packets = packets.iter().map(|packets| *packets as f64).sum::<f64>() / n;
        let squares: f64 = packets.iter().map(|packets| (*packets as f64 - mean_packets).powi(2)).sum();
        let standard_deviation_packets = (squares / (n - 1.0).max(1.0)).sqrt();
        Some(Self { mean_packets, min_packets, max_packets, standard_deviation_packets })
    }
}

/// How long a device can take frames at the highest rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BufferTime {
    /// The mean burst at the highest rate.
    pub implied_seconds: f64,
    /// The part of it for which the buffer fills: without the frames that the device forwarded while
    /// the burst came in.
    pub corrected_seconds: f64,
}

impl BufferTime {
    /// Rates are in packets per second: the one that bursts come in with, and the device's throughput
    /// (RFC 2544). `None` of a device that forwards as fast as frames come in: its buffer does not
    /// fill.
    pub fn of(bursts: &Bursts, max_rate: f64, throughput: f64) -> Option<Self> {
        let implied = bursts.mean_packets / max_rate;
        let fills = max_rate > 0.0 && throughput < max_rate;
        fills.then(|| Self {
            implied_seconds: implied,
            corrected_seconds: implied - implied * throughput.max(0.0) / max_rate,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::longest_burst;
    use proptest::prelude::*;

    #[test]
    fn statistics_are_those_of_a_sample() {
        let bursts = Bursts::of(&[2, 4, 4, 4, 5, 5, 7, 9]).unwrap();
        assert_eq!((bursts.mean_packets, bursts.min_packets, bursts.max_packets), (5.0, 2, 9));
        assert!((bursts.standard_deviation_packets - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(Bursts::of(&[3]).unwrap().standard_deviation_packets, 0.0);
        assert_eq!(Bursts::of(&[]), None);
    }

    /// RFC 9004's model, section 3: a buffer in front of a forwarding function. A burst of n frames
    /// is carried whole if those that were not forwarded meanwhile fit the buffer.
    fn device(buffer: u64, throughput: f64, rate: f64) -> impl FnMut(u64) -> Result<bool, ()> {
        move |frames| Ok(frames as f64 - (frames as f64 * throughput / rate).floor() <= buffer as f64)
    }

    proptest! {
        /// The corrected time is that of the buffer's frames at the highest rate, and the implied time
        /// is longer by what was forwarded.
        #[test]
        fn the_corrected_time_is_the_buffers(buffer in 1u64..100_000, part in 0.0f64..0.99, rate in 1e3f64..1e8) {
            let longest = longest_burst(1 << 30, device(buffer, part * rate, rate)).unwrap();
            let bursts = Bursts::of(&[longest, longest]).unwrap();
            let time = BufferTime::of(&bursts, rate, part * rate).unwrap();
            prop_assert!((time.corrected_seconds * rate - buffer as f64).abs() <= 1.01, "{:?}", time);
            prop_assert!((time.implied_seconds * (1.0 - part) / time.corrected_seconds - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn a_device_that_keeps_up_has_no_buffer_time() {
        let bursts = Bursts::of(&[1000]).unwrap();
        assert_eq!(BufferTime::of(&bursts, 1e6, 1e6), None);
        assert_eq!(BufferTime::of(&bursts, 0.0, 0.0), None);
        let none_forwarded = BufferTime::of(&bursts, 1e6, 0.0).unwrap();
        assert_eq!(none_forwarded.implied_seconds, none_forwarded.corrected_seconds);
    }
}
