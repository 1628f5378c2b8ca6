//! The routes of the page.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use maud::{DOCTYPE, Markup, html};
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::Source;
use super::answers::FlowAnswers;
use super::board::Board;
use super::events::{self, READERS};
use super::frame::Frame;
use super::guard::{Hosts, guard};
use super::pace::Ask;
use super::sections::{self, MAP};
use crate::wire::Pattern;

/// The state behind the routes.
pub struct Served<S> {
    pub board: Arc<Board<S>>,
    /// Places of readers of streams.
    pub readers: Arc<Semaphore>,
}

/// Longest text of a pattern of flows.
const FLOW_BYTES: usize = 256;

pub fn router<S: Source>(source: Arc<S>, hosts: &[String]) -> Router {
    let served = Served { board: Board::new(source), readers: Arc::new(Semaphore::new(READERS)) };
    Router::new()
        .route("/", get(page::<S>))
        .route("/flow", get(flow::<S>))
        .route("/events", get(events::stream::<S>))
        .route("/pace/{ask}", post(pace::<S>))
        .route("/page.js", get(|| file("text/javascript; charset=utf-8", include_str!("page.js"))))
        .route("/page.css", get(|| file("text/css; charset=utf-8", include_str!("page.css"))))
        .fallback(async || (StatusCode::NOT_FOUND, "there is no such page"))
        .with_state(Arc::new(served))
        .layer(middleware::from_fn_with_state(Hosts::new(hosts), guard))
}

type File = ([(HeaderName, &'static str); 1], &'static str);

async fn file(kind: &'static str, text: &'static str) -> File {
    ([(CONTENT_TYPE, kind)], text)
}

/// The flows that a reader has chosen.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Chosen {
    flow: Option<String>,
}

impl Chosen {
    fn pattern(&self) -> Result<Option<Pattern>, Refusal> {
        let Some(flow) = &self.flow else { return Ok(None) };
        let pattern = (flow.len() <= FLOW_BYTES).then(|| flow.parse().ok()).flatten();
        pattern.map(Some).ok_or((StatusCode::BAD_REQUEST, "flow: no flow is named like this"))
    }
}

/// What is refused is not repeated.
type Refusal = (StatusCode, &'static str);
type Asked = Result<Query<Chosen>, QueryRejection>;

fn chosen(asked: Asked) -> Result<Option<Pattern>, Refusal> {
    let wrong = |_| (StatusCode::BAD_REQUEST, "the page takes flow=FLOW and nothing else");
    asked.map_err(wrong)?.0.pattern()
}

async fn page<S: Source>(State(served): State<Arc<Served<S>>>, asked: Asked) -> Result<Html, Refusal> {
    let flow = chosen(asked)?;
    let frame = served.board.fresh().await;
    let flow = chosen_flow(&served.board, flow).await;
    Ok(Html(whole(&served.board.source().name(), &frame, flow)))
}

async fn flow<S: Source>(State(served): State<Arc<Served<S>>>, asked: Asked) -> Result<Html, Refusal> {
    let flow = chosen(asked)?;
    Ok(Html(chosen_flow(&served.board, flow).await))
}

async fn chosen_flow<S: Source>(board: &Board<S>, flow: Option<Pattern>) -> Markup {
    match flow {
        Some(flow) => sections::flow(&flow, &FlowAnswers::ask(board.source(), &flow).await),
        None => sections::no_flow(),
    }
}

async fn pace<S: Source>(State(served): State<Arc<Served<S>>>, Path(ask): Path<String>) -> Response {
    let asked = served.board.source().pace().zip(Ask::named(&ask));
    let Some((pace, ask)) = asked else {
        return (StatusCode::NOT_FOUND, "nothing here can be asked for that").into_response();
    };
    pace.ask(ask);
    Redirect::to("/").into_response()
}

struct Html(Markup);

impl IntoResponse for Html {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, "text/html; charset=utf-8")], self.0.0).into_response()
    }
}

/// The document. The script adds to it and is not needed to read it.
fn whole(name: &str, frame: &Frame, flow: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (name) " · weir" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/page.css";
                script src="/page.js" defer {}
            }
            body data-frame=(frame.number) {
                a.skip href="#main" { "Skip to the answers" }
                main #main {
                    @for section in frame.sections() {
                        (section.html)
                        @if section.id == MAP { (flow) }
                    }
                }
            }
        }
    }
}
