//! The identity of packets: the CRC of the bytes of each that no hop changes.

use super::{BATCH, Crc, Polynomial};
use crate::pisa::cpu::Instructions;
use crate::wire::{Frame, Headers, identity};

/// The hash unit that makes identities. All switches have the same.
pub struct IdentityHash {
    crc: Crc,
    #[cfg(target_arch = "x86_64")]
    fours: Option<super::simd::Identities>,
}

impl IdentityHash {
    /// The unit in the fastest form that the CPU has.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self::limited(Instructions::Avx512)
    }

    /// The unit in the form for a CPU with no more than these instructions, for comparison.
    pub fn limited(limit: Instructions) -> Self {
        let polynomial = Polynomial::STANDARD[0];
        Self {
            crc: Crc::limited(polynomial, limit),
            #[cfg(target_arch = "x86_64")]
            fours: super::simd::Identities::new(polynomial, limit),
        }
    }

    /// The identity of a packet with these headers, as they stand in its frame.
    #[inline(always)]
    pub fn of<F: Frame>(&self, (headers, frame): (&Headers, &F)) -> u32 {
        self.crc.hash(&identity::invariant(headers, frame))
    }

    /// The identities of the first `number` packets of a burst. A packet that is not there leaves its
    /// place as it is. What stands behind them is of no meaning.
    #[inline(always)]
    pub fn of_burst<'a, F: Frame + 'a>(
        &self,
        number: usize,
        packet: impl Fn(usize) -> Option<(&'a Headers, &'a F)>,
        identities: &mut [u32; BATCH],
    ) {
        #[cfg(target_arch = "x86_64")]
        if let Some(form) = &self.fours
            && let Some(others) = form.one_by_one(number, &packet, identities)
        {
            return self.of_others(others, packet, identities);
        }
        let Some(last) = number.checked_sub(1) else { return };
        let (fours, _) = identities.as_chunks_mut::<4>();
        for (four, from) in fours.iter_mut().zip((0..number).step_by(4)) {
            // Behind the last packet the last one is taken again.
            let packet = |place: usize| packet((from + place).min(last));
            #[cfg(target_arch = "x86_64")]
            if let Some(form) = &self.fours
                && let (Some(a), Some(b), Some(c), Some(d)) = (packet(0), packet(1), packet(2), packet(3))
                && let Some(of_four) = form.of_four(a, b, c, d)
            {
                *four = of_four;
                continue;
            }
            for (place, identity) in four.iter_mut().enumerate() {
                if let Some(packet) = packet(place) {
                    *identity = self.of(packet);
                }
            }
        }
    }

    /// The identities of the packets whose bits are set.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn of_others<'a, F: Frame + 'a>(
        &self,
        mut others: u64,
        packet: impl Fn(usize) -> Option<(&'a Headers, &'a F)>,
        identities: &mut [u32; BATCH],
    ) {
        while others != 0 {
            let place = others.trailing_zeros() as usize;
            others &= others - 1;
            if let (Some(packet), Some(identity)) = (packet(place), identities.get_mut(place)) {
                *identity = self.of(packet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{HeapFrame, Shim, parse, shim};

    /// Frames of TCP and UDP over IPv4, most of them without IP options, some cut, some with one
    /// byte that makes them another, some with a shim.
    fn frame() -> impl Strategy<Value = HeapFrame> {
        let spoilt = prop_oneof![3 => Just(None), 1 => (12..50usize, any::<u8>()).prop_map(Some)];
        let len = prop_oneof![Just(64usize), 60..120usize, 34..60usize];
        (any::<[u8; 32]>(), any::<[u8; 32]>(), 0..16u8, spoilt, len, any::<[bool; 2]>()).prop_map(
            |(a, b, words, spoilt, len, [udp, shimmed])| {
                let mut frame = [a, b, a, b].concat();
                frame[12..15].copy_from_slice(&[8, 0, 0x45]);
                frame[20] &= 0xc0;
                frame[21] = 0;
                frame[23] = if udp { 17 } else { 6 };
                frame[46] = words << 4;
                if let Some((at, byte)) = spoilt {
                    frame[at] = byte;
                }
                frame.resize(len, 0);
                let mut frame = HeapFrame::new(&frame);
                if shimmed {
                    assert!(shim::push(&mut frame, Shim::default()));
                }
                frame
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

        /// A burst has the identities that its packets have one by one, and a packet without a frame
        /// keeps what stood in its place.
        #[test]
        fn a_burst_is_identified_as_its_packets(
            frames in prop::collection::vec(prop::option::weighted(0.97, frame()), 0..=BATCH),
        ) {
            let packets: Vec<_> = frames.iter().map(|frame| {
                let mut headers = Headers::default();
                let parsed = frame.as_ref().is_some_and(|frame| parse(frame.bytes(), &mut headers).is_ok());
                frame.as_ref().filter(|_| parsed).map(|frame| (headers, frame))
            }).collect();
            let crc = Crc::portable(Polynomial::STANDARD[0]);
            for limit in Instructions::value_variants() {
                let mut identities = [7; BATCH];
                let packet = |at: usize| packets[at].as_ref().map(|(headers, frame)| (headers, *frame));
                IdentityHash::limited(*limit).of_burst(packets.len(), packet, &mut identities);
                for (packet, identity) in packets.iter().zip(identities) {
                    let expected =
                        packet.as_ref().map_or(7, |(headers, frame)| crc.hash(&identity::invariant(headers, *frame)));
                    prop_assert_eq!(identity, expected, "{:?}", limit);
                }
            }
        }
    }
}
