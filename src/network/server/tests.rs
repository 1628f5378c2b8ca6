//! Switches and a server over a real socket.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use super::*;
use crate::api::client::Client;
use crate::api::controller;
use crate::api::serve::TlsListener;
use crate::api::serve::tests::{Identity, ca, files, roles};
use crate::api::view;
use crate::config::{Address, NetworkConfig};
use crate::history::Entry;
use crate::network::controller::{Controller, ControllerSettings, MAX_SWITCHES, ParameterUpdate, Saved};
use crate::network::rpc::proto::controller_client::ControllerClient;
use crate::network::rpc::proto::from_switch::What as From;
use crate::network::rpc::proto::to_switch::What as To;
use crate::network::rpc::proto::{self, FromSwitch, ToSwitch};
use crate::network::rpc::{self, Controlled, Dial, Hello, Link, Offer};
use crate::network::socket::{self, Access, SocketFile};
use crate::network::tls::{self, Clients};
use crate::pisa::hash::HashFamily;
use crate::program::hashpipe::Counts;
use crate::program::{AnySchedule, ProgramConfig, Record};
use crate::telemetry::Closed;
use crate::telemetry::epoch::wall_clock;

const SEED: u64 = 11;

fn config() -> NetworkConfig {
    let programs = [
        "chamelemon:tower=8x64+16x32,upstream=64,downstream=48,hl=16,hh_threshold=5",
        "hashpipe:stages=2,slots=8,slots6=8,scope=network",
    ];
    let length = |text: &str| text.parse().unwrap();
    NetworkConfig {
        programs: programs.iter().map(|program| program.parse().unwrap()).collect(),
        epoch: length("100ms"),
        transit: length("2ms"),
        record_timeout: Some(length("500ms")),
        ..NetworkConfig::default()
    }
}

/// Of a switch that runs these programs.
fn hello_with(name: &str, programs: &[ProgramConfig]) -> Hello {
    let config = config();
    let offer = |program: &ProgramConfig| Ok(Offer { parameters: program.start(), program: program.clone() });
    Hello {
        name: name.into(),
        length: config.epoch.nanos(),
        transit: config.transit.nanos(),
        header: config.telemetry_header,
        key: config.key,
        programs: programs.iter().map(offer).collect(),
        software: "test".into(),
    }
}

fn hello(name: &str) -> Hello {
    hello_with(name, &config().programs)
}

/// A controller that runs until dropped.
struct Lab {
    _dir: tempfile::TempDir,
    socket: SocketFile,
    server: Arc<ControllerServer>,
    /// Those of both programs.
    controllers: Vec<Arc<Mutex<Controller>>>,
    stop: Arc<AtomicBool>,
    driven: Option<JoinHandle<()>>,
}

impl Lab {
    fn open(expected: &[&str]) -> Self {
        Self::open_with(expected, MAX_SWITCHES, None)
    }

    fn open_with(expected: &[&str], max: usize, tcp: Option<TlsListener>) -> Self {
        Self::open_asked(expected, max, tcp, (None, None))
    }

    /// Asked by TLS, and for metrics without.
    fn open_asked(
        expected: &[&str],
        max: usize,
        tcp: Option<TlsListener>,
        (api_tcp, metrics): (Option<TlsListener>, Option<std::net::TcpListener>),
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = config();
        let expected: Vec<_> = expected.iter().map(|name| name.to_string()).collect();
        let saved = |program: &ProgramConfig| {
            let updates = vec![ParameterUpdate { epoch: 0, parameters: program.start() }];
            Saved { version: 2, profile: Some(config.profile(program)), updates, switches: expected.clone() }
        };
        let controllers = config.programs.iter().map(saved).collect();
        let state = State { hashes: HashFamily::reproducible(SEED), salt: 1, controllers };
        let file = StateFile::at(dir.path().join("state.json")).unwrap();
        let settings = |program| ControllerSettings { switches: max, ..config.settings(program, 1) };
        let programs = config.programs.iter().map(|program| (config.profile(program), settings(program))).collect();
        let mut control_loop = ControllerLoop::new(programs, state, file, expected).unwrap();
        let listen = |name: &str| socket::listen("", Some(dir.path().join(name)), Access::default()).unwrap();
        let ((api, _), (switches, socket)) = (listen("api.sock"), listen("switches.sock"));
        let answers =
            controller::ControllerApi::new("net", &control_loop, Default::default(), 10, Default::default()).unwrap();
        let listeners = controller::Listeners { api, switches, tcp, api_tcp, metrics };
        controller::serve(listeners, Arc::new(answers)).unwrap();
        let stop = Arc::new(AtomicBool::default());
        let (server, controllers) = (control_loop.server().clone(), control_loop.controllers().to_vec());
        let stopped = stop.clone();
        let driven = std::thread::spawn(move || {
            while !stopped.load(Relaxed) {
                control_loop.round(Duration::from_millis(5));
            }
        });
        Self { _dir: dir, socket, server, controllers, stop, driven: Some(driven) }
    }

