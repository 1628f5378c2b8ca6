#![no_main]

#[path = "../checks/conversations.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|input: &[u8]| check::run(input));
