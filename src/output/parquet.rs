//! Tables as Parquet, and the columns of its files.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::{Field, Page, Table};

/// The key of a file's metadata that has what the page says beside its tables.
pub const SAYS: &str = "weir.says";

/// Endings of the names of columns with whole numbers, and of those with others: the units of docs/csv.md.
const WHOLE: [&str; 6] = ["_packets", "_bytes", "_ns", "_bits", "_epoch", "_blocks"];
const NUMBER: [&str; 2] = ["_share", "_seconds"];

/// What a column holds. Every value of a column may be missing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Whole,
    Number,
    Truth,
    Text,
}

impl Kind {
    /// That of a column by its values; where there are none, by its name.
    fn of<'a>(name: &str, fields: impl Iterator<Item = &'a Field>) -> Self {
        let kind = |field: &Field| match field {
            Field::Empty => None,
            Field::Whole(_) => Some(Self::Whole),
            Field::Number(_) => Some(Self::Number),
            Field::Truth(_) => Some(Self::Truth),
            Field::Text(_) => Some(Self::Text),
        };
        let both = |one: Self, other: Self| match (one, other) {
            (one, other) if one == other => one,
            (Self::Whole, Self::Number) | (Self::Number, Self::Whole) => Self::Number,
            _ => Self::Text,
        };
        fields.filter_map(kind).reduce(both).unwrap_or_else(|| {
            let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
            match (ends(&WHOLE), ends(&NUMBER)) {
                (true, _) => Self::Whole,
                (_, true) => Self::Number,
                _ => Self::Text,
            }
        })
    }

    fn column(self, name: &str) -> Result<TypePtr, ParquetError> {
        let (physical, logical) = match self {
            Self::Whole => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Self::Number => (Physical::DOUBLE, None),
            Self::Truth => (Physical::BOOLEAN, None),
            Self::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let column = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
        Ok(Arc::new(column.with_logical_type(logical).build()?))
    }
}

/// Writes every table of a page that has columns, with a number where there is one, and names the files. A file
/// that stands there is replaced when the new one is complete.
///
/// # Errors
/// With the path of the file or directory that cannot be written.
pub fn write_page(page: &Page, directory: &Path, number: Option<u64>) -> io::Result<Vec<PathBuf>> {
    let at = |path: &Path, error: String| io::Error::other(format!("{}: {error}", path.display()));
    fs::create_dir_all(directory).map_err(|e| at(directory, e.to_string()))?;
    let says = page.texts().collect::<Vec<_>>().join("\n\n");
    let mut files = Vec::new();
    for (name, table) in page.tables().filter(|(_, table)| table.names().next().is_some()) {
        let number = number.map_or_else(String::new, |number| format!("-{number}"));
        let file = directory.join(format!("{}{number}.parquet", file_name(name)));
        let part = file.with_extension("parquet.part");
        write_table(table, &says, &part).map_err(|e| {
            // Of no use, and it takes room where there may be none.
            let _ = fs::remove_file(&part);
            at(&part, e.to_string())
        })?;
        fs::rename(&part, &file).map_err(|e| at(&file, e.to_string()))?;
        files.push(file);
    }
    Ok(files)
}

/// A table's name as that of a file: what may have a meaning in a path becomes `_`.
fn file_name(name: &str) -> String {
    let name = name.trim_start_matches('.');
    name.chars().map(|c| if c.is_alphanumeric() || "._-=:+,@".contains(c) { c } else { '_' }).collect()
}

