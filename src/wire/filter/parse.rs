//! Parses the text of a filter.

use std::net::IpAddr;
use std::ops::Range;

use super::{Expr, FilterError, MAX_DEPTH, MAX_TESTS, MAX_TEXT, Side, Test};
use crate::wire::{Mac, Net, ethertype};

type Parsed<T> = Result<T, FilterError>;

/// One word and where it stands.
#[derive(Clone, Debug)]
struct Word<'a> {
    text: &'a str,
    at: Range<usize>,
}

struct Parser<'a> {
    text: &'a str,
    words: Vec<Word<'a>>,
    next: usize,
    tests: usize,
}

/// The expression, or `None` when the text is blank.
pub(super) fn parse(text: &str) -> Parsed<Option<Expr>> {
    let mut parser = Parser { text, words: Vec::new(), next: 0, tests: 0 };
    if text.len() > MAX_TEXT {
        let shown: String = text.chars().take(40).collect();
        let why = format!("it is {} bytes long, {MAX_TEXT} are allowed", text.len());
        return Err(FilterError { text: shown + "…", at: 0..0, why });
    }
    parser.words = words(text);
    if parser.words.is_empty() {
        return Ok(None);
    }
    let expr = parser.expr(0)?;
    match parser.peek() {
        None => Ok(Some(expr)),
        Some(")") => parser.wrong("a parenthesis that nothing opens"),
        Some(_) => parser.wrong("`and` or `or` belongs between two tests"),
    }
}

