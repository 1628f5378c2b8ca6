//! `dpdk-testpmd` between two ports, driven by its prompt.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::child;

/// How testpmd is started.
pub struct Plan<'a> {
    /// Words before the program's name, such as those that enter a network namespace.
    pub prefix: &'a [&'a str],
    pub mode: &'a str,
    /// Both ports as DPDK's `--vdev` takes them.
    pub devices: &'a [String; 2],
    /// The cores that forward. Each has a queue of both ports.
    pub cores: &'a [usize],
    pub huge_pages: bool,
    pub buffers: u32,
    /// Packets are put into the ports before it starts: a ring has none by itself.
    pub sends_first: bool,
}

/// Longest time that testpmd may take to start, to answer, and to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// Memory in MiB; without huge pages DPDK takes all of it when it starts.
const WITH_HUGE_PAGES: &str = "512";
const WITHOUT_HUGE_PAGES: &str = "384";

pub struct Testpmd {
    child: Child,
    prompt: ChildStdin,
    lines: Receiver<String>,
}

pub fn is_installed() -> bool {
    Command::new("dpdk-testpmd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

impl Testpmd {
    /// Starts it and lets it forward.
    ///
    /// # Errors
    /// If it is not installed, or does not get as far as its prompt.
    pub fn start(plan: &Plan) -> Result<Self> {
        let words = words(plan);
        let mut command = child::command(plan.prefix, &words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("dpdk-testpmd does not start (apt-get install dpdk-dev)")?;
        let prompt = child.stdin.take().context("no stdin")?;
        let output = BufReader::new(child.stdout.take().context("no stdout")?);
        let (to, lines) = channel();
        // All that it prints is read, so that it never waits for a reader.
        thread::spawn(move || output.lines().map_while(Result::ok).for_each(|line| drop(to.send(line))));
        let mut testpmd = Self { child, prompt, lines };
        testpmd.say(if plan.sends_first { "start tx_first" } else { "start" })?;
        // The answer comes once the command above was carried out.
        testpmd.rates()?;
        Ok(testpmd)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Packets a second that both ports sent in this time, by testpmd's own clock.
    ///
    /// # Errors
    /// If it has ended.
    pub fn rate(&mut self, time: Duration) -> Result<f64> {
        self.rates()?;
        sleep(time);
        self.rates()
    }

    fn say(&mut self, words: &str) -> Result<()> {
        writeln!(self.prompt, "{words}").context("testpmd has ended")
    }

    /// Packets a second sent by both ports since this was asked last.
    fn rates(&mut self) -> Result<f64> {
        self.say("show port stats all")?;
        let begin = Instant::now();
        sum_of_two(|| match self.lines.recv_timeout(PATIENCE.saturating_sub(begin.elapsed())) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => bail!("testpmd does not answer within {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => bail!("testpmd has ended"),
        })
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let begin = Instant::now();
        let _ = self.say("quit");
        while begin.elapsed() < PATIENCE / 4 {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program and its arguments.
fn words(plan: &Plan) -> Vec<String> {
    // The main thread waits at the prompt. It gets a core that does not forward, if there is one.
    let main = (0..=plan.cores.len()).find(|core| !plan.cores.contains(core)).unwrap_or(0);
    let main = if main < cpus() { main } else { plan.cores[0] };
    let lcores: Vec<_> = plan.cores.iter().zip(1..).map(|(core, lcore)| format!("{lcore}@{core}")).collect();
    let mut words: Vec<String> = Vec::new();
    let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
    // To a pipe it would print when its buffer is full, and not when it is asked.
    add(&["stdbuf", "--output=L"]);
    add(&["dpdk-testpmd", "--lcores", &format!("0@{main},{}", lcores.join(",")), "--no-pci", "--no-telemetry"]);
    add(&["--file-prefix", "weir-bench"]);
    add(match plan.huge_pages {
        true => &["--in-memory", "-m", WITH_HUGE_PAGES],
        false => &["--no-huge", "--no-shconf", "-m", WITHOUT_HUGE_PAGES],
    });
    plan.devices.iter().for_each(|device| add(&["--vdev", device]));
    let queues = plan.cores.len();
    add(&["--", "-i", &format!("--nb-cores={queues}"), &format!("--rxq={queues}"), &format!("--txq={queues}")]);
    add(&[&format!("--total-num-mbufs={}", plan.buffers), &format!("--forward-mode={}", plan.mode)]);
    words
}

fn cpus() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The sum of the rates of two ports, from lines of testpmd's.
fn sum_of_two(mut next: impl FnMut() -> Result<String>) -> Result<f64> {
    let mut sum = 0.0;
    for _ in 0..2 {
        sum += loop {
            let line = next()?;
            if let Some((_, rate)) = line.split_once("Tx-pps:") {
                let rate = rate.split_whitespace().next().unwrap_or_default();
                break rate.parse::<f64>().with_context(|| line.clone())?;
            }
        };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> impl FnMut() -> Result<String> {
        let mut lines: Vec<_> = text.lines().rev().map(str::to_owned).collect();
        move || lines.pop().context("testpmd has ended")
    }

    #[test]
    fn the_rates_of_both_ports_are_added() {
        let port = "  Throughput (since last show)\n  Rx-pps:  7  Rx-bps: 1\n  Tx-pps:   1500   Tx-bps: 9\n";
        assert_eq!(sum_of_two(lines(&[port, port].concat())).unwrap(), 3000.0);
        assert!(sum_of_two(lines(port)).is_err(), "the second port is missing");
        assert!(sum_of_two(lines("Tx-pps: many")).is_err());
    }

    #[test]
    fn each_core_has_its_queue_and_the_prompt_a_core_of_its_own() {
        let devices = ["net_null0".to_owned(), "net_null1".to_owned()];
        let plan = |cores| Plan {
            prefix: &[],
            mode: "io",
            devices: &devices,
            cores,
            huge_pages: false,
            buffers: 16_384,
            sends_first: false,
        };
        let one = words(&plan(&[0])).join(" ");
        let main = if cpus() > 1 { 1 } else { 0 };
        assert!(one.contains(&format!("--lcores 0@{main},1@0 ")) && one.contains("--rxq=1"), "{one}");
        let two = words(&plan(&[1, 0])).join(" ");
        assert!(two.contains("1@1,2@0") && two.contains("--nb-cores=2 --rxq=2 --txq=2"), "{two}");
    }
}
