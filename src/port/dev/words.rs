//! The arguments of each kind of device, as a user writes them.

use std::fmt;

use super::Dev;

/// Longest name of a network interface in bytes (IFNAMSIZ without the zero).
const INTERFACE_NAME: usize = 15;
/// Longest path of a socket in bytes (`sun_path` without the zero).
const SOCKET_PATH: usize = 107;
const MEMIF_SOCKET: &str = "/run/memif.sock";
const MAX_QUEUES: u16 = 64;

pub(super) fn interface(name: &str, example: &str) -> Result<String, String> {
    // The kernel's own rule (dev_valid_name), and no comma, which would end the argument of a DPDK
    // device.
    let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | ':' | ',');
    if name.is_empty() || name.len() > INTERFACE_NAME || name.contains(odd) || matches!(name, "." | "..") {
        return Err(format!(
            "an interface name has 1 to {INTERFACE_NAME} characters, none of them a space, slash, colon or comma, as in {example}"
        ));
    }
    Ok(name.to_owned())
}

pub(super) fn veth(arguments: &str) -> Result<Dev, String> {
    let (name, rest) = arguments.split_once(',').unwrap_or((arguments, ""));
    let (interface, mut cut) = (interface(name, "veth:veth0")?, false);
    for word in words(rest) {
        cut = match word {
            "segments=whole" => false,
            "segments=cut" => true,
            _ => return Err(format!("`{word}`: expected segments=whole or segments=cut")),
        };
    }
    Ok(Dev::Veth { interface, cut })
}

pub(super) fn xdp(arguments: &str) -> Result<Dev, String> {
    let (name, rest) = arguments.split_once(',').unwrap_or((arguments, ""));
    let (interface, mut queues, mut copy) = (interface(name, "xdp:eth0")?, None, false);
    for word in words(rest) {
        match word.split_once('=') {
            Some(("queues", value)) => queues = Some(queue_count(value)?),
            None if word == "copy" => copy = true,
            _ => return Err(format!("`{word}`: expected queues=N or copy")),
        }
    }
    Ok(Dev::Xdp { interface, queues, copy })
}

pub(super) fn memif(arguments: &str) -> Result<Dev, String> {
    let (id, rest) = arguments.split_once(',').unwrap_or((arguments, ""));
    let id = id.parse().map_err(|_| "a memif has a number, the same at both ends, as in memif:0".to_owned())?;
    let (mut server, mut socket) = (true, MEMIF_SOCKET.to_owned());
    for word in words(rest) {
        match word.split_once('=') {
            Some(("role", "server")) => server = true,
            Some(("role", "client")) => server = false,
            Some(("socket", path)) => socket = socket_path(path, "memif:0,socket=/run/memif.sock")?,
            _ => return Err(format!("`{word}`: expected role=server, role=client or socket=PATH")),
        }
    }
    Ok(Dev::Memif { id, server, socket })
}

pub(super) fn vhost(arguments: &str) -> Result<Dev, String> {
    let (path, rest) = arguments.split_once(',').unwrap_or((arguments, ""));
    let (path, mut queues, mut client) = (socket_path(path, "vhost:/run/vm1.sock")?, None, false);
    for word in words(rest) {
        match word.split_once('=') {
            Some(("queues", value)) => queues = Some(queue_count(value)?),
            None if word == "client" => client = true,
            _ => return Err(format!("`{word}`: expected queues=N or client")),
        }
    }
    Ok(Dev::Vhost { path, queues, client })
}

pub(super) fn virtio_user(arguments: &str) -> Result<Dev, String> {
    let (path, rest) = arguments.split_once(',').unwrap_or((arguments, ""));
    let (path, mut queues) = (socket_path(path, "virtio-user:/run/vm1.sock")?, None);
    for word in words(rest) {
        match word.split_once('=') {
            Some(("queues", value)) => queues = Some(queue_count(value)?),
            _ => return Err(format!("`{word}`: expected queues=N")),
        }
    }
    Ok(Dev::VirtioUser { path, queues })
}

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').filter(|word| !word.is_empty())
}

