//! The thread that sends metrics and log records.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::{Metric, ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::client::{Client, Failed, Taken};
use super::epochs::EpochRecords;
use super::metrics::Starts;
use super::records::{LogQueue, attribute};
use crate::api::exported::OtlpCounters;
use crate::api::metrics::PlacesAnswer;
use crate::archive;
use crate::config::OtlpConfig;
use crate::telemetry::epoch::wall_clock;

/// How often it is looked for epochs whose answers are final, and log records are sent.
const EVERY: Duration = Duration::from_secs(1);
/// How long the end of the process waits for the last requests.
const LAST: Duration = Duration::from_secs(2);
/// Pauses after failures: the first one, which doubles with each, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often failures are logged.
const LOGGED: Duration = Duration::from_secs(60);
/// Log records of a request at most.
const REQUEST_RECORDS: usize = 512;
/// The name and version of the program.
const PROGRAM: [&str; 2] = ["weir", env!("CARGO_PKG_VERSION")];

/// Where metrics and log records come from.
pub struct Source {
    /// The name of the switch or controller.
    pub name: String,
    /// The programs and their histories, as they are now.
    pub programs: archive::Source,
    /// The newest answers about places of losses, with the names of the programs.
    pub places: Box<dyn Fn() -> Vec<(String, Arc<PlacesAnswer>)> + Send>,
    /// All metrics, as OpenMetrics text.
    pub metrics: Box<dyn Fn() -> String + Send>,
    /// Log records that wait.
    pub queue: Arc<LogQueue>,
}

/// Sends until it is dropped. Then it sends what there is by then.
pub struct OtlpThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl OtlpThread {
    /// Starts to send by this client.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(config: &OtlpConfig, client: Client, source: Source, counters: Arc<OtlpCounters>) -> io::Result<Self> {
        let mut pusher = Pusher::new(config, client, source, counters);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("weir-otlp".into()).spawn(move || {
            runtime.block_on(pusher.run(stopped));
            // A name that is still being looked up is not waited for.
            runtime.shutdown_background();
        });
        Ok(Self { stop: Some(stop), thread: Some(thread?) })
    }
}

impl Drop for OtlpThread {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends what a switch or a controller counts and logs.
pub struct Pusher {
    client: Client,
    source: Source,
    counters: Arc<OtlpCounters>,
    resource: Resource,
    every: Duration,
    epochs: EpochRecords,
    starts: Starts,
    /// Taken from the queue, and not sent yet.
    records: Vec<LogRecord>,
    /// When metrics are due.
    due: Instant,
    pub pause: Pause,
    failure: Said,
    rejection: Said,
}

/// The time after a failure in which nothing is sent.
pub struct Pause {
    first: Duration,
    failures: u32,
    until: Option<Instant>,
}

impl Pause {
    pub fn new(first: Duration) -> Self {
        Self { first, failures: 0, until: None }
    }

    fn is_over(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now >= until)
    }

    /// Begins after a failure. A random half of it spreads the requests of many senders.
    fn begin(&mut self, now: Instant) {
        let whole = self.first.saturating_mul(1 << self.failures.min(16)).min(LONGEST_PAUSE);
        let random = getrandom::u32().map_or(0.5, |random| f64::from(random) / f64::from(u32::MAX));
        self.until = Some(now + whole.mul_f64(0.5 + random / 2.0));
        self.failures = self.failures.saturating_add(1);
    }

    fn end(&mut self) {
        (self.failures, self.until) = (0, None);
    }
}

/// Logs a kind of failures from time to time.
#[derive(Default)]
struct Said {
    at: Option<Instant>,
    /// Said, and not over yet.
    lasts: bool,
}

impl Said {
    /// Whether a failure is to be logged now.
    fn begins(&mut self, now: Instant) -> bool {
        if self.lasts || self.at.is_some_and(|at| now.duration_since(at) < LOGGED) {
            return false;
        }
        (self.at, self.lasts) = (Some(now), true);
        true
    }

    /// Whether its end is.
    fn ends(&mut self) -> bool {
        std::mem::take(&mut self.lasts)
    }
}

impl Pusher {
    pub fn new(config: &OtlpConfig, client: Client, source: Source, counters: Arc<OtlpCounters>) -> Self {
        let [name, version] = PROGRAM;
        let own = [("service.name", name), ("service.version", version), ("service.instance.id", &source.name)];
        let own = own.into_iter().filter(|(key, _)| !config.resource.contains_key(*key));
        let configured = config.resource.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let attributes = own.chain(configured).map(|(key, value)| attribute(key, value)).collect();
        Self {
            client,
            resource: Resource { attributes, ..Resource::default() },
            source,
            counters,
            every: config.every.0,
            epochs: EpochRecords::new(config.flows),
            starts: Starts::default(),
            records: Vec::new(),
            due: Instant::now(),
            pause: Pause::new(FIRST_PAUSE),
            failure: Said::default(),
            rejection: Said::default(),
        }
    }

