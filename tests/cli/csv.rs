//! `--csv`, and tables on a terminal.

use crate::{Files, in_terminal, weir};

/// A header, and rows with as many fields, none of which has a comma.
fn rows(csv: &str) -> Vec<Vec<&str>> {
    let rows: Vec<Vec<_>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{csv}");
    rows
}

/// A capture of IPv4 and IPv6.
fn capture() -> Files {
    let files = Files::new();
    files.capture("t.pcap", "isp/burst,flows=2000,packets=30000");
    files
}

#[test]
fn a_table_is_csv_that_awk_reads() {
    let files = capture();
    let ended = files.weir("replay t.pcap --program hashpipe --score --top 3 --reproducible 1 --csv");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let table = rows(&ended.stdout);
    assert_eq!(table[0], ["rank", "flow", "packets", "at_least", "true_packets", "error_share"]);
    assert_eq!(table.len(), 4);
    let document = files.weir("replay t.pcap --program hashpipe --score --top 3 --reproducible 1 --json").json();
    for (row, heavy) in table[1..].iter().zip(document["programs"]["hashpipe"]["heavy"].as_array().unwrap()) {
        assert_eq!(row[2], heavy["packets"].to_string());
        assert_eq!(row[4], heavy["true_packets"].to_string());
    }
    // What is not in the table is said all the same.
    for says in ["30000 packets", "not all heavy flows"] {
        assert!(ended.stderr.contains(says), "{says}: {}", ended.stderr);
    }
    let score = files.weir("replay t.pcap --program hashpipe --score --reproducible 1 --csv=hashpipe.score");
    assert_eq!(rows(&score.stdout)[1][0], "precision", "{}", score.stdout);
}

/// The tables of commands that need no switch have the columns that docs/csv.md names.
#[test]
fn columns_are_documented() {
    let files = capture();
    let docs = include_str!("../../docs/csv.md");
    let replay = "replay t.pcap --program hashpipe --score";
    let sim = "sim --topology line:2 --epochs 1 --workload isp,flows=20,packets=200 --loss link=all,rate=1%";
    let demo = "demo --workload isp/burst,flows=500,packets=20000";
    for (words, table, named) in [
        ("budget --target rmt", "stages", "| `budget` | `stages` |"),
        ("budget --target rmt", "totals", "| `budget` | `totals` |"),
        ("doctor", "checks", "| `doctor` | `checks` |"),
        (replay, "hashpipe.heavy", "| `show heavy` | `heavy` |"),
        (replay, "hashpipe.score", "| `replay` | `PROGRAM.score` |"),
        ("replay t.pcap --program chamelemon", "chamelemon.estimates", "| `replay` | `PROGRAM.estimates` |"),
        (sim, "truth", "| `sim` | `truth` |"),
        (sim, "chamelemon.answers", "| `sim` | `PROGRAM.answers` |"),
        (demo, "losses", "| `demo` | `losses` |"),
        (demo, "balance", "| `demo` | `balance` |"),
        (demo, "latency", "| `show latency` | `latency` |"),
    ] {
        let ended = files.weir(&format!("{words} --csv={table}"));
        let line = docs.lines().find(|line| line.starts_with(named)).unwrap_or_else(|| panic!("{named}"));
        for column in ended.stdout.lines().next().unwrap_or_else(|| panic!("{words}: {}", ended.stderr)).split(',') {
            assert!(line.contains(&format!("`{column}`")), "{words}: no {column} in {line}");
        }
        let digits = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        for (at, _) in ended.stdout.match_indices(' ') {
            let apart = digits(ended.stdout[..at].chars().last()) && digits(ended.stdout[at + 1..].chars().next());
            assert!(!apart || words == "doctor", "digits in groups: {}", ended.stdout);
        }
    }
}

