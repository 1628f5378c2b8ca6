//! What an archive answers beside what the network's controllers do.

use std::path::Path;

use super::*;
use crate::answers::{Answer, Claimed, NamedFlows, Queryable};
use crate::archive::{Archive, ArchiveError, ArchiveSettings, Extent, ProgramArchive, routes};
use crate::pisa::hash::HashFamily;

const EPOCHS: u64 = 6;
const SEED: u64 = 5;

/// A simulated network with every program, whose histories keep all epochs.
fn simulated() -> (Vec<ProgramConfig>, Simulation) {
    let mut setup = setup("line:3", "keyvalue/uniform,flows=60,seed=5", &["flows=10%,rate=10%"]);
    setup.programs = ProgramConfig::for_all_tasks().filter(|program| program.is_networked()).collect();
    setup.programs.push("hashpipe:scope=network".parse().unwrap());
    setup.everywhere = true;
    setup.faults = vec!["delay=1,rate=1%,by=100ms".parse().unwrap()];
    let mut simulation = Simulation::new(&setup).unwrap();
    for _ in 0..EPOCHS {
        simulation.epoch(&setup.workload, setup.victims());
    }
    simulation.finish();
    (setup.programs, simulation)
}

fn archive(settings: &ArchiveSettings, programs: &[ProgramConfig], histories: &[Arc<dyn Queryable>]) {
    for ((name, program), history) in ProgramConfig::named(programs).zip(histories) {
        let mut archive = ProgramArchive::begin(settings.clone(), &name, program.clone()).unwrap();
        archive.take(&**history, Extent::All, |epoch| routes(histories, &**history, epoch)).unwrap();
        archive.close().unwrap();
    }
}

/// The answers to all tasks about one window; errors are answers too.
fn answers(history: &dyn Queryable, all: &[Arc<dyn Queryable>], window: Window) -> Vec<Option<Claimed<Answer>>> {
    let ask = |task| {
        let flow = (task == Task::Frequency).then(|| "* → *:* tcp".parse().unwrap());
        let query = Query { flow, ..Query::new(task, window) };
        let named = || ByRoute::new(Arc::new(NamedFlows::among(all, &query)));
        let routes = history.needs_routes().then(named);
        history.ask(&Query { routes, ..query }).ok()
    };
    Task::ALL.into_iter().map(ask).collect()
}

fn restored(dir: &Path, hashes: u64, program: &str, seconds: f64) -> Result<Arc<dyn Queryable>, ArchiveError> {
    Archive::open(dir, Some(HashFamily::reproducible(hashes)))?.history(program, seconds)
}

/// Every program's answers to every task, over all epochs, some and one, are those of its controller.
#[test]
fn an_archive_answers_as_its_controller() {
    let dir = tempfile::tempdir().unwrap();
    let (programs, simulation) = simulated();
    let histories = simulation.histories();
    let settings =
        ArchiveSettings { rotate: std::time::Duration::from_millis(100), ..ArchiveSettings::at(dir.path().into()) };
    archive(&settings, &programs, &histories);
    let names: Vec<_> = ProgramConfig::named(&programs).map(|(name, _)| name).collect();
    let others: Vec<_> = names.iter().map(|name| restored(dir.path(), SEED, name, 1e9).unwrap()).collect();
    for ((name, history), again) in names.iter().zip(&histories).zip(&others) {
        assert_eq!(history.held().epochs, again.held().epochs, "{name}");
        assert!(history.held().epochs >= EPOCHS as usize, "{name}");
        for window in [Window::All, Window::Last { seconds: 0.1 }, Window::Last { seconds: 0.0 }] {
            let [live, archived] =
                [(history, &histories), (again, &others)].map(|(history, all)| answers(&**history, all, window));
            assert!(live.iter().any(Option::is_some));
            for (live, archived) in live.into_iter().zip(archived) {
                // Publications are numbered by those who have them.
                let same = |answer: Option<Claimed<Answer>>| {
                    serde_json::to_value(answer.map(|mut answer| {
                        answer.claim.sequence = 0;
                        answer
                    }))
                };
                assert_eq!(same(live).unwrap(), same(archived).unwrap(), "{name} {window:?}");
            }
        }
    }
    // A part of it is read for a part of the time.
    let few = restored(dir.path(), SEED, "hashpipe", 0.1).unwrap();
    assert!((2..EPOCHS as usize).contains(&few.held().epochs));
}

