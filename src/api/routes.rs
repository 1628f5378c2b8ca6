//! Routes with their descriptions. A route is added once, with its handler, and its description is made of the
//! handler's signature: the types that the handler takes and answers are those that [`openapi`](super::openapi)
//! names.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::handler::Handler;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::routing::{MethodFilter, on};
use axum::{Json, Router};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::answers::{Body, InPath, Refusal};

/// Routes to handlers with the state `S`.
pub struct ApiRoutes<S> {
    router: Router<S>,
    descriptions: Vec<RouteDescription>,
}

/// The description of a route.
pub struct RouteDescription {
    pub method: Method,
    /// With the names of its parts in braces, as in `/v1/ports/{name}`.
    pub path: String,
    pub summary: String,
    describe: Box<dyn Fn(&mut Operation<'_>)>,
}

impl RouteDescription {
    /// The types of the handler, as an operation.
    pub fn operation<'a>(&self, requests: &'a mut SchemaGenerator, answers: &'a mut SchemaGenerator) -> Operation<'a> {
        let part = self.path.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        let part = part.map(|(name, _)| name.to_owned());
        let mut operation = Operation {
            requests,
            answers,
            part,
            parameters: Vec::new(),
            body: None,
            content: Map::new(),
            headers: Map::new(),
            refusals: Vec::new(),
        };
        (self.describe)(&mut operation);
        operation
    }
}

impl<S: Clone + Send + Sync + 'static> ApiRoutes<S> {
    pub fn new() -> Self {
        Self { router: Router::new(), descriptions: Vec::new() }
    }

    pub fn get<T: 'static, H: Handler<T, S> + HandlerTypes<T>>(self, path: &str, summary: &str, handler: H) -> Self {
        self.add((Method::GET, MethodFilter::GET), path, summary, handler)
    }

    pub fn put<T: 'static, H: Handler<T, S> + HandlerTypes<T>>(self, path: &str, summary: &str, handler: H) -> Self {
        self.add((Method::PUT, MethodFilter::PUT), path, summary, handler)
    }

    pub fn post<T: 'static, H: Handler<T, S> + HandlerTypes<T>>(self, path: &str, summary: &str, handler: H) -> Self {
        self.add((Method::POST, MethodFilter::POST), path, summary, handler)
    }

    pub fn delete<T: 'static, H: Handler<T, S> + HandlerTypes<T>>(self, path: &str, summary: &str, handler: H) -> Self {
        self.add((Method::DELETE, MethodFilter::DELETE), path, summary, handler)
    }

    fn add<T: 'static, H: Handler<T, S> + HandlerTypes<T>>(
        mut self,
        (method, filter): (Method, MethodFilter),
        path: &str,
        summary: &str,
        handler: H,
    ) -> Self {
        self.router = self.router.route(path, on(filter, handler));
        let describe = Box::new(|operation: &mut Operation<'_>| <H as HandlerTypes<T>>::describe(operation));
        self.descriptions.push(RouteDescription { method, path: path.into(), summary: summary.into(), describe });
        self
    }

    /// The schema of the answer of the route that was added last, whose type does not say it.
    #[must_use]
    pub fn answering(mut self, schema: impl Fn(&mut SchemaGenerator) -> Schema + 'static) -> Self {
        if let Some(last) = self.descriptions.last_mut() {
            let describe = std::mem::replace(&mut last.describe, Box::new(|_| ()));
            last.describe = Box::new(move |operation| {
                describe(operation);
                let schema = schema(&mut *operation.answers);
                operation.answer("application/json", schema);
            });
        }
        self
    }

    /// What answers requests; `unknown` answers those to other paths and with other methods.
    pub fn router<T: 'static>(self, unknown: impl Handler<T, S>, state: S) -> Router {
        self.router.fallback(unknown.clone()).method_not_allowed_fallback(unknown).with_state(state)
    }

    pub fn descriptions(self) -> Vec<RouteDescription> {
        self.descriptions
    }
}

/// The types that a handler takes and answers.
pub struct Operation<'a> {
    /// Schemas of what is read, and of what is written: a key with a default may be left out of the first.
    requests: &'a mut SchemaGenerator,
    answers: &'a mut SchemaGenerator,
    /// The name of the part of the path that is a parameter.
    part: Option<String>,
    pub parameters: Vec<Value>,
    pub body: Option<Value>,
    /// The answer's content by its type, and its headers.
    pub content: Map<String, Value>,
    pub headers: Map<String, Value>,
    /// Statuses of refusals.
    pub refusals: Vec<StatusCode>,
}

