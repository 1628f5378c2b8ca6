//! The parser against a naive one, headers alone, checksums, and the shim, on any bytes.

use weir::wire::{Frame, Headers, HeapFrame, arp, checksum, icmp, ipv4, ipv6, ndp, parse, shim, tcp};

#[path = "../../tests/wire/oracle.rs"]
mod oracle;

pub fn run(bytes: &[u8]) {
    let mut headers = Headers::default();
    let parsed = parse(bytes, &mut headers).ok().map(|()| headers);
    assert_eq!(parsed, oracle::headers(bytes));
    reprs(bytes);
    if let Some(headers) = parsed {
        checksums(bytes, &headers);
        shims(bytes, &headers);
    }
}

/// Every header on the same bytes; where it holds, what its repr writes is read back as the same
/// repr.
fn reprs(bytes: &[u8]) {
    macro_rules! round_trip {
        ($($module:ident),*) => {$(
            if let Ok(repr) = $module::Repr::parse(bytes) {
                let mut emitted = vec![0; $module::LEN];
                repr.emit(&mut emitted).unwrap();
                assert_eq!($module::Repr::parse(&emitted), Ok(repr));
            }
        )*};
    }
    round_trip!(arp, icmp);
    let _ = (ndp::Repr::parse(bytes), tcp::Repr::parse(bytes));
    let _ = ipv4::View::new(bytes).map(|view| (view.options().len(), view.payload().len(), view.checksum_is_valid()));
    let _ = ipv6::View::new(bytes).map(|view| view.payload_len());
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
    let carried = shim::peek(bytes);
    assert_eq!(carried.is_ok(), headers.shim);
    if let Ok(shim) = carried {
        assert_eq!(shim::read(bytes), Some(shim));
        assert!(shim::rewrite(&mut frame, shim) && frame.bytes() == bytes);
        assert!(shim::pop(&mut frame) && shim::push(&mut frame, shim));
    }
    assert_eq!(frame.bytes(), bytes);
}
