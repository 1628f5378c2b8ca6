//! `weir completions` and `weir man`.

use std::ffi::OsStr;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::CommandFactory;

use crate::{Ended, Files, binary, help, weir};

/// The answer to a shell that completes the last of these words.
fn completed(shell: &str, words: &[impl AsRef<OsStr>]) -> Ended {
    let mut command = binary();
    command.env("WEIR_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
    Ended::of(command.arg("--").args(words).output().unwrap())
}

const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

#[test]
fn completions_name_the_commands() {
    for (shell, sign) in SHELLS.into_iter().zip(["complete -o", "#compdef weir", "complete --keep-order"]) {
        let script = weir(&format!("completions {shell}"));
        assert_eq!(script.code, 0, "{}", script.stderr);
        for word in [sign, "WEIR_COMPLETE"] {
            assert!(script.stdout.contains(word), "{shell}: {word}");
        }
        for (words, there) in [
            (&["weir", ""][..], "doctor"),
            (&["weir", "--log"], "--log-format"),
            (&["weir", "show", "ports", "--since"], "--since-reset"),
            (&["weir", "replay", "src/l"], "src/lib.rs"),
            (&["weir", "port", "add", "a=null", "--role", "fa"], "fabric"),
        ] {
            let completed = completed(shell, words);
            assert_eq!((completed.code, completed.stderr.as_str()), (0, ""));
            assert!(completed.stdout.contains(there), "{shell} {words:?}: {}", completed.stdout);
        }
    }
    weir("completions tcsh").refused(2);
}

/// bash itself reads the script and completes with it.
#[test]
fn bash_completes() {
    let directory = Path::new(env!("CARGO_BIN_EXE_weir")).parent().unwrap();
    let path = std::env::join_paths([directory, "/usr/bin".as_ref(), "/bin".as_ref()]).unwrap();
    let script = "source <(weir completions bash)\nCOMP_WORDS=(weir show ma); COMP_CWORD=2; COMP_TYPE=9\n\
                  _clap_complete_weir weir ma show; echo \"got ${COMPREPLY[*]}\"\n";
    let output = Command::new("bash").args(["-c", script]).env("PATH", path).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.lines().any(|line| line == "got macs"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

/// Those that answer at the usual places, and not the sockets at which controllers take switches.
#[test]
fn switches_and_controllers_on_this_machine_are_completed() {
    let files = Files::new();
    let place = files.path("weir");
    std::fs::DirBuilder::new().mode(0o700).create(&place).unwrap();
    let listen = |name: &str| UnixListener::bind(place.join(name)).unwrap();
    let _listening =
        ["edge-of-test.sock", "net-of-test.sock", "net-of-test.switches.sock", "x of-test.sock"].map(listen);
    drop(listen("killed-of-test.sock"));
    for shell in SHELLS {
        let mut command = binary();
        command.env("XDG_RUNTIME_DIR", files.path("")).env("WEIR_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", "4");
        let ended = Ended::of(command.args(["--", "weir", "port", "up", "--name", ""]).output().unwrap());
        let names: Vec<_> = ended.stdout.lines().filter(|name| name.contains("of-test")).collect();
        assert_eq!((names, ended.stderr.as_str()), (vec!["edge-of-test", "net-of-test"], ""), "{shell}");
    }
}

/// Neither a message nor a long wait, whatever is at the socket.
#[test]
fn without_a_switch_no_names_are_completed() {
    let files = Files::new();
    let _mute = UnixListener::bind(files.path("mute.sock")).unwrap();
    files.write("file.sock", "no socket");
    for socket in ["none.sock", "file.sock", "mute.sock"] {
        let socket = files.path(socket);
        for line in ["port up", "table show", "evict"] {
            let words = ["weir"].into_iter().chain(line.split(' ')).chain(["--socket"]).map(OsStr::new);
            let words: Vec<_> = words.chain([socket.as_os_str(), OsStr::new("")]).collect();
            let started = Instant::now();
            let completed = completed("bash", &words);
            let waited = started.elapsed();
            assert_eq!((completed.code, completed.stderr.as_str()), (0, ""));
            assert!(completed.stdout.lines().all(|word| word.starts_with('-')), "{line}: {}", completed.stdout);
            assert!(waited < Duration::from_secs(5), "{line}: {waited:?}");
        }
    }
}

/// Every command has examples, each of which the command line takes, and help of 80 columns.
#[test]
fn help_has_examples_that_can_be_typed() {
    let wrong = help::wrong(weir::cli::Cli::command());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A user sees them with `--help` and `-h`, and what programs and targets there are.
#[test]
fn help_names_programs_and_targets() {
    for command in ["budget --help", "budget -h"] {
        let help = weir(command).stdout;
        for word in ["Measurement:", "Output:", "EXAMPLES", "Programs: hashpipe", "tofino2"] {
            assert!(help.contains(word), "{command}: {word}: {help}");
        }
    }
    for (words, there) in [
        (&["weir", "replay", "--program", "ha"][..], "hashpipe"),
        (&["weir", "budget", "--target", ""], "tofino2"),
        (&["weir", "show", "heavy", "--program", ""], "hashpipe"),
    ] {
        for shell in SHELLS {
            let completed = completed(shell, words);
            assert!(completed.stdout.contains(there), "{shell} {words:?}: {}", completed.stdout);
        }
    }
    let keys = completed("fish", &["weir", "replay", "--program", "hashpipe:sl"]).stdout;
    assert!(keys.contains("hashpipe:slots="), "{keys}");
}

#[test]
fn pages_one_by_one_and_all_at_once() {
    let run = weir("man run").stdout;
    assert!(run.contains(".TH weir-run 1") && run.contains("\\-\\-duration"), "{run}");
    let heavy = weir("man show heavy").stdout;
    assert!(heavy.contains("\\-\\-threshold"), "{heavy}");
    let message = weir("man nonsense");
    assert!(message.refused(2).contains("there are demo, run, controller, show"), "{}", message.stderr);

    let files = Files::new();
    assert_eq!(files.weir("man --dir man1").code, 0);
    assert_eq!(std::fs::read_to_string(files.path("man1/weir-run.1")).unwrap(), run);
    let pages: Vec<_> = std::fs::read_dir(files.path("man1")).unwrap().map(|page| page.unwrap().path()).collect();
    assert!(pages.len() > 15, "{pages:?}");
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.contains(".SH EXAMPLES\n.nf\n"), "{}", page.display());
    }
}
