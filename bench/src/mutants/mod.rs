//! Mutants: changes of the code, each of which a test must notice.
//!
//! cargo-mutants lists those of the modules in `.cargo/mutants.toml`; `tests/breaks.toml` adds what it
//! has no operator for, each with the tests that must notice it. A copy of the tree holds all of them,
//! and the environment selects one when a test runs: so the copy is compiled once. A first run of
//! each test records what it reaches, and a mutant is tried with these tests alone.

mod places;
mod trials;
mod workshop;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use places::Listed;
use trials::{Named, Trials, parallel};
use workshop::{Program, Workshop};

/// Longest sound run of a test that a break names, in seconds.
const LONGEST_NAMED: f32 = 300.0;

/// What became of each mutant when it was last tried: its name, a tab, its outcome.
const OUTCOMES: &str = "target/mutants/outcomes";

/// Start of the outcome of a mutant that was noticed.
const NOTICED: &str = "noticed by ";

#[derive(clap::Args)]
pub struct Mutants {
    /// Parts of mutants' names (forward/acl, Learn::age) or promises of breaks (break 4.2); all, if there
    /// are none
    names: Vec<String>,
    /// Leave out those that were noticed when they were last tried
    #[arg(long)]
    again: bool,
    /// Seconds that the tests that are tried with one mutant take without it, at most
    #[arg(long, default_value_t = 60.0)]
    patience: f32,
}

#[derive(Deserialize)]
struct List {
    #[serde(rename = "break")]
    breaks: Vec<Break>,
}

#[derive(Deserialize)]
struct Break {
    promise: String,
    file: String,
    /// An expression, or whole statements, unless the file is a document.
    find: String,
    replace: String,
    tests: Vec<String>,
}

struct Mutant {
    name: String,
    file: String,
    /// None for a break.
    listed: Option<Listed>,
    find: String,
    replace: String,
    /// Those that must notice it. If there are none, any may.
    tests: Vec<String>,
    number: Option<usize>,
    outcome: Option<Outcome>,
}

#[derive(Clone, PartialEq, Eq)]
enum Outcome {
    /// In a constant expression, for example, which cannot select at run time.
    NoPlace,
    NotCompiled,
    Unreached,
    /// With the tests that failed.
    Noticed(String),
    Survived {
        tried: usize,
        reached: usize,
    },
    /// The test that a break names passes.
    Unnoticed(String),
    /// The test that a break names fails without it.
    Unsound(String),
}

impl Mutants {
    pub fn run(&self) -> Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("bench has a parent")?;
        let mut mutants = all(root)?;
        let workshop = Workshop::new(root);
        let firsts = workshop.library(&mut mutants)?;
        let last = fs::read_to_string(root.join(OUTCOMES)).unwrap_or_default();
        let last: HashMap<_, _> = last.lines().filter_map(|line| line.split_once('\t')).collect();
        let asked: Vec<_> = (0..mutants.len()).filter(|&at| self.asks_for(&mutants[at], &last)).collect();
        ensure!(!asked.is_empty(), "no mutant has such a name");
        let programs = workshop.build(&targets(&mutants, &asked)?)?;
        let trials = record(&programs, root, &mutants, &asked)?;
        let log = Mutex::new(fs::File::create(root.join(OUTCOMES))?);
        let log = |outcome: &str, mutant: &Mutant| {
            writeln!(log.lock().expect("no thread panics"), "{}\t{outcome}", mutant.name)
        };
        // What is not tried now keeps its outcome.
        let is_asked: HashSet<_> = asked.iter().copied().collect();
        for mutant in (0..mutants.len()).filter(|at| !is_asked.contains(at)).map(|at| &mutants[at]) {
            last.get(&*mutant.name).map_or(Ok(()), |outcome| log(outcome, mutant))?;
        }
        let (code, other) = asked.iter().copied().partition::<Vec<_>, _>(|&at| mutants[at].is_code());
        let outcomes = parallel(code.len(), |at| {
            let mutant = &mutants[code[at]];
            let tried = || trials.attempt(mutant, firsts[code[at]], self.patience);
            let outcome = mutant.outcome.clone().map_or_else(tried, Ok)?;
            log(&outcome.words(), mutant)?;
            Ok(outcome)
        })?;
        for (at, outcome) in code.into_iter().zip(outcomes) {
            mutants[at].outcome = Some(outcome);
        }
        for at in other {
            let outcome = workshop.with(&mutants[at], || trials.attempt_named(&mutants[at], None))?;
            log(&outcome.words(), &mutants[at])?;
            mutants[at].outcome = Some(outcome);
        }
        report(asked.iter().map(|&at| &mutants[at]));
        Ok(())
    }

    /// `last` has the outcomes of the last run.
    fn asks_for(&self, mutant: &Mutant, last: &HashMap<&str, &str>) -> bool {
        let is_meant = |asked: &String| mutant.name.contains(asked.as_str());
        let is_noticed = || last.get(&*mutant.name).is_some_and(|outcome| outcome.starts_with(NOTICED));
        (self.names.is_empty() || self.names.iter().any(is_meant)) && !(self.again && is_noticed())
    }
}

