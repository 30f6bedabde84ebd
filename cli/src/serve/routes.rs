//! All routes: what each takes, and whom it is for. `openapi.json` describes them, and a test compares the two.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use serde_json::json;
use tenure_pool::inspect::PoolPhase;

use super::problem::Problem;
use super::read::{Shared, phase};
use super::token::Scope::{self, Nobody, Operate, View};
use super::{App, change, dispatch, gate, metrics, page, read, stream};

/// A route: its method, its path, who may take it, and what answers.
type Route = (&'static str, &'static str, Scope, fn() -> MethodRouter<Arc<App>>);

const ROUTES: &[Route] = &[
    ("get", "/", Nobody, || get(|uri: Uri| async move { page::index(&uri) })),
    ("get", "/page/{file}", Nobody, || get(|uri: Uri| async move { page::file(&uri) })),
    ("get", "/openapi.json", Nobody, || get(page::openapi)),
    ("get", "/livez", Nobody, || get(|| async { live() })),
    ("get", "/readyz", Nobody, || get(ready)),
    ("get", "/metrics", View, || get(metrics::metrics)),
    ("get", "/v1/pool", View, || get(read::pool)),
    ("get", "/v1/workers", View, || get(read::workers)),
    ("get", "/v1/nodes", View, || get(read::nodes)),
    ("get", "/v1/ring", View, || get(read::ring)),
    ("get", "/v1/ring/keys", View, || get(read::ring_keys)),
    ("get", "/v1/drains", View, || get(read::drains)),
    ("get", "/v1/moves", View, || get(read::moves)),
    ("get", "/v1/settings", View, || get(read::setting_list)),
    ("get", "/v1/schedules", View, || get(read::schedule_list)),
    ("get", "/v1/queues", View, || get(read::queues)),
    ("get", "/v1/scale", View, || get(read::scale)),
    ("get", "/v1/simulate", View, || get(read::simulate)),
    ("get", "/v1/events", View, || get(read::event_list)),
    ("get", "/v1/events/stream", View, || get(stream::follow)),
    ("get", "/v1/jobs", View, || get(read::job_list)),
    ("get", "/v1/job", View, || get(read::job)),
    ("get", "/v1/job/explain", View, || get(read::job_explain)),
    ("get", "/v1/job/history", View, || get(read::job_history)),
    ("get", "/v1/job/payload", Operate, || get(read::job_payload)),
    ("get", "/v1/parked", View, || get(read::parked_list)),
    ("post", "/v1/job/dispatch", Operate, || post(dispatch::dispatch)),
    ("post", "/v1/job/retry", Operate, || post(change::retry)),
    ("post", "/v1/job/bounce", Operate, || post(change::bounce)),
    ("post", "/v1/job/restart", Operate, || post(change::restart)),
    ("post", "/v1/job/park", Operate, || post(change::park)),
    ("post", "/v1/job/pause", Operate, || post(change::pause)),
    ("post", "/v1/job/resume", Operate, || post(change::resume)),
    ("post", "/v1/job/stop", Operate, || post(change::stop)),
    ("post", "/v1/parked/retry", Operate, || post(change::retry_parked)),
    ("post", "/v1/workers/drain", Operate, || post(change::drain)),
    ("post", "/v1/nodes/cordon", Operate, || post(|app, who, asked| change::cordon(app, who, asked, true))),
    ("post", "/v1/nodes/uncordon", Operate, || {
        post(|app, who, asked| change::cordon(app, who, asked, false))
    }),
    ("post", "/v1/pool/hold", Operate, || post(|app, who, asked| change::hold(app, who, asked, true))),
    ("post", "/v1/pool/unhold", Operate, || post(|app, who, asked| change::hold(app, who, asked, false))),
];

/// The service. The caller of a route is known before its body is read.
pub(super) fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    for (method, path, scope, answers) in ROUTES {
        // Where nothing may be changed, nothing is there that could.
        if app.read_only && *method == "post" {
            continue;
        }
        let admitted = answers().route_layer(from_fn_with_state((app.clone(), *scope), admit));
        router = router.route(&format!("{}{path}", app.base), admitted);
    }
    if !app.base.is_empty() {
        // The page's own addresses are relative to its last slash.
        let to = format!("{}/", app.base);
        router = router.route(&app.base, get(|| async move { Redirect::permanent(&to) }));
    }
    router
        .fallback(|| async {
            Problem::absent("there is nothing here: openapi.json beside the page says what there is")
        })
        .method_not_allowed_fallback(|| async {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", "this is not asked for in that way")
        })
        .layer(from_fn_with_state(app.clone(), gate::keep))
        .with_state(app.clone())
}

/// Lets a caller take a route, or not.
async fn admit(
    State((app, scope)): State<(Arc<App>, Scope)>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if scope > Nobody {
        let who = app.tokens.who(request.headers())?;
        who.may(scope)?;
        request.extensions_mut().insert(who);
    }
    Ok(next.run(request).await)
}

/// The process answers.
fn live() -> Response {
    Json(json!({"v": crate::out::VERSION, "live": true})).into_response()
}

/// The pool can be read.
async fn ready(State(app): Shared, headers: HeaderMap) -> Result<Response, Problem> {
    let state = app.source.state().await.map_err(|problem| {
        // The text of the store may name users and addresses.
        let may_look = app.tokens.who(&headers).and_then(|who| who.may(View)).is_ok();
        if may_look { problem } else { Problem::redis("the pool cannot be read") }
    });
    let phase = phase(&state?);
    match phase {
        PoolPhase::Unknown | PoolPhase::Closed => Err(Problem::redis("there is no such pool now")),
        _ => Ok(Json(json!({"v": crate::out::VERSION, "ready": true, "phase": phase})).into_response()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn the_description_has_the_routes_and_no_other() {
        let described: Value = serde_json::from_str(include_str!("openapi.json")).unwrap();
        let paths = described["paths"].as_object().unwrap();
        let described: BTreeSet<_> = paths
            .iter()
            .flat_map(|(path, of)| {
                of.as_object().unwrap().keys().map(move |method| (method.as_str(), path.as_str()))
            })
            .collect();
        let routes: BTreeSet<_> = ROUTES.iter().map(|(method, path, ..)| (*method, *path)).collect();
        assert_eq!(described, routes);
    }

    #[test]
    fn what_changes_something_is_for_operators() {
        for (method, path, scope, _) in ROUTES {
            assert!(*method != "post" || *scope == Operate, "{path}");
            assert!(!path.starts_with("/v1/") || *scope >= View, "{path}");
        }
    }
}
