//! Words of the command line and program tables of the file: where one is wrong, which key it is
//! and what would be right.

use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use toml::de::{DeTable, DeValue};

use super::{ConfigError, PortConfig, wrong};
use crate::program::{ProgramConfig, ProgramError};

/// `NAME=DEV`, as `--port` takes it.
impl FromStr for PortConfig {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, dev) = text.split_once('=').ok_or("write NAME=DEV, for example a=tap:tap0")?;
        let dev = dev.parse().map_err(|e| format!("{e}"))?;
        Ok(Self::new(name, dev))
    }
}

/// `PROGRAM[:key=value,…]`, as `--program` takes it.
impl FromStr for ProgramConfig {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let named = toml::Table::from_iter([("name".to_owned(), name.into())]);
        with_settings(name, named, settings).map_err(|why| ConfigError::Program { text: text.into(), why })
    }
}

impl ProgramConfig {
    /// The same program with these settings, `key=value,…`, and otherwise with its own.
    ///
    /// # Errors
    /// Says which setting is wrong, and what would be right.
    pub fn with(&self, settings: &str) -> Result<Self, String> {
        let own = toml::Table::try_from(self).map_err(|error| error.to_string())?;
        with_settings(self.name(), own, settings)
    }

    /// The same program with the settings of a table, and otherwise with its own.
    ///
    /// # Errors
    /// Says which setting is wrong, and what would be right.
    pub fn with_table(&self, settings: &toml::Table) -> Result<Self, ConfigError> {
        let mut own = toml::Table::try_from(self).or_else(|error| wrong("name", self.name(), error.to_string()))?;
        own.extend(settings.clone());
        program(&own)
    }
}

/// The program of a table, with these settings in place of those of the table.
fn with_settings(name: &str, mut table: toml::Table, settings: &str) -> Result<ProgramConfig, String> {
    let (schema, mut given) = (ProgramConfig::schema(name), Vec::new());
    for setting in split(settings).into_iter().filter(|setting| !setting.is_empty()) {
        let (key, value) = setting.split_once('=').ok_or(format!("{setting:?} is not of the form key=value"))?;
        let types = schema.as_ref().map(|schema| types(schema.as_value(), key)).unwrap_or_default();
        if key == "name" || given.contains(&key) {
            return Err(format!("{key} is given twice"));
        }
        given.push(key);
        table.insert(key.into(), typed(value, &types));
    }
    program(&table).map_err(|wrong| wrong.to_string())
}

/// The settings of a program: commas separate them, but those within the brackets of a value do not.
fn split(settings: &str) -> Vec<&str> {
    let mut depth = 0i32;
    let outside = move |c: char| {
        depth += i32::from("[{".contains(c)) - i32::from("]}".contains(c));
        c == ',' && depth <= 0
    };
    settings.split(outside).collect()
}

/// A value of the command line as TOML has it, when the key takes a value of that type. Text needs
/// no quotes.
fn typed(value: &str, types: &[&str]) -> toml::Value {
    let text = || toml::Value::from(value);
    let table = format!("value = {value}").parse::<toml::Table>().ok().filter(|table| table.len() == 1);
    let Some(read) = table.and_then(|mut table| table.remove("value")) else { return text() };
    let kind = match &read {
        toml::Value::Integer(_) => "integer",
        toml::Value::Float(_) => "number",
        toml::Value::Boolean(_) => "boolean",
        toml::Value::Array(_) => "array",
        toml::Value::Table(_) => "object",
        toml::Value::String(_) => "string",
        toml::Value::Datetime(_) => "datetime",
    };
    if !types.contains(&kind) && types.contains(&"string") { text() } else { read }
}

/// The types of JSON that the schema allows for a key.
fn types<'a>(schema: &'a Json, key: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut open: Vec<_> = schema["properties"].get(key).into_iter().collect();
    while let Some(property) = open.pop() {
        let kinds = &property["type"];
        found.extend(kinds.as_str().into_iter().chain(kinds.as_array().into_iter().flatten().filter_map(Json::as_str)));
        let choices = ["oneOf", "anyOf"].into_iter().filter_map(|key| property[key].as_array()).flatten();
        open.extend(choices.chain(definition(schema, property)));
    }
    found
}

