#![no_main]

#[path = "../checks/wire_parse.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|input: &[u8]| check::run(input));
