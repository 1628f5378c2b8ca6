//! Requests that need more than a line: taken apart, done, answered.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use clap::ValueEnum;
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use super::routes::{HandlerOutput, Operation};
use super::service::AnySwitch;
use super::{Answering, Changes, Flows, HeavyQuery, NewPort};
use crate::answers::{self, AnsweredRoutes, ByRoute, Claimed, NamedFlows, Queryable, Surroundings, Task};
use crate::api::{metrics, view};

pub type Refusal = (StatusCode, Json<view::Failure>);

pub type Answer<T> = Result<Json<T>, Refusal>;

pub fn refuse(error: impl ToString) -> Refusal {
    (StatusCode::BAD_REQUEST, Json(view::Failure { error: error.to_string() }))
}

pub fn answer<T>(result: Result<T, String>) -> Answer<T> {
    result.map(Json).map_err(refuse)
}

/// A request's JSON body. A body that is not a `T` is refused with the reason.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let body = Json::from_request(request, state).await;
        body.map(|Json(body)| Self(body)).map_err(|wrong| refuse(wrong.body_text()))
    }
}

/// A part of a request's path. One that is not a `T` is refused with the reason.
pub struct InPath<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for InPath<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let part = Path::from_request_parts(parts, state).await;
        part.map(|Path(part)| Self(part)).map_err(|wrong| refuse(wrong.body_text()))
    }
}

pub type Requested = Result<Query<HeavyQuery>, QueryRejection>;

/// One question at a time: an answer about a long history takes seconds, and several times the
/// history's memory.
static QUESTIONS: Semaphore = Semaphore::const_new(1);

/// The answer to a question about a task.
///
/// # Errors
/// If no program answers it, or it is no question.
pub fn document<A: Answering + ?Sized>(
    service: &A,
    task: Task,
    query: &HeavyQuery,
) -> Result<Claimed<answers::Answer>, String> {
    let (history, query) = question(service, task, query)?;
    history.ask(&query).map_err(|error| error.to_string())
}

/// The answers to one question about several flows, each by itself.
///
/// # Errors
/// If no program answers it, or one of them is no pattern.
pub fn frequencies<A: Answering + ?Sized>(
    service: &A,
    query: &HeavyQuery,
    flows: &Flows,
) -> Result<view::Frequencies, String> {
    let flows = flows.patterns()?;
    let (history, query) = question(service, Task::Frequency, query)?;
    let of = |flow| history.answer(&answers::Query { flow: Some(flow), ..query.clone() });
    let frequencies: Result<_, _> = flows.into_iter().map(of).collect();
    Ok(view::Frequencies { frequencies: frequencies.map_err(|error| error.to_string())? })
}

/// The answer to a task, of the type that [`answers::Answer::schema`] describes.
pub struct TaskDocument(Claimed<answers::Answer>);

impl IntoResponse for TaskDocument {
    fn into_response(self) -> Response {
        Json(self.0).into_response()
    }
}

impl HandlerOutput for TaskDocument {
    fn describe(_: &mut Operation<'_>) {}
}

/// Answers a task. Other requests do not wait for its answer.
pub async fn answer_task<A: Answering + ?Sized>(
    service: Arc<A>,
    task: Task,
    query: Requested,
) -> Result<TaskDocument, Refusal> {
    let ask = move || {
        let Query(query) = query.map_err(|wrong| wrong.body_text())?;
        document(&*service, task, &query)
    };
    in_turn(ask).await.map(TaskDocument).map_err(refuse)
}

/// Route of `POST /v1/frequency`.
pub async fn list<A: Answering + ?Sized>(
    State(service): State<Arc<A>>,
    query: Requested,
    Body(flows): Body<Flows>,
) -> Answer<view::Frequencies> {
    let asked = in_turn(move || {
        let Query(query) = query.map_err(|wrong| wrong.body_text())?;
        frequencies(&*service, &query, &flows)
    });
    answer(asked.await)
}

/// Answers a question when those before it are answered.
///
/// # Errors
/// If the question has no answer.
pub async fn in_turn<T: Send + 'static>(ask: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    one_at_a_time(&QUESTIONS, ask).await
}

/// Asks on a thread that may wait, once those before it have been answered.
async fn one_at_a_time<T: Send + 'static>(
    turns: &'static Semaphore,
    ask: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let turn = turns.acquire().await;
    let asked = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        ask()
    });
    asked.await.unwrap_or_else(|error| Err(error.to_string()))
}

/// The history that is asked, and the question with what the history needs to answer it.
fn question<A: Answering + ?Sized>(
    service: &A,
    task: Task,
    query: &HeavyQuery,
) -> Result<(Arc<dyn Queryable>, answers::Query), String> {
    let history = service.history(task, query).or_else(|why| inferring(service, task, query).ok_or(why))?;
    let mut query = query.query(task)?;
    query.now = query.now.filter(|_| service.is_live());
    // What epochs were measured with is the same whatever others answer.
    if history.needs_routes() && task != Task::Attention {
        let of = |task| service.history(task, &HeavyQuery::default()).ok();
        let others: Vec<_> = [Task::Heavy, Task::Paths].into_iter().filter_map(of).collect();
        query.routes = Some(ByRoute::new(Arc::new(NamedFlows::among(&others, &query))));
    } else if task == Task::Places {
        let history = |task| service.history(task, &HeavyQuery::default()).ok();
        query.surroundings = Some(Arc::new(Surroundings::new(service.links(), &query, history)));
    } else if task.takes_routes() && !query.path.is_empty() {
        let paths = service.history(Task::Paths, &HeavyQuery::default()).ok();
        let routes = paths.and_then(|paths| AnsweredRoutes::ask(&*paths, &query).ok());
        query.routes = routes.map(|routes| ByRoute::new(Arc::new(routes)));
    }
    Ok((history, query))
}

