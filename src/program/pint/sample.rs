//! Which packets a sink reports, and which of a flow a record keeps, when there is no room for all:
//! a share of them, chosen by a hash, so that those of the whole epoch have the same chance.

use super::hashes;
use super::record::Arrival;
use crate::pisa::ReportUse;
use crate::pisa::hash::burst::{BurstGlobal, Words};
use crate::pisa::hash::{Addends, Global, HashFamily};
use crate::program::{ReportBuffer, Reports};

/// The share of the packets of an epoch that is reported.
#[derive(Debug)]
pub struct Sample {
    hash: Global,
    /// The same for bursts, on CPUs that have such a form.
    burst: Option<BurstGlobal>,
    argument: Addends,
    /// The largest hash of packets that are reported.
    limit: u32,
}

impl Sample {
    pub fn new(family: &HashFamily) -> Self {
        let hash = Global::of(&hashes::sample(), family);
        let argument = hash.argument(&[0; 4]);
        Self { burst: BurstGlobal::new(&hash), hash, argument, limit: u32::MAX }
    }

    /// Halves the share; false when there is nothing left to halve.
    pub fn halve(&mut self) -> bool {
        let halved = self.limit > 0;
        self.limit >>= 1;
        halved
    }

    /// How often the share was halved.
    pub fn halvings(&self) -> u8 {
        self.limit.leading_zeros() as u8
    }

    /// The largest hash of packets that belong to a share that was halved so often, at most 32
    /// times.
    pub fn limit(halvings: u8) -> u32 {
        u32::MAX.checked_shr(halvings.into()).unwrap_or(0)
    }

    /// Whether a packet belongs to the share.
    pub fn has(&self, identity: u32) -> bool {
        self.hash_of(identity) <= self.limit
    }

    /// The hash of a packet, which is another one for each identity: it belongs to the share if this is
    /// no larger than the limit.
    #[inline(always)]
    pub fn hash_of(&self, identity: u32) -> u32 {
        self.hash.join(identity, self.argument)
    }

    /// Which of the first `number` packets of a burst belong to the share, a bit each. `None` where the
    /// CPU has no form for bursts.
    #[inline(always)]
    pub fn of_burst(&self, identities: &Words, number: usize) -> Option<u64> {
        Some(self.burst.as_ref()?.at_most(identities, number, self.argument, self.limit))
    }
}

/// Reports that are looked at for each further one while a share is halved. Half of them go, so
/// the buffer empties faster than it fills.
const LOOKED_AT: usize = 4;

/// Places of a buffer with this room: more, for the packets that come while a share is halved.
fn places(room: u32) -> u32 {
    if room == 0 { 0 } else { room.saturating_add(room / 4 + 16) }
}

/// The reports of one replica, in its bank. When they are as many as there is room for, the share is
/// halved, and packets that belong to it no more are taken out a few at a time.
#[derive(Debug)]
pub struct Sampled {
    /// With places beyond `room`, for the packets that come while a share is halved.
    reports: ReportBuffer<Arrival>,
    room: usize,
    sample: Sample,
    /// Reports before this place belong to the share; `None` when all do.
    looked_at: Option<usize>,
}

impl Sampled {
    /// Room for this number of reports.
    pub fn new(family: &HashFamily, room: usize) -> Self {
        let reports = ReportBuffer::with_capacity(places(room as u32) as usize);
        Self { reports, room, sample: Sample::new(family), looked_at: None }
    }

    /// Reports for which memory is taken.
    #[cfg(test)]
    pub fn places(&self) -> usize {
        self.reports.places()
    }

    /// What the budget says of room for this number.
    pub fn usage(room: u32) -> ReportUse {
        ReportBuffer::<Arrival>::usage(places(room))
    }

    /// Keeps a report while there is room. Then the share is halved as often as it takes, and what
    /// does not belong to it is counted.
    #[inline(always)]
    pub fn report(&mut self, arrival: Arrival) {
        if !self.selects_within(0) {
            self.reports.push(arrival);
        } else if self.sample.has(arrival.identity) {
            self.select(arrival);
        } else {
            self.miss(1);
        }
    }

    /// Counts packets that belong to the share no more.
    #[inline(always)]
    pub fn miss(&mut self, packets: u32) {
        self.reports.miss_many(packets.into());
    }

