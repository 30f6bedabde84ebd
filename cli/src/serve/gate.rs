//! Which requests come in at all, and what every answer says to a browser.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use super::App;
use super::problem::Problem;

/// How long an answer may take to begin.
const PATIENCE: Duration = Duration::from_secs(85);

/// For browsers: nothing of another site runs here, and no other site shows or reads this one.
const SAID: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// The names under which the server may be reached. IP addresses and the machine's own name for itself always may:
/// a name that is bound to another address than before, as an attacker can do with his, is none of these.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    named: Vec<String>,
}

impl Hosts {
    pub(super) fn new(named: Vec<String>) -> Self {
        Self { named: named.into_iter().map(|name| name.to_ascii_lowercase()).collect() }
    }

    /// Whether a host, perhaps with a port, is this server.
    fn know(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let name = without_port(&host);
        let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        literal.parse::<IpAddr>().is_ok()
            || name == "localhost"
            || name.ends_with(".localhost")
            || self.named.iter().any(|named| *named == host || named == name)
    }

    /// # Errors
    /// The request is for another site, or a page of another site has sent it.
    fn check(&self, base: &str, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let text = |name: HeaderName| {
            let mut all = headers.get_all(name).iter();
            match (all.next(), all.next()) {
                (None, _) => Ok(None),
                (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
                _ => Err(()),
            }
        };
        let stranger = || {
            let text = "this server is not known by that name: `tenure serve --host NAME` allows one";
            Problem::new(StatusCode::MISDIRECTED_REQUEST, "host", text)
        };
        let host = text(HOST).ok().flatten().ok_or_else(stranger)?;
        // A request to a proxy names its server twice.
        let target = uri.authority().map(axum::http::uri::Authority::as_str);
        if !self.know(host) || target.is_some_and(|target| !self.know(target)) {
            return Err(stranger());
        }
        let elsewhere =
            || Problem::new(StatusCode::FORBIDDEN, "origin", "a page of another site has sent this request");
        if let Some(origin) = text(ORIGIN).map_err(|()| elsewhere())? {
            let from = origin.split_once("://").map(|(_, host)| host.to_ascii_lowercase());
            let is_own = |from: &String| from.eq_ignore_ascii_case(host) || self.named.contains(from);
            if !from.as_ref().is_some_and(is_own) {
                return Err(elsewhere());
            }
        }
        let of = |name: &'static str| headers.get(name).map(HeaderValue::as_bytes);
        // Somebody may follow a link to the page.
        let path = uri.path().strip_suffix('/').unwrap_or(uri.path());
        let follows = *method == Method::GET && of("sec-fetch-mode") == Some(b"navigate") && path == base;
        if of("sec-fetch-site") == Some(b"cross-site") && !follows {
            return Err(elsewhere());
        }
        Ok(())
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|c| c.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

/// Lets a request in, or not; and ends it in time.
pub(super) async fn keep(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let checked = app.hosts.check(&app.base, request.method(), request.uri(), request.headers());
    let mut response = match checked {
        Ok(()) => match timeout(PATIENCE, next.run(request)).await {
            Ok(response) => response,
            Err(_) => Problem::new(StatusCode::GATEWAY_TIMEOUT, "late", "there is no answer in time")
                .into_response(),
        },
        Err(problem) => problem.into_response(),
    };
    for (name, value) in SAID {
        response
            .headers_mut()
            .entry(HeaderName::from_static(name))
            .or_insert(HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn status(method: &str, uri: &str, headers: &[(&'static str, &str)]) -> Option<u16> {
        let hosts = Hosts::new(vec!["pool.example.com".to_owned()]);
        let pairs =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        let mut sent = HeaderMap::new();
        for (name, value) in pairs {
            sent.append(name, value);
        }
        let checked = hosts.check("", &method.parse().unwrap(), &uri.parse().unwrap(), &sent);
        checked.err().map(|problem| problem.status.as_u16())
    }

    #[test]
    fn only_known_hosts_are_served() {
        for host in
            ["localhost", "LocalHost:7450", "127.0.0.1:7450", "[::1]:7450", "10.0.3.7", "pool.example.com"]
        {
            assert_eq!(status("GET", "/v1/pool", &[("host", host)]), None, "{host}");
        }
        for host in
            ["evil.com", "evil.com:7450", "localhost.evil.com", "127.0.0.1.evil.com", "", "[::1", "x:y:1"]
        {
            assert_eq!(status("GET", "/v1/pool", &[("host", host)]), Some(421), "{host}");
        }
        assert_eq!(status("GET", "/", &[]), Some(421), "no host");
        assert_eq!(
            status("GET", "/", &[("host", "localhost"), ("host", "evil.com")]),
            Some(421),
            "two hosts"
        );
        assert_eq!(status("GET", "http://evil.com/", &[("host", "localhost")]), Some(421), "another target");
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let from =
            |origin: &str| status("POST", "/v1/job/stop", &[("host", "localhost:7450"), ("origin", origin)]);
        assert_eq!(from("http://localhost:7450"), None);
        assert_eq!(from("https://pool.example.com"), None, "behind a proxy");
        for origin in ["http://evil.com", "http://localhost:3000", "null", "", "localhost:7450"] {
            assert_eq!(from(origin), Some(403), "{origin}");
        }
        let fetch = |path: &str, mode: &str| {
            let sent = [("host", "localhost"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", mode)];
            status("GET", path, &sent)
        };
        assert_eq!(fetch("/", "navigate"), None, "a link");
        assert_eq!((fetch("/v1/pool", "no-cors"), fetch("/v1/pool", "navigate")), (Some(403), Some(403)));
    }
}