/// The history of lost packets, from which places are inferred where no program counts them: it needs paths.
fn inferring<A: Answering + ?Sized>(service: &A, task: Task, query: &HeavyQuery) -> Option<Arc<dyn Queryable>> {
    let has_paths = task == Task::Places && service.history(Task::Paths, &HeavyQuery::default()).is_ok();
    has_paths.then(|| service.history(Task::Losses, query).ok())?
}

pub async fn show_table(State(service): State<AnySwitch>, InPath(name): InPath<String>) -> Answer<view::TableRows> {
    answer(service.tables().show(&name))
}

pub async fn change_table(
    State(service): State<AnySwitch>,
    InPath(name): InPath<String>,
    Body(Changes { changes }): Body<Changes>,
) -> Answer<view::TableChanged> {
    answer(service.tables().change(&name, &changes))
}

pub async fn reset(State(service): State<AnySwitch>) -> Json<view::SinceReset> {
    service.reset();
    Json(service.since_reset())
}

/// Metrics as text.
pub struct MetricsText {
    format: metrics::Format,
    text: String,
}

impl IntoResponse for MetricsText {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, self.format.content_type())], self.text).into_response()
    }
}

impl HandlerOutput for MetricsText {
    fn describe(operation: &mut Operation<'_>) {
        for format in metrics::Format::value_variants() {
            operation.answer(format.content_type(), serde_json::json!({ "type": "string" }));
        }
    }
}

/// One reader of metrics at a time, beside the questions: each takes what those before it had made.
static SCRAPES: Semaphore = Semaphore::const_new(1);

/// Metrics in the format that the request prefers. Other requests do not wait for them.
pub async fn metrics<A: Send + Sync + ?Sized + 'static>(
    service: Arc<A>,
    text: fn(&A, metrics::Format) -> String,
    headers: HeaderMap,
) -> Result<MetricsText, Refusal> {
    let format = preferred(&headers);
    let text = one_at_a_time(&SCRAPES, move || Ok(text(&service, format))).await.map_err(refuse)?;
    Ok(MetricsText { format, text })
}

pub async fn registry(State(registry): State<Arc<Registry>>, headers: HeaderMap) -> MetricsText {
    let format = preferred(&headers);
    MetricsText { format, text: metrics::encoded(&registry, format) }
}

/// The format of metrics that a request prefers.
fn preferred(headers: &HeaderMap) -> metrics::Format {
    let accepted: Vec<_> = headers.get_all(ACCEPT).iter().filter_map(|accept| accept.to_str().ok()).collect();
    metrics::Format::accepted(&accepted.join(","))
}

pub async fn add_port(State(service): State<AnySwitch>, Body(port): Body<NewPort>) -> Answer<view::Port> {
    answer(service.add_port(&port))
}

pub async fn remove_port(State(service): State<AnySwitch>, InPath(name): InPath<String>) -> Answer<view::Port> {
    answer(service.remove_port(&name))
}

pub async fn reload(State(service): State<AnySwitch>) -> Answer<view::Reloaded> {
    answer(service.reload())
}

/// The first words of the paths that only a controller answers, and of those that only a switch does.
const OF_CONTROLLERS: [&str; 2] = ["switches", "parameters"];
const OF_SWITCHES: [&str; 11] =
    ["registers", "captures", "capture", "controller", "macs", "ports", "reload", "reset", "status", "tables", "trace"];

/// The answer of a switch to what it does not answer.
pub async fn unknown(method: Method, uri: Uri) -> (StatusCode, Json<view::Failure>) {
    if is_of(&OF_CONTROLLERS, &uri) {
        return refused("this is a switch, and only a controller answers that");
    }
    no_answer("this switch has no such answer", &method, &uri)
}

/// The answer of a controller to what it does not answer.
pub async fn unknown_to_controller(method: Method, uri: Uri) -> (StatusCode, Json<view::Failure>) {
    if is_of(&OF_SWITCHES, &uri) {
        return refused("this is a controller, and only a switch answers that");
    }
    no_answer("this controller has no such answer", &method, &uri)
}

fn is_of(words: &[&str], uri: &Uri) -> bool {
    let path = uri.path();
    let path = path.strip_prefix("/v1").unwrap_or(path).trim_start_matches('/');
    path.split('/').next().is_some_and(|word| words.contains(&word))
}

pub async fn only_metrics(method: Method, uri: Uri) -> (StatusCode, Json<view::Failure>) {
    no_answer("there is GET /metrics alone", &method, &uri)
}

fn no_answer(why: &str, method: &Method, uri: &Uri) -> (StatusCode, Json<view::Failure>) {
    refused(&format!("{method} {}: {why}", uri.path()))
}

fn refused(why: &str) -> (StatusCode, Json<view::Failure>) {
    (StatusCode::NOT_FOUND, Json(view::Failure { error: why.into() }))
}
