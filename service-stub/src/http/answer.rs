//! Answers, and the two shapes a refusal may have.

use super::{gzip, pieces::Pieces};
use api::{ApiError, InfraError};
use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

#[derive(Debug)]
pub struct Answer {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Vec<u8>,
    pieces: Option<Pieces>,
}

impl Answer {
    /// A JSON document that is generated while it is sent.
    pub(crate) fn in_pieces(pieces: Pieces) -> Self {
        Self { pieces: Some(pieces), ..Self::made(Vec::new()) }
    }

    pub(crate) fn json(status: StatusCode, document: &impl Serialize) -> Self {
        // Documents are our own types with text keys; one that does not serialize would be a bug, seen as an empty body.
        let body = serde_json::to_vec(document).unwrap_or_default();
        Self {
            status,
            headers: vec![(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))],
            body,
            pieces: None,
        }
    }

    pub(crate) fn text(media_type: &'static str, text: String) -> Self {
        let headers = vec![(header::CONTENT_TYPE, HeaderValue::from_static(media_type))];
        Self { status: StatusCode::OK, headers, body: text.into_bytes(), pieces: None }
    }

    /// A finished JSON document.
    pub(crate) fn made(document: Vec<u8>) -> Self {
        let headers = vec![(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        Self { status: StatusCode::OK, headers, body: document, pieces: None }
    }

    /// The same, compressed if the client of `request` accepts that and it gains.
    pub(crate) fn packed_for(mut self, request: &HeaderMap) -> Self {
        let packed = if gzip::accepted(request) { gzip::compressed(&self.body) } else { None };
        if self.body.len() >= gzip::LEAST_BYTES {
            self.headers.push((header::VARY, HeaderValue::from_static("accept-encoding")));
        }
        if let Some(packed) = packed {
            self.body = packed;
            self.headers.push((header::CONTENT_ENCODING, HeaderValue::from_static("gzip")));
        }
        self
    }

    /// No content.
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new(), pieces: None }
    }

    /// A file to be saved as `name`.
    pub(crate) fn file(name: &str, body: Vec<u8>) -> Self {
        let disposition = HeaderValue::try_from(format!("attachment; filename=\"{name}\""));
        let mut headers = vec![(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"))];
        headers.extend(disposition.ok().map(|value| (header::CONTENT_DISPOSITION, value)));
        Self { status: StatusCode::OK, headers, body, pieces: None }
    }

    /// The same answer with another header, unless its value can't be a header.
    pub(crate) fn with(mut self, name: HeaderName, value: &str) -> Self {
        self.headers.extend(HeaderValue::try_from(value).ok().map(|value| (name, value)));
        self
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = Response::new(match self.pieces {
            Some(pieces) => Body::new(pieces.body()),
            None => Body::from(self.body),
        });
        *response.status_mut() = self.status;
        // Documents contain clients' texts: a browser must not render them as a page.
        response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        for (name, value) in self.headers {
            response.headers_mut().append(name, value);
        }
        response
    }
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Before the application saw it: a bad path, query or body.
    Request(StatusCode, String),
    Application(StatusCode, String),
}

impl Refusal {
    pub(crate) fn message(&self) -> &str {
        let (Self::Request(_, text) | Self::Application(_, text)) = self;
        text
    }

    /// 400 of the first shape.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::Request(StatusCode::BAD_REQUEST, message.into())
    }

    /// 404 of an unknown path.
    pub(crate) fn unknown_path(path: &str) -> Self {
        Self::Request(StatusCode::NOT_FOUND, format!("path {path} was not found"))
    }

    /// 400 of the second shape.
    pub(crate) fn invalid(reason: impl ToString) -> Self {
        Self::Application(StatusCode::BAD_REQUEST, reason.to_string())
    }

    /// 404 of the second shape.
    pub(crate) fn not_found(reason: impl ToString) -> Self {
        Self::Application(StatusCode::NOT_FOUND, reason.to_string())
    }

    /// 409.
    pub(crate) fn conflict(reason: impl ToString) -> Self {
        Self::Application(StatusCode::CONFLICT, reason.to_string())
    }

    /// 501: published in the API, not implemented here.
    pub(crate) fn not_implemented(what: &str) -> Self {
        Self::Application(StatusCode::NOT_IMPLEMENTED, format!("{what} is not implemented by landfall serve"))
    }

    /// 500: our own fault; the text has the causes, as no one else will see them.
    pub(crate) fn internal(error: &dyn std::error::Error) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        tracing::error!(error = text, "request failed");
        Self::Application(StatusCode::INTERNAL_SERVER_ERROR, text)
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Request(status, message) => Answer::json(status, &InfraError { code: status.as_u16(), message }),
            Refusal::Application(status, reason) => Answer::json(status, &ApiError::new(status.as_u16(), reason)),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        Answer::from(self).into_response()
    }
}
