//! Requests that need more than a line: taken apart, done, answered.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri};
use axum::routing::{MethodRouter, get};
use serde::Serialize;

use super::{Answering, Changes, HeavyQuery, Link, Mtu, NewPort, Promiscuous, Service};
use crate::api::{metrics, view};
use crate::program::answers::Task;
use crate::telemetry::epoch::wall_clock;
use crate::telemetry::{AnswerStore, Selected};

pub type Answer<T> = Result<Json<T>, (StatusCode, Json<view::Failure>)>;

pub fn answer<T>(result: Result<T, String>) -> Answer<T> {
    result.map(Json).map_err(|error| (StatusCode::BAD_REQUEST, Json(view::Failure { error })))
}

type Asked = Result<Query<HeavyQuery>, QueryRejection>;

/// Route of a task. `view` makes its document of the program's name, the epochs and the query.
pub fn task<A: Answering, D: Serialize + 'static>(
    task: Task,
    view: fn(&str, Selected, &HeavyQuery) -> D,
) -> MethodRouter<Arc<A>> {
    let document = move |service: &A, query: Asked| {
        let Query(query) = query.map_err(|wrong| wrong.body_text())?;
        let (program, store) = service.store(task, &query)?;
        Ok(view(program, selected(&store, &query), &query))
    };
    get(async move |State(service): State<Arc<A>>, query: Asked| answer(document(&service, query)))
}

/// The epochs that are asked for.
pub fn selected(store: &AnswerStore, query: &HeavyQuery) -> Selected {
    let last = || store.last(query.seconds).as_of(wall_clock(), query.seconds);
    query.after.map_or_else(last, |after| store.next(after))
}

pub async fn set_link<S: Service>(
    State(service): State<Arc<S>>,
    Path(name): Path<String>,
    link: Result<Json<Link>, JsonRejection>,
) -> Answer<Link> {
    let set = |Json(link): Json<Link>| service.set_link(&name, link.up).map(|()| link);
    answer(link.map_err(|wrong| wrong.body_text()).and_then(set))
}

pub async fn set_promiscuous<S: Service>(
    State(service): State<Arc<S>>,
    Path(name): Path<String>,
    wanted: Result<Json<Promiscuous>, JsonRejection>,
) -> Answer<Promiscuous> {
    let set = |Json(wanted): Json<Promiscuous>| service.set_promiscuous(&name, wanted.on).map(|()| wanted);
    answer(wanted.map_err(|wrong| wrong.body_text()).and_then(set))
}

pub async fn set_mtu<S: Service>(
    State(service): State<Arc<S>>,
    Path(name): Path<String>,
    wanted: Result<Json<Mtu>, JsonRejection>,
) -> Answer<Mtu> {
    let set = |Json(wanted): Json<Mtu>| service.set_mtu(&name, wanted.mtu_bytes).map(|()| wanted);
    answer(wanted.map_err(|wrong| wrong.body_text()).and_then(set))
}

pub async fn show_table<S: Service>(
    State(service): State<Arc<S>>,
    Path(name): Path<String>,
) -> Answer<view::TableRows> {
    answer(service.tables().show(&name))
}

pub async fn change_table<S: Service>(
    State(service): State<Arc<S>>,
    Path(name): Path<String>,
    changes: Result<Json<Changes>, JsonRejection>,
) -> Answer<view::TableChanged> {
    let change = |Json(Changes { changes }): Json<Changes>| service.tables().change(&name, &changes);
    answer(changes.map_err(|wrong| wrong.body_text()).and_then(change))
}

pub async fn reset<S: Service>(State(service): State<Arc<S>>) -> Json<view::SinceReset> {
    service.reset();
    Json(service.since_reset())
}

pub async fn metrics<S: Service>(
    State(service): State<Arc<S>>,
    headers: HeaderMap,
) -> ([(HeaderName, &'static str); 1], String) {
    let accepted: Vec<_> = headers.get_all(ACCEPT).iter().filter_map(|accept| accept.to_str().ok()).collect();
    let format = metrics::Format::accepted(&accepted.join(","));
    ([(CONTENT_TYPE, format.content_type())], metrics::text(&service.status(), format))
}

pub async fn add_port<S: Service>(
    State(service): State<Arc<S>>,
    port: Result<Json<NewPort>, JsonRejection>,
) -> Answer<view::Port> {
    answer(port.map_err(|wrong| wrong.body_text()).and_then(|Json(port)| service.add_port(&port)))
}

pub async fn remove_port<S: Service>(State(service): State<Arc<S>>, Path(name): Path<String>) -> Answer<view::Port> {
    answer(service.remove_port(&name))
}

pub async fn reload<S: Service>(State(service): State<Arc<S>>) -> Answer<view::Reloaded> {
    answer(service.reload())
}

pub async fn unknown(method: Method, uri: Uri) -> (StatusCode, Json<view::Failure>) {
    let error = format!("{method} {}: this switch has no such answer", uri.path());
    (StatusCode::NOT_FOUND, Json(view::Failure { error }))
}
