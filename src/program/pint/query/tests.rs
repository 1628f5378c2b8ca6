use super::*;

#[test]
fn queries_are_read_as_they_are_written() {
    for text in [
        "path:bits=8+latency:bits=8:frequency=15/16:space=100",
        "latency:bits=8+latency:bits=8:aggregation=max+latency:bits=8:flow=dst+latency:bits=8:flow=dst:window=10s",
        "utilisation:bits=8:rate=1Gbps+utilisation:bits=4:aggregation=quantiles:rate=1Gbps+path:bits=4",
        "path:bits=4:instances=2:flow=dst",
        "path:bits=5:instances=2:checksum=6:flow=pair",
        "path:bits=4:instances=2:coding=fragments:checksum=6",
        "path:bits=4:instances=2:acts=vectors",
        "path:bits=4:instances=2:coding=fragments:acts=vectors:checksum=6",
        "latency:bits=3:frequency=1/65536:from=1us:to=1500us:space=65536",
        "latency:bits=8:space=400:window=1500ms+path:bits=8",
        "loops:bits=12:frequency=1/4:flow=pair:threshold=1+path:bits=4",
        "path:bits=8:frequency=15/16+utilisation:bits=8:frequency=1/16",
        "utilisation:bits=1:flow=src:rate=2500Mbps:period=100us",
        "utilisation:bits=8:aggregation=quantiles:frequency=1/2:space=100:rate=1Gbps+queue:bits=8:frequency=1/2",
        "latency:bits=8:aggregation=sum:from=1us+ingress_port:bits=8",
        "ingress_time:bits=12:to=1s:space=100+queue:bits=4:aggregation=frequent:to=100",
        "latency:bits=4:instances=2:space=100+queue:bits=2:aggregation=frequent:instances=4:to=3",
        "utilisation:bits=4:aggregation=quantiles:instances=4+egress_port:bits=4:instances=2:flow=dst",
        "latency:bits=8:to=10ms:compression=additive+queue:bits=8:to=4000:compression=additive:window=1s",
        "latency:bits=8:aggregation=sum:compression=additive+congestion:bits=3:compression=multiplicative",
        "egress_port:bits=4:space=64+congestion:bits=3:aggregation=max+queue:bits=8:aggregation=min:from=2:to=4",
    ] {
        assert_eq!(text.parse::<Queries>().unwrap().to_string(), text);
    }
    let queries: Queries = "latency : frequency=50% + path:bits=1".parse().unwrap();
    assert_eq!(queries.to_string(), "latency:bits=8:frequency=1/2+path:bits=1");
}

/// Queries that ask switches for the same are one code, with the largest of their frequencies; what
/// is made of the digests does not matter to switches.
#[test]
fn queries_that_ask_for_the_same_are_one_code() {
    for (queries, codes) in [
        ("egress_port:bits=8+egress_port:bits=8:flow=dst", "egress_port:bits=8"),
        (
            "queue:bits=8:frequency=1/4+path:bits=4+queue:bits=8:aggregation=frequent:frequency=1/2:space=100",
            "queue:bits=8:frequency=1/2+path:bits=4",
        ),
        (
            "latency:bits=8:window=1s:frequency=1/2+latency:bits=8:frequency=1/4:flow=src",
            "latency:bits=8:frequency=1/2",
        ),
        (
            "utilisation:bits=8:aggregation=quantiles+utilisation:bits=8+utilisation:bits=8:flow=pair",
            "utilisation:bits=8:aggregation=quantiles+utilisation:bits=8",
        ),
        (
            "queue:bits=4:to=15:instances=2+queue:bits=4:to=15+queue:bits=4:to=15:instances=2:flow=dst",
            "queue:bits=4:instances=2:to=15+queue:bits=4:to=15",
        ),
        (
            "latency:bits=8+latency:bits=8:compression=additive+latency:bits=8:compression=multiplicative:flow=dst",
            "latency:bits=8+latency:bits=8:compression=additive",
        ),
        ("queue:bits=8+queue:bits=8:to=100+queue:bits=7", "queue:bits=8+queue:bits=8:to=100+queue:bits=7"),
        (
            "queue:bits=8:aggregation=max+queue:bits=8:aggregation=min",
            "queue:bits=8:aggregation=max+queue:bits=8:aggregation=min",
        ),
    ] {
        let found = Queries(queries.parse::<Queries>().unwrap().codes());
        assert_eq!(found.to_string(), codes, "{queries}");
    }
}

#[test]
fn flows_are_those_of_their_definition() {
    let tuple = FiveTuple([4 << 40 | 7 << 24 | 80 << 8 | 6, 0, 0x0a00_0001, 0, 0x0a00_0002]);
    let named = FlowDefinition::ALL.map(|definition| definition.flow(definition.key(tuple)).to_string());
    assert_eq!(named, ["10.0.0.1:7 → 10.0.0.2:80 tcp", "10.0.0.1 → 10.0.0.2", "10.0.0.1 → *", "* → 10.0.0.2"]);
    let other = FiveTuple([4 << 40 | 9 << 24 | 17, 0, 0x0a00_0001, 0, 0x0a00_0003]);
    let same = FlowDefinition::ALL.map(|definition| definition.key(tuple) == definition.key(other));
    assert_eq!(same, [false, false, true, false]);
}

