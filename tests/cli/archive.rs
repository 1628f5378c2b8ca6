//! Archives: what weir answers from one, and what SQL does.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{Files, skip, weir, weir_with};

const RUN: &str = "--topology line:3 --workload keyvalue/uniform,flows=200 --loss flows=10%,rate=10% --epochs 5 \
                   --everywhere \
                   --program hashpipe:scope=network --program chamelemon --program disketch:sketch=cms,max_sub_epochs=1";

/// An archive of a simulated network.
fn simulated(files: &Files) -> PathBuf {
    let dir = files.path("archive");
    let ended = weir(&format!("sim {RUN} --seed 5 --json --archive {}", dir.display()));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    dir
}

/// Python with DuckDB, as `scripts/setup.sh` makes it.
pub fn duckdb() -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/python3");
    [own, "python3".into()].into_iter().find(|python| {
        let import = Command::new(python).args(["-c", "import duckdb"]).output();
        import.is_ok_and(|output| output.status.success())
    })
}

/// The documented queries, in their order.
fn documented(dir: &Path) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/archive.md");
    let page = std::fs::read_to_string(page).unwrap();
    let queries = page.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next());
    queries.map(|query| query.replace("DIR", &dir.display().to_string())).collect()
}

/// The documented queries give what weir answers from the same files.
#[test]
fn sql_gives_weirs_answers() {
    let Some(python) = duckdb() else {
        skip::skip("sql_gives_weirs_answers", skip::Lack::Machine, "there is no DuckDB; scripts/setup.sh installs it");
        return;
    };
    let files = Files::new();
    let dir = simulated(&files);
    let script = "import duckdb, json, sys\nfor query in json.load(open(sys.argv[1])):\n    \
                  print(json.dumps(duckdb.sql(query).fetchall(), default=int))";
    let queries = serde_json::to_string(&documented(&dir)).unwrap();
    files.write("queries.json", queries);
    let queries = files.path("queries.json");
    let output = Command::new(python).args(["-c", script]).arg(&queries).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [heavy, losses, gaps, missing, counted] = &results[..] else { panic!("{results:?}") };

    let ask = |words: &str| weir(&format!("{words} --archive {} --last 1d --json", dir.display())).json();
    let packets =
        |rows: &Value| -> Vec<u64> { rows.as_array().unwrap().iter().map(|row| row[5].as_u64().unwrap()).collect() };
    let told = |document: &Value, key: &str| -> Vec<u64> {
        document[key].as_array().unwrap().iter().map(|flow| flow["packets"].as_u64().unwrap()).collect()
    };
    let own = ask("show heavy --program hashpipe --top 10");
    assert_eq!((packets(heavy), packets(heavy).len()), (told(&own, "heavy"), 10));
    let own = ask("show losses --program chamelemon --reproducible 5 --top 10");
    assert_eq!((packets(losses), packets(losses).len()), (told(&own, "losses"), 10));
    assert_eq!(gaps.as_array().unwrap().len(), own["gaps"].as_array().unwrap().len());
    assert_eq!(missing[0][0], own["missing_epochs"]);
    // Each of three switches, an epoch a row.
    let counted = counted.as_array().unwrap();
    assert_eq!(counted.len(), 3, "{counted:?}");
    assert!(counted.iter().all(|row| row[1] == 1 && row[3].as_u64().is_some_and(|packets| packets > 0)), "{counted:?}");
}

/// A listing, and answers that need a secret, with the right one, another and none.
#[test]
fn an_archive_is_listed_and_asked() {
    let files = Files::new();
    let dir = simulated(&files);
    let at = dir.display();
    let listed = weir(&format!("archive {at} --json")).json();
    let programs = listed["programs"].as_array().unwrap();
    let names: Vec<_> = programs.iter().map(|of| of["program"].as_str().unwrap()).collect();
    assert_eq!(names, ["chamelemon", "disketch", "hashpipe"]);
    for of in programs {
        assert_eq!(
            (&of["files"], &of["missing_epochs"], &of["unreadable"]),
            (&1.into(), &0.into(), &serde_json::json!([]))
        );
        assert!(of["epochs"].as_u64().is_some_and(|epochs| epochs >= 5), "{of}");
    }
    assert!(weir(&format!("archive {at}")).stdout.contains("hashpipe"));
    let query = |more: &str| {
        let words = format!("query frequency --flow *→* --program disketch --archive {at} --last 1d {more}");
        weir_with(Path::new("."), words.split_whitespace().map(|word| if word == "*→*" { "* → * tcp" } else { word }))
    };
    let right = query("--reproducible 5 --json").json();
    assert!(right["packets"]["estimate"].is_u64(), "{right}");
    for (more, why) in
        [("--reproducible 6", "was measured with the hash functions"), ("", "rest on secret hash functions")]
    {
        let ended = query(more);
        assert!(ended.code != 0 && ended.stderr.contains(why), "{}", ended.stderr);
    }
    let refused = |words: &str, why: &str| {
        let ended = weir(words);
        assert!(ended.code != 0 && ended.stderr.contains(why), "{}", ended.stderr);
    };
    refused(&format!("show ports --archive {at}"), "an archive answers about flows and epochs alone");
    refused(&format!("show heavy --each --archive {at}"), "an archive has no epochs to come");
    refused(&format!("sim {RUN} --archive {at}"), "already; name another directory");
    refused("archive /nowhere", "/nowhere");
}
