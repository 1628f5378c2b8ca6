//! The analysis of any program with its history: the one place where a controller meets a program's
//! own types.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{
    Analysis, AnyParameters, AnyRecord, Before, Decision, Epoch, Parameters, Program, ProgramConfig, Reported,
};
use crate::answers::Asked;
use crate::history::{Entry, Finality, Gap, History, Reasons, Room, SwitchGap};

/// An epoch that closes.
pub struct Closing<'a> {
    pub epoch: u64,
    /// First epoch that the records cover.
    pub first_epoch: u64,
    pub parameters: &'a AnyParameters,
    /// The switches that were to report, each with its record or the reason why there is none.
    pub reported: Vec<(Arc<str>, Result<AnyRecord, Gap>)>,
    pub before: EpochBefore,
    /// Gaps that records of other epochs say.
    pub gaps: Vec<SwitchGap>,
    /// Why a comparison of what entered with what left may be wrong.
    pub doubts: Reasons,
    pub finality: Finality,
    /// Parameters are decided for this epoch; beside it those that were sent last.
    pub decide: Option<(u64, &'a AnyParameters)>,
}

/// Where the first packets of an epoch are, which left before its transit time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochBefore {
    /// There was no epoch before.
    Nothing,
    /// In the records of the epoch before.
    InRecords,
    /// Not all packets leave by ports that are measured.
    Elsewhere,
    Unknown,
}

/// Records or parameters of another program than the analysis is for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} of another program came to the analysis of {program}")]
pub struct Foreign {
    pub program: &'static str,
    pub what: &'static str,
}

/// The analysis of a program, whose type is forgotten.
pub trait AnyAnalyser: Send {
    /// Goes on with the configuration that the network's switches have, if it is of this program.
    ///
    /// # Errors
    /// If it is of another one.
    fn configure(&mut self, program: &ProgramConfig) -> Result<(), Foreign>;
    /// [`Analysis::ADDS`].
    fn adds(&self) -> bool;
    /// [`Analysis::COUNTS_LATE`].
    fn counts_late(&self) -> bool;
    /// Whether a record is of this program and shape.
    fn fits(&self, record: &AnyRecord) -> bool;
    /// Takes out of a switch's record of an epoch what it says about the next one. It is kept until
    /// that epoch closes if the record `is_whole`.
    fn take_early(&mut self, switch: &Arc<str>, epoch: u64, record: &mut AnyRecord, is_whole: bool);
    /// Forgets what a switch's records of this epoch and later ones said about the next epoch; without
    /// a name that of all switches.
    fn forget_early(&mut self, switch: Option<&Arc<str>>, from: u64);
    /// Puts the records of an epoch together and decides. What the epoch showed waits for
    /// [`Self::keep`].
    ///
    /// # Errors
    /// If records or parameters are of another program. The epoch is left out then.
    fn close(&mut self, closing: Closing<'_>) -> Result<Option<Decision<AnyParameters>>, Foreign>;
    /// Adds the oldest epoch that has closed and is not in the history yet. Gives its number.
    fn keep(&mut self) -> Option<u64>;
    /// The history, which clients ask.
    fn history(&self) -> Arc<dyn Asked>;
}

/// The analysis of one program.
pub(super) struct Analyser<P: Program> {
    analysis: P::Analysis,
    salt: u64,
    /// By switch and epoch of the record.
    early: BTreeMap<Arc<str>, BTreeMap<u64, Early<P>>>,
    history: History<Kept<P>>,
    /// The oldest first.
    closed: VecDeque<Closed<P>>,
}

/// An epoch that is not in the history yet.
struct Closed<P: Program> {
    network: Epoch<<P::Analysis as Analysis>::Network>,
    first_epoch: u64,
    doubts: Reasons,
    finality: Finality,
    /// From the epoch on that is named.
    decision: Option<(u64, Decision<P::Parameters>)>,
}

type Early<P> = <<P as Program>::Analysis as Analysis>::Early;
type Kept<P> = <<P as Program>::Analysis as Analysis>::Kept;

impl<P: Program> Analyser<P> {
    pub fn new(config: &P::Config, salt: u64, room: Room) -> Self {
        Self {
            analysis: P::analysis(config, salt),
            salt,
            early: BTreeMap::new(),
            history: History::new(room),
            closed: VecDeque::new(),
        }
    }

    fn foreign(what: &'static str) -> Foreign {
        Foreign { program: P::NAME, what }
    }
}

impl<P: Program> AnyAnalyser for Analyser<P> {
    fn configure(&mut self, program: &ProgramConfig) -> Result<(), Foreign> {
        let config = program.get::<P>().ok_or(Self::foreign("a configuration"))?;
        self.analysis = P::analysis(config, self.salt);
        self.early.clear();
        Ok(())
    }

    fn adds(&self) -> bool {
        P::Analysis::ADDS
    }

    fn counts_late(&self) -> bool {
        P::Analysis::COUNTS_LATE
    }

    fn fits(&self, record: &AnyRecord) -> bool {
        record.get().is_some_and(|record| self.analysis.fits(record))
    }

