//! Records of switches: any bytes are sketches or an error; what is read at all is written as the same bytes. The first byte
//! chooses the shape that is expected.

use std::sync::LazyLock;

use weir::pisa::hash::HashFamily;
use weir::program::chamelemon::Config;
use weir::program::chamelemon::collector::encoding::{Form, Reader};

/// Made once: to derive the polynomials takes far longer than to read a record.
static READERS: LazyLock<[Reader; 3]> = LazyLock::new(|| {
    let small = Config { tower: "8x16+16x8".parse().unwrap(), upstream: 8, downstream: 6, ..Config::default() };
    let smaller = Config { small: 1, arrays: 2, ..small.clone() };
    let hashes = HashFamily::reproducible(0);
    [small, smaller, Config::default()].map(|config| Reader::new(Form::of(&config), &hashes))
});

pub fn run(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let reader = &READERS[usize::from(choice % 3)];
    if let Ok(sketches) = reader.read(bytes) {
        assert!(sketches.encode() == bytes && bytes.len() <= reader.form().longest());
    }
}
