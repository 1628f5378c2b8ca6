//! What a collector is sent, and collectors that are away, slow or hostile.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{LogsService, LogsServiceServer};
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::logs::v1::SeverityNumber;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status};
use tracing_subscriber::layer::SubscriberExt;

use super::epochs::EpochRecords;
use super::metrics::Starts;
use super::records::{ROOM, record};
use super::thread::{Pause, Pusher};
use super::*;
use crate::answers::{
    Answers, Evidence, FlowName, Loss, LossPlace, Losses, LossesFound, ProgramAnswer, Query, Queryable, Task,
};
use crate::api::exported::OtlpCounters;
use crate::api::metrics::{Exports, Format, PlacesAnswer, text};
use crate::api::view;
use crate::config::{Config, OtlpConfig};
use crate::history::{AnyHistory, Entry, Epochs, Gap, History, Kept, Reasons, Room, SwitchGap};
use crate::lock::Hold;
use crate::program::ProgramConfig;
use crate::wire::Flow;

/// What a stub collector does with a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Behaviour {
    Takes,
    RefusesSome,
    Fails(Code),
    NeverAnswers,
    /// An answer of a megabyte.
    Rambles,
}

struct Inner {
    behaviour: Mutex<Behaviour>,
    metrics: Mutex<Vec<ExportMetricsServiceRequest>>,
    logs: Mutex<Vec<ExportLogsServiceRequest>>,
    authorization: Mutex<Option<String>>,
}

/// A collector with the services of OTLP.
#[derive(Clone)]
struct Stub(Arc<Inner>);

impl Stub {
    /// Serves at a free port.
    async fn start(tls: Option<Arc<ServerConfig>>) -> (Self, SocketAddr) {
        let stub = Self(Arc::new(Inner {
            behaviour: Mutex::new(Behaviour::Takes),
            metrics: Mutex::default(),
            logs: Mutex::default(),
            authorization: Mutex::default(),
        }));
        let routes = Routes::new(MetricsServiceServer::new(stub.clone()));
        let router = routes.add_service(LogsServiceServer::new(stub.clone())).into_axum_router();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (router, tls) = (TowerToHyperService::new(router.clone()), tls.clone());
                tokio::spawn(async move {
                    let server = http2::Builder::new(TokioExecutor::new());
                    let _ = match tls {
                        None => server.serve_connection(TokioIo::new(stream), router).await,
                        Some(config) => {
                            let Ok(stream) = TlsAcceptor::from(config).accept(stream).await else { return };
                            server.serve_connection(TokioIo::new(stream), router).await
                        }
                    };
                });
            }
        });
        (stub, address)
    }

    fn becomes(&self, behaviour: Behaviour) {
        *self.0.behaviour.hold() = behaviour;
    }

    /// What is answered: the number of refused items and why.
    async fn answer(&self, metadata: &tonic::metadata::MetadataMap) -> Result<(i64, String), Status> {
        let authorization = metadata.get("authorization").and_then(|value| value.to_str().ok());
        *self.0.authorization.hold() = authorization.map(str::to_owned);
        let behaviour = *self.0.behaviour.hold();
        match behaviour {
            Behaviour::Takes => Ok((0, String::new())),
            Behaviour::RefusesSome => Ok((1, "no room\nfor this one".into())),
            Behaviour::Fails(code) => Err(Status::new(code, "not now")),
            Behaviour::NeverAnswers => std::future::pending().await,
            Behaviour::Rambles => Ok((0, "x".repeat(1 << 20))),
        }
    }
}

#[tonic::async_trait]
impl MetricsService for Stub {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let (rejected_data_points, error_message) = self.answer(request.metadata()).await?;
        self.0.metrics.hold().push(request.into_inner());
        let partial_success = Some(ExportMetricsPartialSuccess { rejected_data_points, error_message });
        Ok(Response::new(ExportMetricsServiceResponse { partial_success }))
    }
}

#[tonic::async_trait]
impl LogsService for Stub {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        let (rejected_log_records, error_message) = self.answer(request.metadata()).await?;
        self.0.logs.hold().push(request.into_inner());
        let partial_success = Some(ExportLogsPartialSuccess { rejected_log_records, error_message });
        Ok(Response::new(ExportLogsServiceResponse { partial_success }))
    }
}