    fn dial(&self) -> Dial {
        Dial::new(Address::Socket(self.socket.path.clone()), None)
    }

    /// Opens a stream with these messages, which stays open.
    async fn say(&self, messages: Vec<From>) -> Result<(Streaming<ToSwitch>, mpsc::Sender<FromSwitch>), Status> {
        say(&self.dial(), messages).await
    }

    /// The controller of the first program.
    fn controller(&self) -> MutexGuard<'_, Controller> {
        self.controllers[0].lock().unwrap()
    }

    fn seen(&self, name: &str) -> view::NetworkSwitch {
        self.server.view().switches.into_iter().find(|switch| switch.name == name).unwrap_or_default()
    }
}

async fn say(dial: &Dial, messages: Vec<From>) -> Result<(Streaming<ToSwitch>, mpsc::Sender<FromSwitch>), Status> {
    let (to, stream) = mpsc::channel(messages.len() + 4);
    for message in messages {
        to.try_send(FromSwitch { what: Some(message) }).unwrap();
    }
    let mut client = ControllerClient::new(dial.channel().await.map_err(|e| Status::unavailable(tls::whole(&e)))?);
    Ok((client.attach(ReceiverStream::new(stream)).await?.into_inner(), to))
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let driven = self.driven.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || driven.is_some_and(|ended| ended.is_ok()));
    }
}

fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        match attempt() {
            Some(value) => return value,
            None => assert!(Instant::now() < end, "waited for {what}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A switch without ports: it reports empty sketches of each epoch.
struct Fake {
    name: &'static str,
    hashes: Mutex<HashFamily>,
    link: Arc<Link>,
    sink: Mutex<Box<dyn crate::telemetry::Sink>>,
    schedules: Vec<AnySchedule>,
}

impl Fake {
    fn start(lab: &Lab, name: &'static str) -> Arc<Self> {
        Self::start_with(lab, name, &config().programs)
    }

    fn start_with(lab: &Lab, name: &'static str, programs: &[ProgramConfig]) -> Arc<Self> {
        let schedules: Vec<_> = programs.iter().map(|program| program.schedule()).collect();
        let link = Link::new("here".into(), &schedules);
        let sink = Mutex::new(link.reporter());
        let hashes = Mutex::new(HashFamily::random().unwrap());
        let fake = Arc::new(Self { name, hashes, link: link.clone(), sink, schedules });
        rpc::start(lab.dial(), link, fake.clone()).unwrap();
        fake
    }

    fn report(&self, epoch: u64) {
        for (program, schedule) in self.schedules.iter().enumerate() {
            let mut dataplane = schedule.dataplane(self.name, &self.hashes.lock().unwrap()).unwrap();
            dataplane.allocate();
            dataplane.enter(epoch, true);
            let mut bank = dataplane.spare();
            dataplane.exchange(bank.as_mut());
            // The egress registers hold the first packets of the next epoch, measured as was decided
            // for it.
            dataplane.enter(epoch + 1, true);
            dataplane.exchange_egress(bank.as_mut());
            let record = bank.record();
            self.sink.lock().unwrap().closed(Closed { program, first: epoch, last: epoch, late: 0, record: &record });
        }
    }

    /// Reports epoch after epoch as they end, until `done`.
    fn run_until(&self, what: &str, mut done: impl FnMut() -> bool) {
        let length = config().epoch.nanos();
        let mut epoch = wall_clock() / length;
        eventually(what, || {
            while epoch < wall_clock() / length {
                self.report(epoch);
                epoch += 1;
            }
            done().then_some(())
        });
    }
}

impl Controlled for Fake {
    fn hello(&self) -> Option<Hello> {
        let programs: Vec<_> = self.schedules.iter().map(|schedule| schedule.program()).collect();
        Some(hello_with(self.name, &programs))
    }

    fn hash_with(&self, hashes: &HashFamily) -> Result<(), String> {
        *self.hashes.lock().unwrap() = hashes.clone();
        self.sink.lock().unwrap().renewed(&self.schedules);
        Ok(())
    }
}

#[test]
fn a_switch_joins_reports_and_obeys() {
    let lab = Lab::open(&["edge1"]);
    let fake = Fake::start(&lab, "edge1");
    let answered = || {
        let controller = lab.controller();
        controller.history().outlines().iter().filter(|entry| entry.gaps.is_empty()).count()
    };
    fake.run_until("three epochs without a gap", || answered() >= 3);
    assert!(*fake.hashes.lock().unwrap() == HashFamily::reproducible(SEED), "it hashes as the network does");
    let seen = lab.seen("edge1");
    assert_eq!((seen.connected, seen.connections, seen.software.as_str()), (true, 1, "test"));
    let link = fake.link.view();
    assert!(link.connected && link.why.is_none() && link.updates > 0 && link.sent_records >= 3, "{link:?}");
    // The sampling seed is another in each epoch.
    let updated = eventually("an update", || {
        let updates = lab.controller().updates(wall_clock() / config().epoch.nanos());
        updates.last().cloned().filter(|update| fake.schedules[0].at(update.epoch) == update.parameters)
    });
    assert!(updated.epoch > 0);
    let stored = StateFile::at(lab._dir.path().join("state.json")).unwrap().read().unwrap().unwrap();
    assert!(stored.controllers.iter().all(|controller| controller.switches == ["edge1"]));
}

impl Lab {
    /// Epochs of the program at this place whose answers have this switch's record and no gap.
    fn answered(&self, program: usize, switch: &str) -> usize {
        let answers = self.controllers[program].lock().unwrap().history().outlines();
        let whole = |entry: &&Entry<()>| entry.gaps.is_empty() && entry.switches.iter().any(|of| &**of == switch);
        answers.iter().filter(whole).count()
    }
}

/// Each program of a switch has a controller of its own; the one that another switch does not run
/// does not wait for that switch.
#[test]
fn programs_report_beside_each_other() {
    let lab = Lab::open(&[]);
    let programs = config().programs;
    let edge = Fake::start(&lab, "edge");
    let core = Fake::start_with(&lab, "core", &programs[1..]);
    let length = config().epoch.nanos();
    let mut epoch = wall_clock() / length;
    eventually("answers of both programs", || {
        while epoch < wall_clock() / length {
            [&edge, &core].iter().for_each(|fake| fake.report(epoch));
            epoch += 1;
        }
        let of_edge = (0..2).all(|program| lab.answered(program, "edge") >= 3);
        (of_edge && lab.answered(1, "core") >= 3).then_some(())
    });
    assert_eq!(lab.answered(0, "core"), 0);
    let names = |switch: &str| lab.seen(switch).programs;
    assert_eq!((names("edge"), names("core")), (vec!["chamelemon".into(), "hashpipe".into()], vec!["hashpipe".into()]));
    let view = edge.link.view();
    assert!(view.programs.iter().all(|program| program.refused.is_none()), "{view:?}");
    assert!(view.sent_records >= 6 && view.updates > 0 && view.connections == 1, "{view:?}");
}

/// A program that the controller does not run, or runs otherwise, is refused by name, and the
/// switch reports the others.
#[test]
fn a_program_that_does_not_fit_is_refused_alone() {
    let lab = Lab::open(&[]);
    let other = "hashpipe:key=src,scope=network".parse().unwrap();
    let programs = [config().programs.remove(0), other];
    let fake = Fake::start_with(&lab, "edge", &programs);
    // Records of epochs that end before that are not sent.
    eventually("a connection", || fake.link.view().connected.then_some(()));
    fake.run_until("answers of the first program", || lab.answered(0, "edge") >= 3);
    let view = fake.link.view();
    let refused: Vec<_> = view.programs.iter().map(|program| program.refused.as_deref()).collect();
    assert_eq!(refused, [None, Some("hashpipe.key of the switch is src, and the controller's is 5tuple")]);
    assert!(view.connected && view.why.is_none() && view.unsent_records == 0, "{view:?}");
    assert_eq!(
        (lab.seen("edge").programs, lab.controllers[1].lock().unwrap().switches().count()),
        (vec!["chamelemon".into()], 0)
    );

    // One that it cannot even read, and a second one of a kind.
    let mut hello = proto::Hello::from(&hello("edge2"));
    hello.programs.push(hello.programs[0].clone());
    hello.programs[1].program = "{\"name\": \"other\"}".into();
    let record = proto::Record { program: 1, ..Default::default() };
    let ready = proto::Ready { first_epoch: 1 };
    run(async {
        let messages = vec![From::Hello(hello), From::Ready(ready), From::Record(record)];
        let (mut from, _to) = lab.say(messages).await.unwrap();
        let Some(To::Welcome(welcome)) = from.message().await.unwrap().unwrap().what else { panic!("no welcome") };
        let refused: Vec<_> = welcome.refused.iter().map(|refused| (refused.program, refused.why.as_str())).collect();
        assert!(refused[0].0 == 1 && refused[0].1.contains("unknown program \"other\""), "{refused:?}");
        assert_eq!(refused[1..], [(2, "another program chamelemon of the switch reports already")]);
        let ended = loop {
            match from.message().await {
                Ok(Some(message)) => assert!(matches!(message.what, Some(To::Update(update)) if update.program == 0)),
                Ok(None) => panic!("without a reason"),
                Err(status) => break status,
            }
        };
        assert_eq!(ended.message(), "record.program: one that the controller has taken");
    });
}

/// One that left is a gap until it is forgotten; one that is there, or expected, is not forgotten.
#[test]
fn a_switch_that_left_for_good_is_forgotten() {
    let lab = Lab::open(&[]);
    let members = || lab.controller().switches().count();
    run(async {
        let ready = From::Ready(proto::Ready { first_epoch: wall_clock() / config().epoch.nanos() });
        let connection = lab.say(vec![From::Hello((&hello("edge1")).into()), ready]).await.unwrap();
        while members() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(lab.server.evict("edge1").await, Err(EvictError::Connected("edge1".into())));
        drop(connection);
    });
    eventually("it to be gone", || run(lab.server.evict("edge1")).is_ok().then_some(()));
    assert_eq!((members(), lab.server.view().switches.len()), (0, 0));
    assert_eq!(run(lab.server.evict("edge1")), Err(EvictError::Unknown("edge1".into())));
    let expecting = Lab::open(&["edge1"]);
    assert_eq!(run(expecting.server.evict("edge1")), Err(EvictError::Expected("edge1".into())));
}

/// Records of other hash functions, and those for which there is no connection, go nowhere and are
/// counted.
#[test]
fn records_that_are_not_sent_are_counted() {
    let program = &config().programs[0];
    let link = Link::new("nowhere".into(), &[program.schedule()]);
    let mut sink = link.reporter();
    let fake = HashFamily::reproducible(1);
    let mut dataplane = program.build("fake", &fake).unwrap();
    dataplane.allocate();
    let record = dataplane.spare().record();
    (0..5).for_each(|epoch| sink.closed(Closed { program: 0, first: epoch, last: epoch, late: 0, record: &record }));
    let view = link.view();
    assert_eq!((view.unsent_records, view.sent_records, view.connected), (5, 0, false));
}

#[test]
fn switches_that_do_not_fit_are_told_why() {
    let lab = Lab::open(&["edge1", "edge2"]);
    let refused = |change: &dyn Fn(&mut proto::Hello)| {
        let mut hello = proto::Hello::from(&hello("edge1"));
        change(&mut hello);
        let status = run(lab.say(vec![From::Hello(hello)])).map(drop).unwrap_err();
        (status.code(), status.message().to_owned())
    };
    let (code, why) = refused(&|hello| hello.epoch_ns += 1);
    assert_eq!(code, Code::FailedPrecondition);
    assert_eq!(why, "switch.epoch of the switch is 100000001 ns, and the controller's is 100000000 ns");
    let (code, why) = refused(&|hello| hello.inner_key = true);
    assert_eq!(code, Code::FailedPrecondition);
    assert_eq!(why, "switch.key of the switch is inner, and the controller's is outer");
    // A switch of whose programs none fits is told of the last.
    let (code, why) = refused(&|hello| {
        hello.programs.truncate(1);
        let program = &mut hello.programs[0].program;
        *program = program.replace("\"upstream\":64", "\"upstream\":65");
    });
    assert_eq!(code, Code::FailedPrecondition);
    assert_eq!(why, "chamelemon.upstream of the switch is 65, and the controller's is 64");
    let (code, why) = refused(&|hello| hello.name = "edge3".into());
    assert_eq!((code, why.as_str()), (Code::FailedPrecondition, "no switch edge3 is expected; there are edge1, edge2"));
    assert_eq!(refused(&|hello| hello.version = 1).0, Code::Unimplemented);
    assert_eq!(refused(&|hello| hello.name = "a/b".into()).0, Code::InvalidArgument);
    let status = run(lab.say(vec![From::Ready(proto::Ready { first_epoch: 1 })])).map(drop).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);

    run(async {
        let first = lab.say(vec![From::Hello((&hello("edge1")).into())]).await.unwrap();
        let status = lab.say(vec![From::Hello((&hello("edge1")).into())]).await.map(drop).unwrap_err();
        assert_eq!(status.code(), Code::AlreadyExists);
        assert_eq!(status.message(), "a switch edge1 is connected already");
        assert!(lab.seen("edge1").connected);
        drop(first);
    });
    eventually("the first to be gone", || (!lab.seen("edge1").connected).then_some(()));
    run(async { lab.say(vec![From::Hello((&hello("edge1")).into())]).await.map(drop) }).unwrap();
}

/// Over TCP a switch is who its certificate says, and nobody but a switch joins.
#[test]
fn a_switch_has_the_name_of_its_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let ca = ca(dir.path(), "ca");
    let own = ca.signs(dir.path(), "localhost", roles(&[]));
    let mut config = (*tls::server(&files(&own, &ca.certificate), Clients::Switches).unwrap()).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("localhost:{}", listener.local_addr().unwrap().port());
    let lab = Lab::open_with(&[], MAX_SWITCHES, Some(TlsListener { listener, config: Arc::new(config) }));
    let says = |identity: &Identity, name: &str| {
        let config = tls::client(&files(identity, &ca.certificate)).unwrap();
        let dial = Dial::new(Address::Tcp(address.clone()), Some(config));
        run(say(&dial, vec![From::Hello((&hello(name)).into())])).map(drop).map_err(|status| {
            let broken = std::error::Error::source(&status).map_or_else(String::new, tls::whole);
            (status.code(), format!("{}{broken}", status.message()))
        })
    };
    let edge1 = ca.signs(dir.path(), "edge1", roles(&["weir:switch:edge1"]));
    assert_eq!(says(&edge1, "edge1"), Ok(()));
    let (code, why) = says(&edge1, "edge2").unwrap_err();
    assert_eq!(code, Code::PermissionDenied);
    assert_eq!(why, "the certificate is of the switch edge1, and this one calls itself edge2");
    for (n, uris) in [&["weir:operator"][..], &[], &["weir:switch:"]].into_iter().enumerate() {
        let other = ca.signs(dir.path(), &format!("other{n}"), roles(uris));
        let (code, why) = says(&other, "edge3").unwrap_err();
        assert!(code != Code::PermissionDenied && !why.is_empty(), "{code}: {why}");
    }
    let names: Vec<_> = lab.server.view().switches.into_iter().map(|switch| switch.name).collect();
    assert!(names.iter().all(|name| name == "edge1"), "{names:?}");
}

