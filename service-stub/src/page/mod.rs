//! The web page: HTML from this program only, readable without JavaScript, live with it.
//!
//! [`html`] has the elements of pages; the other modules turn records into pages. Actions lead to a confirmation page; only its
//! form changes anything (`actions`).

mod actions;
mod answer;
mod api_docs;
mod cluster;
mod events;
mod host;
mod html;
mod link;
mod mesh;
mod overview;
mod stream;

use crate::http::call::call_of;
use crate::http::work::blocking;
use crate::http::{Call, Refusal};
use crate::service::Service;
use answer::{Shared, answer, guarded};
use axum::{
    Router,
    extract::{RawPathParams, Request, State},
    http::header,
    response::{IntoResponse, Response},
    routing::get,
};
use maud::Markup;
use std::sync::Arc;

type Render = fn(&Service, &Call) -> Result<Markup, Refusal>;

pub(crate) fn routes() -> Router<Arc<Service>> {
    let page = |render: Render| {
        get(move |State(service): Shared, params: RawPathParams, request: Request| {
            show(service, render, params, request)
        })
    };
    Router::new()
        .route("/", page(overview::render))
        .route("/ui/clusters/{cluster_id}", page(cluster::render))
        .route("/ui/infra-envs/{infra_env_id}/hosts/{host_id}", page(host::render))
        .route("/ui/clusters/{cluster_id}/{action}", page(actions::ask).post(actions::act))
        .route("/docs", page(api_docs::render))
        .route(&format!("{}/docs", api::API_PATH), page(api_docs::render))
        .route("/ui/stream", get(stream::stream))
        .route("/ui/page.css", get(|| file("text/css; charset=utf-8", include_str!("page.css"))))
        .route("/ui/page.js", get(|| file("text/javascript; charset=utf-8", include_str!("page.js"))))
        .route("/ui/icon.svg", get(|| file("image/svg+xml", include_str!("icon.svg"))))
}

async fn file(kind: &'static str, text: &'static str) -> Response {
    guarded(([(header::CONTENT_TYPE, kind)], text).into_response())
}

async fn show(service: Arc<Service>, render: Render, params: RawPathParams, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let page = match call_of(&params, &parts) {
        Ok(call) => blocking(move || render(&service, &call)).await,
        Err(refusal) => Err(refusal),
    };
    answer(page)
}
