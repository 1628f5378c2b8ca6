//! Places of lost packets, the inferred ones among them: answers about windows of final epochs, which do not overlap.
//! An answer may take seconds of a CPU. So a thread of its own makes it, and rests for ten times as long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::totals::{Series, about};
use crate::answers::{Claimed, Follower, Links, LossPlace, Losses, Places, Query, Queryable, Surroundings, Task};
use crate::history::{Entry, Window};
use crate::program::ProgramConfig;

/// Time that the epochs of an answer span at least.
pub const SPAN: Duration = Duration::from_secs(10);
/// Time that they span at most, in multiples of the least.
const LONGEST: u32 = 6;
/// Pause after an answer, in multiples of the time that it took.
const PAUSE: u32 = 10;
/// Places that an answer names at most.
const NAMED: usize = 100;

/// A place as labels name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlaceLabels {
    pub kind: String,
    pub place: String,
    pub evidence: &'static str,
}

impl PlaceLabels {
    pub fn new(place: &LossPlace) -> Self {
        Self { kind: place.kind.clone(), place: place.short_name(), evidence: place.evidence.name() }
    }
}

/// An answer about the places of some epochs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacesAnswer {
    pub first_epoch: u64,
    pub last_epoch: u64,
    /// The end of the last one, in nanoseconds since 1970.
    pub end_ns: u64,
    /// At most 100, the failed ones first.
    pub places: Vec<LossPlace>,
    pub omitted: u64,
    /// Packets that flows lost in no place that is known.
    pub unplaced_packets: u64,
}

/// Sums of all answers of a program about places.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placed {
    pub lost: Series<PlaceLabels, u64>,
    pub unplaced_packets: u64,
    /// Places of answers that were beyond the first 100.
    pub omitted: u64,
    /// Final epochs that no answer covers, because answers took too long.
    pub skipped_epochs: u64,
    pub unlisted: u64,
    pub newest: Option<Arc<PlacesAnswer>>,
}

/// Asks for places, one window after another.
pub struct Placing {
    span: Duration,
    followed: BTreeMap<String, Followed>,
    /// No answer is made before.
    resting: Option<Instant>,
}

#[derive(Default)]
struct Followed {
    epochs: Follower,
    placed: Placed,
}

/// The program that is asked, as `weir show losses --where` chooses it.
struct Chosen {
    name: String,
    history: Arc<dyn Queryable>,
    /// It names lost packets of flows, and counts none at links and switches.
    infers: bool,
}

type Programs = [(ProgramConfig, Arc<dyn Queryable>)];

/// The history of the program that ranks the task first.
fn history(programs: &Programs, task: Task) -> Option<(usize, Arc<dyn Queryable>)> {
    let ranked = programs.iter().enumerate().filter_map(|(at, (program, _))| Some((program.rank(task)?, at)));
    ranked.min().map(|(_, at)| (at, programs[at].1.clone()))
}

impl Chosen {
    /// `None` where no program counts packets at links and switches, and none names flows with their paths.
    fn among(programs: &Programs) -> Option<Self> {
        let counts = history(programs, Task::Places);
        let infers = counts.is_none();
        let has_paths = history(programs, Task::Paths).is_some();
        let (at, history) = counts.or_else(|| history(programs, Task::Losses).filter(|_| has_paths))?;
        let configs: Vec<_> = programs.iter().map(|(program, _)| program.clone()).collect();
        let (name, _) = ProgramConfig::named(&configs).nth(at)?;
        Some(Self { name, history, infers })
    }
}

impl Placing {
    /// Epochs of an answer span at least `span`.
    pub fn new(span: Duration) -> Self {
        Self { span, followed: BTreeMap::new(), resting: None }
    }

    /// Asks if it is time to. Returns the program's name and what it has said so far, after an answer.
    pub fn look(&mut self, programs: &Programs, links: &Links, now: Instant) -> Option<(String, Placed)> {
        let Chosen { name, history, infers } = Chosen::among(programs)?;
        let followed = self.followed.entry(name.clone()).or_default();
        followed.epochs.turn_to(&history);
        let entries = followed.epochs.fresh();
        let (first, last) = (entries.first()?.epoch, entries.last()?.epoch);
        let length = history.length().max(1);
        let epochs_in = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX).div_ceil(length).max(1);
        let is_short = last.saturating_sub(first) + 1 < epochs_in(self.span);
        if is_short || self.resting.is_some_and(|until| now < until) {
            return None;
        }
        let from = first.max(last.saturating_add(1).saturating_sub(epochs_in(self.span * LONGEST)));
        followed.pass(&entries, from);
        let started = Instant::now();
        let answer = PlacesAnswer::ask(programs, &*history, links, infers, [from, last]);
        self.resting = Some(now + started.elapsed() * PAUSE);
        followed.placed.add(answer?);
        Some((name, followed.placed.clone()))
    }
}

impl Followed {
    /// Passes these epochs. Those before `from` are in no answer.
    fn pass(&mut self, entries: &[Entry<()>], from: u64) {
        for of_epoch in entries.chunk_by(|one, other| one.epoch == other.epoch) {
            if let Some(passed) = self.epochs.pass(of_epoch).filter(|passed| passed.epoch < from) {
                self.placed.skipped_epochs += passed.covered;
            }
        }
    }
}

impl Placed {
    fn add(&mut self, answer: PlacesAnswer) {
        for place in &answer.places {
            let add = |lost: &mut u64| *lost = lost.saturating_add(place.lost_packets);
            self.lost.update(PlaceLabels::new(place), &mut self.unlisted, add);
        }
        self.unplaced_packets = self.unplaced_packets.saturating_add(answer.unplaced_packets);
        self.omitted = self.omitted.saturating_add(answer.omitted);
        self.newest = Some(Arc::new(answer));
    }
}

impl PlacesAnswer {
    /// The answer about these epochs. Without lost packets of flows nothing is inferred, which takes most of the time.
    fn ask(
        programs: &Programs,
        history: &dyn Queryable,
        links: &Links,
        infers: bool,
        [first, last]: [u64; 2],
    ) -> Option<Self> {
        let window = Window::Between { from: first, until: last };
        let of = |task| self::history(programs, task).map(|(_, history)| history);
        let query = about(Task::Places, window).limited(NAMED, 1);
        let surroundings = match of(Task::Losses).is_some_and(|losses| is_quiet(&*losses, window, last)) {
            true => Surroundings { links: links.clone(), ..Surroundings::default() },
            false => Surroundings::new(links.clone(), &query, of),
        };
        let end_ns = last.saturating_add(1).saturating_mul(history.length());
        let answered = Self { first_epoch: first, last_epoch: last, end_ns, ..Self::default() };
        if infers && surroundings.victims.is_none() {
            return Some(answered);
        }
        let query = Query { surroundings: Some(Arc::new(surroundings)), ..query };
        let answer: Claimed<Places> = history.answer(&query).ok()?;
        Some(Self {
            places: answer.places.clone(),
            omitted: answer.omitted_places,
            unplaced_packets: answer.unplaced_packets.unwrap_or_default(),
            ..answered
        })
    }
}

/// Whether no flow lost packets, as is known of each of these epochs up to the last one.
fn is_quiet(losses: &dyn Queryable, window: Window, last: u64) -> bool {
    let answer = losses.answer::<Losses>(&about(Task::Losses, window).limited(0, u64::MAX));
    answer.is_ok_and(|answer| {
        answer.claim.last_epoch == Some(last) && answer.lost_packets == 0 && answer.unknown_epochs == 0
    })
}