/// What a schema's reference stands for.
fn definition<'a>(schema: &'a Json, property: &Json) -> Option<&'a Json> {
    schema.pointer(property["$ref"].as_str()?.trim_start_matches('#'))
}

/// Reads a file with tables of programs.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, ConfigError> {
    toml::from_str(text).map_err(|error| wrong_program(text).unwrap_or_else(|| syntax(text, &error)))
}

/// The first program of the file that cannot be read.
fn wrong_program(text: &str) -> Option<ConfigError> {
    let file: toml::Table = text.parse().ok()?;
    let programs = file.get("program")?;
    if programs.is_table() {
        return wrong::<()>("program", "[program]", "[[program]], once for each program").err();
    }
    let tables = programs.as_array()?.iter().enumerate();
    let mut wrong = tables.filter_map(|(i, table)| Some((i, program(table.as_table()?).err()?)));
    wrong.next().map(|(i, wrong)| wrong.below(&format!("program[{i}]")))
}

fn program(table: &toml::Table) -> Result<ProgramConfig, ConfigError> {
    let program = table.clone().try_into().map_err(|error: toml::de::Error| culprit(table, error.message()))?;
    check(&program)?;
    Ok(program)
}

/// Checks the ranges of all programs' parameters.
pub(super) fn check_programs(programs: &[ProgramConfig]) -> Result<(), ConfigError> {
    let mut programs = programs.iter().enumerate();
    programs.try_for_each(|(i, program)| check(program).map_err(|wrong| wrong.below(&format!("program[{i}]"))))
}

/// Checks that the programs can tell switches of these names apart, which this key names.
pub(super) fn check_names(key: &str, names: &[&str], programs: &[ProgramConfig]) -> Result<(), ConfigError> {
    match programs.iter().find_map(|program| program.clash(names)) {
        Some(clash) => wrong(key, format!("{}, {}", clash.one, clash.other), clash.to_string()),
        None => Ok(()),
    }
}

/// Checks the ranges of a program's parameters.
fn check(program: &ProgramConfig) -> Result<(), ConfigError> {
    program.validate().or_else(|error| match error {
        ProgramError::Range { key, value, min, max, .. } => {
            wrong(key, value, format!("a whole number from {min} to {max}"))
        }
        ProgramError::Value { key, value, right, .. } => wrong(key, value, right),
        ProgramError::Combination { program, why } => wrong("name", format!("{program:?}"), why),
    })
}

/// The key that is to blame when a program's table cannot be read: the reader itself does not say.
/// Every key may be left out, so each can be tried alone.
fn culprit(table: &toml::Table, message: &str) -> ConfigError {
    let wrong = |key: &str, value: String, right: String| ConfigError::Value { key: key.into(), value, right };
    let names = || format!("one of {}", ProgramConfig::names().collect::<Vec<_>>().join(", "));
    let Some(name) = table.get("name") else { return wrong("name", "(missing)".into(), names()) };
    let Some(schema) = name.as_str().and_then(ProgramConfig::schema) else {
        return wrong("name", name.to_string(), names());
    };
    let schema = schema.as_value();
    for (key, value) in table.iter().filter(|(key, _)| *key != "name") {
        let alone: toml::Table =
            [("name".to_string(), name.clone()), (key.clone(), value.clone())].into_iter().collect();
        if let Err(error) = alone.try_into::<ProgramConfig>() {
            return wrong(key, value.to_string(), right(schema, key, error.message()));
        }
    }
    wrong("name", name.to_string(), message.into())
}

