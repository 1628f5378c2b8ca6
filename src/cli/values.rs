//! Numbers that packets told of switches, as people read them.

use super::latency;
use super::output::{self, Cell, Page, Table, row};
use super::paths;
use crate::api::view::{FlowValues, Frequent, Told, Value};
use crate::program::answers::ValueUnit;

/// All values, each with its title, and with its query where another one has the same title. Tables
/// are named by their queries.
pub fn values_page(values: &[Value]) -> Page {
    let titles: Vec<_> = values.iter().map(title).collect();
    values.iter().zip(&titles).fold(Page::default(), |page, (value, title)| {
        let is_alone = titles.iter().filter(|other| *other == title).count() == 1;
        let query = if is_alone { String::new() } else { format!(" ({})", value.query) };
        let off = off_text(&value.unit, value.error, value.error_factor).map(|off| format!("; {off}"));
        let heading = format!(
            "{title}{query}{}{}",
            off.unwrap_or_default(),
            largest_text(&value.unit, value.largest, all_numbers(value))
        );
        let page = match value.told[..] {
            [] => page.text(format!("{heading}\nno packet told of it")),
            _ => page,
        };
        page.table(&value.query, value_table(value).titled(heading))
    })
}

/// What a table is of: `queue, quantiles of each hop, flow=dst`.
fn title(value: &Value) -> String {
    let of = if value.of_hops { "each hop" } else { "each packet's way" };
    let window = value.window_ns.map(|ns| format!(", over the last {}", latency::time(ns)));
    let flow = value.flow_definition.as_ref().map(|flow| format!(", flow={flow}"));
    let [flow, window] = [flow, window].map(Option::unwrap_or_default);
    format!("{}, {} of {of}{flow}{window}", value.value, value.aggregation)
}

/// By how much numbers of a unit are off because packets carry them in few bits; `None` where they are
/// exact.
pub fn off_text(unit: &str, error: f64, factor: f64) -> Option<String> {
    let error = (error > 0.0).then(|| number_text(unit, error));
    let factor = (factor > 1.0).then(|| format!("a factor of {factor:.3}"));
    let both: Vec<_> = error.into_iter().chain(factor).collect();
    (!both.is_empty()).then(|| format!("off by {} at most", both.join(" or ")))
}

/// A note that the number of the last code stands for larger ones too, where a table has it among its
/// `numbers`.
pub fn largest_text(unit: &str, largest: Option<f64>, mut numbers: impl Iterator<Item = f64>) -> String {
    match largest.filter(|largest| numbers.any(|number| number >= *largest)) {
        Some(largest) => format!("; {} means that or more", number_text(unit, largest)),
        None => String::new(),
    }
}

/// Those of a value's table.
fn all_numbers(value: &Value) -> impl Iterator<Item = f64> {
    let told = value.told.iter().flat_map(|flow| &flow.told);
    told.flat_map(|told| told.max.into_iter().chain(told.frequent.iter().map(|frequent| frequent.number)))
}

fn value_table(value: &Value) -> Table {
    let rows = value.told.iter().flat_map(|flow| flow.told.iter().map(move |told| (flow, told)));
    let number = |number: Option<f64>| Cell::or("-", number.map(|n| Cell::new(number_text(&value.unit, n), n)));
    let between = |ends: [Option<f64>; 2]| Cell::between(ends, |end| number_text(&value.unit, end));
    let flow_and_hop = |(flow, told): (&FlowValues, &Told)| {
        row![
            Cell::from(flow.name.to_string()).repeated(told.hop.is_some_and(|hop| hop != 1)),
            told.hop.map_or_else(String::new, |hop| hop.to_string()),
            Cell::or("?", told.switch.as_deref()),
            told.samples,
        ]
    };
    if value.aggregation == "frequent" {
        let frequent = |(flow, told): (&FlowValues, &Told)| {
            let numbers = numbers(&value.unit, &told.frequent);
            [flow_and_hop((flow, told)), row![numbers, Cell::or("", told.share_error.map(Cell::share))]].concat()
        };
        let columns = ["flow", ">hop", "switch", ">samples", "numbers|numbers,shares", ">± share|share_error"];
        return Table::new(columns, rows.map(frequent)).keyed(2);
    }
    let unit = &value.unit;
    let [p50, p99] = ["p50", "p99"]
        .map(|name| [format!(">{name}|{name}_{unit}"), format!(">between|{name}_low_{unit},{name}_high_{unit}")]);
    let maximum = format!(">maximum|max_{unit}");
    if value.of_hops {
        let of_hop = |(flow, told): (&FlowValues, &Told)| {
            let p50 = [number(told.p50), between([told.p50_low, told.p50_high])];
            let p99 = [number(told.p99), between([told.p99_low, told.p99_high])];
            [flow_and_hop((flow, told)), p50.into(), p99.into(), vec![number(told.max)]].concat()
        };
        let columns = ["flow", ">hop", "switch", ">samples"].map(str::to_owned);
        let columns = columns.into_iter().chain(p50).chain(p99).chain([maximum]);
        return Table::new(columns, rows.map(of_hop)).keyed(2);
    }
    let of_way = |(flow, told): (&FlowValues, &Told)| {
        row![
            flow.name.to_string(),
            paths::path_of(flow.checksum, &flow.path),
            &flow.sink,
            told.samples,
            number(told.p50),
            between([told.p50_low, told.p50_high]),
            number(told.max),
            number(told.mean),
            number(told.mean_error),
        ]
    };
    let [_, between_p50] = p50;
    let columns = ["flow", paths::PATH, "leaves at|sink", ">packets"].map(str::to_owned);
    let median = [format!(">median|p50_{unit}"), between_p50, maximum];
    let mean = [format!(">mean|mean_{unit}"), format!(">± mean|mean_error_{unit}")];
    Table::new(columns.into_iter().chain(median).chain(mean), rows.map(of_way)).keyed(2)
}

