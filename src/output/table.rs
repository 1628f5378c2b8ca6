//! A table as a value: columns with names, and rows of cells. It is written as text for a terminal or
//! a pipe, or as CSV.

use super::Field;
use super::Style;
use super::fit;
use super::grouped;

/// Columns and rows.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// A line above the text.
    title: String,
    columns: Vec<Column>,
    rows: Vec<Row>,
    /// The first columns, which say what a row is about.
    keys: usize,
}

/// A column, written `>heading?|names`. `>` flushes it right, as numbers are. `?` leaves it out of the
/// text when no row has something there. The names are those of its CSV columns, apart by commas;
/// without them the heading's words are the name. A column without a heading is in CSV alone, one
/// with an empty name in the text alone.
#[derive(Clone, Debug)]
struct Column {
    heading: String,
    names: Vec<String>,
    is_right: bool,
    is_optional: bool,
}

impl From<&str> for Column {
    fn from(text: &str) -> Self {
        let (heading, names) = text.split_once('|').map_or((text, None), |(heading, names)| (heading, Some(names)));
        let (heading, is_right) = heading.strip_prefix('>').map_or((heading, false), |heading| (heading, true));
        let (heading, is_optional) = heading.strip_suffix('?').map_or((heading, false), |heading| (heading, true));
        let names = names.map_or_else(|| vec![name(heading)], |names| names.split(',').map(str::to_owned).collect());
        let names = names.into_iter().filter(|name| !name.is_empty()).collect();
        Self { heading: heading.into(), names, is_right, is_optional }
    }
}

/// A heading as the name of a CSV column: "rx packets" as `rx_packets`.
fn name(heading: &str) -> String {
    let words = heading.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join("_")
}

#[derive(Clone, Debug)]
struct Row {
    cells: Vec<Cell>,
    /// Lines below it, which are neither wrapped nor in CSV.
    notes: Vec<String>,
}

impl Row {
    fn text(&self, at: usize) -> &str {
        self.cells.get(at).map_or("", |cell| &cell.text)
    }
}

/// A cell: what a person reads, and the values of its CSV columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    pub text: String,
    pub values: Vec<Field>,
}

impl Cell {
    /// A value that a person reads otherwise.
    pub fn new(text: impl Into<String>, value: impl Into<Field>) -> Self {
        Self { text: text.into(), values: vec![value.into()] }
    }

    /// A cell that may lack its value: then this text stands there, and nothing in CSV.
    pub fn or(text: &str, value: Option<impl Into<Self>>) -> Self {
        value.map_or_else(|| Self { text: text.into(), values: Vec::new() }, Into::into)
    }

    /// A number with this many digits behind the point.
    pub fn number(number: f64, digits: usize) -> Self {
        Self::new(format!("{number:.digits$}"), number)
    }

    /// A number that names something, such as an epoch: its digits are never grouped.
    pub fn plain(n: impl Into<Field> + ToString) -> Self {
        Self::new(n.to_string(), n)
    }

    /// 0.0123, which people read as "1.23 %".
    pub fn share(share: f64) -> Self {
        Self::new(super::percent(share), share)
    }

    pub fn ns(ns: u64) -> Self {
        Self::new(super::time(ns), ns)
    }

    /// A moment, shown as a time of day; nanoseconds since 1970 in CSV.
    pub fn moment(at_ns: u64) -> Self {
        Self::new(super::time_of_day(at_ns), at_ns)
    }

    /// The ends of an interval: two CSV columns.
    pub fn between<T: Copy + Into<Field>>(ends: [Option<T>; 2], text: impl Fn(T) -> String) -> Self {
        let values = ends.map(Field::from).into();
        Self { text: super::between(ends, text), values }
    }

    /// The same value, which people do not read again.
    pub fn repeated(self, is_repeated: bool) -> Self {
        if is_repeated { Self { text: String::new(), ..self } } else { self }
    }

    /// Something behind the text.
    pub fn with(mut self, text: &str) -> Self {
        self.text += text;
        self
    }

