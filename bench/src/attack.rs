//! What an attacker who knows the hash functions can hide from HashPipe, and what is left of it
//! when they are secret.
//!
//! A CRC is affine over GF(2): flipping some bits of a key flips the same bits of every hash,
//! whatever the key. Who knows the polynomials asks for the flips that leave the slot of all d
//! stages as it is: d · log₂(slots) equations in the 96 bits of addresses and ports. Every solution
//! is another flow with the same d slots, and d slots hold d flows, so of many heavy flows all but
//! d are pushed out; and a victim whose slots they share is pushed out with them.

use anyhow::{Result, ensure};
use clap::Args;
use weir::pisa::hash::{HashFamily, SlotHash};
use weir::program::hashpipe;
use weir::trace::{Order, Workload};
use weir::wire::{Net, Tuple4};

use crate::hashpipe::HashPipe;
use crate::heavy::{HeavyHitter, KeyMap};

#[derive(Args)]
pub struct Attack {
    /// Heavy flows that the attacker wants to hide
    #[arg(long, default_value_t = 60)]
    hidden: usize,
    /// Packets of each of them, as a share of all other traffic
    #[arg(long, default_value_t = 0.001)]
    share: f64,
    #[arg(long, default_value_t = 6)]
    stages: usize,
    /// Slots a stage, a power of two
    #[arg(long, default_value_t = 4096)]
    slots: usize,
    /// Packets of the other traffic (isp sizes, in bursts)
    #[arg(long, default_value_t = 1_000_000)]
    packets: u64,
    #[arg(long, default_value_t = 40_000)]
    flows: u32,
    /// Deployments with secret polynomials, each drawn anew
    #[arg(long, default_value_t = 20)]
    draws: usize,
}

/// The polynomials that the attacker knows.
const KNOWN: u64 = 1;
/// Bits of a key that the attacker is free to choose: all but the protocol.
const FREE: std::ops::Range<u32> = 8..104;

/// What the attack did to one deployment.
#[derive(Clone, Copy, Debug)]
struct Damage {
    /// Share of the attacker's flows that are not among the heaviest flows reported, though they
    /// belong there.
    hidden: f64,
    /// Share of the heaviest honest flow's packets that were counted.
    victim: f64,
}

impl Attack {
    pub fn run(&self) -> Result<()> {
        let scene = self.scene()?;
        let known = HashFamily::reproducible(KNOWN);
        let random = scene.strangers(self.hidden);
        let crafted = scene.collisions(&self.hashes(&known)?, self.hidden)?;
        println!(
            "{} heavy flows of {} packets each in isp/burst traffic of {} packets; hashpipe:stages={},slots={}",
            self.hidden, scene.packets_each, self.packets, self.stages, self.slots
        );
        println!("\n| attacker's flows | polynomials | of them not reported | of the victim's packets counted |");
        println!("| --- | --- | --- | --- |");
        let row = |flows: &str, polynomials: &str, damage: &[Damage]| {
            let hidden = spread(damage.iter().map(|d| d.hidden));
            println!("| {flows} | {polynomials} | {hidden} | {} |", spread(damage.iter().map(|d| d.victim)));
        };
        row("at random", "known", &[self.damage(&scene, &random, &known)]);
        row("crafted", "known", &[self.damage(&scene, &crafted, &known)]);
        let mut secret = Vec::new();
        for _ in 0..self.draws {
            secret.push(self.damage(&scene, &crafted, &HashFamily::random()?));
        }
        if !secret.is_empty() {
            row("crafted", "secret", &secret);
        }
        Ok(())
    }

    fn scene(&self) -> Result<Scene> {
        ensure!(self.slots.is_power_of_two(), "--slots {}: a power of two, so that slots are linear", self.slots);
        ensure!(self.hidden > 0, "--hidden: at least one flow");
        ensure!((0.0..=1.0).contains(&self.share), "--share {}: 0 to 1", self.share);
        let workload =
            Workload { order: Order::Burst, packets: self.packets, flows: self.flows, ..Workload::default() };
        Ok(Scene::new(workload, (self.packets as f64 * self.share) as usize))
    }

