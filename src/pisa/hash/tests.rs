//! Every form against the bitwise CRC, and golden vectors.

use std::collections::HashSet;

use clap::ValueEnum;
use proptest::prelude::*;

use super::*;
use crate::pisa::{BATCH, Phv};
use crate::wire::{Addr4, Addr6, Headers, Pair4, Pair6, Tuple4, Tuple6};

fn hash(polynomial: Polynomial, bytes: &[u8]) -> u32 {
    bitwise::crc(polynomial, INIT, XOROUT, bytes)
}

fn polynomial() -> impl Strategy<Value = Polynomial> {
    any::<u32>().prop_map(|bits| Polynomial::new(bits | 1).unwrap())
}

/// The definition.
fn defined(shared: Polynomial, own: Polynomial, bytes: &[u8]) -> u32 {
    let sum = (u64::from(hash(shared, bytes)) + u64::from(hash(own, bytes))) % (1 << 32);
    let (high, low) = (sum / (1 << 16), sum % (1 << 16));
    ((high ^ low) * (1 << 16) + low) as u32
}

/// One key of N bytes through every form of a single CRC.
fn single<const N: usize>(polynomial: Polynomial, bytes: &[u8]) {
    let key: &[u8; N] = bytes[..N].try_into().unwrap();
    let expected = hash(polynomial, key);
    assert_eq!(Crc::new(polynomial).hash(key), expected, "{N} bytes");
    assert_eq!(Crc::portable(polynomial).hash(key), expected, "{N} bytes, portable");
}

/// The forms of a bank, and the polynomials that it was made of, the shared one first.
struct Banks(Vec<Polynomial>, [IndexBank; 3]);

impl Banks {
    /// A burst of keys of N bytes through all of them.
    fn burst<const N: usize, K: BurstKey<N>>(&self, keys: &[K]) {
        for (bank, keys) in self.1.iter().flat_map(|bank| keys.chunks(BATCH).map(move |keys| (bank, keys))) {
            let (mut burst, mut lanes) = ([keys[0]; BATCH], Lanes::default());
            burst[..keys.len()].copy_from_slice(keys);
            bank.hash_burst(&burst, keys.len(), &mut lanes);
            for (at, key) in keys.iter().enumerate() {
                for (&own, lane) in self.0[1..].iter().zip(&lanes[1..]) {
                    let hash = defined(self.0[0], own, &key.bytes());
                    assert_eq!(lane.as_flattened()[at], hash, "{N} bytes, {} keys", keys.len());
                }
            }
        }
    }
}

/// Keys of flows through every form of [`Crc::hash_keys`].
fn together<K: FlowKey>(polynomial: Polynomial, headers: &[Headers]) {
    let keys: Vec<K> = headers.iter().map(K::of).collect();
    let hashes: Vec<_> = keys.iter().map(|key| hash(polynomial, key.bytes().as_ref())).collect();
    // From behind, so that a key's place is not its number.
    let places: Vec<u8> = (0..keys.len() as u8).rev().collect();
    // What is in it from the stage before is of no meaning.
    let mut got = [Slot(7); BATCH];
    for limit in Instructions::value_variants() {
        for mask in [u32::MAX, 0xfff, 0] {
            Crc::limited(polynomial, *limit).hash_keys(&places, |place| keys[usize::from(*place)], mask, &mut got);
            let expected: Vec<_> = hashes.iter().rev().map(|hash| Slot(hash & mask)).collect();
            assert_eq!(got[..keys.len()], expected, "{limit:?}, {} bits", K::BITS);
        }
    }
}

