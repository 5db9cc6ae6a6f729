//! Answers, and the forms they take in turn.

use crate::description::Description;
use api::{
    ApiError,
    endpoint::{Endpoint, Produces},
    media::Media,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// What a test has a request answered with.
#[derive(Debug)]
pub enum Answer {
    /// The status of success, without a body.
    Done,
    /// A status without a body.
    Status(u16),
    Json(u16, Value),
    /// A refusal by the application.
    Refusal(u16, &'static str),
    /// A file where the endpoint has files; something that the service never said elsewhere.
    Text(u16, &'static str),
    /// Not HTTP at all.
    Garbage,
    /// Close without a word.
    HangUp,
}

/// What goes out over a connection.
#[derive(Debug)]
pub enum Reply {
    /// And the connection stays open.
    Whole(Vec<u8>),
    /// And it is closed.
    Last(Vec<u8>),
}

/// What the real service is free to do with values that say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// All that may be null, and has no value, is.
    Null,
    /// All without a value is left out.
    Absent,
    /// All is there, and a field that is not in the description.
    Full,
}

/// Whose turn it is, by endpoint.
#[derive(Default)]
pub(crate) struct Turns(BTreeMap<&'static str, usize>);

impl Turns {
    pub(crate) fn next(&mut self, endpoint: &'static Endpoint) -> Form {
        let count = self.0.entry(endpoint.operation).or_default();
        let turn = *count;
        *count += 1;
        [Form::Null, Form::Absent, Form::Full][turn % 3]
    }
}

impl Answer {
    /// Whether the service could answer so at `endpoint`.
    pub fn check(&self, endpoint: &Endpoint) -> Result<(), String> {
        let (status, has_body) = match self {
            Self::Done => (endpoint.success, false),
            Self::Status(status) => (*status, false),
            Self::Json(status, body) => (*status, !body.is_null()),
            _ => return Ok(()),
        };
        if !(200..300).contains(&status) {
            return Ok(());
        }
        if status != endpoint.success {
            return Err(format!("the test answers {status} where the service answers {}", endpoint.success));
        }
        match (endpoint.produces, has_body) {
            (Produces::Nothing, true) => Err("the test answers with a body where the service has none".into()),
            (Produces::Json | Produces::File, false) => Err("the test answers without the body".into()),
            _ => Ok(()),
        }
    }

    /// As it goes out. A document of the service takes the form whose turn it is.
    pub fn reply(self, of_api: Option<(&'static Endpoint, &Description, Form)>) -> Reply {
        let is_success = |status: u16| (200..300).contains(&status);
        let is_file = of_api.is_some_and(|(endpoint, ..)| endpoint.produces == Produces::File);
        match self {
            Self::Done => {
                let status = of_api.map_or(200, |(endpoint, ..)| endpoint.success);
                Reply::Whole(document(status, Media::Json, b""))
            }
            Self::Status(status) => Reply::Whole(document(status, Media::Json, b"")),
            Self::Json(status, value) if is_file && is_success(status) => {
                Reply::Whole(document(status, Media::OctetStream, value.to_string().as_bytes()))
            }
            Self::Json(status, Value::Null) => Reply::Whole(document(status, Media::Json, b"")),
            Self::Json(status, mut value) => {
                if let Some((endpoint, description, form)) = of_api.filter(|_| is_success(status)) {
                    description.shape(endpoint, &mut value, form);
                }
                Reply::Whole(document(status, Media::Json, value.to_string().as_bytes()))
            }
            Self::Refusal(status, reason) => {
                let body = serde_json::to_value(ApiError::new(status, reason)).unwrap();
                Reply::Whole(document(status, Media::Json, body.to_string().as_bytes()))
            }
            Self::Text(status, text) if is_file && is_success(status) => {
                Reply::Whole(document(status, Media::OctetStream, text.as_bytes()))
            }
            Self::Text(status, text) => Reply::Whole(with_type(status, "text/html", text.as_bytes())),
            Self::Garbage => Reply::Last(b"\x16\x03\x01 what?\r\n\r\n".to_vec()),
            Self::HangUp => Reply::Last(Vec::new()),
        }
    }
}

/// In one piece: the kernel holds the second of two small ones back until the first is acknowledged, which takes 40 ms.
pub(crate) fn document(status: u16, media: Media, body: &[u8]) -> Vec<u8> {
    with_type(status, media.as_str(), body)
}

fn with_type(status: u16, media_type: &str, body: &[u8]) -> Vec<u8> {
    // 204 has no body and so no length.
    let length = if status == 204 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let head = format!("HTTP/1.1 {status} X\r\nContent-Type: {media_type}\r\n{length}\r\n");
    [head.as_bytes(), if status == 204 { b"" } else { body }].concat()
}
