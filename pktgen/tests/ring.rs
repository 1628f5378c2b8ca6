//! The real binary over ring ports: no root, no interface, no huge pages.
#![cfg(feature = "dpdk")]

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir::trace::CaptureReader;

fn pktgen(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
    command.args(line.split_ascii_whitespace()).output().expect("runs")
}

/// The report of a run that must succeed.
fn run(line: &str) -> Value {
    let output = pktgen(&format!("run {line} --json --no-huge-pages"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "pktgen run {line}: {}\n{error}", output.status);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn through_ring(line: &str) -> Value {
    run(&format!("--tx ring:a --rx ring:a {line}"))
}

fn count(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {report:#}"))
}

/// The exit of a run that is interrupted after `signal`, if given; it must end by itself.
fn ends(line: &str, signal: Option<Duration>) -> Option<i32> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
    command.args(format!("run {line} --no-huge-pages --quiet").split_ascii_whitespace());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("runs");
    if let Some(after) = signal {
        std::thread::sleep(after);
        let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(kill.is_ok_and(|status| status.success()));
    }
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        if let Some(status) = child.try_wait().expect("waits") {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("is killed");
    child.wait().expect("waits");
    None
}

/// Nobody takes the frames from the ring, or there are no buffers for them.
#[test]
fn a_run_ends_when_nothing_is_taken() {
    assert_eq!(ends("--tx ring:a --duration 200ms --rate 100kpps", None), Some(0));
    assert_eq!(ends("--tx ring:a --duration 200ms", None), Some(0));
    assert_eq!(ends("--tx ring:a --packets 1M --rate 100kpps", Some(Duration::from_secs(2))), Some(0));
}

/// A ring that nobody empties is what limits, and the time for which it took nothing is part of the
/// run.
#[test]
fn a_device_that_stops_taking_limits() {
    let report = run("--tx ring:a --duration 300ms --rate 100kpps");
    assert_eq!(report["sent"]["limited_by"], "device", "{report:#}");
    assert_eq!(report["sent"]["rate_held"], false, "{report:#}");
    assert!(report["seconds"].as_f64().unwrap() >= 0.3, "{report:#}");
}

#[test]
fn all_that_is_sent_comes_back() {
    let report = through_ring("--flows 100 --packets 20k --rate 200kpps --size imix --ipv6 0.3");
    assert_eq!((count(&report, "/sent/packets"), count(&report, "/received/packets")), (20_000, 20_000));
    for none in ["lost_packets", "reordered_packets", "duplicate_packets", "uncertain_packets", "foreign_packets"] {
        assert_eq!(count(&report, &format!("/received/{none}")), 0, "{none} in {report:#}");
    }
    assert_eq!(report["sent"]["bytes"], report["received"]["bytes"]);
    let seconds = report["seconds"].as_f64().unwrap();
    assert!(seconds >= 0.0999, "not faster than asked for: {report:#}");
    assert!(count(&report, "/latency/packets") == 20_000 && report["own"]["min_ns"].is_u64(), "{report:#}");
}

/// The gap behind the last packet is part of the run.
#[test]
fn few_packets_keep_the_rate() {
    let report = through_ring("--packets 2 --rate 10pps --duration 20s");
    let seconds = report["seconds"].as_f64().unwrap();
    assert!(count(&report, "/sent/packets") == 2 && seconds >= 0.1999, "{report:#}");
}

#[test]
fn cores_share_the_packets() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return;
    }
    let cores = "--core 0 --core 1 --rate 100kpps";
    let report = through_ring(&format!("--workload isp-scaled,flows=1k,packets=10k --packets 25k {cores}"));
    assert_eq!((count(&report, "/sent/packets"), count(&report, "/received/packets")), (25_000, 25_000));
    assert_eq!(count(&report, "/received/duplicate_packets"), 0);
}

#[test]
fn a_known_loss_is_found() {
    let report = through_ring("--packets 20k --rate 200kpps --fault tx:every=100");
    assert_eq!(count(&report, "/ports/tx/lost/fault_drop"), 200);
    assert_eq!((count(&report, "/received/lost_packets"), count(&report, "/received/lossy_flows")), (200, 1));
}

#[test]
fn too_much_loss_ends_with_3() {
    let lossy = "run --tx ring:a --rx ring:a --packets 1000 --rate 100kpps --fault tx:every=100 --no-huge-pages";
    assert_eq!(pktgen(&format!("{lossy} --max-loss 0.5%")).status.code(), Some(3));
    assert_eq!(pktgen(&format!("{lossy} --max-loss 1%")).status.code(), Some(0));
}

#[test]
fn a_known_delay_is_found() {
    let report = through_ring("--packets 5000 --rate 10kpps --fault rx:delay=50ms");
    assert_eq!(count(&report, "/received/packets"), 5000);
    // Other processes may hold the core up, but not as long at each of the packets.
    assert!((49_900_000..99_000_000).contains(&count(&report, "/latency/min_ns")), "{report:#}");
    assert!(count(&report, "/own/min_ns") < 2_000_000, "{report:#}");
}

#[test]
fn copies_and_disorder_are_counted() {
    let report = through_ring("--flows 3 --packets 20k --rate 100kpps --fault rx:duplicate=10%;rx:reorder=5%,gap=2ms");
    let effect = |name: &str| count(&report, &format!("/ports/tx/fault_effects/{name}_packets"));
    assert!(effect("duplicated") > 1500, "{report:#}");
    assert_eq!(count(&report, "/received/duplicate_packets"), effect("duplicated"));
    assert_eq!((count(&report, "/received/packets"), count(&report, "/received/lost_packets")), (20_000, 0));
    let behind = count(&report, "/received/reordered_packets");
    assert!(behind > 0 && behind <= effect("reordered"), "{report:#}");
}

/// Of each flow and epoch as many as the whole run, and the losses are where they were.
#[test]
fn truth_is_by_flow_and_epoch() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("truth");
    let traffic = "--flows 50 --packets 30k --rate 100kpps --fault tx:every=1000 --epoch 20ms --epoch-pause 2ms";
    let report = through_ring(&format!("{traffic} --truth {}", file.display()));
    let text = std::fs::read_to_string(&file).unwrap();
    let (mut sent, mut received, mut bytes) = (0, 0, 0);
    let mut epochs: HashMap<u64, u64> = HashMap::new();
    let mut flows: HashMap<String, u64> = HashMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        sent += count(&line, "/sent_packets");
        bytes += count(&line, "/sent_bytes");
        received += count(&line, "/received_packets");
        *epochs.entry(count(&line, "/epoch")).or_default() += count(&line, "/sent_packets");
        *flows.entry(line["flow"].to_string()).or_default() += count(&line, "/sent_packets");
    }
    assert_eq!((sent, received, bytes), (30_000, 29_970, count(&report, "/sent/bytes")), "{report:#}");
    assert!(flows.len() == 50 && flows.values().all(|n| *n == 600), "{flows:?}");
    // 15 of them, unless other processes hold the core up.
    assert!(epochs.len() >= 3, "{epochs:?}");
}

