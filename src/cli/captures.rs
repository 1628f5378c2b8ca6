//! Captures as commands read them: a file, or standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::output;
use crate::trace::{CaptureReader, LinkType};

/// The name that stands for standard input.
const STDIN: &str = "-";

/// Opens a capture; `-` is standard input, which is read as it comes.
pub fn open(file: &Path) -> Result<CaptureReader<Box<dyn Read>>, String> {
    let open = || -> io::Result<Box<dyn Read>> {
        Ok(if is_stdin(file) { Box::new(io::stdin().lock()) } else { Box::new(File::open(file)?) })
    };
    let opened = open().map_err(Into::into).and_then(CaptureReader::new);
    opened.map_err(|error| format!("{}: {error}", name(file)))
}

pub fn is_stdin(file: &Path) -> bool {
    file == Path::new(STDIN)
}

/// The capture's name in messages.
pub fn name(file: &Path) -> String {
    if is_stdin(file) { "standard input".into() } else { file.display().to_string() }
}

/// Says on stderr that packets of another link type than Ethernet are given an Ethernet header.
pub fn say_reframed(file: &Path, link: LinkType) {
    output::say(&format!(
        "{}: link type {}: its packets get an Ethernet header, whose 14 bytes count in place of their own link \
         header's",
        name(file),
        link.name()
    ));
}
