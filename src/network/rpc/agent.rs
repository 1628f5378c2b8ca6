//! The switch's side: dials the controller again and again, takes its hash functions and updates
//! over, and sends records.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::dial::Dial;
use super::link::Link;
use super::messages::{BadMessage, Hello, Offer, read_update, read_welcome};
use super::proto::controller_client::ControllerClient;
use super::proto::from_switch::What as From;
use super::proto::to_switch::What as To;
use super::proto::{FromSwitch, ToSwitch};
use crate::network::tls;
use crate::pisa::hash::HashFamily;
use crate::telemetry::epoch::Nanos;

/// Records that wait to be sent; further ones are dropped.
const WAITING: usize = 8;
/// The wait before the controller is dialled again, doubled each time.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// A welcome or a refusal is there by then.
const ANSWER: Duration = Duration::from_secs(10);

/// The switch, as far as its controller changes it.
pub trait Controlled: Send + Sync + 'static {
    /// The hello of the switch as it is now; `None` when it runs no program whose records a controller takes.
    fn hello(&self) -> Option<Hello>;
    /// Hashes with this family from now on. May take a moment.
    fn hash_with(&self, hashes: &HashFamily) -> Result<(), String>;
}

/// Keeps a switch attached to its controller, on a thread of its own, until the process ends.
pub fn start(dial: Dial, link: Arc<Link>, switch: Arc<impl Controlled>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("weir-agent".into()).spawn(move || {
        runtime.block_on(async {
            let mut wait = FIRST_WAIT;
            loop {
                let (welcomed, why) = attach(&dial, &link, &switch).await;
                if welcomed {
                    wait = FIRST_WAIT;
                }
                link.left(&why);
                // Another program may be what the controller wants.
                let _ = timeout(wait, link.generation().changed()).await;
                wait = (2 * wait).min(LONGEST_WAIT);
            }
        });
    })?;
    Ok(())
}

/// One connection, from the first packet to the last. Whether the switch was taken in, and why it
/// ended.
async fn attach(dial: &Dial, link: &Link, switch: &Arc<impl Controlled>) -> (bool, String) {
    let Some(hello) = switch.hello() else {
        return (false, "the switch runs no program whose records a controller takes".into());
    };
    let (to, messages) = mpsc::channel(WAITING);
    // There is room in a new channel.
    let _ = to.try_send(FromSwitch { what: Some(From::Hello((&hello).into())) });
    let mut from = match open(dial, messages).await {
        Ok(from) => from,
        Err(why) => return (false, why),
    };
    let generation = match welcome(&mut from, link, switch, &hello, to).await {
        Ok(generation) => generation,
        Err(why) => return (false, why),
    };
    (true, attend(from, link, generation, &hello.programs).await)
}

/// Connects and asks to be taken in.
async fn open(dial: &Dial, messages: mpsc::Receiver<FromSwitch>) -> Result<Streaming<ToSwitch>, String> {
    let channel = dial.channel().await.map_err(|error| caused(&error))?;
    let mut client = ControllerClient::new(channel).max_decoding_message_size(super::LONGEST);
    let stream = timeout(ANSWER, client.attach(ReceiverStream::new(messages))).await;
    let stream = stream.map_err(|_| "the controller does not answer".to_owned())?.map_err(|status| said(&status))?;
    Ok(stream.into_inner())
}

/// The switch becomes one of the controller's network. Gives what tells that its programs are
/// replaced.
async fn welcome(
    from: &mut Streaming<ToSwitch>,
    link: &Link,
    switch: &Arc<impl Controlled>,
    hello: &Hello,
    to: mpsc::Sender<FromSwitch>,
) -> Result<watch::Receiver<Nanos>, String> {
    let message = timeout(ANSWER, from.message()).await.map_err(|_| "the controller does not answer".to_owned())?;
    let message = message.map_err(|status| said(&status))?.ok_or("the controller hung up")?;
    let Some(To::Welcome(welcome)) = message.what else { return Err("the controller sent no welcome".into()) };
    let welcome = read_welcome(welcome, hello.programs.len());
    let (hashes, refused) = welcome.map_err(|error| format!("the controller: {error}"))?;
    if link.hashes_otherwise(&hashes) {
        let (switch, hashes) = (switch.clone(), hashes.clone());
        let hashing = tokio::task::spawn_blocking(move || switch.hash_with(&hashes)).await;
        hashing.map_err(|error| error.to_string())??;
    }
    let generation = link.generation();
    if switch.hello().as_ref() != Some(hello) {
        return Err("the switch runs another program".into());
    }
    link.welcomed(hashes, refused, hello.length, to)?;
    Ok(generation)
}

/// Takes updates until the connection ends, or the switch's programs are replaced. Records take
/// their own way.
async fn attend(
    mut from: Streaming<ToSwitch>,
    link: &Link,
    mut generation: watch::Receiver<Nanos>,
    programs: &[Result<Offer, BadMessage>],
) -> String {
    loop {
        tokio::select! {
            message = from.message() => match message {
                Ok(Some(message)) => if let Err(why) = apply(message, link, programs) {
                    return format!("the controller: {why}");
                },
                Ok(None) => return "the controller hung up".into(),
                Err(status) => return said(&status),
            },
            _ = generation.changed() => return "the switch's programs were replaced".into(),
        }
    }
}

fn apply(message: ToSwitch, link: &Link, programs: &[Result<Offer, BadMessage>]) -> Result<(), String> {
    match message.what {
        Some(To::Update(update)) => {
            let place = update.program as usize;
            let Some(Ok(offer)) = programs.get(place) else { return Err("an update for no program".into()) };
            let update = read_update(&update, &offer.program).map_err(|error| error.to_string())?;
            link.update(place, update)
        }
        Some(To::Welcome(_)) => Err("a second welcome".into()),
        // Of a later version: what it is about, a switch of this one cannot do.
        None => Ok(()),
    }
}

/// What a controller gave as its reason, or what went wrong on the way.
fn said(status: &Status) -> String {
    match std::error::Error::source(status) {
        Some(source) => format!("the connection broke: {}", tls::whole(source)),
        None => status.message().to_owned(),
    }
}

/// What is behind an error of which the first words say nothing.
fn caused(error: &(dyn std::error::Error + 'static)) -> String {
    tls::whole(error.source().unwrap_or(error))
}