/// Frames that come when their epoch's bank has long been closed are with their flow all the same.
/// The fault has room for 2048 frames, and here holds 1500 back.
#[test]
fn late_frames_are_in_the_truth() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("truth");
    let traffic = "--flows 5 --packets 5k --rate 5kpps --fault rx:delay=300ms --epoch 20ms --drain 2s";
    let report = through_ring(&format!("{traffic} --truth {}", file.display()));
    let text = std::fs::read_to_string(&file).unwrap();
    let mut sums = [0; 3];
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let of = ["sent", "received", "late"].map(|what| count(&line, &format!("/{what}_packets")));
        assert!(of[2] <= of[1] && of[1] <= of[0], "{line}");
        sums.iter_mut().zip(of).for_each(|(sum, n)| *sum += n);
    }
    assert_eq!(sums[..2], [5_000, 5_000], "{report:#}");
    assert_eq!(sums[2], count(&report, "/received/late_packets"), "{report:#}");
    assert!(sums[2] > 4500 && count(&report, "/received/unplaced_packets") == 0, "{report:#}");
}

/// A capture of these frames at these times.
fn capture(path: &Path, frames: &[(u64, &[u8])]) {
    let mut to = weir::trace::CaptureWriter::new(std::fs::File::create(path).unwrap()).unwrap();
    frames.iter().for_each(|(at_ns, frame)| to.write(*at_ns, frame).unwrap());
    to.finish().unwrap();
}

