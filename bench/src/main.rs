//! weir's figures and comparisons.

mod attack;
mod attention;
mod baseline;
#[cfg(feature = "dpdk")]
mod child;
mod controller;
mod disketch_query;
mod edges;
mod figures;
mod hashpipe;
mod heavy;
mod history;
mod hpcc;
mod keys;
#[path = "../../tests/program/hashpipe/naive.rs"]
mod naive;
mod mutants;
mod packets;
mod pint;
#[cfg(feature = "dpdk")]
mod hosts;
#[cfg(feature = "dpdk")]
mod hostile;
#[cfg(feature = "dpdk")]
mod live;
mod summary;
#[cfg(feature = "dpdk")]
mod suite;
#[cfg(feature = "dpdk")]
mod throughput;
mod tower_fermat;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "bench", version, about = "weir's figures, micro-benchmarks and comparisons with its peers")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Draw the papers' figures again: our curves with the paper's own points beside them, as CSV
    /// and SVG
    Figures(Box<figures::Arguments>),
    /// Change the code in thousands of ways, and see that a test notices each
    Mutants(mutants::Mutants),
    /// What an attacker hides from HashPipe by flows that collide, with known and with secret hash
    /// polynomials
    Attack(attack::Attack),
    /// Keys in a row against random ones: decodings that fail, and what HashPipe misses, by hash
    /// function
    Keys(keys::KeyModels),
    /// From the records of four switches to the order for them: the controller's response time
    Controller(controller::ControllerTime),
    /// Memory of a controller that keeps an hour of history of four edge switches
    History(history::HistoryMemory),
    /// Time and memory of queries of DiSketch over 20 switches, by epochs and flows
    DisketchQuery(disketch_query::QueryCost),
    /// Random traffic that stays, changes and varies: how soon ChameleMon's controller comes to
    /// rest
    Attention(attention::Random),
    /// PINT: decode time against the number of switches on a path, and reports a second that one
    /// core of a recorder takes
    PintInference(pint::Inference),
    P4Packets(packets::Packets),
    /// weir beside its peers: sizes, flows, ports, cores, huge pages, latency under load, memory and
    /// start-up; a dated record with tables and pictures
    #[cfg(feature = "dpdk")]
    Suite(suite::Suite),
    /// Cycles a packet, step by step, with HashPipe in both orders
    #[cfg(feature = "dpdk")]
    Cycles(throughput::Cycles),
    /// Cycles a packet that programs take in live switches: the first, one between, and the last
    #[cfg(feature = "dpdk")]
    Live(live::Live),
    /// Several cores beside one, in turns: packets per second, and the answers about the same packets
    #[cfg(feature = "dpdk")]
    Cores(throughput::Cores),
    /// Cycles a packet by stages, register memory, flows and frame length, as figures, beside a model
    /// and what the memory allows
    #[cfg(feature = "dpdk")]
    Work(throughput::Work),
    /// Two hosts joined by weir, testpmd and the kernel's bridge, in turns: TCP, round trips, CPU
    /// when idle. Needs root
    #[cfg(feature = "dpdk")]
    Hosts(hosts::Hosts),
    /// weir under random frames, floods of MAC addresses and of flows, beside ordinary traffic
    #[cfg(feature = "dpdk")]
    Hostile(hostile::Hostile),
    /// One run of weir between two ports; prints packets per second
    #[cfg(feature = "dpdk")]
    #[command(hide = true)]
    Forward(throughput::Forward),
    /// One run of the generator; prints throughput and latencies as JSON
    #[cfg(feature = "dpdk")]
    #[command(hide = true)]
    Generate(suite::Generate),
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Figures(arguments) => figures::run(&arguments),
        Command::Mutants(mutants) => mutants.run(),
        Command::Attack(attack) => attack.run(),
        Command::Keys(keys) => keys.run(),
        Command::Controller(controller) => controller.run(),
        Command::History(history) => history.run(),
        Command::DisketchQuery(query) => query.run(),
        Command::Attention(attention) => attention.run(),
        Command::PintInference(inference) => inference.run(),
        Command::P4Packets(packets) => packets.run(),
        #[cfg(feature = "dpdk")]
        Command::Suite(suite) => suite.run(),
        #[cfg(feature = "dpdk")]
        Command::Cycles(cycles) => cycles.run(),
        #[cfg(feature = "dpdk")]
        Command::Live(live) => live.run(),
        #[cfg(feature = "dpdk")]
        Command::Cores(cores) => cores.run(),
        #[cfg(feature = "dpdk")]
        Command::Work(work) => work.run(),
        #[cfg(feature = "dpdk")]
        Command::Forward(forward) => forward.run(),
        #[cfg(feature = "dpdk")]
        Command::Generate(generate) => generate.run(),
        #[cfg(feature = "dpdk")]
        Command::Hosts(hosts) => hosts.run(),
        #[cfg(feature = "dpdk")]
        Command::Hostile(hostile) => hostile.run(),
    }
}
