//! Limits on what clients may use at once, and for how long.

use super::Refusal;
use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The longest path with its query, in bytes. A token in a query has a few hundred.
pub(crate) const MAX_URI_BYTES: usize = 8 << 10;
/// Request line and headers together, in bytes.
pub(crate) const MAX_HEADER_BYTES: usize = 32 << 10;
/// Headers of a request.
pub(crate) const MAX_HEADERS: usize = 100;
/// Bytes read from a connection at once.
pub(crate) const READ_BUFFER_BYTES: usize = 64 << 10;
/// A larger body takes one of [`Limits::large_bodies`].
pub(crate) const LARGE_BODY_BYTES: usize = 1 << 20;

/// A larger body takes one of [`Limits::parsers`] when parsed: that needs many times its size, and time.
pub(crate) const PARSED_BODY_BYTES: usize = 64 << 10;

/// Limits on clients.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Open connections; further ones get 503 and are closed.
    pub connections: usize,
    /// Time for a TLS handshake.
    pub handshake: Duration,
    /// Time for the headers of a request, from the end of the previous one: a connection idle for longer is closed.
    pub header: Duration,
    /// Time for the next piece of a body.
    pub piece: Duration,
    /// Time for all of a body.
    pub body: Duration,
    /// Time for all of an upload.
    pub upload: Duration,
    /// Time in which a client must read some of its answer.
    pub stall: Duration,
    /// Time a request waits for a place before it gets 503.
    pub queue: Duration,
    /// Requests processed at once.
    pub requests: usize,
    /// Requests with a body beyond `LARGE_BODY_BYTES` at once: each may be 64 MiB, and many times that once parsed.
    pub large_bodies: usize,
    /// Uploads at once.
    pub uploads: usize,
    /// ISOs, images and logs sent at once; each buffers 256 KiB.
    pub downloads: usize,
    /// Event streams open at once.
    pub streams: usize,
    /// Uploads leave this much of the file system free, in bytes, so that the store can grow.
    pub free_bytes: u64,
    /// Changes of records and manifests leave this much of it free, so that their removal can be written.
    pub store_free_bytes: u64,
    /// Hosts of an infra-env.
    pub hosts: usize,
    /// Total text that all hosts of an infra-env reported, in bytes.
    pub host_texts_bytes: usize,
    /// Burst of new hosts from one address, without authentication; after that [`Self::registrations_per_minute`].
    pub registrations: u32,
    /// See [`Self::registrations`].
    pub registrations_per_minute: u32,
    /// Bodies beyond `PARSED_BODY_BYTES` parsed at once. One beyond `LARGE_BODY_BYTES` is parsed alone.
    pub parsers: usize,
    /// Time for processing a request, including the wait for a thread.
    pub work: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            handshake: Duration::from_secs(10),
            // Longer than the pause between polls, so that an agent keeps its connection.
            header: Duration::from_secs(90),
            piece: Duration::from_secs(60),
            body: Duration::from_secs(5 * 60),
            upload: Duration::from_secs(60 * 60),
            stall: Duration::from_secs(60),
            queue: Duration::from_secs(30),
            requests: 512,
            large_bodies: 4,
            uploads: 64,
            downloads: 1024,
            streams: 256,
            free_bytes: 256 << 20,
            store_free_bytes: 64 << 20,
            hosts: 4000,
            host_texts_bytes: 512 << 20,
            registrations: 4000,
            registrations_per_minute: 600,
            parsers: 4,
            work: Duration::from_secs(60),
        }
    }
}

/// The kind of place a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// None: health checks must work above all when the service is busy.
    Probe,
    /// A document in, a document out.
    Request,
    /// A file in.
    Upload,
    /// A file out.
    Download,
}

