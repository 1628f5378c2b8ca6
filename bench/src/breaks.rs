//! Breaks each promise of SPECIFICATION.md on purpose, and sees its tests fail.
//!
//! `tests/breaks.toml` lists the breaks: the promise, a file, a text that stands in it once, what
//! to put in its place, and the tests that must fail then. A copy of the tree gets all breaks at
//! once, each behind a question that the environment answers: so it is compiled once, and what is
//! broken is chosen when a test runs. Without a break each test must pass there.

#[path = "../../tests/common/guarded.rs"]
mod guard;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

/// Longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Directories that are no part of the tree.
const BUILT: [&str; 4] = [".git", "target", "out", "corpus"];

/// What the broken copy's library has beside all else: whether the break with this number is asked
/// for.
const QUESTION: &str = r#"
#[doc(hidden)]
pub fn broken(number: usize) -> bool {
    static ASKED: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    let asked = || std::env::var("WEIR_BREAK").ok().and_then(|asked| asked.parse().ok()).unwrap_or(usize::MAX);
    *ASKED.get_or_init(asked) == number
}
"#;

#[derive(clap::Args)]
pub struct Breaks {
    /// Numbers of promises (4.2) or sections (4), or parts of tests' names (netns); all, if there
    /// are none
    promises: Vec<String>,
}

#[derive(Deserialize)]
struct List {
    #[serde(rename = "break")]
    breaks: Vec<Break>,
}

#[derive(Deserialize)]
struct Break {
    promise: String,
    file: PathBuf,
    /// An expression, or whole statements, unless the break is compiled alone.
    find: String,
    replace: String,
    tests: Vec<String>,
    /// Put in place by itself: a break of a document, of a type, or of what is computed when it is
    /// compiled.
    #[serde(default)]
    alone: bool,
}

impl Breaks {
    pub fn run(&self) -> Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("bench has a parent")?;
        let List { breaks } = toml::from_str(&fs::read_to_string(root.join("tests/breaks.toml"))?)?;
        let mut runs: Vec<_> = breaks.iter().enumerate().flat_map(|(number, tried)| tried.runs(number)).collect();
        runs.retain(|run| self.asks_for(run));
        ensure!(!runs.is_empty(), "no promise has one of these numbers, and no test such a name");
        let workshop = Workshop { tree: root.join("target/breaks/tree"), target: root.join("target/breaks/target") };
        for tried in breaks.iter().filter(|tried| tried.alone) {
            tried.find(&fs::read_to_string(root.join(&tried.file))?)?;
        }
        copy(root, &workshop.tree, &guarded_files(root, &breaks)?)?;
        let (alone, mut together) = runs.iter().copied().partition::<Vec<_>, _>(|run| run.tried.alone);
        // Between namespaces a test takes seconds, elsewhere much less.
        together.sort_by_key(|run| run.test.starts_with("tests/netns/"));
        let mut findings = workshop.attempt_together(&together)?;
        for runs in alone.chunk_by(|a, b| a.number == b.number) {
            findings.extend(workshop.attempt_alone(root, runs)?);
        }
        println!("{} runs of tests that must fail, {} findings", runs.len(), findings.len());
        findings.iter().for_each(|finding| println!("{finding}"));
        ensure!(findings.is_empty(), "a promise that can be broken unseen is none");
        Ok(())
    }

    fn asks_for(&self, run: &Run) -> bool {
        let promise = run.tried.promise.as_str();
        let section = promise.split('.').next();
        let meant = |asked: &String| match asked.starts_with(|c: char| c.is_ascii_digit()) {
            true => asked == promise || Some(&**asked) == section,
            false => run.test.contains(asked.as_str()),
        };
        self.promises.is_empty() || self.promises.iter().any(meant)
    }
}

/// A break, by its number in the list, and one of its tests.
#[derive(Clone, Copy)]
struct Run<'a> {
    number: usize,
    tried: &'a Break,
    test: &'a str,
}

impl Break {
    fn runs(&self, number: usize) -> impl Iterator<Item = Run<'_>> {
        self.tests.iter().map(move |test| Run { number, tried: self, test })
    }

    /// Where in its file it is.
    fn find(&self, text: &str) -> Result<usize> {
        let mut places = text.match_indices(&self.find);
        match (places.next(), places.next()) {
            (Some((at, _)), None) => Ok(at),
            _ => bail!("{}: what is to be broken does not stand once in {}", self.promise, self.file.display()),
        }
    }
}

/// Where the broken copy is, and what is built of it.
struct Workshop {
    tree: PathBuf,
    target: PathBuf,
}

