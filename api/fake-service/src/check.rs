//! What the real service refuses of a client's requests, in its words; and a few things that it lets pass and no client of
//! ours should do.

use crate::{Reply, Request, answer::document, description::Description};
use api::{
    API_PATH, ApiError, InfraError,
    endpoint::{ALL, Endpoint},
    media::Media,
};
use serde_json::Value;

/// Why a request is refused.
pub(crate) struct Refusal {
    status: u16,
    pub message: String,
}

impl Refusal {
    fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(crate) fn reply(self) -> Reply {
        let Self { status, message } = self;
        let body = match status {
            // The application's form; all that is checked here is refused before it.
            500.. => serde_json::to_value(ApiError::new(status, message)),
            _ => serde_json::to_value(InfraError { code: status, message }),
        };
        Reply::Whole(document(status, Media::Json, body.unwrap().to_string().as_bytes()))
    }
}

fn fits(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
    let part = |(own, given): (&&str, &&str)| own == given || own.starts_with('{') && !given.is_empty();
    pattern.len() == path.len() && pattern.iter().zip(&path).all(part)
}

/// The endpoint that takes a request.
pub(crate) fn endpoint_at(method: &str, path: &str) -> Option<&'static Endpoint> {
    ALL.iter().copied().find(|endpoint| endpoint.method.as_str() == method && fits(endpoint.path, path))
}

/// Refuses a request as the service does.
pub(crate) fn check(request: &Request, description: &Description) -> Result<(), Refusal> {
    if !request.is_of_api {
        return Ok(());
    }
    let Some(endpoint) = request.endpoint else { return Err(nothing_at(request)) };
    for part in request.path.split('/').zip(endpoint.path.split('/')).filter(|(_, own)| own.starts_with('{')) {
        let (given, name) = (part.0, part.1.trim_matches(['{', '}']));
        if uuid::Uuid::try_parse(given).is_err() {
            return Err(Refusal::new(400, format!("{name} in path must be of type uuid: {given:?}")));
        }
    }
    headers(request)?;
    match endpoint.consumes {
        Some(media) if !request.bytes.is_empty() => {
            media.check_content_type(request.header("Content-Type")).map_err(|message| Refusal::new(400, message))?;
        }
        Some(_) => return Err(Refusal::new(400, "the body is required")),
        None if !request.bytes.is_empty() => return Err(Refusal::new(400, "a body where there is none")),
        None => {}
    }
    let accept = request.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
    let accept: Vec<&str> = accept.map(|(_, value)| value.as_str()).collect();
    let media = endpoint.produces.media();
    if accept.is_empty() {
        return Err(Refusal::new(400, "a client of ours says what it accepts"));
    }
    if !media.is_accepted(accept) {
        return Err(Refusal::new(400, media.not_accepted()));
    }
    query(request, endpoint, description)?;
    match endpoint.consumes {
        Some(Media::Multipart) => form(request).map_err(|what| Refusal::new(400, what)),
        Some(_) => body(request, endpoint, description),
        None => Ok(()),
    }
}

fn nothing_at(request: &Request) -> Refusal {
    let mut allowed: Vec<&str> =
        ALL.iter().filter(|own| fits(own.path, &request.path)).map(|own| own.method.as_str()).collect();
    allowed.sort_unstable();
    match allowed.is_empty() {
        true => Refusal::new(404, format!("path {API_PATH}{} was not found", request.path)),
        false => {
            Refusal::new(405, format!("method {} is not allowed, but [{}] are", request.method, allowed.join(",")))
        }
    }
}

fn headers(request: &Request) -> Result<(), Refusal> {
    let is_token = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    let bearer = request.header("Authorization").and_then(|value| value.strip_prefix("Bearer "));
    if !request.header("X-Secret-Key").or(bearer).is_some_and(is_token) {
        return Err(Refusal::new(401, "unauthenticated for invalid credentials"));
    }
    let id = request.header("X-Request-Id").unwrap_or_default();
    if uuid::Uuid::try_parse(id).is_err() {
        return Err(Refusal::new(400, format!("X-Request-Id is not a uuid: {id:?}")));
    }
    let mut names: Vec<String> = request.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(Refusal::new(400, format!("{} comes twice", twice[0]))),
        None => Ok(()),
    }
}

fn query(request: &Request, endpoint: &'static Endpoint, description: &Description) -> Result<(), Refusal> {
    let pairs = request.query.split('&').filter(|pair| !pair.is_empty());
    let pairs: Vec<(&str, &str)> = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
    for (number, (name, _)) in pairs.iter().enumerate() {
        if !endpoint.query.contains(name) || pairs[..number].iter().any(|(earlier, _)| earlier == name) {
            return Err(Refusal::new(400, format!("{name} in query is unknown, or comes twice")));
        }
    }
    description.check_query(endpoint, &pairs).map_err(|message| Refusal::new(400, message))
}

fn body(request: &Request, endpoint: &'static Endpoint, description: &Description) -> Result<(), Refusal> {
    let document: Value = serde_json::from_slice(&request.bytes)
        .map_err(|error| Refusal::new(400, format!("parsing body from \"\" failed, because {error}")))?;
    description.check_body(endpoint, &document).map_err(|message| Refusal::new(400, message))
}

/// An upload is one whole file (RFC 7578).
fn form(request: &Request) -> Result<(), String> {
    let content_type = request.header("Content-Type").unwrap_or_default();
    let boundary = content_type.split_once("boundary=").map(|(_, boundary)| boundary.trim_matches('"'));
    let boundary =
        boundary.filter(|boundary| !boundary.is_empty()).ok_or("no multipart boundary param in Content-Type")?;
    let text = String::from_utf8_lossy(&request.bytes);
    let start = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"upfile\"; filename=\"");
    if !text.starts_with(&start) {
        return Err("the form's first part is not a file named upfile".into());
    }
    let head = text.split("\r\n\r\n").next().unwrap_or_default();
    if !head.contains("\r\nContent-Type: application/x-gzip") {
        return Err(format!("the file is not an archive: {head:?}"));
    }
    if !request.bytes.ends_with(format!("\r\n--{boundary}--\r\n").as_bytes()) {
        return Err("multipart: NextPart: EOF".into());
    }
    Ok(())
}
