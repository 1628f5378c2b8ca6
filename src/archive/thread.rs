//! The thread that archives the histories of a switch or a controller.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};

use super::{ArchiveError, ArchiveSettings, Extent, ProgramArchive};
use crate::answers::{ByRoute, NamedFlows, Query, Queryable, Task};
use crate::history::Window;
use crate::program::ProgramConfig;

/// How often it is looked for epochs whose answers are final.
const EVERY: Duration = Duration::from_millis(200);
/// How long an archive that failed is left alone.
const AGAIN: Duration = Duration::from_secs(10);

/// The programs and their histories, as they are now.
pub type Source = Box<dyn Fn() -> Vec<(ProgramConfig, Arc<dyn Queryable>)> + Send>;

/// A history and the name of its program in results.
type Named = (String, Arc<dyn Queryable>);

/// Archives until it is dropped. Then it takes what is not final too, and closes the files.
pub struct ArchiveThread {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The programs of an archive by their names in results.
struct Programs {
    settings: ArchiveSettings,
    source: Source,
    archives: BTreeMap<String, ProgramArchive>,
    failed: Option<Instant>,
}

impl ArchiveThread {
    /// Starts. An archive that cannot be written is said, and tried again.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(settings: ArchiveSettings, source: Source) -> io::Result<Self> {
        let mut programs = Programs { settings, source, archives: BTreeMap::new(), failed: None };
        let (stop, stopped) = bounded(1);
        let thread = std::thread::Builder::new().name("weir-archive".into()).spawn(move || {
            programs.round(Extent::Final);
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(EVERY) {
                programs.round(Extent::Final);
            }
            programs.round(Extent::All);
        });
        Ok(Self { stop: Some(stop), thread: Some(thread?) })
    }
}

/// The flows and paths of an epoch that others of these histories answer, for one that needs them.
pub fn routes(all: &[Arc<dyn Queryable>], history: &dyn Queryable, epoch: u64) -> Option<ByRoute> {
    let query = Query::new(Task::Heavy, Window::Epoch(epoch));
    history.needs_routes().then(|| ByRoute::new(Arc::new(NamedFlows::among(all, &query))))
}

impl Drop for ArchiveThread {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Programs {
    /// The histories by the programs' names, each with an archive.
    fn open(&mut self) -> Result<Vec<Named>, ArchiveError> {
        let (programs, histories): (Vec<_>, Vec<_>) = (self.source)().into_iter().unzip();
        for (name, program) in ProgramConfig::named(&programs) {
            match self.archives.get_mut(&name) {
                Some(archive) => archive.configure(program),
                None => {
                    let archive = ProgramArchive::open(self.settings.clone(), &name, program.clone())?;
                    self.archives.insert(name, archive);
                }
            }
        }
        Ok(ProgramConfig::named(&programs).map(|(name, _)| name).zip(histories).collect())
    }

    /// Archives what has become final, or all. What fails is said, and tried again later.
    fn round(&mut self, extent: Extent) {
        if self.failed.is_some_and(|failed| failed.elapsed() < AGAIN) && extent == Extent::Final {
            return;
        }
        self.failed = None;
        let taken = self.open().and_then(|histories| self.take(&histories, extent));
        if let Err(error) = taken {
            let unwritten: u64 = self.archives.values().map(ProgramArchive::unwritten).sum();
            tracing::error!(
                target: "weir", event = "archive", unwritten_epochs = unwritten,
                "epochs are not archived: {error}"
            );
            self.failed = Some(Instant::now());
        }
    }

    fn take(&mut self, histories: &[Named], extent: Extent) -> Result<(), ArchiveError> {
        let all: Vec<_> = histories.iter().map(|(_, history)| history.clone()).collect();
        let mut result = Ok(());
        for (name, history) in histories {
            let Some(archive) = self.archives.get_mut(name) else { continue };
            let taken = archive.take(&**history, extent, |epoch| routes(&all, &**history, epoch));
            result = result.and(taken);
        }
        result
    }
}
