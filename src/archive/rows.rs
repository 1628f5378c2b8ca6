//! The rows of a file, and what they are made of.

use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;

use parquet::basic::Type;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::SchemaDescriptor;
use serde::{Deserialize, Serialize};

use crate::answers::{
    ByRoute, Certainty, CountedFlow, FlowName, HeavyFlow, HeavyFlows, Losses, Paths, Query, Queryable, Task,
};
use crate::history::{Adaptation, ArchiveForm, Entry, Finality, Reasons, SwitchCounters, SwitchGap, Window};
use crate::output::parquet::Columns;
use crate::program::bytes::{DecodeError, Reader, Writer};

/// The table of every file. `kind` says what a row is; columns that it has no use for are null.
pub const SCHEMA: &str = "message weir {
    REQUIRED INT64 epoch (INTEGER(64, false));
    REQUIRED BYTE_ARRAY kind (STRING);
    REQUIRED BYTE_ARRAY program (STRING);
    OPTIONAL INT64 start (TIMESTAMP(MICROS, true));
    REQUIRED INT64 epoch_ns (INTEGER(64, false));
    OPTIONAL BYTE_ARRAY switch (STRING);
    OPTIONAL BYTE_ARRAY src (STRING);
    OPTIONAL BYTE_ARRAY dst (STRING);
    OPTIONAL INT32 sport (INTEGER(16, false));
    OPTIONAL INT32 dport (INTEGER(16, false));
    OPTIONAL INT32 proto (INTEGER(8, false));
    OPTIONAL BYTE_ARRAY ipv6_digest (STRING);
    OPTIONAL BYTE_ARRAY digest32 (STRING);
    OPTIONAL INT64 packets (INTEGER(64, false));
    OPTIONAL INT64 bytes (INTEGER(64, false));
    OPTIONAL BOOLEAN exact;
    OPTIONAL BYTE_ARRAY certainty (STRING);
    OPTIONAL INT64 first_epoch (INTEGER(64, false));
    OPTIONAL BOOLEAN final;
    OPTIONAL group gaps (LIST) { REPEATED group list { REQUIRED BYTE_ARRAY element (STRING); } }
    OPTIONAL group switches (LIST) { REPEATED group list { OPTIONAL BYTE_ARRAY element (STRING); } }
    OPTIONAL INT32 sub_epochs;
    OPTIONAL INT32 sub_epoch;
    OPTIONAL group counters (LIST) { REPEATED group list { REQUIRED INT32 element; } }
    OPTIONAL BYTE_ARRAY hash (STRING);
    OPTIONAL BYTE_ARRAY state;
}";

/// The columns from which weir reads an epoch again, in the order of the schema.
pub const STATE_SCHEMA: &str = "message weir {
    REQUIRED INT64 epoch (INTEGER(64, false));
    REQUIRED BYTE_ARRAY kind (STRING);
    OPTIONAL BYTE_ARRAY hash (STRING);
    OPTIONAL BYTE_ARRAY state;
}";

/// The kind of rows that have an epoch's state.
pub const EPOCH: &str = "epoch";
/// Version of an epoch's state.
const VERSION: u8 = 1;

/// A row.
#[derive(Clone, Debug, Default)]
pub struct Row {
    epoch: u64,
    kind: &'static str,
    switch: Option<Arc<str>>,
    flow: Option<FlowName>,
    packets: Option<u64>,
    bytes: Option<u64>,
    exact: Option<bool>,
    certainty: Option<&'static str>,
    first_epoch: Option<u64>,
    is_final: Option<bool>,
    gaps: Option<Vec<String>>,
    switches: Option<Vec<Option<Arc<str>>>>,
    sub_epochs: Option<u32>,
    sub_epoch: Option<u32>,
    counters: Option<Box<[i32]>>,
    hash: Option<String>,
    state: Option<Vec<u8>>,
}

impl Row {
    /// Memory, in bytes.
    pub fn memory(&self) -> usize {
        let counters = self.counters.as_ref().map_or(0, |counters| size_of_val(&counters[..]));
        size_of::<Self>() + counters + self.state.as_ref().map_or(0, Vec::len)
    }
}

