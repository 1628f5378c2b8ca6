//! Runs tests on the copy: which mutants each reaches, and which it notices.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Instant, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};

use super::workshop::{BENCH, GENERATOR, GENERATOR_PROGRAM, LIBRARY, Program};
use super::{Mutant, Outcome};

/// Targets whose tests are tried with each mutant that they reach: those that need neither network
/// namespaces nor a compiler.
pub const GENERAL: &str = "lib answers cli coco_sketch deparser embedding fourth_program fuzz_seeds live_changes messages \
                           pisa_order program program_of_ones_own rotation route specification switch_accounts \
                           switch_egress switch_observed switch_policy switch_segments wire";

/// Longest sound run of a test that is tried with each mutant that it reaches, in seconds.
pub const LONGEST: f32 = 30.0;

/// Tests that run by themselves, the quickest first, before the others run several in a process.
const ALONE: usize = 4;

/// Sound runs of tests that share a process, in seconds.
const TOGETHER: f32 = 3.0;

/// Largest memory of a test, which a mutant may let grow without end.
const MEMORY: u64 = 6 << 30;

pub struct Test<'a> {
    program: &'a Program,
    pub name: String,
    /// Bound of a sound run, in seconds.
    longest: f32,
    /// A sound run. None, if it fails there, or takes too long.
    pub seconds: Option<f32>,
}

pub struct Trials<'a> {
    pub tests: Vec<Test<'a>>,
    /// By a site's first number.
    reached: HashMap<usize, Vec<usize>>,
    /// How many mutants of a file each test has noticed.
    noticed: Mutex<HashMap<String, HashMap<usize, usize>>>,
}

/// What a test did without a mutant: its time, unless it failed, and the sites that it reached.
type Sound = (Option<f32>, Vec<usize>);

impl<'a> Trials<'a> {
    /// Runs each test of these programs for which `longest` has a bound once, without a mutant, and
    /// records what it reaches of sites below `numbers`. Programs that have not changed keep their
    /// records, in a file of `place`.
    pub fn record(
        programs: &'a [Program],
        place: &Path,
        numbers: usize,
        longest: impl Fn(&str, &str) -> Option<f32>,
    ) -> Result<Self> {
        let mut tests = Vec::new();
        for program in programs {
            let listed = Command::new(&program.path).arg("--list").current_dir(&program.directory).output()?.stdout;
            let names = String::from_utf8(listed)?;
            let names = names.lines().filter_map(|line| line.strip_suffix(": test"));
            tests.extend(names.filter_map(|name| {
                let longest = longest(&program.name, name)?;
                Some(Test { program, name: name.to_owned(), longest, seconds: None })
            }));
        }
        let file = place.join("reached");
        let known = fs::read(&file).ok().and_then(|known| serde_json::from_slice(&known).ok());
        let mut known: HashMap<String, Sound> = known.unwrap_or_default();
        let keys = tests.iter().map(|test| {
            let built = fs::metadata(&test.program.path)?.modified()?.duration_since(UNIX_EPOCH)?;
            Ok(format!("{} {} {}", test.program.path.display(), built.as_nanos(), test.name))
        });
        let keys: Vec<_> = keys.collect::<Result<_>>()?;
        let runs = parallel(tests.len(), |at| match known.get(&keys[at]) {
            Some(known) => Ok(known.clone()),
            None => tests[at].sound(&place.join(format!("reached-{at}")), numbers),
        })?;
        let mut by_site = HashMap::<_, Vec<_>>::new();
        for (at, (seconds, reached)) in runs.iter().enumerate() {
            tests[at].seconds = *seconds;
            if is_general(&tests[at].program.name) && seconds.is_some_and(|seconds| seconds < LONGEST) {
                reached.iter().for_each(|&number| by_site.entry(number).or_default().push(at));
            }
        }
        known.extend(keys.into_iter().zip(runs));
        known.retain(|key, _| programs.iter().any(|program| key.starts_with(&*program.path.to_string_lossy())));
        fs::write(file, serde_json::to_vec(&known)?)?;
        Ok(Self { tests, reached: by_site, noticed: Mutex::default() })
    }

