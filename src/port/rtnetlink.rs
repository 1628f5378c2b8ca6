//! What the kernel says of an interface by rtnetlink, in its own network namespace or in another.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

// linux/netlink.h
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLMSG_ERROR: u16 = 2;
const HEADER: usize = 16;
// linux/rtnetlink.h, linux/if_link.h, linux/net_namespace.h
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWNSID: u16 = 88;
const RTM_GETNSID: u16 = 90;
const IFINFO: usize = 16;
const RTGEN: usize = 4;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_STATS64: u16 = 23;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_TARGET_NETNSID: u16 = 46;
const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;
/// Of an attribute's type the bits that are none of it.
const FLAGS: u16 = 0xc000;

/// Which interface is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which<'a> {
    Index(i32),
    Name(&'a str),
}

/// A network namespace, by the number that the kernel gave it in ours; `None` is ours.
pub(super) type Namespace = Option<i32>;

/// An interface as the kernel describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LinkInfo {
    pub name: String,
    /// The kind of a virtual one: `veth`, `tun`, `bridge`.
    pub kind: String,
    /// The interface at its other end, or below it.
    pub lower: Option<(i32, Namespace)>,
    /// The bridge or bond that it is a port of.
    pub master: Option<i32>,
    pub counts: LinkCounts,
}

/// The kernel's counters of packets that did not pass (`struct rtnl_link_stats64`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LinkCounts {
    pub rx_errors: u64,
    pub tx_errors: u64,
    pub rx_dropped: u64,
    pub tx_dropped: u64,
    pub rx_missed: u64,
}

pub(super) fn socket() -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)
}

/// Describes an interface. Another namespace than ours takes CAP_NET_ADMIN in it.
pub(super) fn link(socket: &OwnedFd, which: Which<'_>, namespace: Namespace) -> Result<LinkInfo, Errno> {
    let mut body = vec![0; IFINFO];
    match which {
        Which::Index(index) => body[4..8].copy_from_slice(&index.to_ne_bytes()),
        Which::Name(name) => attribute(&mut body, IFLA_IFNAME, format!("{name}\0").as_bytes()),
    }
    if let Some(number) = namespace {
        attribute(&mut body, IFLA_TARGET_NETNSID, &number.to_ne_bytes());
    }
    let answer = ask(socket, RTM_GETLINK, 0, &body)?.ok_or(Errno::NODEV)?;
    Ok(described(answer.get(IFINFO..).unwrap_or_default()))
}

/// The number of a network namespace that is not ours, which the kernel gives it when it has none.
pub(super) fn number_of(socket: &OwnedFd, namespace: &OwnedFd) -> Result<i32, Errno> {
    let fd = namespace.as_fd().as_raw_fd().to_ne_bytes();
    let known = || {
        let mut body = vec![0; RTGEN];
        attribute(&mut body, NETNSA_FD, &fd);
        let answer = ask(socket, RTM_GETNSID, 0, &body)?.unwrap_or_default();
        let number = attributes(answer.get(RTGEN..).unwrap_or_default()).find(|(kind, _)| *kind == NETNSA_NSID);
        Ok(number.and_then(|(_, value)| integer(value)).filter(|number| *number >= 0))
    };
    if let Some(number) = known()? {
        return Ok(number);
    }
    let mut body = vec![0; RTGEN];
    attribute(&mut body, NETNSA_NSID, &(-1i32).to_ne_bytes());
    attribute(&mut body, NETNSA_FD, &fd);
    ask(socket, RTM_NEWNSID, NLM_F_ACK, &body)?;
    known()?.ok_or(Errno::NODEV)
}