    fn hashes(&self, hashes: &HashFamily) -> Result<Vec<SlotHash>> {
        let slots = u32::try_from(self.slots)?.try_into()?;
        Ok((0..u32::try_from(self.stages)?)
            .map(|stage| SlotHash::new(hashes.derive(hashpipe::label(Net::Ipv4), stage), slots))
            .collect())
    }

    /// Runs the traffic with the attacker's flows in turns among it.
    fn damage(&self, scene: &Scene, attack: &[Tuple4], hashes: &HashFamily) -> Damage {
        let mut pipe = HashPipe::with(self.slots * self.stages, self.stages, hashes);
        let all = scene.packets_each * attack.len();
        let mut sent = 0;
        for (i, &key) in scene.honest.iter().enumerate() {
            pipe.packet(key);
            while sent < all * (i + 1) / scene.honest.len() {
                pipe.packet(attack[sent % attack.len()]);
                sent += 1;
            }
        }
        let mut counts = KeyMap::default();
        for (key, count) in pipe.read_out() {
            *counts.entry(key).or_insert(0u64) += count;
        }
        // The flows that belong in the report: all that are as heavy as one of the attacker's.
        let places = scene.sizes.values().filter(|&&size| size >= scene.packets_each as u64).count() + attack.len();
        let mut ranked: Vec<_> = counts.values().copied().collect();
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        let min = ranked.get(places - 1).copied().unwrap_or(1);
        let reported = |key: &&Tuple4| counts.get(key).is_some_and(|&count| count >= min);
        let found = attack.iter().filter(reported).count();
        let victim = counts.get(&scene.victim).copied().unwrap_or(0) as f64 / scene.sizes[&scene.victim] as f64;
        Damage { hidden: 1.0 - found as f64 / attack.len() as f64, victim }
    }
}

/// The honest traffic.
struct Scene {
    honest: Vec<Tuple4>,
    sizes: KeyMap<u64>,
    /// Its heaviest flow.
    victim: Tuple4,
    packets_each: usize,
}

impl Scene {
    fn new(workload: Workload, packets_each: usize) -> Self {
        let trace = workload.generate();
        let tuple = |&flow: &u32| trace.workload.tuple(flow).v4().expect("a workload without IPv6");
        let honest: Vec<_> = trace.sequence.iter().map(tuple).collect();
        let mut sizes = KeyMap::default();
        honest.iter().for_each(|&key| *sizes.entry(key).or_insert(0u64) += 1);
        let victim = sizes.iter().max_by_key(|&(key, &size)| (size, key.0)).map_or(Tuple4(0), |(&key, _)| key);
        Self { honest, sizes, victim, packets_each }
    }

    /// Flows that the honest traffic has not, otherwise at random.
    fn strangers(&self, n: usize) -> Vec<Tuple4> {
        let mut random = Random(7);
        std::iter::repeat_with(|| Tuple4(random.bits() << FREE.start & mask() | 17))
            .filter(|key| !self.sizes.contains_key(key))
            .take(n)
            .collect()
    }

    /// Flows that have every slot in common with the victim.
    fn collisions(&self, hashes: &[SlotHash], n: usize) -> Result<Vec<Tuple4>> {
        let Tuple4(victim) = self.victim;
        let flips = kernel(|flip| {
            let slots = |key| hashes.iter().map(move |hash| hash.slot(Tuple4(key)).0);
            slots(victim).zip(slots(victim ^ flip)).map(|(a, b)| a ^ b).collect()
        });
        let equations: u32 = hashes.iter().map(SlotHash::bits).sum();
        let count = 1u128.checked_shl(flips.len() as u32).unwrap_or(u128::MAX);
        ensure!(
            count > 2 * n as u128,
            "{equations} equations in {} bits leave {} flows that collide in all stages: too few to hide {n}",
            FREE.len(),
            count - 1
        );
        let mut random = Random(11);
        let mut flows = Vec::new();
        while flows.len() < n {
            let chosen = random.bits();
            let flip =
                flips.iter().enumerate().filter(|(i, _)| chosen >> i & 1 == 1).fold(0, |sum, (_, flip)| sum ^ flip);
            let key = Tuple4(victim ^ flip);
            if !self.sizes.contains_key(&key) && !flows.contains(&key) {
                flows.push(key);
            }
        }
        Ok(flows)
    }
}

