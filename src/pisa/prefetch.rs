//! Cells that are to be touched soon, asked for in time.

#![allow(unsafe_code)]

/// Asks the CPU for the cache lines of a cell. An index past the end asks for nothing that matters.
#[inline(always)]
pub(super) fn prefetch<C>(cells: &[C], at: u32) {
    let cell = cells.as_ptr().wrapping_add(at as usize).cast::<i8>();
    line(cell);
    if !LINE.is_multiple_of(size_of::<C>().max(1)) {
        // It may lie on two lines.
        line(cell.wrapping_add(size_of::<C>() - 1));
    }
}

/// Length of a cache line in bytes.
const LINE: usize = 64;

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn line(address: *const i8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads and writes nothing that a program sees, and the CPU ignores one of an
    // address that is not mapped.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn line(_: *const i8) {}
