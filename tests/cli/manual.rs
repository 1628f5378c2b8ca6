//! `weir completions` and `weir man`.

use std::process::{Command, Stdio};

use crate::{Files, weir};

#[test]
fn completions_name_the_commands() {
    for (shell, sign) in [("bash", "complete -F _weir"), ("zsh", "#compdef weir"), ("fish", "complete -c weir")] {
        let ended = weir(&format!("completions {shell}"));
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        for word in [sign, "doctor", "log-format", "since-reset", "metrics"] {
            assert!(ended.stdout.contains(word), "{shell} does not know {word}");
        }
    }
    weir("completions tcsh").refused(2);
}

/// bash itself reads the script and completes with it.
#[test]
fn bash_completes() {
    let script = weir("completions bash").stdout
        + "\nCOMP_WORDS=(weir show ma); COMP_CWORD=2; _weir weir ma show; echo \"got ${COMPREPLY[*]}\"\n";
    // It is longer than an argument may be.
    let files = Files::new();
    files.write("completions.sh", script);
    let output = Command::new("bash").arg(files.path("completions.sh")).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.lines().any(|line| line == "got macs"), "{text}{}", String::from_utf8_lossy(&output.stderr));
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
    let count = std::fs::read_dir(files.path("man1")).unwrap().count();
    assert!(count > 15, "{count}");
}
