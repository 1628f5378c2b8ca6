//! The API as an OpenAPI 3.1 document. Everything in it that can differ from the code is made of the code: paths
//! and methods of the routes, schemas of the types that are read and written, with their comments
//! as descriptions.

use std::sync::Arc;

use axum::http::StatusCode;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::routes::{Operation, RouteDescription};
use super::serve::{BODY_BYTES, REQUEST, is_question, waits};
use super::{controller, service, view};
use crate::network::tls::{OPERATOR, READER};

/// The name of the security scheme.
const CERTIFICATE: &str = "clientCertificate";

const ABOUT: &str = "\
A switch and a controller answer the same questions about what was measured. The tags `switch` and `controller` say \
which of them has a route.

A whole number that may be larger than 2^53 − 1 is a string of its decimal digits. Names end with their units: \
`_packets`, `_bytes`, `_seconds`, `_ns` (nanoseconds), `_bits`; `_share` is a fraction of 1. Keys are stable: new keys \
may be added, and no key changes its meaning. A request with an unknown key is refused.";

const CLIENTS: &str = "\
TLS 1.3 with a client certificate that the CA in `api.client_ca` (of a controller: `tls.client_ca`) signed. A URI among \
its subject alternative names is the client's role: `weir:reader` may ask and change nothing, `weir:operator` may do \
everything. The control socket needs no certificate: the file's permissions say who may connect, and whoever may \
connect may do everything.";

/// An OpenAPI document, with its keys in the order in which people read them.
#[derive(Serialize)]
pub struct OpenApiDocument {
    openapi: &'static str,
    info: Value,
    servers: Value,
    tags: Value,
    paths: Map<String, Value>,
    components: Value,
}

/// The document of the API of switches and controllers.
pub fn document() -> OpenApiDocument {
    let mut builder = DocumentBuilder::new();
    builder.add("switch", service::routes(Arc::default()).descriptions());
    builder.add("controller", controller::routes(Arc::default()).descriptions());
    builder.finished()
}

struct DocumentBuilder {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
    /// Operations by path and method.
    paths: Map<String, Value>,
    /// Parameters of questions, by their names.
    parameters: Map<String, Value>,
}

