//! The thread that exports what a switch or a controller measures.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};

use super::exporter::{Exporter, Source, Transport};
use crate::api::exported::ExportCounters;
use crate::config::IpfixConfig;
use crate::telemetry::epoch::wall_clock;

/// How often it is looked for epochs whose answers are final.
const EVERY: Duration = Duration::from_millis(200);

/// Exports until it is dropped. Then it exports what has become final by then.
pub struct ExportThread {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ExportThread {
    /// Starts to export to this collector.
    ///
    /// # Errors
    /// If there is no way to the collector from here, or no thread can be started.
    pub fn start(
        config: IpfixConfig,
        collector: SocketAddr,
        source: Source,
        counters: Arc<ExportCounters>,
    ) -> io::Result<Self> {
        let mut exporter = Exporter::new(config, source, udp(collector)?, counters);
        let (stop, stopped) = bounded(1);
        let thread = std::thread::Builder::new().name("weir-ipfix".into()).spawn(move || {
            exporter.round(wall_clock());
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(EVERY) {
                exporter.round(wall_clock());
            }
            exporter.round(wall_clock());
        });
        Ok(Self { stop: Some(stop), thread: Some(thread?) })
    }
}

impl Drop for ExportThread {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends to a collector, and waits for nothing.
fn udp(collector: SocketAddr) -> io::Result<Transport> {
    let from: SocketAddr = match collector {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(from)?;
    socket.set_nonblocking(true)?;
    let mut connected = false;
    Ok(Box::new(move |bytes| {
        // A route may come later.
        if !connected {
            socket.connect(collector)?;
            connected = true;
        }
        socket.send(bytes).map(drop)
    }))
}
