//! Filters: a text, a NUL, a frame. Nothing panics, an error points into the text, and what a
//! filter says of a frame it says again when it is read back from what it prints.

use weir::wire::{Filter, Headers, parse};

pub fn run(bytes: &[u8]) {
    let (text, frame) = match bytes.iter().position(|&byte| byte == 0) {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, &[][..]),
    };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let mut headers = Headers::default();
    if parse(frame, &mut headers).is_err() {
        headers = Headers::default();
    }
    let length = frame.len() as u32;
    match text.parse::<Filter>() {
        Ok(filter) => {
            let again = filter.to_string().parse::<Filter>().unwrap();
            assert_eq!(again, filter);
            assert_eq!(again.matches(&headers, frame, length), filter.matches(&headers, frame, length));
            let negated: Filter = match format!("not ({filter})").parse() {
                Ok(negated) if !filter.is_all() => negated,
                // One level more than is allowed, or nothing to negate.
                _ => return,
            };
            assert_ne!(negated.matches(&headers, frame, length), filter.matches(&headers, frame, length));
        }
        Err(error) => {
            assert!(error.text.get(error.at.clone()).is_some());
            assert!(error.to_string().contains('^'));
        }
    }
}
