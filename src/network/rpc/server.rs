//! The controller's side: switches come, are taken in or refused, report, are given parameters, and
//! go.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arrayvec::ArrayVec;
use axum::body::Body;
use axum::extract::Request as HttpRequest;
use axum::{Router, middleware};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use super::messages::{BadMessage, Hello, Refusal, Welcome};
use super::proto::controller_server::{Controller, ControllerServer};
use super::proto::from_switch::What as From;
use super::proto::to_switch::What as To;
use super::proto::{FromSwitch, Record, ToSwitch, Update};
use crate::network::controller::ParameterUpdate;

/// A switch that has not said by then who it is goes.
const HELLO: Duration = Duration::from_secs(5);
/// And one that does not hash as the others by then.
const READY: Duration = Duration::from_secs(30);
/// Parameter updates that a switch may leave unread.
const UNREAD: usize = 64;
/// Longest hello, and most bytes of a record's message besides the record's own.
const HELLO_BYTES: usize = 16 << 10;
const RECORD_FIELDS: usize = 72;
/// Longest record of any switch, in bytes.
pub const LONGEST_RECORD: usize = 256 << 20;

/// The network that the switches are of. The calls come from the thread that serves all switches,
/// and must not wait.
pub trait Network: Send + Sync + 'static {
    /// Takes a switch in with at least one of its programs, or says why not. From then on until
    /// [`Self::leaves`] its name is taken.
    fn welcomes(&self, hello: &Hello) -> Result<Welcome, Refusal>;
    /// The switch measures with the network's hash functions from this epoch's beginning.
    /// `programs` is what its welcome said.
    fn joins(
        &self,
        hello: &Hello,
        programs: &[Result<usize, Refusal>],
        first_epoch: u64,
    ) -> impl Future<Output = Result<(), Refusal>> + Send;
    /// Takes a record of the network's program at this place.
    fn reports(&self, switch: &str, program: usize, record: Record) -> Result<(), BadMessage>;
    fn leaves(&self, switch: &str);
    /// The updates in force and to come, with the places of their programs.
    fn updates(&self) -> watch::Receiver<Vec<(usize, ParameterUpdate)>>;
}

/// The names that the certificate of a connection's switch allows.
#[derive(Clone, Debug)]
pub struct Certified(pub Arc<[String]>);

/// What serves switches. A message is no longer than a hello, and once the switch is welcome, than its
/// records.
pub fn serve(network: Arc<impl Network>) -> Router {
    let server = ControllerServer::new(Server(network)).max_decoding_message_size(usize::MAX);
    let limited = |mut request: HttpRequest| async {
        let longest = Longest::default();
        request.extensions_mut().insert(longest.clone());
        request.map(|body| Body::new(Limited::new(body, longest)))
    };
    Routes::new(server).into_axum_router().layer(middleware::map_request(limited))
}

/// Most bytes of the next message of a stream.
#[derive(Clone)]
struct Longest(Arc<AtomicUsize>);

impl Default for Longest {
    fn default() -> Self {
        Self(Arc::new(HELLO_BYTES.into()))
    }
}

/// The body of a request. A message that is too long ends it before it is read, and no frame is handed on
/// that holds more than the end of one: the first one says how long those behind it may be.
struct Limited {
    body: Body,
    longest: Longest,
    /// Received, and not handed on.
    behind: Bytes,
    /// What has come of the next message's prefix: a byte for its compression, and its length.
    prefix: ArrayVec<u8, 5>,
    /// Bytes that are to come of the running message.
    rest: usize,
}

impl Limited {
    fn new(body: Body, longest: Longest) -> Self {
        Self { body, longest, behind: Bytes::new(), prefix: ArrayVec::new(), rest: 0 }
    }

    /// The number of bytes that are of the running message, its prefix included. An error is the limit
    /// that it exceeds.
    fn pass(&mut self, bytes: &[u8]) -> Result<usize, usize> {
        let mut passed = 0;
        if self.rest == 0 {
            passed = self.prefix.remaining_capacity().min(bytes.len());
            self.prefix.extend(bytes[..passed].iter().copied());
            let [_, length @ ..] = self.prefix.as_slice() else { return Ok(passed) };
            if length.len() < 4 {
                return Ok(passed);
            }
            self.rest = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            self.prefix.clear();
            let longest = self.longest.0.load(Relaxed);
            if self.rest > longest {
                return Err(longest);
            }
        }
        let more = self.rest.min(bytes.len() - passed);
        self.rest -= more;
        Ok(passed + more)
    }
}

impl HttpBody for Limited {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut data = std::mem::take(&mut self.behind);
        if data.is_empty() {
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)?) else { return Poll::Ready(None) };
            data = match frame.into_data() {
                Ok(data) => data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            };
        }
        let passed = self.pass(&data).map_err(|longest| {
            let why = match longest {
                HELLO_BYTES => format!("a hello has at most {HELLO_BYTES} bytes"),
                longest => format!("a record of this switch has at most {} bytes", longest - RECORD_FIELDS),
            };
            axum::Error::new(Status::out_of_range(why))
        })?;
        self.behind = data.split_off(passed);
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}