/// Splits at blanks and around parentheses and operators.
fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut rest = 0;
    while let Some(c) = text[rest..].chars().next() {
        if c.is_whitespace() {
            rest += c.len_utf8();
            continue;
        }
        let tail = &text[rest..];
        let operator = ["(", ")", "!", "&&", "||"].into_iter().find(|operator| tail.starts_with(operator));
        let ends = |c: char| c.is_whitespace() || "()!&|".contains(c);
        let len = match operator {
            Some(operator) => operator.len(),
            // A lone & or | is a word of its own, and no good one.
            None => tail.find(ends).filter(|&n| n > 0).unwrap_or(if ends(c) { c.len_utf8() } else { tail.len() }),
        };
        words.push(Word { text: &text[rest..rest + len], at: rest..rest + len });
        rest += len;
    }
    words
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).map(|word| word.text)
    }

    fn take(&mut self, wanted: &[&str]) -> bool {
        let there = self.peek().is_some_and(|word| wanted.contains(&word));
        self.next += usize::from(there);
        there
    }

    /// An error at the next word.
    fn wrong<T>(&self, why: impl Into<String>) -> Parsed<T> {
        let end = self.text.trim_end().len();
        let at = self.words.get(self.next).map_or(end..end, |word| word.at.clone());
        Err(FilterError { text: self.text.to_string(), at, why: why.into() })
    }

    /// An error at the word before.
    fn wrong_before<T>(&mut self, why: impl Into<String>) -> Parsed<T> {
        self.next = self.next.saturating_sub(1);
        self.wrong(why)
    }

    /// Tests joined by `and`, or by `or`.
    fn expr(&mut self, depth: usize) -> Parsed<Expr> {
        const AND: &[&str] = &["and", "&&"];
        const OR: &[&str] = &["or", "||"];
        let mut expr = self.factor(depth)?;
        let joins_and = self.peek().is_some_and(|word| AND.contains(&word));
        let (join, other) = if joins_and { (AND, OR) } else { (OR, AND) };
        while self.take(join) {
            let second = self.factor(depth)?;
            let (a, b) = (Box::new(expr), Box::new(second));
            expr = if joins_and { Expr::And(a, b) } else { Expr::Or(a, b) };
        }
        if self.peek().is_some_and(|word| other.contains(&word)) {
            return self.wrong("`and` beside `or`: say with parentheses which comes first");
        }
        Ok(expr)
    }

    fn factor(&mut self, depth: usize) -> Parsed<Expr> {
        if depth > MAX_DEPTH {
            return self.wrong(format!("nested deeper than {MAX_DEPTH}"));
        }
        if self.take(&["not", "!"]) {
            return Ok(Expr::Not(Box::new(self.factor(depth + 1)?)));
        }
        if self.take(&["("]) {
            let inner = self.expr(depth + 1)?;
            return if self.take(&[")"]) { Ok(inner) } else { self.wrong("a closing parenthesis is missing") };
        }
        self.primitive()
    }

    fn primitive(&mut self) -> Parsed<Expr> {
        let Some(word) = self.peek() else { return self.wrong("a test is missing here") };
        if let Some(protocol) = Test::protocol(word) {
            self.next += 1;
            let first = self.test(protocol)?;
            let qualified = match (word, self.peek()) {
                ("tcp" | "udp", Some("src" | "dst" | "port"))
                | ("ip" | "ip6", Some("src" | "dst" | "host" | "net")) => true,
                (_, Some("src" | "dst" | "port" | "host" | "net")) => {
                    return self.wrong(format!("`{word}` has none; write `{word} and …`"));
                }
                _ => false,
            };
            return Ok(if qualified { Expr::And(Box::new(first), Box::new(self.sided()?)) } else { first });
        }
        match word {
            "src" | "dst" | "host" | "net" | "port" => self.sided(),
            "ether" => self.ether(),
            "vlan" => self.numbered("a VLAN identifier", 4095, Test::Tagged, Test::Vlan),
            "pppoes" => {
                let any = Test::EtherType(ethertype::PPPOE_SESSION);
                self.numbered("a session's number", u16::MAX, any, Test::Session)
            }
            "less" | "greater" => {
                self.next += 1;
                let bytes = self.number("a number of bytes", u32::MAX)?;
                self.test(if word == "less" { Test::AtMost(bytes) } else { Test::AtLeast(bytes) })
            }
            _ => self.wrong(unknown(word)),
        }
    }

    fn test(&mut self, test: Test) -> Parsed<Expr> {
        self.tests += 1;
        if self.tests > MAX_TESTS {
            return self.wrong_before(format!("more than {MAX_TESTS} tests"));
        }
        Ok(Expr::Test(test))
    }

    fn side(&mut self) -> Side {
        if self.take(&["src"]) {
            Side::Source
        } else if self.take(&["dst"]) {
            Side::Destination
        } else {
            Side::Either
        }
    }

    /// `[src|dst] host A`, `net P/L`, `port N[-M]`.
    fn sided(&mut self) -> Parsed<Expr> {
        let side = self.side();
        let Some(kind @ ("host" | "net" | "port")) = self.peek() else {
            return self.wrong("`host`, `net` or `port` belongs here");
        };
        self.next += 1;
        let test = match kind {
            "port" => self.ports(side)?,
            "host" => self.host(side)?,
            _ => self.net(side)?,
        };
        self.test(test)
    }

    fn ports(&mut self, side: Side) -> Parsed<Test> {
        let right = "a port or two, 80 or 8000-8080";
        let Some(word) = self.peek() else { return self.wrong(format!("{right}, belongs here")) };
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => {
                self.next += 1;
                Ok(Test::Port { side, first, last })
            }
            _ => self.wrong(format!("not {right}, each from 0 to 65535 and the lower one first")),
        }
    }

    fn host(&mut self, side: Side) -> Parsed<Test> {
        match self.peek().map(str::parse) {
            Some(Ok(address)) => {
                self.next += 1;
                let (net, bits, width) = bits(address);
                Ok(Test::Address { side, net, bits, mask: prefix(width, width) })
            }
            _ => self.wrong("an IPv4 or IPv6 address belongs here"),
        }
    }

    fn net(&mut self, side: Side) -> Parsed<Test> {
        let right = "a prefix such as 10.0.0.0/8 or fd00::/64 belongs here";
        let Some((address, length)) = self.peek().and_then(|word| word.split_once('/')) else {
            return self.wrong(right);
        };
        let (Ok(address), Ok(length)) = (address.parse(), length.parse::<u32>()) else { return self.wrong(right) };
        let (net, bits, width) = bits(address);
        if length > width {
            return self.wrong(format!("the prefix has at most {width} bits"));
        }
        let mask = prefix(length, width);
        if bits & !mask != 0 {
            return self.wrong(format!("bits are set behind the first {length}"));
        }
        self.next += 1;
        Ok(Test::Address { side, net, bits, mask })
    }

    /// `ether [src|dst] host M`.
    fn ether(&mut self) -> Parsed<Expr> {
        self.next += 1;
        let side = self.side();
        if !self.take(&["host"]) {
            return self.wrong("`host`, after `src` or `dst` if it is one of them, belongs here");
        }
        let Some(mac) = self.peek().and_then(|word| Mac::parse(word, &[':', '-'], 1)) else {
            return self.wrong("an Ethernet address such as 02:00:00:00:00:01 belongs here");
        };
        self.next += 1;
        self.test(Test::Ether { side, mac })
    }

    /// `vlan [N]`, `pppoes [N]`.
    fn numbered(&mut self, what: &str, max: u16, any: Test, one: fn(u16) -> Test) -> Parsed<Expr> {
        self.next += 1;
        if self.peek().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit())) {
            let number = self.number(what, max.into())? as u16;
            return self.test(one(number));
        }
        self.test(any)
    }

    fn number(&mut self, what: &str, max: u32) -> Parsed<u32> {
        match self.peek().map(str::parse::<u32>) {
            Some(Ok(number)) if number <= max => {
                self.next += 1;
                Ok(number)
            }
            _ => self.wrong(format!("{what} from 0 to {max} belongs here")),
        }
    }
}

fn unknown(word: &str) -> String {
    match word {
        "and" | "or" | "&&" | "||" | ")" => "a test is missing before this".into(),
        "portrange" => "write `port N-M`".into(),
        "proto" | "broadcast" | "multicast" | "gateway" | "mask" => format!("tcpdump's `{word}` is not among weir's words"),
        _ if word.parse::<IpAddr>().is_ok() => "an address alone; write `host` before it".into(),
        _ => "not a word of filters: ip ip6 arp tcp udp icmp icmp6 vlan pppoed pppoes src dst host net port ether less greater and or not".into(),
    }
}

/// An address as the parser has it, with its family and width.
fn bits(address: IpAddr) -> (Net, u128, u32) {
    match address {
        IpAddr::V4(address) => (Net::Ipv4, u32::from(address).into(), 32),
        IpAddr::V6(address) => (Net::Ipv6, address.into(), 128),
    }
}

/// The first `length` of the low `width` bits.
fn prefix(length: u32, width: u32) -> u128 {
    let low = |bits: u32| 1u128.checked_shl(bits).map_or(u128::MAX, |bit| bit - 1);
    low(width) & !low(width - length)
}
