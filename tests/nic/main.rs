//! Network cards: `pci:` ports in a guest of qemu, whose cards are emulated and join hosts outside.
//!
//! `make test-nic` makes the guest's image and runs these; docs/testbed.md says what they show.
#![cfg(feature = "dpdk")]

#[path = "../common/mod.rs"]
#[allow(dead_code, unused_imports)]
mod common;

mod cards;
mod doctor;
mod guest;
mod vhost;
mod workers;
