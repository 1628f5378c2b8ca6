//! The parser against the views, the views alone, checksums, and the shim, on any bytes.

use weir::wire::{
    Frame, Headers, HeapFrame, arp, checksum, ethernet, icmp, ipv4, ipv6, parse, parse_l2, shim, tcp, udp, vlan,
};

#[path = "../../tests/wire/oracle.rs"]
mod oracle;

pub fn run(bytes: &[u8]) {
    let mut headers = Headers::default();
    let parsed = parse(bytes, &mut headers).ok().map(|()| headers);
    assert_eq!(parsed, oracle::headers(bytes));
    assert_eq!(parse_l2(bytes, &mut Headers::default()).is_ok(), parsed.is_some());
    views(bytes);
    if let Some(headers) = parsed {
        checksums(bytes, &headers);
        shims(bytes, &headers);
    }
}

/// Every view on the same bytes; where it holds, what its repr writes is read back as the same
/// repr.
fn views(bytes: &[u8]) {
    macro_rules! round_trip {
        ($($module:ident),*) => {$(
            if let Ok(view) = $module::View::new(bytes) {
                let repr = $module::Repr::parse(&view);
                let mut emitted = vec![0; repr.header_len()];
                repr.emit(&mut emitted).unwrap();
                assert_eq!($module::Repr::parse(&$module::View::new(&emitted).unwrap()), repr);
            }
        )*};
    }
    round_trip!(ethernet, vlan, arp, ipv4, ipv6, tcp, udp, icmp);
    let _ = ipv4::View::new(bytes).map(|view| (view.payload().len(), view.checksum_is_valid()));
    let _ = ipv6::View::new(bytes).map(|view| view.extensions().map(|e| e.bytes.len()).sum::<usize>());
    let _ = udp::View::new(bytes).map(|view| view.payload().len());
}

fn checksums(bytes: &[u8], headers: &Headers) {
    let mut completed = bytes.to_vec();
    checksum::is_partial(bytes, headers);
    if checksum::complete(&mut completed, headers) {
        assert_eq!(checksum::is_valid(&completed, headers), Some(true));
    } else {
        assert_eq!(completed, bytes);
    }
}

fn shims(bytes: &[u8], headers: &Headers) {
    let mut frame = HeapFrame::new(bytes);
    let popped = shim::pop(&mut frame);
    assert_eq!(popped.is_ok(), headers.shim);
    if let Ok(old) = popped {
        assert!(shim::push(&mut frame, old));
        // All but the spare bits are what they were.
        assert_eq!(frame.bytes().len(), bytes.len());
        assert_eq!((&frame.bytes()[..15], &frame.bytes()[16..]), (&bytes[..15], &bytes[16..]));
    } else {
        assert_eq!(frame.bytes(), bytes);
    }
}
