//! Stages without memory: hashes, look-ups and actions in the middle of a chain.

use super::{AccessTrace, ArrayCells, BATCH, Banked, Members, Pipeline, Probe, Slot, StageUse};

/// What a stage without memory computes: a field of the PHV from other fields, by hash units, tables and
/// actions. It declares what it takes of the hardware beside ([`Step::new`]).
///
/// `Copy` keeps it from carrying memory of its own: what it holds are constants.
pub trait Compute: Copy + Send + 'static {
    /// The PHV as this program sees it.
    type Phv;

    fn compute(&self, phv: &mut Self::Phv);

    /// What was computed as a person reads it, for traces.
    fn describe(&self, phv: &Self::Phv) -> String;
}

/// A stage that computes and has no registers.
#[derive(Clone, Debug)]
pub struct Step<C> {
    usage: StageUse,
    compute: C,
}

impl<C: Compute> Step<C> {
    /// `name` is the step's in traces. `usage` are the hashes, matches and look-ups that it takes; one
    /// that takes none has actions alone, and is a stage as well.
    pub fn new(name: &'static str, compute: C, usage: StageUse) -> Self {
        Self { usage: StageUse { step: Some(name), ..usage }, compute }
    }
}

impl<C: Compute> Pipeline<C::Phv> for Step<C> {
    #[inline(always)]
    fn packet(&mut self, phv: &mut C::Phv) {
        self.compute.compute(phv);
    }

    fn trace(&mut self, phv: &mut C::Phv, probe: &mut dyn Probe) {
        probe.stage();
        self.compute.compute(phv);
        let (array, computed) = (self.usage.step.unwrap_or_default().into(), Some(self.compute.describe(phv)));
        probe.access(AccessTrace { array, computed, ..AccessTrace::default() });
    }

    #[inline(always)]
    fn batch(&mut self, phvs: &mut [C::Phv], members: &mut Members, _: &mut [Slot; BATCH]) {
        let compute = self.compute;
        members.each(phvs, |_, phv| compute.compute(phv));
    }

    fn usage(&self, stages: &mut Vec<StageUse>) {
        stages.push(self.usage.clone());
    }
}

/// It has no registers to swap.
impl<C> Banked for Step<C> {
    type Bank = ();

    fn zeroed(&self) {}

    fn exchange(&mut self, (): &mut ()) {}

    fn clear((): &mut ()) {}

    fn read((): &(), _: &mut Vec<ArrayCells>) {}
}
