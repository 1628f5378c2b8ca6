//! HashPipe's stateful ALUs: Algorithm 3 of the paper, one stage each.

use crate::pisa::hash::SlotHash;
use crate::pisa::{BATCH, Pairs, Salu, Slot, Word};
use crate::wire::FlowKey;

/// A cell: a flow's key and its count. A count of 0 is an empty slot.
pub type Cell<K> = (K, u32);

/// The PHV as HashPipe sees it: the pair that a packet carries from stage to stage, and its own key
/// `OWN` times, which is once where stages past the first look for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carry<K, const OWN: usize> {
    /// The packet's own key.
    pub own: [K; OWN],
    /// The carried key, and its count. A count of 0 ends the processing. At first they are the packet's
    /// own: 1 when packets are counted, the length on the wire when bytes are.
    pub key: K,
    pub count: u32,
    /// What the stages have counted so far for the packet's own flow.
    pub estimate: u32,
}

/// Stage 1: always inserts the packet's own key (Algorithm 3, lines 1–17). For `OWN` see [`Merge`].
#[derive(Clone, Copy, Debug)]
pub struct Insert<const OWN: usize> {
    pub hash: SlotHash,
}

/// What a stage puts into the PHV: the carried pair, and what it adds to the estimate.
#[derive(Clone, Copy, Debug)]
pub struct Evicted<K> {
    key: K,
    count: u32,
    pub estimate: u32,
}

impl<K: Word> Evicted<K> {
    fn describe(&self) -> String {
        let carried = match self.count {
            0 => "carries nothing on".into(),
            count => format!("carries {}, {count} on", self.key.describe()),
        };
        match self.estimate {
            0 => carried,
            estimate => format!("{carried}; its own flow counts {estimate} here"),
        }
    }
}

/// Hands the carried pair to the next stage, and the packet's own key where later stages look for
/// it.
#[inline(always)]
fn pass_on<K: FlowKey, const OWN: usize>(out: Evicted<K>, phv: &Carry<K, OWN>, next: &mut Carry<K, OWN>) {
    next.own = phv.own;
    next.key = out.key;
    next.count = out.count;
}

/// Both kinds of stage are generic over the key; the marker keeps them `Copy` and without a key of
/// their own.
#[derive(Clone, Copy, Debug)]
pub struct For<S, K>(pub S, pub std::marker::PhantomData<K>);

impl<S, K> For<S, K> {
    pub fn new(salu: S) -> Self {
        Self(salu, std::marker::PhantomData)
    }
}

impl<K: FlowKey + Word, const OWN: usize> Salu for For<Insert<OWN>, K> {
    type Phv = Carry<K, OWN>;
    type Cell = Cell<K>;
    type Out = Evicted<K>;
    const OUTPUTS: u32 = 3;
    const DECIDES: bool = true;
    /// The evicted key, and the packet's own where it goes on without one.
    const KEYS: u32 = if OWN > 0 { 2 } else { 1 };

    const UNTIL_END: bool = true;

    #[inline(always)]
    fn slot(&self, phv: &Carry<K, OWN>) -> Slot {
        self.0.hash.slot(phv.key)
    }

    #[inline(always)]
    fn slots(&self, phvs: &[Carry<K, OWN>], slots: &mut [Slot; BATCH]) {
        self.0.hash.slots(phvs, |phv| phv.key, slots);
    }

    #[inline(always)]
    fn ended(phv: &Carry<K, OWN>) -> bool {
        OWN == 0 && phv.count == 0
    }

    #[inline(always)]
    fn rmw(&self, (key, count): Cell<K>, phv: &Carry<K, OWN>) -> (Cell<K>, Evicted<K>) {
        // The packet's key is in the cell in any case, with what was counted of it. By arithmetic:
        // whether it was there is not to be predicted, and a compiler makes a branch of a choice.
        let (same, kept, key) = K::compare_and_swap(true, key, phv.key);
        let sum = (count & same).saturating_add(phv.count);
        ((kept, sum), Evicted { key, count: count & !same, estimate: sum })
    }

    #[inline(always)]
    fn commit(&self, out: Evicted<K>, phv: &mut Carry<K, OWN>) {
        phv.key = out.key;
        phv.count = out.count;
        phv.estimate = out.estimate;
    }

