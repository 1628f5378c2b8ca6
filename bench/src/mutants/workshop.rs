//! A copy of the tree that holds all mutants, compiled once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::places::{self, Form, Mark, Places, Site};
use super::{Mutant, Outcome};

/// Directories that are no part of the tree.
const BUILT: [&str; 4] = [".git", "target", "out", "corpus"];

/// What the copy's library has beside all else. `mutant` returns which one of `count` mutants is
/// selected, counted from the one with the number `first`, or something larger. `WEIR_MUTANT` has the
/// number; `WEIR_REACHED` has a file with a byte for each number, and the byte of each `first` that
/// the process comes to is set. The file is mapped: a process may end by a signal.
const QUESTION: &str = r#"
extern crate self as weir;

static SELECTED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(UNKNOWN);
static REACHED: std::sync::atomic::AtomicPtr<u8> = std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
const RECORDED: usize = usize::MAX;
const UNKNOWN: usize = usize::MAX - 1;

#[doc(hidden)]
#[inline]
pub fn mutant(first: usize, count: usize) -> usize {
    let selected = SELECTED.load(std::sync::atomic::Ordering::Relaxed);
    if selected >= UNKNOWN { recorded(first, count, selected) } else { selected.wrapping_sub(first) }
}

#[cold]
#[inline(never)]
#[allow(unsafe_code)]
fn recorded(first: usize, count: usize, selected: usize) -> usize {
    use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
    if selected == UNKNOWN {
        let number = std::env::var("WEIR_MUTANT").ok().and_then(|number| number.parse().ok());
        let file = std::env::var_os("WEIR_REACHED");
        let file = file.and_then(|path| std::fs::File::options().read(true).write(true).open(path).ok());
        if let Some(file) = &file {
            use std::os::fd::AsRawFd;
            let length = file.metadata().map_or(0, |metadata| metadata.len() as usize);
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let no_address = std::ptr::null_mut();
            let map = unsafe { libc::mmap(no_address, length, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
            assert!(map != libc::MAP_FAILED);
            REACHED.store(map.cast(), SeqCst);
        }
        SELECTED.store(if file.is_some() { RECORDED } else { number.unwrap_or(UNKNOWN - 1) }, SeqCst);
        return mutant(first, count);
    }
    unsafe { *REACHED.load(SeqCst).add(first) = 1 };
    usize::MAX
}
"#;

/// Lints that refuse code which computes something else than was meant: a mutant does.
const ALLOWED: &str = "#![allow(warnings, arithmetic_overflow, unconditional_panic, overflowing_literals)]\n";

/// Where the copy is, and what is built of it.
pub struct Workshop {
    root: PathBuf,
    tree: PathBuf,
    target: PathBuf,
    /// Names of mutants that did not compile, one in a line.
    rejected: PathBuf,
}

/// A program of tests.
pub struct Program {
    pub name: String,
    pub path: PathBuf,
    /// The directory of its package, where cargo would start it.
    pub directory: PathBuf,
}

impl Workshop {
    pub fn new(root: &Path) -> Self {
        let within = |name: &str| root.join("target/mutants").join(name);
        Self { root: root.to_owned(), tree: within("tree"), target: within("target"), rejected: within("rejected") }
    }

    /// Compiles the library's mutants, less those that do not compile, whose outcome says so.
    /// The sites with their first numbers are what is left.
    pub fn library(&self, mutants: &mut [Mutant]) -> Result<Vec<usize>> {
        let mut files = self.sites(mutants)?;
        let known = fs::read_to_string(&self.rejected).unwrap_or_default();
        let known: HashSet<_> = known.lines().collect();
        let mut rejected: Vec<_> = files
            .iter()
            .flat_map(|(_, sites)| sites.iter().flat_map(|site| site.numbers.iter().copied()))
            .filter(|&mutant| known.contains(&*mutants[mutant].name))
            .collect();
        let mut round = 0;
        loop {
            for &mutant in &rejected {
                mutants[mutant].outcome = Some(Outcome::NotCompiled);
            }
            let out = mutants.iter().filter(|mutant| mutant.outcome == Some(Outcome::NotCompiled));
            fs::create_dir_all(self.tree.parent().context("the tree has a parent")?)?;
            fs::write(&self.rejected, out.map(|mutant| mutant.name.clone() + "\n").collect::<String>())?;
            let mut marks = HashMap::new();
            let mut changed = HashMap::new();
            let library = self.root.join("src/lib.rs");
            changed.insert(library.clone(), format!("{ALLOWED}{}{QUESTION}", fs::read_to_string(&library)?));
            for (file, sites) in &mut files {
                ensure!(*file != library, "src/lib.rs has what selects a mutant, and none itself");
                let text = fs::read_to_string(&file)?;
                let mut kept: Vec<_> = sites.iter().map(|site| site.kept(mutants)).collect();
                let (text, of) = places::guarded(&text, &mut kept);
                marks.insert(file.strip_prefix(&self.root)?.to_owned(), of);
                changed.insert(file.clone(), text);
            }
            copy(&self.root, &self.tree, &changed)?;
            round += 1;
            let errors = self.cargo(&["build", "--lib"])?.1;
            let numbers = files.iter().flat_map(|(_, sites)| sites).flat_map(Numbered::numbers).collect();
            rejected = blame(&errors, &marks, &numbers)?;
            println!("round {round}: {} errors, of {} mutants", errors.len(), rejected.len());
            if errors.is_empty() {
                break;
            }
            let fresh = rejected.iter().filter(|&&mutant| mutants[mutant].outcome.is_none()).count();
            let first = errors[0]["rendered"].as_str().unwrap_or_default();
            ensure!(fresh > 0, "this error is of no mutant:\n{first}");
            if let Some(&mutant) = rejected.iter().find(|&&mutant| !mutants[mutant].tests.is_empty()) {
                bail!("{} does not compile:\n{first}", mutants[mutant].name);
            }
        }
        let mut firsts = vec![0; mutants.len()];
        for (number, first, mutant) in files.iter().flat_map(|(_, sites)| sites).flat_map(Numbered::all) {
            (mutants[mutant].number, firsts[mutant]) = (Some(number), first);
        }
        Ok(firsts)
    }

    /// The sites of all files, numbered. A mutant without a place has its outcome.
    fn sites(&self, mutants: &mut [Mutant]) -> Result<Vec<(PathBuf, Vec<Numbered>)>> {
        let mut files = BTreeMap::<PathBuf, Vec<usize>>::new();
        // A break comes first: a mutant that lies across it gives way.
        let in_turn = |listed: bool| move |(_, mutant): &(usize, &Mutant)| mutant.listed.is_some() == listed;
        for listed in [false, true] {
            for (at, mutant) in mutants.iter().enumerate().filter(in_turn(listed)).filter(|(_, m)| m.is_code()) {
                files.entry(self.root.join(&mutant.file)).or_default().push(at);
            }
        }
        let mut next = 0;
        let mut all = Vec::new();
        for (file, within) in files {
            let text = fs::read_to_string(&file)?;
            let places = Places::of(&text).with_context(|| file.display().to_string())?;
            let mut sites = Vec::<Numbered>::new();
            for at in within {
                let mutant = &mut mutants[at];
                let place = match (&mutant.listed, &mutant.find) {
                    (Some(listed), _) => places.place(&text, listed),
                    (None, find) => {
                        let range = places::only(&text, find).with_context(|| mutant.name.clone())?;
                        Some((range, Form::Instead(mutant.replace.clone())))
                    }
                };
                let place = place.filter(|(range, _)| sites.iter().all(|site| site.site.nests(range)));
                let Some((range, form)) = place else {
                    ensure!(mutant.listed.is_some(), "{} lies across another", mutant.name);
                    mutant.outcome = Some(Outcome::NoPlace);
                    continue;
                };
                let same = sites.iter_mut().find(|site| site.site.range == range);
                let site = match same {
                    Some(site) => site,
                    None => {
                        let site = Site { range, first: 0, forms: Vec::new() };
                        sites.push(Numbered { site, numbers: Vec::new() });
                        let last = sites.len() - 1;
                        &mut sites[last]
                    }
                };
                site.site.forms.push(Some(form));
                site.numbers.push(at);
            }
            for site in &mut sites {
                site.site.first = next;
                next += site.numbers.len();
            }
            all.push((file, sites));
        }
        Ok(all)
    }

    /// What `work` finds while a break of a document is in place.
    pub fn with<T>(&self, of: &Mutant, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let path = self.tree.join(&of.file);
        let text = fs::read_to_string(&path)?;
        let range = places::only(&text, &of.find).with_context(|| of.name.clone())?;
        fs::write(&path, [&text[..range.start], &of.replace, &text[range.end..]].concat())?;
        let found = work();
        fs::write(path, text)?;
        found
    }

    /// Compiles targets of tests.
    pub fn build(&self, targets: &HashSet<String>) -> Result<Vec<Program>> {
        let mut arguments = vec!["test", "--no-run", "--lib"];
        for target in targets.iter().filter(|target| ![LIBRARY, GENERATOR].contains(&target.as_str())) {
            match target.as_str() {
                BENCH => arguments.extend(["--bin", BENCH]),
                GENERATOR_PROGRAM => arguments.extend(["--bin", GENERATOR]),
                _ => arguments.extend(["--test", target]),
            };
        }
        let (artifacts, errors) = self.cargo(&arguments)?;
        if let Some(error) = errors.first() {
            bail!("{}", error["rendered"].as_str().unwrap_or_default());
        }
        let programs = artifacts.into_iter().filter(|artifact| artifact["profile"]["test"] == true);
        let program = |artifact: Value| {
            let name = artifact["target"]["name"].as_str()?;
            let name = match (artifact["target"]["kind"][0].as_str()?, name) {
                ("lib", "weir") => LIBRARY,
                ("bin", GENERATOR) => GENERATOR_PROGRAM,
                _ => name,
            };
            let directory = Path::new(artifact["manifest_path"].as_str()?).parent()?.to_owned();
            Some(Program { name: name.to_owned(), path: artifact["executable"].as_str()?.into(), directory })
        };
        Ok(programs.filter_map(program).collect())
    }

    /// Runs cargo on the copy: artifacts and errors.
    fn cargo(&self, arguments: &[&str]) -> Result<(Vec<Value>, Vec<Value>)> {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(arguments).args(["--locked", "--workspace", "--quiet", "--message-format", "json"]);
        command.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
        // Nobody looks at a mutant with a debugger, and to optimise functions with so many branches
        // takes longer than it saves.
        command.envs([("CARGO_PROFILE_DEV_DEBUG", "0"), ("CARGO_PROFILE_DEV_OPT_LEVEL", "0")]);
        let log = self.tree.join("../messages");
        let built = command.stdin(Stdio::null()).stderr(fs::File::create(&log)?).output()?;
        let lines = built.stdout.split(|&byte| byte == b'\n');
        let (mut artifacts, mut errors) = (Vec::new(), Vec::new());
        for mut message in lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok()) {
            match message["reason"].as_str() {
                Some("compiler-artifact") => artifacts.push(message),
                Some("compiler-message") if message["message"]["level"] == "error" => {
                    errors.push(message["message"].take());
                }
                _ => {}
            }
        }
        errors.retain(|error| error["spans"].as_array().is_some_and(|spans| !spans.is_empty()));
        ensure!(built.status.success() || !errors.is_empty(), "{}", fs::read_to_string(log)?);
        Ok((artifacts, errors))
    }
}

/// A site, and the mutants that have its numbers.
struct Numbered {
    site: Site,
    numbers: Vec<usize>,
}

impl Numbered {
    /// Without those that do not compile.
    fn kept(&self, mutants: &[Mutant]) -> Site {
        let mut site = self.site.clone();
        for (form, &mutant) in site.forms.iter_mut().zip(&self.numbers) {
            form.take_if(|_| mutants[mutant].outcome.is_some());
        }
        site
    }

    /// Number, the site's first one, and mutant.
    fn all(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        self.numbers.iter().enumerate().map(|(at, &mutant)| (self.site.first + at, self.site.first, mutant))
    }

    fn numbers(&self) -> impl Iterator<Item = (usize, usize)> {
        self.all().map(|(number, _, mutant)| (number, mutant))
    }
}

/// The mutants that these errors speak of.
fn blame(errors: &[Value], marks: &HashMap<PathBuf, Vec<Mark>>, mutants: &HashMap<usize, usize>) -> Result<Vec<usize>> {
    let mut blamed = HashSet::new();
    for error in errors {
        let mut files = HashMap::<PathBuf, [Vec<Range<usize>>; 2]>::new();
        for span in error["spans"].as_array().into_iter().flatten() {
            let byte = |key: &str| span[key].as_u64().unwrap_or_default() as usize;
            let file = PathBuf::from(span["file_name"].as_str().unwrap_or_default());
            let kind = usize::from(span["is_primary"] != true);
            files.entry(file).or_default()[kind].push(byte("byte_start")..byte("byte_end"));
        }
        let numbers = files.iter().find_map(|(file, [first, second])| places::blamed(marks.get(file)?, first, second));
        blamed.extend(numbers.into_iter().flatten().map(|number| mutants[&number]));
    }
    Ok(blamed.into_iter().collect())
}

/// The unit tests' target.
pub const LIBRARY: &str = "lib";

/// The target of this program's own tests.
pub const BENCH: &str = "bench";

/// The target of the generator's unit tests. Its other tests have names of their own.
pub const GENERATOR: &str = "pktgen";

/// Its program, whose tests are in `main.rs`.
pub const GENERATOR_PROGRAM: &str = "pktgen main";
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