/// Keys of flows through every form of [`Crcs::hash_keys`].
fn by_several<K: FlowKey>(polynomials: [Polynomial; 3], headers: &[Headers]) {
    let keys: Vec<K> = headers.iter().map(K::of).collect();
    for limit in Instructions::value_variants() {
        let (crcs, mut got) = (Crcs::limited(polynomials, *limit), [[7; BATCH]; 3]);
        crcs.hash_keys(&keys, &mut got);
        for (at, key) in keys.iter().enumerate() {
            let expected = polynomials.map(|polynomial| hash(polynomial, key.bytes().as_ref()));
            assert_eq!(got.map(|hashes| hashes[at]), expected, "{limit:?}, {} bits, {at}", K::BITS);
            assert_eq!(crcs.hash_key(*key), expected);
        }
    }
}

/// Packets through every form of [`Crcs::hash_packets`].
fn of_packets(polynomials: [Polynomial; 3], headers: &[Headers]) {
    let phvs: Vec<Phv> = headers.iter().map(|headers| Phv { headers: *headers, ..Phv::default() }).collect();
    for limit in Instructions::value_variants() {
        let (crcs, mut got) = (Crcs::limited(polynomials, *limit), [[7; BATCH]; 3]);
        crcs.hash_packets(&phvs, &mut got);
        for (at, headers) in headers.iter().enumerate() {
            assert_eq!(got.map(|hashes| hashes[at]), crcs.hash_key(Tuple4::of(headers)), "{limit:?}, {at}");
        }
    }
}

fn headers() -> impl Strategy<Value = Headers> {
    let fields = (any::<u128>(), any::<u128>(), any::<u16>(), any::<u16>(), any::<u8>());
    fields.prop_map(|(src_ip, dst_ip, sport, dport, proto)| Headers {
        src_ip,
        dst_ip,
        sport,
        dport,
        proto,
        ..Headers::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn hashes_of_several_keys_are_those_of_each(
        p in polynomial(),
        headers in prop::collection::vec(headers(), 0..=BATCH),
    ) {
        together::<Tuple4>(p, &headers);
        together::<Pair4>(p, &headers);
        together::<Addr4<false>>(p, &headers);
        together::<Addr4<true>>(p, &headers);
        together::<Tuple6>(p, &headers);
        together::<Pair6>(p, &headers);
        together::<Addr6<false>>(p, &headers);
    }

    #[test]
    fn hashes_by_several_units_are_those_of_each(
        polynomials in [polynomial(), polynomial(), polynomial()],
        headers in prop::collection::vec(headers(), 0..=BATCH),
    ) {
        by_several::<Tuple4>(polynomials, &headers);
        by_several::<Pair4>(polynomials, &headers);
        by_several::<Addr4<true>>(polynomials, &headers);
        by_several::<Tuple6>(polynomials, &headers);
        by_several::<Addr6<false>>(polynomials, &headers);
        of_packets(polynomials, &headers);
    }

    #[test]
    fn single_forms_equal_the_bitwise_crc(p in polynomial(), bytes in prop::collection::vec(any::<u8>(), 200)) {
        macro_rules! lengths { ($($n:literal)*) => { $(single::<$n>(p, &bytes);)* } }
        lengths!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 23 24 31 32 33 36 37 40 47 48 63 64 65 66 67 68 128 129 200);
    }

    #[test]
    fn bank_forms_equal_the_sum_of_bitwise_crcs(
        polynomials in prop::collection::vec(polynomial(), 1..=LANES),
        bytes in prop::collection::vec(any::<u8>(), 0..1300),
    ) {
        let (shared, own) = (polynomials[0], &polynomials[1..]);
        let forms = [IndexBank::new, IndexBank::without_affine, IndexBank::portable];
        let banks = forms.map(|form| form(shared, own));
        let banks = Banks(polynomials, banks);
        macro_rules! lengths { ($($n:literal)*) => { $(banks.burst(bytes.as_chunks::<$n>().0);)* } }
        lengths!(4 5 7 8 9 12 13 16 32 36 37 40);
        let word = |bytes: &[u8; 16], i: usize| u32::from_be_bytes(bytes.as_chunks().0[i]);
        let keys: Vec<[u32; 4]> =
            bytes.as_chunks().0.iter().map(|bytes| std::array::from_fn(|i| word(bytes, i))).collect();
        banks.burst::<4, _>(&keys);
        banks.burst::<13, _>(&keys);
        banks.burst::<16, _>(&keys);
    }
}

/// `tests/golden/index.txt` was made by the few lines of Python in its head, independently of this
/// code: polynomials, key, index hash, number of slots, spare bits, slot.
#[test]
fn golden_index_hashes() {
    let mut lines = 0;
    for line in include_str!("../../../tests/golden/index.txt").lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        let word = |i: usize| u32::from_str_radix(fields[i], 16).unwrap();
        let [shared, own] = [0, 1].map(|i| Polynomial::new(word(i)).unwrap());
        let key: [u8; 13] = std::array::from_fn(|i| u8::from_str_radix(&fields[2][2 * i..2 * i + 2], 16).unwrap());
        let [slots, spare, slot] = [4, 5, 6].map(|i| fields[i].parse::<u32>().unwrap());
        let hashes = IndexHashes::new(shared, &[own]);
        let range = HighRange::new(slots.try_into().unwrap(), spare);
        let mut lanes = Lanes::default();
        for form in [IndexBank::new, IndexBank::without_affine, IndexBank::portable] {
            let unit = form(shared, &[own]);
            unit.hash_burst(&[key; BATCH], 1, &mut lanes);
            assert_eq!(lanes[1][0][0], word(3), "{line}");
        }
        assert_eq!(hashes.hash(0, &hashes.key(key)), word(3), "{line}");
        assert_eq!(range.slot(word(3)), slot, "{line}");
        lines += 1;
    }
    assert_eq!(lines, 96);
}

