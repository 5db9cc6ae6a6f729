//! Web pages of other origins that may read boot artifacts.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::Response,
};

const PREFIX: &str = "/boot-artifacts/";

/// The value that allows the origin of a request; none for one that may not read, or that has none.
pub(crate) fn allowed(path: &str, request: &HeaderMap, origins: &[String]) -> Option<HeaderValue> {
    let origin = request.get(header::ORIGIN).filter(|_| path.starts_with(PREFIX))?;
    let is_listed = |own: &String| own == "*" || own.eq_ignore_ascii_case(origin.to_str().unwrap_or_default());
    origins.iter().any(is_listed).then(|| origin.clone())
}

/// Whether a browser asks first.
pub(crate) fn is_preflight(method: &Method, request: &HeaderMap) -> bool {
    method == Method::OPTIONS && request.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to that.
pub(crate) fn preflight(origin: HeaderValue) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("Authorization, Content-Type"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    allow(response, origin)
}

/// An answer that pages of the origin may read.
pub(crate) fn allow(mut response: Response, origin: HeaderValue) -> Response {
    response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    response.headers_mut().append(header::VARY, HeaderValue::from_static("origin"));
    response
}