    #[inline(always)]
    fn pass_on(&self, out: Evicted<K>, phv: &Carry<K, OWN>, next: &mut Carry<K, OWN>) {
        pass_on(out, phv, next);
        if OWN > 0 {
            next.estimate = out.estimate;
        }
    }

    fn describe(&self, out: &Evicted<K>) -> String {
        out.describe()
    }
}

/// Stages 2 to d: keep the larger of the stored and the carried pair (Algorithm 3, lines 18–35). An
/// empty slot needs no case of its own, since 0 is less than any carried count and a carried count
/// of 0 ends.
///
/// With its own key, a packet that carries nothing any more uses its one access to read its own key's
/// count, so that the estimate is the sum over the stages that remained free (§3.4: "summing all
/// the matching flow counters").
#[derive(Clone, Copy, Debug)]
pub struct Merge<const OWN: usize> {
    pub hash: SlotHash,
}

/// The results of a stage: its cell, and the output of the pair that is carried on.
#[inline(always)]
fn merged<K>([cell, (key, count)]: [Cell<K>; 2]) -> (Cell<K>, Evicted<K>) {
    (cell, Evicted { key, count, estimate: 0 })
}

impl<K: FlowKey, const OWN: usize> For<Merge<OWN>, K> {
    /// The key whose slot a packet accesses.
    #[inline(always)]
    fn looked_for(phv: &Carry<K, OWN>) -> K {
        match phv.own.first() {
            Some(own) if phv.count == 0 => *own,
            _ => phv.key,
        }
    }
}

impl<K: FlowKey + Word, const OWN: usize> Salu for For<Merge<OWN>, K> {
    type Phv = Carry<K, OWN>;
    type Cell = Cell<K>;
    type Out = Evicted<K>;
    const OUTPUTS: u32 = if OWN > 0 { 4 } else { 3 };
    const DECIDES: bool = true;
    /// The evicted key, the one that was carried here, and the packet's own.
    const KEYS: u32 = if OWN > 0 { 3 } else { 2 };

    #[inline(always)]
    fn enabled(&self, phv: &Carry<K, OWN>) -> bool {
        OWN > 0 || phv.count > 0
    }

    const UNTIL_END: bool = true;

    #[inline(always)]
    fn slot(&self, phv: &Carry<K, OWN>) -> Slot {
        self.0.hash.slot(Self::looked_for(phv))
    }

    #[inline(always)]
    fn slots(&self, phvs: &[Carry<K, OWN>], slots: &mut [Slot; BATCH]) {
        self.0.hash.slots(phvs, Self::looked_for, slots);
    }

    #[inline(always)]
    fn ended(phv: &Carry<K, OWN>) -> bool {
        OWN == 0 && phv.count == 0
    }

    #[inline(always)]
    fn rmw(&self, (key, count): Cell<K>, phv: &Carry<K, OWN>) -> (Cell<K>, Evicted<K>) {
        if OWN > 0 && phv.count == 0 {
            let estimate = if phv.own.first() == Some(&key) { count } else { 0 };
            return ((key, count), Evicted { key: phv.key, count: 0, estimate });
        }
        merged(K::merge((key, count), (phv.key, phv.count)))
    }

    const PAIRS: bool = OWN == 0;

    #[inline(always)]
    fn rmw_of_pairs(&self, pairs: Pairs, cell: Cell<K>, phv: &Carry<K, OWN>) -> (Cell<K>, Evicted<K>) {
        if OWN > 0 {
            return self.rmw(cell, phv);
        }
        merged(K::merge_pairs(pairs, cell, (phv.key, phv.count)))
    }

    #[inline(always)]
    fn commit(&self, out: Evicted<K>, phv: &mut Carry<K, OWN>) {
        phv.key = out.key;
        phv.count = out.count;
        if OWN > 0 {
            phv.estimate = phv.estimate.saturating_add(out.estimate);
        }
    }

    #[inline(always)]
    fn pass_on(&self, out: Evicted<K>, phv: &Carry<K, OWN>, next: &mut Carry<K, OWN>) {
        pass_on(out, phv, next);
        if OWN > 0 {
            next.estimate = phv.estimate.saturating_add(out.estimate);
        }
    }

    fn describe(&self, out: &Evicted<K>) -> String {
        out.describe()
    }
}
