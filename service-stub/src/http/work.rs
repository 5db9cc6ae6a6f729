//! Work off the async threads, and bodies read within limits.

use super::Refusal;
use super::limits::{Gates, LARGE_BODY_BYTES, Limits};
use axum::{
    body::{Body, Bytes, HttpBody},
    http::StatusCode,
};
use std::{future::Future, pin::Pin, time::Duration};
use tokio::sync::OwnedSemaphorePermit;

/// Runs blocking work. A panic is a 500 if panics unwind, as in tests; in released programs it ends the process. Work does not
/// start once its client is gone or its time is over.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let mut task = Abandoned(tokio::task::spawn_blocking(work));
    (&mut task.0).await.unwrap_or_else(|error| Err(Refusal::internal(&error)))
}

struct Abandoned<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for Abandoned<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The next piece of a body; none at its end.
pub(crate) async fn next_piece(body: &mut Body, limits: &Limits) -> Result<Option<Bytes>, Refusal> {
    loop {
        let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
        match tokio::time::timeout(limits.piece, frame).await {
            Err(_) => return Err(too_slow("no more data of the body arrived in time")),
            Ok(None) => return Ok(None),
            Ok(Some(Err(error))) => return Err(Refusal::bad_request(format!("cannot read the body: {error}"))),
            // Trailers are ignored.
            Ok(Some(Ok(frame))) => {
                if let Ok(piece) = frame.into_data() {
                    return Ok(Some(piece));
                }
            }
        }
    }
}

/// Limits the time for a whole body.
pub(crate) async fn in_time<T>(bound: Duration, work: impl Future<Output = Result<T, Refusal>>) -> Result<T, Refusal> {
    tokio::time::timeout(bound, work).await.unwrap_or_else(|_| Err(too_slow("the body took too long")))
}

fn too_slow(message: &str) -> Refusal {
    Refusal::Request(StatusCode::REQUEST_TIMEOUT, message.to_owned())
}

/// A body, and the place that a large one holds.
pub(crate) type Taken = (Bytes, Option<OwnedSemaphorePermit>);

/// Reads a whole body.
pub(crate) async fn read_body(gates: &Gates, limits: &Limits, mut body: Body, limit: usize) -> Result<Taken, Refusal> {
    let too_large = || {
        let message = format!("the body is larger than {limit} bytes");
        Refusal::Request(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    if body.size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
        return Err(too_large());
    }
    in_time(limits.body, async {
        let (mut bytes, mut place) = (Vec::new(), None);
        while let Some(piece) = next_piece(&mut body, limits).await? {
            let length = bytes.len().saturating_add(piece.len());
            if length > limit {
                return Err(too_large());
            }
            if length > LARGE_BODY_BYTES && place.is_none() {
                place = Some(gates.large_body().await?);
            }
            bytes.extend_from_slice(&piece);
        }
        Ok((bytes.into(), place))
    })
    .await
}
