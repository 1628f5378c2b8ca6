//! `weir table`: the tables of a running switch, read and changed.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::output::{self, Cell, Page, Table as Rows, Tables, row};
use super::show::Where;
use super::{Failure, help, names, possible_name};
use crate::api::Changes;
use crate::api::view;
use crate::tables::{Change, Op};

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir table list",
    "weir table add acl name=noping action=deny proto=icmp src=10.0.0.1",
    "weir table show acl",
]))]
pub struct Table {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    tables: Tables,
}

#[derive(Debug, Subcommand)]
enum What {
    /// All tables: entries, room, the fields that name an entry, what they take of the target
    #[command(after_help = help::examples(&[
        "weir table list",
        "weir table list --json",
    ]))]
    List,
    /// The entries of a table, with their counters
    #[command(after_help = help::examples(&[
        "weir table show acl",
        "weir table show macs --name edge1 --json",
    ]))]
    Show {
        #[arg(add = names::tables())]
        table: String,
    },
    /// A new entry; refused when there is one of this key
    #[command(after_help = help::examples(&[
        "weir table add acl name=noping action=deny proto=icmp src=10.0.0.1",
    ]))]
    Add(Entry),
    /// A new entry, or a new action for an old one
    #[command(after_help = help::examples(&[
        "weir table set acl name=noping action=permit",
    ]))]
    Set(Entry),
    /// Takes an entry out; the fields of its key are enough
    #[command(after_help = help::examples(&[
        "weir table remove acl name=noping",
    ]))]
    Remove(Entry),
    /// All changes of a file, or none of them
    #[command(after_help = help::examples(&[
        "weir table apply acl changes.toml",
        "weir table apply acl - < changes.jsonl",
    ]))]
    Apply {
        #[arg(add = names::tables())]
        table: String,
        /// JSON lines, or TOML with a `[[change]]` for each: `op` (add, set, remove) and the
        /// entry's fields; - is stdin
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
struct Entry {
    #[arg(add = names::tables())]
    table: String,
    /// A field of the entry
    #[arg(value_name = "KEY=VALUE", required = true, value_parser = field)]
    fields: Vec<(String, Value)>,
}

fn field(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    let number = value.parse::<u64>().map(Value::from);
    let value = value.parse::<bool>().map(Value::from).or(number.map_err(drop));
    Ok((key.into(), value.unwrap_or_else(|()| text[key.len() + 1..].into())))
}

impl Table {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let format = self.tables.clone().format(json)?;
        let client = || self.at.client();
        match &self.what {
            What::List => output::page(&format, &client()?.get::<view::Tables>("/v1/tables")?, list_page),
            What::Show { table } => {
                let path = path(table)?;
                output::page(&format, &client()?.get::<view::TableRows>(&path)?, rows_page)
            }
            What::Add(entry) => self.change(&entry.table, vec![one(Op::Add, entry)?], json),
            What::Set(entry) => self.change(&entry.table, vec![one(Op::Set, entry)?], json),
            What::Remove(entry) => self.change(&entry.table, vec![one(Op::Remove, entry)?], json),
            What::Apply { table, file } => self.change(table, changes(file)?, json),
        }
    }

    fn change(&self, table: &str, changes: Vec<Change>, json: bool) -> Result<(), Failure> {
        let path = path(table)?;
        let changed: view::TableChanged = self.at.client()?.post(&path, &Changes { changes })?;
        output::done(json, &changed)
    }
}

fn path(table: &str) -> Result<String, Failure> {
    Ok(format!("/v1/tables/{}", possible_name("table", table, "`weir table list` names them")?))
}

fn one(op: Op, entry: &Entry) -> Result<Change, Failure> {
    let mut fields = Map::new();
    for (key, value) in &entry.fields {
        if fields.insert(key.clone(), value.clone()).is_some() {
            return Err(Failure::Usage(format!("{key} is given twice")));
        }
    }
    Ok(Change { op, entry: fields.into() })
}

/// The changes of a file: TOML when it is called so, else JSON lines.
fn changes(file: &Path) -> Result<Vec<Change>, Failure> {
    let wrong = |why: String| Failure::Usage(format!("{}: {why}", file.display()));
    let text = match file.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()),
        _ => std::fs::read_to_string(file),
    };
    let text = text.map_err(|e| wrong(e.to_string()))?;
    if file.extension().is_some_and(|extension| extension == "toml") {
        return toml_changes(&text).map_err(wrong);
    }
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let change = |(number, line): (usize, &str)| {
        let value = serde_json::from_str(line).map_err(|e| format!("line {number}: {e}"))?;
        read(value).map_err(|why| format!("line {number}: {why}"))
    };
    lines.map(change).collect::<Result<_, _>>().map_err(wrong)
}

fn toml_changes(text: &str) -> Result<Vec<Change>, String> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        change: Vec<Value>,
    }
    let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
    let change = |(i, value): (usize, Value)| read(value).map_err(|why| format!("change[{i}]: {why}"));
    file.change.into_iter().enumerate().map(change).collect()
}

