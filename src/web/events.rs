//! The stream of server-sent events: to each reader the elements that it has not seen.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive};
use axum::response::{IntoResponse, Response, Sse};
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;

use super::Source;
use super::frame::Frame;
use super::routes::Served;

/// Readers of streams at a time.
pub const READERS: usize = 16;
/// A reader that does not take an event for so long is left.
const SLOW: Duration = Duration::from_secs(30);
/// Period of comments, by which it shows that a reader has gone.
const ALIVE_EVERY: Duration = Duration::from_secs(5);

/// The number of the last frame that a reader has.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    #[serde(default)]
    seen: u64,
}

/// Route of `GET /events`.
pub async fn stream<S: Source>(State(served): State<Arc<Served<S>>>, Query(Seen { seen }): Query<Seen>) -> Response {
    let Ok(place) = served.readers.clone().try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "the page has as many readers as it takes").into_response();
    };
    // One event waits for a slow reader; frames that pass meanwhile are skipped.
    let (events, waiting) = mpsc::channel(1);
    tokio::spawn(send(served.board.subscribe(), seen, events, place));
    let alive = KeepAlive::new().interval(ALIVE_EVERY);
    Sse::new(ReceiverStream::new(waiting)).keep_alive(alive).into_response()
}

type Events = mpsc::Sender<Result<Event, Infallible>>;

/// Sends what changes, until the reader has gone.
async fn send(mut frames: watch::Receiver<Arc<Frame>>, mut seen: u64, events: Events, _place: OwnedSemaphorePermit) {
    loop {
        let frame = frames.borrow_and_update().clone();
        let changed = frame.since(seen);
        if !changed.is_empty() {
            let Ok(json) = serde_json::to_string(&changed) else { return };
            let event = Event::default().id(frame.number.to_string()).data(json);
            let Ok(Ok(())) = timeout(SLOW, events.send(Ok(event))).await else { return };
        }
        seen = frame.number;
        tokio::select! {
            changed = frames.changed() => if changed.is_err() { return },
            () = events.closed() => return,
        }
    }
}
