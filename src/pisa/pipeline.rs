//! Stages in order, and the two orders in which a burst may run through them.
//!
//! No stage can reach another stage's memory, and the packets of a burst keep their order within a
//! stage, so running a burst stage by stage leaves the same registers and PHVs, bit for bit, as
//! packet by packet. `tests/pisa_order.rs` holds the two equal for random programs.

use super::members::in_fours;
use super::registers::Alu;
use super::{Array, BATCH, Members, Pairs, Probe, Salu, Slot, StageUse};

/// Which loop is the outer one. The results are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchOrder {
    /// The one that takes the program less time: stage by stage, unless it knows better.
    #[default]
    Fastest,
    /// Each packet through all stages, then the next packet.
    PacketMajor,
    /// The whole burst through a stage, then the next stage. A stage's loop is short, and the cells of
    /// many packets are on their way at once.
    StageMajor,
}

/// A stretch of the pipeline: one stage or several in order.
pub trait Pipeline<V> {
    /// Takes one packet through.
    fn packet(&mut self, phv: &mut V);
    /// Takes one packet through and tells of each step, also of the stages that have no more to do
    /// with it.
    fn trace(&mut self, phv: &mut V, probe: &mut dyn Probe);
    /// Takes the members of a batch through, stage by stage, and leaves those that have not ended.
    /// `slots` are of no meaning before and after.
    fn batch(&mut self, phvs: &mut [V], members: &mut Members, slots: &mut [Slot; BATCH]);
    /// Adds what each stage uses, in order.
    fn usage(&self, stages: &mut Vec<StageUse>);

    /// Whether nothing of this kind has any more to do with the packet.
    #[inline(always)]
    fn ended(_phv: &V) -> bool {
        false
    }

    #[inline(always)]
    fn run(&mut self, phvs: &mut [V], order: BatchOrder) {
        match order {
            BatchOrder::PacketMajor => {
                for phv in phvs {
                    self.packet(phv);
                }
            }
            BatchOrder::StageMajor | BatchOrder::Fastest => {
                let mut slots = [Slot(0); BATCH];
                for batch in phvs.chunks_mut(BATCH) {
                    self.batch(batch, &mut Members::all(batch.len()), &mut slots);
                }
            }
        }
    }
}

/// One stage: an [`Array`], an [`ArrayGroup`](super::ArrayGroup), or several of these side by side, as
/// a tuple of different kinds or a vector of one kind, whose number is known when the switch is built.
///
/// All of them see the PHV as it entered the stage. What they give the packet to take along is written
/// behind that, in their order. The budget counts them in one logical stage, and spreads them over
/// several stages of a chip where one has too few stateful ALUs.
///
/// ```
/// use weir::pisa::{Array, Pipeline, Salu, Slot, Stage};
///
/// #[derive(Clone, Copy)]
/// struct Count(usize);
///
/// impl Salu for Count {
///     type Phv = [u32; 2];
///     type Cell = u32;
///     type Out = u32;
///
///     fn slot(&self, phv: &[u32; 2]) -> Slot {
///         Slot(phv[self.0])
///     }
///
///     fn rmw(&self, count: u32, _: &[u32; 2]) -> (u32, u32) {
///         (count + 1, count + 1)
///     }
///
///     fn commit(&self, count: u32, phv: &mut [u32; 2]) {
///         phv[self.0] = count;
///     }
/// }
///
/// let row = |row| Array::new("counts", Count(row), 8);
/// let mut stage = Stage(vec![row(0), row(1)]);
/// let mut phv = [3, 5];
/// stage.packet(&mut phv);
/// assert_eq!(phv, [1, 1]);
/// assert_eq!(stage.0[1].registers().cells()[5], 1);
/// ```
#[derive(Clone, Debug)]
pub struct Stage<A>(pub A);

impl<S: Salu> Pipeline<S::Phv> for Stage<Array<S>> {
    #[inline(always)]
    fn packet(&mut self, phv: &mut S::Phv) {
        self.0.alu().packet(phv);
    }