/// The report's time is what passed, and a jump of the capture's clock is not waited for.
#[test]
fn a_jump_of_the_captures_time_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("jump.pcap");
    capture(&file, &[(0, &[0; 60]), (1_600_000_000_000_000_000, &[0; 60]), (1_600_000_000_050_000_000, &[0; 60])]);
    let run = |more: &str| {
        let output = pktgen(&format!("run --tx null --pcap {} --json --no-huge-pages {more}", file.display()));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{error}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(count(&report, "/capture/time_jumps"), 1, "{report:#}");
        (count(&report, "/sent/packets"), report["seconds"].as_f64().unwrap(), error)
    };
    let (packets, seconds, error) = run("--duration 300ms");
    assert!(packets == 1 && (seconds - 0.3).abs() < 1e-6, "{packets} in {seconds}");
    assert!(error.contains("jumps 1 times by more than 60s"), "{error}");
    // The gap behind the last frame is the mean one.
    let (packets, seconds, _) = run("--max-gap 100ms");
    assert!(packets == 3 && (0.15..100.0).contains(&seconds), "{packets} in {seconds}");
    let (packets, _, error) = run("--rate 1kpps");
    assert!(packets == 3 && !error.contains("jumps"), "its own timing does not matter: {error}");
}

/// Frames of which the capture has a part are sent as they are, with a word.
#[test]
fn cut_frames_are_said() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cut.pcap");
    let frame = |says: u16| {
        let mut frame = [0; 80];
        (frame[12], frame[14], frame[23]) = (8, 0x45, 17);
        frame[16..18].copy_from_slice(&says.to_be_bytes());
        frame
    };
    capture(&file, &[(0, &frame(66)), (1, &frame(67)), (2, &frame(1400))]);
    let output = pktgen(&format!("run --tx ring:a --rx ring:a --pcap {} --json --no-huge-pages", file.display()));
    let error = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((count(&report, "/capture/cut_packets"), count(&report, "/received/bytes")), (2, 240), "{report:#}");
    assert!(error.contains("2 frames are shorter than their headers or the capture say"), "{error}");
}

/// A name that ends in `.parquet` gives a table that other programs read.
#[test]
fn truth_is_parquet_as_well() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("truth.parquet");
    let traffic = "--flows 50 --packets 30k --rate 100kpps --fault tx:every=1000 --epoch 20ms --epoch-pause 2ms";
    through_ring(&format!("{traffic} --truth {}", path.display()));
    let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    let (mut sent, mut received) = (0, 0);
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        sent += row.get_ulong(6).unwrap();
        received += row.get_ulong(8).unwrap();
    }
    assert_eq!((sent, received), (30_000, 29_970));
}

/// The report is printed, also when truth could not be written.
#[test]
fn an_error_in_truth_leaves_the_report() {
    let line = "run --tx ring:a --rx ring:a --packets 5000 --rate 50kpps --epoch 5ms --json --no-huge-pages";
    let output = pktgen(&format!("{line} --truth /dev/full"));
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(count(&report, "/received/packets"), 5000);
}

/// The numbers are those of RFC 9004, section 5.4, of the bursts that were found.
#[test]
fn a_buffers_time_is_corrected() {
    let rate =
        "back-to-back --tx ring:a --rx ring:a --rate 100kpps --drain 20ms --json --no-huge-pages --fault tx:every=100";
    let mut tries = 0;
    let report = loop {
        let output = pktgen(&format!("{rate} --max-packets 128 --repeat 2 --throughput 25kpps"));
        let error = String::from_utf8_lossy(&output.stderr);
        tries += 1;
        // Another process may have had the core.
        if !error.contains("the rate was not held") || tries == 30 {
            assert!(output.status.success(), "{error}");
            break serde_json::from_slice::<Value>(&output.stdout).expect("JSON");
        }
    };
    let number = |name: &str| report.pointer(name).and_then(Value::as_f64).unwrap_or_else(|| panic!("{report:#}"));
    let bursts: Vec<f64> =
        report["bursts_packets"].as_array().unwrap().iter().map(|burst| burst.as_f64().unwrap()).collect();
    assert!(bursts.len() == 2 && bursts.iter().all(|burst| *burst < 100.0), "{report:#}");
    assert!((number("/mean_packets") - bursts.iter().sum::<f64>() / 2.0).abs() < 1e-9);
    assert!(number("/min_packets") <= number("/mean_packets") && number("/mean_packets") <= number("/max_packets"));
    let implied = number("/mean_packets") / 100_000.0;
    assert!((number("/buffer/implied_seconds") - implied).abs() < 1e-12, "{report:#}");
    assert!((number("/buffer/corrected_seconds") - 0.75 * implied).abs() < 1e-12, "{report:#}");
}

