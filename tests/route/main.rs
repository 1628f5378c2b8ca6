//! The router, packet by packet, against a naive one and against etherparse.

mod bench;
mod forward;
mod fragments;
mod hostile;
mod neighbours;
mod tables;
