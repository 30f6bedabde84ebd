//! The page: files that are a part of the command.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::ask::Params;
use super::problem::Problem;
use super::read::{Shared, with};

const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The files of the page: their names, types and contents. A script imports only from those above it.
const FILES: &[(&str, &str, &str)] = &[
    ("base.css", STYLE, include_str!("style/base.css")),
    ("frame.css", STYLE, include_str!("style/frame.css")),
    ("parts.css", STYLE, include_str!("style/parts.css")),
    ("table.css", STYLE, include_str!("style/table.css")),
    ("views.css", STYLE, include_str!("style/views.css")),
    ("elements.js", SCRIPT, include_str!("script/elements.js")),
    ("words.js", SCRIPT, include_str!("script/words.js")),
    ("state.js", SCRIPT, include_str!("script/state.js")),
    ("ask.js", SCRIPT, include_str!("script/ask.js")),
    ("events.js", SCRIPT, include_str!("script/events.js")),
    ("panel.js", SCRIPT, include_str!("script/panel.js")),
    ("alerts.js", SCRIPT, include_str!("script/alerts.js")),
    ("dialog.js", SCRIPT, include_str!("script/dialog.js")),
    ("sign-in.js", SCRIPT, include_str!("script/sign-in.js")),
    ("shown.js", SCRIPT, include_str!("script/shown.js")),
    ("colours.js", SCRIPT, include_str!("script/colours.js")),
    ("event-list.js", SCRIPT, include_str!("script/event-list.js")),
    ("head.js", SCRIPT, include_str!("script/head.js")),
    ("ring.js", SCRIPT, include_str!("script/ring.js")),
    ("workers.js", SCRIPT, include_str!("script/workers.js")),
    ("drains.js", SCRIPT, include_str!("script/drains.js")),
    ("moves.js", SCRIPT, include_str!("script/moves.js")),
    ("view-pool.js", SCRIPT, include_str!("script/view-pool.js")),
    ("dispatch.js", SCRIPT, include_str!("script/dispatch.js")),
    ("view-jobs.js", SCRIPT, include_str!("script/view-jobs.js")),
    ("view-job.js", SCRIPT, include_str!("script/view-job.js")),
    ("view-parked.js", SCRIPT, include_str!("script/view-parked.js")),
    ("view-events.js", SCRIPT, include_str!("script/view-events.js")),
    ("view-queues.js", SCRIPT, include_str!("script/view-queues.js")),
    ("app.js", SCRIPT, include_str!("script/app.js")),
];
const INDEX: &str = include_str!("index.html");

fn answer(uri: &Uri, kind: &'static str, content: &'static str) -> Result<Response, Problem> {
    Params::of(uri, &[])?;
    Ok(([(CONTENT_TYPE, kind)], content).into_response())
}

pub(super) fn index(uri: &Uri) -> Result<Response, Problem> {
    answer(uri, "text/html; charset=utf-8", INDEX)
}

/// The file that the path ends with.
pub(super) fn file(uri: &Uri) -> Result<Response, Problem> {
    let wanted = uri.path().rsplit('/').next();
    match FILES.iter().find(|(name, ..)| Some(*name) == wanted) {
        Some((_, kind, content)) => answer(uri, kind, content),
        None => Err(Problem::absent("the page has no such file")),
    }
}

/// The description, with the path that its paths begin with.
pub(super) async fn openapi(State(app): Shared, uri: Uri) -> Result<Response, Problem> {
    let content = include_str!("../openapi.json");
    if app.base.is_empty() {
        return answer(&uri, "application/json", content);
    }
    Params::of(&uri, &[])?;
    let document: Value = serde_json::from_str(content).unwrap_or_default();
    Ok(Json(with(document, json!({"servers": [{"url": app.base}]}))).into_response())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The names between these two marks.
    fn between<'t>(text: &'t str, begin: &str, end: &str) -> impl Iterator<Item = &'t str> {
        text.split(begin).skip(1).filter_map(move |rest| Some(rest.split_once(end)?.0))
    }

    #[test]
    fn a_script_imports_only_what_is_above_it() {
        for (at, (name, _, content)) in FILES.iter().enumerate() {
            for import in between(content, "from \"./", "\"") {
                assert!(FILES[..at].iter().any(|(above, ..)| *above == import), "{name} imports {import}");
            }
        }
    }

    #[test]
    fn each_file_has_a_use_and_is_there() {
        let mut used: BTreeSet<_> = between(INDEX, "\"page/", "\"").collect();
        for (_, _, content) in FILES {
            used.extend(between(content, "from \"./", "\""));
        }
        let there: Vec<_> = FILES.iter().map(|(name, ..)| *name).collect();
        assert_eq!(there.iter().copied().collect::<BTreeSet<_>>(), used);
        assert_eq!(there.len(), used.len(), "a name twice");
    }
}
