//! The wire layer held to naive oracles on packets of all shapes.

mod captures;
mod checksum;
mod keys;
mod oracle;
mod packets;
mod parser;
mod reprs;
mod shim;
mod tunnel_oracle;
mod tunnels;
