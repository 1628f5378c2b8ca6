//! Output that nobody reads, and output without colours.

use std::process::{Command, Stdio};

use crate::{Ended, Files, binary, in_terminal, weir};

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let files = Files::new();
    files.capture("t.pcap", "isp,flows=3000,packets=30000");
    for words in ["config schema", "budget", "replay t.pcap --top 3000", "replay t.pcap --top 3000 --json", "--help"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(words.split(' ')).current_dir(files.path("."));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!((ended.status.code(), said.as_str()), (Some(0), ""), "weir {words}");
    }
}

#[test]
fn a_message_that_nobody_hears_keeps_its_exit_code() {
    for (words, code) in [("replay absent.pcap", 1), ("budget --target abacus", 2), ("replay", 2)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let mut child = command.args(words.split(' ')).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        drop(child.stderr.take());
        assert_eq!(child.wait().unwrap().code(), Some(code), "weir {words}");
    }
}

#[test]
fn no_escape_sequences() {
    let files = Files::new();
    files.capture("t.pcap", "isp,flows=30,packets=300");
    for words in ["--help", "budget", "replay t.pcap --score", "replay absent.pcap", "frobnicate", "doctor"] {
        for variables in [&[][..], &[("NO_COLOR", "1"), ("RUST_LOG", "debug"), ("TERM", "xterm-256color")]] {
            let mut command = binary();
            command.current_dir(files.path(".")).args(words.split(' ')).envs(variables.iter().copied());
            let ended = Ended::of(command.output().unwrap());
            assert!(!ended.stdout.contains('\x1b') && !ended.stderr.contains('\x1b'), "weir {words}");
        }
    }
}

/// A number is one word for `awk`, and has its thousands apart for a person.
#[test]
fn thousands_are_grouped_on_a_terminal_alone() {
    let words = "budget --target tofino2 --program hashpipe:slots=8192,key=src,slots6=0";
    let bits = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("SRAM bits")).unwrap().to_owned();
        line.trim_start_matches("SRAM bits").trim().to_owned()
    };
    let piped = bits(&weir(words).stdout);
    assert_eq!(piped.split_whitespace().collect::<Vec<_>>(), ["7079040", "209715200", "3.38", "%"]);
    let Some(shown) = in_terminal(100, words) else { return };
    assert!(bits(&shown).starts_with("7 079 040  209 715 200"), "{shown}");
}
