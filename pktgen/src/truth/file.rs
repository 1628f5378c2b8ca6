//! The file that truth is written to: lines of JSON, or Parquet.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::{EpochTruth, FlowTruth};

/// A row for each flow and epoch. Counts and epochs are unsigned.
const SCHEMA: &str = "message truth {
    REQUIRED INT64 epoch (INTEGER(64, false));
    OPTIONAL BYTE_ARRAY src (STRING);
    OPTIONAL BYTE_ARRAY dst (STRING);
    OPTIONAL INT32 sport (INTEGER(16, false));
    OPTIONAL INT32 dport (INTEGER(16, false));
    OPTIONAL INT32 proto (INTEGER(8, false));
    REQUIRED INT64 sent_packets (INTEGER(64, false));
    REQUIRED INT64 sent_bytes (INTEGER(64, false));
    REQUIRED INT64 received_packets (INTEGER(64, false));
    REQUIRED INT64 late_packets (INTEGER(64, false));
}";
/// Rows of a group but the last, some 10 MB in memory.
const ROWS: usize = 1 << 17;

/// A failure to write truth.
#[derive(Debug, thiserror::Error)]
pub enum TruthError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Parquet(#[from] ParquetError),
}

/// Truth as a file in one of two forms.
pub enum TruthFile {
    /// One line of JSON for each flow and epoch.
    Lines { file: BufWriter<File>, epoch_ns: u64 },
    /// A Parquet file, which can be read once it is finished.
    Parquet { writer: Box<SerializedFileWriter<File>>, rows: Vec<FlowTruth> },
}

impl TruthFile {
    /// Creates the file: Parquet when its name ends in `.parquet`, else lines of JSON.
    /// Epochs are of this length.
    pub fn create(path: &Path, epoch_ns: u64) -> Result<Self, TruthError> {
        let file = File::create(path)?;
        if !path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet")) {
            return Ok(Self::Lines { file: BufWriter::new(file), epoch_ns });
        }
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let writer = SerializedFileWriter::new(file, schema, Arc::new(WriterProperties::new()))?;
        Ok(Self::Parquet { writer: Box::new(writer), rows: Vec::new() })
    }

    /// Writes the flows of an epoch, or keeps them until there are more.
    pub fn write(&mut self, truth: &EpochTruth) -> Result<(), TruthError> {
        match self {
            Self::Lines { file, epoch_ns } => Ok(truth.write(*epoch_ns, file)?),
            Self::Parquet { writer, rows } => {
                let mut flows = &truth.flows[..];
                while !flows.is_empty() {
                    let (more, rest) = flows.split_at(flows.len().min(ROWS - rows.len()));
                    rows.extend_from_slice(more);
                    flows = rest;
                    if rows.len() == ROWS {
                        write_group(writer, rows)?;
                        rows.clear();
                    }
                }
                Ok(())
            }
        }
    }

    /// Writes what is left, and the end of the file.
    pub fn finish(self) -> Result<(), TruthError> {
        match self {
            Self::Lines { mut file, .. } => Ok(file.flush()?),
            Self::Parquet { mut writer, rows } => {
                if !rows.is_empty() {
                    write_group(&mut writer, &rows)?;
                }
                writer.close()?;
                Ok(())
            }
        }
    }
}

fn write_group(writer: &mut SerializedFileWriter<File>, rows: &[FlowTruth]) -> Result<(), TruthError> {
    let mut group = writer.next_row_group()?;
    let address = |address: IpAddr| ByteArray::from(address.to_string().into_bytes());
    // Parquet's unsigned numbers are stored in the bits of signed ones.
    write_column::<Int64Type>(&mut group, rows, |row| Some(row.epoch as i64))?;
    write_column::<ByteArrayType>(&mut group, rows, |row| row.flow.src.map(address))?;
    write_column::<ByteArrayType>(&mut group, rows, |row| row.flow.dst.map(address))?;
    write_column::<Int32Type>(&mut group, rows, |row| row.flow.sport.map(i32::from))?;
    write_column::<Int32Type>(&mut group, rows, |row| row.flow.dport.map(i32::from))?;
    write_column::<Int32Type>(&mut group, rows, |row| row.flow.proto.map(i32::from))?;
    write_column::<Int64Type>(&mut group, rows, |row| Some(row.sent_packets as i64))?;
    write_column::<Int64Type>(&mut group, rows, |row| Some(row.sent_bytes as i64))?;
    write_column::<Int64Type>(&mut group, rows, |row| Some(row.received_packets as i64))?;
    write_column::<Int64Type>(&mut group, rows, |row| Some(row.late_packets as i64))?;
    group.close()?;
    Ok(())
}

