//! `weir doctor`: what is missing on this machine, each with the command that mends it.

mod checks;
mod host;
mod machine;

use std::process::ExitCode;

use serde::Serialize;

use super::output;
use machine::Machine;

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

/// The page of the documentation for a check.
fn page(check: &str) -> &'static str {
    match check {
        "huge-pages" => "testbed.md#huge-pages",
        "cores" | "isolation" | "hyperthreads" => "testbed.md#cores",
        "pci" | "iommu" => "testbed.md#network-cards",
        "memlock" => "testbed.md#locked-memory",
        "tun" | "net-admin" | "net-raw" | "user-namespaces" => "laptop.md#rights",
        "tools" => "namespaces.md",
        "af-xdp" => "ports.md#xdp-an-interface-that-is-there-faster",
        "vhost-net" => "ports.md#vhost-and-virtio-user-virtual-machines-containers",
        _ => "README.md",
    }
}

impl Check {
    fn new(name: &'static str, purpose: &'static str, status: Status, found: impl Into<String>) -> Self {
        Self { name, status, purpose, found: found.into(), mend: None, vital: false, docs: page(name) }
    }

    fn ok(name: &'static str, purpose: &'static str, found: impl Into<String>) -> Self {
        Self::new(name, purpose, Status::Ok, found)
    }

    fn warn(name: &'static str, purpose: &'static str, found: impl Into<String>) -> Self {
        Self::new(name, purpose, Status::Warn, found)
    }

    fn missing(name: &'static str, purpose: &'static str, found: impl Into<String>) -> Self {
        Self::new(name, purpose, Status::Missing, found)
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

    fn text(&self) -> String {
        let mut lines = Vec::new();
        for check in &self.checks {
            let status = match check.status {
                Status::Ok => "ok",
                Status::Warn => "warn",
                Status::Missing => "missing",
            };
            lines.push(format!("{status:8} {:15} {}  [{}]", check.name, check.found, check.purpose));
            if let Some(mend) = check.mend.as_ref().filter(|_| check.status != Status::Ok) {
                lines.push(format!("{:24} → {mend}", ""));
                lines.push(format!("{:24}   docs/{}", "", check.docs));
            }
        }
        let of = |status| self.checks.iter().filter(|check| check.status == status).count();
        let verdict = match (self.ok, of(Status::Missing), of(Status::Warn)) {
            (false, ..) => "weir cannot run here until what is missing is mended.".to_owned(),
            (true, 0, 0) => "weir can run here, and nothing is missing.".to_owned(),
            (true, missing, warn) => format!(
                "weir can run here ({missing} missing, {}): weir demo",
                super::output::count(warn as u64, "warning")
            ),
        };
        lines.extend([String::new(), verdict]);
        lines.join("\n")
    }
}

/// Exit code 0 when weir can run at all, 1 when it cannot.
pub fn run(json: bool) -> ExitCode {
    let report = Report::of(&Machine::probe());
    let printed = if json { output::json(&report) } else { output::print(&report.text()) };
    if report.ok && printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mends_stand_under_what_they_mend() {
        let checks = vec![
            Check::ok("cores", "workers", "2").mend("not shown"),
            Check::warn("huge-pages", "buffers", "none").mend("sysctl vm.nr_hugepages=128"),
        ];
        let text = Report { ok: true, checks }.text();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "ok       cores           2  [workers]");
        assert_eq!(lines[1], "warn     huge-pages      none  [buffers]");
        assert_eq!(lines[2].trim(), "→ sysctl vm.nr_hugepages=128");
        assert_eq!(lines[3].trim(), "docs/testbed.md#huge-pages");
        assert_eq!(lines[5], "weir can run here (0 missing, 1 warning): weir demo");
    }

    #[test]
    fn every_page_is_there_with_its_heading() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        for check in checks::all(&Machine::default()).iter().map(|check| check.name).chain(["iommu", "pci"]) {
            let (file, heading) = page(check).split_once('#').unwrap_or((page(check), ""));
            let text = std::fs::read_to_string(docs.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
            let plain = |line: &str| line.trim_start_matches(['#', ' ']).replace([':', ','], "").to_lowercase();
            let anchor = |line: &str| plain(line).replace(' ', "-");
            let there = text.lines().any(|line| line.starts_with("##") && anchor(line) == heading);
            assert!(heading.is_empty() || there, "{check}: no heading {heading} in {file}");
        }
    }

    #[test]
    fn only_what_is_vital_decides() {
        let missing = Check::missing("tap", "tap ports", "no");
        let ok = |checks: &[Check]| !checks.iter().any(|check| check.vital && check.status == Status::Missing);
        assert!(ok(std::slice::from_ref(&missing)));
        assert!(!ok(&[missing.vital()]));
    }
}