/// An entry but for what the program keeps, as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Outline {
    epoch: u64,
    first_epoch: u64,
    gaps: Vec<SwitchGap>,
    switches: Vec<Arc<str>>,
    doubts: Reasons,
    adaptation: Option<Adaptation>,
    finality: Finality,
}

/// The state of an entry: the version, its outline, and the program's byte form.
fn state(entry: &Entry<()>, form: &ArchiveForm) -> Vec<u8> {
    let Entry { epoch, first_epoch, gaps, switches, doubts, adaptation, finality, .. } = entry.clone();
    let mut to = Writer(vec![VERSION]);
    to.json(&Outline { epoch, first_epoch, gaps, switches, doubts, adaptation, finality });
    to.bytes(&form.bytes);
    to.0
}

/// Reads a state: the entry, and the program's byte form.
pub fn read_state(bytes: &[u8]) -> Result<(Entry<()>, &[u8]), DecodeError> {
    let mut from = Reader::new(bytes);
    from.version(VERSION)?;
    let Outline { epoch, first_epoch, gaps, switches, doubts, adaptation, finality } = from.json("the outline")?;
    if first_epoch > epoch {
        return from.wrong("the outline", "an epoch from its first one on");
    }
    let entry = Entry { first_epoch, gaps, switches, doubts, adaptation, finality, ..Entry::new(epoch, ()) };
    Ok((entry, from.rest()))
}

/// The rows of an epoch: one for each of its entries, the counters, and what the history answers about
/// its flows. `routes` are those of other programs, for one that needs them.
pub fn rows(
    history: &dyn Queryable,
    epoch: u64,
    entries: &[(Entry<()>, Option<ArchiveForm>)],
    routes: Option<&ByRoute>,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for (entry, form) in entries {
        rows.push(Row {
            epoch,
            kind: EPOCH,
            first_epoch: Some(entry.first_epoch),
            is_final: Some(entry.finality.is_final),
            gaps: Some(entry.gaps.iter().map(ToString::to_string).collect()),
            switches: Some(entry.switches.iter().cloned().map(Some).collect()),
            hash: form.as_ref().and_then(|form| form.hashes.clone()),
            state: form.as_ref().map(|form| state(entry, form)),
            ..Row::default()
        });
        let counters = |SwitchCounters { switch, hash, sub_epochs, sub_epoch, counters }: &SwitchCounters| Row {
            epoch,
            kind: "counters",
            switch: Some(switch.clone()),
            sub_epochs: Some(*sub_epochs),
            sub_epoch: *sub_epoch,
            counters: Some(counters.clone()),
            hash: Some(hash.clone()),
            ..Row::default()
        };
        rows.extend(form.iter().flat_map(|form| &form.counters).map(counters));
    }
    let query = |task| Query { routes: routes.cloned(), ..Query::new(task, Window::Epoch(epoch)) };
    if let Ok(found) = history.answer::<HeavyFlows>(&query(Task::Heavy)) {
        let row = |HeavyFlow { name, packets, bytes, at_least, .. }: &HeavyFlow| Row {
            epoch,
            kind: "heavy",
            flow: Some(*name),
            packets: *packets,
            bytes: *bytes,
            exact: at_least.then_some(false),
            ..Row::default()
        };
        rows.extend(found.heavy.iter().map(row));
    }
    if let Ok(found) = history.answer::<Losses>(&query(Task::Losses)) {
        let row = |kind, of: &CountedFlow| Row {
            epoch,
            kind,
            flow: Some(of.name),
            packets: Some(of.packets),
            exact: Some(of.exact),
            ..Row::default()
        };
        rows.extend(found.losses.iter().map(|of| row("loss", of)));
        rows.extend(found.gains.iter().map(|of| row("gain", of)));
    }
    if let Ok(found) = history.answer::<Paths>(&query(Task::Paths)) {
        rows.extend(found.paths.iter().map(|path| Row {
            epoch,
            kind: "path",
            switch: Some(path.sink.clone()),
            flow: Some(path.flow),
            packets: Some(path.packets),
            certainty: Some(certainty(path.certainty)),
            switches: Some(path.switches.to_vec()),
            ..Row::default()
        }));
    }
    rows
}