const TEXT: &str = "# HELP weir_start_time_seconds When it started.\n# TYPE weir_start_time_seconds gauge\n\
    weir_start_time_seconds 100.0\n# HELP weir_lost_packets Lost.\n# TYPE weir_lost_packets counter\n\
    weir_lost_packets_total{program=\"a\"} 3\n# EOF\n";

/// Sends this text and these records to a collector. No time passes between attempts.
fn pusher(text: &'static str, config: &str) -> (Pusher, Arc<LogQueue>, Arc<OtlpCounters>) {
    let config = Config::parse(&format!("[otlp]\n{config}\n")).unwrap().otlp;
    let queue = Arc::new(LogQueue::default());
    let source = Source {
        name: "edge1".into(),
        programs: Box::new(Vec::new),
        places: Box::new(Vec::new),
        metrics: Box::new(|| text.into()),
        queue: queue.clone(),
    };
    let counters = Arc::new(OtlpCounters::to(config.to.as_deref().unwrap()));
    let client = Client::new(&config).unwrap().unwrap();
    let mut pusher = Pusher::new(&config, client, source, counters.clone());
    pusher.pause = Pause::new(Duration::ZERO);
    (pusher, queue, counters)
}

fn to(address: SocketAddr) -> String {
    format!("to = 'http://{address}'")
}

/// The same for a collector that is not waited for long.
fn briefly_to(address: SocketAddr) -> String {
    format!("{}\ntimeout = '200ms'", to(address))
}

fn any_record(body: &str) -> LogRecord {
    record("test", SeverityNumber::Warn, None, body, Vec::new())
}

fn in_runtime(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

fn value(of: &Option<AnyValue>) -> String {
    match of.as_ref().and_then(|value| value.value.clone()) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(Value::ArrayValue(array)) => {
            array.values.into_iter().map(|one| value(&Some(one))).collect::<Vec<_>>().join(", ")
        }
        other => panic!("{other:?}"),
    }
}

fn words(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    attributes.iter().map(|KeyValue { key, value: of, .. }| (key.clone(), value(of))).collect()
}

/// The lines that a Prometheus would have of these metrics.
fn lines(metrics: &[Metric]) -> BTreeMap<String, f64> {
    let mut lines = BTreeMap::new();
    let mut add = |name: &str, attributes: &[KeyValue], le: Option<String>, value: f64| {
        let labels = words(attributes).into_iter().chain(le.map(|le| ("le".to_owned(), le)));
        let labels: Vec<_> = labels.map(|(key, value)| format!("{key}={value:?}")).collect();
        let series = if labels.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", labels.join(",")) };
        assert_eq!(lines.insert(series.clone(), value), None, "{series} twice");
    };
    let number = |point: &NumberDataPoint| match point.value {
        Some(Number::AsInt(value)) => value as f64,
        Some(Number::AsDouble(value)) => value,
        None => panic!("no value"),
    };
    for metric in metrics {
        match metric.data.as_ref().unwrap() {
            Data::Gauge(gauge) => {
                gauge.data_points.iter().for_each(|point| add(&metric.name, &point.attributes, None, number(point)));
            }
            Data::Sum(sum) => {
                assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
                sum.data_points.iter().for_each(|point| add(&metric.name, &point.attributes, None, number(point)));
            }
            Data::Histogram(histogram) => {
                assert_eq!(histogram.aggregation_temporality, 2);
                for point in &histogram.data_points {
                    let name = |suffix| format!("{}_{suffix}", metric.name);
                    add(&name("sum"), &point.attributes, None, point.sum.unwrap());
                    add(&name("count"), &point.attributes, None, point.count as f64);
                    let mut below = 0;
                    let bounds = point.explicit_bounds.iter().map(ToString::to_string).chain(["+Inf".into()]);
                    for (bound, count) in bounds.zip(&point.bucket_counts) {
                        below += count;
                        add(&name("bucket"), &point.attributes, Some(bound), below as f64);
                    }
                    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
                }
            }
            other => panic!("{other:?}"),
        }
    }
    lines
}

