//! `bench suite`: weir beside its peers, each axis varied around one base case, in interleaved
//! rounds; a dated record with tables and pictures.

mod bars;
mod case;
mod chart;
mod facts;
mod generate;
mod measure;
mod native;
mod peers;
mod place;
mod record;
mod results;
mod switch;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;

use case::Case;
use facts::CpuTime;
pub use generate::Generate;
use measure::Bench;
use peers::Machine;
use record::Head;
use results::Measured;
pub use switch::Weir;

#[derive(Args)]
pub struct Suite {
    /// Rounds; in each, every case runs once [3; with --quick 1]
    #[arg(long)]
    rounds: Option<usize>,
    /// Seconds in which a rate is measured; a load takes a third of it [1; with --quick 0.3]
    #[arg(long)]
    seconds: Option<f64>,
    /// One short round: whether everything works
    #[arg(long)]
    quick: bool,
    /// Only cases whose group, port or contender holds one of these words; --list shows them
    #[arg(long, value_name = "WORD")]
    only: Vec<String>,
    /// Says what would be measured, and how long it takes
    #[arg(long)]
    list: bool,
    /// Directory for the record and its pictures
    #[arg(long, value_name = "DIR", default_value = "bench/record")]
    out: PathBuf,
    /// One JSON document on stdout in place of the tables, with every round
    #[arg(long)]
    json: bool,
    /// The weir to run; by default the one beside this program
    #[arg(long)]
    weir: Option<PathBuf>,
    /// The cores: the first forwards where one does, the last is the generator's
    #[arg(long, value_delimiter = ',', default_values_t = [1, 0])]
    cores: Vec<usize>,
}

impl Suite {
    /// # Errors
    /// If nothing can be measured, or the record cannot be written.
    pub fn run(&self) -> Result<()> {
        let machine = Machine::look();
        let mut cores = self.cores.clone();
        cores.sort_unstable();
        cores.dedup();
        let there = cores.len() == self.cores.len() && cores.iter().all(|core| *core < machine.cpus);
        ensure!(there, "--cores: different ones of 0 to {}", machine.cpus - 1);
        let machine = Machine { cpus: cores.len(), ..machine };
        let cases: Vec<_> = case::cases(&machine).into_iter().filter(|case| case.matches(&self.only)).collect();
        let missing = machine.missing();
        missing.iter().for_each(|words| eprintln!("left out: {words}"));
        ensure!(!cases.is_empty(), "no case of that name; --list shows all");
        ensure!(self.rounds() > 0, "--rounds: at least one");
        let minutes = self.estimate(&cases) / 60.0;
        if self.list {
            cases.iter().for_each(|case| println!("{}", named(case)));
            println!("{} cases, {} rounds: about {minutes:.0} minutes", cases.len(), self.rounds());
            return Ok(());
        }
        eprintln!("{} cases, {} rounds: about {minutes:.0} minutes", cases.len(), self.rounds());
        fs::create_dir_all(&self.out).with_context(|| format!("creating {}", self.out.display()))?;
        let bench = Bench::new(self.weir()?, self.seconds(), self.cores.clone())?;
        let before = (CpuTime::now(), Instant::now());
        let all = self.measure(&bench, cases);
        let stolen = CpuTime::now().stolen_since(before.0);
        let mut facts: Vec<(String, String)> =
            facts::facts().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        facts.push(("stolen by the hypervisor".into(), format!("{:.1} % of the CPUs' time", stolen * 100.0)));
        facts.push(("run".into(), format!("{:.1} minutes", before.1.elapsed().as_secs_f64() / 60.0)));
        self.write(&all, &facts, &missing)
    }

    fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 })
    }

    fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { 0.3 } else { 1.0 })
    }

    fn weir(&self) -> Result<PathBuf> {
        Ok(match &self.weir {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("weir"),
        })
    }

    /// Seconds that all rounds take.
    fn estimate(&self, cases: &[Case]) -> f64 {
        let measured = |case: &Case| match case.group {
            case::Group::Load => self.seconds() / 3.0 * 11.0,
            case::Group::Start => 0.0,
            _ => self.seconds(),
        };
        let round: f64 = cases.iter().map(|case| case.overhead() + measured(case)).sum();
        round * self.rounds() as f64
    }

    fn measure(&self, bench: &Bench, cases: Vec<Case>) -> Vec<Measured> {
        let mut all = Measured::all(cases);
        let number = all.len();
        for round in 1..=self.rounds() {
            let begin = Instant::now();
            for (measured, place) in all.iter_mut().zip(1..) {
                let outcome = bench.run(&measured.case).map_err(|error| format!("{error:#}"));
                let words = match &outcome {
                    Ok(outcome) => told(outcome),
                    Err(error) => format!("failed: {error}"),
                };
                eprintln!("{round}/{} {place}/{number} {}: {words}", self.rounds(), named(&measured.case));
                measured.outcomes.push(outcome);
            }
            eprintln!("round {round} of {} done in {:.0} s", self.rounds(), begin.elapsed().as_secs_f64());
        }
        all
    }

    fn write(&self, all: &[Measured], facts: &[(String, String)], missing: &[String]) -> Result<()> {
        let date = facts::date();
        let stem = free_stem(&date, |stem| self.out.join(format!("{stem}.md")).exists());
        let get = |name: &str| facts.iter().find(|fact| fact.0 == name).map_or("", |fact| &fact.1);
        let note = format!(
            "Median and range of {} in turns; {}; kernel {}, DPDK {}, commit {}",
            rounds(self.rounds()),
            get("CPU"),
            get("kernel"),
            get("DPDK"),
            get("commit")
        );
        let pictures = chart::draw(all, &note, &self.out, &stem)?;
        let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
        let head = Head {
            date: &date,
            command: &format!("bench {command}"),
            facts,
            missing,
            rounds: self.rounds(),
            pictures: &pictures,
        };
        let text = record::record(&head, all);
        let path = self.out.join(format!("{stem}.md"));
        fs::write(&path, &text).with_context(|| format!("writing {}", path.display()))?;
        match self.json {
            true => println!("{}", serde_json::to_string_pretty(&results::document(all, facts, missing))?),
            false => print!("{text}"),
        }
        eprintln!("written: {}", path.display());
        Ok(())
    }
}

fn rounds(number: usize) -> String {
    if number == 1 { "one round".into() } else { format!("{number} rounds") }
}

/// The name of a record's files, without extension: a second one of a day gets a number.
fn free_stem(date: &str, taken: impl Fn(&str) -> bool) -> String {
    let first = format!("{date}-suite");
    let numbered = (2..).map(|number| format!("{first}-{number}"));
    std::iter::once(first.clone()).chain(numbered).find(|stem| !taken(stem)).unwrap_or(first)
}

fn named(case: &Case) -> String {
    let setting = case.setting;
    let mut words =
        format!("{}: {} on {}, {} bytes", case.group.name(), case.contender, setting.port.name(), setting.size);
    if let Some(flows) = setting.flows {
        words += &format!(", {flows} flows");
    }
    if setting.cores > 1 {
        words += &format!(", {} cores", setting.cores);
    }
    if !setting.huge_pages {
        words += ", no huge pages";
    }
    words
}

fn told(outcome: &measure::Outcome) -> String {
    use measure::Outcome::{Load, Rate, Start};
    match outcome {
        Rate(rate) => format!("{:.2} M packets/s", rate / 1e6),
        Load(curve) => {
            let half = curve.points.iter().find(|point| point.load == 50);
            let p99 = half.map_or(0.0, |point| point.latency[1]);
            format!("{:.3} M packets/s, p99 {p99:.1} µs at half of it", curve.throughput / 1e6)
        }
        Start(footprint) => {
            let first = Duration::from_secs_f64(footprint.first_frame_seconds.max(0.0));
            format!("first frame after {first:.0?}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        suite: Suite,
    }

    fn suite(words: &[&str]) -> Suite {
        Line::try_parse_from([&["bench"], words].concat()).unwrap().suite
    }

    #[test]
    fn the_default_takes_about_a_quarter_of_an_hour() {
        let cases = case::cases(&Machine::complete());
        let minutes = suite(&[]).estimate(&cases) / 60.0;
        assert!((8.0..16.0).contains(&minutes), "{minutes}");
        assert!(suite(&["--quick"]).estimate(&cases) < suite(&["--rounds", "1"]).estimate(&cases));
    }

    #[test]
    fn a_second_record_of_a_day_overwrites_nothing() {
        assert_eq!(free_stem("2026-11-23", |_| false), "2026-11-23-suite");
        let taken = ["2026-11-23-suite", "2026-11-23-suite-2"];
        assert_eq!(free_stem("2026-11-23", |stem| taken.contains(&stem)), "2026-11-23-suite-3");
    }

    #[test]
    fn the_record_and_its_pictures_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let suite = suite(&["--out", dir.path().to_str().unwrap()]);
        let facts = [("CPU".to_owned(), "any CPU".to_owned())];
        suite.write(&results::tests::example(), &facts, &["BMv2".into()]).unwrap();
        let mut files: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        files.sort();
        let record = files.iter().find(|file| file.to_str().unwrap().ends_with(".md")).unwrap();
        let text = fs::read_to_string(dir.path().join(record)).unwrap();
        for picture in files.iter().filter(|file| file.to_str().unwrap().ends_with(".svg")) {
            assert!(text.contains(picture.to_str().unwrap()), "{picture:?} is not in\n{text}");
        }
        assert_eq!(files.len(), 4);
    }
}