/// As documents write it.
fn certainty(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Undecided => "undecided",
        Certainty::Decided => "decided",
        Certainty::Sure => "sure",
    }
}

/// The columns of a file, by their path and type.
pub fn columns() -> Vec<(String, Type)> {
    let schema = parse_message_type(SCHEMA).map(Arc::new).map(SchemaDescriptor::new);
    let columns = schema.iter().flat_map(SchemaDescriptor::columns);
    columns.map(|column| (column.path().string(), column.physical_type())).collect()
}

/// Writes rows as a group.
pub fn write<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    (program, epoch_ns): (&str, u64),
    rows: &[Row],
) -> Result<(), ParquetError> {
    let mut columns = Columns { group: writer.next_row_group()?, rows };
    let text = |text: &str| ByteArray::from(text.as_bytes().to_vec());
    let unsigned = |number: u64| number as i64;
    let micros = |row: &Row| (epoch_ns > 0).then(|| (row.epoch.saturating_mul(epoch_ns) / 1000) as i64);
    let flow = |row: &Row| row.flow.as_ref().and_then(FlowName::flow).unwrap_or_default();
    let address = |address: IpAddr| text(&address.to_string());
    columns.all::<Int64Type>(|row| unsigned(row.epoch))?;
    columns.all::<ByteArrayType>(|row| text(row.kind))?;
    columns.all::<ByteArrayType>(|_| text(program))?;
    columns.some::<Int64Type>(micros)?;
    columns.all::<Int64Type>(|_| unsigned(epoch_ns))?;
    columns.some::<ByteArrayType>(|row| row.switch.as_deref().map(text))?;
    columns.some::<ByteArrayType>(|row| flow(row).src.map(address))?;
    columns.some::<ByteArrayType>(|row| flow(row).dst.map(address))?;
    columns.some::<Int32Type>(|row| flow(row).sport.map(i32::from))?;
    columns.some::<Int32Type>(|row| flow(row).dport.map(i32::from))?;
    columns.some::<Int32Type>(|row| flow(row).proto.map(i32::from))?;
    columns.some::<ByteArrayType>(|row| row.flow.as_ref().and_then(FlowName::digest).as_deref().map(text))?;
    columns.some::<ByteArrayType>(|row| Some(text(&row.flow.as_ref()?.digest32()?.to_string())))?;
    columns.some::<Int64Type>(|row| row.packets.map(unsigned))?;
    columns.some::<Int64Type>(|row| row.bytes.map(unsigned))?;
    columns.some::<BoolType>(|row| row.exact)?;
    columns.some::<ByteArrayType>(|row| row.certainty.map(text))?;
    columns.some::<Int64Type>(|row| row.first_epoch.map(unsigned))?;
    columns.some::<BoolType>(|row| row.is_final)?;
    columns.list::<ByteArrayType>(2, |row| {
        row.gaps.as_ref().map(|gaps| gaps.iter().map(|gap| Some(text(gap))).collect())
    })?;
    columns.list::<ByteArrayType>(3, |row| {
        row.switches.as_ref().map(|switches| switches.iter().map(|switch| switch.as_deref().map(text)).collect())
    })?;
    columns.some::<Int32Type>(|row| row.sub_epochs.map(|number| number as i32))?;
    columns.some::<Int32Type>(|row| row.sub_epoch.map(|number| number as i32))?;
    columns.list::<Int32Type>(2, |row| row.counters.as_ref().map(|all| all.iter().copied().map(Some).collect()))?;
    columns.some::<ByteArrayType>(|row| row.hash.as_deref().map(text))?;
    columns.some::<ByteArrayType>(|row| row.state.clone().map(ByteArray::from))?;
    columns.group.close()?;
    Ok(())
}