    async fn run(&mut self, mut stopped: oneshot::Receiver<()>) {
        let mut is_stopped = false;
        while !is_stopped {
            let round = async {
                self.round().await;
                sleep(EVERY).await;
            };
            tokio::select! {
                _ = &mut stopped => is_stopped = true,
                () = round => {}
            }
        }
        self.due = Instant::now();
        let _ = timeout(LAST, self.round()).await;
    }

    /// Looks for what is new, and sends what is due.
    pub async fn round(&mut self) {
        self.epochs.look(&(self.source.programs)(), Instant::now(), &self.source.queue);
        self.epochs.places((self.source.places)(), &self.source.queue);
        if self.pause.is_over(Instant::now()) {
            self.send_metrics().await;
        }
        if self.pause.is_over(Instant::now()) {
            self.send_records().await;
        }
        self.count_queue();
    }

    fn count_queue(&self) {
        let (queued, dropped) = (self.source.queue.len() + self.records.len(), self.source.queue.dropped());
        self.counters.count(|counters| {
            (counters.queued_log_records, counters.dropped_log_records) = (queued as u64, dropped);
        });
    }

    /// Sends metrics if they are due. Those that fail are not kept: later ones say the same and more.
    async fn send_metrics(&mut self) {
        let now = Instant::now();
        if now < self.due {
            return;
        }
        self.count_queue();
        let text = (self.source.metrics)();
        for (metrics, points) in self.starts.batches(&text, wall_clock()) {
            let sent = self.client.send_metrics(self.metrics_request(metrics)).await;
            let rejected = self.settle(sent, points);
            let Some(rejected) = rejected else { return };
            self.counters.count(|counters| {
                counters.metric_requests += u64::from(rejected < points || points == 0);
                counters.data_points += points.saturating_sub(rejected);
                counters.rejected_data_points += rejected;
            });
        }
        self.due = now + self.every;
    }

    async fn send_records(&mut self) {
        loop {
            let room = REQUEST_RECORDS - self.records.len();
            self.records.extend(self.source.queue.take(room));
            let records = self.records.len() as u64;
            if records == 0 {
                return;
            }
            let sent = self.client.send_logs(self.logs_request(self.records.clone())).await;
            let Some(rejected) = self.settle(sent, records) else { return };
            self.records.clear();
            self.counters.count(|counters| {
                counters.log_requests += u64::from(rejected < records);
                counters.log_records += records.saturating_sub(rejected);
                counters.rejected_log_records += rejected;
            });
        }
    }

    /// Counts what became of a request with this number of items, and logs failures. Returns the number of items
    /// that were refused; `None` if the request is to be sent again.
    fn settle(&mut self, sent: Result<Taken, Failed>, items: u64) -> Option<u64> {
        let now = Instant::now();
        let collector = self.counters.view().collector;
        let (rejected, why) = match sent {
            Ok(Taken { rejected, why }) => (rejected.min(items), why),
            Err(Failed::Refused(why)) => (items, Some(why)),
            Err(Failed::Again(why)) => {
                self.pause.begin(now);
                if self.failure.begins(now) {
                    tracing::warn!(target: "weir", event = "otlp_failed", collector, "OTLP is not sent: {why}");
                }
                self.counters.count(|counters| {
                    counters.failed_requests += 1;
                    counters.last_error = Some(why);
                });
                return None;
            }
        };
        self.pause.end();
        if self.failure.ends() {
            tracing::info!(target: "weir", event = "otlp_sent", collector, "OTLP is sent again");
        }
        if rejected == 0 {
            self.rejection.ends();
        }
        if let Some(why) = why {
            if rejected > 0 && self.rejection.begins(now) {
                tracing::warn!(
                    target: "weir", event = "otlp_rejected", collector, rejected,
                    "the OTLP collector refuses what is sent: {why}"
                );
            }
            self.counters.count(|counters| counters.last_error = Some(why));
        }
        Some(rejected)
    }

    fn metrics_request(&self, metrics: Vec<Metric>) -> ExportMetricsServiceRequest {
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope()), metrics, ..ScopeMetrics::default() }];
        let resource = Some(self.resource.clone());
        let resource_metrics = vec![ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() }];
        ExportMetricsServiceRequest { resource_metrics }
    }

    fn logs_request(&self, log_records: Vec<LogRecord>) -> ExportLogsServiceRequest {
        let scope_logs = vec![ScopeLogs { scope: Some(scope()), log_records, ..ScopeLogs::default() }];
        let resource = Some(self.resource.clone());
        ExportLogsServiceRequest {
            resource_logs: vec![ResourceLogs { resource, scope_logs, ..ResourceLogs::default() }],
        }
    }
}

fn scope() -> InstrumentationScope {
    let [name, version] = PROGRAM.map(String::from);
    InstrumentationScope { name, version, ..InstrumentationScope::default() }
}