/// By TLS a controller answers operators and readers, and a reader changes nothing; a switch's certificate is
/// none of these. Without certificates there are metrics alone.
#[test]
fn a_controller_is_asked_by_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let ca = ca(dir.path(), "ca");
    let own = ca.signs(dir.path(), "localhost", roles(&[]));
    let config = tls::server(&files(&own, &ca.certificate), Clients::OfApi).unwrap();
    let [listener, metrics] = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let address = format!("localhost:{}", listener.local_addr().unwrap().port());
    let plain = metrics.local_addr().unwrap();
    let _lab = Lab::open_asked(&["edge1"], MAX_SWITCHES, None, (Some(TlsListener { listener, config }), Some(metrics)));
    let client = |role: &str| {
        let identity = ca.signs(dir.path(), &role.replace(':', "-"), roles(&[role]));
        Client::connect_tls(&address, tls::client(&files(&identity, &ca.certificate)).unwrap()).unwrap()
    };
    let [operator, reader, switch] = ["weir:operator", "weir:reader", "weir:switch:edge1"].map(client);
    let evict = |client: &Client| client.delete::<view::EvictedSwitch>("/v1/switches/edge2").unwrap_err().to_string();
    assert!(evict(&operator).contains("edge2"), "{}", evict(&operator));
    assert!(evict(&reader).ends_with("a reader's certificate may ask and change nothing"), "{}", evict(&reader));
    for client in [&operator, &reader] {
        assert!(client.get::<view::NetworkSwitches>("/v1/switches").is_ok());
        let text = client.text("/metrics", "application/openmetrics-text").unwrap();
        assert!(
            text.contains("controller=\"net\"} 1\n") && text.contains("weir_final_epochs_total{program="),
            "{text}"
        );
    }
    assert!(switch.get::<view::NetworkSwitches>("/v1/switches").is_err());
    let ask = |path: &str| {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(plain).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: weir\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask("/metrics").contains("weir_start_time_seconds "), "{}", ask("/metrics"));
    assert!(ask("/v1/switches").starts_with("HTTP/1.1 404"));
}

