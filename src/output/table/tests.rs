use super::super::{Page, Style};
use super::*;

fn table() -> Table {
    let rows = [
        row![
            "a",
            1_234_567u64,
            Cell::or("-", None::<u64>),
            Cell::ns(1500),
            Cell::between([Some(1u64), None], |n| n.to_string())
        ],
        row!["b, \"c\"", 0u64, Cell::or("-", None::<u64>), Cell::share(0.0123), Cell::default()],
    ];
    Table::new(["name", ">rx packets", ">true?", ">p50|p50_ns", ">between|low,high"], rows)
}

#[test]
fn a_row_is_a_line_of_plain_digits_in_a_pipe() {
    let text =
        "name    rx packets      p50  between\na          1234567  1.50 µs   1 to ?\nb, \"c\"           0   1.23 %";
    assert_eq!(table().text(Style::Plain), text);
}

#[test]
fn csv_has_every_column_without_units() {
    let csv = "name,rx_packets,true,p50_ns,low,high\na,1234567,,1500,1,\n\"b, \"\"c\"\"\",0,,0.0123,,\n";
    assert_eq!(table().csv(false), csv);
    assert_eq!(table().csv(true), csv.split_once('\n').unwrap().1);
}

/// Thousands are grouped where the cell is made, so that CSV never has them.
#[test]
fn csv_of_a_terminal_is_the_same() {
    let piped = table().csv(false);
    Style::Terminal { columns: 30 }.set();
    assert_eq!(table().csv(false), piped);
    assert!(table().text(Style::current()).contains("1 234 567"));
}

#[test]
fn columns_of_csv_alone_stand_in_front() {
    let columns = [("first_epoch", 7u64.into()), ("complete", true.into())];
    let table = Table::new(["flow", ">#|"], [row!["a", 1u64]]).beside(&columns);
    assert_eq!(table.csv(false), "first_epoch,complete,flow\n7,true,a\n");
    assert_eq!(table.text(Style::Plain), "flow  #\na     1");
}

#[test]
fn pages_name_their_tables() {
    let page = Page::default().text("first").table("a", table()).text("").table("b", Table::default());
    assert_eq!(page.to_text(Style::Plain), format!("first\n\n{}", table().text(Style::Plain)));
    assert_eq!(page.of("x").tables().map(|(name, _)| name).collect::<Vec<_>>(), ["x.a", "x.b"]);
}
