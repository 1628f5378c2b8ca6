//! Patterns of flows, as people write them: `10.0.0.1:80 → 10.0.0.0/24:* tcp`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::{Flow, proto};

/// Addresses whose first bits are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefix {
    ip: IpAddr,
    bits: u32,
}

impl Prefix {
    fn has(&self, ip: IpAddr) -> bool {
        let common_bits = match (self.ip, ip) {
            (IpAddr::V4(own), IpAddr::V4(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros(),
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros(),
            _ => return false,
        };
        common_bits >= self.bits
    }

    fn is_one_address(&self) -> bool {
        self.bits == if self.ip.is_ipv4() { 32 } else { 128 }
    }
}

/// One end of a flow: an address or prefix, and a port. `None` is any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct End {
    prefix: Option<Prefix>,
    port: Option<u16>,
}

/// Flows by some of their fields: a flow matches that has all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    src: End,
    dst: End,
    proto: Option<u8>,
}

impl Pattern {
    /// The one five-tuple that matches; `None` where several do. Ports of a protocol without ports
    /// are 0.
    pub fn flow(&self) -> Option<Flow> {
        let ip = |end: &End| end.prefix.filter(Prefix::is_one_address).map(|prefix| prefix.ip);
        let proto = self.proto?;
        let [sport, dport] = match [self.src.port, self.dst.port] {
            [None, None] if !proto::has_ports(proto) => [0, 0],
            [sport, dport] => [sport?, dport?],
        };
        let (src, dst) = (Some(ip(&self.src)?), Some(ip(&self.dst)?));
        Some(Flow { src, dst, sport: Some(sport), dport: Some(dport), proto: Some(proto) })
    }

    /// The one flow that matches, of flows that are named by these fields alone; `None` where several do, or
    /// where it has other fields.
    pub fn flow_by(&self, fields: [bool; 5]) -> Option<Flow> {
        if fields == [true; 5] {
            return self.flow();
        }
        let ip = |end: &End| end.prefix.filter(Prefix::is_one_address).map(|prefix| prefix.ip);
        let flow = Flow {
            src: ip(&self.src),
            dst: ip(&self.dst),
            sport: self.src.port,
            dport: self.dst.port,
            proto: self.proto,
        };
        let any = [self.src.prefix, self.dst.prefix].map(|prefix| prefix.is_none());
        let is_one = [flow.src.is_some() || any[0], flow.dst.is_some() || any[1]] == [true; 2];
        (is_one && flow.fields() == fields).then_some(flow)
    }

    /// Whether a flow has all fields of the pattern. A flow without a field that the pattern has
    /// does not match.
    pub fn matches(&self, flow: &Flow) -> bool {
        let port = |wanted: Option<u16>, port: Option<u16>| wanted.is_none_or(|wanted| port == Some(wanted));
        let ip = |end: &End, ip: Option<IpAddr>| end.prefix.is_none_or(|prefix| ip.is_some_and(|ip| prefix.has(ip)));
        ip(&self.src, flow.src)
            && ip(&self.dst, flow.dst)
            && port(self.src.port, flow.sport)
            && port(self.dst.port, flow.dport)
            && self.proto.is_none_or(|proto| flow.proto == Some(proto))
    }
}

/// A pattern that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word:?}: {why}; a flow is written \"10.0.0.1:80 → 10.0.0.0/24:* tcp\", with * for any")]
pub struct PatternError {
    word: String,
    why: &'static str,
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let wrong = |word: &str, why| PatternError { word: word.into(), why };
        let words: Vec<_> = text.split_whitespace().collect();
        let (src, dst, rest) = match words[..] {
            [src, "→" | "->", dst, ref rest @ ..] => (src, dst, rest),
            _ => return Err(wrong(text, "no source, arrow and destination")),
        };
        let proto = match *rest {
            [] | ["*"] => None,
            ["proto", number] | [number] if number.parse::<u8>().is_ok() => number.parse().ok(),
            [name] => {
                let known = (0..=u8::MAX).find(|proto| proto::name(*proto) == Some(name));
                Some(known.ok_or_else(|| wrong(name, "not a protocol"))?)
            }
            [_, word, ..] => return Err(wrong(word, "nothing stands behind the protocol")),
        };
        Ok(Self { src: end(src)?, dst: end(dst)?, proto })
    }
}