impl Workshop {
    /// With breaks that can be chosen at run time: what there is to say of tests that do not notice
    /// theirs.
    fn attempt_together(&self, runs: &[Run]) -> Result<Vec<String>> {
        let programs = self.build(runs)?;
        let mut sound = HashSet::new();
        let mut findings = Vec::new();
        for run in runs {
            let (target, name) = target(run.test)?;
            let passes = |number| self.passes(&programs[&target], &name, number);
            if sound.insert(run.test) && !passes(None)? {
                findings.push(format!("{:5} FAILS with nothing broken: {}", run.tried.promise, run.test));
                println!("{}", findings[findings.len() - 1]);
            }
            findings.extend(run.report(|| passes(Some(run.number)))?);
        }
        Ok(findings)
    }

    /// The same with one break by itself, in a file of the tree at `root` that has no other.
    fn attempt_alone(&self, root: &Path, runs: &[Run]) -> Result<Vec<String>> {
        let Some(Run { tried, .. }) = runs.first() else { return Ok(Vec::new()) };
        let path = self.tree.join(&tried.file);
        let (text, guarded) = (fs::read_to_string(root.join(&tried.file))?, fs::read_to_string(&path)?);
        fs::write(&path, text.replacen(&tried.find, &tried.replace, 1))?;
        let programs = self.build(runs)?;
        let mut findings = Vec::new();
        for run in runs {
            let (target, name) = target(run.test)?;
            findings.extend(run.report(|| self.passes(&programs[&target], &name, None))?);
        }
        fs::write(path, guarded)?;
        Ok(findings)
    }

    /// Compiles the targets of tests: the program of each.
    fn build(&self, runs: &[Run]) -> Result<HashMap<String, PathBuf>> {
        let targets: HashSet<_> = runs.iter().map(|run| target(run.test)).collect::<Result<_>>()?;
        let targets: HashSet<_> = targets.into_iter().map(|(target, _)| target).collect();
        if targets.is_empty() {
            return Ok(HashMap::new());
        }
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args([
            "test",
            "--locked",
            "--workspace",
            "--no-run",
            "--quiet",
            "--message-format",
            "json-render-diagnostics",
        ]);
        // Of the whole workspace, so once for both libraries.
        if targets.iter().any(|target| [LIBRARY, GENERATOR].contains(&target.as_str())) {
            command.arg("--lib");
        }
        for target in &targets {
            match target.as_str() {
                LIBRARY | GENERATOR => &mut command,
                BENCH => command.args(["--bin", BENCH]),
                GENERATOR_PROGRAM => command.args(["--bin", GENERATOR]),
                _ => command.args(["--test", target]),
            };
        }
        command.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
        // Nobody looks at what is broken with a debugger.
        command.args(["--config", "profile.dev.package.weir.debug=false"]);
        let built = command.stdin(Stdio::null()).stderr(fs::File::create(self.tree.join("../messages"))?).output()?;
        if !built.status.success() {
            bail!("the broken tree does not compile:\n{}", fs::read_to_string(self.tree.join("../messages"))?);
        }
        let artifacts =
            built.stdout.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        let programs = artifacts.filter(|artifact| artifact["profile"]["test"] == true).filter_map(|artifact| {
            let name = artifact["target"]["name"].as_str()?;
            let name = match (artifact["target"]["kind"][0].as_str()?, name) {
                ("lib", "weir") => LIBRARY,
                ("bin", GENERATOR) => GENERATOR_PROGRAM,
                _ => name,
            };
            Some((name.to_owned(), artifact["executable"].as_str()?.into()))
        });
        Ok(programs.collect())
    }

    fn passes(&self, program: &Path, name: &str, number: Option<usize>) -> Result<bool> {
        let output = self.tree.join("../output");
        let file = fs::File::create(&output)?;
        let mut command = Command::new(program);
        command.args(["--exact", &full_name(program, name)?]).current_dir(&self.tree).env_remove("RUST_BACKTRACE");
        command.envs(number.map(|number| ("WEIR_BREAK", number.to_string()))).env("CARGO_MANIFEST_DIR", &self.tree);
        // A test that is skipped notices nothing; and nobody wants the smallest case.
        command.env("WEIR_REQUIRE_NETNS", "1").env("PROPTEST_MAX_SHRINK_ITERS", "0");
        let passed = finish(command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?)?;
        let output = fs::read(output)?;
        ensure!(String::from_utf8_lossy(&output).contains("\nrunning 1 test\n"), "there is no test {name}");
        Ok(passed)
    }
}

/// A module may have its tests in a file beside it: `a::tests::x` is then `a::b::tests::x`.
fn full_name(program: &Path, name: &str) -> Result<String> {
    let listed = String::from_utf8(Command::new(program).arg("--list").output()?.stdout)?;
    let names: Vec<_> = listed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let alike = |listed: &&&str| match name.split_once("::tests::") {
        Some((module, test)) => listed.starts_with(module) && listed.ends_with(&format!("::tests::{test}")),
        None => false,
    };
    let found = names.iter().find(|listed| **listed == name).or_else(|| names.iter().find(alike));
    found.map(|name| (*name).to_owned()).with_context(|| format!("there is no test {name}"))
}

