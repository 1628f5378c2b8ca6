//! The controller's side: switches come, are taken in or refused, report, are given orders, and go.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use super::messages::{BadMessage, Hello, Order, Record, Refusal, Welcome};
use super::proto::controller_server::{Controller, ControllerServer};
use super::proto::from_switch::What as From;
use super::proto::to_switch::What as To;
use super::proto::{FromSwitch, ToSwitch};

/// A switch that has not said by then who it is goes.
const HELLO: Duration = Duration::from_secs(5);
/// Orders that a switch may leave unread.
const UNREAD: usize = 64;

/// The network that the switches are of. The calls come from the thread that serves all switches, and must not wait.
pub trait Network: Send + Sync + 'static {
    /// Takes a switch in, or says why not. From then on until [`Self::leaves`] its name is taken.
    fn joins(&self, hello: &Hello) -> Result<Welcome, Refusal>;
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
        // Before the welcome is made, so that no order falls between.
        let orders = self.0.orders();
        let welcome = self.0.joins(&hello)?;
        let member = Member { network: self.0.clone(), name: hello.name };
        let (to, answers) = mpsc::channel(UNREAD);
        tokio::spawn(member.attend(from, to, orders, welcome));
        Ok(Response::new(ReceiverStream::new(answers)))
    }
}

/// A switch that was taken in, until dropped.
struct Member<N: Network> {
    network: Arc<N>,
    name: String,
}

impl<N: Network> Drop for Member<N> {
    fn drop(&mut self) {
        self.network.leaves(&self.name);
    }
}

impl<N: Network> Member<N> {
    /// Until one of both sides ends it.
    async fn attend(
        self,
        mut from: Streaming<FromSwitch>,
        to: mpsc::Sender<Result<ToSwitch, Status>>,
        mut orders: watch::Receiver<Vec<Order>>,
        welcome: Welcome,
    ) {
        let mut told = welcome.orders.clone();
        let say = |what| to.try_send(Ok(ToSwitch { what: Some(what) }));
        if say(To::Welcome((&welcome).into())).is_err() {
            return;
        }
        loop {
            tokio::select! {
                message = from.message() => match message {
                    Ok(Some(message)) => if let Err(refusal) = self.hear(message) {
                        tracing::warn!("{} is sent away: {refusal}", self.name);
                        let _ = to.try_send(Err(Refusal::from(refusal).into()));
                        return;
                    },
                    Ok(None) | Err(_) => return,
                },
                changed = orders.changed() => {
                    if changed.is_err() {
                        let _ = to.try_send(Err(Status::unavailable("the controller is stopping")));
                        return;
                    }
                    let now = orders.borrow_and_update().clone();
                    for order in now.iter().filter(|order| !told.contains(order)) {
                        // Who reads nothing any more is not worth more memory.
                        if say(To::Order(order.into())).is_err() {
                            return;
                        }
                    }
                    told = now;
                }
            }
        }
    }

    fn hear(&self, message: FromSwitch) -> Result<(), BadMessage> {
        match message.what {
            Some(From::Record(record)) => self.network.reports(&self.name, record.try_into()?),
            Some(From::Hello(_)) => Err(BadMessage { field: "hello", why: "said once".into() }),
            None => Err(BadMessage { field: "what", why: "missing, or of a later version".into() }),
        }
    }
}