/// The targets of the tests that these mutants are tried with.
fn targets(mutants: &[Mutant], asked: &[usize]) -> Result<HashSet<String>> {
    let named = asked.iter().flat_map(|&at| &mutants[at].tests).map(|test| Ok(Named::of(test)?.target));
    let any = asked.iter().any(|&at| mutants[at].tests.is_empty());
    trials::GENERAL.split_whitespace().filter(|_| any).map(|target| Ok(target.to_owned())).chain(named).collect()
}

/// Runs the tests that these mutants are tried with once, without any.
fn record<'a>(programs: &'a [Program], root: &Path, mutants: &[Mutant], asked: &[usize]) -> Result<Trials<'a>> {
    let named = asked.iter().flat_map(|&at| &mutants[at].tests).map(|test| Named::of(test));
    let named = named.collect::<Result<Vec<_>>>()?;
    let any = asked.iter().any(|&at| mutants[at].tests.is_empty());
    let longest = |target: &str, path: &str| match named.iter().any(|named| named.is(target, path)) {
        true => Some(LONGEST_NAMED),
        false => (any && trials::is_general(target)).then_some(trials::LONGEST),
    };
    let trials = Trials::record(programs, &root.join("target/mutants"), mutants.len(), longest)?;
    println!("{} tests", trials.tests.len());
    for test in trials.tests.iter().filter(|test| test.seconds.is_none()) {
        println!("fails in the copy without a mutant, or takes too long: {}", test.name);
    }
    Ok(trials)
}

impl Mutant {
    /// What stands in a document has no number: it is put in place while its tests run.
    fn is_code(&self) -> bool {
        self.file.ends_with(".rs")
    }
}

impl Outcome {
    fn words(&self) -> String {
        match self {
            Self::NoPlace => "no place".into(),
            Self::NotCompiled => "not compiled".into(),
            Self::Unreached => "unreached".into(),
            Self::Noticed(test) => format!("{NOTICED}{test}"),
            Self::Survived { tried, reached } => format!("survived {tried} of {reached} tests"),
            Self::Unnoticed(test) => format!("not noticed by {test}"),
            Self::Unsound(test) => format!("without it fails {test}"),
        }
    }
}

/// The list of cargo-mutants, and the breaks.
fn all(root: &Path) -> Result<Vec<Mutant>> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let listed = command.args(["mutants", "--list", "--json"]).current_dir(root).output()?;
    let error = String::from_utf8_lossy(&listed.stderr);
    ensure!(listed.status.success(), "{error}\ncargo-mutants is wanted: cargo install cargo-mutants --locked");
    let listed: Vec<Listed> = serde_json::from_slice(&listed.stdout)?;
    let List { breaks } = toml::from_str(&fs::read_to_string(root.join("tests/breaks.toml"))?)?;
    let listed = listed.into_iter().map(|listed| Mutant {
        name: listed.name.clone(),
        file: listed.file.clone(),
        listed: Some(listed),
        find: String::new(),
        replace: String::new(),
        tests: Vec::new(),
        number: None,
        outcome: None,
    });
    let breaks = breaks.into_iter().map(|Break { promise, file, find, replace, tests }| Mutant {
        name: format!("break {promise}: {file}: {} instead of {}", replace.trim(), find.trim()).replace('\n', " "),
        file,
        listed: None,
        find,
        replace,
        tests,
        number: None,
        outcome: None,
    });
    Ok(listed.chain(breaks).collect())
}

/// A table of outcomes by module, below what no test noticed.
fn report<'a>(mutants: impl Iterator<Item = &'a Mutant>) {
    let mut rows = BTreeMap::<String, [usize; 5]>::new();
    let mut unseen = 0;
    for mutant in mutants {
        let Some(outcome) = &mutant.outcome else { continue };
        let column = match outcome {
            Outcome::NoPlace => 0,
            Outcome::NotCompiled => 1,
            Outcome::Unreached => 2,
            Outcome::Noticed(_) => 3,
            _ => 4,
        };
        if [2, 4].contains(&column) {
            unseen += 1;
            println!("{}: {}", mutant.name, outcome.words());
        }
        let module = match &mutant.listed {
            Some(_) => mutant.file.trim_end_matches(".rs").split('/').take(3).collect::<Vec<_>>().join("/"),
            None => "breaks".into(),
        };
        for row in [module, "all".into()] {
            rows.entry(row).or_default()[column] += 1;
        }
    }
    println!("| module | mutants | no place | not compiled | unreached | noticed | survived |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (module, of) in rows {
        let cells = of.map(|count| count.to_string()).join(" | ");
        println!("| {module} | {} | {cells} |", of.iter().sum::<usize>());
    }
    println!("{unseen} mutants that no test notices");
}
