//! Records of comma-separated values (RFC 4180), with the line ends of text files.

/// One record, with its line end.
pub fn record<'a>(fields: impl Iterator<Item = &'a str>) -> String {
    let mut text = fields.map(field).collect::<Vec<_>>().join(",");
    // A line of nothing is no record.
    if text.is_empty() {
        text = "\"\"".into();
    }
    text + "\n"
}

/// A field, quoted where it has to be.
fn field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Records as a reader takes them, who knows the quotes of RFC 4180 and nothing else.
    fn read(text: &str) -> Vec<Vec<String>> {
        let (mut records, mut fields, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
        let mut characters = text.chars().peekable();
        while let Some(c) = characters.next() {
            match c {
                '"' if quoted && characters.peek() == Some(&'"') => field.extend(characters.next()),
                '"' => quoted = !quoted,
                ',' if !quoted => fields.push(std::mem::take(&mut field)),
                '\n' if !quoted => {
                    fields.push(std::mem::take(&mut field));
                    records.push(std::mem::take(&mut fields));
                }
                c => field.push(c),
            }
        }
        assert!(!quoted && fields.is_empty() && field.is_empty(), "{text:?}");
        records
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            records in prop::collection::vec(prop::collection::vec("[a,\"\n\r →]{0,6}", 1..5), 0..5),
        ) {
            let text: String = records.iter().map(|fields| record(fields.iter().map(String::as_str))).collect();
            prop_assert_eq!(read(&text), records);
        }
    }
}
