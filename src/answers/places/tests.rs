//! Places put together from rows, and what their documents and pages say.

use std::sync::Arc;

use super::*;
use crate::answers::{Answers, Claimed, Task};
use crate::history::{Entry, Gap, History, Reason, Room, SwitchGap, Window};
use crate::output::Style;
use crate::pisa::DropAt;

/// Two switches `a` and `b`, each with the ports `x` to the other one and `h` to hosts.
#[derive(Clone, Default)]
struct Showed {
    switches: Vec<SwitchRows>,
    late: Vec<(Arc<str>, LatePacket)>,
}

impl Kept for Showed {
    const LOOKS_AHEAD: bool = true;

    fn bytes(&self) -> usize {
        0
    }
}

impl KeptRows for Showed {
    fn rows(&self) -> Vec<SwitchRows> {
        self.switches.clone()
    }

    fn ports(&self) -> Vec<(Arc<str>, Arc<[CountedPort]>)> {
        self.switches.iter().map(|rows| (rows.switch.clone(), rows.ports.clone())).collect()
    }

    fn late(&self) -> Vec<(Arc<str>, LatePacket)> {
        self.late.clone()
    }
}

/// Flows hash to the group that their port says.
fn hash(flow: &Flow) -> Option<u32> {
    Some(u32::from(flow.sport? & 3) << 30)
}

impl Answers for Showed {
    fn answer(epochs: &Epochs<Self>, query: &Query) -> Option<ProgramAnswer> {
        Some(Places::over(epochs, query, &hash))
    }
}

const LENGTH: u64 = 50_000_000;

/// Rows of four groups, of the ports `x` and `h`.
fn switch(name: &str, received: [[u32; 4]; 2], sent: [[u32; 4]; 2]) -> SwitchRows {
    let port = |name: &str, fabric| CountedPort { name: name.into(), fabric };
    SwitchRows {
        switch: name.into(),
        ports: vec![port("x", true), port("h", false)].into(),
        rows: PortRows {
            groups: 4,
            received: received.concat().into(),
            sent: sent.concat().into(),
            balance: vec![0; 4].into(),
            drops: Vec::new(),
        },
        is_whole: true,
        is_full: false,
    }
}

/// An epoch in which `a` sends these packets of its hosts to `b`, where this number of each group arrives.
fn epoch(sent: [u32; 4], arrived: [u32; 4]) -> Showed {
    let none = [0; 4];
    let switches = vec![switch("a", [none, sent], [sent, none]), switch("b", [arrived, none], [none, arrived])];
    Showed { switches, late: Vec::new() }
}

fn links() -> Links {
    Links(vec![["a:x".parse().unwrap(), "b:x".parse().unwrap()]])
}

/// Flows that lost packets, by epoch.
#[derive(Debug)]
struct Victims(Vec<Vec<(u16, u64)>>);

impl LostFlows for Victims {
    fn lost_in(&self, epoch: u64) -> Option<LostPackets> {
        let flows = self.0.get(epoch as usize - 1)?;
        let flows = flows.iter().map(|(sport, packets)| (FlowName::Flow(Flow::from_port(*sport)), *packets));
        Some(LostPackets { flows: flows.collect(), ..LostPackets::default() })
    }
}

fn history(epochs: impl IntoIterator<Item = Showed>) -> History<Showed> {
    let history = History::new(Room { epochs: 99, bytes: usize::MAX });
    crate::history::AnyHistory::set_length(&history, LENGTH);
    (1..).zip(epochs).for_each(|(epoch, showed)| history.push(Entry::new(epoch, showed)));
    history
}

fn asked(history: &History<Showed>, window: Window, victims: Option<Victims>) -> Claimed<Places> {
    let victims = victims.map(|victims| Arc::new(victims) as Arc<dyn LostFlows>);
    let surroundings = Some(Arc::new(Surroundings { links: links(), victims, routes: None }));
    let query = Query { surroundings, ..Query::new(Task::Places, window) };
    let history: &dyn crate::answers::Queryable = history;
    history.answer(&query).unwrap()
}