/// Writes the group's next column.
fn write_column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    rows: &[FlowTruth],
    value: impl Fn(&FlowTruth) -> Option<T::T>,
) -> Result<(), TruthError> {
    let missing = || ParquetError::General("no such column".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    let all: Vec<Option<T::T>> = rows.iter().map(value).collect();
    let present: Vec<i16> = all.iter().map(|value| i16::from(value.is_some())).collect();
    let values: Vec<T::T> = all.into_iter().flatten().collect();
    // The levels of a required column are not looked at.
    column.typed::<T>().write_batch(&values, Some(&present), None)?;
    column.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{Field, Row};
    use weir::wire::Flow;

    fn truth(epoch: u64, flows: u16) -> EpochTruth {
        let flow = |n: u16| Flow {
            src: Some(if n.is_multiple_of(2) { IpAddr::from([10, 0, 0, 1]) } else { "fd00::1".parse().unwrap() }),
            dst: Some(IpAddr::from([10, 0, 0, 2])),
            sport: (!n.is_multiple_of(3)).then_some(n),
            dport: Some(65_535),
            proto: Some(255),
        };
        let row = |n: u16| FlowTruth {
            epoch,
            flow: flow(n),
            sent_packets: u64::from(n) + epoch,
            sent_bytes: u64::MAX,
            received_packets: u64::from(n),
            late_packets: u64::from(n / 2),
            number: 0,
        };
        EpochTruth { epoch, flows: (0..flows).map(row).collect() }
    }

    /// A row as the line of JSON has it.
    fn line(row: &Row) -> FlowTruth {
        let mut values = row.get_column_iter().map(|(_, field)| field);
        let mut next = || values.next().unwrap();
        let count = |field: &Field| match field {
            Field::ULong(n) => *n,
            other => panic!("{other:?}"),
        };
        let address = |field: &Field| match field {
            Field::Str(text) => Some(text.parse().unwrap()),
            Field::Null => None,
            other => panic!("{other:?}"),
        };
        let port = |field: &Field| match field {
            Field::UShort(n) => Some(*n),
            Field::Null => None,
            other => panic!("{other:?}"),
        };
        let epoch = count(next());
        let (src, dst, sport, dport) = (address(next()), address(next()), port(next()), port(next()));
        let proto = match next() {
            Field::UByte(n) => Some(*n),
            other => panic!("{other:?}"),
        };
        let flow = Flow { src, dst, sport, dport, proto };
        let (sent_packets, sent_bytes, received_packets) = (count(next()), count(next()), count(next()));
        FlowTruth { number: 0, epoch, flow, sent_packets, sent_bytes, received_packets, late_packets: count(next()) }
    }

    /// What is read back is what was written, over several row groups.
    #[test]
    fn parquet_has_the_rows_of_json() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("truth.parquet");
        let mut file = TruthFile::create(&path, 1 << 26).unwrap();
        let epochs: Vec<EpochTruth> = (0..5).map(|epoch| truth(epoch, 40_000)).chain([truth(9, 0)]).collect();
        for truth in &epochs {
            file.write(truth).unwrap();
        }
        file.finish().unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.metadata().num_row_groups(), 2);
        let read = reader.get_row_iter(None).unwrap().map(|row| line(&row.unwrap()));
        assert!(read.eq(epochs.iter().flat_map(|truth| truth.flows.iter().copied())));
    }

    #[test]
    fn an_empty_file_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("truth.PARQUET");
        TruthFile::create(&path, 1 << 26).unwrap().finish().unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
    }
}
