//! The packets that leave, as captures: one for each port.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::cli::Failure;
use crate::cli::register_files::{Directory, Exports};
use crate::config::PortConfig;
use crate::lock::Hold;
use crate::replay::{Replayer, TxPacket};
use crate::trace::{CaptureError, CaptureWriter};

/// The files of a replay, which the replayer writes.
pub struct FrameFiles {
    files: Arc<Mutex<Vec<PortFile>>>,
    exports: Exports,
}

struct PortFile {
    path: PathBuf,
    /// `None` after an error.
    writer: Option<CaptureWriter<BufWriter<File>>>,
}

impl PortFile {
    fn new(directory: &Directory, path: &Path, port: &PortConfig) -> Result<Self, CaptureError> {
        let name = format!("{}.pcap", port.name);
        let writer = CaptureWriter::new(BufWriter::new(directory.create(&name)?))?;
        Ok(Self { path: path.join(name), writer: Some(writer) })
    }

    fn write(&mut self, TxPacket { at, bytes, wire_len, .. }: TxPacket<'_>, exports: &Exports) {
        let Some(writer) = &mut self.writer else { return };
        if let Err(error) = writer.write_cut(at, bytes, wire_len) {
            exports.tried(&self.path, Err(error));
            self.writer = None;
        }
    }
}

impl FrameFiles {
    /// Has all packets that leave from now on written to this new directory, a file for each port.
    pub fn start(path: &Path, ports: &[PortConfig], replayer: &mut Replayer) -> Result<Self, Failure> {
        let directory = Directory::new(path)?;
        let file = |port| PortFile::new(&directory, path, port);
        let files: Result<Vec<_>, _> = ports.iter().map(file).collect();
        let files = files.map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
        let (files, exports) = (Arc::new(Mutex::new(files)), Exports::default());
        let (written, failed) = (files.clone(), exports.clone());
        replayer.watch_tx(Box::new(move |packet| {
            let file = usize::from(packet.egress);
            written.hold().get_mut(file).into_iter().for_each(|file| file.write(packet, &failed));
        }));
        Ok(Self { files, exports })
    }

    /// Ends the files.
    ///
    /// # Errors
    /// If one could not be written.
    pub fn finish(self) -> Result<(), Failure> {
        for file in self.files.hold().iter_mut() {
            let finished = file.writer.take().map_or(Ok(()), |writer| writer.finish().map(drop));
            self.exports.tried(&file.path, finished);
        }
        self.exports.check()
    }
}