#[test]
fn a_link_lost_what_its_ends_differ_by() {
    let epochs = [epoch([900, 900, 900, 900], [900, 890, 900, 895]), epoch([900; 4], [899, 900, 900, 900])];
    let victims = Victims(vec![vec![(1, 10), (3, 5)], vec![(4, 1)]]);
    let found = asked(&history(epochs), Window::All, Some(victims));
    let [place] = &found.places[..] else { panic!("{found:?}") };
    let ends = [&place.switch, place.port.as_ref().unwrap(), place.to_switch.as_ref().unwrap()];
    assert_eq!((place.kind.as_str(), ends), ("link", [&"a".to_owned(), &"x".to_owned(), &"b".to_owned()]));
    assert_eq!((place.lost_packets, place.sent_packets, place.exact, place.failed), (16, 7200, true, true));
    assert_eq!((place.since.number, place.until.number), (1, 2));
    assert!(place.rate_low < place.rate && place.rate < place.rate_high);
    let victims: Vec<_> =
        place.victims.iter().map(|victim| (victim.name.flow().unwrap().sport, victim.packets)).collect();
    assert_eq!(victims, [(Some(1), 10), (Some(3), 5), (Some(4), 1)]);
    assert!(place.victims.iter().all(|victim| victim.exact && victim.confidence == 1.0));
    assert_eq!((found.compared_links, found.compared_switches), (2, 2));
    assert_eq!((found.victim_packets, found.unplaced_packets), (Some(16), Some(0)));
    assert!(found.claim.complete, "{:?}", found.claim.incomplete);
    let page = Places::page(&found).to_text(Style::Plain);
    assert!(page.contains("a:x → b:x") && page.contains("failed"), "{page}");
    assert!(page.contains("16 packets lost; compared: 2 link directions, 2 switches"), "{page}");
    assert!(!page.contains("evidence"), "nothing is inferred: {page}");
}

#[test]
fn a_switch_lost_what_came_in_and_did_not_leave() {
    let mut showed = epoch([500; 4], [500; 4]);
    showed.switches[1].rows.sent[4] -= 7;
    // Packets that the switch took itself, and those that it made.
    showed.switches[1].rows.balance[0] = 3;
    showed.switches[1].rows.drops = vec![
        (DropAt::Inside, 0, "ttl_expired", 1),
        (DropAt::Before, 1, "acl_deny", 9),
        (DropAt::Before, 0, "acl_deny", 5),
    ];
    let found = asked(&history([showed]), Window::All, None);
    let [place] = &found.places[..] else { panic!("{found:?}") };
    assert_eq!((place.kind.as_str(), place.switch.as_str(), place.lost_packets), ("switch", "b", 4));
    assert_eq!((place.unexplained_packets, place.failed), (3, true));
    assert_eq!(place.reasons, [DroppedFor { reason: "ttl_expired".into(), packets: 1 }]);
    // A link between switches has its drops itself.
    let [drops] = &found.ports[..] else { panic!("{found:?}") };
    assert_eq!((drops.switch.as_str(), drops.port.as_str(), drops.packets), ("b", "h", 9));
    assert_eq!((found.lost_packets, found.known_packets, found.victim_packets), (4, 1, None));
}

#[test]
fn nothing_has_failed_below_three_packets_or_at_the_rate_of_links_that_are_whole() {
    for (lost, sent, failed) in [
        (2, 4, false),
        (3, 1000, true),
        // A healthy link, through which four times as many go here, loses as many now and then.
        (3, 20_000, false),
        (8, 20_000, true),
        (3, 4_000_000, false),
        (100, 400_000_000, false),
    ] {
        let arrived = [sent - lost, sent, sent, sent];
        let found = asked(&history([epoch([sent; 4], arrived)]), Window::All, None);
        assert_eq!(found.places[0].failed, failed, "{lost} of {sent}");
        assert_eq!(found.places[0].lost_packets, u64::from(lost));
    }
}

