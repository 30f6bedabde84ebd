//! Why a request was not answered as it was meant: `application/problem+json` (RFC 9457).

use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tenure_pool::{DispatchError, Error};

use crate::exit::{Code, Failure};

/// A problem. Its name is that of the exit status that a command would have, where there is one.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    name: &'static str,
    text: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, name: &'static str, text: impl Into<String>) -> Self {
        Self { status, name, text: text.into() }
    }

    /// The request is wrong. Nothing was tried.
    pub(super) fn usage(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "usage", text)
    }

    pub(super) fn absent(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", text)
    }

    /// Too many ask for the same at once.
    pub(super) fn busy(text: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "busy", text)
    }

    pub(super) fn redis(text: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "redis", text)
    }

    pub(super) fn document(&self) -> Value {
        let title = self.status.canonical_reason().unwrap_or("Problem");
        json!({
            "v": crate::out::VERSION,
            "type": "about:blank",
            "title": title,
            "status": self.status.as_u16(),
            "name": self.name,
            "detail": self.text,
        })
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let status = match failure.code {
            Code::Usage => StatusCode::BAD_REQUEST,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::Refused => StatusCode::CONFLICT,
            Code::Late => StatusCode::GATEWAY_TIMEOUT,
            Code::Redis => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, failure.code.name(), failure.to_string())
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Failure::from(error).into()
    }
}

impl From<DispatchError> for Problem {
    fn from(error: DispatchError) -> Self {
        Failure::from(error).into()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("2"));
            }
            _ => {}
        }
        (self.status, headers, self.document().to_string()).into_response()
    }
}