/// Sends a request and gives the body of the answer, `None` for a mere acknowledgement.
fn ask(socket: &OwnedFd, kind: u16, flags: u16, body: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
    let mut request = Vec::with_capacity(HEADER + body.len());
    request.extend(u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend((NLM_F_REQUEST | flags).to_ne_bytes());
    request.extend([0; 8]);
    request.extend(body);
    rustix::net::send(socket, &request, SendFlags::empty())?;
    let mut answer = vec![0; 32 << 10];
    // The kernel has answered when the call above returns.
    let (length, _) = rustix::net::recv(socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    answer.truncate(length);
    let (Some(of), Some(code)) = (answer.get(4..6), answer.get(HEADER..HEADER + 4)) else { return Err(Errno::BADMSG) };
    match u16::from_ne_bytes([of[0], of[1]]) {
        NLMSG_ERROR => match integer(code).unwrap_or_default() {
            0 => Ok(None),
            error => Err(Errno::from_raw_os_error(error.saturating_neg())),
        },
        RTM_NEWLINK | RTM_NEWNSID => Ok(Some(answer.split_off(HEADER))),
        _ => Err(Errno::BADMSG),
    }
}

fn described(body: &[u8]) -> LinkInfo {
    let mut info = LinkInfo::default();
    let (mut lower, mut namespace) = (None, None);
    for (kind, value) in attributes(body) {
        match kind {
            IFLA_IFNAME => info.name = text(value),
            IFLA_LINK => lower = integer(value),
            IFLA_LINK_NETNSID => namespace = integer(value),
            IFLA_MASTER => info.master = integer(value),
            IFLA_STATS64 => info.counts = counts(value),
            IFLA_LINKINFO => {
                let kind = attributes(value).find(|(kind, _)| *kind == IFLA_INFO_KIND);
                info.kind = kind.map(|(_, value)| text(value)).unwrap_or_default();
            }
            _ => {}
        }
    }
    info.lower = lower.map(|index| (index, namespace));
    info
}

fn counts(value: &[u8]) -> LinkCounts {
    let at = |n: usize| value.get(8 * n..8 * n + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes);
    LinkCounts { rx_errors: at(4), tx_errors: at(5), rx_dropped: at(6), tx_dropped: at(7), rx_missed: at(15) }
}

fn integer(value: &[u8]) -> Option<i32> {
    Some(i32::from_ne_bytes(value.get(..4)?.try_into().ok()?))
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
}

/// Adds an attribute. All are padded to four bytes.
fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend(u16::try_from(4 + value.len()).unwrap_or(u16::MAX).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// The attributes of a message, as far as they are whole.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = (rest.get(..2)?, rest.get(2..4)?);
        let length = usize::from(u16::from_ne_bytes([length[0], length[1]]));
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([kind[0], kind[1]]) & !FLAGS, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_described() {
        let socket = socket().unwrap();
        let lo = link(&socket, Which::Name("lo"), None).unwrap();
        assert_eq!((lo.name.as_str(), lo.lower, lo.master), ("lo", None, None));
        assert_eq!(link(&socket, Which::Index(1), None).unwrap().name, "lo");
        assert_eq!(link(&socket, Which::Name("no-such"), None), Err(Errno::NODEV));
    }

    #[test]
    fn attributes_are_read_as_they_are_written() {
        let mut body = Vec::new();
        attribute(&mut body, IFLA_IFNAME, b"p1\0");
        attribute(&mut body, IFLA_LINK, &7i32.to_ne_bytes());
        attribute(&mut body, IFLA_LINK_NETNSID, &2i32.to_ne_bytes());
        attribute(&mut body, IFLA_MASTER, &9i32.to_ne_bytes());
        let mut inner = Vec::new();
        attribute(&mut inner, IFLA_INFO_KIND, b"veth\0");
        attribute(&mut body, IFLA_LINKINFO | 0x8000, &inner);
        attribute(&mut body, IFLA_STATS64, &(0..24u64).flat_map(u64::to_ne_bytes).collect::<Vec<_>>());
        let counts = LinkCounts { rx_errors: 4, tx_errors: 5, rx_dropped: 6, tx_dropped: 7, rx_missed: 15 };
        let whole =
            LinkInfo { name: "p1".into(), kind: "veth".into(), lower: Some((7, Some(2))), master: Some(9), counts };
        assert_eq!(described(&body), whole);
        // What is cut off anywhere is no reason to read beyond it.
        (0..body.len()).for_each(|length| drop(described(&body[..length])));
    }
}
