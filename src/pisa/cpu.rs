//! What weir uses of its CPU. The crate is compiled for any x86-64; some work has further forms for
//! CPUs with more instructions, which compute the same.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use clap::ValueEnum;

/// Sets of instructions, each beside those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Instructions {
    /// Those of any x86-64, or of another CPU.
    Portable,
    /// Carry-less multiplication: PCLMULQDQ.
    Clmul,
    /// AVX2, BMI and MOVBE, the level called x86-64-v3.
    Avx2,
    /// AVX-512, GFNI and VPCLMULQDQ.
    Avx512,
}

/// The most that is used.
static LIMIT: AtomicU8 = AtomicU8::new(Instructions::Avx512 as u8);

/// Uses no more than these, so that the forms for other CPUs can be compared on this one. To be called
/// before a switch is made: what it was made with stays.
pub fn limit(instructions: Instructions) {
    LIMIT.store(instructions as u8, Relaxed);
}

/// The most that the CPU has, or [`UNKNOWN`].
static LEVEL: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = u8::MAX;

/// Whether these are used: the CPU has them, and no limit is in the way.
#[inline(always)]
pub(crate) fn uses(instructions: Instructions) -> bool {
    allows(LIMIT.load(Relaxed), instructions) && allows(level(), instructions)
}

#[inline(always)]
fn allows(limit: u8, instructions: Instructions) -> bool {
    limit >= instructions as u8
}

#[inline(always)]
fn level() -> u8 {
    match LEVEL.load(Relaxed) {
        UNKNOWN => find_level(),
        level => level,
    }
}

#[cold]
fn find_level() -> u8 {
    let levels = Instructions::value_variants().iter().take_while(|level| has(**level));
    let level = levels.last().map_or(0, |level| *level as u8);
    LEVEL.store(level, Relaxed);
    level
}

/// The unsafe blocks of `wide.rs`, `vectors.rs` and `hash/simd.rs` rest on it: each level has all
/// features that the functions of that level are compiled with, and all levels below it.
#[cfg(target_arch = "x86_64")]
fn has(instructions: Instructions) -> bool {
    match instructions {
        Instructions::Portable => true,
        Instructions::Clmul => is_x86_feature_detected!("pclmulqdq"),
        Instructions::Avx2 => {
            is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("movbe")
        }
        Instructions::Avx512 => {
            is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vbmi")
                && is_x86_feature_detected!("gfni")
                && is_x86_feature_detected!("vpclmulqdq")
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn has(instructions: Instructions) -> bool {
    instructions == Instructions::Portable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_takes_away_what_is_beyond_it() {
        let levels = Instructions::value_variants();
        for (i, limit) in levels.iter().enumerate() {
            let allowed: Vec<_> = levels.iter().filter(|level| allows(*limit as u8, **level)).collect();
            assert_eq!(allowed, levels[..=i].iter().collect::<Vec<_>>());
        }
    }
}
