//! The controller's side: switches come, are taken in or refused, report, are given orders, and go.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use super::messages::{BadMessage, Hello, Record, Refusal};
use super::proto::controller_server::{Controller, ControllerServer};
use super::proto::from_switch::What as From;
use super::proto::to_switch::What as To;
use super::proto::{FromSwitch, ToSwitch};
use crate::control::controller::Order;
use crate::pisa::hash::Polynomials;

/// A switch that has not said by then who it is goes.
const HELLO: Duration = Duration::from_secs(5);
/// And one that does not hash as the others by then.
const READY: Duration = Duration::from_secs(30);
/// Orders that a switch may leave unread.
const UNREAD: usize = 64;

/// The network that the switches are of. The calls come from the thread that serves all switches, and must not wait.
pub trait Network: Send + Sync + 'static {
    /// Takes a switch in, and gives it the hash functions of the network; or says why not. From then on until
    /// [`Self::leaves`] its name is taken.
    fn welcomes(&self, hello: &Hello) -> Result<Polynomials, Refusal>;
    /// The switch measures with them from this epoch's beginning.
    fn joins(&self, hello: &Hello, first_epoch: u64) -> impl Future<Output = Result<(), Refusal>> + Send;
    fn reports(&self, switch: &str, record: Record) -> Result<(), BadMessage>;
    fn leaves(&self, switch: &str);
    /// The orders in force and to come.
    fn orders(&self) -> watch::Receiver<Vec<Order>>;
}

/// What serves switches, whose records are no longer than `longest` bytes.
pub fn serve(network: Arc<impl Network>, longest: usize) -> Router {
    let server = ControllerServer::new(Server(network)).max_decoding_message_size(longest + super::LONGEST);
    Routes::new(server).into_axum_router()
}

struct Server<N>(Arc<N>);

type Answers = ReceiverStream<Result<ToSwitch, Status>>;

#[tonic::async_trait]
impl<N: Network> Controller for Server<N> {
    type AttachStream = Answers;

    async fn attach(&self, request: Request<Streaming<FromSwitch>>) -> Result<Response<Answers>, Status> {
        let mut from = request.into_inner();
        let first = timeout(HELLO, from.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("no hello has come"))??;
        let Some(FromSwitch { what: Some(From::Hello(hello)) }) = first else {
            return Err(Status::invalid_argument("the first message is a hello"));
        };
        let hello = Hello::try_from(hello)?;
        let polynomials = self.0.welcomes(&hello)?;
        let (to, answers) = mpsc::channel(UNREAD);
        let member = Member { network: self.0.clone(), hello, to };
        tokio::spawn(async move {
            member.say(To::Welcome((&polynomials).into()));
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

    /// Until one of both sides ends it.
    async fn attend(&self, mut from: Streaming<FromSwitch>) -> Result<(), Status> {
        let ready = timeout(READY, from.message()).await;
        let Some(message) = ready.map_err(|_| Status::deadline_exceeded("the switch is not ready"))?? else {
            return Ok(());
        };
        let Some(From::Ready(ready)) = message.what else {
            return Err(Status::invalid_argument("the second message says that the switch is ready"));
        };
        self.network.joins(&self.hello, ready.first_epoch).await?;
        let mut orders = self.network.orders();
        // Those that are there already are told as well.
        orders.mark_changed();
        let mut told = Vec::new();
        loop {
            tokio::select! {
                message = from.message() => match message? {
                    Some(message) => self.hear(message)?,
                    None => return Ok(()),
                },
                changed = orders.changed() => {
                    changed.map_err(|_| Status::from(Refusal::Stopping))?;
                    let now = orders.borrow_and_update().clone();
                    let mut fresh = now.iter().filter(|order| !told.contains(*order));
                    if !fresh.all(|order| self.say(To::Order(order.into()))) {
                        return Err(Status::resource_exhausted("the switch does not read its orders"));
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
                Record::try_from(record).and_then(|record| self.network.reports(&self.hello.name, record))
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
