//! Arrays side by side in one stage: see [`Stage`].

use arrayvec::ArrayVec;

use super::{Array, ArrayGroup, ArrayUse, BATCH, GroupSalu, Members, Pipeline, Probe, Salu, Slot, Stage, StageUse};

/// A part of a stage. The module is private, so that only the engine calls these functions: once for
/// each packet.
pub trait Beside<V> {
    /// Takes a packet through, which sees the PHV as it entered the stage. Outputs go into `phv`.
    fn pass(&mut self, entered: &V, phv: &mut V);
    /// The same for the members of a batch.
    fn pass_batch(&mut self, entered: &[V], phvs: &mut [V], members: &Members);
    /// As [`Self::pass`], and tells the probe of each array.
    fn pass_traced(&mut self, entered: &V, phv: &mut V, probe: &mut dyn Probe);
    /// Adds what the arrays use.
    fn usage_beside(&self, arrays: &mut Vec<ArrayUse>);
}

impl<S: Salu> Beside<S::Phv> for Array<S> {
    #[inline(always)]
    fn pass(&mut self, entered: &S::Phv, phv: &mut S::Phv) {
        let mut alu = self.alu();
        let out = alu.access(entered);
        alu.commit(out, phv);
    }

    #[inline(always)]
    fn pass_batch(&mut self, entered: &[S::Phv], phvs: &mut [S::Phv], members: &Members) {
        let mut alu = self.alu();
        members.each(phvs, |place, phv| {
            if let Some(entered) = entered.get(place) {
                let out = alu.access(entered);
                alu.commit(out, phv);
            }
        });
    }

    fn pass_traced(&mut self, entered: &S::Phv, phv: &mut S::Phv, probe: &mut dyn Probe) {
        let out = self.traced(entered, probe);
        self.alu().commit(out, phv);
    }

    fn usage_beside(&self, arrays: &mut Vec<ArrayUse>) {
        arrays.push(self.usage());
    }
}

/// A group gives packets nothing to take along.
impl<S: GroupSalu<N>, const N: usize> Beside<S::Phv> for ArrayGroup<S, N> {
    #[inline(always)]
    fn pass(&mut self, entered: &S::Phv, _: &mut S::Phv) {
        self.alu().packet(entered);
    }

    #[inline(always)]
    fn pass_batch(&mut self, entered: &[S::Phv], phvs: &mut [S::Phv], members: &Members) {
        let mut alu = self.alu();
        members.each(phvs, |place, _| {
            if let Some(entered) = entered.get(place) {
                alu.packet(entered);
            }
        });
    }

    fn pass_traced(&mut self, entered: &S::Phv, _: &mut S::Phv, probe: &mut dyn Probe) {
        self.traced(entered, probe);
    }

    fn usage_beside(&self, arrays: &mut Vec<ArrayUse>) {
        arrays.extend(self.usages());
    }
}

impl<V, A: Beside<V>> Beside<V> for Vec<A> {
    #[inline(always)]
    fn pass(&mut self, entered: &V, phv: &mut V) {
        for part in self {
            part.pass(entered, phv);
        }
    }

    #[inline(always)]
    fn pass_batch(&mut self, entered: &[V], phvs: &mut [V], members: &Members) {
        for part in self {
            part.pass_batch(entered, phvs, members);
        }
    }

    fn pass_traced(&mut self, entered: &V, phv: &mut V, probe: &mut dyn Probe) {
        self.iter_mut().for_each(|part| part.pass_traced(entered, phv, probe));
    }

    fn usage_beside(&self, arrays: &mut Vec<ArrayUse>) {
        self.iter().for_each(|part| part.usage_beside(arrays));
    }
}

/// A stage of these parts.
macro_rules! stage {
    ([$($part:ident),*] $parts:ty) => {
        impl<V: Copy, $($part: Beside<V>),*> Pipeline<V> for Stage<$parts> {
            #[inline(always)]
            fn packet(&mut self, phv: &mut V) {
                let entered = *phv;
                self.0.pass(&entered, phv);
            }

            fn trace(&mut self, phv: &mut V, probe: &mut dyn Probe) {
                probe.stage();
                let entered = *phv;
                self.0.pass_traced(&entered, phv, probe);
            }

            #[inline(always)]
            fn batch(&mut self, phvs: &mut [V], members: &mut Members, _: &mut [Slot; BATCH]) {
                let entered: ArrayVec<V, BATCH> = phvs.iter().take(BATCH).copied().collect();
                self.0.pass_batch(&entered, phvs, members);
            }

            fn usage(&self, stages: &mut Vec<StageUse>) {
                let mut arrays = Vec::new();
                self.0.usage_beside(&mut arrays);
                stages.push(StageUse::of(arrays));
            }
        }
    };
}

macro_rules! tuple {
    ($($part:ident $field:tt),+) => {
        impl<V, $($part: Beside<V>),+> Beside<V> for ($($part,)+) {
            #[inline(always)]
            fn pass(&mut self, entered: &V, phv: &mut V) {
                $(self.$field.pass(entered, phv);)+
            }

            #[inline(always)]
            fn pass_batch(&mut self, entered: &[V], phvs: &mut [V], members: &Members) {
                $(self.$field.pass_batch(entered, phvs, members);)+
            }

            fn pass_traced(&mut self, entered: &V, phv: &mut V, probe: &mut dyn Probe) {
                $(self.$field.pass_traced(entered, phv, probe);)+
            }

            fn usage_beside(&self, arrays: &mut Vec<ArrayUse>) {
                $(self.$field.usage_beside(arrays);)+
            }
        }

        stage!([$($part),+] ($($part,)+));
    };
}

stage!([A] Vec<A>);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
