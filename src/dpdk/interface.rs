//! A network interface of the kernel.

use std::{
    ffi::{CStr, CString},
    fmt, io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

const SIOCETHTOOL: libc::Ioctl = 0x8946;
/// `TUNGETDEVNETNS`, since Linux 5.2.
const TUN_NAMESPACE: libc::Ioctl = 0x54e3;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// A system call about an interface that failed.
#[derive(Debug, thiserror::Error)]
pub struct SocketError {
    pub call: &'static str,
    pub interface: String,
    pub source: io::Error,
}

/// The call that looks an interface's name up.
const NAMED: &str = "if_nametoindex";

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, interface, source } = self;
        if *call != NAMED || source.raw_os_error() != Some(libc::ENODEV) {
            return write!(f, "{call} on {interface}: {source}");
        }
        write!(f, "there is no interface {interface} here; ")?;
        match names() {
            names if names.is_empty() => f.write_str("there is none but the loopback"),
            names if names.len() > SHOWN => write!(f, "there are {}, …", names[..SHOWN].join(", ")),
            names => write!(f, "there is {}", names.join(", ")),
        }
    }
}

/// Interfaces that an error names.
const SHOWN: usize = 12;

/// The interfaces of this network namespace, without the loopback.
fn names() -> Vec<String> {
    // SAFETY: gives an array that ends with a null name, or null.
    let all = unsafe { libc::if_nameindex() };
    let mut names = Vec::new();
    let mut next = all;
    // SAFETY: the array has an element here, up to the one with a null name; names are C strings.
    while let Some(name) = unsafe { next.as_ref() }.map(|element| element.if_name).filter(|name| !name.is_null()) {
        // SAFETY: as above; the next element is at most the last.
        let (text, after) = unsafe { (CStr::from_ptr(name), next.add(1)) };
        names.push(text.to_string_lossy().into_owned());
        next = after;
    }
    if !all.is_null() {
        // SAFETY: the array from above, once.
        unsafe { libc::if_freenameindex(all) };
    }
    names.retain(|name| name != "lo");
    names
}

/// The network namespace that the interface of a tap descriptor is in now. Takes CAP_NET_ADMIN there.
pub fn tap_namespace(fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes no argument, and fails for what is no tap descriptor or not open.
    let namespace = unsafe { libc::ioctl(fd, TUN_NAMESPACE, 0) };
    if namespace < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(namespace) })
}

/// The state of an interface since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Here,
    /// None has its name.
    Gone,
    /// Another one has its name.
    Replaced,
}

/// An interface in the network namespace that we were in when it was opened.
#[derive(Debug)]
pub struct Interface {
    name: String,
    index: i32,
    /// Any socket does for the calls that name an interface.
    socket: OwnedFd,
}

impl Interface {
    pub fn open(name: &str) -> Result<Self, SocketError> {
        let error = |call| SocketError { call, interface: name.to_owned(), source: io::Error::last_os_error() };
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(error("socket"));
        }
        // SAFETY: a new descriptor without another owner.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let c_name = CString::new(name).unwrap_or_default();
        // SAFETY: a C string.
        let index = unsafe { libc::if_nametoindex(c_name.as_ptr()) };
        if index == 0 {
            return Err(error(NAMED));
        }
        Ok(Self { name: name.to_owned(), index: index.cast_signed(), socket })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kernel's number of the interface, unique in its network namespace.
    pub fn index(&self) -> i32 {
        self.index
    }

    pub(super) fn error(&self, call: &'static str) -> SocketError {
        SocketError { call, interface: self.name.clone(), source: io::Error::last_os_error() }
    }

    /// Whether the interface is still the one that has its name. One that was renamed or moved
    /// counts as gone.
    pub fn presence(&self) -> Presence {
        let mut request = self.request();
        if self.ioctl("SIOCGIFINDEX", libc::SIOCGIFINDEX, &mut request).is_err() {
            return Presence::Gone;
        }
        // SAFETY: the member that this call fills.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        if index == self.index { Presence::Here } else { Presence::Replaced }
    }