/// Pairs of keys 0 and a that share a slot, and how often b and a⊕b then share one, too.
fn quadruples(slots: &[u32]) -> (u32, u32) {
    let (mut pairs, mut both) = (0, 0);
    for a in (1..slots.len()).filter(|&a| slots[0] == slots[a]) {
        for b in (1..slots.len()).filter(|&b| b != a) {
            pairs += 1;
            both += u32::from(slots[b] == slots[a ^ b]);
        }
    }
    (pairs, both)
}

/// With CRCs the keys b and a⊕b share a slot whenever 0 and a do. With index hashes they seldom do,
/// if not quite as seldom as any two keys, which are one pair in 256.
#[test]
fn quadruples_of_keys_in_a_row_come_apart() {
    const SLOTS: u32 = 256;
    let (mut linear, mut summed) = ((0, 0), (0, 0));
    for seed in 0..100 {
        let family = HashFamily::reproducible(seed);
        let [shared, own] = [0, 1].map(|i| family.derive("test", i));
        let high = HighRange::new(SLOTS.try_into().unwrap(), 0);
        let key = |x: u32| u64::from(x).to_be_bytes();
        let keys = |slot: &dyn Fn(u32) -> u32| quadruples(&(0..1024).map(slot).collect::<Vec<_>>());
        let crc = keys(&|x| high.slot(hash(own, &key(x))));
        let sum = keys(&|x| high.slot(defined(shared, own, &key(x))));
        linear = (linear.0 + crc.0, linear.1 + crc.1);
        summed = (summed.0 + sum.0, summed.1 + sum.1);
    }
    assert!(linear.0 > 100_000 && linear.0 == linear.1, "{linear:?}");
    assert!(summed.0 > 100_000 && summed.1 < summed.0 / 64, "{summed:?}");
}

