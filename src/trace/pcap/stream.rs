//! pcapng written block by block, for captures that are read while they are made. `pcap-file`'s
//! writer has no way to say that timestamps are nanoseconds.

/// Little-endian, nanoseconds, Ethernet. Each call gives the bytes of one block or of several whole
/// ones.
#[derive(Debug, Default)]
pub struct PcapNgStream {
    bytes: Vec<u8>,
    interfaces: u32,
}

/// Options.
const END: u16 = 0;
const COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
const ISB_IFDROP: u16 = 5;

impl PcapNgStream {
    /// Begins a section. The comment is about all of it.
    pub fn new(comment: &str) -> Self {
        let mut stream = Self::default();
        let start = stream.begin(0x0a0d_0d0a);
        stream.words(&[0x1a2b_3c4d, 0x0000_0001, u32::MAX, u32::MAX]);
        stream.option(COMMENT, comment.as_bytes());
        stream.option(SHB_USERAPPL, concat!("weir ", env!("CARGO_PKG_VERSION")).as_bytes());
        stream.end(start);
        stream
    }

    /// Describes the next interface and gives its number.
    pub fn interface(&mut self, name: &str, description: &str, snaplen: u32) -> u32 {
        let start = self.begin(1);
        // Link type 1 is Ethernet.
        self.words(&[1, snaplen]);
        self.option(IF_NAME, name.as_bytes());
        self.option(IF_DESCRIPTION, description.as_bytes());
        self.option(IF_TSRESOL, &[9]);
        self.end(start);
        self.interfaces += 1;
        self.interfaces - 1
    }

    /// A packet with the `bytes` that were kept. `flags` are `epb_flags`.
    pub fn packet(
        &mut self,
        interface: u32,
        at_ns: u64,
        wire_bytes: u32,
        bytes: &[u8],
        flags: u32,
        comment: Option<&str>,
    ) {
        let start = self.begin(6);
        self.words(&[interface, (at_ns >> 32) as u32, at_ns as u32, bytes.len() as u32, wire_bytes]);
        self.padded(bytes);
        if let Some(comment) = comment {
            self.option(COMMENT, comment.as_bytes());
        }
        self.option(EPB_FLAGS, &flags.to_le_bytes());
        self.end(start);
    }

    /// How many packets of an interface have been missed so far.
    pub fn statistics(&mut self, interface: u32, at_ns: u64, missed: u64) {
        let start = self.begin(5);
        self.words(&[interface, (at_ns >> 32) as u32, at_ns as u32]);
        self.option(ISB_IFDROP, &missed.to_le_bytes());
        self.end(start);
    }

    /// Bytes that wait to be taken.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The whole blocks written since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.bytes.extend(word.to_le_bytes()));
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len() + bytes.len().next_multiple_of(4) - bytes.len(), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.bytes.extend(code.to_le_bytes());
        self.bytes.extend((value.len() as u16).to_le_bytes());
        self.padded(value);
    }

    fn begin(&mut self, kind: u32) -> usize {
        let start = self.bytes.len();
        self.words(&[kind, 0]);
        start
    }

    /// Ends the options, and writes the block's length at both its ends.
    fn end(&mut self, start: usize) {
        self.option(END, &[]);
        let len = (self.bytes.len() - start + 4) as u32;
        self.words(&[len]);
        self.bytes[start + 4..start + 8].copy_from_slice(&len.to_le_bytes());
    }
}