/// Frequent numbers with their shares; in CSV two lists, with blanks between.
fn numbers(unit: &str, frequent: &[Frequent]) -> Cell {
    let text = |of: &Frequent| format!("{} ({})", number_text(unit, of.number), output::percent(of.share));
    let list = |of: fn(&Frequent) -> f64| {
        frequent.iter().map(|frequent| of(frequent).to_string()).collect::<Vec<_>>().join(" ")
    };
    Cell {
        text: frequent.iter().map(text).collect::<Vec<_>>().join(", "),
        values: vec![list(|of| of.number), list(|of| of.share)],
    }
}

/// The numbers between which a quantile lies: `1.20 to 3.50 ms`. An end that is not known is `?`.
pub fn between_text<T>(ends: [Option<T>; 2], text: impl Fn(T) -> String) -> String {
    match ends.map(|end| end.map(&text)) {
        [None, None] => "?".into(),
        [Some(low), None] => format!("{low} to ?"),
        [None, Some(high)] => format!("? to {high}"),
        [Some(low), Some(high)] if low == high => low,
        [Some(low), Some(high)] => {
            let unit = |text: &str| {
                text.rfind(' ')
                    .map(|at| text[at..].to_owned())
                    .filter(|unit| !unit[1..].starts_with(|c: char| c.is_ascii_digit()))
            };
            let common = unit(&low).filter(|of| unit(&high).as_ref() == Some(of));
            let low = common.and_then(|unit| low.strip_suffix(&unit).map(str::to_owned)).unwrap_or(low);
            format!("{low} to {high}")
        }
    }
}

/// A number of this unit.
pub fn number_text(unit: &str, number: f64) -> String {
    match ValueUnit::ALL.into_iter().find(|known| known.name() == unit) {
        Some(ValueUnit::Ns) => latency::time(number.round() as u64),
        Some(ValueUnit::Share) => output::percent(number),
        _ if number.fract() == 0.0 => output::grouped(number as u64),
        _ => format!("{number:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::flows::NamedFlow;
    use crate::cli::output::Style;
    use crate::program::answers::FlowName;
    use crate::wire::Flow;

    fn text(values: &[Value]) -> String {
        values_page(values).to_text(Style::Plain)
    }

    #[test]
    fn errors_are_told_as_they_are() {
        assert_eq!(off_text("ns", 0.0, 1.0), None);
        assert_eq!(off_text("ns", 65_536.0, 1.0).unwrap(), "off by 65.5 µs at most");
        assert_eq!(off_text("ns", 0.0, 1.0631).unwrap(), "off by a factor of 1.063 at most");
        assert_eq!(off_text("packets", 4.0, 1.25).unwrap(), "off by 4 or a factor of 1.250 at most");
    }

    /// A table that has the largest number says that it stands for larger ones as well.
    #[test]
    fn the_last_code_is_told() {
        let value = |number: f64| {
            let name: NamedFlow = FlowName::Flow(Flow::default()).into();
            let told = Told { samples: 9, max: Some(number), ..Told::default() };
            let flow = FlowValues { name, sink: "a".into(), checksum: None, path: Vec::new(), told: vec![told] };
            let largest = Some(7.0);
            Value { unit: "port".into(), error_factor: 1.0, largest, told: vec![flow], ..Value::default() }
        };
        assert!(text(&[value(7.0)]).contains("; 7 means that or more\n"));
        assert!(!text(&[value(6.0)]).contains("or more"));
    }

    /// A table has its query in its title where nothing else tells it from another one.
    #[test]
    fn titles_tell_tables_apart() {
        let value = |query: &str, window_ns| {
            let [value, aggregation] = ["queue", "max"].map(Into::into);
            Value { query: query.into(), value, aggregation, window_ns, error_factor: 1.0, ..Value::default() }
        };
        let titles = |values: &[Value]| {
            let tables = text(values);
            tables.split("\n\n").map(|table| table.lines().next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let (short, window) = ("queue, max of each packet's way", Some(1_000_000_000));
        assert_eq!(titles(&[value("a", None)]), [short]);
        let expected = [format!("{short} (a)"), format!("{short}, over the last 1.00 s"), format!("{short} (c)")];
        assert_eq!(titles(&[value("a", None), value("b", window), value("c", None)]), expected);
    }

    #[test]
    fn intervals_have_a_unit_once() {
        let of = |unit, ends| between_text(ends, |end| number_text(unit, end));
        assert_eq!(of("ns", [Some(1200.0), Some(3500.0)]), "1.20 to 3.50 µs");
        assert_eq!(of("ns", [Some(256.0), Some(3500.0)]), "256 ns to 3.50 µs");
        assert_eq!(of("ns", [Some(256.0), Some(256.0)]), "256 ns");
        assert_eq!(of("share", [Some(0.25), Some(0.5)]), "25.00 to 50.00 %");
        assert_eq!(of("packets", [Some(1.0), Some(12.0)]), "1 to 12");
        assert_eq!(of("packets", [Some(1.0), None]), "1 to ?");
        assert_eq!((of("ns", [None, Some(256.0)]), of("ns", [None, None])), ("? to 256 ns".into(), "?".into()));
    }

    #[test]
    fn numbers_have_their_unit() {
        let text = [("ns", 1234.4), ("share", 0.125), ("packets", 12.0), ("packets", 1.5), ("port", 3.0)];
        assert_eq!(text.map(|(unit, number)| number_text(unit, number)), ["1.23 µs", "12.50 %", "12", "1.50", "3"]);
    }
}
