//! A program that is one chain of ingress stages: its dataplane and its bank follow from the chain.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use arrayvec::ArrayVec;

use super::{AnyRecord, Bank, Dataplane, Record};
use crate::pisa::{BATCH, Banked, BatchOrder, Phv, Pipeline, Probe, ProgramUse, StageUse};

/// Makes a record of all registers.
type ReadOut<M> = dyn Fn(&M) -> AnyRecord + Send + Sync;

/// A replica of a program that is one chain of ingress stages over packets `V`.
pub struct Staged<V, P: Banked, E> {
    program: &'static str,
    hashing: Vec<StageUse>,
    stages: P,
    enter: E,
    read_out: Arc<ReadOut<P::Bank>>,
    packets: PhantomData<fn(V)>,
}

impl<V, P: Pipeline<V> + Banked, E: Fn(&Phv) -> Option<V>> Staged<V, P, E> {
    /// `hashing` is what stands in front of `stages` and computes their slots, `enter` makes of a
    /// packet what the stages see, or `None` when it is not measured, and `read_out` makes a record
    /// of the registers of an epoch.
    pub fn new<R: Record>(
        program: &'static str,
        hashing: Vec<StageUse>,
        stages: P,
        enter: E,
        read_out: impl Fn(&P::Bank) -> R + Send + Sync + 'static,
    ) -> Self {
        let read_out = Arc::new(move |bank: &P::Bank| Box::new(read_out(bank)) as AnyRecord);
        Self { program, hashing, stages, enter, read_out, packets: PhantomData }
    }
}

impl<V: 'static, P, E> Dataplane for Staged<V, P, E>
where
    P: Pipeline<V> + Banked + Send + 'static,
    E: Fn(&Phv) -> Option<V> + Send,
{
    #[inline(always)]
    fn ingress(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        for phvs in phvs.chunks(BATCH) {
            let mut packets: ArrayVec<V, BATCH> = phvs.iter().filter_map(|phv| (self.enter)(phv)).collect();
            self.stages.run(&mut packets, order);
        }
    }

    fn trace(&mut self, phv: &mut Phv, probe: &mut dyn Probe) {
        if let Some(mut packet) = (self.enter)(phv) {
            self.stages.trace(&mut packet, probe);
        }
    }

    fn spare(&self) -> Box<dyn Bank> {
        Box::new(StagedBank::<P> { registers: self.stages.zeroed(), read_out: self.read_out.clone() })
    }

    fn exchange(&mut self, spare: &mut dyn Bank) {
        if let Some(spare) = (spare as &mut dyn Any).downcast_mut::<StagedBank<P>>() {
            self.stages.exchange(&mut spare.registers);
        }
    }

    fn usage(&self) -> ProgramUse {
        let mut stages = self.hashing.clone();
        self.stages.usage(&mut stages);
        ProgramUse { program: self.program, chains: vec![stages], reports: Vec::new() }
    }
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
}
