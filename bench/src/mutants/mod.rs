//! Mutants: changes of the code, each of which a test must notice.
//!
//! cargo-mutants lists those of the modules in `.cargo/mutants.toml`; `tests/breaks.toml` adds what it
//! has no operator for, each with the tests that must notice it. A copy of the tree holds all of them,
//! and the environment selects one when a test runs: so the copy is compiled once. A first run of
//! each test records what it reaches, and a mutant is tried with these tests alone.

mod places;
mod trials;
mod workshop;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use places::Listed;
use trials::{Named, Trials, parallel};
use workshop::Workshop;

/// Targets whose tests are tried with each mutant that they reach: those that need neither network
/// namespaces nor a compiler.
const TARGETS: &str = "lib cli coco_sketch deparser embedding fourth_program fuzz_seeds live_changes messages \
                       pisa_order program program_of_ones_own rotation route specification switch_accounts \
                       switch_egress switch_observed switch_policy switch_segments wire";

/// Longest sound run of a test that a break names, in seconds.
const LONGEST_NAMED: f32 = 300.0;

/// What became of each mutant in the last run.
const OUTCOMES: &str = "target/mutants/outcomes";

#[derive(clap::Args)]
pub struct Mutants {
    /// Parts of mutants' names (forward/acl, Learn::age) or promises of breaks (4.2); all, if there are
    /// none
    names: Vec<String>,
    /// Try the breaks of tests/breaks.toml alone
    #[arg(long)]
    breaks: bool,
    /// Try those again that the last run did not find noticed
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
        let last = if self.again { fs::read_to_string(root.join(OUTCOMES))? } else { String::new() };
        let noticed =
            last.lines().filter_map(|line| line.split_once('\t')).filter(|(words, _)| words.starts_with("noticed"));
        let noticed: HashSet<_> = noticed.map(|(_, name)| name).collect();
        let is_asked = |mutant: &Mutant| self.asks_for(mutant) && !noticed.contains(&*mutant.name);
        let asked: Vec<_> = (0..mutants.len()).filter(|&at| is_asked(&mutants[at])).collect();
        ensure!(!asked.is_empty(), "no mutant has such a name");
        let named = asked.iter().flat_map(|&at| &mutants[at].tests).map(|test| Named::of(test));
        let named = named.collect::<Result<Vec<_>>>()?;
        let any = asked.iter().any(|&at| mutants[at].tests.is_empty());
        let general: HashSet<_> = TARGETS.split_whitespace().filter(|_| any).collect();
        let targets = general.iter().copied().chain(named.iter().map(|named| named.target.as_str()));
        let programs = workshop.build(&targets.collect())?;
        let is_tried = |target: &str, path: &str| match named.iter().any(|named| named.is(target, path)) {
            true => Some(LONGEST_NAMED),
            false => general.contains(target).then_some(trials::LONGEST),
        };
        let trials = Trials::record(&programs, &root.join("target/mutants"), mutants.len(), is_tried)?;
        println!("{} tests", trials.tests.len());
        trials
            .unsound()
            .for_each(|test| println!("fails in the copy without a mutant, or takes too long: {}", test.name));
        let log = Mutex::new(fs::File::create(root.join(OUTCOMES))?);
        let code: Vec<_> = asked.iter().copied().filter(|&at| mutants[at].is_code()).collect();
        let outcomes = parallel(code.len(), |at| {
            let mutant = &mutants[code[at]];
            let outcome = match &mutant.outcome {
                Some(outcome) => outcome.clone(),
                None => trials.attempt(mutant, firsts[code[at]], self.patience)?,
            };
            writeln!(log.lock().expect("no thread panics"), "{}\t{}", outcome.words(), mutant.name)?;
            Ok(outcome)
        })?;
        for (at, outcome) in code.into_iter().zip(outcomes) {
            mutants[at].outcome = Some(outcome);
        }
        for &at in &asked {
            if mutants[at].is_code() {
                continue;
            }
            mutants[at].outcome = Some(workshop.with(&mutants[at], || trials.attempt_named(&mutants[at], None))?);
        }
        report(asked.iter().map(|&at| &mutants[at]))
    }

    fn asks_for(&self, mutant: &Mutant) -> bool {
        let is_meant = |asked: &String| mutant.name.contains(asked.as_str());
        (mutant.listed.is_none() || !self.breaks) && (self.names.is_empty() || self.names.iter().any(is_meant))
    }
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
            Self::Noticed(test) => format!("noticed by {test}"),
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
        name: format!("{promise}: {file}: {} instead of {}", replace.trim(), find.trim()).replace('\n', " "),
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
fn report<'a>(mutants: impl Iterator<Item = &'a Mutant>) -> Result<()> {
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
            println!("{}: {}", outcome.words(), mutant.name);
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
    Ok(())
}
