use proptest::prelude::*;

use super::*;

/// The lines of a table that is this wide.
fn lines(columns: &[Column<'_>], keys: usize, width: usize) -> Vec<String> {
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let of_part = |part: &Vec<Placed>| {
        let heading = line(part, |at| columns[at].heading, columns, true);
        let rows = (0..rows).flat_map(|row| line(part, |at| columns[at].cells[row], columns, false));
        heading.into_iter().chain(rows.collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    parts(columns, keys, width).iter().flat_map(of_part).collect()
}

#[test]
fn texts_go_on_in_the_next_line_and_numbers_do_not() {
    let columns = [
        Column {
            heading: "flow",
            is_right: false,
            cells: vec!["[2001:db8::1]:40000 → [2001:db8::2]:443 tcp", "short"],
        },
        Column { heading: "packets in", is_right: true, cells: vec!["18 446 744 073 709 551 615", "7"] },
        Column { heading: "why", is_right: false, cells: vec!["1 000 of them", ""] },
    ];
    let number = "18 446 744 073 709 551 615";
    assert_eq!(
        lines(&columns, 1, 70),
        [
            format!("{:27}  {:>26}  why", "flow", "packets in"),
            format!("{:27}  {number}  1 000 of them", "[2001:db8::1]:40000 →"),
            "[2001:db8::2]:443 tcp".into(),
            format!("{:27}  {:>26}", "short", 7),
        ]
    );
    assert_eq!(
        lines(&columns, 1, 60),
        [
            format!("{:32}  {:>26}", "flow", "packets in"),
            format!("{:32}  {number}", "[2001:db8::1]:40000 →"),
            "[2001:db8::2]:443 tcp".into(),
            format!("{:32}  {:>26}", "short", 7),
            format!("{:43}  why", "flow"),
            "[2001:db8::1]:40000 → [2001:db8::2]:443 tcp  1 000 of them".into(),
            "short".into(),
        ]
    );
}

/// Also where all columns say what a row is about, or there is one alone.
#[test]
fn a_table_of_keys_is_whole() {
    let column = |text| Column { heading: "key", is_right: false, cells: vec![text] };
    let columns = [column("one two three four five"), column("six seven eight nine ten")];
    for count in [1, 2] {
        let text = lines(&columns[..count], count, 14).join(" ");
        assert!(
            ["one", "five"].iter().all(|word| text.contains(word)) && text.contains("ten") == (count == 2),
            "{text}"
        );
    }
}

#[test]
fn a_paragraph_keeps_its_margin() {
    assert_eq!(wrapped("  gap: 12 of them  are late", 16), ["  gap: 12 of", "  them  are late"]);
    assert_eq!(wrapped("  short", 16), ["  short"]);
}

proptest! {
    /// However narrow: no line is too wide, no character is lost, and a number is in one line.
    #[test]
    fn tables_fit_and_nothing_is_cut(
        words in prop::collection::vec(prop::collection::vec("([a-z:→]{1,90}( {1,3}[a-z]{1,9}){0,12})?", 3), 1..6),
        numbers in prop::collection::vec(prop::collection::vec("[1-9][0-9]?( [0-9]{3}){0,6}", 3), 0..12),
        keys in 0usize..3,
        width in 60usize..140,
    ) {
        let texts = words.iter().map(|cells| (false, cells)).chain(numbers.iter().map(|cells| (true, cells)));
        let columns: Vec<_> = texts
            .map(|(is_right, cells)| Column {
                heading: "a heading",
                is_right,
                cells: cells.iter().map(String::as_str).collect(),
            })
            .collect();
        let keys = keys.min(words.len());
        let lines = lines(&columns, keys, width);
        for line in &lines {
            prop_assert!(line.width() <= width, "{width}: {line:?}");
        }
        for number in numbers.iter().flatten() {
            prop_assert!(lines.iter().any(|line| line.contains(number)), "{number}: {lines:#?}");
        }
        let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
        let shown: usize = lines.iter().map(|line| letters(line)).sum();
        let columns_alone: usize = columns.iter().flat_map(Column::texts).map(letters).sum();
        prop_assert!(shown >= columns_alone, "{shown} of {columns_alone}: {lines:#?}");
    }
}
