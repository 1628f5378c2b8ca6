//! Cycles a packet, step by step: a null port's rx and tx alone, headers written, the switch alone,
//! and programs in it, each alone and all together, in both orders, and timed as the live worker
//! times them. All in one process, in turns.

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use weir::config::BatchOrderConfig;
use weir::dpdk::{cycles, cycles_per_second};
use weir::pisa::cpu::{self, Instructions};
use weir::switch::{Role, Switch, TelemetryHeader};
use weir::trace::Workload;

use super::pass::{FRAME, Machine, Way, Write};
use super::{Spread, machine};

#[derive(Args)]
pub struct Cycles {
    /// The traffic; its flows' headers are written into every packet
    #[arg(long, default_value = "isp/burst,flows=400000,packets=10000000")]
    workload: String,
    /// A program; of several, each alone and then all together [default:
    /// hashpipe:stages=6,slots=4096 and chamelemon]
    #[arg(long = "program", value_name = "PROGRAM")]
    programs: Vec<String>,
    /// Programs that each of the others is measured beside as well, in place of all together; they
    /// are measured without them too
    #[arg(long, value_name = "PROGRAM", requires = "programs")]
    beside: Vec<String>,
    /// Only the steps whose name holds this, for a profiler
    #[arg(long, default_value = "")]
    only: String,
    /// Uses no more of the CPU than these instructions
    #[arg(long, value_enum, default_value = "avx512")]
    instructions: Instructions,
    /// Rounds; in each, every step runs over the whole workload once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    #[arg(long, default_value_t = 1)]
    core: usize,
    /// Role of the port by which packets come; from a fabric port they carry the telemetry header
    #[arg(long, value_enum, default_value_t)]
    from: Role,
    /// Role of the port by which they leave
    #[arg(long, value_enum, default_value_t)]
    to: Role,
    /// Carries class and epoch between switches
    #[arg(long, value_enum, default_value_t)]
    telemetry_header: TelemetryHeader,
}

/// What is measured.
struct Step {
    name: String,
    /// What is written into the packets.
    write: Write,
    switch: Option<Switch>,
    cycles: Vec<f64>,
}

impl Cycles {
    pub fn run(&self) -> Result<()> {
        ensure!(self.rounds > 0, "--rounds: at least one");
        cpu::limit(self.instructions);
        let machine = Machine::start(self.core)?;
        let hz = cycles_per_second(&machine.eal);
        let trace = self.workload.parse::<Workload>()?.generate();
        let way = Way { from: self.from, to: self.to, telemetry_header: self.telemetry_header };
        let mut traffic = machine.traffic("a", &way, &trace, FRAME as u16)?;

        let mut steps = vec![
            step("rx and tx", Write::Nothing, None),
            step("+ headers written", Write::Headers, None),
            step("+ switch, xconnect, no program", Write::Headers, Some(way.switch(&[], BatchOrderConfig::Packet)?)),
        ];
        let default = ["hashpipe:stages=6,slots=4096".into(), "chamelemon".into()];
        let programs = if self.programs.is_empty() { &default[..] } else { &self.programs };
        for set in &self.sets(programs) {
            for (order, how) in [(BatchOrderConfig::Packet, "packet"), (BatchOrderConfig::Stage, "stage")] {
                let name = format!("+ {}, {how} by {how}", set.join(" and "));
                steps.push(step(name, Write::Headers, Some(way.switch(set, order)?)));
            }
            let mut timed = way.switch(set, BatchOrderConfig::Packet)?;
            timed.time_programs(cycles, hz);
            steps.push(step(format!("+ {}, packet by packet, timed", set.join(" and ")), Write::Headers, Some(timed)));
        }
        steps.retain(|step| step.name.contains(&self.only));
        ensure!(!steps.is_empty(), "--only {}: there is no such step", self.only);
        for _ in 0..self.rounds {
            for step in &mut steps {
                let median = traffic.pass(step.write, step.switch.as_mut());
                step.cycles.push(median);
            }
        }
        self.report(&steps, hz, machine.eal.has_huge_pages());
        Ok(())
    }

    /// Programs that run together.
    fn sets(&self, programs: &[String]) -> Vec<Vec<String>> {
        let mut sets: Vec<_> = programs.chunks(1).map(<[String]>::to_vec).collect();
        if !self.beside.is_empty() {
            sets.push(self.beside.clone());
            sets.extend(programs.iter().map(|program| [&self.beside[..], std::slice::from_ref(program)].concat()));
        } else if programs.len() > 1 {
            sets.push(programs.to_vec());
        }
        sets
    }

    fn report(&self, steps: &[Step], hz: u64, huge: bool) {
        println!("{}, TSC {:.3} GHz, {} huge pages", machine(), hz as f64 / 1e9, if huge { "with" } else { "without" });
        let instructions = self.instructions.to_possible_value().map_or(String::new(), |value| value.get_name().into());
        println!(
            "{}; instructions up to {instructions}; median (least–most) of {} rounds in turns\n",
            self.workload, self.rounds
        );
        println!(
            "| step | TSC cycles a packet | ns a packet | M packets/s | ÷ rx and tx |\n| --- | --- | --- | --- | --- |"
        );
        let base = Spread::of(steps[0].cycles.clone()).median;
        for step in steps {
            let spread = Spread::of(step.cycles.clone());
            let ns = spread.median / hz as f64 * 1e9;
            println!("| {} | {spread:.1} | {ns:.1} | {:.1} | {:.2} |", step.name, 1e3 / ns, spread.median / base);
        }
    }
}

fn step(name: impl Into<String>, write: Write, switch: Option<Switch>) -> Step {
    Step { name: name.into(), write, switch, cycles: Vec::new() }
}