/// `{"op": "add", …}` with the entry's fields beside it, or in `entry` as the API has it.
fn read(mut value: Value) -> Result<Change, String> {
    let fields = value.as_object_mut().ok_or("a change is an object: \"op\" and the fields of the entry")?;
    let op = fields.remove("op").ok_or("op = (missing): one of add, set, remove")?;
    let right = |_| format!("op = {op}: one of add, set, remove");
    let op = serde_json::from_value(op.clone()).map_err(right)?;
    let entry = match fields.remove("entry") {
        Some(entry) if fields.is_empty() => entry,
        Some(_) => return Err("the fields stand in \"entry\" or beside \"op\", not both".into()),
        None => value,
    };
    Ok(Change { op, entry })
}

pub(super) fn list_page(tables: &view::Tables) -> Page {
    let row = |table: &view::Table| {
        row![
            &table.name,
            table.entries,
            Cell::or("-", table.capacity_entries),
            table.key.join(", "),
            Cell::or("-", table.sram_bits),
            Cell::or("-", table.tcam_bits),
        ]
    };
    let columns = ["table", ">entries", ">at most|capacity_entries", "key", ">SRAM bits", ">TCAM bits"];
    Page::default().table("tables", Rows::new(columns, tables.tables.iter().map(row)))
}

/// A column for each field that some row has; the last row is for packets that match no entry.
pub(super) fn rows_page(rows: &view::TableRows) -> Page {
    let name = rows.table.name.clone();
    let mut rows = rows.clone();
    if let Some(mut default) = rows.default.take() {
        if let Some(key) = rows.table.key.first() {
            default[key] = "(any other)".into();
        }
        rows.rows.push(default);
    }
    let mut columns: Vec<&str> = rows.table.key.iter().map(String::as_str).collect();
    let keys = columns.len();
    for key in rows.rows.iter().filter_map(Value::as_object).flat_map(Map::keys) {
        if !columns.contains(&key.as_str()) {
            columns.push(key);
        }
    }
    // The key comes first, the counters last.
    columns[keys..].sort_by_key(|column| column.ends_with("_packets") || column.ends_with("_bytes"));
    let numeric = |column: &str| rows.rows.iter().all(|row| row.get(column).is_none_or(Value::is_number));
    let headings = columns.iter().map(|column| format!("{}{column}|{column}", if numeric(column) { ">" } else { "" }));
    let row = |row: &Value| columns.iter().map(|column| Cell::or("-", row.get(column).and_then(cell))).collect();
    let page = Page::default().table(&name, Rows::new(headings, rows.rows.iter().map(row)).keyed(keys));
    if rows.rows.is_empty() { page.text(format!("{name} has no entries")) } else { page }
}

fn cell(value: &Value) -> Option<Cell> {
    Some(match value {
        Value::Null => return None,
        Value::String(text) => text.into(),
        Value::Bool(yes) => Cell::new(if *yes { "yes" } else { "no" }, *yes),
        Value::Number(n) => n.as_u64().map_or_else(|| n.to_string().into(), Cell::from),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| Cell::or("-", cell(item)).text).collect();
            Cell::new(items.join(", "), items.join(" "))
        }
        other => other.to_string().into(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_become_fields() {
        assert_eq!(field("vlan=10"), Ok(("vlan".into(), json!(10))));
        assert_eq!(field("mac=02:00:00:00:00:01"), Ok(("mac".into(), json!("02:00:00:00:00:01"))));
        assert_eq!(field("static=true"), Ok(("static".into(), json!(true))));
        assert_eq!(field("a=b=c"), Ok(("a".into(), json!("b=c"))));
        assert!(field("vlan").is_err());
    }

    #[test]
    fn changes_of_a_file() {
        let flat = read(json!({"op": "add", "mac": "x"})).unwrap();
        assert_eq!(flat, read(json!({"op": "add", "entry": {"mac": "x"}})).unwrap());
        assert_eq!(toml_changes("[[change]]\nop = \"add\"\nmac = \"x\"\n"), Ok(vec![flat]));
        assert_eq!(read(json!({"mac": 1})).unwrap_err(), "op = (missing): one of add, set, remove");
        assert_eq!(read(json!({"op": "ad"})).unwrap_err(), "op = \"ad\": one of add, set, remove");
        assert!(read(json!({"op": "add", "entry": {}, "mac": 1})).is_err());
        assert!(toml_changes("[[changes]]\n").unwrap_err().contains("unknown field `changes`"));
    }

    #[test]
    fn rows_stand_in_columns() {
        let table = view::Table { key: vec!["name".into()], ..view::Table::default() };
        let rows =
            vec![json!({"hit_packets": 1000, "name": "x", "action": "deny"}), json!({"name": "y", "hit_packets": 2})];
        let text = rows_page(&view::TableRows { table, rows, default: None }).to_text(output::Style::Plain);
        assert_eq!(text, "name  action  hit_packets\nx     deny           1000\ny     -                 2");
    }
}
