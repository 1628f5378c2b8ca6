//! The programs of papers: their dataplanes against naive ones, and their answers against the
//! truth.

mod chamelemon;
#[path = "../common/frames.rs"]
#[allow(dead_code, reason = "some of it is for other tests")]
mod frames;
mod frequency;
mod hashpipe;
mod layout;
#[path = "../common/layout.rs"]
mod layout_check;
mod pint;
#[path = "../common/records.rs"]
#[allow(dead_code, reason = "some of it is for other tests")]
mod records;
#[path = "../common/vxlan.rs"]
mod vxlan;
