//! The page: three files that are a part of the command.

use axum::http::Uri;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::ask::Params;
use super::problem::Problem;

fn file(uri: &Uri, kind: &'static str, content: &'static str) -> Result<Response, Problem> {
    Params::of(uri, &[])?;
    Ok(([(CONTENT_TYPE, kind)], content).into_response())
}

pub(super) fn index(uri: &Uri) -> Result<Response, Problem> {
    file(uri, "text/html; charset=utf-8", include_str!("index.html"))
}

pub(super) fn style(uri: &Uri) -> Result<Response, Problem> {
    file(uri, "text/css; charset=utf-8", include_str!("style.css"))
}

pub(super) fn script(uri: &Uri) -> Result<Response, Problem> {
    file(uri, "text/javascript; charset=utf-8", include_str!("app.js"))
}

pub(super) fn openapi(uri: &Uri) -> Result<Response, Problem> {
    file(uri, "application/json", include_str!("../openapi.json"))
}
