//! Sleeping for a while, or until a packet socket has something to read.

use std::{os::fd::RawFd, time::Duration};

/// Descriptors that can end a sleep. The caller keeps them open.
#[derive(Debug, Default)]
pub struct Waiting(Vec<libc::pollfd>);

impl Waiting {
    /// With room for this many descriptors.
    pub fn with_capacity(descriptors: usize) -> Self {
        Self(Vec::with_capacity(descriptors))
    }

    /// Names the descriptors, in place of the earlier ones.
    pub fn watch(&mut self, descriptors: impl Iterator<Item = RawFd>) {
        self.0.clear();
        self.0.extend(descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Sleeps until one of the descriptors can be read or has an error, or for this long. Whether
    /// one ended the sleep.
    pub fn wait(&mut self, longest: Duration) -> bool {
        poll(&mut self.0, longest)
    }

    /// Sleeps for this long, without regard to the descriptors.
    pub fn sleep(&mut self, length: Duration) {
        poll(&mut [], length);
    }
}

fn poll(descriptors: &mut [libc::pollfd], longest: Duration) -> bool {
    let timeout = libc::timespec {
        tv_sec: longest.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: longest.subsec_nanos().into(),
    };
    let count = descriptors.len() as libc::nfds_t;
    // SAFETY: an array of `count` structures, to which the call writes its results, and a time;
    // null leaves the signal mask as it is. A descriptor that is not open is no more than reported.
    unsafe { libc::ppoll(descriptors.as_mut_ptr(), count, &timeout, std::ptr::null()) > 0 }
}

/// Lets the calling thread's sleeps end within a microsecond of their time; the kernel's own habit
/// is 50.
pub fn sleep_precisely() {
    // SAFETY: takes one integer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000 as libc::c_ulong) };
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_descriptor_ends_the_sleep() {
        let (mut writer, reader) = UnixStream::pair().unwrap();
        let mut waiting = Waiting::with_capacity(1);
        waiting.watch([reader.as_raw_fd()].into_iter());
        assert_eq!(waiting.len(), 1);
        assert!(!waiting.wait(Duration::from_millis(1)), "there is nothing to read");
        writer.write_all(b"x").unwrap();
        assert!(waiting.wait(Duration::from_secs(3600)));
        waiting.sleep(Duration::from_millis(1));
    }
}
