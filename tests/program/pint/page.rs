//! What `docs/pint.md` says of the bytes on the wire.

use weir::wire::shim;

/// INT adds eight bytes and four for each value and hop (§2); weir's shim has the same length for all.
#[test]
fn the_page_has_the_bytes_of_int_and_the_shim() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/pint.md")).unwrap();
    let (_, behind) = page.split_once("## Bytes on the wire").expect("the section");
    let section = behind.split("\n## ").next().unwrap();
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().parse().ok()).collect();
    let rows = section.lines().filter(|line| line.starts_with('|')).map(cells);
    let rows: Vec<Vec<usize>> = rows.filter_map(|row: Vec<Option<usize>>| row.into_iter().collect()).collect();
    let expected = |hops: usize| {
        let int = (1..=5).map(|values| 8 + 4 * values * hops);
        [hops].into_iter().chain(int).chain([size_of::<u16>(), shim::LEN]).collect::<Vec<_>>()
    };
    assert_eq!(rows, (1..=16).map(expected).collect::<Vec<_>>());
}
