//! Traces and captures over the control socket: `POST /v1/trace`, `POST /v1/capture`, `DELETE
//! /v1/captures/ID`.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use hyper::body::{Bytes, Frame};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::answers::{Answer, Body, InPath, Refusal, refuse};
use super::routes::{HandlerOutput, Operation};
use super::service::{AnySwitch, Service};
use super::view::packet::Packet;
use crate::observe::{Capture, CaptureOptions, CapturedPacket, Direction, Opened, PacketTrace, TraceOnce};
use crate::pisa::{DropReason, PortId};
use crate::trace::{INBOUND, OUTBOUND, PcapNgStream};
use crate::wire::{FABRIC_L2_OVERHEAD, Filter};

/// The path of [`trace`], whose answer may be long in coming.
pub const TRACE: &str = "/v1/trace";
/// How often a ring or a trace is looked at: at a million packets a second a capture's ring lasts
/// longer.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Bytes that are sent at once, and such chunks that may wait for the client.
const CHUNK_BYTES: usize = 64 << 10;
const CHUNKS: usize = 16;
/// Period of a running capture's loss counts, and of the blanks that a waiting trace sends.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Maximum time that a trace waits for its packet, and that a capture lasts, in seconds.
const LONGEST_TRACE: f64 = 3600.0;
const LONGEST_CAPTURE: f64 = 1e6;
/// The comment of a capture.
const TIMES: &str = "Times are those of bursts: what a worker takes in, sends and drops in one round of its loop has \
                     one time. A difference of 0 ns is no latency.";
const SNAPLEN: std::ops::RangeInclusive<u32> = 14..=65_535;

/// `POST /v1/trace`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TraceQuery {
    pub filter: String,
    /// The port that the packet must come in by.
    pub port: Option<String>,
    pub timeout_seconds: f64,
}

impl Default for TraceQuery {
    fn default() -> Self {
        Self { filter: String::new(), port: None, timeout_seconds: 10.0 }
    }
}

/// `POST /v1/capture`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CaptureQuery {
    pub filter: String,
    /// Empty for all ports.
    pub ports: Vec<String>,
    pub rx: bool,
    pub tx: bool,
    pub drops: bool,
    /// The capture ends after this many packets, or this time.
    pub count: Option<u64>,
    pub duration_seconds: Option<f64>,
    /// Bytes kept of a packet; by default the longest frame that the ports let through.
    pub snaplen_bytes: Option<u32>,
}

impl Default for CaptureQuery {
    fn default() -> Self {
        let (filter, ports, count, duration_seconds, snaplen_bytes) = Default::default();
        Self { filter, ports, rx: true, tx: true, drops: false, count, duration_seconds, snaplen_bytes }
    }
}

/// The header of the answer that names the capture.
pub const CAPTURE_HEADER: &str = "weir-capture";

/// The content type of a capture.
const PCAPNG: &str = "application/octet-stream";

/// The answer to a trace: blanks, and then the packet or null.
pub struct TraceAnswer(Response);

impl IntoResponse for TraceAnswer {
    fn into_response(self) -> Response {
        self.0
    }
}

impl HandlerOutput for TraceAnswer {
    fn describe(operation: &mut Operation<'_>) {
        Json::<Option<Packet>>::describe(operation);
    }
}

/// The answer to a capture: a pcapng file that ends with it.
pub struct CaptureAnswer(Response);

impl IntoResponse for CaptureAnswer {
    fn into_response(self) -> Response {
        self.0
    }
}

impl HandlerOutput for CaptureAnswer {
    fn describe(operation: &mut Operation<'_>) {
        operation.answer(PCAPNG, serde_json::json!({}));
        operation.header(
            CAPTURE_HEADER,
            "The number by which the capture is ended.",
            serde_json::json!({ "type": "integer" }),
        );
    }
}

/// A port as traces and captures name it.
#[derive(Clone, Debug)]
pub struct ObservedPort {
    pub id: PortId,
    pub name: String,
    pub dev: String,
    pub mtu_bytes: u32,
}

/// The ports that there are now.
struct Names(Vec<ObservedPort>);

impl Names {
    fn of(service: &dyn Service) -> Self {
        Self(service.observed_ports())
    }

