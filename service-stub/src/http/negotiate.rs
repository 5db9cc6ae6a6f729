//! Media types of requests and answers, checked as in the real service: before parameters, and with its texts.

use super::Refusal;
use api::media::Media;
use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// The media types of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The type of request bodies.
    pub consumes: Media,
    /// The media type of successful answers.
    pub produces: Media,
}

impl Exchange {
    /// Documents in and out.
    pub(crate) const DOCUMENTS: Self = Self { consumes: Media::Json, produces: Media::Json };
    /// A file out.
    pub const FILE: Self = Self { consumes: Media::Json, produces: Media::OctetStream };
    /// A file in.
    pub(crate) const UPLOAD: Self = Self { consumes: Media::Multipart, produces: Media::Json };

    /// Refuses a request whose body has another type, and one that does not accept the answer.
    pub fn check(self, headers: &HeaderMap, has_body: bool) -> Result<(), Refusal> {
        let texts = |name| headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
        if has_body {
            let content_type = texts(header::CONTENT_TYPE).next();
            self.consumes.check_content_type(content_type.as_deref()).map_err(Refusal::bad_request)?;
        }
        let accept: Vec<_> = texts(header::ACCEPT).collect();
        match self.produces.is_accepted(accept.iter().map(AsRef::as_ref)) {
            true => Ok(()),
            false => Err(Refusal::bad_request(self.produces.not_accepted())),
        }
    }

    /// The answer with the media type that the endpoint declares for files.
    pub(crate) fn label(self, mut response: Response) -> Response {
        let is_file = self.produces == Media::OctetStream && response.headers().contains_key(header::CONTENT_TYPE);
        if is_file && response.status().is_success() {
            let media_type = HeaderValue::from_static(Media::OctetStream.as_str());
            response.headers_mut().insert(header::CONTENT_TYPE, media_type);
        }
        response
    }
}

/// A body whose first piece was read already.
pub(crate) struct Resumed {
    first: Option<Bytes>,
    rest: Body,
}

impl Resumed {
    /// `first`, then `rest`.
    pub(crate) fn body(first: Option<Bytes>, rest: Body) -> Body {
        Body::new(Self { first, rest })
    }
}

impl HttpBody for Resumed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(Frame::data(first)))),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let taken = self.first.as_ref().map_or(0, |first| u64::try_from(first.len()).unwrap_or(u64::MAX));
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(taken));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(taken));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(exchange: Exchange, headers: &[(&'static str, &str)], body: &str) -> Option<Refusal> {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        exchange.check(&headers, !body.is_empty()).err()
    }

    #[test]
    fn the_body_is_looked_at_before_the_answer() {
        let not_json = r#"unsupported media type "text/plain", only [application/json] are allowed"#;
        let no_file = "unsupported media type requested, only [application/octet-stream] are available";
        let text = ("content-type", "text/plain");
        let both = [text, ("accept", "application/json")];
        assert_eq!(refused(Exchange::FILE, &both, "{}"), Some(Refusal::bad_request(not_json)));
        assert_eq!(refused(Exchange::FILE, &both, ""), Some(Refusal::bad_request(no_file)), "there is no body");
        assert_eq!(refused(Exchange::FILE, &[("accept", "*/*")], ""), None);
        assert_eq!(refused(Exchange::DOCUMENTS, &[text], ""), None);
        assert_eq!(refused(Exchange::UPLOAD, &[("content-type", "multipart/form-data; boundary=x")], "-"), None);
        let untyped = r#"unsupported media type "application/octet-stream", only [multipart/form-data] are allowed"#;
        assert_eq!(refused(Exchange::UPLOAD, &[], "-"), Some(Refusal::bad_request(untyped)));
    }

    #[test]
    fn only_files_are_labelled_as_such() {
        let label = |exchange: Exchange, status: u16| {
            let response = Response::builder().status(status).header("content-type", "application/x-tar");
            let response = exchange.label(response.body(Body::empty()).unwrap());
            response.headers()["content-type"].to_str().unwrap().to_owned()
        };
        assert_eq!(label(Exchange::FILE, 200), "application/octet-stream");
        assert_eq!(label(Exchange::FILE, 206), "application/octet-stream");
        assert_eq!(label(Exchange::FILE, 409), "application/x-tar");
        assert_eq!(label(Exchange::DOCUMENTS, 200), "application/x-tar");
    }
}
