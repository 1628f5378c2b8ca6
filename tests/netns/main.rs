//! Real hosts, real kernels, the real binary: network namespaces joined by a running weir.
//!
//! Everywhere the kernel's offloads are as it sets them, and each test ends with every packet
//! accounted for (`Weir::stop`).
#![cfg(feature = "dpdk")]

#[path = "../common/mod.rs"]
mod common;

mod controller;
mod counts;
mod cpus;
mod devices;
mod edges;
mod fabric;
mod faults;
mod fragments;
mod generator;
mod heavy;
mod ipfix;
mod hostile;
mod live;
mod labs;
mod link_local;
mod living;
mod loops;
mod losses;
mod mishaps;
mod names;
mod paused;
mod places;
mod policy;
mod privileges;
mod queues;
mod registers;
mod rootless;
mod routes;
mod paths;
mod segments;
mod several;
mod observers;
mod tags;
mod traffic;
mod tunnels;
mod utilisation;
mod vlan;
#[path = "../common/talk.rs"]
mod talk;
#[path = "../common/vxlan.rs"]
#[allow(dead_code, reason = "some of it is for other tests")]
mod vxlan;
