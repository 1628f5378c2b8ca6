use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record;
use proptest::prelude::*;

use super::super::{Cell, row};
use super::*;

/// The fields of a file, and the text in its metadata.
fn read(path: &Path) -> (Vec<Vec<Field>>, Option<String>) {
    let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let field = |field: &record::Field| match field {
        record::Field::Null => Field::Empty,
        record::Field::ULong(n) => Field::Whole(*n),
        record::Field::Double(n) => Field::Number(*n),
        record::Field::Bool(yes) => Field::Truth(*yes),
        record::Field::Str(text) => Field::Text(text.clone()),
        other => panic!("{other:?}"),
    };
    let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
    let rows = rows.map(|row| row.get_column_iter().map(|(_, value)| field(value)).collect()).collect();
    let metadata = reader.metadata().file_metadata().key_value_metadata().cloned().unwrap_or_default();
    (rows, metadata.into_iter().find(|pair| pair.key == SAYS).and_then(|pair| pair.value))
}

fn field() -> impl Strategy<Value = Field> {
    prop_oneof![
        Just(Field::Empty),
        any::<u64>().prop_map(Field::Whole),
        (-1e18..1e18f64).prop_map(Field::Number),
        any::<bool>().prop_map(Field::Truth),
        "[a→, \"\n]{1,5}".prop_map(Field::Text),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A column of one kind is read as it was; of several, as text or as numbers, with the same digits.
    #[test]
    fn what_is_written_is_read(columns in prop::collection::vec(prop::collection::vec(field(), 6), 1..4), rows in 0..6usize) {
        let names: Vec<String> = (0..columns.len()).map(|at| format!("|c{at}")).collect();
        let cells = |at: usize| {
            let cell = |column: &Vec<Field>| Cell { text: String::new(), values: vec![column[at].clone()] };
            columns.iter().map(cell).collect::<Vec<_>>()
        };
        let directory = tempfile::tempdir().unwrap();
        let page = Page::default().text("what is said").table("t", Table::new(&names, (0..rows).map(cells)));
        let files = write_page(&page, directory.path(), None).unwrap();
        prop_assert_eq!(&files, &[directory.path().join("t.parquet")]);
        let (found, says) = read(&files[0]);
        prop_assert_eq!(says.as_deref(), Some("what is said"));
        prop_assert_eq!(found.len(), rows);
        for (at, column) in columns.iter().enumerate() {
            let column = &column[..rows];
            let kind = Kind::of("c", column.iter());
            for (row, field) in found.iter().zip(column) {
                let expected = match (kind, field) {
                    (_, Field::Empty) => Field::Empty,
                    (Kind::Text, field) => Field::Text(field.to_string()),
                    (Kind::Number, Field::Whole(n)) => Field::Number(*n as f64),
                    (_, field) => field.clone(),
                };
                prop_assert_eq!(&row[at], &expected);
            }
        }
    }
}

/// A column has the kind that its name says where no row has a value: files of two answers fit together.
#[test]
fn columns_without_values_have_the_kind_of_their_unit() {
    for (name, kind) in
        [("lost_packets", Kind::Whole), ("p50_ns", Kind::Whole), ("error_share", Kind::Number), ("flow", Kind::Text)]
    {
        assert_eq!(Kind::of(name, [Field::Empty].iter()), kind, "{name}");
    }
}

/// Names of tables may hold anything: the files stay in the directory, and no part of a file is left there.
#[test]
fn files_stand_in_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let table = || Table::new(["flow"], [row!["a"]]);
    let page =
        Page::default().table("../up", table()).table("pint.path:bits=8", table()).table("none", Table::default());
    write_page(&page, directory.path(), Some(3)).unwrap();
    write_page(&page, directory.path(), Some(3)).unwrap();
    let mut names: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["_up-3.parquet", "pint.path:bits=8-3.parquet"]);
    let file = directory.path().join("pint.path:bits=8-3.parquet");
    assert_eq!(read(&file), (vec![vec![Field::Text("a".into())]], None));
    let error = write_page(&page, &file, None).unwrap_err();
    assert!(error.to_string().contains("path:bits=8-3.parquet"), "{error}");
}