impl Run<'_> {
    /// Says what became of the test, and gives it back if it passed.
    fn report(&self, passes: impl FnOnce() -> Result<bool>) -> Result<Option<String>> {
        let Self { tried, test, .. } = self;
        let start = Instant::now();
        let passed = passes()?;
        let verdict = if passed { "UNNOTICED" } else { "noticed" };
        let mut line = format!("{:5} {verdict} after {:.1} s by {test}", tried.promise, start.elapsed().as_secs_f32());
        if passed {
            let (file, find, replace) = (tried.file.display(), tried.find.trim(), tried.replace.trim());
            line += &format!("\n      {file}: {replace} instead of {find}");
        }
        println!("{line}");
        Ok(passed.then_some(line))
    }
}

/// What the copy has in place of the tree's files: all breaks that can be chosen at run time, also
/// those that are not asked for, so that the next run finds the same copy compiled.
fn guarded_files(root: &Path, breaks: &[Break]) -> Result<HashMap<PathBuf, String>> {
    let mut files = BTreeMap::<_, Vec<_>>::new();
    for (number, tried) in breaks.iter().enumerate().filter(|(_, tried)| !tried.alone) {
        files.entry(root.join(&tried.file)).or_default().push((number, tried));
    }
    let library = root.join("src/lib.rs");
    ensure!(!files.contains_key(&library), "what asks for breaks is in src/lib.rs, which can be broken alone only");
    let text = format!("#![allow(warnings)]\n{}{QUESTION}", fs::read_to_string(&library)?);
    let broken = files.into_iter().map(|(file, breaks)| {
        let text = guarded(&fs::read_to_string(&file)?, &breaks)?;
        Ok((file, text))
    });
    broken.chain([Ok((library, text))]).collect()
}

/// A file's text in which each break stands beside what it breaks.
fn guarded(text: &str, breaks: &[(usize, &Break)]) -> Result<String> {
    let mut places = BTreeMap::<_, Vec<_>>::new();
    for &(number, tried) in breaks {
        places.entry((tried.find(text)?, &tried.find)).or_default().push((number, tried));
    }
    let (mut guarded, mut end) = (String::new(), 0);
    for ((at, find), breaks) in places {
        let file = breaks[0].1.file.display();
        ensure!(at >= end, "{}: breaks of {file} overlap", breaks[0].1.promise);
        guarded += &text[end..at];
        guarded += &guard::guarded(find, breaks.into_iter().map(|(number, tried)| (number, &*tried.replace)));
        end = at + find.len();
    }
    Ok(guarded + &text[end..])
}