impl DocumentBuilder {
    fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        Self {
            requests: settings().for_deserialize().into_generator(),
            answers: settings().for_serialize().into_generator(),
            paths: Map::new(),
            parameters: Map::new(),
        }
    }

    /// Adds the routes of a kind of server.
    fn add(&mut self, tag: &str, routes: Vec<RouteDescription>) {
        for route in routes {
            let operation = self.operation(&route);
            let path = self.paths.entry(route.path).or_insert_with(|| json!({}));
            let known = &mut path[route.method.as_str().to_ascii_lowercase()];
            if known.is_null() {
                *known = operation;
                known["tags"] = json!([tag]);
            } else if let Some(tags) = known["tags"].as_array_mut() {
                tags.push(tag.into());
            }
        }
    }

    fn operation(&mut self, route: &RouteDescription) -> Value {
        let Operation { parameters, body, content, headers, mut refusals, .. } =
            route.operation(&mut self.requests, &mut self.answers);
        let may_ask = is_question(&route.method, &route.path);
        if !may_ask {
            refusals.push(StatusCode::FORBIDDEN);
        }
        if !waits(&route.path) {
            refusals.push(StatusCode::REQUEST_TIMEOUT);
        }
        if body.is_some() {
            refusals.push(StatusCode::PAYLOAD_TOO_LARGE);
        }
        let mut responses = json!({ "200": { "description": "Done.", "content": content } });
        if !headers.is_empty() {
            responses["200"]["headers"] = headers.into();
        }
        for status in refusals {
            responses[status.as_str()] = json!({ "$ref": format!("#/components/responses/{}", status.as_str()) });
        }
        let roles: &[&str] = if may_ask { &[READER, OPERATOR] } else { &[OPERATOR] };
        // Any one of these is enough: nothing by the control socket, a certificate with one of the roles by TCP.
        let certificates = roles.iter().map(|role| json!({ CERTIFICATE: [role] }));
        let security: Vec<_> = [json!({})].into_iter().chain(certificates).collect();
        let mut operation = json!({
            "operationId": operation_id(route),
            "summary": route.summary,
            "security": security,
            "responses": responses,
        });
        if !parameters.is_empty() {
            let parameters: Vec<_> = parameters.into_iter().map(|parameter| self.parameter(parameter)).collect();
            operation["parameters"] = parameters.into();
        }
        if let Some(body) = body {
            operation["requestBody"] = body;
        }
        operation
    }

    /// A reference to a parameter of questions, which all questions share, or a parameter of a path itself.
    fn parameter(&mut self, parameter: Value) -> Value {
        match parameter["name"].as_str() {
            Some(name) if parameter["in"] == "query" => {
                let reference = json!({ "$ref": format!("#/components/parameters/{name}") });
                self.parameters.insert(name.to_owned(), parameter);
                reference
            }
            _ => parameter,
        }
    }

    fn finished(mut self) -> OpenApiDocument {
        let failure = self.answers.subschema_for::<view::Failure>();
        let refusal = |(status, why): (StatusCode, String)| {
            let content = json!({ "application/json": { "schema": failure } });
            (status.as_str().to_owned(), json!({ "description": why, "content": content }))
        };
        let responses: Map<_, _> = refusals().into_iter().map(refusal).collect();
        let mut schemas = self.answers.take_definitions(true);
        for (name, schema) in self.requests.take_definitions(true) {
            let known = schemas.insert(name.clone(), schema.clone());
            debug_assert!(known.is_none_or(|known| known == schema), "{name} is another type where it is read");
        }
        OpenApiDocument {
            openapi: "3.1.0",
            info: json!({
                "title": "weir",
                "version": env!("CARGO_PKG_VERSION"),
                "summary": env!("CARGO_PKG_DESCRIPTION"),
                "description": ABOUT,
                "license": { "name": env!("CARGO_PKG_LICENSE"), "identifier": env!("CARGO_PKG_LICENSE") },
            }),
            servers: json!([
                {
                    "url": "http://weir",
                    "description": "The control socket: HTTP over the Unix socket /run/weir/NAME.sock, with any host name.",
                },
                {
                    "url": "https://{host}:{port}",
                    "description": "TCP, where `api.listen` (of a controller `api_listen`) is set.",
                    "variables": { "host": { "default": "localhost" }, "port": { "default": "9470" } },
                },
            ]),
            tags: json!([
                { "name": "switch", "description": "A running switch, `weir run`." },
                { "name": "controller", "description": "The controller of a network, `weir controller`." },
            ]),
            paths: self.paths,
            components: json!({
                "schemas": schemas,
                "parameters": self.parameters,
                "responses": responses,
                "securitySchemes": { CERTIFICATE: { "type": "mutualTLS", "description": CLIENTS } },
            }),
        }
    }
}

/// What each status of a refusal means.
fn refusals() -> [(StatusCode, String); 6] {
    [
        (StatusCode::BAD_REQUEST, "The request is wrong, or cannot be done: the error says why.".into()),
        (StatusCode::FORBIDDEN, "A reader's certificate asks and changes nothing.".into()),
        (StatusCode::NOT_FOUND, "The network has no such switch or program.".into()),
        (StatusCode::REQUEST_TIMEOUT, format!("The answer took longer than {} s.", REQUEST.as_secs())),
        (StatusCode::CONFLICT, "The network is in a state in which this cannot be done.".into()),
        (StatusCode::PAYLOAD_TOO_LARGE, format!("The body has more than {BODY_BYTES} bytes.")),
    ]
}

/// The method and the words of the path, such as `get_ports_since_reset`.
fn operation_id(route: &RouteDescription) -> String {
    let path = route.path.strip_prefix("/v1").unwrap_or(&route.path);
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let method = route.method.as_str().to_ascii_lowercase();
    [&*method].into_iter().chain(words).collect::<Vec<_>>().join("_")
}
