//! Holds the help of a whole program to its rules. weir's own tests and pktgen's use it.

use clap::Command;
use weir::cli::help;

/// Columns of the narrowest terminal that help is written for.
const COLUMNS: usize = 80;

/// What is wrong with the help of a program and of its commands, a line each.
pub fn wrong(mut program: Command) -> Vec<String> {
    program = program.disable_help_subcommand(true);
    program.build();
    let mut wrong = Vec::new();
    walk(&program, &program, &[], &mut wrong);
    wrong
}

fn walk(program: &Command, command: &Command, path: &[&str], wrong: &mut Vec<String>) {
    let name = [&[program.get_name()], path].concat().join(" ");
    let mut say = |what: String| wrong.push(format!("{name}: {what}"));
    let shown = command.clone().term_width(COLUMNS).render_long_help().to_string();
    for line in shown.lines().filter(|line| line.chars().count() > COLUMNS) {
        say(format!("is wider than {COLUMNS} columns: {line}"));
    }
    let (notes, examples) = help::end(command);
    for line in notes.lines().chain(examples.iter().map(String::as_str)) {
        if !shown.lines().any(|shown| shown == line.trim_end()) {
            say(format!("breaks in its middle: {line}"));
        }
    }
    let examples = logical_lines(&examples);
    let mut is_shown = false;
    for example in &examples {
        let calls: Vec<_> = calls(example).into_iter().filter(|words| words[0] == program.get_name()).collect();
        if calls.is_empty() {
            say(format!("calls nothing of it: {example}"));
        }
        for words in calls {
            is_shown |= words[1..].iter().map(String::as_str).collect::<Vec<_>>().starts_with(path);
            if let Err(error) = program.clone().try_get_matches_from(&words) {
                say(format!("cannot be read: {example}: {error}"));
            }
        }
    }
    if !is_shown {
        say(format!("no {} show it", help::EXAMPLES));
    }
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        walk(program, sub, &[path, &[sub.get_name()]].concat(), wrong);
    }
}

/// Lines of which one that ends in `\` goes on in the next.
fn logical_lines(lines: &[String]) -> Vec<String> {
    let text = lines.join("\n").replace("\\\n", " ");
    text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

/// The words of each command of a shell's line, without redirections and comments.
fn calls(line: &str) -> Vec<Vec<String>> {
    let (mut calls, mut word, mut quote) = (vec![Vec::new()], None::<String>, None);
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        let ends = quote.is_none() && (c.is_whitespace() || "|<>()".contains(c));
        match c {
            _ if quote == Some(c) => quote = None,
            _ if quote.is_some() => word.get_or_insert_default().push(c),
            '\'' | '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            '#' if word.is_none() => break,
            _ if !ends => word.get_or_insert_default().push(c),
            _ => calls.last_mut().unwrap().extend(word.take()),
        }
        match c {
            '<' if ends && rest.peek() == Some(&'(') => {}
            // The file behind it is not the command's.
            '<' | '>' if ends => {
                while rest.next_if(|c| c.is_whitespace()).is_some() {}
                while rest.next_if(|c| !c.is_whitespace()).is_some() {}
            }
            '|' | '(' | ')' if ends => calls.push(Vec::new()),
            _ => {}
        }
    }
    calls.last_mut().unwrap().extend(word);
    calls.into_iter().filter(|call| !call.is_empty()).collect()
}

#[test]
fn lines_are_read_as_a_shell_reads_them() {
    let read = |line: &str| calls(line).iter().map(|words| words.join("_")).collect::<Vec<_>>().join(" | ");
    for (line, words) in [
        ("weir a 'b c' \"\" # d", "weir_a_b c_"),
        ("tcpdump -w - | weir replay - > x y", "tcpdump_-w_- | weir_replay_-_y"),
        ("source <(weir completions bash)", "source | weir_completions_bash"),
        ("weir table apply acl - <f", "weir_table_apply_acl_-"),
    ] {
        assert_eq!(read(line), words, "{line}");
    }
    assert_eq!(logical_lines(&["  a \\".into(), "    b".into(), "c".into()]), ["a      b", "c"]);
}

/// The rules hold something.
#[test]
fn what_is_wrong_is_found() {
    use clap::Arg;
    let sub = Command::new("sub").arg(Arg::new("x").long("x"));
    let of = |end: &str| {
        let root = Command::new("prog").after_help("EXAMPLES\n  prog sub");
        wrong(root.subcommand(sub.clone().after_help(end.to_owned()))).join("\n")
    };
    assert_eq!(of("EXAMPLES\n  prog sub --x 3"), "");
    assert!(of("").contains("prog sub: no EXAMPLES show it"));
    assert!(of("EXAMPLES\n  prog sub --y 3").contains("cannot be read"));
    assert!(of("EXAMPLES\n  other sub").contains("calls nothing of it"));
    assert!(of(&format!("EXAMPLES\n  prog sub --x {}", "long ".repeat(20))).contains("breaks in its middle"));
    assert!(of(&format!("EXAMPLES\n  prog sub --x {}", "l".repeat(80))).contains("is wider than 80 columns"));
}
