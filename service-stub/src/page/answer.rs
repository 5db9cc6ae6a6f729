//! Pages as responses.

use super::html::{line, page};
use crate::http::Refusal;
use crate::service::Service;
use axum::{
    extract::State,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{Html, IntoResponse, Response},
};
use maud::{Markup, html};
use std::sync::Arc;

pub(super) type Shared = State<Arc<Service>>;

/// No content from other sites, nothing inline, and no other site may frame the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Adds the headers that every response of the page has.
pub(super) fn guarded(mut response: Response) -> Response {
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

pub(super) fn answer(page: Result<Markup, Refusal>) -> Response {
    guarded(match page {
        Ok(page) => Html(page.0).into_response(),
        Err(refusal) => sorry(&refusal).into_response(),
    })
}

/// A refusal as a page.
fn sorry(refusal: &Refusal) -> (StatusCode, Html<String>) {
    let (Refusal::Request(status, reason) | Refusal::Application(status, reason)) = refusal;
    let title = match *status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::CONFLICT => "Not possible now",
        status if status.is_server_error() => "The service failed",
        _ => "Refused",
    };
    let main = html! { h1 { (title) } p.refusal { (line(reason)) } p { a href="/" { "Overview" } } };
    (*status, Html(page(title, &[("Overview", "/")], main, None).0))
}
