//! The live page: the answers of a switch, a controller or a simulation as HTML, pushed to browsers as epochs
//! close.
//!
//! A [`Source`] answers as it does for the API: the questions are those of the API's routes, with the same
//! windows and limits. `sections` makes HTML of the answers, one file a section. `board` makes a frame of all
//! sections, once for all readers, and only while there are readers. `events` sends a reader the elements that
//! it has not seen. `guard` refuses requests that other sites cause. The browser's part (`page.js`) puts elements
//! in place by their ids, and knows nothing of their content.

mod answers;
mod board;
mod controller;
mod events;
mod frame;
mod guard;
mod map;
mod pace;
mod routes;
mod sections;
mod switch;
mod text;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use crate::api::{self, Answering};
use crate::output::Page;

pub use map::{Edge, Map, Node, NodeKind};
pub use pace::Pace;
pub use switch::SwitchSource;

/// What a page is about.
pub trait Source: Answering {
    /// `switch`, `controller` or `simulation`.
    const KIND: &'static str;

    fn name(&self) -> String;

    /// Switches, and the links between them as far as they are known.
    fn map(&self) -> Map;

    /// Packets that were lost, by reason, where they are counted.
    fn drops(&self) -> Option<Page> {
        None
    }

    /// The control of the time that passes, where it can be controlled.
    fn pace(&self) -> Option<&Pace> {
        None
    }
}

/// Serves the page until the process ends. `hosts` are names that browsers may call it by, beside the
/// loopback's.
pub fn serve<S: Source>(listener: TcpListener, hosts: &[String], source: Arc<S>) -> io::Result<()> {
    api::serve::plain("weir-page", listener, api::serve::limited(routes::router(source, hosts)))
}

#[cfg(test)]
mod tests;
