//! `weir doctor`: what is missing on this machine, each with the command that mends it.

mod cgroup;
mod checks;
mod host;
mod machine;

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::output::{self, Cell, Field, Page, Table, Tables, row};
use super::{Failure, help};
use machine::Machine;

/// Bytes of memory that this process may still take, if that is known.
#[cfg(feature = "control")]
pub(super) fn available_memory() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    checks::available_memory(&meminfo, &cgroup::Limits::probe(std::path::Path::new("/")))
}

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir doctor",
    "weir doctor --json",
]))]
pub struct Doctor {
    #[command(flatten)]
    tables: Tables,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    /// It works, but not as well as it could, or something that is seldom needed is not there.
    Warn,
    /// The feature in `purpose` does not work.
    Missing,
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Check {
    name: &'static str,
    status: Status,
    purpose: &'static str,
    found: String,
    /// A command that mends it, or what to do where no command can.
    mend: Option<String>,
    /// Without it weir cannot run at all, not even `weir demo`.
    vital: bool,
    /// The page that says more, below docs/ (/usr/share/doc/weir/ of the package).
    docs: &'static str,
}

/// The checks by name, with the feature that needs each and its page of the documentation.
const SUBJECTS: [(&str, &str, &str); 20] = [
    ("dpdk", "live ports", "README.md"),
    ("cpu", "DPDK", "README.md"),
    ("hash-unit", "sixteen CRCs at once", "README.md"),
    ("memory", "everything", "README.md"),
    ("cores", "each worker polls one, all the time", "testbed.md#cores"),
    ("huge-pages", "faster packet buffers; weir runs without", "testbed.md#huge-pages"),
    ("tun", "tap ports", "laptop.md#rights"),
    ("net-admin", "tap ports", "laptop.md#rights"),
    ("net-raw", "veth ports", "laptop.md#rights"),
    ("user-namespaces", "tap and veth ports for ordinary users, in unshare -rn", "laptop.md#rights"),
    ("isolation", "steady latency", "testbed.md#cores"),
    ("hyperthreads", "a core that the worker has to itself", "testbed.md#cores"),
    ("memlock", "pci and xdp ports", "testbed.md#locked-memory"),
    ("af-xdp", "xdp ports", "ports.md#xdp-an-interface-that-is-there-faster"),
    ("vhost-net", "virtio-user ports to the kernel", "ports.md#vhost-and-virtio-user-virtual-machines-containers"),
    ("interfaces", "veth and xdp ports", "ports.md#veth-an-interface-that-is-there"),
    ("pci", "pci ports", "testbed.md#network-cards"),
    ("iommu", "pci ports through vfio-pci", "testbed.md#network-cards"),
    ("tools", "the examples and tests with network namespaces", "namespaces.md"),
    ("control-sockets", "weir show and weir port", "README.md"),
];

impl Check {
    fn new(name: &'static str, status: Status, found: impl Into<String>) -> Self {
        let subject = SUBJECTS.iter().find(|(subject, ..)| *subject == name);
        let (_, purpose, docs) = subject.copied().unwrap_or_default();
        Self { name, status, purpose, found: found.into(), mend: None, vital: false, docs }
    }

    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self::new(name, Status::Ok, found)
    }

    fn warn(name: &'static str, found: impl Into<String>) -> Self {
        Self::new(name, Status::Warn, found)
    }

    fn missing(name: &'static str, found: impl Into<String>) -> Self {
        Self::new(name, Status::Missing, found)
    }

    fn mend(self, command: impl Into<String>) -> Self {
        Self { mend: Some(command.into()), ..self }
    }

    fn vital(self) -> Self {
        Self { vital: true, ..self }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    /// weir can run here, if only its demo.
    ok: bool,
    checks: Vec<Check>,
}

impl Report {
    fn of(machine: &Machine) -> Self {
        let checks = checks::all(machine);
        Self { ok: !checks.iter().any(|check| check.vital && check.status == Status::Missing), checks }
    }

    fn page(&self) -> Page {
        let mut table = Table::new(["status", "check", "found|found,purpose,mend,docs"], []).keyed(2);
        for check in &self.checks {
            let status = match check.status {
                Status::Ok => "ok",
                Status::Warn => "warn",
                Status::Missing => "missing",
            };
            let Check { name, purpose, found, mend, docs, .. } = check;
            let mend = mend.as_ref().filter(|_| check.status != Status::Ok);
            let notes = mend.map(|mend| vec![format!("{:9}→ {mend}", ""), format!("{:9}  docs/{docs}", "")]);
            let found = Cell {
                text: format!("{found}  [{purpose}]"),
                values: [found.as_str(), purpose, mend.map_or("", String::as_str), docs].map(Field::from).into(),
            };
            table.push(row![status, *name, found], notes.unwrap_or_default());
        }
        let of = |status| self.checks.iter().filter(|check| check.status == status).count();
        let verdict = match (self.ok, of(Status::Missing), of(Status::Warn)) {
            (false, ..) => "weir cannot run here until what is missing is mended.".to_owned(),
            (true, 0, 0) => "weir can run here, and nothing is missing.".to_owned(),
            (true, missing, warn) => {
                format!("weir can run here ({missing} missing, {}): weir demo", output::count(warn as u64, "warning"))
            }
        };
        Page::default().table("checks", table).text(verdict)
    }
}

impl Doctor {
    /// Exit code 0 when weir can run at all, 1 when it cannot.
    pub fn run(self, json: bool) -> Result<ExitCode, Failure> {
        let format = self.tables.format(json)?;
        let report = Report::of(&Machine::probe());
        output::page(&format, &report, Report::page)?;
        Ok(if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::Style;

    #[test]
    fn mends_stand_under_what_they_mend() {
        let checks = vec![
            Check::ok("cores", "2").mend("not shown"),
            Check::warn("huge-pages", "none").mend("sysctl vm.nr_hugepages=128"),
        ];
        let page = Report { ok: true, checks }.page();
        assert_eq!(
            page.to_text(Style::Plain),
            "status  check       found\n\
             ok      cores       2  [each worker polls one, all the time]\n\
             warn    huge-pages  none  [faster packet buffers; weir runs without]\n         \
             → sysctl vm.nr_hugepages=128\n           docs/testbed.md#huge-pages\n\n\
             weir can run here (0 missing, 1 warning): weir demo"
        );
    }

    #[test]
    fn every_check_has_a_subject_whose_page_is_there_with_its_heading() {
        let checks = checks::all(&Machine::default());
        assert_eq!(checks.iter().find(|check| check.docs.is_empty()).map(|check| check.name), None);
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        for (check, _, page) in SUBJECTS {
            let (file, heading) = page.split_once('#').unwrap_or((page, ""));
            let text = std::fs::read_to_string(docs.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
            let plain = |line: &str| line.trim_start_matches(['#', ' ']).replace([':', ','], "").to_lowercase();
            let anchor = |line: &str| plain(line).replace(' ', "-");
            let there = text.lines().any(|line| line.starts_with("##") && anchor(line) == heading);
            assert!(heading.is_empty() || there, "{check}: no heading {heading} in {file}");
        }
    }

    #[test]
    fn only_what_is_vital_decides() {
        let missing = Check::missing("tun", "no");
        let ok = |checks: &[Check]| !checks.iter().any(|check| check.vital && check.status == Status::Missing);
        assert!(ok(std::slice::from_ref(&missing)));
        assert!(!ok(&[missing.vital()]));
    }
}