    fn find(&self, name: &str) -> Result<PortId, Refusal> {
        let found = self.0.iter().find(|port| port.name == name).map(|port| port.id);
        let names = || self.0.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ");
        found.ok_or_else(|| refuse(format!("there is no port {name}; the ports are {}", names())))
    }

    fn get(&self, id: PortId) -> Option<&ObservedPort> {
        self.0.iter().find(|port| port.id == id)
    }

    fn name(&self, id: PortId) -> String {
        self.get(id).map_or_else(|| format!("port {id}"), |port| port.name.clone())
    }
}

fn filter(text: &str) -> Result<Filter, Refusal> {
    text.parse().map_err(refuse)
}

pub(super) fn seconds(key: &str, seconds: f64, max: f64) -> Result<Duration, Refusal> {
    let sane = (0.0..=max).contains(&seconds).then(|| Duration::from_secs_f64(seconds));
    sane.ok_or_else(|| refuse(format!("{key} = {seconds}: 0 to {max}")))
}

/// The next packet that matches, or null when none came in time. Until then blanks are sent, so
/// that a client that has gone is noticed, and its place given on.
pub async fn trace(State(service): State<AnySwitch>, Body(query): Body<TraceQuery>) -> Result<TraceAnswer, Refusal> {
    let names = Names::of(&*service);
    let port = query.port.as_deref().map(|name| names.find(name)).transpose()?;
    let end = Instant::now() + seconds("timeout_seconds", query.timeout_seconds, LONGEST_TRACE)?;
    let opened = service.observers().trace(TraceOnce::new(filter(&query.filter)?, port)).map_err(refuse)?;
    let (chunks, body) = mpsc::channel(1);
    tokio::spawn(async move {
        let found = tokio::select! {
            () = chunks.closed() => return,
            found = wait(&opened.observer, end, &chunks) => found,
        };
        let names = Names::of(&*service);
        let packet = found.map(|trace| Packet::new(&trace, &|id| names.name(id)));
        let document = serde_json::to_vec(&packet).unwrap_or_default();
        // The client may be gone by now.
        let _ = chunks.send(document.into()).await;
    });
    let response = Response::builder().header(CONTENT_TYPE, "application/json");
    response.body(axum::body::Body::new(Chunks(body))).map(TraceAnswer).map_err(refuse)
}