impl Kind {
    /// The kind of place for a request.
    pub fn classify(method: &Method, path: &str) -> Self {
        const FILES: [&str; 5] = ["/images/", "/byid/", "/byapikey/", "/bytoken/", "/boot-artifacts/"];
        let logs = path.starts_with(api::API_PATH) && path.ends_with("/logs");
        match path {
            "/health" | "/ready" | "/live" => Self::Probe,
            _ if logs && method == Method::POST => Self::Upload,
            _ if logs || FILES.iter().any(|prefix| path.starts_with(prefix)) => Self::Download,
            _ => Self::Request,
        }
    }
}

/// The places, and the queues for them.
pub struct Gates {
    queue: Duration,
    requests: Arc<Semaphore>,
    large_bodies: Arc<Semaphore>,
    parsers: Arc<Semaphore>,
    parser_places: u32,
    uploads: Arc<Semaphore>,
    downloads: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

impl Gates {
    /// All places are free.
    pub fn new(limits: &Limits) -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self {
            queue: limits.queue,
            requests: places(limits.requests),
            large_bodies: places(limits.large_bodies),
            parsers: places(limits.parsers),
            parser_places: u32::try_from(limits.parsers).unwrap_or(u32::MAX),
            uploads: places(limits.uploads),
            downloads: places(limits.downloads),
            streams: places(limits.streams),
        }
    }

    /// A place, in order of arrival; 503 if none becomes free in time.
    pub(crate) async fn enter(&self, kind: Kind) -> Result<Option<OwnedSemaphorePermit>, Refusal> {
        match self.gate(kind) {
            Some((gate, what)) => self.wait(gate, what).await.map(Some),
            None => Ok(None),
        }
    }

    /// How many places are free; `None` for a kind that takes none.
    pub fn free(&self, kind: Kind) -> Option<usize> {
        self.gate(kind).map(|(gate, _)| gate.available_permits())
    }

    fn gate(&self, kind: Kind) -> Option<(&Arc<Semaphore>, &'static str)> {
        match kind {
            Kind::Probe => None,
            Kind::Request => Some((&self.requests, "requests")),
            Kind::Upload => Some((&self.uploads, "uploads")),
            Kind::Download => Some((&self.downloads, "downloads")),
        }
    }

    /// A place for a body beyond `LARGE_BODY_BYTES`.
    pub(crate) async fn large_body(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.wait(&self.large_bodies, "large bodies").await
    }

    /// A place to parse a body of this size; a short one needs none, one beyond `LARGE_BODY_BYTES` all of them.
    pub(crate) async fn parser(&self, body_bytes: usize) -> Result<Option<OwnedSemaphorePermit>, Refusal> {
        if body_bytes <= PARSED_BODY_BYTES {
            return Ok(None);
        }
        let places = if body_bytes > LARGE_BODY_BYTES { self.parser_places } else { 1 };
        self.wait_for(&self.parsers, places, "large bodies").await.map(Some)
    }

    async fn wait(&self, gate: &Arc<Semaphore>, what: &str) -> Result<OwnedSemaphorePermit, Refusal> {
        self.wait_for(gate, 1, what).await
    }

    async fn wait_for(&self, gate: &Arc<Semaphore>, places: u32, what: &str) -> Result<OwnedSemaphorePermit, Refusal> {
        let permit = tokio::time::timeout(self.queue, gate.clone().acquire_many_owned(places)).await;
        permit.ok().and_then(Result::ok).ok_or_else(|| busy(what))
    }

    /// The answer, which holds its place until its last byte is sent. An event stream, which has no end, moves to a place for
    /// streams.
    pub fn hold(&self, response: Response, place: Option<OwnedSemaphorePermit>) -> Response {
        let media_type = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let place = match media_type {
            Some(kind) if kind.starts_with(b"text/event-stream") => match self.streams.clone().try_acquire_owned() {
                Ok(place) => Some(place),
                Err(_) => return busy("event streams").into_response(),
            },
            _ => place,
        };
        match place {
            Some(place) => response.map(|body| Body::new(Held { body, _place: place })),
            None => response,
        }
    }
}