fn write_table(table: &Table, says: &str, path: &Path) -> Result<(), ParquetError> {
    let names: Vec<&str> = table.names().collect();
    let rows: Vec<Vec<&Field>> = table.records().map(Iterator::collect).collect();
    let kinds: Vec<Kind> =
        names.iter().enumerate().map(|(at, name)| Kind::of(name, rows.iter().map(|row| row[at]))).collect();
    let columns = names.iter().zip(&kinds).map(|(name, kind)| kind.column(name)).collect::<Result<_, _>>()?;
    let schema = Arc::new(Type::group_type_builder("weir").with_fields(columns).build()?);
    let metadata = (!says.is_empty()).then(|| vec![KeyValue::new(SAYS.to_owned(), says.to_owned())]);
    let properties = WriterProperties::builder().set_compression(Compression::GZIP(Default::default()));
    let properties = Arc::new(properties.set_key_value_metadata(metadata).build());
    let mut writer = SerializedFileWriter::new(fs::File::create(path)?, schema, properties)?;
    write_rows(Columns { group: writer.next_row_group()?, rows: &rows }, &kinds)?;
    writer.close().map(drop)
}

fn write_rows<W: Write + Send>(mut columns: Columns<'_, W, Vec<&Field>>, kinds: &[Kind]) -> Result<(), ParquetError> {
    for (at, kind) in kinds.iter().enumerate() {
        match kind {
            Kind::Whole => columns.some::<Int64Type>(|row| match row[at] {
                Field::Whole(n) => Some(*n as i64),
                _ => None,
            })?,
            Kind::Number => columns.some::<DoubleType>(|row| match row[at] {
                Field::Whole(n) => Some(*n as f64),
                Field::Number(n) => Some(*n),
                _ => None,
            })?,
            Kind::Truth => columns.some::<BoolType>(|row| match row[at] {
                Field::Truth(yes) => Some(*yes),
                _ => None,
            })?,
            Kind::Text => columns.some::<ByteArrayType>(|row| {
                (!row[at].is_empty()).then(|| ByteArray::from(row[at].to_string().into_bytes()))
            })?,
        }
    }
    columns.group.close().map(drop)
}

/// The columns of a group of rows, which are written one after the other.
pub struct Columns<'a, W: Write, R> {
    pub group: SerializedRowGroupWriter<'a, W>,
    pub rows: &'a [R],
}

impl<W: Write + Send, R> Columns<'_, W, R> {
    /// A column whose values are all there.
    pub fn all<T: DataType>(&mut self, value: impl Fn(&R) -> T::T) -> Result<(), ParquetError> {
        let values: Vec<T::T> = self.rows.iter().map(value).collect();
        self.next::<T>(&values, None, None)
    }

    pub fn some<T: DataType>(&mut self, value: impl Fn(&R) -> Option<T::T>) -> Result<(), ParquetError> {
        let all: Vec<Option<T::T>> = self.rows.iter().map(value).collect();
        let present: Vec<i16> = all.iter().map(|value| i16::from(value.is_some())).collect();
        let values: Vec<T::T> = all.into_iter().flatten().collect();
        self.next::<T>(&values, Some(&present), None)
    }

    /// `level` is that of an element that is there: 3 where elements may be null.
    pub fn list<T: DataType>(
        &mut self,
        level: i16,
        value: impl Fn(&R) -> Option<Vec<Option<T::T>>>,
    ) -> Result<(), ParquetError> {
        let (mut values, mut present, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
        for row in self.rows {
            match value(row) {
                None => (present.push(0), repeated.push(0)),
                Some(list) if list.is_empty() => (present.push(1), repeated.push(0)),
                Some(list) => {
                    for (at, element) in list.into_iter().enumerate() {
                        present.push(if element.is_some() { level } else { 2 });
                        repeated.push(i16::from(at > 0));
                        values.extend(element);
                    }
                    ((), ())
                }
            };
        }
        self.next::<T>(&values, Some(&present), Some(&repeated))
    }

    fn next<T: DataType>(
        &mut self,
        values: &[T::T],
        present: Option<&[i16]>,
        repeated: Option<&[i16]>,
    ) -> Result<(), ParquetError> {
        let missing = || ParquetError::General("no such column".into());
        let mut column = self.group.next_column()?.ok_or_else(missing)?;
        column.typed::<T>().write_batch(values, present, repeated)?;
        column.close()
    }
}

#[cfg(test)]
mod tests;
