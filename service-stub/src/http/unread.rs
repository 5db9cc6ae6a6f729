//! Drains what a handler left of a request's body before the answer is sent.
//!
//! A connection closed while a body still arrives is reset, and the reset may destroy the answer (RFC 9112 §9.6).

use super::limits::Limits;
use super::work::{in_time, next_piece};
use axum::{
    body::{Body, Bytes, HttpBody},
    extract::Request,
    http::{HeaderValue, header},
    response::Response,
};
use http_body::{Frame, SizeHint};
use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

/// Limits the time for draining.
const LINGER: Duration = Duration::from_secs(1);

/// A body that a handler dropped before its end.
pub(crate) struct Unread(Arc<Mutex<Option<Body>>>);

/// The same request, whose body is returned if it is dropped before its end.
pub(crate) fn watch(request: Request) -> (Request, Unread) {
    let back = Arc::new(Mutex::new(None));
    let awaits_continue = request.headers().contains_key(header::EXPECT);
    let request = request.map(|body| Body::new(Watched { body, awaits_continue, back: back.clone() }));
    (request, Unread(back))
}

impl Unread {
    /// Reads the rest. If that does not end, the answer closes the connection.
    pub(crate) async fn discard(self, limits: &Limits, response: &mut Response) {
        let Some(mut body) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let rest = async {
            while next_piece(&mut body, limits).await?.is_some() {}
            Ok(())
        };
        if in_time(LINGER, rest).await.is_err() {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

struct Watched {
    body: Body,
    /// The client sends the body only when asked to continue: a body that was never read is not coming.
    awaits_continue: bool,
    back: Arc<Mutex<Option<Body>>>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.awaits_continue && !self.body.is_end_stream() {
            *self.back.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::mem::take(&mut self.body));
        }
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.awaits_continue = false;
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            self.body = Body::empty();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