struct Server<N>(Arc<N>);

type Answers = ReceiverStream<Result<ToSwitch, Status>>;

#[tonic::async_trait]
impl<N: Network> Controller for Server<N> {
    type AttachStream = Answers;

    async fn attach(&self, request: Request<Streaming<FromSwitch>>) -> Result<Response<Answers>, Status> {
        let certified = request.extensions().get::<Certified>().cloned();
        let longest = request.extensions().get::<Longest>().cloned();
        let mut from = request.into_inner();
        let first = timeout(HELLO, from.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("no hello has come"))??;
        let Some(FromSwitch { what: Some(From::Hello(hello)) }) = first else {
            return Err(Status::invalid_argument("the first message is a hello"));
        };
        let hello = Hello::try_from(hello)?;
        if let Some(Certified(names)) = certified
            && !names.contains(&hello.name)
        {
            return Err(Refusal::Uncertified { name: hello.name, names: names.join(", ") }.into());
        }
        let welcome = self.0.welcomes(&hello)?;
        if let Some(Longest(longest)) = longest {
            longest.store(welcome.longest(&hello) + RECORD_FIELDS, Relaxed);
        }
        let (to, answers) = mpsc::channel(UNREAD);
        let said = To::Welcome((&welcome).into());
        let member = Member { network: self.0.clone(), hello, programs: welcome.programs, to };
        tokio::spawn(async move {
            member.say(said);
            let ended = member.attend(from).await;
            if let Err(why) = ended {
                let _ = member.to.try_send(Err(why));
            }
        });
        Ok(Response::new(ReceiverStream::new(answers)))
    }
}

/// A switch that was taken in, until dropped.
struct Member<N: Network> {
    network: Arc<N>,
    hello: Hello,
    /// Of each of its programs: the place among the network's, or why it has none.
    programs: Vec<Result<usize, Refusal>>,
    to: mpsc::Sender<Result<ToSwitch, Status>>,
}

impl<N: Network> Drop for Member<N> {
    fn drop(&mut self) {
        self.network.leaves(&self.hello.name);
    }
}

impl<N: Network> Member<N> {
    /// False when the switch is gone, or does not read what it is told.
    fn say(&self, what: To) -> bool {
        self.to.try_send(Ok(ToSwitch { what: Some(what) })).is_ok()
    }

    /// Sends an update of the network's program at this place, if the switch reports it. False as
    /// [`Self::say`].
    fn tell(&self, place: usize, update: &ParameterUpdate) -> bool {
        let program = self.programs.iter().position(|own| *own == Ok(place));
        program.is_none_or(|program| self.say(To::Update(Update::new(program, update))))
    }

    /// Until one of both sides ends it.
    async fn attend(&self, mut from: Streaming<FromSwitch>) -> Result<(), Status> {
        let ready = timeout(READY, from.message()).await;
        let Some(message) = ready.map_err(|_| Status::deadline_exceeded("the switch is not ready"))?? else {
            return Ok(());
        };
        let Some(From::Ready(ready)) = message.what else {
            return Err(Status::invalid_argument("the second message says that the switch is ready"));
        };
        self.network.joins(&self.hello, &self.programs, ready.first_epoch).await?;
        let mut updates = self.network.updates();
        // Those that are there already are told as well.
        updates.mark_changed();
        let mut told = Vec::new();
        loop {
            tokio::select! {
                message = from.message() => match message? {
                    Some(message) => self.hear(message)?,
                    None => return Ok(()),
                },
                changed = updates.changed() => {
                    changed.map_err(|_| Status::from(Refusal::Stopping))?;
                    let now = updates.borrow_and_update().clone();
                    let mut fresh = now.iter().filter(|update| !told.contains(*update));
                    if !fresh.all(|(place, update)| self.tell(*place, update)) {
                        return Err(Status::resource_exhausted("the switch does not read its updates"));
                    }
                    told = now;
                }
            }
        }
    }

    fn hear(&self, message: FromSwitch) -> Result<(), Status> {
        let bad = |field, why: &str| Err(BadMessage { field, why: why.into() });
        let heard = match message.what {
            Some(From::Record(record)) => {
                record.checked().and_then(|record| match self.programs.get(record.program as usize) {
                    Some(Ok(place)) => self.network.reports(&self.hello.name, *place, record),
                    _ => bad("record.program", "one that the controller has taken"),
                })
            }
            Some(From::Hello(_)) => bad("hello", "said once"),
            Some(From::Ready(_)) => bad("ready", "said once"),
            None => bad("what", "missing, or of a later version"),
        };
        heard.map_err(|refusal| {
            tracing::warn!(target: "weir", switch = self.hello.name, "{} is sent away: {refusal}", self.hello.name);
            Refusal::from(refusal).into()
        })
    }
}