/// Loads in steps and their losses, a row each; and as JSON or as CSV, not both.
#[test]
fn tables_are_csv_as_well() {
    let line = "steps --tx ring:a --rx ring:a --rate 50kpps --steps 2 --duration 100ms --no-huge-pages";
    let mut tries = 0;
    let csv = loop {
        let output = pktgen(&format!("{line} --csv"));
        let error = String::from_utf8_lossy(&output.stderr);
        tries += 1;
        // Another process may have had the core.
        if !error.contains("the rate was not held") || tries == 30 {
            assert!(output.status.success(), "{error}");
            break String::from_utf8(output.stdout).unwrap();
        }
    };
    let rows: Vec<Vec<_>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let names = ["load_share", "packets_per_second", "lost_share", "min_ns", "p50_ns", "p99_ns", "p999_ns"];
    assert_eq!(rows[0], names);
    assert_eq!(rows[1..].iter().map(|row| row[0]).collect::<Vec<_>>(), ["0.5", "1"]);
    assert!(rows[1..].iter().flatten().all(|field| field.parse::<f64>().is_ok()), "{csv}");
    let refused = pktgen(&format!("{line} --csv --json"));
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0));
}

/// The error names all that is missing at once.
#[test]
fn a_largest_error_needs_a_switch() {
    for line in ["run --tx ring:a --max-error 1%", "run --tx ring:a --truth a --max-error 1%"] {
        let output = pktgen(line);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}");
        for missing in ["--score <NAME>", "--score-socket <PATH>", "--rx <DEV>", "Usage: "] {
            assert!(error.contains(missing), "{line}: no {missing:?} in {error}");
        }
    }
}

/// Of each sender one frame after the other, all to one receiver; each burst in its time; and all of
/// it in the truth.
#[test]
fn an_incast_is_synchronised() {
    let directory = tempfile::tempdir().unwrap();
    let [truth, one, again, two] =
        ["truth", "1", "2", "3"].map(|name| directory.path().join(name).display().to_string());
    let incast = "--incast 20,4k,20ms --duration 100ms";
    // Three frames of at most 1472 bytes of payload from each sender, five times.
    let report = through_ring(&format!("{incast} --truth {truth}"));
    assert_eq!((count(&report, "/sent/packets"), count(&report, "/received/packets")), (300, 300), "{report:#}");
    assert_eq!(count(&report, "/sent/bytes"), 100 * (4000 + 3 * 42));
    assert_eq!(report["sent"]["asked_packets_per_second"], 3000.0);
    assert!(report["seconds"].as_f64().unwrap() >= 0.0999, "{report:#}");
    let lines = std::fs::read_to_string(truth).unwrap();
    let (mut senders, mut receivers) = (HashMap::<String, u64>::new(), HashMap::<String, u64>::new());
    for line in lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        *senders.entry(line["flow"]["src"].to_string()).or_default() += count(&line, "/received_packets");
        *receivers.entry(format!("{} {}", line["flow"]["dst"], line["flow"]["dport"])).or_default() += 1;
    }
    assert!(senders.len() == 20 && senders.values().all(|n| *n == 15), "{senders:?}");
    assert_eq!(receivers.len(), 1);
    let send = |file: &str| {
        run(&format!("--tx pcap:,{file} {incast}"));
        let mut capture = CaptureReader::open(Path::new(file)).unwrap();
        let (mut times, mut sources) = (Vec::new(), Vec::new());
        while let Some(packet) = capture.next() {
            let packet = packet.unwrap();
            times.push(packet.at_ns);
            sources.push(packet.bytes[26..30].to_vec());
        }
        (times, sources)
    };
    let ((times, sources), (_, others)) = (send(&one), send(&again));
    assert!(sources == others && sources.len() == 300);
    let turns = sources.chunks(20);
    assert!(turns.into_iter().all(|turn| turn == &sources[..20]) && sources[0] != sources[1]);
    // The first burst may be late on a busy machine, and no burst is early.
    let starts: Vec<u64> = times.chunks(60).map(|burst| burst[0]).collect();
    assert!(starts[4] - starts[0] > 10_000_000, "{starts:?}");
    // All cores begin a burst at the same time, and send as much together.
    if std::thread::available_parallelism().map_or(1, usize::from) > 1 {
        let report = through_ring(&format!("{incast} --core 0 --core 1 --truth {two}"));
        assert_eq!((count(&report, "/sent/packets"), count(&report, "/received/packets")), (300, 300), "{report:#}");
    }
}