/// Whatever `/metrics` serves is sent, with the same names, labels and values.
#[test]
fn every_sample_is_a_data_point() {
    let histogram = "# HELP t Times.\n# TYPE t histogram\n\
        t_sum{switch=\"a\"} 1.5\nt_count{switch=\"a\"} 3\nt_bucket{le=\"0.5\",switch=\"a\"} 1\n\
        t_bucket{le=\"1.0\",switch=\"a\"} 1\nt_bucket{le=\"+Inf\",switch=\"a\"} 3\n\
        t_sum{switch=\"b\"} 0.0\nt_count{switch=\"b\"} 0\nt_bucket{le=\"0.5\",switch=\"b\"} 0\n\
        t_bucket{le=\"1.0\",switch=\"b\"} 0\nt_bucket{le=\"+Inf\",switch=\"b\"} 0\n";
    let batches = Starts::default().batches(histogram, 1);
    let [(metrics, 2)] = &batches[..] else { panic!("{batches:?}") };
    let expected = [
        ("t_sum{switch=\"a\"}", 1.5),
        ("t_count{switch=\"a\"}", 3.0),
        ("t_bucket{switch=\"a\",le=\"0.5\"}", 1.0),
        ("t_bucket{switch=\"a\",le=\"1\"}", 1.0),
        ("t_bucket{switch=\"a\",le=\"+Inf\"}", 3.0),
        ("t_sum{switch=\"b\"}", 0.0),
        ("t_count{switch=\"b\"}", 0.0),
        ("t_bucket{switch=\"b\",le=\"0.5\"}", 0.0),
        ("t_bucket{switch=\"b\",le=\"1\"}", 0.0),
        ("t_bucket{switch=\"b\",le=\"+Inf\"}", 0.0),
    ];
    assert_eq!(lines(metrics), expected.map(|(line, value)| (line.to_owned(), value)).into());

    let counts =
        view::Counts { rx_packets: u64::MAX, drops: [("rx_missed".to_owned(), 7)].into(), ..view::Counts::default() };
    let port = view::Port { name: "a".into(), counts, ..view::Port::default() };
    let totals = view::Ports { ports: vec![port], ..view::Ports::default() };
    let status = view::Status { name: "w\"\\\n".into(), totals, ..view::Status::default() };
    let exports = Exports { ipfix: Some(view::Exported::default()), otlp: Some(view::Otlp::default()) };
    let text = text(&status, Vec::new(), exports, Format::Openmetrics);
    let batches = Starts::default().batches(&text, 1);
    let [(metrics, points)] = &batches[..] else { panic!("{} batches", batches.len()) };
    let found = lines(metrics);
    let mut samples = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        // Labels are in another order where there are several.
        let matches = |other: &String| series == other || series.split('{').next() == other.split('{').next();
        let found = found.iter().find(|(other, _)| *other == series).or(found.iter().find(|(other, _)| matches(other)));
        assert_eq!(found.map(|(_, value)| *value), value.parse().ok(), "{line}");
        samples += 1;
    }
    assert_eq!((found.len(), *points), (samples, samples as u64));
    assert!(found.keys().any(|line| line.contains(r#"switch="w\"\\\n""#)), "labels are escaped and come back");
    let metric = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap();
    assert_eq!(metric("weir_port_receive_bytes_total").unit, "By");
    assert_eq!(metric("weir_start_time_seconds").unit, "s");
    assert!(metric("weir_drops_total").description.starts_with("Packets that came in"));
}

/// Totals count since the start of the process; those that appear later, or begin again at 0, since the time before.
#[test]
fn totals_say_since_when_they_count() {
    let mut starts = Starts::default();
    let mut start = |text: &str, now: u64| -> Vec<u64> {
        let batches = starts.batches(text, now);
        let metrics = batches.iter().flat_map(|(metrics, _)| metrics);
        let sums = metrics.filter_map(|metric| match &metric.data {
            Some(Data::Sum(sum)) => Some(&sum.data_points),
            _ => None,
        });
        sums.flatten().map(|point| point.start_time_unix_nano).collect()
    };
    const SECOND: u64 = 1_000_000_000;
    assert_eq!(start(TEXT, 110 * SECOND), [100 * SECOND]);
    let more = TEXT.replace("# EOF", "weir_lost_packets_total{program=\"b\"} 1\n# EOF");
    assert_eq!(start(&more, 120 * SECOND), [100 * SECOND, 110 * SECOND]);
    let less = more.replace("\"a\"} 3", "\"a\"} 2");
    assert_eq!(start(&less, 130 * SECOND), [120 * SECOND, 110 * SECOND]);
    assert_eq!(start(&less, 140 * SECOND), [120 * SECOND, 110 * SECOND]);
}

/// A request is small enough for servers' limits, however many series there are.
#[test]
fn requests_are_bounded() {
    let mut text = String::from("# HELP a A.\n# TYPE a gauge\n");
    (0..4500).for_each(|i| text.push_str(&format!("a{{i=\"{i}\"}} 1\n")));
    text.push_str("# HELP b B.\n# TYPE b gauge\nb 1\n");
    let batches = Starts::default().batches(&text, 1);
    assert_eq!(batches.iter().map(|(_, points)| *points).collect::<Vec<_>>(), [2000, 2000, 501]);
    assert_eq!(lines(&batches.into_iter().flat_map(|(metrics, _)| metrics).collect::<Vec<_>>()).len(), 4501);
}

/// Metrics and log records come with the resource, the headers and what they are about.
#[test]
fn a_collector_has_metrics_and_log_records() {
    in_runtime(async {
        let (stub, address) = Stub::start(None).await;
        let config = format!(
            "{}\nheaders = {{ authorization = 'Bearer x' }}\nresource = {{ place = 'lab', 'service.version' = '7' }}",
            to(address)
        );
        let (mut pusher, queue, counters) = pusher(TEXT, &config);
        queue.push(any_record("first"));
        pusher.round().await;
        queue.push(any_record("second"));
        pusher.round().await;
        let metrics = stub.0.metrics.hold().clone();
        let [request] = &metrics[..] else { panic!("metrics once, as they are due once: {metrics:?}") };
        let resource = request.resource_metrics[0].resource.as_ref().unwrap();
        let expected =
            [("place", "lab"), ("service.instance.id", "edge1"), ("service.name", "weir"), ("service.version", "7")];
        assert_eq!(words(&resource.attributes), expected.map(|(key, value)| (key.into(), value.into())).into());
        let sent = lines(&request.resource_metrics[0].scope_metrics[0].metrics);
        assert_eq!(sent["weir_lost_packets_total{program=\"a\"}"], 3.0);
        let bodies = |request: &ExportLogsServiceRequest| {
            let records = &request.resource_logs[0].scope_logs[0].log_records;
            records.iter().map(|record| value(&record.body)).collect::<Vec<_>>()
        };
        assert_eq!(stub.0.logs.hold().iter().flat_map(bodies).collect::<Vec<_>>(), ["first", "second"]);
        assert_eq!(stub.0.authorization.hold().as_deref(), Some("Bearer x"));
        let view::Otlp { metric_requests, data_points, log_requests, log_records, .. } = counters.view();
        assert_eq!((metric_requests, data_points, log_requests, log_records), (1, 2, 2, 2));
        assert_eq!((counters.view().last_error, counters.view().failed_requests), (None, 0));
    });
}

/// What a collector refuses is counted, and not sent again; a request that it may take later is, and the records of
/// it come once.
#[test]
fn what_is_not_taken_is_counted() {
    in_runtime(async {
        let (stub, address) = Stub::start(None).await;
        let (mut pusher, queue, counters) = pusher(TEXT, &to(address));
        stub.becomes(Behaviour::RefusesSome);
        (0..3).for_each(|_| queue.push(any_record("x")));
        pusher.round().await;
        let seen = counters.view();
        assert_eq!((seen.data_points, seen.rejected_data_points), (1, 1));
        assert_eq!((seen.log_records, seen.rejected_log_records, seen.queued_log_records), (2, 1, 0));
        assert_eq!(seen.last_error.as_deref(), Some("no room for this one"));

        stub.becomes(Behaviour::Fails(Code::PermissionDenied));
        queue.push(any_record("never"));
        pusher.round().await;
        let seen = counters.view();
        assert_eq!((seen.log_records, seen.rejected_log_records, seen.failed_requests), (2, 2, 0));
        assert!(seen.last_error.unwrap().ends_with("not now"));

        stub.becomes(Behaviour::Fails(Code::Unavailable));
        queue.push(any_record("later"));
        for failures in 1..=3 {
            pusher.round().await;
            let seen = counters.view();
            assert_eq!((seen.failed_requests, seen.queued_log_records, seen.log_records), (failures, 1, 2));
        }
        stub.becomes(Behaviour::Takes);
        stub.0.logs.hold().clear();
        pusher.round().await;
        pusher.round().await;
        assert_eq!((counters.view().log_records, counters.view().queued_log_records), (3, 0));
        assert_eq!(stub.0.logs.hold().len(), 1);
    });
}

/// A collector that is away, never answers or answers too much holds nothing up for longer than the timeout, and what
/// waits for it is bounded.
#[test]
fn a_hostile_collector_costs_a_bounded_amount() {
    in_runtime(async {
        // Connections are taken by the system, and nobody reads them.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (stub, address) = Stub::start(None).await;
        for (behaviour, address, why) in [
            (Behaviour::Takes, gone, "onnection refused"),
            (Behaviour::Takes, silent.local_addr().unwrap(), "no answer within 200ms"),
            (Behaviour::NeverAnswers, address, "no answer within 200ms"),
            (Behaviour::Rambles, address, ""),
        ] {
            stub.becomes(behaviour);
            let (mut pusher, queue, counters) = pusher(TEXT, &briefly_to(address));
            (0..ROOM + 5).for_each(|_| queue.push(any_record("x")));
            let started = Instant::now();
            pusher.round().await;
            assert!(started.elapsed() < Duration::from_secs(2), "{behaviour:?} {:?}", started.elapsed());
            let seen = counters.view();
            assert!(seen.failed_requests > 0 && seen.log_records == 0, "{behaviour:?}: {seen:?}");
            assert_eq!((seen.queued_log_records, seen.dropped_log_records), (ROOM as u64, 5));
            let error = seen.last_error.unwrap();
            assert!(error.contains(why) && error.len() < 1000, "{behaviour:?}: {error}");
        }
        let (stub, address) = Stub::start(None).await;
        let (mut pusher, queue, counters) = pusher(TEXT, &to(address));
        (0..ROOM).for_each(|_| queue.push(any_record("x")));
        pusher.round().await;
        assert_eq!((counters.view().log_records, counters.view().log_requests), (ROOM as u64, 4));
        assert_eq!(stub.0.logs.hold().len(), 4);
    });
}

/// After a failure nothing is sent for a while that grows with each failure.
#[test]
fn pauses_grow_and_end() {
    in_runtime(async {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (mut pusher, _, counters) = pusher(TEXT, &to(gone));
        pusher.pause = Pause::new(Duration::from_secs(60));
        pusher.round().await;
        pusher.round().await;
        assert_eq!(counters.view().failed_requests, 1);
    });
}

/// The thread ends soon, and sends what there is by then.
#[test]
fn the_end_sends_what_there_is() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (stub, address) = runtime.block_on(Stub::start(None));
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let server = std::thread::spawn(move || runtime.block_on(ended));
    let config = Config::parse(&format!("[otlp]\n{}", to(address))).unwrap().otlp;
    let queue = Arc::new(LogQueue::default());
    let source = Source {
        name: "edge1".into(),
        programs: Box::new(Vec::new),
        places: Box::new(Vec::new),
        metrics: Box::new(|| TEXT.into()),
        queue: queue.clone(),
    };
    let counters = Arc::new(OtlpCounters::to("c"));
    let client = Client::new(&config).unwrap().unwrap();
    let thread = OtlpThread::start(&config, client, source, counters.clone()).unwrap();
    while counters.view().metric_requests == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    queue.push(any_record("last"));
    drop(thread);
    assert_eq!((counters.view().log_records, counters.view().metric_requests), (1, 2));
    assert_eq!(stub.0.logs.hold().len(), 1);
    drop(end);
    let _ = server.join().unwrap();
}

/// With https:// the collector's certificate is checked.
#[test]
fn tls_needs_a_certificate_of_the_ca() {
    let files = tempfile::tempdir().unwrap();
    let make = |name: &str| {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["127.0.0.1".into()]).unwrap().self_signed(&key).unwrap();
        std::fs::write(files.path().join(name), certificate.pem()).unwrap();
        (CertificateDer::from(certificate.der().to_vec()), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    };
    let (certificate, key) = make("ca.pem");
    make("other.pem");
    let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let server = server.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut server = server.with_single_cert(vec![certificate], key).unwrap();
    server.alpn_protocols = vec![b"h2".to_vec()];
    in_runtime(async {
        let (_stub, address) = Stub::start(Some(Arc::new(server))).await;
        for (ca, failed) in [("ca.pem", 0), ("other.pem", 1)] {
            let ca = files.path().join(ca);
            let config = format!("to = 'https://{address}'\nca = '{}'", ca.display());
            let (mut pusher, _, counters) = pusher(TEXT, &config);
            pusher.round().await;
            assert_eq!(counters.view().failed_requests, failed, "{:?}", counters.view());
        }
    });
    let config = OtlpConfig { ca: Some("/nowhere".into()), to: Some("https://c:1".into()), ..OtlpConfig::default() };
    let error = Client::new(&config).err().unwrap().to_string();
    assert!(error.starts_with("otlp.ca = /nowhere: No such file"), "{error}");
}

/// What weir logs is a log record, with the fields as attributes; what libraries log is not.
#[test]
fn what_weir_logs_is_a_log_record() {
    static QUEUE: OnceLock<Arc<LogQueue>> = OnceLock::new();
    let subscriber = tracing_subscriber::registry().with(EventLayer::for_queue(&QUEUE));
    tracing::subscriber::with_default(subscriber, || {
        tracing::warn!(target: "weir", "nobody wants it yet");
        let queue = QUEUE.get_or_init(Arc::default);
        tracing::warn!(target: "weir", event = "link_down", port = "a", changes = 3_u64, up = false, "link {}", "down");
        tracing::info!(target: "h2", "frame");
        tracing::error!(target: "weir::live", error = %io::Error::other("x"), "{}", "é".repeat(2000));
        let [link, long] = &queue.take(9)[..] else { panic!("two records") };
        assert_eq!((link.severity_number, &*link.severity_text, &*link.event_name), (13, "WARN", "link_down"));
        assert_eq!(value(&link.body), "link down");
        let expected = [("changes", "3"), ("event", "link_down"), ("port", "a"), ("up", "false")];
        assert_eq!(words(&link.attributes), expected.map(|(key, value)| (key.into(), value.into())).into());
        assert!(link.time_unix_nano > 0 && link.time_unix_nano == link.observed_time_unix_nano);
        assert_eq!((long.severity_number, value(&long.body).chars().count()), (17, 513), "text is bounded");
        assert_eq!(words(&long.attributes)["error"], "x");
    });
}

/// The losses of an epoch; `None` where they are not known.
struct Showed(Option<LossesFound>);

impl Kept for Showed {
    fn bytes(&self) -> usize {
        0
    }
}

impl Answers for Showed {
    fn answer(epochs: &Epochs<Self>, query: &Query) -> Option<ProgramAnswer> {
        let losses = |query| Losses::over(epochs, query, |entry| (entry.showed.0.as_ref(), Reasons::default()));
        (query.task == Task::Losses).then(|| losses(query))
    }
}

/// Losses, gaps and epochs that are missing are records, once, when they are final; several epochs of a look are one
/// record, and a gap that lasts is one a minute.
#[test]
fn final_epochs_are_log_records() {
    let history = History::<Showed>::new(Room { epochs: 50, bytes: usize::MAX });
    history.set_length(1_000_000_000);
    let program = ProgramConfig::defaults().find(|program| program.rank(Task::Losses).is_some()).unwrap().clone();
    let name = program.name();
    let queryable: Arc<dyn Queryable> = Arc::new(history.clone());
    let programs = [(program.clone(), queryable)];
    let push = |epoch: u64, lost: u64, gap: Option<Gap>, is_final: bool| {
        let flow = |port, lost| Loss { flow: FlowName::Flow(Flow::from_port(port)), lost, gained: 0, exact: true };
        let flows = if lost > 0 { vec![flow(1, lost - 1), flow(2, 1)] } else { Vec::new() };
        let showed = Showed(Some(LossesFound { flows, lost_packets: lost, gained_packets: 0 }));
        let mut entry = Entry { switches: vec!["s1".into()], ..Entry::new(epoch, showed) };
        entry.gaps.extend(gap.map(|gap| SwitchGap { switch: "s2".into(), gap }));
        entry.finality.is_final = is_final;
        history.push(entry);
    };
    let (mut records, queue, start) = (EpochRecords::new(1), LogQueue::default(), Instant::now());
    let mut look = |seconds: u64| {
        records.look(&programs, start + Duration::from_secs(seconds), &queue);
        queue.take(99).iter().map(|record| (value(&record.body), words(&record.attributes))).collect::<Vec<_>>()
    };
    push(1, 0, None, true);
    assert_eq!(look(0), []);
    push(2, 5, None, true);
    push(3, 4, None, true);
    push(4, 9, None, false);
    let found = look(1);
    assert_eq!(found[0].0, format!("{name}: 9 packets of 2 flows were lost in epochs 2 to 3"));
    let expected = [
        ("complete", "true"),
        ("epoch", "3"),
        ("event", "losses"),
        ("first_epoch", "2"),
        ("flows", "2"),
        ("lost_packets", "9"),
        ("program", name),
        ("unknown_epochs", "0"),
    ];
    assert_eq!(found[0].1, expected.map(|(key, value)| (key.into(), value.into())).into());
    let [(body, attributes)] = &found[1..] else { panic!("the flow that lost most, and no other: {found:?}") };
    assert!(body.ends_with("lost 7 packets in epochs 2 to 3"), "{body}");
    assert_eq!((&*attributes["lost_packets"], &*attributes["event"]), ("7", "flow_losses"));
    assert_eq!(look(2), [], "once");
    history.finalise(4, &[SwitchGap { switch: "s1".into(), gap: Gap::Missing }], &|_| true);
    let found = look(3);
    assert_eq!(found[0].0, format!("{name}: 1 incomplete epoch up to epoch 4: s1: no record came in time"));
    assert_eq!(found[0].1["gaps"], "s1: missing");
    assert_eq!((found[1].1["lost_packets"].as_str(), found[1].1["complete"].as_str()), ("9", "false"));
    for epoch in 5..8 {
        push(epoch, 0, Some(Gap::Missing), true);
    }
    assert_eq!(look(4).len(), 1, "of another switch");
    for epoch in 8..11 {
        push(epoch, 0, Some(Gap::Missing), true);
    }
    assert_eq!(look(5), [], "the same gap");
    push(11, 0, Some(Gap::Missing), true);
    assert_eq!(look(70)[0].1["incomplete_epochs"], "4");
    push(15, 0, None, true);
    let found = look(71);
    assert_eq!((found.len(), found[0].1["missing_epochs"].as_str()), (1, "3"));
}

/// A place that lost packets is a record with its name, its ends and how that is known, once for each answer; as many
/// places as flows.
#[test]
fn places_of_losses_are_log_records() {
    let link = LossPlace {
        kind: "link".into(),
        switch: "s0".into(),
        port: Some("up".into()),
        to_switch: Some("s1".into()),
        to_port: Some("down".into()),
        failed: true,
        exact: true,
        confidence: 1.0,
        lost_packets: 5,
        least_packets: 5,
        most_packets: Some(5),
        ..LossPlace::default()
    };
    let switch = LossPlace { kind: "switch".into(), switch: "s2".into(), lost_packets: 1, ..LossPlace::default() };
    let switch = LossPlace { evidence: Evidence::Inferred, confidence: 0.25, ..switch };
    let places = vec![link, switch, LossPlace::default()];
    let answer = PlacesAnswer { first_epoch: 3, last_epoch: 4, end_ns: 9, places, ..PlacesAnswer::default() };
    let answer = Arc::new(answer);
    let (mut records, queue) = (EpochRecords::new(2), LogQueue::default());
    let mut say = |answer: &Arc<PlacesAnswer>| {
        records.places(vec![("one".into(), answer.clone())], &queue);
        queue.take(9)
    };
    let [link, switch] = &say(&answer)[..] else { panic!("two records") };
    assert_eq!(value(&link.body), "s0:up → s1:down: 5 packets lost in epochs 3 to 4, counted, failed");
    assert_eq!((link.time_unix_nano, &*link.severity_text, &*link.event_name), (9, "WARN", "place_losses"));
    let expected = [
        ("confidence", "1"),
        ("epoch", "4"),
        ("event", "place_losses"),
        ("evidence", "counted"),
        ("failed", "true"),
        ("first_epoch", "3"),
        ("kind", "link"),
        ("least_packets", "5"),
        ("lost_packets", "5"),
        ("most_packets", "5"),
        ("place", "s0:up → s1:down"),
        ("port", "up"),
        ("program", "one"),
        ("switch", "s0"),
        ("to_port", "down"),
        ("to_switch", "s1"),
    ];
    assert_eq!(words(&link.attributes), expected.map(|(key, value)| (key.into(), value.into())).into());
    assert_eq!(value(&switch.body), "in s2: about 1 packet lost in epochs 3 to 4, inferred");
    let absent = ["port", "to_switch", "to_port", "most_packets"];
    assert!(absent.iter().all(|key| !words(&switch.attributes).contains_key(*key)));
    assert_eq!(say(&answer), [], "once");
    assert_eq!(say(&Arc::new(PlacesAnswer::clone(&answer))).len(), 2, "of another answer");
}
