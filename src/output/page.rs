//! The output of a command: paragraphs and tables.

use super::{Field, Style, Table, fit};

/// Paragraphs and tables, in their order.
#[derive(Clone, Debug, Default)]
pub struct Page(Vec<Part>);

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    /// With its name.
    Table(String, Table),
}

impl Page {
    /// A paragraph; none where there is nothing to say.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.0.push(Part::Text(text.into()));
        self
    }

    /// A table. In the text it is left out when it has no rows.
    pub fn table(mut self, name: impl Into<String>, table: Table) -> Self {
        self.0.push(Part::Table(name.into(), table));
        self
    }

    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// The page with `prefix` before the names of its tables.
    pub fn of(mut self, prefix: &str) -> Self {
        for part in &mut self.0 {
            if let Part::Table(name, _) = part {
                *name = format!("{prefix}.{name}");
            }
        }
        self
    }

    /// The page with [`Table::beside`] for all its tables.
    pub fn beside(mut self, columns: &[(&str, Field)]) -> Self {
        for part in &mut self.0 {
            if let Part::Table(_, table) = part {
                *table = std::mem::take(table).beside(columns);
            }
        }
        self
    }

    /// The parts with an empty line between them.
    pub fn to_text(&self, style: Style) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => paragraph(text.trim_matches('\n'), style),
            Part::Table(_, table) if table.is_empty() => String::new(),
            Part::Table(_, table) => table.text(style),
        };
        self.0.iter().map(part).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
    }

    /// The tables with their names.
    pub fn tables(&self) -> impl Iterator<Item = (&str, &Table)> {
        self.0.iter().filter_map(|part| match part {
            Part::Table(name, table) => Some((name.as_str(), table)),
            Part::Text(_) => None,
        })
    }

    /// The paragraphs.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let texts = self.0.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.trim_matches('\n')),
            Part::Table(..) => None,
        });
        texts.filter(|text| !text.is_empty())
    }

    /// What `text` and `table` make of the parts, in their order.
    pub fn each<T>(&self, text: impl Fn(&str) -> T, table: impl Fn(&Table) -> T) -> Vec<T> {
        let part = |part: &Part| match part {
            Part::Text(paragraph) => text(paragraph.trim_matches('\n')),
            Part::Table(_, of) => table(of),
        };
        self.0.iter().map(part).collect()
    }

    /// The table of this name, or the first.
    ///
    /// # Errors
    /// Lists the tables when there is none of the name.
    pub fn named(&self, wanted: &str) -> Result<&Table, String> {
        let found = self.tables().find(|(name, _)| wanted.is_empty() || *name == wanted);
        found.map(|(_, table)| table).ok_or_else(|| {
            let names: Vec<_> = self.tables().map(|(name, _)| name).collect();
            match names.is_empty() {
                true => "there is no table in this answer".into(),
                false => format!("there is no such table; there are {}", names.join(", ")),
            }
        })
    }
}

/// A text whose lines fit a terminal.
fn paragraph(text: &str, style: Style) -> String {
    match style {
        Style::Plain => text.to_owned(),
        Style::Terminal { columns } => {
            text.lines().flat_map(|line| fit::wrapped(line, columns)).collect::<Vec<_>>().join("\n")
        }
    }
}