#[test]
fn wrong_queries_say_what_would_be_right() {
    let refused = |text: &str| text.parse::<Queries>().unwrap_err();
    assert_eq!(
        refused("paths"),
        "\"paths\": a query is one of path, latency, loops, utilisation, \
         ingress_port, egress_port, ingress_time, queue, congestion"
    );
    let why = "the names of the switches of other queries follow from one";
    assert_eq!(refused("path+path:bits=3"), format!("path is asked for twice: {why}"));
    let why = "the shim has one counter for its threshold";
    assert_eq!(refused("loops+path:bits=8+loops:flow=dst"), format!("loops is asked for twice: {why}"));
    let twice = refused("queue:bits=4:aggregation=max+queue+queue:bits=4:aggregation=max:frequency=1/2");
    assert_eq!(twice, "queue:bits=4:aggregation=max is asked for twice");
    let links = "utilisation has one rate, one period and one filter: a switch keeps one utilisation of a link";
    assert_eq!(refused("utilisation+utilisation:aggregation=min:rate=1Gbps"), links);
    assert_eq!(refused(&["queue"; 9].map(|queue| queue.to_owned()).join("+")), "queue is asked for twice");
    let nine: Vec<_> = (1..=9).map(|bits| format!("congestion:bits={bits}")).collect();
    assert_eq!(refused(&nine.join("+")), "there are at most 8 queries");
    assert_eq!(refused("path:bits"), "\"bits\" is not of the form key=value");
    assert_eq!(refused("path:bits=17"), "bits=17: a whole number from 1 to 16");
    assert_eq!(refused("latency:bits=1"), "bits=1: a whole number from 3 to 12");
    let keys = "bits, aggregation, instances, compression, frequency, flow, from, to, space and window";
    assert_eq!(refused("latency:threshold=2"), format!("threshold: latency has {keys}"));
    assert_eq!(refused("queue:threshold=2"), format!("threshold: queue has {keys}"));
    assert_eq!(refused("loops:instances=2"), "instances: loops has bits, threshold, frequency and flow");
    assert_eq!(refused("latency:instances=0"), "instances=0: a whole number from 1 to 16");
    assert_eq!(refused("latency:instances=3"), "latency: bits × instances exceeds the 16 bits of a digest");
    for (query, aggregation) in
        [("latency:aggregation=sum", "sum"), ("queue:aggregation=min", "min"), ("utilisation", "max")]
    {
        let why = format!("instances are of the values of hops, and {aggregation} is of the whole way");
        let name = query.split(':').next().unwrap();
        assert_eq!(refused(&format!("{query}:instances=2")), format!("{name}: {why}"));
    }
    assert_eq!(refused("latency:compression=exact"), "compression=exact: one of multiplicative, additive");
    for value in ["path", "loops", "utilisation", "egress_port", "ingress_time"] {
        let refused = refused(&format!("{value}:compression=additive"));
        assert!(refused.starts_with(&format!("compression: {value} has ")), "{refused}");
    }
    let few = "congestion: multiplicative codes have 3 bits at least";
    assert_eq!(refused("congestion:bits=2:compression=multiplicative"), few);
    assert_eq!(refused("queue:aggregation=mean"), "aggregation=mean: one of quantiles, frequent, max, min, sum");
    assert_eq!(refused("egress_port:aggregation=max"), "aggregation=max: one of frequent");
    assert_eq!(refused("ingress_port:bits=9"), "bits=9: a whole number from 1 to 8");
    assert_eq!(refused("ingress_time:bits=3"), "bits=3: a whole number from 4 to 12");
    assert_eq!(refused("queue:to=1"), "queue: to is at least twice from");
    let none = "space and window are of the samples of hops, and max has none";
    assert_eq!(refused("congestion:space=99:aggregation=max"), format!("congestion: {none}"));
    assert_eq!(
        refused("path:space=100"),
        "space: path has bits, instances, coding, acts, checksum, frequency and flow"
    );
    assert_eq!(refused("loops:bits=3"), "bits=3: a whole number from 4 to 16");
    assert_eq!(refused("loops:threshold=4"), "threshold=4: a whole number from 0 to 3");
    assert_eq!(refused("loops:space=100"), "space: loops has bits, threshold, frequency and flow");
    assert_eq!(
        refused("path:threshold=1"),
        "threshold: path has bits, instances, coding, acts, checksum, frequency and flow"
    );
    assert_eq!(refused("path:bits=9:instances=2"), "path: bits × instances exceeds the 16 bits of a digest");
    let sum = "path: bits × instances + checksum exceeds the 16 bits of a digest";
    assert_eq!(refused("path:bits=5:instances=2:checksum=7"), sum);
    assert_eq!(refused("path:coding=parts"), "coding=parts: one of hash, fragments");
    assert_eq!(refused("path:acts=bits"), "acts=bits: one of hashes, vectors");
    assert_eq!(refused("latency:acts=vectors"), format!("acts: latency has {keys}"));
    assert_eq!(refused("path:bits=5:coding=fragments"), "path: fragments have 1, 2, 4, 8 or 16 bits");
    assert_eq!(refused("queue:bits=3"), "queue: 3 bits reach 64, and to is 2048: more bits, or a smaller to");
    let far = refused("latency:aggregation=sum:bits=4");
    assert!(far.starts_with("latency: 4 bits reach "), "{far}");
    assert_eq!(refused("path:checksum=0"), "checksum=0: a whole number from 1 to 15");
    assert_eq!(refused("latency:flow=vlan"), "flow=vlan: one of 5tuple, pair, src, dst");
    assert_eq!(refused("latency:to=5s"), "to=5s: a time is written like 100us, at most 4s");
    assert_eq!(refused("latency:from=1ms:to=1ms"), "latency: to is at least twice from");
    assert_eq!(refused("latency:window=2days"), "window=2days: a time is written like 10s, 1ms to 1day");
    let parts = "latency: with a window space is at least 400, for its 8 parts";
    assert_eq!(refused("latency:window=1s:space=399"), parts);
    // A sketch of frequent items has eight at least.
    let frequent = "egress_port: with frequent space is at least 64";
    assert_eq!(refused("egress_port:space=63"), frequent);
    let frequent = "queue: with frequent and a window space is at least 512, for its 8 parts";
    assert_eq!(refused("queue:aggregation=frequent:window=1s:space=511"), frequent);
    assert_eq!(refused("utilisation:space=100"), format!("utilisation: {none}"));
    let keys = "utilisation has bits, aggregation, instances, frequency, flow, rate, period, filter, space and window";
    assert_eq!(refused("utilisation:to=100"), format!("to: {keys}"));
    assert_eq!(refused("utilisation:bits=9"), "bits=9: a whole number from 1 to 8");
    let rates = "a rate is written like 10Gbps, 100kbps to 800Gbps";
    assert_eq!(refused("utilisation:rate=10"), format!("rate=10: {rates}"));
    assert_eq!(refused("utilisation:rate=1Mbps:rate=2Mbps"), "rate: it stands there twice");
    let volume = "utilisation: rate × period is 10kB to 4MB, not 125000000 B";
    assert_eq!(refused("utilisation:rate=1Gbps:period=1s"), volume);
    assert_eq!(refused("utilisation:period=1us"), "utilisation: rate × period is 10kB to 4MB, not 1250 B");
    assert!(refused("path:frequency=3/2").contains("more than 0, at most 1"));
    assert!(refused("").contains("a query is one of"));
}

