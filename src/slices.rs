//! Long work in slices: a thread that has much to do at once rests in between.
//!
//! Where all CPUs are busy, the kernel lets a thread run for a tick or two, 4 to 8 ms, before another
//! has its turn. For so long a packet waits when the other one is its host. After a rest the kernel
//! lets the thread go on at once, as long as it takes less than its share of the CPU.

use std::cell::RefCell;
use std::thread;
use std::time::{Duration, Instant};

/// The longest that a thread works without a rest, as far as it [asks](check) often enough.
const SLICE: Duration = Duration::from_micros(200);
const REST: Duration = Duration::from_micros(200);
/// Rests in one go: 20 ms, so that an answer is hardly later for them.
const RESTS: u32 = 100;

thread_local! {
    static SLICES: RefCell<Option<Slices>> = const { RefCell::new(None) };
}

struct Slices {
    /// When the running slice began.
    began: Instant,
    rests: u32,
    has_time: Box<dyn Fn() -> bool>,
}

/// Lets this thread do what comes now in slices, and rest as long as `has_time`.
pub fn begin(has_time: impl Fn() -> bool + 'static) {
    let slices = Slices { began: Instant::now(), rests: RESTS, has_time: Box::new(has_time) };
    SLICES.with(|own| *own.borrow_mut() = Some(slices));
}

/// Rests if the thread works in slices and its slice is over. To be asked at least every hundred
/// microseconds of work.
#[inline]
pub fn check() {
    SLICES.with(|own| own.borrow_mut().as_mut().map_or((), Slices::check));
}

impl Slices {
    fn check(&mut self) {
        if self.rests > 0 && self.began.elapsed() >= SLICE && (self.has_time)() {
            thread::sleep(REST);
            (self.began, self.rests) = (Instant::now(), self.rests - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rests since `begin`.
    fn rests() -> Option<u32> {
        SLICES.with(|own| own.borrow().as_ref().map(|slices| RESTS - slices.rests))
    }

    fn work(length: Duration) {
        let began = Instant::now();
        while began.elapsed() < length {
            check();
        }
    }

    #[test]
    fn a_thread_rests_after_each_slice() {
        work(3 * SLICE);
        assert_eq!(rests(), None, "nobody asked for slices");
        begin(|| true);
        assert_eq!(rests(), Some(0));
        work(10 * (SLICE + REST));
        let some = rests().unwrap();
        assert!((1..=10).contains(&some), "{some}");
        while rests() < Some(RESTS) {
            check();
        }
        work(3 * SLICE);
        assert_eq!(rests(), Some(RESTS), "no more in one go");
        begin(|| false);
        work(3 * SLICE);
        assert_eq!(rests(), Some(0), "no time");
    }
}