/// An answer without rows has its columns all the same, and why there are none is on stderr.
#[cfg(feature = "control")]
#[test]
fn an_answer_without_rows_is_csv() {
    let files = Files::new();
    let words = "controller --name c --switch s1 --state state --socket c.sock --switch-socket s.sock";
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
    let mut controller = command.current_dir(files.path("")).args(words.split(' ')).spawn().unwrap();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !files.path("c.sock").exists() && std::time::Instant::now() < end {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let [losses, switches, refused] = ["losses --csv", "switches --csv", "losses --csv=ports"]
        .map(|of| files.weir(&format!("show {of} --socket c.sock")));
    controller.kill().unwrap();
    controller.wait().unwrap();
    assert_eq!(losses.stdout, "first_epoch,last_epoch,complete,final,flow,lost_packets,exact\n", "{}", losses.stderr);
    assert_eq!(losses.stderr, "no epoch has ended yet\n");
    let table = rows(&switches.stdout);
    assert_eq!((table[0][..2].to_vec(), table[1][..2].to_vec()), (vec!["switch", "state"], vec!["s1", "absent"]));
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    assert!(refused.stderr.contains("there are losses, gains"), "{}", refused.stderr);
}

#[test]
fn one_form_at_a_time() {
    for words in ["budget --csv --json", "--json budget --csv", "budget --json --csv=stages", "sim --csv --json"] {
        let refused = weir(words);
        assert!(refused.refused(2).contains("--json"), "{words}: {}", refused.stderr);
    }
    let refused = weir("budget --target rmt --csv=stage");
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    assert!(refused.stderr.contains("--csv=stage: there is no such table; there are stages, totals"));
    // A command that prints no table does not take it.
    assert!(weir("config schema --csv").refused(2).contains("--csv"));
}

/// However many columns there are, and long names: every line fits 80 columns.
#[test]
fn every_command_fits_80_columns() {
    let files = capture();
    let file = files.path("t.pcap");
    let replay = format!("replay {} --program hashpipe --program chamelemon --score --top 5", file.display());
    let queries = "path:bits=8+queue:bits=8";
    let sim = format!(
        "sim --topology line:3 --epochs 2 --workload isp,flows=20,packets=2000 --loss link=all,rate=1% \
         --program chamelemon --program 'pint:queries={queries}'"
    );
    let demo = "demo --workload isp/burst,flows=500,packets=20000";
    for words in ["budget --target rmt", "budget --program chamelemon", "doctor", demo, &replay, &sim] {
        let Some(text) = in_terminal(80, words) else { return };
        assert!(text.lines().count() > 8, "{words}: {text}");
        // A command that mends something stays in one line.
        let wide = |line: &&str| line.chars().count() > 80 && !line.starts_with("         ");
        assert_eq!(text.lines().find(wide), None, "{words}:\n{text}");
    }
}

/// COLUMNS overrules the terminal's own width; a pipe has none.
#[test]
fn columns_are_those_that_are_asked_for() {
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
    let words = "budget --program chamelemon --target tofino";
    let piped = weir(words).stdout;
    assert!(widest(&piped) > 80, "{piped}");
    let Some(narrow) = in_terminal(200, &format!("{words}; export COLUMNS=60; {} {words}", env!("CARGO_BIN_EXE_weir")))
    else {
        return;
    };
    let end = narrow.rfind("stage  ").unwrap();
    assert!(widest(&narrow[..end]) > 80 && widest(&narrow[end..]) <= 60, "{narrow}");
}

/// DuckDB reads the same rows from the Parquet file of a table as from its CSV, with the types of the file.
#[cfg(feature = "control")]
#[test]
fn parquet_has_the_rows_of_csv() {
    const SAME: &str = "
import duckdb, sys
for table, csv in zip(sys.argv[1::2], sys.argv[2::2]):
    kinds = {name: kind for name, kind, *_ in duckdb.sql(f\"DESCRIBE FROM read_parquet('{table}')\").fetchall()}
    rows = duckdb.sql(f\"FROM read_parquet('{table}')\").fetchall()
    texts = [values for values, kind in zip(zip(*rows), kinds.values()) if kind == 'VARCHAR']
    assert not any(all(value and value.isdigit() for value in values) for values in texts), table
    assert rows == duckdb.sql(f\"FROM read_csv('{csv}', header = true, columns = {kinds})\").fetchall(), table
    print(table, len(rows), *sorted(set(kinds.values())))
";
    let Some(python) = crate::archive::duckdb() else {
        let why = "there is no DuckDB; scripts/setup.sh installs it";
        return crate::skip::skip("parquet_has_the_rows_of_csv", crate::skip::Lack::Machine, why);
    };
    let files = capture();
    let replay = "replay t.pcap --program hashpipe --program chamelemon --score --reproducible 1";
    let sim = "sim --topology line:2 --epochs 2 --workload isp,flows=20,packets=200 --loss link=all,rate=1%";
    let mut compare = std::process::Command::new(python);
    compare.args(["-c", SAME]);
    // Less the line with the time that it took.
    let said =
        |text: &str| text.lines().filter(|line| !line.contains("packets/s")).map(str::to_owned).collect::<Vec<_>>();
    let mut tables = 0;
    for (number, words) in [replay, sim, "budget --target rmt"].into_iter().enumerate() {
        let ended = files.weir(&format!("{words} --parquet out/{number}"));
        assert_eq!(ended.code, 0, "{words}: {}", ended.stderr);
        for path in ended.stdout.lines() {
            let name = std::path::Path::new(path).file_stem().unwrap().to_str().unwrap();
            let csv = files.weir(&format!("{words} --csv={name}"));
            assert_eq!(csv.code, 0, "{words}, {name}: {}", csv.stderr);
            assert_eq!(said(&csv.stderr), said(&ended.stderr), "{words}: what is said beside");
            files.write(&format!("{number}-{name}.csv"), &csv.stdout);
            compare.arg(files.path(path)).arg(files.path(&format!("{number}-{name}.csv")));
            tables += 1;
        }
    }
    assert!(tables > 7, "{tables} tables");
    let output = compare.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    for kind in ["UBIGINT", "DOUBLE", "BOOLEAN", "VARCHAR"] {
        assert!(said.contains(kind), "{kind}: {said}");
    }
    // Each epoch has a file.
    let each = files.weir(&format!("{sim} --each --parquet each"));
    assert_eq!(each.stdout.lines().filter(|line| line.starts_with("each/truth-")).count(), 2, "{}", each.stdout);
    let refused = files.weir(&format!("{sim} --parquet t.pcap"));
    assert!(refused.code == 1 && refused.stderr.contains("t.pcap"), "{}", refused.stderr);
    assert!(weir("budget --csv --parquet out").refused(2).contains("--parquet"));
}