fn queue_count(value: &str) -> Result<u16, String> {
    let number = value.parse().ok().filter(|n| (1..=MAX_QUEUES).contains(n));
    number.ok_or_else(|| format!("queues={value}: expected 1 to {MAX_QUEUES}"))
}

/// An absolute path that DPDK's arguments can hold.
fn socket_path(path: &str, example: &str) -> Result<String, String> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, ',' | '=' | '[' | ']' | '"');
    if !path.starts_with('/') || path.len() > SOCKET_PATH || path.contains(odd) {
        return Err(format!(
            "the path of a socket begins with /, has at most {SOCKET_PATH} bytes, and no space, comma, equals sign, \
             bracket or quote, as in {example}"
        ));
    }
    Ok(path.to_owned())
}

pub(super) fn write_queues(f: &mut fmt::Formatter<'_>, queues: Option<u16>) -> fmt::Result {
    queues.map_or(Ok(()), |queues| write!(f, ",queues={queues}"))
}

/// `[domain:]bus:device.function` in hexadecimal.
pub(super) fn pci(address: &str) -> Result<Dev, String> {
    let wrong = || "a PCI address looks like pci:0000:03:00.0 (`lspci -D` lists them)".to_owned();
    let hex = |text: &str, digits: usize| text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
    let (rest, function) = address.rsplit_once('.').ok_or_else(wrong)?;
    let parts: Vec<_> = rest.split(':').collect();
    let (domain, bus, device) = match parts[..] {
        [bus, device] => ("0000", bus, device),
        [domain, bus, device] => (domain, bus, device),
        _ => return Err(wrong()),
    };
    let right = hex(domain, 4) && hex(bus, 2) && hex(device, 2) && matches!(function.as_bytes(), [b'0'..=b'7']);
    if !right {
        return Err(wrong());
    }
    Ok(Dev::Pci { address: format!("{domain}:{bus}:{device}.{function}").to_ascii_lowercase() })
}

pub(super) fn pcap(arguments: &str) -> Result<Dev, String> {
    let parts: Vec<_> = arguments.split(',').collect();
    let (input, output, infinite) = match parts[..] {
        [input] => (input, "", false),
        [input, output] => (input, output, false),
        [input, output, "infinite"] => (input, output, true),
        _ => return Err("expected pcap:IN,OUT or pcap:IN,OUT,infinite; file names hold no comma".to_owned()),
    };
    if input.is_empty() && output.is_empty() {
        return Err("pcap needs a file to read, pcap:IN, or one to write, pcap:,OUT".to_owned());
    }
    if infinite && input.is_empty() {
        return Err("there is no file to read over and over: pcap:IN,,infinite".to_owned());
    }
    if arguments.contains(['[', ']', '"']) {
        return Err("DPDK takes no file names with brackets or quotes".to_owned());
    }
    Ok(Dev::Pcap { input: input.to_owned(), output: output.to_owned(), infinite })
}

pub(super) fn ring(name: &str) -> Result<Dev, String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    if name.is_empty() || name.len() > 16 || !name.bytes().all(plain) {
        return Err("a ring has a name of 1 to 16 letters, digits, - or _, as in ring:loop0".to_owned());
    }
    Ok(Dev::Ring { name: name.to_owned() })
}

pub(super) fn null(arguments: &str) -> Result<Dev, String> {
    let (mut size, mut copy, mut rx) = (64, false, true);
    for argument in arguments.split(',').filter(|a| !a.is_empty()) {
        match argument.split_once('=') {
            Some(("size", value)) => {
                let number = value.parse().ok().filter(|n| (14..=1518).contains(n));
                size = number.ok_or_else(|| format!("size={value}: expected 14 to 1518 bytes"))?;
            }
            Some(("copy", "0")) => copy = false,
            Some(("copy", "1")) => copy = true,
            Some(("rx", "0")) => rx = false,
            Some(("rx", "1")) => rx = true,
            _ => return Err(format!("`{argument}`: expected size=BYTES, copy=0, copy=1, rx=0 or rx=1")),
        }
    }
    Ok(Dev::Null { size, copy, rx })
}
