//! The shape of plain frames, as tables for instructions that take many bytes at a time.

use core::mem::offset_of;

use crate::wire::{Headers, NOTHING, Net, ethertype, proto, shim};

pub const MACS: usize = 12;
pub const BEHIND_SHIM: usize = MACS + shim::LEN;
/// Bytes that are looked at from the EtherType on, up to the ports.
pub const PLAIN: usize = 2 + 20 + 4;

/// Where the front of the headers comes from, of frames that are plain from the EtherType on, which stands
/// at `at`: bytes of the frame by their offset, or [`NOTHING`], and what stands there then.
pub const fn front(at: usize) -> ([u8; Headers::FRONT], [u8; Headers::FRONT]) {
    let (mut from, mut fixed) = ([NOTHING; Headers::FRONT], [0; Headers::FRONT]);
    let mut field = 0;
    /// A field that is a number, its length, and where its highest byte stands from the EtherType on.
    const NUMBERS: [(usize, usize, usize); 7] = [
        (offset_of!(Headers, src_ip), 4, 14),
        (offset_of!(Headers, dst_ip), 4, 18),
        (offset_of!(Headers, sport), 2, 22),
        (offset_of!(Headers, dport), 2, 24),
        (offset_of!(Headers, tos), 1, 3),
        (offset_of!(Headers, ttl), 1, 10),
        (offset_of!(Headers, proto), 1, 11),
    ];
    while field < NUMBERS.len() {
        let (number, len, highest) = NUMBERS[field];
        let mut byte = 0;
        while byte < len {
            from[number + byte] = (at + highest + len - 1 - byte) as u8;
            byte += 1;
        }
        field += 1;
    }
    let mut byte = 0;
    while byte < 6 {
        from[offset_of!(Headers, dst) + byte] = byte as u8;
        from[offset_of!(Headers, src) + byte] = 6 + byte as u8;
        byte += 1;
    }
    fixed[offset_of!(Headers, ethertype)] = ethertype::IPV4 as u8;
    fixed[offset_of!(Headers, ethertype) + 1] = (ethertype::IPV4 >> 8) as u8;
    fixed[offset_of!(Headers, l3)] = (at + 2) as u8;
    fixed[offset_of!(Headers, l4)] = (at + 2 + 20) as u8;
    fixed[offset_of!(Headers, net)] = Net::Ipv4 as u8;
    (from, fixed)
}

/// The bits of a frame that is plain from the EtherType at `at` on, by offset: which bits, their values in
/// a TCP packet, and their values in a UDP packet. Behind a shim, that is of a known version.
pub const fn shape(at: usize) -> [[u8; 64]; 3] {
    let mut shape = [[0; 64]; 3];
    const BYTES: [(usize, u8, u8, u8); 6] = [
        (0, 0xff, (ethertype::IPV4 >> 8) as u8, (ethertype::IPV4 >> 8) as u8),
        (1, 0xff, ethertype::IPV4 as u8, ethertype::IPV4 as u8),
        (2, 0xff, 0x45, 0x45),
        // Of the bits before a fragment's offset, that more follow.
        (8, 0x3f, 0, 0),
        (9, 0xff, 0, 0),
        (11, 0xff, proto::TCP, proto::UDP),
    ];
    let mut byte = 0;
    while byte < BYTES.len() {
        let (place, bits, tcp, udp) = BYTES[byte];
        (shape[0][at + place], shape[1][at + place], shape[2][at + place]) = (bits, tcp, udp);
        byte += 1;
    }
    if at == BEHIND_SHIM {
        const SHIM: [(usize, u8, u8); 3] = [
            (MACS, 0xff, (ethertype::SHIM >> 8) as u8),
            (MACS + 1, 0xff, ethertype::SHIM as u8),
            (MACS + 3, shim::VERSION_BITS, shim::VERSION << shim::VERSION_BITS.trailing_zeros()),
        ];
        let mut byte = 0;
        while byte < SHIM.len() {
            let (place, bits, value) = SHIM[byte];
            (shape[0][place], shape[1][place], shape[2][place]) = (bits, value, value);
            byte += 1;
        }
    }
    shape
}

/// A bit for each byte that comes from somewhere.
pub const fn some<const N: usize>(from: &[u8; N]) -> u64 {
    let (mut mask, mut byte) = (0, 0);
    while byte < N {
        mask |= ((from[byte] != NOTHING) as u64) << byte;
        byte += 1;
    }
    mask
}

/// The places in 16 bytes of a frame from `from` on of what stands at `at` and behind in the front of the headers;
/// of other bytes a place that VPSHUFB makes 0.
pub const fn piece(front: &[u8; Headers::FRONT], at: usize, from: usize) -> [u8; 16] {
    let (mut piece, mut byte) = ([NOTHING; 16], 0);
    while byte < piece.len() {
        let place = front[at + byte] as usize;
        if front[at + byte] != NOTHING && place >= from && place < from + piece.len() {
            piece[byte] = (place - from) as u8;
        }
        byte += 1;
    }
    piece
}

/// 16 bytes of these from `from` on.
pub const fn part(bytes: &[u8; 64], from: usize) -> [u8; 16] {
    let (mut part, mut byte) = ([0; 16], 0);
    while byte < part.len() {
        part[byte] = bytes[from + byte];
        byte += 1;
    }
    part
}
