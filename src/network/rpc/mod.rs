//! Switches and their controller: one stream for each switch, over a Unix socket or TCP with mutual
//! TLS. `controller.proto` says what goes over it.
//!
//! A switch dials ([`start`]), says who it is and what it runs, gets the hash functions of the
//! network, and sends a record of each program for each epoch; the controller ([`serve`]) takes it
//! in or says why not, and sends updates of what is measured from an epoch on. Neither waits for
//! the other: a record that cannot be sent is dropped and counted.

use std::time::Duration;

mod agent;
mod dial;
mod link;
mod messages;
mod server;

pub use agent::{Controlled, start};
pub use dial::{Dial, socket_name};
pub use link::Link;
pub use messages::{BadMessage, Hello, Offer, Refusal, Welcome};
pub use server::{Certified, Network, serve};

/// What `controller.proto` describes; `tests/messages.rs` generates it.
#[allow(clippy::all, clippy::pedantic, missing_docs)]
pub mod proto {
    include!("generated.rs");
}

/// The version of the protocol.
pub const VERSION: u32 = 3;
/// Longest message of a controller to a switch.
const LONGEST: usize = 64 << 10;
/// Both sides ask each other so often whether they still live, and take the other for gone after so
/// long without an answer.
pub const ALIVE_EVERY: Duration = Duration::from_secs(2);
pub const ALIVE_WITHIN: Duration = Duration::from_secs(3);
/// How much may be under way before the other side has read it, in bytes.
pub const WINDOW: u32 = 1 << 20;

/// The secret is nobody's to see.
impl std::fmt::Debug for proto::Welcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Welcome(secret)")
    }
}
