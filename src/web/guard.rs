//! Requests that other sites cause are refused, and a page runs nothing but its own script.
//!
//! The page has no authentication, and any site that a browser shows can send it requests. By the same-origin
//! policy that site cannot read the answers, unless its own name is made to lead here (DNS rebinding). So the
//! `Host` of a request must be a name of the loopback, or one that was given. A request that changes something
//! must come from a page of such a host.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// The names that browsers may call the page's host by, beside the loopback's.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Arc<[String]>);

const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

impl Hosts {
    pub fn new(names: &[String]) -> Self {
        Self(names.iter().map(|name| name.to_ascii_lowercase()).collect())
    }

    /// Whether this is a host of the page, whatever its port: a tunnel may have another one.
    fn knows(&self, authority: &str) -> bool {
        let host = host_of(authority).to_ascii_lowercase();
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&host);
        let is_loopback = bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        is_loopback || host == "localhost" || self.0.contains(&host)
    }

    /// Why a request is refused.
    fn refuses(&self, method: &Method, headers: &HeaderMap) -> Option<&'static str> {
        let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        if headers.get_all(header::HOST).iter().count() != 1 || !text(header::HOST).is_some_and(|host| self.knows(host))
        {
            return Some("this page has no such host; page.hosts names more");
        }
        let origin = text(header::ORIGIN).filter(|_| method != Method::GET)?;
        let authority = origin.parse::<Uri>().ok().and_then(|origin| Some(origin.authority()?.to_string()));
        let is_own = authority.is_some_and(|authority| self.knows(&authority));
        (!is_own).then_some("only the page itself may send that")
    }
}

/// The host of `HOST[:PORT]`.
fn host_of(authority: &str) -> &str {
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) { host } else { authority }
}

/// Answers requests to hosts of the page, with the headers that all answers have.
pub async fn guard(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    let mut response = match hosts.refuses(request.method(), request.headers()) {
        Some(why) => (StatusCode::MISDIRECTED_REQUEST, why).into_response(),
        None => next.run(request).await,
    };
    let headers = HEADERS.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(headers);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_the_loopback_and_names_that_were_given() {
        let hosts = Hosts::new(&["Weir.Example".into()]);
        for own in ["localhost", "LOCALHOST:80", "127.0.0.1:8080", "127.1.2.3", "[::1]:1", "[::1]", "weir.example:443"]
        {
            assert!(hosts.knows(own), "{own}");
        }
        let foreign = ["", ":80", "evil.example", "192.0.2.1", "localhost.evil.example", "127.0.0.1.evil.example"];
        for host in foreign.into_iter().chain(["127.0.0.1:8080:x", "0.0.0.0", "localhost:", "x@localhost", "[::1"]) {
            assert!(!hosts.knows(host), "{host}");
        }
        assert!(!Hosts::default().knows("weir.example"));
    }

    #[test]
    fn changes_come_from_the_page_alone() {
        let refuses = |method: Method, host: &'static str, origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            headers.extend(origin.map(|origin| (header::ORIGIN, HeaderValue::from_static(origin))));
            Hosts::default().refuses(&method, &headers).is_some()
        };
        assert!(!refuses(Method::POST, "localhost:1", Some("http://localhost:1")));
        assert!(!refuses(Method::POST, "localhost:1", None));
        assert!(!refuses(Method::GET, "localhost:1", Some("http://evil.example")));
        for origin in ["http://evil.example", "null", "", "http://localhost.evil.example"] {
            assert!(refuses(Method::POST, "localhost:1", Some(origin)), "{origin}");
        }
        assert!(refuses(Method::GET, "evil.example", None));
        assert!(Hosts::default().refuses(&Method::GET, &HeaderMap::new()).is_some());
    }
}