/// Losses of a link for a known reason are no failure.
#[test]
fn known_drops_are_told_as_their_reason() {
    let mut showed = epoch([500; 4], [490, 500, 500, 500]);
    showed.switches[1].rows.drops = vec![(DropAt::Before, 0, "acl_deny", 10)];
    let found = asked(&history([showed]), Window::All, None);
    assert_eq!((found.places[0].lost_packets, found.places[0].unexplained_packets), (10, 0));
    assert!(!found.places[0].failed && found.claim.complete);
}

/// Doubled packets hide lost ones in the sum, and not in the groups.
#[test]
fn gained_packets_do_not_hide_lost_ones() {
    let found = asked(&history([epoch([500; 4], [480, 520, 500, 500])]), Window::All, None);
    let place = &found.places[0];
    assert_eq!((place.lost_packets, place.gained_packets, place.least_packets), (20, 20, 20));
    assert_eq!((place.most_packets, place.exact, place.failed), (None, false, true));
    assert!(found.claim.incomplete.contains(Reason::Gained));
}

/// Packets that a later record counts as late are taken off, up to the horizon.
#[test]
fn late_packets_are_not_lost() {
    let late =
        |switch: &str, leaves, port, packets| (Arc::from(switch), LatePacket { epoch: 1, leaves, port, packets });
    let mut later = epoch([1; 4], [1; 4]);
    later.late = vec![late("b", false, 0, 9), late("b", true, 1, 9)];
    let mut beyond = epoch([1; 4], [1; 4]);
    beyond.late = vec![late("b", false, 0, 1)];
    let showed = epoch([500; 4], [495, 493, 500, 500]);
    let history = history([showed, epoch([1; 4], [1; 4]), later, beyond]);
    let lost = |window| asked(&history, window, None).places.first().map_or(0, |place| place.lost_packets);
    // Without a horizon packets are waited for.
    assert_eq!([lost(Window::All), lost(Window::Epoch(1))], [2, 2]);
    crate::history::AnyHistory::set_lost_after(&history, Some(2 * LENGTH + 1));
    assert_eq!([lost(Window::All), lost(Window::Epoch(1)), lost(Window::Epoch(2))], [3, 3, 0]);
}

