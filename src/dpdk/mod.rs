//! DPDK made safe, and the other system interfaces that need `unsafe`: generated bindings, owners
//! of the library's resources, and an API that cannot be misused. The rest of weir has no
//! `unsafe` for I/O.
#![allow(unsafe_code)]

mod arguments;
mod eal;
mod error;
mod ethdev;
mod interface;
mod lcore;
mod log;
mod mbuf;
mod mempool;
mod packet_batch;
mod packet_socket;
mod peer;
mod sys;
pub mod threads;
mod waiting;
pub mod xdp_queue;
mod xdp_sockets;

pub use arguments::{EalOptions, HugePages};
pub use eal::{Eal, EalError};
pub use error::DpdkError;
pub use ethdev::{EthConfig, EthDev, EthRx, EthStats, EthTx};
pub use interface::{Interface, Presence, SocketError, tap_namespace};
pub use lcore::{Lcore, LcoreError, cycles, cycles_per_second};
pub use mbuf::{Burst, Mbuf, free_burst};
pub use mempool::{Mempool, PoolOptions};
pub use packet_batch::{JOINED_HEADERS, Received, Run, RxBatch, TX_SEGMENTS, TxBatch};
pub use packet_socket::{Direction, PacketSocket, VnetHeader};
pub use peer::Peer;
pub use waiting::{Waiting, sleep_precisely};
pub use xdp_sockets::{LentBuffers, XdpSockets};
