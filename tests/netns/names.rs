//! The names of a running switch and controller, as shells complete them.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{BINARY, Controller, Lab, Weir};

/// What a shell gets for the last word of a line, without descriptions and options.
fn completed(shell: &str, line: &str) -> Vec<String> {
    let words: Vec<_> = ["weir"].into_iter().chain(line.split(' ')).collect();
    let mut command = Command::new(BINARY);
    command.env("WEIR_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
    let output = command.arg("--").args(words).stdin(Stdio::null()).output().expect("runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{line}: {output:?}");
    names(&output.stdout)
}

fn names(output: &[u8]) -> Vec<String> {
    let words = String::from_utf8_lossy(output).into_owned();
    let word = |line: &str| line.split(['\t', ':']).next().unwrap_or_default().to_owned();
    words.lines().map(word).filter(|word| !word.is_empty() && !word.starts_with('-')).collect()
}

#[test]
fn names_of_a_running_switch_are_completed() {
    let Some(lab) = Lab::new("names_of_a_running_switch_are_completed") else { return };
    let edge = Weir::start(&lab, &lab.switch, "edge", "--port east=null --port west=null");
    let at = format!("--socket {}", lab.path("edge.sock").display());
    for shell in ["bash", "zsh", "fish"] {
        for verb in ["remove", "up", "down", "mtu", "promiscuous", "fault"] {
            assert_eq!(completed(shell, &format!("port {verb} {at} ")), ["east", "west"], "{shell} {verb}");
        }
        assert_eq!(completed(shell, &format!("port {at} up w")), ["west"], "{shell}");
        assert_eq!(completed(shell, &format!("capture {at} --port e")), ["east"], "{shell}");
        assert_eq!(completed(shell, &format!("trace {at} --next icmp --port e")), ["east"], "{shell}");
        for verb in ["show", "add", "set", "remove", "apply"] {
            assert_eq!(completed(shell, &format!("table {verb} {at} m")), ["mirrors", "macs"], "{shell} {verb}");
        }
    }
    edge.ask("port add north=null");
    assert_eq!(completed("bash", &format!("port up {at} n")), ["north"], "asked anew each time");
    for shell in ["bash", "zsh", "fish"] {
        in_the_shell(&lab, shell, &format!("weir port up {at} "), &["east", "west", "north"]);
    }
    edge.stop();
    assert_eq!(completed("bash", &format!("port up {at} ")), [""; 0]);
}

/// The shell itself reads the script and completes the line, where it is installed; bash is.
fn in_the_shell(lab: &Lab, shell: &str, line: &str, expected: &[&str]) {
    let script = match shell {
        "bash" => {
            "source <(weir completions bash); COMP_WORDS=($LINE ''); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_TYPE=9
             _clap_complete_weir weir '' ''; printf '%s\\n' \"${COMPREPLY[@]}\""
        }
        // In place of the line editor's parts, which want a terminal.
        "zsh" => {
            "compdef() { : }; _describe() { print -rl -- ${(P)@[-1]} }; source <(weir completions zsh)
             words=(${=LINE} ''); CURRENT=$#words; _clap_dynamic_completer_weir"
        }
        _ => "weir completions fish | source; complete -C \"$LINE\"",
    };
    let directory = Path::new(BINARY).parent().expect("a directory");
    let path = std::env::join_paths([directory, "/usr/bin".as_ref(), "/bin".as_ref()]).expect("no colons");
    let mut command = Command::new(shell);
    command.args(["-c", script]).env("PATH", path).env("LINE", line).env("HOME", lab.directory());
    match command.stdin(Stdio::null()).output() {
        Err(error) if shell != "bash" => eprintln!("no {shell} completes here: {error}"),
        output => {
            let output = output.expect("bash runs");
            assert_eq!(names(&output.stdout), expected, "{shell}: {output:?}");
        }
    }
}

#[test]
fn names_of_switches_are_completed() {
    let Some(lab) = Lab::new("names_of_switches_are_completed") else { return };
    let controller = Controller::start(&lab, "--switch alpha --switch beta");
    let at = format!("--socket {}", lab.path("network.sock").display());
    for shell in ["bash", "zsh", "fish"] {
        assert_eq!(completed(shell, &format!("evict {at} ")), ["alpha", "beta"], "{shell}");
        assert_eq!(completed(shell, &format!("evict {at} a")), ["alpha"], "{shell}");
        // It has no ports.
        assert_eq!(completed(shell, &format!("port up {at} ")), [""; 0], "{shell}");
    }
    controller.stop();
}
