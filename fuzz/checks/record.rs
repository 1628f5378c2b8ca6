//! Records of switches: any bytes are sketches or an error; what is read at all is written as the same bytes. The first byte
//! chooses the shape that is expected.

use weir::pisa::hash::Polynomials;
use weir::program::chamelemon::Config;
use weir::program::chamelemon::collector::encoding::{Form, Reader};

pub fn run(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let small = Config { tower: "8x16+16x8".parse().unwrap(), upstream: 8, downstream: 6, ..Config::default() };
    let form = match choice % 3 {
        0 => Form::of(&small),
        1 => Form::of(&Config { small: 1, arrays: 2, ..small }),
        _ => Form::of(&Config::default()),
    };
    let longest = form.longest();
    if let Ok(sketches) = Reader::new(form, &Polynomials::standard()).read(bytes) {
        assert!(sketches.encode() == bytes && bytes.len() <= longest);
    }
}
