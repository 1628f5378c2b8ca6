//! The packet inside a tunnel, on any bytes: as a naive reader finds it, and never behind the frame.

use weir::wire::{Headers, Tunnels, parse};

#[path = "../../tests/wire/tunnel_oracle.rs"]
mod tunnel_oracle;

pub fn run(bytes: &[u8]) {
    let mut outer = Headers::default();
    if parse(bytes, &mut outer).is_err() {
        return;
    }
    let of_flow = |headers: Headers| (headers.flow(), headers.fragment, headers.l3, headers.l4);
    let tunnels = Tunnels { mpls_on_ethernet: true };
    let inner = tunnels.inner(bytes, &outer).map(|inner| inner.map(of_flow));
    assert_eq!(inner, tunnel_oracle::inner(bytes, &outer).map(|inner| inner.map(of_flow)));
    if let Ok(Some((_, _, l3, l4))) = inner {
        // Places of a frame that is longer have no sixteen bits.
        assert!(bytes.len() > usize::from(u16::MAX) || usize::from(l3.max(l4)) < bytes.len());
    }
}
