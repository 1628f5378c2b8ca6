#![no_main]

#[path = "../checks/program_words.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|input: &str| check::run(input));
