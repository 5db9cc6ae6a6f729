//! Sends parts of files: read off the async threads, with one bounded buffer per connection.

use super::range::{Part, Validators, choose, format_date};
use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, Method, header},
    response::Response,
};
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::{
    fs::File,
    future::Future,
    io,
    os::unix::fs::FileExt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::task::JoinHandle;

/// Bytes read at once; also the maximum that a connection buffers.
const CHUNK_BYTES: u64 = 256 * 1024;

/// A source with random access: a file, or an image patched on the fly.
pub(crate) trait ReadAt: Send + Sync {
    /// Fills `buffer` from `offset`.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }
}

impl ReadAt for Vec<u8> {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = start.checked_add(buffer.len()).and_then(|end| self.get(start..end));
        buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A part of a file.
#[derive(Debug)]
pub(crate) struct Slice {
    /// The file.
    pub(crate) file: File,
    /// First byte of the part.
    pub(crate) offset: u64,
}

impl ReadAt for Slice {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let at = self.offset.checked_add(offset).ok_or(io::ErrorKind::UnexpectedEof)?;
        FileExt::read_exact_at(&self.file, buffer, at)
    }
}

/// A served file.
#[derive(Clone)]
pub struct Offer {
    pub(crate) source: Arc<dyn ReadAt>,
    pub(crate) len: u64,
    /// Identifies its version.
    pub(crate) validators: Validators,
    /// Name to save it under.
    pub(crate) name: String,
    pub(crate) media_type: &'static str,
}

impl Offer {
    /// The answer to a GET or HEAD of it.
    pub(crate) fn answer(self, method: &Method, headers: &HeaderMap) -> Response {
        let part = choose(headers, &self.validators, self.len);
        let (start, end) = match part {
            Part::Whole => (0, self.len),
            Part::Slice { start, end } => (start, end),
            Part::NotModified | Part::Failed | Part::Unsatisfiable => (0, 0),
        };
        let mut response = Response::new(match *method {
            Method::HEAD => Body::empty(),
            _ => Body::new(FileBody { source: self.source, position: start, end, reading: None }),
        });
        *response.status_mut() = part.status();
        let headers = response.headers_mut();
        let mut set = |name, value: &str| {
            // A file name that can't be in a header is left out.
            headers.extend(HeaderValue::try_from(value).ok().map(|value| (name, value)));
        };
        set(header::ACCEPT_RANGES, "bytes");
        set(header::ETAG, &self.validators.etag);
        set(header::LAST_MODIFIED, &format_date(self.validators.modified));
        match part {
            Part::Unsatisfiable => set(header::CONTENT_RANGE, &format!("bytes */{}", self.len)),
            Part::NotModified | Part::Failed => return response,
            Part::Whole | Part::Slice { .. } => {
                if let Part::Slice { start, end } = part {
                    set(header::CONTENT_RANGE, &format!("bytes {start}-{}/{}", end - 1, self.len));
                }
                set(header::CONTENT_TYPE, self.media_type);
                set(
                    header::CONTENT_DISPOSITION,
                    &format!("attachment; filename=\"{}\"", self.name.replace(['"', '\\'], "_")),
                );
            }
        }
        set(header::CONTENT_LENGTH, &(end - start).to_string());
        response
    }
}

struct FileBody {
    source: Arc<dyn ReadAt>,
    position: u64,
    end: u64,
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
}

impl HttpBody for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.position >= self.end {
            return Poll::Ready(None);
        }
        let (offset, wanted) = (self.position, (self.end - self.position).min(CHUNK_BYTES));
        let source = self.source.clone();
        let reading = self.reading.get_or_insert_with(|| {
            tokio::task::spawn_blocking(move || {
                let mut buffer = vec![0; usize::try_from(wanted).map_err(io::Error::other)?];
                source.read_exact_at(&mut buffer, offset)?;
                Ok(buffer)
            })
        });
        let finished = std::task::ready!(Pin::new(reading).poll(context));
        self.reading = None;
        // An error closes the connection early: the client sees a short body, never a wrong one.
        let buffer = finished.map_err(io::Error::other).flatten().inspect_err(|error| {
            tracing::error!(%error, offset, "cannot read a served file");
            self.position = self.end;
        })?;
        self.position += wanted;
        Poll::Ready(Some(Ok(Frame::data(buffer.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.position >= self.end
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.end - self.position)
    }
}