    /// What becomes of a mutant whose site has this first number. The sound runs of the tests that are
    /// tried take `patience` seconds at most.
    pub fn attempt(&self, mutant: &Mutant, first: usize, patience: f32) -> Result<Outcome> {
        let Some(number) = mutant.number else { bail!("{} has no number", mutant.name) };
        if !mutant.tests.is_empty() {
            return self.attempt_named(mutant, Some(number));
        }
        let Some(reached) = self.reached.get(&first) else { return Ok(Outcome::Unreached) };
        let tests = self.in_turn(reached, &mutant.file);
        let (mut spent, mut at) = (0.0, 0);
        while at < tests.len() {
            let (end, seconds) = self.together(&tests, at);
            if spent + seconds > patience {
                break;
            }
            let together: Vec<_> = tests[at..end].iter().map(|&test| &self.tests[test]).collect();
            if !run(&together, &selected(Some(number)), 5.0 + 8.0 * seconds)? {
                if end == at + 1 {
                    let mut noticed = self.noticed.lock().expect("no thread panics");
                    *noticed.entry(mutant.file.clone()).or_default().entry(tests[at]).or_default() += 1;
                }
                return Ok(Outcome::Noticed(together[0].name.clone()));
            }
            (at, spent) = (end, spent + seconds);
        }
        Ok(Outcome::Survived { tried: at, reached: tests.len() })
    }

    /// Tests for a mutant of a file, the most promising first: quick ones, those that noticed others of
    /// the file, those that stand beside it.
    fn in_turn(&self, reached: &[usize], file: &str) -> Vec<usize> {
        let module =
            file.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
        let noticed = self.noticed.lock().expect("no thread panics");
        let of_file = noticed.get(file);
        let cost = |&test: &usize| {
            let Test { program, name, seconds, .. } = &self.tests[test];
            let is_beside = program.name == LIBRARY && name.starts_with(&module);
            let noticed = of_file.and_then(|of| of.get(&test)).copied().unwrap_or(0).min(20);
            seconds.unwrap_or(LONGEST) / (1 + noticed + 5 * usize::from(is_beside)) as f32
        };
        let mut tests = reached.to_vec();
        tests.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        tests
    }

    /// The end of the tests from this one on that run in one process, and the time of a sound run.
    fn together(&self, tests: &[usize], at: usize) -> (usize, f32) {
        let of = |at: usize| &self.tests[tests[at]];
        let time = |at: usize| of(at).seconds.unwrap_or_default();
        let (mut end, mut seconds) = (at + 1, time(at));
        while at >= ALONE
            && end < tests.len()
            && std::ptr::eq(of(end).program, of(at).program)
            && seconds + time(end) <= TOGETHER
        {
            seconds += time(end);
            end += 1;
        }
        (end, seconds)
    }

    /// Each test that a break names must fail, and pass without it.
    pub fn attempt_named(&self, mutant: &Mutant, number: Option<usize>) -> Result<Outcome> {
        for named in &mutant.tests {
            let of = Named::of(named)?;
            let test = self.tests.iter().find(|test| of.is(&test.program.name, &test.name));
            let test = test.with_context(|| format!("there is no test {named}"))?;
            let Some(seconds) = test.seconds else { return Ok(Outcome::Unsound(named.clone())) };
            if run(&[test], &selected(number), 60.0 + 8.0 * seconds)? {
                return Ok(Outcome::Unnoticed(named.clone()));
            }
        }
        Ok(Outcome::Noticed(mutant.tests.join(" ")))
    }
}

impl Test<'_> {
    /// Runs it without a mutant, with a file for what it reaches.
    fn sound(&self, file: &Path, numbers: usize) -> Result<Sound> {
        fs::write(file, vec![0; numbers])?;
        let start = Instant::now();
        let passed = run(&[self], &[("WEIR_REACHED", file.into())], self.longest)?;
        let seconds = start.elapsed().as_secs_f32();
        let reached = fs::read(file)?;
        fs::remove_file(file)?;
        Ok((passed.then_some(seconds), (0..numbers).filter(|&number| reached[number] != 0).collect()))
    }
}

/// Whether the tests of this target are tried with each mutant that they reach.
pub fn is_general(target: &str) -> bool {
    GENERAL.split_whitespace().any(|general| general == target)
}

fn selected(number: Option<usize>) -> Vec<(&'static str, std::ffi::OsString)> {
    number.map(|number| ("WEIR_MUTANT", number.to_string().into())).into_iter().collect()
}

