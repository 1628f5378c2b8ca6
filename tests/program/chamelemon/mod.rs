//! ChameleMon's tests.

mod losses;
mod middle;
mod naive;
mod oracle;
