//! `weir man` and `weir completions`: manual pages and shell completions, from the same description
//! as the help.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use clap::{Args, Command, CommandFactory};
pub use clap_complete::Shell;
use clap_complete::env::Shells;
use clap_mangen::roff::{Roff, roman};

use super::{Cli, Failure, help, output};

/// Set for a shell that asks for completions. Not clap's COMPLETE, which other programs may read.
pub const COMPLETE: &str = "WEIR_COMPLETE";

/// To enable them: `source <(weir completions bash)` in ~/.bashrc, the same with zsh in ~/.zshrc, or
/// `weir completions fish | source` in ~/.config/fish/config.fish. Packages bring them
#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "source <(weir completions bash)",
    "weir completions fish | source",
]))]
pub struct Completions {
    shell: Shell,
}

impl Completions {
    pub fn run(self) -> Result<(), Failure> {
        let name = self.shell.to_string();
        let shells = Shells::builtins();
        let shell = shells.completer(&name).ok_or_else(|| Failure::Usage(format!("{name}: no such shell")))?;
        let mut script = Vec::new();
        shell.write_registration(COMPLETE, "weir", "weir", "weir", &mut script).map_err(Failure::failed)?;
        let mut script = String::from_utf8_lossy(&script).into_owned();
        if self.shell == Shell::Zsh {
            // Where zsh loads the file by itself, the first completion is asked of the file.
            script += "[[ $funcstack[1] != _weir ]] || _clap_dynamic_completer_weir\n";
        }
        output::print(script.trim_end())
    }
}

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir man run | man -l -",
    "weir man show heavy",
    "weir man --dir man1",
]))]
pub struct Man {
    /// The command whose page is wanted, such as `run` or `show heavy`; by default weir's own
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    command: Vec<String>,
    /// Write all pages into this directory instead
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    /// A page in roff; `weir man run | man -l -` shows it.
    pub fn run(self) -> Result<(), Failure> {
        if let Some(dir) = self.dir {
            return write_pages(Cli::command(), &dir).map_err(|e| Failure::Failed(format!("{}: {e}", dir.display())));
        }
        let name = [&["weir".to_owned()], &self.command[..]].concat().join("-");
        let pages = pages(Cli::command()).map_err(Failure::failed)?;
        match pages.iter().find(|(page, _)| *page == name) {
            Some((_, text)) => output::print(text.trim_end()),
            None => {
                let names = pages.iter().skip(1).map(|(page, _)| page.trim_start_matches("weir-").replace('-', " "));
                let names = names.collect::<Vec<_>>().join(", ");
                Err(Failure::Usage(format!("no command is called {:?}; there are {names}", self.command.join(" "))))
            }
        }
    }
}

/// A shell's completions of a program, without names that only run time knows.
pub fn completions(shell: Shell, mut command: Command) -> String {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The manual pages of a program and of all its commands: names without the section, and roff.
pub fn pages(mut command: Command) -> std::io::Result<Vec<(String, String)>> {
    command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add_pages(&command, &mut pages)?;
    Ok(pages)
}

fn add_pages(command: &Command, pages: &mut Vec<(String, String)>) -> std::io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    pages.push((name, String::from_utf8_lossy(&page(command)?).into_owned()));
    command.get_subcommands().filter(|sub| !sub.is_hide_set()).try_for_each(|sub| add_pages(sub, pages))
}

/// The sections of a command's page. What stands at the end of its help keeps its lines.
fn page(command: &Command) -> std::io::Result<Vec<u8>> {
    let page = clap_mangen::Man::new(command.clone()).manual("weir").date(date());
    let page = page.source(concat!("weir ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    let (notes, examples) = help::end(command);
    section(&mut text, "NOTES", notes.lines())?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    section(&mut text, help::EXAMPLES, examples.iter().map(String::as_str))?;
    if command.get_version().is_some() {
        page.render_version_section(&mut text)?;
    }
    Ok(text)
}

/// A section whose lines are not filled; nothing where there are none.
fn section<'a>(text: &mut Vec<u8>, title: &str, lines: impl Iterator<Item = &'a str>) -> std::io::Result<()> {
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        return Ok(());
    }
    let mut roff = Roff::new();
    roff.control("SH", [title]).control("nf", []);
    lines.for_each(|line| {
        roff.text([roman(line)]);
    });
    roff.control("fi", []).to_writer(text)
}

/// The date of the pages: what SOURCE_DATE_EPOCH said when weir was built, or the date of the
/// newest changes. The same sources give the same pages.
fn date() -> String {
    let seconds = option_env!("SOURCE_DATE_EPOCH").and_then(|text| text.parse().ok());
    let time = seconds.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    match time {
        Some(time) => humantime::format_rfc3339_seconds(time).to_string().chars().take("YYYY-MM-DD".len()).collect(),
        None => newest(include_str!("../../CHANGELOG.md")).to_owned(),
    }
}

/// The date of the newest version in the changes, at the end of its heading. What is not released has none.
fn newest(changes: &str) -> &str {
    let dated = |line: &&str| line.starts_with("## [") && line.ends_with(|last: char| last.is_ascii_digit());
    let heading = changes.lines().find(dated).unwrap_or_default();
    heading.rsplit(' ').next().unwrap_or_default()
}

/// Writes them as NAME.1.
pub fn write_pages(command: Command, dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    pages(command)?.into_iter().try_for_each(|(name, roff)| std::fs::write(dir.join(format!("{name}.1")), roff))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn pages_have_the_date_of_the_changes() {
        let is_date = |text: &str| {
            let parts: Vec<_> = text.split('-').map(|part| (part.len(), part.parse::<u32>().is_ok())).collect();
            parts == [(4, true), (2, true), (2, true)]
        };
        assert!(is_date(newest(include_str!("../../CHANGELOG.md"))), "CHANGELOG.md: ## [VERSION] - YYYY-MM-DD");
        assert!(is_date(&date()), "{}", date());
        let page = &pages(Cli::command()).unwrap()[0].1;
        let title = page.lines().find(|line| line.starts_with(".TH ")).unwrap();
        assert!(title.contains(&date()), "{title}");
    }

    #[test]
    fn every_command_has_a_page() {
        let pages = pages(Cli::command()).unwrap();
        let names: Vec<_> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in ["weir", "weir-run", "weir-show", "weir-show-heavy", "weir-stats-reset", "weir-top"] {
            assert!(names.contains(&name), "{names:?}");
        }
        for (name, roff) in &pages {
            assert!(roff.contains(&format!(".TH {name} 1")), "{name}: {roff}");
            assert!(roff.contains(".SH SYNOPSIS"), "{name}");
        }
    }
}