/// The values that the schema allows for a key. Of a text that has a form of its own, `message` says
/// what is wrong with it.
fn right(schema: &Json, key: &str, message: &str) -> String {
    let Some(mut property) = schema["properties"].get(key) else {
        let keys = schema["properties"].as_object().into_iter().flatten().map(|(key, _)| key.as_str());
        return format!("no such key, there are {}", keys.collect::<Vec<_>>().join(", "));
    };
    property = definition(schema, property).unwrap_or(property);
    let one_of = property["oneOf"].as_array().into_iter().flatten();
    let plain = one_of.clone().chain([property]).filter_map(|choice| choice["enum"].as_array()).flatten();
    let choices = one_of.map(|choice| &choice["const"]).chain(plain).filter_map(Json::as_str);
    let choices = choices.collect::<Vec<_>>();
    if !choices.is_empty() {
        return format!("one of {}", choices.join(", "));
    }
    if let Some(example) = property["examples"][0].as_str() {
        return format!("{message}; written like {example}");
    }
    let types = types(schema, key);
    let what = match types.iter().find(|kind| **kind != "null") {
        Some(&"integer") | None => "a whole number",
        Some(&"number") => "a number",
        Some(&"boolean") => return "true or false".into(),
        Some(&"string") => return "text".into(),
        Some(&"array") => return format!("{message}; written like [1, 2]"),
        Some(_) => return message.into(),
    };
    match (property["minimum"].as_f64(), property["maximum"].as_f64()) {
        (Some(min), Some(max)) => format!("{what} from {min} to {max}"),
        _ => what.into(),
    }
}

/// The reader's own complaint, with the line that it is about.
pub(super) fn syntax(text: &str, error: &toml::de::Error) -> ConfigError {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = line_at(text, at);
    // The reader's message names Rust's types; users expect ranges of numbers.
    let mut why = error.message().trim_end().to_string();
    for kind in ["usize", "u8", "u16", "u32", "u64"] {
        if let Some(rest) = why.strip_suffix(&format!("expected {kind}")) {
            why = format!("{rest}expected a whole number");
        }
    }
    let text = text.lines().nth(line - 1).unwrap_or_default().trim().to_string();
    ConfigError::Syntax { line, text, why }
}

/// Lines are counted from 1.
fn line_at(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1
}