/// Names that come and go take no memory, and of those that join there are as many as a network may
/// have.
#[test]
fn ever_new_names_are_bounded() {
    let lab = Lab::open_with(&[], 3, None);
    let known = || lab.server.view().switches.len();
    let hello = |name: &str| From::Hello((&hello(name)).into());
    let ready = || From::Ready(proto::Ready { first_epoch: wall_clock() / config().epoch.nanos() });
    for n in 0..10 {
        drop(run(lab.say(vec![hello(&format!("passer{n}"))])).unwrap());
        eventually("it to be gone", || (known() == 0).then_some(()));
    }
    for n in 0..3 {
        let name = format!("edge{n}");
        let connection = run(lab.say(vec![hello(&name), ready()])).unwrap();
        let members = || lab.controller().switches().count();
        eventually("it to join", || (members() == n + 1).then_some(()));
        drop(connection);
        eventually("it to be gone", || (!lab.seen(&name).connected).then_some(()));
    }
    let status = run(lab.say(vec![hello("edge3"), ready()])).map(drop).unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.message(), "switch edge3: the network has 3 switches already");
    assert_eq!((known(), lab.controller().save().switches.len()), (3, 3));
    eventually("it to be forgotten", || run(lab.server.evict("edge0")).is_ok().then_some(()));
    run(lab.say(vec![hello("edge3"), ready()])).map(drop).unwrap();
}

