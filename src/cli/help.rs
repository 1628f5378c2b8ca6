//! What the help of every command has: groups of options, examples at its end, and the names of the
//! programs and targets that there are.

use std::ffi::OsStr;

use clap::Command;
use clap_complete::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};

use crate::pisa::Target;
use crate::program::ProgramConfig;

/// Groups of options that several commands have.
pub const OUTPUT: &str = "Output";
#[cfg(feature = "control")]
pub const SWITCH: &str = "Which switch";
pub const MEASUREMENT: &str = "Measurement";

/// The heading of the examples at the end of a command's help, and of its manual page.
pub const EXAMPLES: &str = "EXAMPLES";

/// The end of a command's help: command lines, each of at most 78 columns. One that ends in `\` goes
/// on in the next. `{program}` stands for the first program that there is, `{networked}` for the
/// first whose records a controller takes.
pub fn examples(lines: &[&str]) -> String {
    let named = |line: &str| {
        let mut line = line.to_owned();
        if line.contains("{program}") {
            line = line.replace("{program}", ProgramConfig::names().next().unwrap_or_default());
        }
        if line.contains("{networked}") {
            line = line.replace("{networked}", ProgramConfig::networked().name());
        }
        format!("\n  {line}")
    };
    lines.iter().fold(EXAMPLES.to_owned(), |text, line| text + &named(line))
}

/// What stands at the end of a command's help: notes, and the lines of its examples.
pub fn end(command: &Command) -> (String, Vec<String>) {
    let text = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string).unwrap_or_default();
    let mut lines = text.lines().map(str::to_owned);
    let notes: Vec<_> = lines.by_ref().take_while(|line| line != EXAMPLES).collect();
    (notes.join("\n").trim_end().to_owned(), lines.collect())
}

/// The help of an option that takes a program, with the names that there are.
pub fn of_programs(help: &str) -> String {
    format!("{help}. Programs: {}", ProgramConfig::names().collect::<Vec<_>>().join(", "))
}

/// The help of an option that takes a target, with the names that there are.
pub fn of_targets(help: &str) -> String {
    format!("{help}: {}, or auto, the first of them that the programs fit", Target::ALL.map(|t| t.name).join(", "))
}

/// Completes the name of a program.
#[cfg(feature = "control")]
pub fn program_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| ProgramConfig::names().map(CompletionCandidate::new).collect())
}

/// Completes a program with its parameters: its name, and behind the colon its keys.
pub fn programs() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| {
        let word = word.to_str().unwrap_or_default();
        completed(word).into_iter().filter(|whole| whole.starts_with(word)).map(CompletionCandidate::new).collect()
    })
}

/// The programs, or the program of `word` with each of its keys in place of the last.
fn completed(word: &str) -> Vec<String> {
    let Some((name, settings)) = word.split_once(':') else {
        return ProgramConfig::names().map(str::to_owned).collect();
    };
    let before = settings.rfind(',').map_or("", |comma| &settings[..=comma]);
    let schema = ProgramConfig::schema(name);
    let keys = schema.as_ref().and_then(|schema| schema.as_value()["properties"].as_object());
    keys.into_iter().flatten().map(|(key, _)| format!("{name}:{before}{key}=")).collect()
}

/// Completes the name of a target.
pub fn targets() -> ArgValueCandidates {
    let names = || Target::ALL.map(|target| target.name).into_iter().chain(["auto"]);
    ArgValueCandidates::new(move || names().map(CompletionCandidate::new).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_their_keys_are_completed() {
        for program in ProgramConfig::defaults() {
            let name = program.name();
            assert!(completed("").iter().any(|word| word == name));
            let keys = completed(&format!("{name}:x=1,"));
            assert!(!keys.is_empty() && keys.iter().all(|key| key.starts_with(&format!("{name}:x=1,"))), "{keys:?}");
            for key in program.fields().keys() {
                assert!(keys.contains(&format!("{name}:x=1,{key}=")), "{key}: {keys:?}");
            }
        }
        assert!(completed("none:").is_empty());
    }

    #[test]
    fn examples_have_the_names_that_there_are() {
        let [first, networked] = [ProgramConfig::names().next().unwrap(), ProgramConfig::networked().name()];
        let text = examples(&["weir a {program}", "weir b {networked}"]);
        assert_eq!(text, format!("EXAMPLES\n  weir a {first}\n  weir b {networked}"));
    }
}
