//! `pktgen run --metrics`: a run's numbers for Prometheus.
//!
//! There are no labels by flow, port or core, so the text has a fixed size.

use std::fmt::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Context, Result};
use pktgen::latency::coarse::Times;
use pktgen::truth::ScoreSummary;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::follow::{Followed, Look};

/// An address of the machine's own loopback, or a port of 127.0.0.1.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port: u16| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    let address = port.or_else(|_| text.parse::<SocketAddr>()).ok().filter(|address| address.ip().is_loopback());
    address
        .ok_or_else(|| format!("{text:?}: a port, or a loopback address and a port: 9470, 127.0.0.1:9470, [::1]:9470"))
}

/// Serves the metrics until the process ends. Gives where.
pub fn serve(address: SocketAddr, followed: Followed) -> Result<SocketAddr> {
    let listener = TcpListener::bind(address).with_context(|| format!("--metrics {address}"))?;
    let address = listener.local_addr()?;
    weir::api::serve_registry(listener, registry(followed))?;
    Ok(address)
}

fn registry(followed: Followed) -> Registry {
    let mut registry = Registry::with_prefix("pktgen");
    registry.register_collector(Box::new(Exposed(followed)));
    registry
}

#[derive(Debug)]
struct Exposed(Followed);

impl Collector for Exposed {
    fn encode(&self, encoder: DescriptorEncoder) -> Result<(), Error> {
        let look = self.0.look();
        let mut families = Families(encoder);
        families.sent(&look)?;
        if self.0.receives {
            families.received(&look, self.0.is_signed)?;
        }
        look.score.as_ref().map_or(Ok(()), |score| families.score(score))
    }
}

/// Writes one family after another.
struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    fn sent(&mut self, look: &Look) -> Result<(), Error> {
        let now = &look.progress;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        self.0
            .encode_descriptor("build", "The generator and its version", None, MetricType::Info)?
            .encode_info(&version)?;
        self.counters(&[
            ("sent_packets", "Packets that the device took", now.sent),
            ("sent_bytes", "Bytes of these, from the destination MAC on, without FCS", now.sent_bytes),
            ("sent_malformed_packets", "Of the packets sent, those with a wrong IP header on purpose", now.malformed),
        ])?;
        self.gauge("run_seconds", "Time since the run began", now.seconds)?;
        let reached = now.sent as f64 / now.seconds.max(1e-3);
        self.gauge("reached_packets_per_second", "Packets sent per second since the run began", reached)?;
        if let Some(asked) = look.asked {
            self.gauge("asked_packets_per_second", "Packets per second that --rate asks for", asked)?;
        }
        let late = now.late_ns as f64 / 1e9;
        self.gauge("late_seconds", "How late the last burst left, of the latest core", late)?;
        self.histogram("lateness_seconds", "From when a packet was due to when its burst left", &look.lateness)
    }

    fn received(&mut self, look: &Look, is_signed: bool) -> Result<(), Error> {
        let now = &look.progress;
        self.counters(&[
            ("received_packets", "First copies of packets of this run that came back", now.received),
            ("received_bytes", "Bytes of all that came in, without FCS", now.received_bytes),
            ("reordered_packets", "Packets behind one that was sent later", now.reordered),
            ("duplicate_packets", "Further copies", now.duplicates),
            ("uncertain_packets", "Packets so far behind that they may be first copies or further ones", now.uncertain),
            ("foreign_packets", "Packets without a signature of this run", now.foreign),
        ])?;
        if is_signed {
            let help = "Packets sent that did not come back so far: lost, or on their way";
            self.gauge("missing_packets", help, now.missing() as f64)?;
        }
        self.histogram("latency_seconds", "From sending to receiving", &look.latency)
    }

    fn score(&mut self, score: &ScoreSummary) -> Result<(), Error> {
        let means = [
            ("score_recall", "Mean recall of the heaviest flows", score.mean_recall),
            ("score_relative_error", "Mean relative error of the heaviest flows", score.mean_relative_error),
            ("score_error", "The larger error of heavy flows and of all lost packets", score.error()),
        ];
        for (name, help, mean) in means {
            if let Some(mean) = mean {
                self.gauge(name, help, mean)?;
            }
        }
        self.counters(&[
            ("score_heavy_epochs", "Answers about heavy flows that were scored", score.heavy_epochs),
            ("score_loss_epochs", "Answers about losses that were scored", score.loss_epochs),
            ("score_exact_loss_epochs", "Of these, answers that were exact", score.exact_loss_epochs),
            ("score_true_lost_packets", "Packets lost in the epochs of these answers", score.true_lost_packets),
            ("score_lost_packets", "Lost packets that the answers tell", score.lost_packets),
        ])?;
        let waiting = "Epochs that were sent and that no answer came about so far";
        self.gauge("score_unanswered_epochs", waiting, score.unanswered_epochs as f64)?;
        let passed = "Epochs that an answer passed over, or whose truth is not known";
        self.gauge("score_unscored_epochs", passed, score.unscored_epochs as f64)
    }

    fn counters(&mut self, counters: &[(&str, &str, u64)]) -> Result<(), Error> {
        for (name, help, total) in counters {
            let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
            metric.encode_counter::<NoLabelSet, _, u64>(total, None)?;
        }
        Ok(())
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) -> Result<(), Error> {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// A bucket for each power of two nanoseconds.
    fn histogram(&mut self, name: &str, help: &str, times: &Times) -> Result<(), Error> {
        let mut buckets: Vec<_> = times.octaves().map(|(below_ns, n)| (below_ns as f64 / 1e9, n)).collect();
        buckets.push((f64::INFINITY, 0));
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        metric.encode_histogram::<NoLabelSet>(times.sum_ns() as f64 / 1e9, times.count(), &buckets, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen::engine::Watch;
    use pktgen::pace::{Arrivals, Pace, Rate};
    use std::sync::{Arc, Mutex};
    use weir::api::metrics::{Format, encoded};

    fn text(score: Option<ScoreSummary>, receives: bool) -> String {
        let followed = Followed {
            watch: Arc::new(Watch::new(1)),
            traffic: String::new(),
            pace: Pace::Rate(Rate::Max, Arrivals::Constant),
            duration: None,
            receives,
            is_signed: true,
            score: score.map(|score| Arc::new(Mutex::new(score))),
        };
        encoded(&registry(followed), Format::Prometheus)
    }

    #[test]
    fn addresses_are_of_the_loopback() {
        assert_eq!(address("9470"), Ok("127.0.0.1:9470".parse().unwrap()));
        assert!(address("[::1]:1").is_ok() && address("127.0.0.2:0").is_ok());
        for wrong in ["0.0.0.0:9470", "192.0.2.1:1", "[::]:1", "x", "70000", ""] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    /// What a run does not have is not told as 0.
    #[test]
    fn families_are_those_of_the_run() {
        let none = text(None, false);
        assert!(none.contains("pktgen_sent_packets_total 0") && !none.contains("received"), "{none}");
        assert!(!none.contains("asked") && !none.contains("score"), "{none}");
        let scored = ScoreSummary { loss_epochs: 2, true_lost_packets: 4, lost_packets: 3, ..ScoreSummary::default() };
        let text = text(Some(scored), true);
        assert!(text.contains("pktgen_score_error 0.25") && !text.contains("score_recall"), "{text}");
        assert!(text.contains("pktgen_latency_seconds_bucket{le=\"+Inf\"} 0"), "{text}");
    }
}
