//! `--program` on any words: nothing panics, a refusal repeats the words, and what is accepted is in range.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir::program::ProgramConfig;

fuzz_target!(|text: &str| match text.parse::<ProgramConfig>() {
    Ok(program) => program.validate().unwrap(),
    Err(error) => assert!(error.to_string().contains(text)),
});
