//! The web page: HTML from this program alone, readable without JavaScript, live with it.
//!
//! [`html`] escapes; the other modules turn records into pages. Actions are forms that lead to a page which asks once more;
//! only its form changes anything, and only when it comes from this very page (`actions`).

mod actions;
mod cluster;
mod events;
mod host;
pub mod html;
mod mesh;
mod overview;
mod stream;

use crate::http::{Call, Refusal};
use crate::server::{blocking, call_of};
use crate::service::Service;
use axum::{
    Router,
    extract::{RawPathParams, Request, State},
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{Html, IntoResponse, Response},
    routing::get,
};
use html::{e, page};
use std::sync::Arc;

type Shared = State<Arc<Service>>;
type Render = fn(&Service, &Call) -> Result<String, Refusal>;

/// Nothing from elsewhere, nothing inline; nobody puts the page into a frame of his.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

pub fn routes() -> Router<Arc<Service>> {
    let shown = |render: Render| {
        get(move |State(service): Shared, params: RawPathParams, request: Request| {
            show(service, render, params, request)
        })
    };
    Router::new()
        .route("/", shown(overview::render))
        .route("/ui/clusters/{cluster_id}", shown(cluster::render))
        .route("/ui/infra-envs/{infra_env_id}/hosts/{host_id}", shown(host::render))
        .route("/ui/clusters/{cluster_id}/{action}", shown(actions::ask).post(actions::act))
        .route("/ui/stream", get(stream::stream))
        .route("/ui/page.css", get(|| file("text/css; charset=utf-8", include_str!("page.css"))))
        .route("/ui/page.js", get(|| file("text/javascript; charset=utf-8", include_str!("page.js"))))
        .route("/ui/icon.svg", get(|| file("image/svg+xml", include_str!("icon.svg"))))
}

async fn file(kind: &'static str, text: &'static str) -> Response {
    guarded(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// An answer with the headers that every one of the page's has.
fn guarded(mut response: Response) -> Response {
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn show(service: Arc<Service>, render: Render, params: RawPathParams, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let shown = match call_of(&params, &parts) {
        Ok(call) => blocking(move || render(&service, &call)).await,
        Err(refusal) => Err(refusal),
    };
    answer(shown)
}

fn answer(shown: Result<String, Refusal>) -> Response {
    guarded(match shown {
        Ok(html) => Html(html).into_response(),
        Err(refusal) => sorry(&refusal).into_response(),
    })
}

/// A refusal as a page.
fn sorry(refusal: &Refusal) -> (StatusCode, Html<String>) {
    let (Refusal::Request(status, reason) | Refusal::Application(status, reason)) = refusal;
    let title = match *status {
        StatusCode::NOT_FOUND => "Not there",
        StatusCode::CONFLICT => "Not now",
        status if status.is_server_error() => "This failed",
        _ => "Not like this",
    };
    let main = format!("<h1>{title}</h1><p class=\"refusal\">{}</p><p><a href=\"/\">Overview</a></p>", e(reason));
    (*status, Html(page(title, &[("Overview", "/")], &main, None)))
}
