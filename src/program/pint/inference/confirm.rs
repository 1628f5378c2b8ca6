//! When a decided path is as good as certain, whatever went wrong on the way.
//!
//! A path is decided when one alone agrees with all digests. That is proof only while the
//! assumptions of [`Inference`](super::Inference) hold. If a switch is missing among the
//! candidates, a topology file is wrong, or the flow changed its path, the true path may have been
//! eliminated, and another one may agree by chance. So each hop must be borne out by digests of its
//! own, and that twice: by packets that came earlier, and again by packets that came later.
//!
//! *Why twice.* Of packets on two paths, one after the other, a mixture of both paths can agree
//! with all digests: one hop is seen on packets of the first path alone, and another hop on packets
//! of the second. When all earlier packets bear out all hops, and so do all later ones, then one of
//! the two groups has packets of one path alone.
//!
//! Where packets carry fragments of identifiers, a hop is as many unknowns as it has fragments, and
//! each of them must be borne out so.
//!
//! *How well.* A wrong switch agrees with a digest of b bits with probability 2⁻ᵇ. A hop needs
//! [`BITS`] bits and [`DIGESTS`] digests in each group, and each digest counts for one hop. So a
//! given wrong path with j wrong hops agrees with probability 2⁻³²ʲ at most.

use super::fragments::cells;
use crate::program::pint::dataplane::Code;
use crate::program::pint::encoding::Observed;

/// Bits of digests that each hop needs in each group of packets.
const BITS: u32 = 16;
/// Digests that each hop needs in each group.
const DIGESTS: u32 = 4;

/// How well digests bear a path out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Digests that tell of the hop of which the fewest tell, in all packets.
    pub digests: u32,
    /// Where each hop is borne out by earlier packets and again by later ones, the identities of the
    /// last of the earlier and of the first of the later ones. Packets between these took the path.
    pub between: Option<[u32; 2]>,
}

/// Digests that each hop needs.
pub(super) fn need(code: &Code) -> u32 {
    DIGESTS.max(BITS.div_ceil(code.bits()))
}

impl Evidence {
    /// Whether each hop is borne out twice.
    pub fn is_certain(&self) -> bool {
        self.between.is_some()
    }

    /// Of observations in the order in which they came.
    pub(super) fn of(code: &Code, observed: &[Observed], length: usize) -> Self {
        let need = need(code);
        let unknowns = length * code.fragments();
        let (early, least) = first_that_suffices(code, observed.iter(), unknowns, need);
        let (late, _) = first_that_suffices(code, observed.iter().rev(), unknowns, need);
        // Instances of one packet stand next to each other, so one observation of each end is
        // given up.
        let enough = |(early, late): &(usize, usize)| early + late + 2 * code.instances() <= observed.len();
        let ends = early.zip(late).filter(enough).map(|(early, late)| [early - 1, observed.len() - late]);
        Self { digests: least, between: ends.map(|ends| ends.map(|end| observed[end].identity)) }
    }
}

/// How many observations it takes until each unknown has `need` of its own, and the number that the
/// one with the fewest has in the end.
fn first_that_suffices<'a>(
    code: &Code,
    observed: impl Iterator<Item = &'a Observed>,
    unknowns: usize,
    need: u32,
) -> (Option<usize>, u32) {
    let mut digests = vec![0u32; unknowns];
    let (mut lacking, mut after) = (unknowns, None);
    for (number, observed) in observed.enumerate() {
        // A digest of several hops counts for the one that has the fewest.
        let Some(at) = cells(code, observed).min_by_key(|at| digests[*at]) else { continue };
        digests[at] += 1;
        lacking -= usize::from(digests[at] == need);
        if lacking == 0 && after.is_none() {
            after = Some(number + 1);
        }
    }
    (after, digests.into_iter().min().unwrap_or_default())
}
