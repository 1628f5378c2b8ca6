//! Buckets against an exact one, over any window, and shared by workers.

use proptest::prelude::*;

use super::*;

/// Any time of the wall clock.
const NOW: u64 = 1_790_000_000_000_000_000;

fn limiter(text: &str) -> Limiter {
    Limiter::new(text.parse().unwrap())
}

#[test]
fn words_go_round() {
    for text in ["1Gbps", "500kpps", "1Gbps,burst=64kB", "8kbps,1pps,burst=10kB", "1500bps", "12345678pps"] {
        match text.parse::<Limit>() {
            Ok(limit) => assert_eq!(limit.to_string(), text),
            Err(_) => assert_eq!(text, "1500bps"),
        }
    }
    assert_eq!("1.5Gbps".parse::<Limit>().unwrap().bits_per_second, Some(1_500_000_000));
    for (text, says) in [
        ("", "a rate such as"),
        ("fast", "a rate such as"),
        ("1Gb", "a rate such as"),
        ("-1bps", "a rate such as"),
        ("1Tbps", "a rate such as"),
        ("99999999999999999999Gbps", "a rate such as"),
        ("1kbps", "8000bps to 800000000000bps"),
        ("0pps", "1pps to 1000000000pps"),
        ("1Gbps,burst=1KB", "10000B to 1073741824B"),
        ("1Gbps,2Gbps", "each part once"),
        ("burst=64KB", "a rate such as"),
        ("1kpps,burst=64KB", "a burst goes with a rate in bps"),
    ] {
        let error = text.parse::<Limit>().unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
    }
}

/// What passes in any window, from one packet to another: at most rate × window + burst.
fn check_windows(passed: &[(u64, u64)], per_second: u128, burst: u128) -> Result<(), TestCaseError> {
    for (i, (from, _)) in passed.iter().enumerate() {
        let mut sum = 0;
        for (at, units) in &passed[i..] {
            sum += u128::from(*units) * 1_000_000_000;
            prop_assert!(sum <= per_second * u128::from(at - from) + burst * 1_000_000_000);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_window_keeps_the_rate(
        megabits in prop::sample::select(vec![1u64, 10, 1000, 40_000, 800_000]),
        bursts in prop::collection::vec((0..200_000u64, prop::collection::vec(60..9200usize, 1..30)), 1..40),
    ) {
        let limiter = limiter(&format!("{megabits}Mbps,burst=20KB"));
        let (mut now, mut passed) = (NOW, Vec::new());
        // The oracle: an exact bucket of bytes × 10⁹, which lets everything through that this one
        // does.
        let (rate, full) = (u128::from(megabits) * 125_000, 20_000 * 1_000_000_000u128);
        let (mut tokens, mut last) = (full, now);
        for (wait, sizes) in bursts {
            now += wait;
            tokens = full.min(tokens + rate * u128::from(now - last));
            last = now;
            let mut meter = limiter.open(now);
            for size in sizes {
                if meter.pass(size) {
                    let cost = size as u128 * 1_000_000_000;
                    prop_assert!(cost <= tokens);
                    tokens -= cost;
                    passed.push((now, size as u64));
                }
            }
            meter.close();
        }
        check_windows(&passed, rate, 20_000)?;
        prop_assert_eq!(limiter.counts().0, passed.len() as u64);
    }
}

#[test]
fn who_offers_enough_gets_the_rate() {
    for (text, size, per_second) in [
        ("1Mbps", 1000, 125_000),
        ("10Gbps", 64, 1_250_000_000),
        ("100Gbps", 64, 12_500_000_000),
        ("50kpps", 1, 50_000u64),
    ] {
        let (limiter, mut sum) = (limiter(text), 0);
        let rounds = 200_000;
        // A bucket that begins full gives its burst besides: it is emptied first.
        while {
            let mut meter = limiter.open(NOW);
            let passed = meter.pass(size);
            meter.close();
            passed
        } {}
        for round in 1..=rounds {
            let mut meter = limiter.open(NOW + round * 1000);
            for _ in 0..BURSTS {
                sum += if meter.pass(size) { size as u64 } else { 0 };
            }
            meter.close();
        }
        let max = per_second * rounds / 1_000_000;
        assert!(sum <= max + size as u64 && sum as f64 >= max as f64 * 0.998 - size as f64, "{text}: {sum} of {max}");
    }
}

const BURSTS: usize = 256;

#[test]
fn both_limits_hold_and_a_bucket_left_alone_is_full_again() {
    let limiter = limiter("800Mbps,100pps,burst=10KB");
    let passing = |now: u64, size: usize| {
        let mut meter = limiter.open(now);
        let passed = (0..1000).filter(|_| meter.pass(size)).count();
        meter.close();
        passed
    };
    assert_eq!(passing(NOW, 100), 64, "the packets' burst");
    assert_eq!(passing(NOW, 100), 0);
    assert_eq!(passing(NOW + 1_000_000_000, 1000), 10, "the bytes' burst");
    assert_eq!(passing(NOW + 30_000_000_000_000, 100), 64);
    assert_eq!(limiter.counts(), (138, 3862));
}

#[test]
fn workers_share_a_bucket() {
    const WORKERS: u64 = 4;
    let limiter = limiter("1Gbps,burst=100KB");
    let clock = AtomicU64::new(NOW);
    let passed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    let mut meter = limiter.open(clock.fetch_add(1000, Relaxed));
                    let bytes: u64 = (0..32).filter(|_| meter.pass(1000)).map(|_| 1000).sum();
                    meter.close();
                    passed.fetch_add(bytes, Relaxed);
                }
            });
        }
    });
    let window = clock.load(Relaxed) - NOW;
    let (passed, rate) = (passed.load(Relaxed), window / 8);
    // A burst of another worker's at the same instant; the debt is paid back, so it does not add
    // up.
    assert!(passed <= rate + 100_000 + (WORKERS - 1) * 32_000, "{passed} of {rate}");
    assert!(passed as f64 >= rate as f64 * 0.99, "{passed} of {rate}");
}

/// Two workers whose bursts overlap always: neither sees what the other spends.
#[test]
fn bursts_that_overlap_add_up() {
    let limiter = limiter("1Gbps,burst=100KB");
    let mut passed = 0;
    for round in 0..20_000 {
        let mut meters = [0; 2].map(|_| limiter.open(NOW + round * 1000));
        for meter in &mut meters {
            passed += 1000 * (0..32).filter(|_| meter.pass(1000)).count();
        }
        meters.into_iter().for_each(Meter::close);
    }
    assert!((2_500_000..=2_500_000 + 100_000 + 32_000).contains(&passed), "{passed} of 2500000");
}
