//! Packets as bytes: the frame that carries them, a checked view and an owned repr of each header,
//! and the one parser that the dataplane calls.

mod flow;
mod frame;
mod headers;

pub use flow::{Addr4, Addr6, Flow, FlowKey, Pair4, Pair6, Tuple4, Tuple6};
pub use frame::{Frame, HeapFrame};
pub use headers::{Fragment, Headers, Mac, Net};