/// Counts that rest on hash functions are not answered with others, and no file has their secret.
#[test]
fn other_hash_functions_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (programs, simulation) = simulated();
    archive(&ArchiveSettings::at(dir.path().into()), &programs, &simulation.histories());
    for program in ["disketch", "chamelemon"] {
        let refused = restored(dir.path(), SEED + 1, program, 1e9).err();
        assert!(matches!(refused, Some(ArchiveError::OtherHashes { .. })), "{program} {refused:?}");
        let refused = Archive::open(dir.path(), None).unwrap().history(program, 1e9).err();
        assert!(matches!(refused, Some(ArchiveError::NoHashes { .. })), "{program} {refused:?}");
    }
    for program in ["hashpipe", "pint"] {
        assert!(Archive::open(dir.path(), None).unwrap().history(program, 1e9).is_ok(), "{program}");
    }
    let secret = *HashFamily::reproducible(SEED).reveal();
    for (_, files) in Archive::open(dir.path(), None).unwrap().programs() {
        for file in &files.closed {
            let bytes = std::fs::read(&file.path).unwrap();
            assert!(!bytes.windows(secret.len()).any(|window| window == secret));
        }
    }
    let again = ProgramArchive::begin(ArchiveSettings::at(dir.path().into()), "pint", programs[0].clone());
    assert!(matches!(again.err(), Some(ArchiveError::NotEmpty { .. })));
}

/// Files that are cut off, overwritten or of another version are an error with their name, and no panic.
#[test]
fn files_that_are_none_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (programs, simulation) = simulated();
    archive(&ArchiveSettings::at(dir.path().into()), &programs, &simulation.histories());
    let all = Archive::open(dir.path(), None).unwrap();
    for (program, files) in all.programs() {
        let [file] = &files.closed[..] else { panic!("one file") };
        let good = std::fs::read(&file.path).unwrap();
        let read = |bytes: &[u8]| {
            std::fs::write(&file.path, bytes).unwrap();
            restored(dir.path(), SEED, program, 1e9).map(|history| history.held().epochs)
        };
        for length in (0..16).map(|part| good.len() * part / 16) {
            assert!(read(&good[..length]).is_err(), "{program} {length}");
        }
        let mut random = crate::trace::SplitMix64::new(7);
        for _ in 0..150 {
            let mut bytes = good.clone();
            // More of them in the metadata at the end.
            let from = if random.below(2) == 0 { 0 } else { bytes.len().saturating_sub(3000) };
            for _ in 0..=random.below(3) {
                let at = from + random.below((bytes.len() - from) as u64) as usize;
                bytes[at] = random.below(256) as u8;
            }
            let _ = read(&bytes);
        }
        let other = String::from_utf8_lossy(&good).find("weir.version").unwrap();
        assert!(other > 0 && read(&good).is_ok());
    }
}

/// Old files go by age and by bytes. A file without an end is a killed process's: the next one says so
/// and removes it, and its epochs are missing from answers.
#[test]
fn old_files_go_and_lost_epochs_are_missing() {
    let dir = tempfile::tempdir().unwrap();
    let (programs, simulation) = simulated();
    let (name, place) = ("hashpipe", programs.iter().position(|program| program.name() == "hashpipe").unwrap());
    let history = simulation.histories()[place].clone();
    let settings =
        ArchiveSettings { rotate: std::time::Duration::from_millis(1), ..ArchiveSettings::at(dir.path().into()) };
    let mut archive = ProgramArchive::begin(settings.clone(), name, programs[place].clone()).unwrap();
    let taken = ProgramArchive::open(settings.clone(), name, programs[place].clone());
    assert!(matches!(taken.err(), Some(ArchiveError::InUse(_))));
    archive.take(&*history, Extent::Run, |_| None).unwrap();
    drop(archive);
    let files = || Archive::open(dir.path(), None).unwrap().programs()[0].1.closed.clone();
    let all = files();
    assert!(all.len() >= EPOCHS as usize && all.windows(2).all(|pair| pair[0].last_epoch < pair[1].first_epoch));
    // A killed process leaves its file open: here one that is taken away from the middle.
    let lost = &all[all.len() / 2];
    let open = lost.path.with_file_name(format!("{}.parquet.open", lost.first_epoch));
    std::fs::rename(&lost.path, &open).unwrap();
    let listed = Archive::open(dir.path(), None).unwrap();
    assert_eq!(listed.programs()[0].1.open[0].first_epoch, lost.first_epoch);
    assert_eq!(listed.programs()[0].1.missing_epochs(), 1);
    drop(ProgramArchive::open(settings.clone(), name, programs[place].clone()).unwrap());
    assert!(!open.exists());
    let answer = restored(dir.path(), SEED, name, 1e9).unwrap().ask(&Query::new(Task::Heavy, Window::All)).unwrap();
    assert_eq!((answer.claim.missing_epochs, answer.claim.complete), (1, false));
    // By bytes the oldest go, by age all that are old.
    let keep_bytes = files().iter().rev().take(2).map(|file| file.bytes).sum();
    drop(
        ProgramArchive::open(ArchiveSettings { keep_bytes, ..settings.clone() }, name, programs[place].clone())
            .unwrap(),
    );
    assert_eq!(files().iter().map(|file| file.last_epoch).max(), all.last().map(|file| file.last_epoch));
    assert!(files().iter().map(|file| file.bytes).sum::<u64>() <= keep_bytes);
    let old = files()[0].path.clone();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    std::fs::File::options().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();
    let keep = Some(std::time::Duration::from_secs(3600));
    drop(ProgramArchive::open(ArchiveSettings { keep, ..settings }, name, programs[place].clone()).unwrap());
    assert!(!old.exists() && !files().is_empty());
}
