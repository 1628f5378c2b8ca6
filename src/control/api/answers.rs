//! Requests that need more than a line: taken apart, done, answered.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri};

use super::{Changes, Finds, HeavyQuery, Link, Mtu, NewPort, Promiscuous, Service};
use crate::control::controller::Selected;
use crate::control::{metrics, view};
use crate::epoch::Nanos;

pub type Answer<T> = Result<Json<T>, (StatusCode, Json<view::Failure>)>;

pub fn answer<T>(result: Result<T, String>) -> Answer<T> {
    result.map(Json).map_err(|error| (StatusCode::BAD_REQUEST, Json(view::Failure { error })))
}

pub async fn heavy<S: Service>(
    State(service): State<Arc<S>>,
    query: Result<Query<HeavyQuery>, QueryRejection>,
) -> Answer<view::HeavyFlows> {
    answer(query.map_err(|wrong| wrong.body_text()).and_then(|Query(query)| service.heavy(&query)))
}

type Asked = Result<Query<HeavyQuery>, QueryRejection>;

/// The epochs that are asked for.
fn selected(service: &impl Finds, query: Asked) -> Result<(Selected, HeavyQuery), String> {
    let Query(query) = query.map_err(|wrong| wrong.body_text())?;
    let board = service.found(&query)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as Nanos);
    let last = || board.last(query.seconds).as_of(now, query.seconds);
    let selected = query.after.map_or_else(last, |after| board.next(after));
    Ok((selected, query))
}

pub async fn losses<F: Finds>(State(service): State<Arc<F>>, query: Asked) -> Answer<view::Losses> {
    let losses = |(selected, query): (Selected, HeavyQuery)| view::Losses::new(&selected, query.top, query.threshold);
    answer(selected(&*service, query).map(losses))
}

pub async fn flows<F: Finds>(State(service): State<Arc<F>>, query: Asked) -> Answer<view::FlowSizes> {
    let flows = |(selected, query): (Selected, HeavyQuery)| view::FlowSizes::new(selected, query.top, query.threshold);
    answer(selected(&*service, query).map(flows))
}

pub async fn changes<F: Finds>(State(service): State<Arc<F>>, query: Asked) -> Answer<view::HeavyChanges> {
    let changes =
        |(selected, query): (Selected, HeavyQuery)| view::HeavyChanges::new(selected, query.top, query.threshold);
    answer(selected(&*service, query).map(changes))
}

pub async fn numbers<F: Finds>(State(service): State<Arc<F>>, query: Asked) -> Answer<view::Numbers> {
    answer(selected(&*service, query).map(|(selected, _)| view::Numbers::new(&selected)))
}

pub async fn attention<F: Finds>(State(service): State<Arc<F>>, query: Asked) -> Answer<view::Attention> {
    answer(selected(&*service, query).map(|(selected, _)| view::Attention::new(&selected)))
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