#[test]
fn published_check_values() {
    // From the CRC RevEng catalogue: name, polynomial, init, xorout, check.
    let reflected = [
        ("ISO-HDLC", 0x04c1_1db7, INIT, XOROUT, 0xcbf4_3926),
        ("ISCSI", 0x1edc_6f41, INIT, XOROUT, 0xe306_9283),
        ("BASE91-D", 0xa833_982b, INIT, XOROUT, 0x8731_5576),
        ("AUTOSAR", 0xf4ac_fb13, INIT, XOROUT, 0x1697_d06a),
        ("JAMCRC", 0x04c1_1db7, INIT, 0, 0x340b_c6d9),
        ("MEF", 0x741b_8cd7, INIT, 0, 0xd2c2_2f51),
        ("CD-ROM-EDC", 0x8001_801b, 0, 0, 0x6ec2_edc4),
    ];
    for (name, bits, init, xorout, check) in reflected {
        let polynomial = Polynomial::new(bits).unwrap();
        assert_eq!(bitwise::crc(polynomial, init, xorout, b"123456789"), check, "{name}");
        // A register that starts and ends elsewhere is a constant away.
        let offset = bitwise::crc(polynomial, init, xorout, &[0; 9]) ^ hash(polynomial, &[0; 9]);
        assert_eq!(Crc::new(polynomial).hash(b"123456789") ^ offset, check, "{name}");
    }
}

/// `tests/golden/hash.txt` was made by the few lines of Python in its head, independently of this
/// code.
#[test]
fn golden_vectors() {
    let mut lines = 0;
    for line in include_str!("../../../tests/golden/hash.txt").lines().filter(|l| !l.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        let polynomial = Polynomial::new(u32::from_str_radix(fields[0], 16).unwrap()).unwrap();
        let key: Vec<u8> = fields[1]
            .as_bytes()
            .chunks(2)
            .map(|h| u8::from_str_radix(str::from_utf8(h).unwrap(), 16).unwrap())
            .collect();
        assert_eq!(hash(polynomial, &key), u32::from_str_radix(fields[2], 16).unwrap(), "{line}");
        match key.len() {
            4 => single::<4>(polynomial, &key),
            8 => single::<8>(polynomial, &key),
            13 => single::<13>(polynomial, &key),
            16 => single::<16>(polynomial, &key),
            32 => single::<32>(polynomial, &key),
            37 => single::<37>(polynomial, &key),
            other => panic!("no keys of {other} bytes"),
        }
        lines += 1;
    }
    assert_eq!(lines, 16 * 6 * 4);
}