/// Refused by the length that it announces, of which nothing has come.
#[test]
fn a_hello_is_short() {
    let lab = Lab::open(&[]);
    let of = |bytes: usize| {
        let mut hello = proto::Hello::from(&hello("edge1"));
        hello.software = "x".repeat(bytes);
        run(lab.say(vec![From::Hello(hello)])).map(drop).unwrap_err()
    };
    let status = of(16_384);
    assert_eq!((status.code(), status.message()), (Code::OutOfRange, "a hello has at most 16384 bytes"));
    assert_eq!(of(12_000).code(), Code::InvalidArgument, "read, and refused for another reason");
    assert_eq!(lab.server.view().switches, []);
}

/// Switches may have other numbers of cells than the controller's own configuration: a record is as
/// long as those of its switch can be, and is read as one of its switch.
#[test]
fn records_are_as_long_as_their_switch_says() {
    let lab = Lab::open(&[]);
    let flow = |port: u16| crate::wire::Flow { sport: Some(port), ..Default::default() };
    let counts: Counts = (0..60_000).map(|port| (flow(port), 7.into())).collect();
    let record = proto::Record { record: Record::encode(&counts).into(), ..Default::default() };
    let say = |name: &str, slots: u32| {
        let hashpipe = format!("hashpipe:stages=2,slots={slots},slots6=8,scope=network").parse().unwrap();
        let ready = From::Ready(proto::Ready { first_epoch: 1 });
        lab.say(vec![From::Hello((&hello_with(name, &[hashpipe])).into()), ready, From::Record(record.clone())])
    };
    let refused = |name: &str, slots| -> Status {
        run(async {
            let (mut from, _to) = match say(name, slots).await {
                Ok(streams) => streams,
                Err(status) => return status,
            };
            loop {
                match from.message().await {
                    Ok(message) => assert!(message.is_some()),
                    Err(status) => return status,
                }
            }
        })
    };
    run(async {
        let (mut from, _to) = say("wide", 1000).await.unwrap();
        while lab.seen("wide").records == 0 {
            // The connection goes on meanwhile.
            let message = tokio::time::timeout(Duration::from_millis(20), from.message()).await;
            assert!(message.is_err() || message.is_ok_and(|message| message.is_ok()));
        }
        assert!(lab.seen("wide").connected && lab.seen("wide").refused_records == 0, "{:?}", lab.seen("wide"));
    });
    let narrow = refused("narrow", 100);
    let why = "record.record: the number of flows before byte 4: at most one for each cell of the switch";
    assert_eq!((narrow.code(), narrow.message()), (Code::InvalidArgument, why));
    let short = refused("short", 8);
    assert_eq!((short.code(), short.message()), (Code::OutOfRange, "a record of this switch has at most 196619 bytes"));
    // More than a controller takes from any switch.
    let huge = refused("huge", 1 << 24);
    let why = "records of hashpipe, as the switch has it, may have 206158528523 bytes, and the controller takes 268435456; \
               fewer cells, or as many in the controller's own configuration";
    assert_eq!((huge.code(), huge.message()), (Code::FailedPrecondition, why));
}