/// Whether it succeeded. A test that does not end has failed.
fn finish(mut child: Child) -> Result<bool> {
    let end = Instant::now() + TIMEOUT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The unit tests' target.
const LIBRARY: &str = "lib";

/// The target of this program's own tests.
const BENCH: &str = "bench";

/// The target of the generator's unit tests. Its other tests have names of their own.
const GENERATOR: &str = "pktgen";

/// Its program, whose tests are in `main.rs`.
const GENERATOR_PROGRAM: &str = "pktgen main";

/// Cargo's target of a test `file::test`, and the name that the test has there.
fn target(test: &str) -> Result<(String, String)> {
    let (file, name) = test.split_once(".rs::").with_context(|| format!("no test in {test}"))?;
    let parts: Vec<_> = file.split('/').collect();
    Ok(match &parts[..] {
        ["src", modules @ ..] => (LIBRARY.into(), unit_test(modules, name)),
        [BENCH, "src", modules @ ..] => (BENCH.into(), unit_test(modules, name)),
        [GENERATOR, "src", "main"] => (GENERATOR_PROGRAM.into(), unit_test(&[], name)),
        [GENERATOR, "src", modules @ ..] => (GENERATOR.into(), unit_test(modules, name)),
        [GENERATOR, "tests", target] => ((*target).into(), name.into()),
        ["tests", target] | ["tests", target, "main"] => ((*target).into(), name.into()),
        ["tests", target, modules @ ..] => ((*target).into(), format!("{}::{name}", path(modules))),
        _ => bail!("no target has {test}"),
    })
}

/// The name of a test in a file below `src`.
fn unit_test(modules: &[&str], name: &str) -> String {
    let tests = if modules.contains(&"tests") { None } else { Some("tests") };
    let modules: Vec<_> = modules.iter().copied().chain(tests).collect();
    format!("{}::{name}", path(&modules))
}

/// The path of a module in a file with this way to it.
fn path(modules: &[&str]) -> String {
    modules.iter().copied().filter(|module| *module != "mod").collect::<Vec<_>>().join("::")
}

/// Brings a copy of a directory up to date, with some files changed. What has not changed keeps its
/// time, so that little is compiled again.
fn copy(from: &Path, to: &Path, changed: &HashMap<PathBuf, String>) -> Result<()> {
    fs::create_dir_all(to)?;
    let names = |directory: &Path| -> Result<HashSet<_>> {
        Ok(fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<_>>()?)
    };
    let wanted: HashSet<_> = names(from)?.into_iter().filter(|name| !BUILT.iter().any(|built| name == built)).collect();
    for name in names(to)?.difference(&wanted) {
        let path = to.join(name);
        if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    for name in &wanted {
        let (from, to) = (from.join(name), to.join(name));
        if from.is_dir() {
            copy(&from, &to, changed)?;
            continue;
        }
        let bytes = changed.get(&from).map_or_else(|| fs::read(&from), |text| Ok(text.clone().into_bytes()))?;
        if fs::read(&to).ok().as_ref() != Some(&bytes) {
            fs::write(&to, bytes)?;
            fs::set_permissions(&to, fs::metadata(&from)?.permissions())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_have_their_targets() {
        for (test, kind, name) in [
            ("tests/dpdk.rs::x", "dpdk", "x"),
            ("tests/netns/main.rs::x", "netns", "x"),
            ("tests/netns/faults.rs::x", "netns", "faults::x"),
            ("tests/program/pint/mod.rs::x", "program", "pint::x"),
            ("src/telemetry/run.rs::x", LIBRARY, "telemetry::run::tests::x"),
            ("src/network/controller/tests/time.rs::x", LIBRARY, "network::controller::tests::time::x"),
            ("src/forward/acl/tests.rs::x", LIBRARY, "forward::acl::tests::x"),
            ("src/observe/mod.rs::x", LIBRARY, "observe::tests::x"),
            ("bench/src/attention/mod.rs::x", BENCH, "attention::tests::x"),
            ("pktgen/src/traffic/mod.rs::x", GENERATOR, "traffic::tests::x"),
            ("pktgen/src/main.rs::x", GENERATOR_PROGRAM, "tests::x"),
            ("pktgen/tests/ring.rs::x", "ring", "x"),
        ] {
            assert_eq!(target(test).unwrap(), (kind.into(), name.into()), "{test}");
        }
        assert!(target("tests/dpdk.rs").is_err() && target("docs/x.rs::y").is_err());
    }

    #[test]
    fn breaks_stand_beside_what_they_break() {
        let list = "[[break]]\npromise = '1'\nfile = 'src/a.rs'\nfind = 'x > 3'\nreplace = 'false'\ntests = []\n";
        let List { breaks } = toml::from_str(list).unwrap();
        let breaks = [(7, &breaks[0])];
        let text = guarded("if x > 3 {", &breaks).unwrap();
        assert_eq!(text, "if ({ if crate::broken(7) { false } else { x > 3 } }) {");
        let twice = guarded("x > 3;", &[(7, breaks[0].1), (8, breaks[0].1)]).unwrap();
        let expected = "({ if crate::broken(7) { false } else if crate::broken(8) { false } else { x > 3 } });";
        assert_eq!(twice, expected);
        assert!(guarded("no such text", &breaks).is_err() && guarded("x > 3 or x > 3", &breaks).is_err());
    }

    #[test]
    fn a_copy_follows_its_tree() {
        let place = tempfile::tempdir().unwrap();
        let (tree, copied) = (place.path().join("a"), place.path().join("b"));
        for directory in ["d/e", "target"] {
            fs::create_dir_all(tree.join(directory)).unwrap();
        }
        for file in ["d/one", "d/e/two", "target/built"] {
            fs::write(tree.join(file), file).unwrap();
        }
        let changed = HashMap::from([(tree.join("d/e/two"), "other".to_owned())]);
        copy(&tree, &copied, &changed).unwrap();
        let time = || fs::metadata(copied.join("d/e/two")).unwrap().modified().unwrap();
        let first = time();
        fs::write(tree.join("d/three"), "new").unwrap();
        fs::write(copied.join("d/one"), "broken").unwrap();
        fs::write(copied.join("d/e/more"), "old").unwrap();
        copy(&tree, &copied, &changed).unwrap();
        let read = |file: &str| fs::read_to_string(copied.join(file)).ok();
        assert_eq!(["d/one", "d/e/two", "d/three"].map(read), ["d/one", "other", "new"].map(|text| Some(text.into())));
        assert_eq!(["d/e/more", "target/built"].map(read), [None, None]);
        assert_eq!(time(), first, "what has not changed is not written");
    }
}
