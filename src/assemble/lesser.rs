//! The smallest changes with which a pipeline that fits no chip would fit one.

use serde::Serialize;

use super::{Demand, tables};
use crate::config::Config;
use crate::pisa::hash::HashFamily;
use crate::pisa::{Layout, Placement, Target};
use crate::program::ProgramConfig;

/// A change of a configuration, and the chips that its pipeline then fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lesser {
    /// In words: `without NAME`.
    pub change: String,
    pub targets: Vec<&'static str>,
}

/// The smallest changes with which a pipeline fits a chip: one program less, or one with less; where
/// none of these is enough, as few programs less as can be. Empty of a pipeline that fits one.
pub fn lesser(config: &Config, placement: &Placement) -> Vec<Lesser> {
    let hashes = HashFamily::reproducible(0);
    if placement.target.chip || placement.refused.is_empty() {
        return Vec::new();
    }
    let Ok(Demand { layouts, .. }) = Demand::new(config, &hashes) else { return Vec::new() };
    let names: Vec<_> = ProgramConfig::named(&config.programs).map(|(name, _)| name).collect();
    let tables = tables(config, config.has_acl());
    let fits = |change: String, layouts: &[Layout]| {
        let chips = [Target::RMT, Target::TOFINO, Target::TOFINO2].into_iter();
        let fitting = chips.filter(|target| Placement::with_tables(*target, layouts, &tables).is_ok());
        let targets: Vec<_> = fitting.map(|target| target.name).collect();
        (!targets.is_empty()).then_some(Lesser { change, targets })
    };
    let without = |number: usize| {
        let sets = (0..1u32 << layouts.len()).filter(move |set| set.count_ones() as usize == number);
        sets.filter_map(|set| {
            let (gone, kept): (Vec<_>, Vec<_>) = (0..layouts.len()).partition(|at| set >> at & 1 == 1);
            let gone: Vec<_> = gone.into_iter().map(|at| names[at].as_str()).collect();
            let kept: Vec<_> = kept.into_iter().map(|at| layouts[at].clone()).collect();
            fits(format!("without {}", gone.join(" and ")), &kept)
        })
    };
    let with_less = (config.programs.iter().zip(&names).enumerate()).flat_map(|(at, (program, name))| {
        let (hashes, layouts, fits) = (&hashes, &layouts, &fits);
        program.lesser().into_iter().filter_map(move |(how, program)| {
            let mut layouts = layouts.clone();
            layouts[at] = program.build(config.known_as(), hashes).ok()?.layout();
            fits(format!("{name} {how}"), &layouts)
        })
    });
    let single: Vec<_> = without(1).filter(|_| layouts.len() > 1).chain(with_less).collect();
    let several =
        || (2..layouts.len()).map(|number| without(number).collect::<Vec<_>>()).find(|found| !found.is_empty());
    if single.is_empty() { several().unwrap_or_default() } else { single }
}