    /// Whether a person reads nothing in it that has a value.
    fn is_empty(&self) -> bool {
        self.text.is_empty() || self.values.iter().all(Field::is_empty)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { values: vec![text.clone().into()], text }
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Self {
        text.clone().into()
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<u64> for Cell {
    fn from(n: u64) -> Self {
        Self::new(grouped(n), n)
    }
}

impl From<u32> for Cell {
    fn from(n: u32) -> Self {
        u64::from(n).into()
    }
}

impl From<usize> for Cell {
    fn from(n: usize) -> Self {
        (n as u64).into()
    }
}

/// A row of a table, of whatever cells are made of.
macro_rules! row {
    ($($cell:expr),+ $(,)?) => {
        vec![$($crate::output::Cell::from($cell)),+]
    };
}
pub(crate) use row;

impl Table {
    /// A table whose rows are about what their first cell says.
    pub fn new<H: AsRef<str>>(columns: impl IntoIterator<Item = H>, rows: impl IntoIterator<Item = Vec<Cell>>) -> Self {
        let columns = columns.into_iter().map(|column| Column::from(column.as_ref())).collect();
        let rows = rows.into_iter().map(|cells| Row { cells, notes: Vec::new() }).collect();
        Self { title: String::new(), columns, rows, keys: 1 }
    }

    pub fn titled(self, title: impl Into<String>) -> Self {
        Self { title: title.into(), ..self }
    }

    /// So many columns say what a row is about: they stand on the left of every part of a table that
    /// is cut into parts.
    pub fn keyed(self, keys: usize) -> Self {
        Self { keys, ..self }
    }

    /// A row with lines below it.
    pub fn push(&mut self, cells: Vec<Cell>, notes: Vec<String>) {
        self.rows.push(Row { cells, notes });
    }

    /// CSV columns in front of the others, with the same value in each row.
    pub fn beside(mut self, columns: &[(&str, Field)]) -> Self {
        self.columns.splice(0..0, columns.iter().map(|(name, _)| Column::from(&*format!("|{name}"))));
        let cells = columns.iter().map(|(_, value)| Cell::new("", value.clone()));
        self.rows.iter_mut().for_each(|row| drop(row.cells.splice(0..0, cells.clone())));
        self
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as people read it. On a terminal it fits the columns: long texts are wrapped, and
    /// columns that find no room stand in a further part below. No number is ever cut.
    pub fn text(&self, style: Style) -> String {
        let columns = self.columns();
        let parts = match style {
            Style::Plain => vec![fit::whole(&columns)],
            Style::Terminal { columns: width } => fit::parts(&columns, self.shown_keys(), width),
        };
        let last = parts.len().saturating_sub(1);
        let texts = parts.iter().enumerate().map(|(number, part)| {
            let mut lines = fit::line(part, |at| columns[at].heading, &columns, true);
            for (i, row) in self.rows.iter().enumerate() {
                lines.extend(fit::line(part, |at| columns[at].cells[i], &columns, false));
                lines.extend(row.notes.iter().filter(|_| number == last).cloned());
            }
            lines.join("\n")
        });
        let table = texts.collect::<Vec<_>>().join("\n\n");
        match (style, self.title.as_str()) {
            (_, "") => table,
            (Style::Plain, title) => format!("{title}\n{table}"),
            (Style::Terminal { columns }, title) => format!("{}\n{table}", fit::wrapped(title, columns).join("\n")),
        }
    }

    /// The columns that people see, with the text of every row.
    pub fn columns(&self) -> Vec<fit::Column<'_>> {
        let column = |at: usize| fit::Column {
            heading: &self.columns[at].heading,
            is_right: self.columns[at].is_right,
            cells: self.rows.iter().map(|row| row.text(at)).collect(),
        };
        self.shown().into_iter().map(column).collect()
    }

    /// The columns that people see.
    fn shown(&self) -> Vec<usize> {
        let has_some = |at: usize| self.rows.iter().any(|row| row.cells.get(at).is_some_and(|cell| !cell.is_empty()));
        let columns = self.columns.iter().enumerate();
        let shown = columns.filter(|(at, column)| !column.heading.is_empty() && (!column.is_optional || has_some(*at)));
        shown.map(|(at, _)| at).collect()
    }

    /// How many of the columns that are shown say what a row is about.
    fn shown_keys(&self) -> usize {
        let first = self.columns.iter().position(|column| !column.heading.is_empty()).unwrap_or_default();
        self.shown().iter().filter(|at| (first..first + self.keys).contains(*at)).count()
    }

    /// The names of the CSV columns.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().flat_map(|column| &column.names).map(String::as_str)
    }

    /// The values of the CSV columns of each row.
    pub fn records(&self) -> impl Iterator<Item = impl Iterator<Item = &Field>> {
        self.rows.iter().map(|row| {
            self.columns.iter().enumerate().flat_map(|(at, column)| {
                let values = row.cells.get(at).map_or(&[][..], |cell| &cell.values);
                (0..column.names.len()).map(|i| values.get(i).unwrap_or(&Field::Empty))
            })
        })
    }

    /// The table as RFC 4180 has it: a line of names, unless `is_continued`, and a line for each row.
    pub fn csv(&self, is_continued: bool) -> String {
        let mut text = if is_continued { String::new() } else { super::csv::record(self.names()) };
        for record in self.records() {
            let values: Vec<String> = record.map(Field::to_string).collect();
            text += &super::csv::record(values.iter().map(String::as_str));
        }
        text
    }
}

#[cfg(test)]
mod tests;