    fn trace(&mut self, phv: &mut S::Phv, probe: &mut dyn Probe) {
        probe.stage();
        let out = self.0.traced(phv, probe);
        self.0.alu().commit(out, phv);
    }

    /// All slots first, so that they are hashed together and the cells are on their way; then the
    /// cells in packet order. A slot depends on the PHV alone, so it may be taken early.
    #[inline(always)]
    fn batch(&mut self, phvs: &mut [S::Phv], members: &mut Members, slots: &mut [Slot; BATCH]) {
        let mut alu = self.0.alu();
        if S::ALWAYS {
            let salu = *alu.salu;
            alu.salu = &salu;
            return members.each(phvs, |_, phv| alu.packet(phv));
        }
        let enabled = members.only(phvs, |phv| alu.salu.enabled(phv));
        alu.batch(phvs, &enabled, slots);
        *members = members.only(phvs, |phv| !S::ended(phv));
    }

    #[inline(always)]
    fn ended(phv: &S::Phv) -> bool {
        S::ended(phv)
    }

    fn usage(&self, stages: &mut Vec<StageUse>) {
        stages.push(StageUse::of(vec![self.0.usage()]));
    }
}

impl<S: Salu> Alu<'_, S> {
    /// Takes enabled packets through.
    #[inline(always)]
    fn batch(&mut self, phvs: &mut [S::Phv], enabled: &Members, slots: &mut [Slot; BATCH]) {
        let places = enabled.places();
        if enabled.len() == phvs.len() {
            self.salu.slots(phvs, slots);
        } else {
            for (slot, &place) in slots.iter_mut().zip(places) {
                if let Some(phv) = phvs.get(usize::from(place)) {
                    *slot = self.salu.slot(phv);
                }
            }
        }
        for slot in &slots[..places.len()] {
            self.prefetch(*slot);
        }
        for (&place, slot) in places.iter().zip(slots.iter()) {
            if let Some(phv) = phvs.get_mut(usize::from(place)) {
                let out = self.access_at(*slot, phv);
                self.commit(out, phv);
            }
        }
    }
}

impl<S: Salu> Stage<Array<S>> {
    /// Takes packets through whose slots are there already, one each, in order. The stateful ALU
    /// sees the same of all of them. Its outputs go into `outs`, where a packet that touches
    /// nothing leaves what is there.
    #[inline(always)]
    pub fn with_slots(&mut self, slots: &[Slot], phv: &S::Phv, outs: &mut [S::Out]) {
        const { assert!(S::ALWAYS) };
        let mut alu = self.0.alu();
        let salu = *alu.salu;
        alu.salu = &salu;
        in_fours(slots, outs, |slot, room| {
            if let Some(out) = alu.access_at(slot, phv) {
                *room = out;
            }
        });
    }
}

impl<S: Salu> Stage<Array<S>>
where
    S::Phv: Copy,
{
    /// Takes the first `len` packets of a batch through, none of which has ended, shows the output
    /// for each to `seen`, and moves those that have not ended to the front, in their order.
    /// Returns how many these are; what stands behind them is of no meaning. `slots` are of none
    /// before and after.
    ///
    /// The PHV of each packet is moved, whether the packet goes on or not, and only those that go
    /// on are counted: a branch on it could not be predicted. The next stage finds their PHVs side
    /// by side.
    #[inline(always)]
    pub fn sift(
        &mut self,
        phvs: &mut [S::Phv; BATCH],
        len: usize,
        slots: &mut [Slot; BATCH],
        mut seen: impl FnMut(usize, &S::Out),
    ) -> usize {
        const { assert!(S::UNTIL_END) };
        let mut alu = self.0.alu();
        let len = len.min(BATCH);
        match Pairs::here().filter(|_| S::PAIRS) {
            Some(pairs) => alu.sift(phvs, len, slots, &mut seen, |salu, cell, phv| salu.rmw_of_pairs(pairs, cell, phv)),
            None => alu.sift(phvs, len, slots, &mut seen, S::rmw),
        }
    }
}

