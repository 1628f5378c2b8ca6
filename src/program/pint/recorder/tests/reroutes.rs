//! Paths that change: what *sure* is about, held against the packets that took each path.

use super::*;
use crate::trace::SplitMix64;

const NAMES: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

fn network(query: &str) -> Network {
    let queries = query.parse().unwrap();
    let mut network = Network::new(Config { queries, packets: 8192, path_length: 20, ..Config::default() });
    NAMES.chars().for_each(|name| network.recorder.name(&name.to_string().into()));
    network
}

/// A path over this number of switches, and one that differs from it at up to three of them, of a long
/// path at one.
fn two_paths(rng: &mut SplitMix64, hops: usize) -> [String; 2] {
    let mut names: Vec<_> = NAMES.chars().collect();
    for at in (1..names.len()).rev() {
        names.swap(at, rng.below(at as u64 + 1) as usize);
    }
    let (old, others) = names.split_at(hops);
    let mut new = old.to_vec();
    let changes = if hops < 20 { 1 + rng.below(3) as usize } else { 1 };
    for other in &others[..changes] {
        // The sink stays.
        new[rng.below(hops as u64 - 1) as usize] = *other;
    }
    [old, &new].map(|path| path.iter().collect())
}

/// What a path is sure of holds of the packets that took it: the old path's before the change, the new
/// one's from then on. Packets are numbered, and their times are their numbers.
fn check(found: &FlowPath, [old, new]: &[String; 2], changed: u32) {
    let Some(sure) = found.sure else { return assert!(found.certainty < Certainty::Sure, "{found:?}") };
    let name = named(found);
    assert!(name == *old || name == *new, "{found:?}");
    assert!(found.certainty == Certainty::Sure && sure.packets <= found.packets, "{found:?}");
    assert!(sure.packets <= sure.until_ns - sure.since_ns + 1, "{found:?}");
    if name == *old {
        assert!(sure.until_ns < changed.into(), "packets from {changed} on took another path: {found:?}");
    } else {
        assert!(sure.since_ns >= changed.into(), "packets before {changed} took another path: {found:?}");
    }
}

/// The queries whose paths change, with lengths of these.
fn queries() -> impl Iterator<Item = (String, usize)> {
    let hashes = (1..=16).flat_map(|bits| {
        let lengths: &[usize] = if bits <= 2 { &[3, 8, 20, 59] } else { &[3, 8, 20] };
        lengths.iter().map(move |hops| (format!("path:bits={bits}"), *hops))
    });
    let others = ["path:bits=8:instances=2", "path:bits=8:coding=fragments", "path:bits=4:acts=vectors"];
    hashes.chain(others.map(|query| (query.to_owned(), 6)))
}

/// A path that was sure changes at some switches, and few packets come from then on, with any width of
/// hashes. As long as none of them contradicts the old path, it is sure of those before them alone,
/// however many agree with it.
#[test]
fn a_path_is_sure_of_no_packet_that_took_another() {
    let mut rng = SplitMix64::new(5);
    let mut unnoticed = 0;
    for (query, hops) in queries() {
        for _ in 0..4 {
            let (mut network, paths) = (network(&query), two_paths(&mut rng, hops));
            let [old, new] = &paths;
            let many = if query.contains("fragments") { 250 } else { 70 } * hops as u32;
            let first = network.epoch(1, old, many).remove(0);
            assert_eq!((&named(&first), first.certainty), (old, Certainty::Sure), "{query}, {first:?}");
            // What it is sure of grows with the packets that bear it out.
            let later = network.epoch(1, old, many).remove(0);
            let sure = later.sure.unwrap();
            assert!(sure.until_ns > many.into() && sure.since_ns == first.sure.unwrap().since_ns, "{query}, {later:?}");
            let changed = network.packets;
            for _ in 0..10_000 {
                let found = network.epoch(1, new, 2).remove(0);
                check(&found, &paths, changed);
                if found.contradictions > 0 {
                    break;
                }
                unnoticed = unnoticed.max(found.packets - later.packets);
            }
            let found = network.epoch(1, new, many).remove(0);
            check(&found, &paths, changed);
            assert_eq!((&named(&found), found.certainty, found.contradictions), (new, Certainty::Sure, 1), "{query}");
        }
    }
    assert!(unnoticed > 60, "the new path was noticed after {unnoticed} packets at most");
}

/// The same where the path changes before it was sure, so that packets of both are among those that
/// decide it, and where it changes in the middle of an epoch.
#[test]
fn packets_of_both_paths_make_none_of_them_sure_of_the_others() {
    let mut rng = SplitMix64::new(6);
    let mut sure = 0;
    for (query, hops) in queries().filter(|(_, hops)| *hops < 20) {
        for _ in 0..4 {
            let (mut network, paths) = (network(&query), two_paths(&mut rng, hops));
            let [old, new] = &paths;
            let changed = 1 + rng.below(60 * hops as u64) as u32;
            network.epoch(1, old, changed);
            for _ in 0..40 {
                let found = network.epoch(1, new, 2 * hops as u32).remove(0);
                check(&found, &paths, changed);
                sure += u32::from(found.certainty == Certainty::Sure);
            }
        }
    }
    assert!(sure > 1000, "{sure}");
}

/// A packet with the identity of another one bears nothing out, however often it comes.
#[test]
fn one_identity_says_nothing_new() {
    let mut network = network("path:bits=1");
    let first = network.epoch(1, "abc", 400).remove(0);
    assert_eq!(first.certainty, Certainty::Sure);
    let again = network.packets;
    for _ in 0..200 {
        network.packets = again;
        network.epoch(1, "abc", 1);
    }
    let found = network.epoch(1, "abc", 1).remove(0);
    assert!(found.packets > 500 && found.sure.unwrap().until_ns < again.into(), "{found:?}");
}

/// Of packets in which nothing varies all but one are repeats, and the answer says that these decide
/// nothing.
#[test]
fn packets_that_are_alike_are_told() {
    let mut network = network("path:bits=8");
    let mut found = Vec::new();
    for _ in 0..30 {
        network.packets = 0;
        found = network.epoch(1, "abcde", 1);
    }
    let [path] = &found[..] else { panic!("{found:?}") };
    assert_eq!((path.certainty, path.packets, path.repeated, path.sure), (Certainty::Undecided, 1, 29, None));
    assert!(path.is_alike());
    let other = network.epoch(2, "abcde", 300).remove(0);
    assert!(!other.is_alike() && other.repeated == 0);
}
