//! TCP conversations of a capture, held again between a client and a server of the generator's own.
//!
//! [`Scripts`] are what a capture has: who says which bytes, in turn. [`Conversations`] holds many of
//! them at a time: it takes frames that came in and writes those that go out. It does no I/O, reads
//! no clock and allocates nothing after it was made.

mod clients;
mod endpoint;
mod open;
mod ready;
mod script;
mod segment;
mod stream;
#[cfg(test)]
mod tests;
mod wheel;

pub use clients::{Clients, ClientsError, Prefix};
pub use endpoint::Limits;
pub use open::{Conversations, Counts, Settings, SideCounts};
pub use script::{Extracted, Script, Scripts, ScriptsError, Turn};
pub use segment::{Link, longest_frame};

/// The two ends of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The end that sends the first SYN.
    Client,
    Server,
}

impl Side {
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}