impl<S: Salu> Alu<'_, S>
where
    S::Phv: Copy,
{
    /// See [`Stage::sift`].
    #[inline(always)]
    fn sift(
        &mut self,
        phvs: &mut [S::Phv; BATCH],
        len: usize,
        slots: &mut [Slot; BATCH],
        seen: &mut impl FnMut(usize, &S::Out),
        rmw: impl Fn(&S, S::Cell, &S::Phv) -> (S::Cell, S::Out),
    ) -> usize {
        self.salu.slots(&phvs[..len], slots);
        for slot in &slots[..len] {
            self.prefetch(*slot);
        }
        let mut left = 0;
        for at in 0..len {
            debug_assert!(self.salu.enabled(&phvs[at]), "a packet that is not enabled");
            let (phv, place) = (phvs[at], left % BATCH);
            // Asked in each case, so that it need not be read back: the next place depends on it.
            let ended = match self.access_by(slots[at], &phvs[at], &rmw) {
                Some(out) => {
                    seen(at, &out);
                    self.salu.pass_on(out, &phv, &mut phvs[place]);
                    S::ended(&phvs[place])
                }
                None => {
                    phvs[place] = phv;
                    S::ended(&phv)
                }
            };
            left += usize::from(!ended);
        }
        left
    }
}

impl<S: Salu> Repeat<Stage<Array<S>>>
where
    S::Phv: Copy,
{
    /// As [`Stage::sift`], through all stages in order.
    #[inline(always)]
    pub fn sift(&mut self, phvs: &mut [S::Phv; BATCH], mut len: usize, slots: &mut [Slot; BATCH]) -> usize {
        for stage in &mut self.0 {
            if len == 0 {
                break;
            }
            len = stage.sift(phvs, len, slots, |_, _| {});
        }
        len
    }
}

/// Stages of one kind, their number known when the switch is built.
#[derive(Clone, Debug)]
pub struct Repeat<P>(pub Vec<P>);

impl<V, P: Pipeline<V>> Pipeline<V> for Repeat<P> {
    #[inline(always)]
    fn packet(&mut self, phv: &mut V) {
        for stage in &mut self.0 {
            if P::ended(phv) {
                break;
            }
            stage.packet(phv);
        }
    }

    fn trace(&mut self, phv: &mut V, probe: &mut dyn Probe) {
        self.0.iter_mut().for_each(|stage| stage.trace(phv, probe));
    }

    #[inline(always)]
    fn batch(&mut self, phvs: &mut [V], members: &mut Members, slots: &mut [Slot; BATCH]) {
        for stage in &mut self.0 {
            if members.is_empty() {
                break;
            }
            stage.batch(phvs, members, slots);
        }
    }

    fn usage(&self, stages: &mut Vec<StageUse>) {
        self.0.iter().for_each(|stage| stage.usage(stages));
    }
}

/// One stretch behind another.
#[derive(Clone, Debug)]
pub struct Then<A, B>(pub A, pub B);

impl<V, A: Pipeline<V>, B: Pipeline<V>> Pipeline<V> for Then<A, B> {
    #[inline(always)]
    fn packet(&mut self, phv: &mut V) {
        self.0.packet(phv);
        self.1.packet(phv);
    }

    fn trace(&mut self, phv: &mut V, probe: &mut dyn Probe) {
        self.0.trace(phv, probe);
        self.1.trace(phv, probe);
    }

    #[inline(always)]
    fn batch(&mut self, phvs: &mut [V], members: &mut Members, slots: &mut [Slot; BATCH]) {
        self.0.batch(phvs, members, slots);
        self.1.batch(phvs, members, slots);
    }

    fn usage(&self, stages: &mut Vec<StageUse>) {
        self.0.usage(stages);
        self.1.usage(stages);
    }
}