/// `ADDRESS[/BITS][:PORT]`; an IPv6 address with a port stands in brackets.
fn end(word: &str) -> Result<End, PatternError> {
    let wrong = |why| PatternError { word: word.into(), why };
    let (address, port) = match word.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').ok_or_else(|| wrong("no closing bracket"))?;
            (address, port.strip_prefix(':'))
        }
        None if word.matches(':').count() > 1 => (word, None),
        None => word.split_once(':').map_or((word, None), |(address, port)| (address, Some(port))),
    };
    let port = match port {
        None | Some("*") => None,
        Some(port) => Some(port.parse().map_err(|_| wrong("not a port"))?),
    };
    let prefix = match address {
        "*" => None,
        address => {
            let (ip, bits) = address.split_once('/').map_or((address, None), |(ip, bits)| (ip, Some(bits)));
            let ip: IpAddr = ip.parse().map_err(|_| wrong("not an address"))?;
            let width = if ip.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Ok(width), str::parse).ok().filter(|bits| *bits <= width);
            Some(Prefix { ip, bits: bits.ok_or_else(|| wrong("not the length of a prefix"))? })
        }
    };
    Ok(End { prefix, port })
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |End { prefix, port }: &End| {
            let address = prefix.map_or_else(
                || "*".into(),
                |prefix| match prefix.is_one_address() {
                    true => prefix.ip.to_string(),
                    false => format!("{}/{}", prefix.ip, prefix.bits),
                },
            );
            match port {
                None => address,
                Some(port) if address.contains(':') => format!("[{address}]:{port}"),
                Some(port) => format!("{address}:{port}"),
            }
        };
        write!(f, "{} → {}", end(&self.src), end(&self.dst))?;
        match self.proto.map(|proto| (proto, proto::name(proto))) {
            None => Ok(()),
            Some((_, Some(name))) => write!(f, " {name}"),
            Some((proto, None)) => write!(f, " proto {proto}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    fn flow(src: &str, sport: u16, dst: &str, dport: u16, proto: u8) -> Flow {
        let [src, dst] = [src, dst].map(|ip| Some(ip.parse().unwrap()));
        Flow { src, dst, sport: Some(sport), dport: Some(dport), proto: Some(proto) }
    }

    #[test]
    fn a_pattern_may_be_one_flow_of_some_fields() {
        let by = |text, fields| pattern(text).flow_by(fields).map(|flow| flow.to_string());
        let (src, pair) = ([true, false, false, false, false], [true, true, false, false, false]);
        assert_eq!(by("10.0.0.1 → *", src).unwrap(), "10.0.0.1 → *");
        assert_eq!(by("10.0.0.1 → 10.0.0.2", pair).unwrap(), "10.0.0.1 → 10.0.0.2");
        for (text, fields) in [("10.0.0.0/24 → *", src), ("10.0.0.1 → 10.0.0.2", src), ("10.0.0.1 → *", pair)] {
            assert_eq!(by(text, fields), None, "{text}");
        }
        assert_eq!(
            (by("* → *", src), by("10.0.0.1 → * tcp", src), by("10.0.0.1 → 10.0.0.0/8", src)),
            (None, None, None)
        );
        let whole = "10.0.0.1:1 → 10.0.0.2:80 tcp";
        assert_eq!(pattern(whole).flow_by([true; 5]), pattern(whole).flow());
    }

    #[test]
    fn a_flow_has_all_fields_of_its_pattern() {
        let web = flow("10.0.0.1", 4711, "10.0.9.2", 80, 6);
        for matching in
            ["* → *", "10.0.0.1 -> 10.0.9.2 tcp", "10.0.0.0/24 → *:80", "*:4711 → 10.0.9.2/31:* 6", "* → * *"]
        {
            assert!(pattern(matching).matches(&web), "{matching}");
        }
        for other in ["10.0.0.1 → 10.0.9.2 udp", "10.0.1.0/24 → *", "* → *:81", "::/0 → *", "* → * proto 17"]
        {
            assert!(!pattern(other).matches(&web), "{other}");
        }
        assert!(!pattern("* → *:80").matches(&Flow { dport: None, ..web }), "a field that is not known");
        assert!(pattern("2001:db8::/32 → [2001:db8::1]:53 udp").matches(&flow(
            "2001:db8::7",
            9,
            "2001:db8::1",
            53,
            17
        )));
    }

    #[test]
    fn patterns_of_several_flows_are_no_flow() {
        for several in [
            "10.0.0.0/31:1 → 10.0.0.2:2 tcp",
            "*:1 → 10.0.0.2:2 tcp",
            "10.0.0.1:1 → 10.0.0.2 tcp",
            "10.0.0.1:1 → 10.0.0.2:2",
        ] {
            assert_eq!(pattern(several).flow(), None, "{several}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_said() {
        for (text, why) in [
            ("10.0.0.1", "no source, arrow and destination"),
            ("10.0.0.300 → *", "not an address"),
            ("* → *:x", "not a port"),
            ("10.0.0.0/33 → *", "not the length of a prefix"),
            ("* → * blub", "not a protocol"),
            ("* → * tcp udp", "nothing stands behind the protocol"),
            ("[::1 → *", "no closing bracket"),
        ] {
            let error = text.parse::<Pattern>().unwrap_err();
            assert!(error.to_string().contains(why), "{text}: {error}");
        }
    }

    proptest! {
        /// The text of a flow is a pattern that this flow matches.
        #[test]
        fn the_text_of_a_flow_is_its_pattern(a: [u8; 4], b: [u8; 16], ports: [u16; 2], proto: u8, v6: bool) {
            let ip = |v6: bool| if v6 { IpAddr::from(b) } else { IpAddr::from(a) };
            let flow =
                Flow { src: Some(ip(v6)), dst: Some(ip(v6)), sport: Some(ports[0]), dport: Some(ports[1]), proto: Some(proto) };
            let own: Pattern = flow.to_string().parse().unwrap();
            prop_assert!(own.matches(&flow));
            prop_assert_eq!(own.flow(), Some(flow));
            prop_assert_eq!(own.to_string().parse::<Pattern>(), Ok(own));
        }
    }
}