    fn take_early(&mut self, switch: &Arc<str>, epoch: u64, record: &mut AnyRecord, is_whole: bool) {
        let early = record.get_mut().and_then(|record| self.analysis.early(record));
        if let Some(early) = early.filter(|_| is_whole) {
            self.early.entry(switch.clone()).or_default().insert(epoch, early);
        }
    }

    fn forget_early(&mut self, switch: Option<&Arc<str>>, from: u64) {
        let forgotten = self.early.iter_mut().filter(|(name, _)| switch.is_none_or(|switch| *name == switch));
        forgotten.for_each(|(_, early)| early.retain(|of, _| *of < from));
    }

    fn close(&mut self, closing: Closing<'_>) -> Result<Option<Decision<AnyParameters>>, Foreign> {
        let Closing { epoch, first_epoch, parameters, reported, before, gaps, doubts, finality, decide } = closing;
        let parameters = parameters.get().ok_or(Self::foreign("parameters"))?;
        let typed = |(switch, record): (Arc<str>, Result<AnyRecord, Gap>)| {
            let record = match record {
                Ok(record) => Ok(record.into().ok_or(Self::foreign("a record"))?),
                Err(gap) => Err(gap),
            };
            Ok((switch, record))
        };
        let typed = reported.into_iter().map(typed).collect::<Result<Vec<_>, Foreign>>()?;
        let reported = typed.into_iter().map(|(switch, record)| {
            let early = epoch.checked_sub(1).and_then(|before| self.early.get(&switch)?.get(&before));
            let before = match before {
                EpochBefore::InRecords => early.map_or(Before::Unknown, Before::Early),
                EpochBefore::Nothing => Before::Nothing,
                EpochBefore::Elsewhere => Before::Elsewhere,
                EpochBefore::Unknown => Before::Unknown,
            };
            Reported { switch, record, before }
        });
        let mut network = self.analysis.epoch(epoch, parameters, reported.collect());
        gaps.into_iter().for_each(|gap| SwitchGap::add(&mut network.gaps, &gap.switch, gap.gap));
        self.early.values_mut().for_each(|of_switch| of_switch.retain(|of, _| *of >= epoch));
        self.early.retain(|_, of_switch| !of_switch.is_empty());
        let mut decision = None;
        if let Some((next, latest)) = decide {
            let latest = latest.get().ok_or(Self::foreign("parameters"))?;
            decision = Some((next, self.analysis.decide(&network, latest, next)));
        }
        let decided = decision.as_ref().map(|(_, Decision { parameters, why })| {
            let (parameters, why) = (AnyParameters::new(parameters.clone()), why.clone());
            Decision { parameters, why }
        });
        self.closed.push_back(Closed { network, first_epoch, doubts, finality, decision });
        Ok(decided)
    }

    fn keep(&mut self) -> Option<u64> {
        let Closed { network, first_epoch, doubts, finality, decision } = self.closed.pop_front()?;
        let mut adaptation = self.analysis.adaptation(&network);
        if let (Some(adaptation), Some((next, Decision { parameters, why }))) = (&mut adaptation, decision) {
            adaptation.update = Parameters::describe(&parameters).map(|described| (next, described));
            adaptation.why = why;
        }
        let (epoch, gaps, switches) = (network.number, network.gaps.clone(), network.switches.clone());
        let showed = Arc::new(self.analysis.keep(network));
        self.history.push(Entry { epoch, first_epoch, gaps, switches, doubts, adaptation, finality, showed });
        Some(epoch)
    }

    fn history(&self) -> Arc<dyn Asked> {
        Arc::new(self.history.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pisa::hash::HashFamily;
    use crate::program::hashpipe::Counts;

    /// The record or the parameters of another program are an error with a name, and no epoch is added.
    #[test]
    fn what_is_of_another_program_is_refused() {
        let program = ProgramConfig::networked();
        let mut analyser = program.analyser(0, Room { epochs: 9, bytes: usize::MAX });
        let own = program.build("a", &HashFamily::reproducible(1)).unwrap().spare().record();
        let foreign: AnyRecord = Box::<Counts>::default();
        let [start, other] = [program.start(), AnyParameters::new(())];
        let mut close = |record, parameters| {
            let closing = Closing {
                epoch: 7,
                first_epoch: 7,
                parameters,
                reported: vec![("a".into(), Ok(record))],
                before: EpochBefore::Nothing,
                gaps: Vec::new(),
                doubts: Reasons::default(),
                finality: Finality::at_once(),
                decide: None,
            };
            let closed = analyser.close(closing).map(|decision| decision.is_none());
            analyser.keep();
            (closed.map_err(|error| error.to_string()), analyser.history().newest())
        };
        let refused = |what: &str| Err(format!("{what} of another program came to the analysis of {}", program.name()));
        assert_eq!(close(foreign, &start), (refused("a record"), None));
        assert_eq!(close(own.clone(), &other), (refused("parameters"), None));
        assert_eq!(close(own, &start), (Ok(true), Some(7)));
    }
}
