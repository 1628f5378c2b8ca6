//! Received frames by the epoch in which they were sent.

/// Epochs that are open at a time: frames may come in for three epochs after the one in which they
/// were sent.
pub const OPEN: u64 = 4;

/// The open epochs of a receiver, of each the frames that came by flow.
#[derive(Clone, Debug)]
pub struct ReceivedEpochs {
    /// The newest epoch.
    newest: u64,
    /// That of epoch e at place e modulo [`OPEN`].
    banks: [Box<[u32]>; OPEN as usize],
    /// Frames of epochs that were closed before they came.
    late: u64,
}

impl ReceivedEpochs {
    pub fn new(newest: u64, flows: u32) -> Self {
        Self { newest, banks: std::array::from_fn(|_| vec![0; flows as usize].into()), late: 0 }
    }

    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Counts a frame of a flow whose signature has these low bits of its epoch.
    #[inline(always)]
    pub fn take(&mut self, flow: u32, low: u8) {
        let age = u64::from((self.newest as u8).wrapping_sub(low));
        let bank = &mut self.banks[(self.newest.wrapping_sub(age) % OPEN) as usize];
        match bank.get_mut(flow as usize) {
            Some(count) if age < OPEN => *count += 1,
            _ => self.late += 1,
        }
    }

    /// Counts a frame that is older than all open epochs, whatever the low bits of its own say.
    pub fn take_late(&mut self) {
        self.late += 1;
    }

    /// Goes on with a later epoch when all banks are empty.
    pub fn jump(&mut self, newest: u64) {
        self.newest = self.newest.max(newest);
    }

    /// Whether these low bits are of an epoch that has just begun elsewhere.
    #[inline(always)]
    pub fn is_ahead(&self, low: u8) -> bool {
        low == (self.newest as u8).wrapping_add(1)
    }

    /// Begins the next epoch; `close` is handed the oldest one, with late frames until now, and
    /// gives an empty bank.
    pub fn advance(&mut self, close: impl FnOnce(u64, Box<[u32]>, u64) -> Box<[u32]>) {
        self.newest += 1;
        let place = (self.newest % OPEN) as usize;
        let full = std::mem::take(&mut self.banks[place]);
        self.banks[place] = close(self.newest.wrapping_sub(OPEN), full, std::mem::take(&mut self.late));
    }

    /// Closes the epochs that are left, the oldest first.
    pub fn finish(mut self, mut close: impl FnMut(u64, Box<[u32]>, u64)) {
        for _ in 0..OPEN {
            self.advance(|epoch, bank, late| {
                close(epoch, bank, late);
                Box::default()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_only_goes_ahead() {
        let mut epochs = ReceivedEpochs::new(1000, 1);
        epochs.jump(5000);
        epochs.jump(7);
        epochs.take(0, 5000u64 as u8);
        epochs.take_late();
        let mut closed = Vec::new();
        epochs.finish(|epoch, bank, late| closed.push((epoch, bank[0], late)));
        assert_eq!(closed, [(4997, 0, 1), (4998, 0, 0), (4999, 0, 0), (5000, 1, 0)]);
    }

    /// Each frame is with the epoch in which it was sent, or is late.
    #[test]
    fn frames_are_with_their_epochs() {
        let mut epochs = ReceivedEpochs::new(1000, 3);
        let mut closed = Vec::new();
        for now in 1000..1300u64 {
            for age in 0..6 {
                epochs.take(1, (now - age) as u8);
            }
            epochs.take(7, now as u8);
            assert!(epochs.is_ahead((now + 1) as u8) && !epochs.is_ahead(now as u8));
            epochs.advance(|epoch, bank, late| {
                closed.push((epoch, bank[1], late));
                vec![0; 3].into()
            });
        }
        epochs.finish(|epoch, bank, late| closed.push((epoch, bank.get(1).copied().unwrap_or(0), late)));
        // Two of each epoch are too late, and one is of no flow.
        let middle: Vec<_> = closed.iter().filter(|(epoch, ..)| (1000..1290).contains(epoch)).collect();
        assert_eq!(middle.len(), 290);
        assert!(middle.iter().all(|(_, count, late)| (*count, *late) == (4, 3)), "{middle:?}");
        assert!(closed.iter().map(|(epoch, ..)| *epoch).is_sorted());
    }
}
