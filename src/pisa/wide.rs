//! Work on a burst, compiled for the CPU that runs it.
//!
//! The crate is compiled for any x86-64. Work that is called through here is compiled twice more,
//! with AVX2, BMI and MOVBE (the level called x86-64-v3), which most CPUs have, and with AVX-512,
//! GFNI and VPCLMULQDQ beside these. It runs in the last form for which the CPU has the
//! instructions. What it computes is the same.

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
    if cpu::uses(Instructions::Avx512) {
        // SAFETY: the CPU has the instructions.
        return unsafe { v4(work) };
    }
    wide_to_avx2(work);
}

/// As [`wide`], without the form for AVX-512. In that form a compiler takes a loop over what lies
/// far apart, such as frames, through several at a time, and loads and stores them one by one all
/// the same.
#[inline(always)]
pub fn wide_to_avx2(work: impl Wide) {
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

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe,pclmulqdq")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni,vpclmulqdq")]
fn v4(work: impl Wide) {
    work.run();
}
