#![no_main]

#[path = "../checks/graph.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|input: &str| check::run(input));