fn busy(what: &str) -> Refusal {
    let message = format!("too many {what} at once: try again later");
    Refusal::Request(StatusCode::SERVICE_UNAVAILABLE, message)
}

/// Refuses what no endpoint accepts, before reading the body.
pub fn check(uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let length = uri.path_and_query().map_or(0, |text| text.as_str().len());
    if length > MAX_URI_BYTES {
        let message = format!("path and query are longer than {MAX_URI_BYTES} bytes");
        return Err(Refusal::Request(StatusCode::URI_TOO_LONG, message));
    }
    // No published request is compressed, so a small body can't expand here.
    let coded = |value: &HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"identity");
    if headers.get_all(header::CONTENT_ENCODING).iter().any(coded) {
        let message = "request bodies must not have a Content-Encoding".to_owned();
        return Err(Refusal::Request(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    Ok(())
}

/// A body that holds a place.
struct Held {
    body: Body,
    _place: OwnedSemaphorePermit,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_takes_a_place_of() {
        let kind = |method: Method, path: &str| Kind::classify(&method, path);
        let logs = format!("{}/v2/clusters/x/logs", api::API_PATH);
        assert_eq!(kind(Method::POST, &logs), Kind::Upload);
        assert_eq!(kind(Method::GET, &logs), Kind::Download);
        assert_eq!(kind(Method::GET, "/byid/x/any/any/full.iso"), Kind::Download);
        assert_eq!(kind(Method::GET, "/health"), Kind::Probe);
        assert_eq!(kind(Method::GET, "/logs"), Kind::Request);
        assert_eq!(kind(Method::POST, &format!("{}/v2/clusters", api::API_PATH)), Kind::Request);
    }

    #[test]
    fn long_addresses_and_coded_bodies_are_refused() {
        let status = |uri: &str, coding: Option<&'static str>| {
            let coding = coding.map(|text| (header::CONTENT_ENCODING, HeaderValue::from_static(text)));
            match check(&uri.parse().unwrap(), &coding.into_iter().collect()) {
                Ok(()) => 200,
                Err(Refusal::Request(status, _) | Refusal::Application(status, _)) => status.as_u16(),
            }
        };
        assert_eq!(status("/x?y=z", None), 200);
        assert_eq!(status("/x", Some("Identity")), 200);
        assert_eq!(status("/x", Some("gzip")), 415);
        assert_eq!(status(&format!("/{}", "x".repeat(MAX_URI_BYTES - 1)), None), 200);
        assert_eq!(status(&format!("/{}", "x".repeat(MAX_URI_BYTES)), None), 414);
    }

    #[tokio::test]
    async fn a_large_body_is_parsed_alone() {
        let gates = Gates::new(&Limits { queue: Duration::from_millis(20), ..Limits::default() });
        let small = gates.parser(LARGE_BODY_BYTES).await.unwrap();
        assert!(gates.parser(LARGE_BODY_BYTES + 1).await.is_err());
        drop(small);
        let _large = gates.parser(LARGE_BODY_BYTES + 1).await.unwrap();
        assert!(gates.parser(PARSED_BODY_BYTES + 1).await.is_err());
        assert!(gates.parser(PARSED_BODY_BYTES).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_place_is_waited_for_and_then_refused() {
        let gates =
            Gates::new(&Limits { requests: 1, streams: 1, queue: Duration::from_millis(20), ..Limits::default() });
        let place = gates.enter(Kind::Request).await.unwrap();
        assert_eq!(gates.enter(Kind::Request).await.unwrap_err(), busy("requests"));
        assert!(gates.enter(Kind::Probe).await.unwrap().is_none());
        assert!(gates.enter(Kind::Download).await.unwrap().is_some(), "has places of its own");
        let stream = || {
            let mut response = Response::new(Body::empty());
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            response
        };
        let first = gates.hold(stream(), place);
        assert_eq!(first.status(), StatusCode::OK);
        let place = gates.enter(Kind::Request).await.expect("the stream gave its place back");
        assert_eq!(gates.hold(stream(), place).status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
