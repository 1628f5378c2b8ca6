//! Work on a burst, compiled for the CPU that runs it.
//!
//! The crate is compiled for any x86-64. Work that is called through here is compiled once more
//! with AVX2, BMI and MOVBE (the level called x86-64-v3), and runs so on a CPU that has these, which
//! most have. What it computes is the same.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use super::cpu::{self, Instructions};

/// Work on a burst. It and what it calls are `#[inline(always)]`: only what is compiled into the
/// function that may use the instructions does.
pub trait Wide {
    fn run(self);
}

/// Runs the work in the form for this CPU.
#[inline(always)]
pub fn wide(work: impl Wide) {
    #[cfg(target_arch = "x86_64")]
    if cpu::uses(Instructions::Avx2) {
        // SAFETY: the CPU has the instructions.
        return unsafe { v3(work) };
    }
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe")]
fn v3(work: impl Wide) {
    work.run();
}
