//! Stages in order, and the two orders in which a burst may run through them.
//!
//! No stage can reach another stage's memory, and the packets of a burst keep their order within a stage, so running a
//! burst stage by stage leaves the same registers and PHVs, bit for bit, as packet by packet. `tests/pisa_order.rs`
//! holds the two equal for random programs.

use super::{Array, Salu, StageUse};

/// Which loop is the outer one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Each packet through all stages, then the next packet.
    #[default]
    PacketMajor,
    /// The whole burst through a stage, then the next stage.
    StageMajor,
}

/// A stretch of the pipeline: one stage or several in order.
pub trait Pipeline<V> {
    /// Takes one packet through.
    fn packet(&mut self, phv: &mut V);
    /// Takes a burst through, stage by stage.
    fn stages(&mut self, phvs: &mut [V]);
    /// Adds what each stage uses, in order.
    fn usage(&self, stages: &mut Vec<StageUse>);

    #[inline(always)]
    fn run(&mut self, phvs: &mut [V], order: Order) {
        match order {
            Order::PacketMajor => phvs.iter_mut().for_each(|phv| self.packet(phv)),
            Order::StageMajor => self.stages(phvs),
        }
    }
}

/// One stage: register arrays that work side by side on the PHV as it entered the stage.
#[derive(Clone, Debug)]
pub struct Stage<A>(pub A);

impl<S: Salu> Pipeline<S::Phv> for Stage<Array<S>> {
    #[inline(always)]
    fn packet(&mut self, phv: &mut S::Phv) {
        let out = self.0.access(phv);
        self.0.commit(out, phv);
    }

    /// Indices first, for as many packets as fit on the stack, so that their hashes overlap; then the cells in packet
    /// order. An index depends on the PHV alone, so it may be taken early.
    #[inline(always)]
    fn stages(&mut self, phvs: &mut [S::Phv]) {
        for chunk in phvs.chunks_mut(LOOKAHEAD) {
            let mut slots = [None; LOOKAHEAD];
            for (slot, phv) in slots.iter_mut().zip(chunk.iter()) {
                *slot = self.0.selected(phv);
            }
            for (slot, phv) in slots.iter().zip(chunk) {
                if let Some(slot) = *slot {
                    let out = self.0.access_at(slot, phv);
                    self.0.commit(out, phv);
                }
            }
        }
    }

    fn usage(&self, stages: &mut Vec<StageUse>) {
        stages.push(StageUse { arrays: vec![self.0.usage()] });
    }
}

/// Packets whose indices are taken ahead of their accesses in stage-major order.
const LOOKAHEAD: usize = 32;

macro_rules! stage_of_several {
    ($($s:ident $field:tt $out:ident),+) => {
        impl<V, $($s: Salu<Phv = V>),+> Pipeline<V> for Stage<($(Array<$s>,)+)> {
            #[inline(always)]
            fn packet(&mut self, phv: &mut V) {
                $(let $out = self.0.$field.access(phv);)+
                $(self.0.$field.commit($out, phv);)+
            }

            #[inline(always)]
            fn stages(&mut self, phvs: &mut [V]) {
                phvs.iter_mut().for_each(|phv| self.packet(phv));
            }

            fn usage(&self, stages: &mut Vec<StageUse>) {
                stages.push(StageUse { arrays: vec![$(self.0.$field.usage()),+] });
            }
        }
    };
}

stage_of_several!(A 0 a, B 1 b);
stage_of_several!(A 0 a, B 1 b, C 2 c);
stage_of_several!(A 0 a, B 1 b, C 2 c, D 3 d);

/// Stages of one kind, their number known when the switch is built.
#[derive(Clone, Debug)]
pub struct Repeat<P>(pub Vec<P>);

impl<V, P: Pipeline<V>> Pipeline<V> for Repeat<P> {
    #[inline(always)]
    fn packet(&mut self, phv: &mut V) {
        self.0.iter_mut().for_each(|stage| stage.packet(phv));
    }

    #[inline(always)]
    fn stages(&mut self, phvs: &mut [V]) {
        self.0.iter_mut().for_each(|stage| stage.stages(phvs));
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

    #[inline(always)]
    fn stages(&mut self, phvs: &mut [V]) {
        self.0.stages(phvs);
        self.1.stages(phvs);
    }

    fn usage(&self, stages: &mut Vec<StageUse>) {
        self.0.usage(stages);
        self.1.usage(stages);
    }
}
