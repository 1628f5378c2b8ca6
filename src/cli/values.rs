//! Numbers that packets told of switches, as people read them.

use super::{latency, output, paths};
use crate::api::view::{FlowValues, Told, Value};
use crate::program::answers::ValueUnit;

/// All values, each with its title, and with its query where another one has the same title.
pub fn values_tables(values: &[Value]) -> String {
    let titles: Vec<_> = values.iter().map(title).collect();
    let table = |(value, title): (&Value, &String)| {
        let is_alone = titles.iter().filter(|other| *other == title).count() == 1;
        let query = if is_alone { String::new() } else { format!(" ({})", value.query) };
        value_table(value, title.clone() + &query)
    };
    values.iter().zip(&titles).map(table).collect::<Vec<_>>().join("\n\n")
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
fn numbers(value: &Value) -> impl Iterator<Item = f64> {
    let told = value.told.iter().flat_map(|flow| &flow.told);
    told.flat_map(|told| told.max.into_iter().chain(told.frequent.iter().map(|frequent| frequent.number)))
}

fn value_table(value: &Value, title: String) -> String {
    let off = off_text(&value.unit, value.error, value.error_factor).map(|off| format!("; {off}"));
    let largest = largest_text(&value.unit, value.largest, numbers(value));
    let heading = title + &off.unwrap_or_default() + &largest;
    if value.told.is_empty() {
        return format!("{heading}\nno packet told of it");
    }
    let rows = value.told.iter().flat_map(|flow| flow.told.iter().map(|told| row(value, flow, told)));
    let table = match value.aggregation.as_str() {
        "frequent" => output::table(
            ["flow", ">hop", "switch", ">samples", "numbers", ">± share"],
            rows.map(|row| row.of_frequent()),
        ),
        _ if value.of_hops => {
            let headings = ["flow", ">hop", "switch", ">samples", ">p50", ">between", ">p99", ">between", ">maximum"];
            output::table(headings, rows.map(|row| row.of_hop()))
        }
        _ => {
            let headings = ["flow", "leaves at", ">packets", ">median", ">between", ">maximum", ">mean", ">± mean"];
            paths::table_by_path(headings, rows.map(|row| row.of_way()))
        }
    };
    format!("{heading}\n{table}")
}

/// The cells of a row, of which a table has some.
struct Row {
    flow: String,
    path: Option<String>,
    hop: String,
    switch: String,
    sink: String,
    samples: String,
    quantiles: [String; 3],
    between: [String; 2],
    mean: [String; 2],
    frequent: String,
    error: String,
}

fn row(value: &Value, flow: &FlowValues, told: &Told) -> Row {
    let number = |number: Option<f64>| number.map_or_else(|| "-".into(), |number| number_text(&value.unit, number));
    let frequent = |of: &crate::api::view::Frequent| {
        format!("{} ({})", number_text(&value.unit, of.number), output::percent(of.share))
    };
    Row {
        flow: if told.hop.is_none_or(|hop| hop == 1) { flow.name.to_string() } else { String::new() },
        path: paths::path_of(flow.checksum, &flow.path),
        hop: told.hop.map_or_else(String::new, |hop| hop.to_string()),
        switch: told.switch.as_deref().unwrap_or("?").to_owned(),
        sink: flow.sink.clone(),
        samples: output::grouped(told.samples),
        quantiles: [told.p50, told.p99, told.max].map(number),
        between: [[told.p50_low, told.p50_high], [told.p99_low, told.p99_high]]
            .map(|ends| between_text(ends, |end| number_text(&value.unit, end))),
        mean: [told.mean, told.mean_error].map(number),
        frequent: told.frequent.iter().map(frequent).collect::<Vec<_>>().join(", "),
        error: told.share_error.map(output::percent).unwrap_or_default(),
    }
}

impl Row {
    fn of_frequent(self) -> [String; 6] {
        [self.flow, self.hop, self.switch, self.samples, self.frequent, self.error]
    }

    fn of_hop(self) -> [String; 9] {
        let ([p50, p99, max], [p50_between, p99_between]) = (self.quantiles, self.between);
        [self.flow, self.hop, self.switch, self.samples, p50, p50_between, p99, p99_between, max]
    }

    fn of_way(self) -> (Option<String>, [String; 8]) {
        let ([p50, _, max], [between, _], [mean, mean_error]) = (self.quantiles, self.between, self.mean);
        (self.path, [self.flow, self.sink, self.samples, p50, between, max, mean, mean_error])
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
    use crate::program::answers::FlowName;
    use crate::wire::Flow;

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
        assert!(values_tables(&[value(7.0)]).contains("; 7 means that or more\n"));
        assert!(!values_tables(&[value(6.0)]).contains("or more"));
    }

    /// A table has its query in its title where nothing else tells it from another one.
    #[test]
    fn titles_tell_tables_apart() {
        let value = |query: &str, window_ns| {
            let [value, aggregation] = ["queue", "max"].map(Into::into);
            Value { query: query.into(), value, aggregation, window_ns, error_factor: 1.0, ..Value::default() }
        };
        let titles = |values: &[Value]| {
            let tables = values_tables(values);
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