/// Whether tests of one program pass, one after the other, in so many seconds.
fn run(tests: &[&Test], environment: &[(&str, std::ffi::OsString)], seconds: f32) -> Result<bool> {
    let program = tests[0].program;
    let mut command = Command::new("timeout");
    command.args(["--signal", "KILL", &seconds.to_string(), "prlimit", &format!("--data={MEMORY}")]).arg(&program.path);
    command.args(["--exact", "--test-threads", "1"]).args(tests.iter().map(|test| &test.name));
    command.current_dir(&program.directory).env("CARGO_MANIFEST_DIR", &program.directory).env_remove("RUST_BACKTRACE");
    command.envs(environment.iter().map(|(key, value)| (key, value)));
    // A test that is skipped notices nothing; nobody wants the smallest case, or a new snapshot.
    // And no test builds an example.
    command.envs([("PROPTEST_MAX_SHRINK_ITERS", "0"), ("INSTA_UPDATE", "no")]);
    command
        .envs([("WEIR_REQUIRE_NETNS", "1"), ("WEIR_EXAMPLES", "built")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let status = command.status()?;
    // These are of `timeout` and `prlimit` themselves.
    ensure!(!matches!(status.code(), Some(125..=127)), "{command:?} does not start");
    Ok(status.success())
}

/// What `work` gives for each number below `count`, computed on all cores.
pub fn parallel<T: Send>(count: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Relaxed);
                    if at >= count {
                        break;
                    }
                    let result = work(at);
                    done.lock().expect("no thread panics").push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no thread panics");
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// A test as SPECIFICATION.md names it, `file::test`.
pub struct Named {
    pub target: String,
    /// The modules of its file. A module may have its tests in a file beside it.
    modules: String,
    name: String,
}

impl Named {
    pub fn of(test: &str) -> Result<Self> {
        let (file, name) = test.split_once(".rs::").with_context(|| format!("no test in {test}"))?;
        let parts: Vec<_> = file.split('/').collect();
        let (target, modules) = match &parts[..] {
            ["src", modules @ ..] => (LIBRARY, modules),
            [BENCH, "src", modules @ ..] => (BENCH, modules),
            [GENERATOR, "src", "main"] => (GENERATOR_PROGRAM, &[][..]),
            [GENERATOR, "src", modules @ ..] => (GENERATOR, modules),
            [GENERATOR, "tests", target] => (*target, &[][..]),
            ["tests", target, modules @ ..] => (*target, modules),
            _ => bail!("no target has {test}"),
        };
        let modules: Vec<_> = modules.iter().copied().filter(|name| !["main", "mod"].contains(name)).collect();
        Ok(Self { target: target.into(), modules: modules.join("::"), name: name.into() })
    }

    /// Whether a target's test with this path is it.
    pub fn is(&self, target: &str, path: &str) -> bool {
        self.target == target && path.starts_with(&self.modules) && path.rsplit("::").next() == Some(&*self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_have_their_targets() {
        for (test, target, path) in [
            ("tests/dpdk.rs::x", "dpdk", "x"),
            ("tests/netns/main.rs::x", "netns", "x"),
            ("tests/netns/faults.rs::x", "netns", "faults::x"),
            ("tests/program/pint/mod.rs::x", "program", "pint::x"),
            ("src/telemetry/run.rs::x", LIBRARY, "telemetry::run::tests::x"),
            ("src/network/controller/tests/time.rs::x", LIBRARY, "network::controller::tests::time::x"),
            ("src/forward/acl.rs::x", LIBRARY, "forward::acl::beside::tests::x"),
            ("bench/src/attention/mod.rs::x", BENCH, "attention::tests::x"),
            ("pktgen/src/main.rs::x", GENERATOR_PROGRAM, "tests::x"),
            ("pktgen/tests/ring.rs::x", "ring", "x"),
        ] {
            let named = Named::of(test).unwrap();
            assert!(named.is(target, path), "{test}");
            assert!(!named.is(target, &format!("{path}y")) && !named.is("other", path), "{test}");
        }
        assert!(Named::of("tests/dpdk.rs").is_err() && Named::of("docs/x.rs::y").is_err());
    }
}
