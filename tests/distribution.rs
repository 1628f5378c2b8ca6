//! What leaves the repository: the site, the licences of dependencies, the tarball of a release.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[path = "common/skip.rs"]
mod skip;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn written(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

/// Whether it ended well, and what it printed.
fn ended(output: &Output) -> (bool, String) {
    let text = [&output.stdout[..], &output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

fn checked_pages(of: &Path) -> Option<(bool, String)> {
    let output = Command::new(root().join("scripts/site.py")).arg("--check").env("WEIR_SITE_ROOT", of).output();
    output.ok().filter(|output| output.status.code() != Some(127)).map(|output| ended(&output))
}

#[test]
fn every_page_is_listed_and_every_link_leads_somewhere() {
    let test = "every_page_is_listed_and_every_link_leads_somewhere";
    let Some((right, text)) = checked_pages(root()) else {
        return skip::skip(test, skip::Lack::Machine, "there is no python3");
    };
    assert!(right, "{text}");

    let tree = tempfile::tempdir().unwrap();
    let page = |name: &str, text: &str| written(&tree.path().join(name), text);
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SPECIFICATION.md", "CHANGELOG.md"] {
        page(name, "# A page\n");
    }
    page("docs/README.md", "# Pages\n\n**Part**\n\n- [A](a.md): words\n");
    let a = "# A\n\n[b](b.md#two-words), [itself](#a), `[code](none.md)`\n\n```\n[code](none.md)\n```\n";
    page("docs/a.md", a);
    page("docs/b.md", "# B\n\n## Two `words`!\n");
    let (right, text) = checked_pages(tree.path()).unwrap();
    assert_eq!((right, text.trim()), (false, "docs/README.md does not list docs/b.md"));

    page("docs/README.md", "# Pages\n\n**Part**\n\n- [A](a.md): words\n- [B](b.md)\n");
    let (right, text) = checked_pages(tree.path()).unwrap();
    assert!(right, "{text}");
    page("docs/b.md", "# B\n\n## Three words\n\n[c](c.md)\n");
    let (right, text) = checked_pages(tree.path()).unwrap();
    let faults = "docs/a.md: b.md#two-words leads to no heading\ndocs/b.md: c.md leads to no file";
    assert_eq!((right, text.trim()), (false, faults));
}

/// cargo-deny, of a directory in which there is a Cargo.toml.
fn denied(directory: &Path, checks: &[&str]) -> Option<(bool, String)> {
    let tool = root().join("target/tools/bin/cargo-deny");
    let mut deny = Command::new(if tool.is_file() { tool } else { PathBuf::from("cargo-deny") });
    deny.arg("--manifest-path").arg(directory.join("Cargo.toml")).arg("--config").arg(root().join("deny.toml"));
    let allowed = ["--allow", "unmatched-skip", "--allow", "license-not-encountered"];
    deny.args(["--offline", "--workspace", "--color", "never", "check"]).args(allowed).args(checks);
    deny.output().ok().map(|output| ended(&output))
}

/// The lints run cargo-deny on weir itself (`make deny`).
#[test]
fn dependencies_that_are_not_allowed_are_refused() {
    let files = tempfile::tempdir().unwrap();
    let krate = |name: &str, licence: &str, dependencies: &str| {
        let head = format!("[package]\nname = \"{name}\"\nversion = \"1.0.0\"\nedition = \"2024\"\n{licence}\n");
        written(&files.path().join(name).join("Cargo.toml"), &format!("{head}[dependencies]\n{dependencies}"));
        written(&files.path().join(name).join("src/lib.rs"), "");
    };
    let mit = "license = \"MIT\"";
    krate("free", mit, "");
    krate("copyleft", "license = \"GPL-3.0-only\"", "");
    krate("silent", "", "");
    krate("zstd-sys", mit, "");
    let dependencies = |names: &[&str]| {
        let line = |name: &&str| format!("{name} = {{ path = \"../{name}\", version = \"1\" }}\n");
        names.iter().map(line).collect::<String>()
    };
    krate("program", mit, &dependencies(&["free"]));
    let program = files.path().join("program");
    let Some((right, text)) = denied(&program, &["licenses", "bans", "sources"]) else {
        let reason = "there is no cargo-deny; scripts/setup.sh --tools lint installs it";
        return skip::skip("dependencies_that_are_not_allowed_are_refused", skip::Lack::Machine, reason);
    };
    assert!(right, "{text}");
    for (name, check, fault) in
        [("copyleft", "licenses", "GPL-3.0-only"), ("silent", "licenses", "unlicensed"), ("zstd-sys", "bans", "banned")]
    {
        krate("program", mit, &dependencies(&["free", name]));
        let (right, text) = denied(&program, &[check]).unwrap();
        assert!(!right && text.contains(name) && text.contains(fault), "{name}: {text}");
    }
}

/// One number names a release: that of the crates, of the Python package, and of the newest changes.
#[test]
fn versions_agree() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let table = |name: &str| read(name).parse::<toml::Table>().unwrap();
    let cargo = table("Cargo.toml");
    let workspace = &cargo["workspace"];
    let version = workspace["package"]["version"].as_str().unwrap();
    assert_eq!(workspace["dependencies"]["weir"]["version"].as_str().unwrap(), format!("={version}"));
    assert_eq!(table("python/pyproject.toml")["project"]["version"].as_str().unwrap(), version);
    let changes = read("CHANGELOG.md");
    let headings: Vec<_> = changes.lines().filter(|line| line.starts_with("## ")).collect();
    assert_eq!(headings[0], "## [Unreleased]");
    assert!(headings[1].starts_with(&format!("## [{version}] - ")), "{}", headings[1]);
}

/// Packs programs that call those that were built, which are large.
fn packed(programs: &Path, out: &Path, umask: &str, zone: &str) -> PathBuf {
    let script = format!("umask {umask}; exec scripts/tarball.sh \"$@\"");
    let mut pack = Command::new("bash");
    pack.args(["-c", &script, "tarball"]).arg(programs).arg(root().join("LICENSE")).arg(out);
    pack.current_dir(root()).env("SOURCE_DATE_EPOCH", "1700000000").env("TZ", zone);
    let (right, text) = ended(&pack.output().unwrap());
    assert!(right, "{text}");
    PathBuf::from(text.trim())
}

#[test]
fn the_same_files_make_the_same_tarball() {
    let built = Path::new(env!("CARGO_BIN_EXE_weir")).parent().unwrap();
    if !built.join("pktgen").is_file() {
        return skip::skip("the_same_files_make_the_same_tarball", skip::Lack::Machine, "there is no pktgen");
    }
    let files = tempfile::tempdir().unwrap();
    let place = |name: &str| {
        fs::create_dir(files.path().join(name)).unwrap();
        files.path().join(name)
    };
    let programs = place("programs");
    for name in ["weir", "pktgen"] {
        let program = programs.join(name);
        fs::write(&program, format!("#!/bin/sh\nexec '{}' \"$@\"\n", built.join(name).display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let one = packed(&programs, &place("one"), "022", "UTC");
    let other = packed(&programs, &place("other"), "077", "Asia/Tokyo");
    assert!(fs::read(&one).unwrap() == fs::read(&other).unwrap(), "{} and {} differ", one.display(), other.display());

    let list = Command::new("tar").args(["--numeric-owner", "-tvzf"]).arg(&one).output().unwrap();
    let (right, list) = ended(&list);
    assert!(right, "{list}");
    let of_nobody = |line: &str| line.contains(" 0/0 ") && !line.starts_with("-rwx------");
    assert!(list.lines().all(of_nobody), "{list}");
    for name in [
        "bin/weir",
        "bin/pktgen",
        "share/bash-completion/completions/weir",
        "share/zsh/site-functions/_pktgen",
        "share/fish/vendor_completions.d/weir.fish",
        "share/man/man1/weir-run.1",
        "share/man/man1/pktgen.1",
        "share/doc/weir/LICENSE",
        "share/doc/weir/THIRD-PARTY-LICENSES",
        "share/doc/weir/docs/README.md",
    ] {
        assert!(list.lines().any(|line| line.ends_with(&format!("/{name}"))), "{name}: {list}");
    }
}
