//! Documents as the service sent them, for commands that print them without losing unknown fields; and files.

use super::{Client, error::ClientError};
use crate::endpoint::{Produces, Target};
use serde_json::Value;
use std::io::{self, Read, Write};

/// Progress of a download: bytes received, and the total if the service announced it.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(u64, Option<u64>);

/// Bytes read at once from a download.
const PIECE_BYTES: usize = 64 << 10;

/// Why a download failed.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The service refused, or did not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("GET {path}: the download broke off after {bytes} bytes")]
    Broken { path: String, bytes: u64, source: io::Error },
    #[error("cannot write the download")]
    Write(#[source] io::Error),
}

impl Client {
    /// The same client, sending its token as users do (`Authorization: Bearer …`), not as agents do.
    pub fn as_user(self) -> Self {
        Self { user: true, ..self }
    }

    /// The document at `target`.
    pub fn document(&self, target: &Target) -> Result<Value, ClientError> {
        self.get(target)
    }

    /// Sends a document, or none. Returns the answer's, or null if `target` has none.
    pub fn send(&self, target: &Target, body: Option<&Value>) -> Result<Value, ClientError> {
        let answer = self.call(target, body)?;
        match target.endpoint().produces {
            Produces::Nothing => Ok(Value::Null),
            Produces::Json | Produces::File => self.decode(target, &answer),
        }
    }

    /// The file at `target`, whole.
    pub fn file(&self, target: &Target) -> Result<Vec<u8>, ClientError> {
        self.call(target, None::<&()>)
    }

    /// Streams the file at `target` to `out`. One attempt; `out` limits the size.
    pub fn download(&self, target: &Target, out: &mut dyn Write, progress: Progress) -> Result<(), DownloadError> {
        let failed = |source: ureq::Error| self.no_answer(target, source);
        let request = self.request(target).body(()).map_err(|error| failed(error.into()))?;
        let request = self.agent.configure_request(request).max_redirects(0).max_redirects_will_error(false);
        // No total time limit: logs and images are large, and networks slow.
        let request = request.timeout_recv_response(Some(self.answer_timeout)).timeout_recv_body(None).build();
        let mut response = self.agent.run(request).map_err(failed)?;
        if !response.status().is_success() {
            return Ok(self.answer(target, &mut response).map(drop)?);
        }
        let total = response.body().content_length();
        copy(target.path(), response.body_mut().as_reader(), total, out, progress)
    }
}

/// Copies what a server sends, and reports progress.
pub fn copy(
    path: &str,
    mut from: impl Read,
    total: Option<u64>,
    out: &mut dyn Write,
    progress: Progress,
) -> Result<(), DownloadError> {
    let mut buffer = vec![0; PIECE_BYTES];
    let mut bytes = 0_u64;
    let broken = |bytes, source| DownloadError::Broken { path: path.to_owned(), bytes, source };
    loop {
        let len = from.read(&mut buffer).map_err(|error| broken(bytes, error))?;
        if len == 0 {
            break;
        }
        out.write_all(buffer.get(..len).unwrap_or_default()).map_err(DownloadError::Write)?;
        bytes = bytes.saturating_add(u64::try_from(len).unwrap_or(u64::MAX));
        progress(bytes, total);
    }
    match total {
        Some(total) if total != bytes => Err(broken(bytes, io::ErrorKind::UnexpectedEof.into())),
        _ => Ok(()),
    }
}
