//! What the pipeline's types forbid a program to do: each file under `compile_fail/` must not compile, for the reason
//! that stands beside it.

#[test]
fn a_program_cannot_break_the_pipelines_rules() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