#[test]
fn what_a_switch_did_not_report_is_unknown() {
    let mut missing = epoch([500; 4], [400; 4]);
    missing.switches.remove(1);
    let mut partial = epoch([500; 4], [0; 4]);
    partial.switches[1].is_whole = false;
    let found = asked(&history([missing, partial]), Window::All, None);
    assert!(found.places.is_empty() && !found.claim.complete);
    let unknown: Vec<_> = found.unknown.iter().map(|of| (of.switch.as_str(), of.port.is_some(), of.epochs)).collect();
    assert_eq!(unknown, [("a", true, 2), ("b", true, 2), ("b", false, 1)]);
    // A fabric port without a link cannot be compared.
    let query = Query::new(Task::Places, Window::All);
    let history = history([epoch([1; 4], [0; 4])]);
    let found: Claimed<Places> = (&history as &dyn crate::answers::Queryable).answer(&query).unwrap();
    assert_eq!(found.unlinked_ports.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a:x", "b:x"]);
    assert!(found.claim.incomplete.contains(Reason::LinksUnknown) && found.places.is_empty());
}

/// Two epochs of `a`, `m` and `b` in a row: one in which all report, and one in which `m` does not.
fn with_a_silent_middle(sent: [u32; 4], arrived: [u32; 4]) -> [Showed; 2] {
    let none = [0; 4];
    let mut middle = switch("m", [[9; 4], none], [none, [9; 4]]);
    let port = |name: &str| CountedPort { name: name.into(), fabric: true };
    middle.ports = vec![port("l"), port("r")].into();
    let ends = |sent: [u32; 4], arrived: [u32; 4]| {
        [switch("a", [none, sent], [sent, none]), switch("b", [arrived, none], [none, arrived])]
    };
    let whole = ends([9; 4], [9; 4]).into_iter().chain([middle]).collect();
    [whole, ends(sent, arrived).into()].map(|switches| Showed { switches, late: Vec::new() })
}

/// A switch between two others that does not report has lost what these sent to it and did not receive from
/// it, it or one of its links.
#[test]
fn a_silent_switch_and_its_links_are_one_place() {
    let history = history(with_a_silent_middle([500; 4], [500, 470, 500, 495]));
    let surroundings = Some(Arc::new(Surroundings { links: four_links(2), victims: None, routes: None }));
    let query = Query { surroundings, ..Query::new(Task::Places, Window::All) };
    let found: Claimed<Places> = (&history as &dyn crate::answers::Queryable).answer(&query).unwrap();
    let [place] = &found.places[..] else { panic!("{found:?}") };
    assert_eq!((place.kind.as_str(), place.switch.as_str(), place.lost_packets), ("group", "m", 35));
    assert_eq!((place.least_packets, place.most_packets, place.failed), (0, None, false));
    assert!(Places::page(&found).to_text(Style::Plain).contains("m or a link there"));
    assert!(!found.claim.complete);
}

/// Packets that came when nobody counted them may be of any group.
#[test]
fn strays_make_an_interval() {
    let history = History::new(Room { epochs: 9, bytes: usize::MAX });
    crate::history::AnyHistory::set_length(&history, LENGTH);
    let mut entry = Entry::new(1, epoch([500; 4], [490, 500, 500, 500]));
    entry.gaps = vec![SwitchGap { switch: "b".into(), gap: Gap::Strays { packets: 8 } }];
    history.push(entry);
    let place = asked(&history, Window::All, None).places[0].clone();
    assert_eq!((place.least_packets, place.lost_packets, place.most_packets), (2, 10, Some(10)));
    assert!(!place.exact && !place.failed, "it may have lost two packets alone");
}

/// A flow whose path lost nothing has another one.
#[test]
fn a_wrong_path_is_told() {
    use crate::answers::{Certainty, Route, Routes};
    #[derive(Debug)]
    struct Path([&'static str; 2]);
    impl Routes for Path {
        fn of(&self, _: &Flow) -> Vec<Route> {
            let switches = self.0.iter().map(|name| Some(Arc::from(*name))).collect();
            vec![Route { switches, certainty: Certainty::Sure, packets: None }]
        }
    }
    for (path, wrong) in [(["a", "b"], 0), (["b", "a"], 1)] {
        let victims = Some(Arc::new(Victims(vec![vec![(1, 10)]])) as Arc<dyn LostFlows>);
        let surroundings = Surroundings { links: links(), victims, routes: Some(Arc::new(Path(path))) };
        let surroundings = Some(Arc::new(surroundings));
        let query = Query { surroundings, ..Query::new(Task::Places, Window::All) };
        let history = history([epoch([500; 4], [500, 490, 500, 500])]);
        let found: Claimed<Places> = (&history as &dyn crate::answers::Queryable).answer(&query).unwrap();
        assert_eq!((found.wrong_paths.len(), found.places[0].victims.len()), (wrong, 1), "{path:?}");
    }
}

/// Flows by their ports, each of 10 packets; odd ones take the spine `m`, even ones `n`. Those of ports up to
/// `victims` lost packets at `m`, or on their way there.
#[derive(Debug)]
struct Flows {
    victims: u16,
}

const PORTS: std::ops::Range<u16> = 1000..3000;

impl LostFlows for Flows {
    fn lost_in(&self, _: u64) -> Option<LostPackets> {
        let lost = PORTS.take(self.victims.into()).filter(|port| port % 2 == 1);
        let flows = lost.map(|port| (FlowName::Flow(Flow::from_port(port)), 3)).collect();
        Some(LostPackets { flows, ..LostPackets::default() })
    }

    fn sent_in(&self, _: u64) -> Option<SentFlows> {
        let flows = PORTS.map(|port| (FlowName::Flow(Flow::from_port(port)), 10)).collect();
        Some(SentFlows { flows, ..SentFlows::default() })
    }
}

impl crate::answers::Routes for Flows {
    fn of(&self, flow: &Flow) -> Vec<crate::answers::Route> {
        let spine = if flow.sport.is_some_and(|port| port % 2 == 1) { "m" } else { "n" };
        let switches = ["a", spine, "b"].map(|name| Some(Arc::from(name))).into();
        vec![crate::answers::Route { switches, certainty: crate::answers::Certainty::Sure, packets: None }]
    }
}

fn edges(links: Links, victims: u16) -> Arc<Surroundings> {
    let flows = Arc::new(Flows { victims });
    Arc::new(Surroundings { links, victims: Some(flows.clone()), routes: Some(flows) })
}

/// Without counters a place is inferred from what flows lost on their paths. Nothing tells the switch in the
/// middle from its links.
#[test]
fn places_are_inferred_from_what_the_edges_know() {
    let history = History::new(Room { epochs: 99, bytes: usize::MAX });
    crate::history::AnyHistory::set_length(&history, LENGTH);
    (1..3).for_each(|epoch| history.push(Entry::new(epoch, ())));
    let ask = |victims: u16| -> Claimed<Places> {
        let query =
            Query { surroundings: Some(edges(Links::default(), victims)), ..Query::new(Task::Places, Window::All) };
        (&history as &dyn crate::answers::Queryable).answer(&query).unwrap()
    };
    let found = ask(80);
    let [place] = &found.places[..] else { panic!("{:?}", found.places) };
    assert_eq!((place.kind.as_str(), place.evidence, place.failed), ("group", Evidence::Inferred, true));
    let members: Vec<_> = place.members.iter().map(|of| (of.switch.as_str(), of.to_switch.as_deref())).collect();
    assert_eq!(members, [("a", Some("m")), ("m", None), ("m", Some("b"))]);
    assert!(place.confidence > 0.95 && (238..=240).contains(&place.lost_packets), "{place:?}");
    assert!(place.least_packets <= 240 && place.most_packets >= Some(240) && !place.exact, "{place:?}");
    assert_eq!((place.victims.len(), place.since.number, place.until.number), (40, 1, 2));
    assert!(place.victims.iter().all(|victim| victim.packets == 6 && victim.confidence > 0.95), "{place:?}");
    assert!(found.victim_packets == Some(240) && found.unplaced_packets <= Some(2), "{found:?}");
    assert!(found.claim.incomplete.contains(Reason::Inferred));
    let page = Places::page(&found).to_text(Style::Plain);
    assert!(page.contains("a → m or in m or m → b") && page.contains("inferred, "), "{page}");
    // One packet in 10 000 is below the alarm rate.
    assert!(ask(2).places.iter().all(|place| !place.failed));
}

/// Where some switches count, what they lost is theirs, and the rest is inferred of the others.
#[test]
fn what_does_not_count_is_inferred_beside_what_does() {
    let none = [0; 4];
    let sent = [5000; 4];
    let switches = vec![switch("a", [none, sent], [sent, none]), switch("b", [[4970; 4], none], [none, [4970; 4]])];
    let history = history([Showed { switches, late: Vec::new() }]);
    // The links need not be known, or not all of them.
    for known in [4, 1, 0] {
        let query = Query { surroundings: Some(edges(four_links(known), 80)), ..Query::new(Task::Places, Window::All) };
        let found: Claimed<Places> = (&history as &dyn crate::answers::Queryable).answer(&query).unwrap();
        let [place] = &found.places[..] else { panic!("{known}: {:?}", found.places) };
        assert_eq!((place.evidence, place.members.len()), (Evidence::Inferred, 3));
        assert_eq!((place.switch.as_str(), &place.port), ("a, b, m", &None));
        assert!((118..=120).contains(&place.lost_packets), "{place:?}");
        assert!(found.wrong_paths.is_empty() && found.compared_switches == 2, "{found:?}");
    }
}

/// The first of four links from `a` to `b` through `m` and `n`.
fn four_links(known: usize) -> Links {
    let links = [["a:x", "m:l"], ["m:r", "b:x"], ["a:y", "n:l"], ["n:r", "b:y"]];
    Links(links[..known].iter().map(|ends| ends.map(|end| end.parse().unwrap())).collect())
}

/// Flows whose paths are not known, and in one case the flows neither.
#[derive(Debug)]
struct WithoutPaths {
    are_known: bool,
}

impl LostFlows for WithoutPaths {
    fn lost_in(&self, epoch: u64) -> Option<LostPackets> {
        self.are_known.then(|| Flows { victims: 80 }.lost_in(epoch))?
    }

    fn sent_in(&self, epoch: u64) -> Option<SentFlows> {
        self.are_known.then(|| Flows { victims: 80 }.sent_in(epoch))?
    }
}

impl crate::answers::Routes for WithoutPaths {
    fn of(&self, _: &Flow) -> Vec<crate::answers::Route> {
        Vec::new()
    }
}

/// Where nothing can be inferred, what was counted around the silent switches is told all the same, and the
/// answer is not complete.
#[test]
fn what_cannot_be_inferred_is_missing_and_what_was_counted_is_not() {
    let counted = history(with_a_silent_middle([5000; 4], [4970; 4]));
    let uncounted = History::new(Room { epochs: 99, bytes: usize::MAX });
    uncounted.push(Entry::new(1, ()));
    let histories: [(&dyn crate::answers::Queryable, usize); 2] = [(&counted, 1), (&uncounted, 0)];
    for ((history, places), are_known) in histories.into_iter().flat_map(|of| [(of, true), (of, false)]) {
        let flows = Arc::new(WithoutPaths { are_known });
        let surroundings = Surroundings { links: four_links(2), victims: Some(flows.clone()), routes: Some(flows) };
        let query = Query { surroundings: Some(Arc::new(surroundings)), ..Query::new(Task::Places, Window::All) };
        let found: Claimed<Places> = history.answer(&query).unwrap();
        assert_eq!(found.places.len(), places, "{:?}", found.places);
        assert!(found.places.iter().all(|of| of.evidence == Evidence::Counted && of.lost_packets == 120), "{found:?}");
        assert_eq!(found.claim.incomplete.contains(Reason::Inferred), are_known || places == 0);
        assert_eq!(found.claim.incomplete.contains(Reason::Undecoded), !are_known && places == 0);
        assert!(!found.claim.complete);
    }
}

/// The short name of a place is that of its text, of a large group with its first members.
#[test]
fn a_group_has_a_short_name() {
    let link =
        LossPlace { kind: "link".into(), switch: "a".into(), to_switch: Some("b".into()), ..LossPlace::default() };
    assert_eq!(link.short_name(), "a → b");
    let members = |number: usize| (0..number).map(|i| PlaceName { switch: format!("s{i}"), ..PlaceName::default() });
    let group = |number| LossPlace { kind: "group".into(), members: members(number).collect(), ..LossPlace::default() };
    assert_eq!(group(4).short_name(), "in s0 or in s1 or in s2 or in s3");
    assert_eq!(group(9).short_name(), "in s0 or in s1 or in s2 or in s3 or 5 more");
    let around = |switch: &str| LossPlace { kind: "group".into(), switch: switch.into(), ..LossPlace::default() };
    assert_eq!(around("a, b").short_name(), "a, b or a link there");
    assert_eq!(around("a, b, c, d, e").short_name(), "a, b, c, d or a link there or 1 more");
}
