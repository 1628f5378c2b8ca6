//! The analysis of any program with its history: the one place where a controller meets a program's
//! own types.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Analysis, AnyRecord, Before, Decision, DecodeError, Epoch, Parameters, Program, ProgramConfig, Reported};
use crate::answers::Queryable;
use crate::history::{Entry, Finality, Gap, History, Reasons, Room, SwitchGap};
use crate::pisa::hash::HashFamily;

/// An epoch that closes.
pub struct Closing<'a> {
    pub epoch: u64,
    /// First epoch that the records cover.
    pub first_epoch: u64,
    /// The byte form of the parameters that it was to be measured with.
    pub parameters: &'a [u8],
    /// The switches that were to report.
    pub reported: Vec<AnyReported<'a>>,
    /// Gaps that records of other epochs say.
    pub gaps: Vec<SwitchGap>,
    /// Why a comparison of what entered with what left may be wrong.
    pub doubts: Reasons,
    pub finality: Finality,
    /// Parameters are decided for this epoch; beside it those that were sent last.
    pub decide: Option<(u64, &'a [u8])>,
}

/// A [`Reported`] of any program.
pub struct AnyReported<'a> {
    pub switch: Arc<str>,
    /// Its record of the epoch, or why it is absent.
    pub record: Result<AnyRecord, Gap>,
    pub before: Before<&'a AnyRecord>,
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
    /// Puts the records of an epoch together and decides. What the epoch showed waits for
    /// [`Self::keep`].
    ///
    /// # Errors
    /// If records or parameters are of another program. The epoch is left out then.
    fn close(&mut self, closing: Closing<'_>) -> Result<Option<Decision<Vec<u8>>>, Foreign>;
    /// Adds the oldest epoch that has closed and is not in the history yet. Gives its number.
    fn keep(&mut self) -> Option<u64>;
    /// The history, which clients ask.
    fn history(&self) -> Arc<dyn Queryable>;
}

/// The analysis of one program.
pub(super) struct Analyser<P: Program> {
    analysis: P::Analysis,
    salt: u64,
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

type Kept<P> = <<P as Program>::Analysis as Analysis>::Kept;

impl<P: Program> Analyser<P> {
    pub fn new(config: &P::Config, salt: u64, room: Room) -> Self {
        Self { analysis: P::analysis(config, salt), salt, history: History::new(room), closed: VecDeque::new() }
    }

    fn foreign(what: &'static str) -> Foreign {
        Foreign { program: P::NAME, what }
    }

    fn parameters(bytes: &[u8]) -> Result<P::Parameters, Foreign> {
        P::Parameters::decode(bytes).map_err(|_| Self::foreign("parameters"))
    }

    fn typed(AnyReported { switch, record, before }: AnyReported<'_>) -> Result<Reported<'_, P::Record>, Foreign> {
        let foreign = || Self::foreign("a record");
        let part = match before {
            Before::Part(part) => Some(part.get().ok_or_else(foreign)?),
            _ => None,
        };
        let record = record.map(|record| record.into().ok_or_else(foreign));
        let record = match record {
            Ok(record) => Ok(record?),
            Err(gap) => Err(gap),
        };
        Ok(Reported { switch, record, before: before.with(part) })
    }
}

impl<P: Program> AnyAnalyser for Analyser<P> {
    fn configure(&mut self, program: &ProgramConfig) -> Result<(), Foreign> {
        let config = program.get::<P>().ok_or(Self::foreign("a configuration"))?;
        self.analysis = P::analysis(config, self.salt);
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

    fn close(&mut self, closing: Closing<'_>) -> Result<Option<Decision<Vec<u8>>>, Foreign> {
        let Closing { epoch, first_epoch, parameters, reported, gaps, doubts, finality, decide } = closing;
        let parameters = Self::parameters(parameters)?;
        let reported = reported.into_iter().map(Self::typed).collect::<Result<_, _>>()?;
        let mut network = self.analysis.epoch(epoch, &parameters, reported);
        gaps.into_iter().for_each(|gap| SwitchGap::add(&mut network.gaps, &gap.switch, gap.gap));
        let mut decision = None;
        if let Some((next, latest)) = decide {
            decision = Some((next, self.analysis.decide(&network, &Self::parameters(latest)?, next)));
        }
        let decided = decision.as_ref().map(|(_, Decision { parameters, why })| {
            let (parameters, why) = (parameters.encode(), why.clone());
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

    fn history(&self) -> Arc<dyn Queryable> {
        Arc::new(self.history.clone())
    }
}

/// Makes a history of what an archive has of one program.
pub trait AnyRestorer: Send {
    /// The next epochs are of a switch or a network with this configuration.
    ///
    /// # Errors
    /// If it is of another program.
    fn configure(&mut self, program: &ProgramConfig) -> Result<(), Foreign>;
    /// Adds an epoch, whose byte form this is.
    ///
    /// # Errors
    /// As of [`Analysis::restore`].
    fn restore(&mut self, entry: &Entry<()>, bytes: &[u8], hashes: Option<&HashFamily>) -> Result<(), DecodeError>;
    /// The history, which clients ask.
    fn history(&self) -> Arc<dyn Queryable>;
}

/// Restores epochs of one program.
pub(super) struct Restorer<P: Program> {
    analysis: P::Analysis,
    history: History<Kept<P>>,
}

impl<P: Program> Restorer<P> {
    pub fn new(config: &P::Config, room: Room) -> Self {
        Self { analysis: P::analysis(config, 0), history: History::new(room) }
    }
}

impl<P: Program> AnyRestorer for Restorer<P> {
    fn configure(&mut self, program: &ProgramConfig) -> Result<(), Foreign> {
        let foreign = Foreign { program: P::NAME, what: "a configuration" };
        self.analysis = P::analysis(program.get::<P>().ok_or(foreign)?, 0);
        Ok(())
    }

    fn restore(&mut self, entry: &Entry<()>, bytes: &[u8], hashes: Option<&HashFamily>) -> Result<(), DecodeError> {
        let showed = self.analysis.restore(bytes, hashes)?;
        self.history.restore(entry.with(Arc::new(showed)));
        Ok(())
    }

    fn history(&self) -> Arc<dyn Queryable> {
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
        let [start, other] = [program.start(), ().encode()];
        let mut close = |record, parameters| {
            let closing = Closing {
                epoch: 7,
                first_epoch: 7,
                parameters,
                reported: vec![AnyReported { switch: "a".into(), record: Ok(record), before: Before::Nothing }],
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