fn mask() -> u128 {
    (1 << FREE.end) - (1 << FREE.start)
}

/// A basis of the flips of free bits that change nothing: Gauss over GF(2). `change` is what a flip
/// changes, a linear map.
fn kernel(change: impl Fn(u128) -> Vec<u32>) -> Vec<u128> {
    let mut rows: Vec<(Vec<u32>, u128)> = FREE.map(|bit| (change(1 << bit), 1 << bit)).collect();
    let mut basis = Vec::new();
    while let Some((image, flip)) = rows.pop() {
        let Some(word) = image.iter().position(|&word| word != 0) else {
            basis.push(flip);
            continue;
        };
        let bit = image[word].trailing_zeros();
        for (other, others) in rows.iter_mut().filter(|(other, _)| other[word] >> bit & 1 == 1) {
            other.iter_mut().zip(&image).for_each(|(a, b)| *a ^= b);
            *others ^= flip;
        }
    }
    basis
}

/// SplitMix64, so that the crafted flows are the same each time.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u128 {
        let mut word = || {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            u128::from(z ^ (z >> 31))
        };
        word() << 64 | word()
    }
}

/// Mean and range in per cent.
fn spread(values: impl Iterator<Item = f64>) -> String {
    let values: Vec<f64> = values.map(|value| value * 100.0).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let (min, max) = values.iter().fold((f64::MAX, f64::MIN), |(a, b), &v| (a.min(v), b.max(v)));
    match values.len() {
        1 => format!("{mean:.1} %"),
        n => format!("{mean:.1} % ({min:.1}–{max:.1}, {n} draws)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Attack {
        Attack { hidden: 40, share: 0.002, stages: 6, slots: 1024, packets: 100_000, flows: 4000, draws: 3 }
    }

    #[test]
    fn crafted_flows_share_every_slot() {
        let (attack, scene) = (small(), small().scene().unwrap());
        let hashes = attack.hashes(&HashFamily::reproducible(KNOWN)).unwrap();
        let flows = scene.collisions(&hashes, 40).unwrap();
        for (i, flow) in flows.iter().enumerate() {
            assert!(!flows[..i].contains(flow) && *flow != scene.victim);
            assert!(hashes.iter().all(|hash| hash.slot(*flow) == hash.slot(scene.victim)));
        }
    }

    #[test]
    fn known_polynomials_hide_what_secret_ones_show() {
        let (attack, scene) = (small(), small().scene().unwrap());
        let known = HashFamily::reproducible(KNOWN);
        let crafted = scene.collisions(&attack.hashes(&known).unwrap(), 40).unwrap();
        let hit = attack.damage(&scene, &crafted, &known);
        let missed = attack.damage(&scene, &crafted, &HashFamily::reproducible(2));
        let nothing = attack.damage(&scene, &scene.strangers(40), &known);
        assert!(hit.hidden > 0.8, "{hit:?}");
        assert!(missed.hidden < 0.1 && missed.victim > 0.9, "{missed:?}");
        assert!(nothing.hidden < 0.1 && nothing.victim > 0.9, "{nothing:?}");
    }

    #[test]
    fn too_many_equations_leave_no_flows() {
        let attack = Attack { slots: 1 << 17, ..small() };
        let scene = attack.scene().unwrap();
        let hashes = attack.hashes(&HashFamily::reproducible(KNOWN)).unwrap();
        let error = scene.collisions(&hashes, 40).unwrap_err().to_string();
        assert!(error.starts_with("102 equations in 96 bits leave 0 flows"), "{error}");
    }
}