/// Bytes that are no record end the connection with the reason, and nothing else.
#[test]
fn hostile_records_end_their_own_connection() {
    let lab = Lab::open(&[]);
    let bad = |record: proto::Record| {
        run(async {
            let hello = From::Hello((&hello("edge1")).into());
            let ready = From::Ready(proto::Ready { first_epoch: wall_clock() / config().epoch.nanos() });
            let (mut from, _to) = lab.say(vec![hello, ready, From::Record(record)]).await.unwrap();
            loop {
                match from.message().await {
                    Ok(Some(message)) => assert!(matches!(message.what, Some(To::Welcome(_) | To::Update(_)))),
                    Ok(None) => panic!("without a reason"),
                    Err(status) => return status,
                }
            }
        })
    };
    let record = |record: &[u8]| proto::Record { record: record.to_vec().into(), ..Default::default() };
    for (bytes, why) in [(&b""[..], "ends after 0 bytes"), (b"\x09", "version 9"), (&[1; 4000], "")] {
        let status = bad(record(bytes));
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().starts_with("record.record: ") && status.message().contains(why), "{status}");
        eventually("the connection to end", || (!lab.seen("edge1").connected).then_some(()));
    }
    let backwards = proto::Record { first_epoch: 2, last_epoch: 1, ..Default::default() };
    assert!(bad(backwards).message().starts_with("record.last_epoch: "));
    eventually("the connection to end", || (!lab.seen("edge1").connected).then_some(()));
    // Longer than any record of this switch can be: refused by its announced length.
    let longest = config().programs.iter().map(|program| program.longest()).max().unwrap();
    let status = bad(record(&vec![0; 8 << 20]));
    let why = format!("a record of this switch has at most {longest} bytes");
    assert_eq!((status.code(), status.message()), (Code::OutOfRange, &*why));
    assert!(longest < 512 << 10, "{longest}");
}
