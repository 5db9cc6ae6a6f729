//! Bodies generated while they are sent: a long one is never in memory as a whole.

use axum::body::Bytes;
use http_body::{Body as HttpBody, Frame};
use std::{
    fmt,
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::task::JoinHandle;

/// Bytes sent at once, or one piece if that is longer.
const CHUNK_BYTES: usize = 256 << 10;

/// The pieces of a body, each generated when needed.
pub(crate) struct Pieces(Box<dyn Iterator<Item = Vec<u8>> + Send>);

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pieces")
    }
}

impl Pieces {
    /// These.
    pub(crate) fn new(pieces: impl Iterator<Item = Vec<u8>> + Send + 'static) -> Self {
        Self(Box::new(pieces))
    }

    /// Separated by commas, in brackets.
    pub(crate) fn list<I>(items: impl Iterator<Item = I> + Send + 'static) -> impl Iterator<Item = Vec<u8>> + Send
    where
        I: Iterator<Item = Vec<u8>> + Send + 'static,
    {
        let separated = items.enumerate().flat_map(|(index, item)| {
            let separator = if index == 0 { Vec::new() } else { b",".to_vec() };
            std::iter::once(separator).chain(item)
        });
        std::iter::once(b"[".to_vec()).chain(separated).chain(std::iter::once(b"]".to_vec()))
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut chunk = self.0.next()?;
        while chunk.len() < CHUNK_BYTES {
            let Some(piece) = self.0.next() else { break };
            chunk.extend(piece);
        }
        Some(chunk)
    }

    pub(super) fn body(self) -> PieceBody {
        PieceBody { waiting: Some(self), making: None }
    }
}

type Made = (Option<Vec<u8>>, Pieces);

pub(super) struct PieceBody {
    /// `None` while the next is generated, and at the end.
    waiting: Option<Pieces>,
    making: Option<JoinHandle<Made>>,
}

impl HttpBody for PieceBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(mut pieces) = self.waiting.take() {
            self.making = Some(tokio::task::spawn_blocking(move || (pieces.next(), pieces)));
        }
        let Some(making) = &mut self.making else { return Poll::Ready(None) };
        let made = std::task::ready!(Pin::new(making).poll(context));
        self.making = None;
        // An error closes the connection early: the client sees a short body, never a wrong one.
        let (piece, pieces) = made.map_err(io::Error::other)?;
        let Some(piece) = piece else { return Poll::Ready(None) };
        self.waiting = Some(pieces);
        Poll::Ready(Some(Ok(Frame::data(piece.into()))))
    }
}
