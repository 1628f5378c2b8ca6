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
}

impl ReceivedEpochs {
    pub fn new(newest: u64, flows: u32) -> Self {
        Self { newest, banks: std::array::from_fn(|_| vec![0; flows as usize].into()) }
    }

    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Counts a frame of a flow whose signature has these low bits of its epoch. False, and not
    /// counted, if that is not open any more, or the flow is none.
    #[inline(always)]
    #[must_use]
    pub fn take(&mut self, flow: u32, low: u8) -> bool {
        let age = u64::from((self.newest as u8).wrapping_sub(low));
        let bank = &mut self.banks[(self.newest.wrapping_sub(age) % OPEN) as usize];
        match bank.get_mut(flow as usize) {
            Some(count) if age < OPEN => {
                *count += 1;
                true
            }
            _ => false,
        }
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

    /// Begins the next epoch; `close` is handed the oldest one, and gives an empty bank.
    pub fn advance(&mut self, close: impl FnOnce(u64, Box<[u32]>) -> Box<[u32]>) {
        self.newest += 1;
        let place = (self.newest % OPEN) as usize;
        let full = std::mem::take(&mut self.banks[place]);
        self.banks[place] = close(self.newest.wrapping_sub(OPEN), full);
    }

    /// Closes the epochs that are left, the oldest first.
    pub fn finish(mut self, mut close: impl FnMut(u64, Box<[u32]>)) {
        for _ in 0..OPEN {
            self.advance(|epoch, bank| {
                close(epoch, bank);
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
        assert!(epochs.take(0, 5000u64 as u8));
        let mut closed = Vec::new();
        epochs.finish(|epoch, bank| closed.push((epoch, bank[0])));
        assert_eq!(closed, [(4997, 0), (4998, 0), (4999, 0), (5000, 1)]);
    }

    /// Each frame is with the epoch in which it was sent, or is refused.
    #[test]
    fn frames_are_with_their_epochs() {
        let mut epochs = ReceivedEpochs::new(1000, 3);
        let mut closed = Vec::new();
        for now in 1000..1300u64 {
            for age in 0..6 {
                assert_eq!(epochs.take(1, (now - age) as u8), age < OPEN);
            }
            assert!(!epochs.take(7, now as u8), "no such flow");
            assert!(epochs.is_ahead((now + 1) as u8) && !epochs.is_ahead(now as u8));
            epochs.advance(|epoch, bank| {
                closed.push((epoch, bank[1]));
                vec![0; 3].into()
            });
        }
        epochs.finish(|epoch, bank| closed.push((epoch, bank.get(1).copied().unwrap_or(0))));
        let middle: Vec<_> = closed.iter().filter(|(epoch, _)| (1000..1290).contains(epoch)).collect();
        assert_eq!(middle.len(), 290);
        assert!(middle.iter().all(|(_, count)| *count == 4), "{middle:?}");
        assert!(closed.iter().map(|(epoch, ..)| *epoch).is_sorted());
    }
}