/// The line on which `key` stands, or the nearest table around it; a key is written `port[2].mtu`.
pub(super) fn line_of(text: &str, key: &str) -> Option<usize> {
    let file = DeTable::parse(text).ok()?;
    let mut found = None;
    let mut value: Option<&toml::Spanned<DeValue>> = None;
    for step in key.replace('[', ".[").split('.') {
        let next = match (step.strip_prefix('[').and_then(|index| index.strip_suffix(']')), value) {
            (Some(index), Some(array)) => index.parse::<usize>().ok().and_then(|i| array.get_ref().get(i)),
            (None, Some(table)) => table.get_ref().get(step),
            (None, None) => file.get_ref().get(step),
            (Some(_), None) => None,
        };
        let Some(next) = next else { break };
        found = Some(next.span().start);
        value = Some(next);
    }
    found.map(|start| line_at(text, start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn refused(text: &str) -> String {
        text.parse::<ProgramConfig>().unwrap_err().to_string()
    }

    #[test]
    fn words_say_what_would_be_right() {
        assert_eq!(
            refused("hashpip"),
            "--program hashpip: name = \"hashpip\": one of hashpipe, chamelemon, pint, disketch, hopcounters"
        );
        assert_eq!(
            refused("hashpipe:slots=many"),
            "--program hashpipe:slots=many: slots = \"many\": a whole number from 1 to 16777216"
        );
        assert!(refused("hashpipe:slotz=3").contains("no such key, there are "));
        assert!(refused("hashpipe:key=flow").ends_with("key = \"flow\": one of 5tuple, pair, src, dst, digest32"));
        assert!(refused("hashpipe:count=3").ends_with("count = \"3\": one of packets, bytes"));
        assert!(refused("hashpipe:estimate=last").ends_with("one of first, sum"));
        assert!(refused("hashpipe:stages=17").ends_with("stages = 17: a whole number from 1 to 16"));
        assert!(refused("hashpipe:slots=-1").ends_with("slots = -1: a whole number from 1 to 16777216"));
        assert!(refused("hashpipe:slots6=x").ends_with("a whole number from 0 to 16777216"));
        assert!(refused("hashpipe:prefix=999").ends_with("prefix = 999: a whole number from 0 to 32"));
        assert!(refused("hashpipe:prefix=24").contains("belong to key=pair, src or dst"));
        assert!(refused("chamelemon:tower=9x3").ends_with("; written like 8x32768+16x16384"));
        assert!(
            refused("pint:queries=latency:bits=2").contains("bits=2: a whole number from 3 to 12; written like path:")
        );
        assert!(refused("chamelemon:arrays=9").ends_with("arrays = 9: a whole number from 2 to 4"));
        assert!(refused("chamelemon:hl=4000").ends_with("hl = 4000: a whole number from 0 to 3072"));
        assert!(refused("hashpipe:slots").contains("not of the form key=value"));
        assert!(refused("hashpipe:slots=1,slots=2").ends_with("slots is given twice"));
    }

    /// What TOML takes for a key, the command line takes as well.
    #[test]
    fn values_have_the_types_of_their_keys() {
        let schema = serde_json::json!({
            "properties": {
                "flag": { "type": "boolean" },
                "limit": { "type": ["string", "null"] },
                "share": { "type": "number" },
                "either": { "anyOf": [{ "$ref": "#/$defs/name" }, { "type": "integer" }] },
                "list": { "type": "array" },
            },
            "$defs": { "name": { "type": "string" } },
        });
        let read = |key: &str, value: &str| typed(value, &types(&schema, key)).to_string();
        assert_eq!([read("flag", "true"), read("flag", "yes")], ["true", "\"yes\""]);
        assert_eq!(
            [read("limit", "100"), read("limit", "true"), read("limit", "\"a\"")],
            ["\"100\"", "\"true\"", "\"a\""]
        );
        assert_eq!([read("share", "0.5"), read("either", "7"), read("either", "x")], ["0.5", "7", "\"x\""]);
        assert_eq!([read("list", "[1, 2]"), read("unknown", "7")], ["[1, 2]", "7"]);
        assert_eq!(split("list=[1,2],flag=true,"), ["list=[1,2]", "flag=true", ""]);
        assert_eq!(right(&schema, "flag", ""), "true or false");
        assert_eq!(right(&schema, "share", ""), "a number");
    }

    #[test]
    fn lines_are_found() {
        let text =
            "[switch]\nname = \"w\"\npairs = [\n  [\"a\", \"b\"],\n]\n\n[[port]]\nname = \"a\"\n[[port]]\nmtu = 3\n";
        for (key, line) in
            [("switch.name", 2), ("switch.pairs[0]", 4), ("port[0].name", 8), ("port[1].mtu", 10), ("port[1].name", 9)]
        {
            assert_eq!(line_of(text, key), Some(line), "{key}");
        }
        assert_eq!(line_of(text, "nothing"), None);
    }

    #[test]
    fn a_program_of_the_file_is_named_by_its_place() {
        let text = "[[program]]\nname = \"hashpipe\"\n[[program]]\nslots = 9\nkey = \"sauce\"\nname = \"hashpipe\"\n";
        let error = Config::parse(text).unwrap_err();
        assert_eq!(error.to_string(), "program[1].key = \"sauce\": one of 5tuple, pair, src, dst, digest32");
        let ConfigError::Value { key, .. } = error else { panic!("{error}") };
        assert_eq!(line_of(text, &key), Some(5));
        let error = Config::parse("[[program]]\nname = \"hashpipe\"\nstages = 0\n").unwrap_err();
        assert_eq!(error.to_string(), "program[0].stages = 0: a whole number from 1 to 16");
        let error = Config::parse("[[program]]\nstages = 1\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "program[0].name = (missing): one of hashpipe, chamelemon, pint, disketch, hopcounters"
        );
    }
}