    /// Up, and with a peer or cable at the other end.
    pub fn is_running(&self) -> Result<bool, SocketError> {
        let both = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        Ok(self.flags()? & both == both)
    }

    pub fn is_up(&self) -> Result<bool, SocketError> {
        Ok(self.flags()? & libc::IFF_UP as i16 != 0)
    }

    /// Takes the interface up or down, which needs CAP_NET_ADMIN.
    pub fn set_up(&self, up: bool) -> Result<(), SocketError> {
        let flags = self.flags()?;
        let bit = libc::IFF_UP as i16;
        let mut request = self.request();
        request.ifr_ifru.ifru_flags = if up { flags | bit } else { flags & !bit };
        self.ioctl("SIOCSIFFLAGS", libc::SIOCSIFFLAGS, &mut request)
    }

    pub fn mtu(&self) -> Result<u16, SocketError> {
        let mut request = self.request();
        self.ioctl("SIOCGIFMTU", libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: the member that this call fills.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        Ok(u16::try_from(mtu).unwrap_or(u16::MAX))
    }

    pub fn set_mtu(&self, mtu: u16) -> Result<(), SocketError> {
        let mut request = self.request();
        request.ifr_ifru.ifru_mtu = mtu.into();
        self.ioctl("SIOCSIFMTU", libc::SIOCSIFMTU, &mut request)
    }

    pub fn mac(&self) -> Result<[u8; 6], SocketError> {
        let mut request = self.request();
        self.ioctl("SIOCGIFHWADDR", libc::SIOCGIFHWADDR, &mut request)?;
        // SAFETY: the member that this call fills.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr }.sa_data;
        Ok(std::array::from_fn(|i| address[i].cast_unsigned()))
    }

    /// Receive queues that the kernel spreads the interface's packets over.
    pub fn rx_channels(&self) -> Result<u32, SocketError> {
        // struct ethtool_channels: command, four maxima, then receive, transmit, other, combined.
        let mut channels = [0u32; 9];
        channels[0] = ETHTOOL_GCHANNELS;
        match self.ethtool(&mut channels) {
            Ok(()) => Ok((channels[5] + channels[8]).max(1)),
            // One that cannot be asked has one.
            Err(error) if error.source.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(1),
            Err(error) => Err(error),
        }
    }

    /// The name of its driver, empty when it does not say.
    pub fn driver(&self) -> String {
        // struct ethtool_drvinfo: command, then the driver's name in 32 bytes.
        let mut info = [0u32; 64];
        info[0] = ETHTOOL_GDRVINFO;
        if self.ethtool(&mut info).is_err() {
            return String::new();
        }
        let name = info[1..9].iter().flat_map(|word| word.to_ne_bytes()).take_while(|&byte| byte != 0);
        String::from_utf8_lossy(&name.collect::<Vec<_>>()).into_owned()
    }

    /// `words` is at least as long as the command's structure.
    fn ethtool(&self, words: &mut [u32]) -> Result<(), SocketError> {
        let mut request = self.request();
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        self.ioctl("SIOCETHTOOL", SIOCETHTOOL, &mut request)
    }

    fn flags(&self) -> Result<i16, SocketError> {
        let mut request = self.request();
        self.ioctl("SIOCGIFFLAGS", libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: the member that this call fills.
        Ok(unsafe { request.ifr_ifru.ifru_flags })
    }

    fn request(&self) -> libc::ifreq {
        // SAFETY: integers and arrays of them, for which zero is valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // The last byte stays zero; no interface has a longer name.
        let places = request.ifr_name.len() - 1;
        for (to, from) in request.ifr_name[..places].iter_mut().zip(self.name.bytes()) {
            *to = from.cast_signed();
        }
        request
    }

    fn ioctl(&self, call: &'static str, number: libc::Ioctl, request: &mut libc::ifreq) -> Result<(), SocketError> {
        // SAFETY: these calls read and write one ifreq; SIOCETHTOOL also what it points at, which
        // is as long as it must.
        let code = unsafe { libc::ioctl(self.socket.as_raw_fd(), number, request) };
        if code < 0 { Err(self.error(call)) } else { Ok(()) }
    }
}