fn frames(file: &Path) -> Vec<Vec<u8>> {
    let mut capture = CaptureReader::open(file).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = capture.next() {
        frames.push(packet.unwrap().bytes.to_vec());
    }
    frames
}

#[test]
fn a_capture_is_sent_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let [captured, sent] = ["in.pcap", "out.pcap"].map(|name| directory.path().join(name));
    let workload = "isp,flows=50,packets=2000,len=imix,ipv6=0.2,rate=20000";
    assert!(pktgen(&format!("trace --workload {workload} --out {}", captured.display())).status.success());
    let report = run(&format!("--tx pcap:,{} --pcap {} --speed 2", sent.display(), captured.display()));
    assert_eq!(count(&report, "/sent/packets"), 2000);
    let seconds = report["seconds"].as_f64().unwrap();
    assert!(seconds >= 0.0499, "not faster than twice its own timing: {report:#}");
    assert!(frames(&captured) == frames(&sent));
    let report = through_ring(&format!("--pcap {} --speed 2", captured.display()));
    assert!(report.pointer("/received/lost_packets").is_none(), "captures are not followed: {report:#}");
    assert_eq!((count(&report, "/received/foreign_packets"), &report["sent"]["limited_by"]), (2000, &Value::Null));
}

#[test]
fn same_seed_same_frames() {
    let directory = tempfile::tempdir().unwrap();
    let send = |name: &str, seed: u64| {
        let file = directory.path().join(name);
        let traffic = "--flows 20 --packets 500 --size imix --ipv6 0.5 --vlan 7 --malformed 5% --rate 100kpps";
        run(&format!("--tx pcap:,{} {traffic} --seed {seed}", file.display()));
        let mut frames = frames(&file);
        // Time and tag of the signature, and the check that follows from them, are the run's own.
        for frame in &mut frames {
            let signature = if frame[16] == 0x86 { 18 + 40 + 8 } else { 18 + 20 + 8 };
            frame[signature + 8..signature + 18].fill(0);
        }
        frames
    };
    let (one, again, other) = (send("1", 1), send("2", 1), send("3", 2));
    assert_eq!(one.len(), 500);
    assert!(one == again && one != other);
}

#[test]
fn malformed_frames_stand_apart() {
    let report = through_ring("--flows 10 --packets 10k --rate 100kpps --malformed 10%");
    let malformed = count(&report, "/sent/malformed_packets");
    assert!((800..1200).contains(&malformed), "{report:#}");
    assert_eq!(count(&report, "/received/foreign_packets"), malformed);
    assert_eq!(
        (count(&report, "/received/packets"), count(&report, "/received/lost_packets")),
        (10_000 - malformed, 0)
    );
}

#[test]
fn histograms_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let [hgrm, hlog] = ["a.hgrm", "a.hlog"].map(|name| directory.path().join(name));
    through_ring(&format!("--packets 1000 --rate 50kpps --hgrm {} --hlog {}", hgrm.display(), hlog.display()));
    assert!(std::fs::read_to_string(hgrm).unwrap().contains("Total count    =         1000"));
    assert!(std::fs::read_to_string(hlog).unwrap().contains("HIST"));
}

#[test]
fn wrong_usage_ends_with_2() {
    let both = "--tx ring:a --rx ring:a";
    for line in [
        "run",
        "run --tx ring:a --rate 1Gbps",
        "run --tx null --size 63",
        "run --tx null --flows 1G",
        "run --tx null --arrivals poisson",
        "run --tx null --incast 20,4k",
        "run --tx null --incast 20,4k,1ms --size imix",
        "run --tx null --incast 20,4k,1ms --rate 10kpps",
        "run --tx null --incast 20,4k,1ms --protocol mixed",
        "run --tx null --incast 20,4k,1ms --flows 20",
        &format!("throughput {both} --incast 20,4k,1ms"),
        &format!("run {both} --drain 2h"),
        &format!("run {both} --pcap a --max-loss 1%"),
        &format!("run {both} --pcap a --hgrm b"),
        &format!("run {both} --truth a --max-error 1%"),
        &format!("throughput {both} --max-loss 1%"),
        &format!("steps {both} --hlog a"),
        &format!("back-to-back {both} --duration 1s --throughput 1Mpps"),
        &format!("back-to-back {both} --throughput 1Gbps-l2"),
        &format!("steps {both} --live"),
        &format!("run {both} --metrics 0.0.0.0:9470"),
        &format!("run {both} --live --quiet"),
    ] {
        assert_eq!(pktgen(line).status.code(), Some(2), "{line}");
    }
}
