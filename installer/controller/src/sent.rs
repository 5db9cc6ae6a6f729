//! A directory in the log of a pod: tar.gz, in lines of Base64, with the sum of all at the end. A kubelet cuts logs off at a size and keeps a few
//! pieces; written slowly enough, a reader that follows misses nothing, and the sum tells.

use base64::{Engine, prelude::BASE64_STANDARD};
use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};
use std::{
    io::{self, Write},
    path::Path,
    thread,
    time::Duration,
};

/// Bytes of a line before they are encoded.
const LINE: usize = 3 << 10;
/// Lines between two pauses: 3 MiB in a second.
const LINES_A_PAUSE: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);
/// What the last line begins with. It is not Base64.
const SUM: &str = "sha256:";

#[derive(Debug, thiserror::Error)]
pub(crate) enum SentError {
    #[error("the log ends before the archive does")]
    Cut,
    #[error("line {line} is not Base64: '{seen}'")]
    Line { line: usize, seen: String },
    #[error("the archive's sum is not the one that was sent: a part was lost")]
    Sum,
}

/// Writes a directory.
pub(crate) fn write(directory: &Path, out: impl Write) -> io::Result<()> {
    let mut lines = Lines { out, line: Vec::with_capacity(LINE), written: 0, sum: Sha256::new() };
    let mut tar = tar::Builder::new(GzEncoder::new(&mut lines, Compression::default()));
    tar.follow_symlinks(false);
    tar.append_dir_all("must-gather", directory)?;
    tar.into_inner()?.finish()?;
    lines.finish()
}

struct Lines<W> {
    out: W,
    line: Vec<u8>,
    written: usize,
    sum: Sha256,
}

impl<W: Write> Lines<W> {
    fn put(&mut self) -> io::Result<()> {
        writeln!(self.out, "{}", BASE64_STANDARD.encode(&self.line))?;
        self.line.clear();
        self.written += 1;
        if self.written.is_multiple_of(LINES_A_PAUSE) {
            self.out.flush()?;
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        if !self.line.is_empty() {
            self.put()?;
        }
        let sum = BASE64_STANDARD.encode(self.sum.finalize());
        writeln!(self.out, "{SUM}{sum}")?;
        self.out.flush()
    }
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = LINE - self.line.len();
        let taken = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        self.line.extend_from_slice(taken);
        self.sum.update(taken);
        if self.line.len() == LINE {
            self.put()?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The archive in a log.
pub(crate) fn read(log: &[u8]) -> Result<Vec<u8>, SentError> {
    let mut archive = Vec::new();
    for (index, line) in log.split(|byte| *byte == b'\n').enumerate() {
        if let Some(sum) = line.strip_prefix(SUM.as_bytes()) {
            let is_whole = BASE64_STANDARD.decode(sum).is_ok_and(|sum| sum == Sha256::digest(&archive).as_slice());
            return if is_whole { Ok(archive) } else { Err(SentError::Sum) };
        }
        let start = line.get(..line.len().min(40)).unwrap_or_default();
        let bad = |_| SentError::Line { line: index + 1, seen: crate::text::line(&String::from_utf8_lossy(start)) };
        archive.extend(BASE64_STANDARD.decode(line).map_err(bad)?);
    }
    Err(SentError::Cut)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may fail anywhere
    use super::*;
    use std::{fs, io::Read};

    #[test]
    fn a_directory_comes_through_a_log_and_a_loss_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("logs")).unwrap();
        // Xorshift: it must not become shorter when it is compressed.
        let mut state = 1_u32;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state.to_le_bytes()[1]
        })
        .take(200_000)
        .collect();
        fs::write(directory.path().join("logs/noise"), &noise).unwrap();
        let mut log = Vec::new();
        write(directory.path(), &mut log).unwrap();
        let archive = read(&log).unwrap();
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(archive.as_slice()));
        let mut found = Vec::new();
        for entry in tar.entries().unwrap() {
            let mut entry = entry.unwrap();
            if entry.path().unwrap().ends_with("logs/noise") {
                entry.read_to_end(&mut found).unwrap();
            }
        }
        assert_eq!(found, noise);

        let lines: Vec<&[u8]> = log.split(|byte| *byte == b'\n').collect();
        let without = [&lines[..3], &lines[4..]].concat().join(&b'\n');
        assert!(matches!(read(&without), Err(SentError::Sum)));
        assert!(matches!(read(&lines[..9].join(&b'\n')), Err(SentError::Cut)));
        assert!(matches!(read(b"Error from server\n"), Err(SentError::Line { line: 1, .. })));
    }
}