/// The page names the keys of each value, and the aggregations with which it has a space and a window.
#[test]
fn the_page_has_the_keys_of_each_value() {
    let page = include_str!("../../../../docs/pint.md");
    let rows = page.lines().skip_while(|line| *line != "| query | value | keys |").take_while(|line| !line.is_empty());
    let rows: Vec<Vec<_>> = rows.skip(2).map(|row| row.split('|').map(str::trim).collect()).collect();
    let quoted = |text: &'static str| text.split('`').skip(1).step_by(2);
    let keys = |value: Value| value.keys().split([',', ' ']).filter(|word| !matches!(*word, "" | "and"));
    let all: BTreeSet<_> = Value::ALL.into_iter().flat_map(keys).collect();
    for value in Value::ALL {
        let found: Vec<_> = rows.iter().filter(|row| quoted(row[1]).any(|name| name == value.name())).collect();
        let [row] = &found[..] else { panic!("{value:?} is there {} times", found.len()) };
        let named: BTreeSet<_> = quoted(row[3]).filter(|name| all.contains(name)).collect();
        assert_eq!(named, keys(value).collect::<BTreeSet<_>>(), "{value:?}");
        let aggregations = value.aggregations().iter().copied();
        let (of_hops, others): (Vec<Aggregation>, Vec<_>) = aggregations.partition(|of| of.is_of_hops());
        let names: Vec<_> = of_hops.iter().map(|of| format!("`{}`", of.name())).collect();
        let both = if others.is_empty() { String::new() } else { format!("both with {}", names.join(" and ")) };
        assert!(row[3].contains(&both) && row[3].contains("both") != both.is_empty(), "{value:?}: {both}");
        for aggregation in value.aggregations() {
            let text = format!("{}:aggregation={}:space=512:window=1day", value.name(), aggregation.name());
            assert_eq!(text.parse::<Query>().is_ok(), aggregation.is_of_hops(), "{text}");
            let text = format!("{}:bits=4:aggregation={}:instances=4", value.name(), aggregation.name());
            let text = if value == Value::Queue { format!("{text}:to=15") } else { text };
            assert_eq!(text.parse::<Query>().is_ok(), aggregation.is_of_hops(), "{text}");
        }
    }
}
