//! The page: three files that are a part of the command.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::ask::Params;
use super::problem::Problem;
use super::read::{Shared, with};

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

/// The description, with the path that its paths begin with.
pub(super) async fn openapi(State(app): Shared, uri: Uri) -> Result<Response, Problem> {
    let content = include_str!("../openapi.json");
    if app.base.is_empty() {
        return file(&uri, "application/json", content);
    }
    Params::of(&uri, &[])?;
    let document: Value = serde_json::from_str(content).unwrap_or_default();
    Ok(Json(with(document, json!({"servers": [{"url": app.base}]}))).into_response())
}
