//! A program that is one chain of ingress or egress stages: its dataplane and its bank follow from the chain.

use std::marker::PhantomData;
use std::sync::Arc;

use arrayvec::ArrayVec;

use super::{AnyRecord, Bank, Dataplane, Needs, Record};
use crate::pisa::{ArrayCells, BATCH, Banked, BatchOrder, Layout, Phv, Pipeline, Probe, Side, StageUse};

/// Makes a record of all registers.
type ReadOut<M> = dyn Fn(&M) -> AnyRecord + Send + Sync;

/// A replica of a program that is one chain of stages over packets `V`: ingress stages, unless
/// [`Self::at_egress`] says otherwise.
pub struct Staged<V, P: Banked, E> {
    program: &'static str,
    hashing: Vec<StageUse>,
    stages: P,
    enter: E,
    read_out: Arc<ReadOut<P::Bank>>,
    needs: Needs,
    packets: PhantomData<fn(V)>,
}

impl<V, P: Pipeline<V> + Banked, E: Fn(&Phv) -> Option<V>> Staged<V, P, E> {
    /// `hashing` is what stands in front of `stages` and computes their slots, `enter` makes of a
    /// packet what the stages see, or `None` when it is not measured, and `read_out` makes a record
    /// of the registers of an epoch.
    pub fn new<R: Record>(
        program: &'static str,
        hashing: impl Into<Vec<StageUse>>,
        stages: P,
        enter: E,
        read_out: impl Fn(&P::Bank) -> R + Send + Sync + 'static,
    ) -> Self {
        let read_out = Arc::new(move |bank: &P::Bank| Box::new(read_out(bank)) as AnyRecord);
        Self { program, hashing: hashing.into(), stages, enter, read_out, needs: Needs::NONE, packets: PhantomData }
    }

    /// What the stages need of the switch.
    #[must_use]
    pub fn with_needs(self, needs: Needs) -> Self {
        Self { needs: self.needs | needs, ..self }
    }

    /// Makes them egress stages, which see each packet that leaves by a port, with what else they
    /// need of the switch.
    #[must_use]
    pub fn at_egress(self, needs: Needs) -> Self {
        self.with_needs(needs | Needs::EGRESS)
    }
}

impl<V: 'static, P, E> Dataplane for Staged<V, P, E>
where
    P: Pipeline<V> + Banked + Send + 'static,
    E: Fn(&Phv) -> Option<V> + Send,
{
    #[inline(always)]
    fn ingress(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        if !self.is_at_egress() {
            self.run(phvs, order, |_| true);
        }
    }

    fn trace(&mut self, phv: &mut Phv, probe: &mut dyn Probe) {
        if !self.is_at_egress() {
            self.trace_through(phv, probe);
        }
    }

    fn needs(&self) -> Needs {
        self.needs
    }

    #[inline(always)]
    fn egress(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        if self.is_at_egress() {
            let needs = self.needs;
            self.run(phvs, order, |phv| sees(needs, phv));
        }
    }

    fn trace_egress(&mut self, phv: &mut Phv, probe: &mut dyn Probe) {
        if self.is_at_egress() && sees(self.needs, phv) {
            self.trace_through(phv, probe);
        }
    }

    fn spare(&self) -> Box<dyn Bank> {
        Box::new(StagedBank::<P> { registers: self.stages.zeroed(), read_out: self.read_out.clone() })
    }

    fn exchange(&mut self, spare: &mut dyn Bank) {
        if !self.is_at_egress() {
            self.exchange_all(spare);
        }
    }

    fn exchange_egress(&mut self, spare: &mut dyn Bank) {
        if self.is_at_egress() {
            self.exchange_all(spare);
        }
    }

    fn layout(&self) -> Layout {
        let mut stages = self.hashing.clone();
        self.stages.usage(&mut stages);
        let side = if self.is_at_egress() { Side::Egress } else { Side::Ingress };
        Layout::new(self.program).with(side, stages)
    }
}

impl<V: 'static, P, E> Staged<V, P, E>
where
    P: Pipeline<V> + Banked + Send + 'static,
    E: Fn(&Phv) -> Option<V> + Send,
{
    #[inline(always)]
    fn is_at_egress(&self) -> bool {
        self.needs.contains(Needs::EGRESS)
    }

    #[inline(always)]
    fn run(&mut self, phvs: &[Phv], order: BatchOrder, sees: impl Fn(&Phv) -> bool) {
        for phvs in phvs.chunks(BATCH) {
            let seen = phvs.iter().filter(|phv| sees(phv));
            let mut packets: ArrayVec<V, BATCH> = seen.filter_map(|phv| (self.enter)(phv)).collect();
            self.stages.run(&mut packets, order);
        }
    }

    fn trace_through(&mut self, phv: &Phv, probe: &mut dyn Probe) {
        if let Some(mut packet) = (self.enter)(phv) {
            self.stages.trace(&mut packet, probe);
        }
    }

    fn exchange_all(&mut self, spare: &mut dyn Bank) {
        if let Some(spare) = spare.get_mut::<StagedBank<P>>() {
            self.stages.exchange(&mut spare.registers);
        }
    }
}

/// Whether egress stages with these needs see a packet: other programs of the switch may be shown
/// packets that end in it.
#[inline(always)]
fn sees(needs: Needs, phv: &Phv) -> bool {
    phv.disposition.leaves() || needs.contains(Needs::ENDS)
}

/// The registers of a replica over one epoch.
struct StagedBank<P: Banked> {
    registers: P::Bank,
    read_out: Arc<ReadOut<P::Bank>>,
}

impl<P: Banked + 'static> Bank for StagedBank<P> {
    fn clear(&mut self) {
        P::clear(&mut self.registers);
    }

    fn record(&self) -> AnyRecord {
        (self.read_out)(&self.registers)
    }

    fn arrays(&self) -> Vec<ArrayCells> {
        let mut arrays = Vec::new();
        P::read(&self.registers, &mut arrays);
        arrays
    }
}