    /// Whether packets may have to be chosen, with this number of further ones.
    #[inline(always)]
    fn selects_within(&self, packets: usize) -> bool {
        self.sample.limit < u32::MAX || self.reports.len() + packets >= self.room
    }

    /// What chooses among this number of further packets, if they may have to be chosen.
    #[inline(always)]
    pub fn chooses_within(&self, packets: usize) -> Option<&Sample> {
        self.selects_within(packets).then_some(&self.sample)
    }

    /// As [`Self::report`], of a packet that belongs to the share. Only these look for reports that do
    /// not: others take no room.
    #[inline(never)]
    fn select(&mut self, arrival: Arrival) {
        (0..LOOKED_AT).for_each(|_| self.look());
        let is_full = self.looked_at.is_none() && self.reports.len() >= self.room;
        if is_full && self.sample.halve() {
            self.looked_at = Some(0);
        }
        if self.sample.has(arrival.identity) { self.reports.push(arrival) } else { self.miss(1) }
    }

    /// Takes the next report out if it does not belong to the share.
    fn look(&mut self) {
        let Some(place) = self.looked_at else { return };
        match self.reports.get(place) {
            Some(report) if self.sample.has(report.identity) => self.looked_at = Some(place + 1),
            Some(_) => self.reports.remove(place),
            None => self.looked_at = None,
        }
    }

    /// The reports as a part of a record, and how often their share was halved. The share is that
    /// which all packets of the replica give: the largest for which there is room.
    pub fn read(&self) -> (Reports<Arrival>, u8) {
        let mut reports = self.reports.read();
        let mut limit = self.sample.limit;
        loop {
            reports.keep(|report| self.sample.hash_of(report.identity) <= limit);
            if reports.kept().len() <= self.room || limit == 0 {
                break;
            }
            limit >>= 1;
        }
        reports.truncate(self.room);
        (reports, limit.leading_zeros() as u8)
    }

    /// All packets are reported again.
    pub fn clear(&mut self) {
        self.reports.clear();
        self.sample.limit = u32::MAX;
        self.looked_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::FiveTuple;

    fn arrival(identity: u32) -> Arrival {
        Arrival { time_ns: identity.into(), plan: 0, flow: FiveTuple([0; 5]), hops: 1, identity, digest: 0 }
    }

    /// A packet costs a few looks, however full the buffer is, nothing is allocated, and in the end
    /// the share is the largest that fits: the same as of one that looks at all at once.
    #[test]
    fn halving_costs_little_at_a_time() {
        let family = HashFamily::reproducible(2);
        let whole = &Sample::new(&family);
        for (room, numbers) in [(1, 50), (100, 1000), (1000, 1200), (1000, 100_000), (16_384, 70_000)] {
            let mut sampled = Sampled::new(&family, room);
            let places = room + room / 4 + 16;
            for identity in 0..numbers {
                let before = sampled.reports.len();
                sampled.report(arrival(identity));
                let after = sampled.reports.len();
                assert!(after + LOOKED_AT >= before && after <= places, "{before} and {after} of {room}");
            }
            let (read, halvings) = sampled.read();
            let of = move |limit: u32| (0..numbers).filter(move |identity| whole.hash_of(*identity) <= limit);
            let limit = (0..32).map(|halvings| u32::MAX >> halvings).find(|limit| of(*limit).count() <= room).unwrap();
            assert!(read.kept().iter().map(|report| report.identity).eq(of(limit)), "{room} of {numbers}");
            assert_eq!(Sample::limit(halvings), limit);
            assert_eq!(read.kept().len() as u64 + read.overflow(), u64::from(numbers));
            sampled.clear();
            assert_eq!(sampled.read().0.overflow(), 0);
        }
    }

    /// Packets of one identity cannot be halved; they take no more room, and are counted.
    #[test]
    fn equal_packets_are_bounded() {
        let mut sampled = Sampled::new(&HashFamily::reproducible(2), 50);
        (0..10_000).for_each(|_| sampled.report(arrival(7)));
        let (read, _) = sampled.read();
        assert!(read.kept().len() <= 50);
        assert_eq!(read.kept().len() as u64 + read.overflow(), 10_000);
    }
}