/// The packet of a trace; `None` when none came before `end`. A blank now and then finds out
/// whether the client is still there.
async fn wait(observer: &TraceOnce, end: Instant, chunks: &mpsc::Sender<Bytes>) -> Option<PacketTrace> {
    let mut told = Instant::now();
    loop {
        let over = Instant::now() >= end;
        if let Some(trace) = observer.told() {
            return Some(trace);
        }
        if over {
            return None;
        }
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            // A client that does not read has one waiting.
            let _ = chunks.try_send(Bytes::from_static(b" "));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A stream of pcapng.
pub async fn capture(
    State(service): State<AnySwitch>,
    Body(query): Body<CaptureQuery>,
) -> Result<CaptureAnswer, Refusal> {
    let names = Names::of(&*service);
    let ports = query.ports.iter().map(|name| names.find(name)).collect::<Result<_, _>>()?;
    let mtu = names.0.iter().map(|port| port.mtu_bytes).max().unwrap_or(0);
    let snaplen = query.snaplen_bytes.unwrap_or((mtu + FABRIC_L2_OVERHEAD).max(64));
    if !SNAPLEN.contains(&snaplen) {
        let (min, max) = SNAPLEN.into_inner();
        return Err(refuse(format!("snaplen_bytes = {snaplen}: {min} to {max}")));
    }
    let options = CaptureOptions {
        filter: filter(&query.filter)?,
        ports,
        rx: query.rx,
        tx: query.tx,
        drops: query.drops,
        snaplen: snaplen as usize,
    };
    let end = query.duration_seconds.map(|length| seconds("duration_seconds", length, LONGEST_CAPTURE)).transpose()?;
    let opened = service.observers().capture(options).map_err(refuse)?;
    let (chunks, body) = mpsc::channel(CHUNKS);
    let id = opened.observer.id();
    let left = query.count.unwrap_or(u64::MAX);
    let (stream, told) = (PcapNgStream::new(TIMES), Instant::now());
    let mut pump = Pump { service, opened, stream, interfaces: Vec::new(), chunks, left, snaplen, told };
    for port in &names.0 {
        pump.describe(port.id, Some(port));
    }
    tokio::spawn(pump.run(end.map(|length| Instant::now() + length)));
    let response = Response::builder().header(CAPTURE_HEADER, id).header(CONTENT_TYPE, PCAPNG);
    response.body(axum::body::Body::new(Chunks(body))).map(CaptureAnswer).map_err(refuse)
}

/// Ends a capture: what it has is still sent, and then the stream ends.
pub async fn end_capture(State(service): State<AnySwitch>, InPath(id): InPath<u64>) -> Answer<u64> {
    let ended = service.observers().end_capture(id);
    ended.then_some(Json(id)).ok_or_else(|| refuse(format!("there is no capture {id}")))
}

/// Carries a capture's packets from its ring to the client. When the client is slow this waits, the
/// ring fills, and what finds it full is counted.
struct Pump {
    service: AnySwitch,
    opened: Opened<Capture>,
    stream: PcapNgStream,
    /// The port of each interface of the stream.
    interfaces: Vec<PortId>,
    chunks: mpsc::Sender<Bytes>,
    left: u64,
    snaplen: u32,
    told: Instant,
}

/// The client has gone.
struct Gone;

impl Pump {
    async fn run(mut self, end: Option<Instant>) {
        // An error means that the client has gone; the capture is closed with `self`.
        let _ = self.pump(end).await;
    }

    async fn pump(&mut self, end: Option<Instant>) -> Result<(), Gone> {
        loop {
            if self.left == 0 || end.is_some_and(|end| Instant::now() >= end) {
                self.opened.observer.end();
            }
            let ending = self.opened.observer.has_ended();
            let more = self.fill();
            if self.told.elapsed() >= TELL_EVERY {
                self.tell();
            }
            self.send().await?;
            if ending && !more {
                break;
            }
            if !more {
                tokio::select! {
                    () = self.chunks.closed() => return Err(Gone),
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                }
            }
        }
        self.tell();
        self.send().await
    }

    /// Takes packets out of the ring, a chunk at most. Whether there may be more.
    fn fill(&mut self) -> bool {
        while self.left > 0 {
            if self.stream.len() >= CHUNK_BYTES {
                return true;
            }
            let Some(record) = self.opened.observer.take() else { return false };
            self.write(&record);
            self.opened.observer.give_back(record);
            self.left -= 1;
        }
        false
    }

    fn write(&mut self, record: &CapturedPacket) {
        let known = self.interfaces.iter().position(|&port| port == record.port).map(|at| at as u32);
        let interface = known.unwrap_or_else(|| {
            // A port that was added since.
            let names = Names::of(&*self.service);
            self.describe(record.port, names.get(record.port))
        });
        let (flags, comment) = match record.direction {
            Direction::Rx => (INBOUND, None),
            Direction::Tx => (OUTBOUND, None),
            Direction::Dropped(reason) => {
                let out = matches!(reason, DropReason::TxFull | DropReason::TxRefused);
                (if out { OUTBOUND } else { INBOUND }, Some(format!("dropped: {}", reason.name())))
            }
        };
        let (at, wire) = (record.at_ns, record.wire_bytes);
        self.stream.packet(interface, at, wire, &record.bytes, flags, comment.as_deref());
    }

    /// Adds an interface for a port, and gives its number.
    fn describe(&mut self, id: PortId, port: Option<&ObservedPort>) -> u32 {
        self.interfaces.push(id);
        match port {
            Some(port) => self.stream.interface(&port.name, &port.dev, self.snaplen),
            None => self.stream.interface(&format!("port {id}"), "", self.snaplen),
        }
    }

    /// Each interface's losses so far.
    fn tell(&mut self) {
        self.told = Instant::now();
        let now = crate::telemetry::epoch::wall_clock();
        for (interface, &port) in (0..).zip(&self.interfaces) {
            let missed = self.opened.observer.missed(port);
            self.stream.statistics(interface, now, missed);
        }
    }

    async fn send(&mut self) -> Result<(), Gone> {
        if self.stream.is_empty() {
            return Ok(());
        }
        self.chunks.send(self.stream.take().into()).await.map_err(|_| Gone)
    }
}

/// A body that is sent as its chunks come.
struct Chunks(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}
