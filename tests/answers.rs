//! Answers in words and numbers: claims, and flows by size.

use weir::answers::{Claim, Distribution, Gap, rounded};
use weir::history::Reason;
use weir::json::Epoch;

/// A complete claim of the epochs 10 to 12, of a second each.
fn claim() -> Claim {
    Claim {
        first_epoch: Some(10),
        last_epoch: Some(12),
        epoch_ns: 1_000_000_000,
        seconds: 3.0,
        complete: true,
        ..Claim::default()
    }
}

/// A claim for these reasons.
fn lacking(reasons: &[Reason]) -> Claim {
    Claim { complete: false, incomplete: reasons.iter().copied().collect(), ..claim() }
}

fn gap(number: u64) -> Gap {
    Gap { epoch: Epoch::new(number, 1_000_000_000), switch: format!("s{number}"), gap: "gone".into() }
}

#[test]
fn a_claim_says_what_is_missing() {
    let whole = "00:00:10.000 to 00:00:13.000 UTC, 3.0 s: exact";
    let part = "00:00:10.000 to 00:00:13.000 UTC, 3.0 s: not exact";
    let names = |n: usize| (1..=n).map(|i| format!("s{i}")).collect::<Vec<_>>();
    let old = "old: the last of these ended 7.5 s ago, and none since has an answer";
    let gaps = |n: u64| Claim { gaps: (1..=n).map(gap).collect(), ..lacking(&[Reason::Gap]) };
    let five = |from: u64| {
        let lines = (from..from + 5).rev().map(|i| format!("\n  gap: 00:00:{i:02}.000, s{i}: gone"));
        format!("{part}{}", lines.collect::<String>())
    };
    for (claim, text) in [
        (claim(), whole.to_owned()),
        (Claim { last_epoch: None, ..claim() }, "no epoch has ended yet".into()),
        (Claim { epoch_ns: 0, ..claim() }, "exact".into()),
        (Claim { outdated: true, age_seconds: Some(7.5), ..claim() }, format!("{whole}\n  {old}")),
        (Claim { age_seconds: Some(7.5), ..claim() }, whole.into()),
        (Claim { amendments: 1, ..claim() }, format!("{whole}\n  amended 1 time since it was final")),
        (Claim { switches: names(1), ..claim() }, whole.into()),
        (Claim { switches: names(2), ..claim() }, format!("{whole}\n  switches: s1, s2")),
        (
            Claim { switches: names(10), ..claim() },
            format!("{whole}\n  switches: s1, s2, s3, s4, s5, s6, s7, s8 and 2 more"),
        ),
        (lacking(&[Reason::Gap]), part.into()),
        (lacking(&[Reason::Undecoded]), format!("{part}\n  not all flows could be decoded")),
        (
            lacking(&[Reason::EdgesUnnamed]),
            format!("{whole} if no other switch has hosts; weir controller --switch names those that have"),
        ),
        (lacking(&[Reason::Gap, Reason::EdgesUnnamed]), part.into()),
        (
            Claim { missing_epochs: 1, ..lacking(&[Reason::NotAnalysed]) },
            format!("{part}\n  1 epoch of these was not analysed"),
        ),
        (
            Claim { missing_epochs: 2, ..lacking(&[Reason::NotAnalysed]) },
            format!("{part}\n  2 epochs of these were not analysed"),
        ),
        (gaps(5), five(1)),
        (gaps(6), format!("{}\n  and 1 gap before", five(2))),
        (gaps(8), format!("{}\n  and 3 gaps before", five(4))),
    ] {
        assert_eq!(claim.text("exact"), text);
    }
}

#[test]
fn sizes_of_flows_are_compared_and_added_up() {
    let of = |sizes: &[(u32, f64)]| Distribution(sizes.to_vec());
    let (some, other) = (of(&[(1, 4.0), (3, 2.0)]), of(&[(1, 2.0), (2, 1.0), (3, 2.0)]));
    // Off by 2 and by 1, of 4 and of 5.5 flows in the mean: (4 + 2) / 2 + 1 / 2 + 2.
    assert!((some.error(&other) - 3.0 / 5.5).abs() < 1e-12);
    assert_eq!((some.error(&some), of(&[]).error(&of(&[])), of(&[]).error(&some)), (0.0, 0.0, 2.0));
    assert_eq!(Distribution::sum(&[&some, &other]), of(&[(1, 6.0), (2, 1.0), (3, 4.0)]));
    assert_eq!((some.flows(), some.packets()), (6.0, 10.0));
    assert_eq!([0, 1, 2, 3, 4].map(|size| some.tail(size)), [6.0, 6.0, 2.0, 2.0, 0.0]);
    // Four flows of one packet in four, and one flow of all.
    assert_eq!([of(&[(2, 4.0)]), of(&[(9, 1.0)]), of(&[])].map(|sizes| sizes.entropy_bits()), [2.0, 0.0, 0.0]);
    assert_eq!(Distribution::of_sizes([3, 1, 3, u64::MAX]), of(&[(1, 1.0), (3, 2.0), (u32::MAX, 1.0)]));
}

#[test]
fn large_sizes_have_seven_digits() {
    assert_eq!([0, 255, 256, 257, 258, 1023].map(rounded), [0, 255, 256, 256, 256, 1016]);
    assert_eq!([260, 0x0123_4567, u32::MAX].map(rounded), [260, 0x0120_0000, 0xfe00_0000]);
    let sizes = Distribution(vec![(255, 1.0), (256, 1.0), (259, 2.0), (260, 4.0)]).rounded();
    assert_eq!(sizes, Distribution(vec![(255, 1.0), (256, 3.0), (260, 4.0)]));
}