impl Operation<'_> {
    /// Adds a form of the answer.
    pub fn answer(&mut self, media_type: &str, schema: impl Into<Value>) {
        self.content.insert(media_type.into(), json!({ "schema": schema.into() }));
    }

    /// Adds a header of the answer.
    pub fn header(&mut self, name: &str, description: &str, schema: Value) {
        self.headers.insert(name.into(), json!({ "description": description, "schema": schema }));
    }

    /// Adds a parameter. A URL has no null: a parameter without a value is absent, and has no default.
    fn parameter(&mut self, place: &str, name: &str, is_required: bool, mut schema: Value) {
        if let Some(Value::Array(types)) = schema.get_mut("type") {
            types.retain(|of| of != "null");
            if let [only] = &mut types[..] {
                schema["type"] = only.take();
            }
        }
        let description = schema.as_object_mut().and_then(|schema| {
            schema.retain(|_, value| !value.is_null());
            schema.remove("description")
        });
        let mut parameter = json!({ "name": name, "in": place, "required": is_required, "schema": schema });
        if let Some(description) = description {
            parameter["description"] = description;
        }
        self.parameters.push(parameter);
    }
}

/// A handler whose signature is its description. `T` are the types of its inputs, as [`Handler`] has them.
pub trait HandlerTypes<T> {
    fn describe(operation: &mut Operation<'_>);
}

macro_rules! described {
    ($($input:ident),*) => {
        impl<F, A, M, R: HandlerOutput, $($input: HandlerInput),*> HandlerTypes<(M, $($input,)*)> for F
        where
            F: FnOnce($($input),*) -> A,
            A: Future<Output = R>,
        {
            fn describe(operation: &mut Operation<'_>) {
                $($input::describe(operation);)*
                R::describe(operation);
            }
        }
    };
}

described!();
described!(I);
described!(I, J);
described!(I, J, K);

/// An input of a handler.
pub trait HandlerInput {
    fn describe(operation: &mut Operation<'_>);
}

impl<T> HandlerInput for State<T> {
    fn describe(_: &mut Operation<'_>) {}
}

/// Only what an answer's form depends on is read of them.
impl HandlerInput for HeaderMap {
    fn describe(_: &mut Operation<'_>) {}
}

impl<T: JsonSchema> HandlerInput for InPath<T> {
    fn describe(operation: &mut Operation<'_>) {
        let schema = T::json_schema(operation.requests);
        if let Some(name) = operation.part.clone() {
            operation.parameter("path", &name, true, schema.into());
        }
    }
}

impl<T: JsonSchema> HandlerInput for Result<Query<T>, QueryRejection> {
    fn describe(operation: &mut Operation<'_>) {
        let schema = Value::from(T::json_schema(operation.requests));
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, of) in schema["properties"].as_object().into_iter().flatten() {
            operation.parameter("query", name, required.contains(&json!(name)), of.clone());
        }
    }
}

impl<T: JsonSchema> HandlerInput for Body<T> {
    fn describe(operation: &mut Operation<'_>) {
        let schema = operation.requests.subschema_for::<T>();
        operation.body = Some(json!({ "required": true, "content": { "application/json": { "schema": schema } } }));
    }
}

/// The answer of a handler.
pub trait HandlerOutput {
    fn describe(operation: &mut Operation<'_>);
}

impl<T: JsonSchema> HandlerOutput for Json<T> {
    fn describe(operation: &mut Operation<'_>) {
        let schema = operation.answers.subschema_for::<T>();
        operation.answer("application/json", schema);
    }
}

impl<T: HandlerOutput, E: Refuses> HandlerOutput for Result<T, E> {
    fn describe(operation: &mut Operation<'_>) {
        T::describe(operation);
        operation.refusals.extend(E::STATUSES);
    }
}

/// The refusals of a handler.
pub trait Refuses {
    const STATUSES: &'static [StatusCode];
}

impl Refuses for Refusal {
    const STATUSES: &'static [StatusCode] = &[StatusCode::BAD_REQUEST];
}
