//! What the fuzz target `signature` checks, on its seeds and on every beginning of each.

use std::fs;
use std::path::Path;

#[path = "../../fuzz/checks/signature.rs"]
mod signature;

#[test]
fn signatures() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/signature");
    let mut count = 0;
    for seed in fs::read_dir(&seeds).unwrap() {
        let bytes = fs::read(seed.unwrap().path()).unwrap();
        (0..=bytes.len()).for_each(|end| signature::run(&bytes[..end]));
        count += 1;
    }
    assert!(count > 3, "{} has few seeds", seeds.display());
}