/// Pairs of 1 024 keys that meet in one of 1 024 slots.
fn collisions(hash: impl Fn(&[u8; 8]) -> u32) -> HashSet<(u64, u64)> {
    let slots: Vec<u32> =
        (0..1 << 10).map(|k: u64| hash(&k.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()) % 1024).collect();
    let pairs = (0..slots.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    pairs.filter(|&(a, b)| slots[a] == slots[b]).map(|(a, b)| (a as u64, b as u64)).collect()
}

#[test]
fn seeds_collide_alike_and_polynomials_do_not() {
    let [p, q] = [0, 1].map(|i| HashFamily::reproducible(1).derive("test", i));
    let first = collisions(|key| bitwise::crc(p, INIT, XOROUT, key));
    let other_seed = collisions(|key| bitwise::crc(p, 0x1234_5678, XOROUT, key));
    let other_polynomial = collisions(|key| bitwise::crc(q, INIT, XOROUT, key));
    assert!(first.len() > 300);
    assert_eq!(first, other_seed);
    // Independent hashes share one collision in 1 024.
    assert!(first.intersection(&other_polynomial).count() < 10);
}

/// PINT's reservoir: hop i keeps the packet if its hash is below 2³² / i, so each of k hops ends up
/// carrying 1 / k of them. Gives the chi-square statistic of the shares, which for true randomness
/// is about hops − 1.
fn reservoir(hops: usize, packets: u32, g: impl Fn(u32, usize) -> u32) -> f64 {
    let mut carried = vec![0u32; hops];
    for packet in 0..packets {
        let keeps = |&hop: &usize| u64::from(g(packet, hop)) * hop as u64 <= u64::from(u32::MAX);
        carried[(1..=hops).rev().find(keeps).unwrap() - 1] += 1;
    }
    let expected = f64::from(packets) / hops as f64;
    carried.iter().map(|&c| (f64::from(c) - expected).powi(2) / expected).sum()
}

#[test]
fn every_hop_carries_its_share() {
    const PACKETS: u32 = 50_000;
    for seed in 0..8 {
        let family = HashFamily::reproducible(seed);
        let global = Global::derive(&family, "test", 0);
        let packets = identities(&family, PACKETS);
        let addends: Vec<Addends> = (0..60).map(|hop: u32| global.argument(&hop.to_be_bytes())).collect();
        for hops in [2, 5, 10, 25, 59] {
            let chi2 = reservoir(hops, PACKETS, |p, hop| global.join(packets[p as usize], addends[hop]));
            // Mean k − 1, variance 2 (k − 1): five standard deviations, and some for the long tail
            // at small k.
            let freedom = (hops - 1) as f64;
            let limit = freedom + 5.0 * (2.0 * freedom).sqrt() + 10.0;
            assert!(chi2 < limit, "seed {seed}, {hops} hops: chi-square {chi2:.1} above {limit:.1}");
        }
    }
}

/// Packets that follow each other: numbers in a row behind a CRC.
fn identities(family: &HashFamily, packets: u32) -> Vec<u32> {
    let identity = Crc::new(family.derive("identity", 0));
    (0..packets).map(|packet| identity.hash(&packet.to_be_bytes())).collect()
}

/// A switch takes several hashes of one packet: which queries it carries, its layer, whether hops
/// act, what they write, how they round. All have the packet's identity in common, and are
/// independent of each other all the same.
#[test]
fn hashes_of_one_packet_are_independent() {
    const PACKETS: u32 = 50_000;
    const SIDE: usize = 8;
    for seed in 0..8 {
        let family = HashFamily::reproducible(seed);
        let packets = identities(&family, PACKETS);
        let of = |index| {
            let global = Global::derive(&family, "test", index);
            let [a, b] = [0u32, 7].map(|argument| global.argument(&argument.to_be_bytes()));
            // The first bits decide what happens, the last ones of an inner CRC how a code is rounded.
            [
                packets.iter().map(|packet| global.join(*packet, a) >> 29).collect::<Vec<_>>(),
                packets.iter().map(|packet| global.join(*packet, b) >> 29).collect(),
                packets.iter().map(|packet| global.inner(*packet, a) % SIDE as u32).collect(),
            ]
        };
        let hashes: Vec<_> = (0..4).flat_map(of).collect();
        for (i, first) in hashes.iter().enumerate() {
            for second in hashes[i + 1..].iter() {
                let mut together = [[0u32; SIDE]; SIDE];
                first.iter().zip(second).for_each(|(a, b)| together[*a as usize][*b as usize] += 1);
                let expected = f64::from(PACKETS) / (SIDE * SIDE) as f64;
                let chi2: f64 = together.iter().flatten().map(|n| (f64::from(*n) - expected).powi(2) / expected).sum();
                let freedom = (SIDE * SIDE - 1) as f64;
                let limit = freedom + 6.0 * (2.0 * freedom).sqrt();
                assert!(chi2 < limit, "seed {seed}: chi-square {chi2:.1} above {limit:.1}");
            }
        }
    }
}

/// The pitfall: with a constant xored in, the hops' hashes differ by the same word for every
/// packet.
#[test]
fn without_the_additions_the_hops_are_not_independent() {
    let family = HashFamily::reproducible(0);
    let [packet, argument] = [0, 1].map(|i| Crc::new(family.derive("test", i)));
    let linear = |p: u32, hop: usize| packet.hash(&p.to_be_bytes()) ^ argument.hash(&(hop as u32).to_be_bytes());
    assert!(reservoir(10, 50_000, linear) > 500.0);
}
