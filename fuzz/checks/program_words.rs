//! `--program` on any words: nothing panics, a refusal repeats the words, and what is accepted is
//! in range.

use weir::program::ProgramConfig;

pub fn run(text: &str) {
    match text.parse::<ProgramConfig>() {
        Ok(program) => program.validate().unwrap(),
        Err(error) => assert!(error.to_string().contains(text)),
    }
}
