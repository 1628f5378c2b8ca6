//! ChameleMon's tests.

mod losses;
mod middle;
mod oracle;
