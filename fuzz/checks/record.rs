//! Records of switches: any bytes are a record of the expected program and shape, or an error; what
//! is read at all is written as the same bytes, and adds up. The first byte chooses the program and its
//! shape.

use std::sync::LazyLock;

use weir::pisa::hash::HashFamily;
use weir::program::chamelemon::decoder::encoding::Form;
use weir::program::chamelemon::{ChameleMon, Config};
use weir::program::disketch::{self, DiSketch};
use weir::program::hashpipe::{self, HashPipe};
use weir::program::pint::{self, Pint};
use weir::program::{Program, ProgramConfig, RecordReader};

/// Made once, with the longest encoding: to draw the hashes takes far longer than to read a record.
static READERS: LazyLock<[(RecordReader, usize); 7]> = LazyLock::new(|| {
    let small = Config { tower: "8x16+16x8".parse().unwrap(), upstream: 8, downstream: 6, ..Config::default() };
    let smaller = Config { small: 1, arrays: 2, ..small.clone() };
    let hashes = HashFamily::reproducible(0);
    let reader = |config: Config| {
        let longest = Form::of(&config).longest();
        (ProgramConfig::new::<ChameleMon>(config).reader("s", &hashes), longest)
    };
    let hashpipe = hashpipe::Config { stages: 1, slots: 2, slots6: Some(1), ..hashpipe::Config::default() };
    let digests = hashpipe::Config { key: hashpipe::Key::Digest32, names: Some(4), ..hashpipe.clone() };
    let longest = HashPipe::longest(&digests);
    let digests = (ProgramConfig::new::<HashPipe>(digests).reader("s", &hashes), longest);
    let hashpipe = ProgramConfig::new::<HashPipe>(hashpipe).reader("s", &hashes);
    let pint = pint::Config { reports: 9, packets: 4, ..pint::Config::default() };
    let longest = Pint::longest(&pint);
    let pint = (ProgramConfig::new::<Pint>(pint).reader("s", &hashes), longest);
    let disketch = disketch::Config { memory: disketch::Memory(12), max_sub_epochs: 8, ..disketch::Config::default() };
    let longest = DiSketch::longest(&disketch);
    let disketch = (ProgramConfig::new::<DiSketch>(disketch).reader("s", &hashes), longest);
    [reader(small), reader(smaller), reader(Config::default()), (hashpipe, usize::MAX), pint, disketch, digests]
});

pub fn run(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let (reader, longest) = &READERS[usize::from(choice % 7)];
    if let Ok(record) = reader(bytes) {
        assert!(record.encode() == bytes && bytes.len() <= *longest);
        let mut sum = record.clone();
        (0..2).for_each(|_| sum.merge(&record).expect("they have one shape"));
    }
}
