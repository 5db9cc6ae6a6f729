//! Extracts one file from a `multipart/form-data` body (RFC 7578) as it streams.

use std::io::{self, Write};

/// Maximum length of one part's headers.
const MAX_HEADER_BYTES: usize = 16 * 1024;
/// Maximum number of parts.
const MAX_PARTS: usize = 64;
/// Maximum padding on a boundary's line.
const MAX_BLANKS: usize = 64;

/// A body that is not the announced form.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MultipartError {
    #[error("the Content-Type is not multipart/form-data with a boundary of 1 to 70 characters")]
    ContentType,
    #[error("the multipart body is broken: {0}")]
    Broken(&'static str),
    /// The wanted part is missing.
    #[error("the multipart body has no part named {0}")]
    Missing(&'static str),
    /// Storing the part failed.
    #[error("cannot store the upload")]
    Write(#[from] io::Error),
}

enum State {
    /// Searching for the next boundary; content before it goes to the sink or is dropped.
    Content { wanted: bool },
    /// After a boundary and padding.
    Boundary { blanks: usize },
    /// In a part's headers.
    Headers,
    /// After the last boundary.
    End,
}

/// Reads the body piece by piece and passes on the content of one part.
pub(crate) struct Multipart {
    name: &'static str,
    delimiter: Vec<u8>,
    /// Unprocessed input from `at` on; what precedes it is dropped at once at the end of a feed.
    buffer: Vec<u8>,
    at: usize,
    state: State,
    parts: usize,
    found: bool,
}

impl Multipart {
    /// For the part `name` of a body with this `Content-Type`.
    pub(crate) fn new(content_type: &str, name: &'static str) -> Result<Self, MultipartError> {
        let (kind, parameters) = content_type.split_once(';').ok_or(MultipartError::ContentType)?;
        let boundary = parameters.split(';').find_map(|parameter| {
            let (key, value) = parameter.trim().split_once('=')?;
            key.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"'))
        });
        let boundary = boundary.filter(|text| (1..=70).contains(&text.len()) && text.is_ascii());
        match boundary {
            Some(boundary) if kind.trim().eq_ignore_ascii_case("multipart/form-data") => Ok(Self {
                name,
                delimiter: format!("\r\n--{boundary}").into_bytes(),
                // The first boundary has no line break before it.
                buffer: b"\r\n".to_vec(),
                at: 0,
                state: State::Content { wanted: false },
                parts: 0,
                found: false,
            }),
            _ => Err(MultipartError::ContentType),
        }
    }

    /// Processes the next piece; content of the wanted part goes to `sink`.
    pub(crate) fn feed(&mut self, piece: &[u8], sink: &mut impl Write) -> Result<(), MultipartError> {
        self.buffer.extend_from_slice(piece);
        while self.step(sink)? {}
        self.buffer.drain(..self.at);
        self.at = 0;
        Ok(())
    }

    /// The body has ended.
    pub(crate) fn finish(self) -> Result<(), MultipartError> {
        match self.state {
            State::End if self.found => Ok(()),
            State::End => Err(MultipartError::Missing(self.name)),
            _ => Err(MultipartError::Broken("the closing boundary is missing")),
        }
    }

    fn step(&mut self, sink: &mut impl Write) -> Result<bool, MultipartError> {
        let rest = self.buffer.get(self.at..).unwrap_or_default();
        match self.state {
            State::Content { wanted } => {
                let position = find(rest, &self.delimiter);
                // A boundary may start in the last bytes.
                let end = position.unwrap_or_else(|| rest.len().saturating_sub(self.delimiter.len() - 1));
                if wanted {
                    sink.write_all(&rest[..end])?;
                }
                self.at += end;
                if position.is_some() {
                    self.at += self.delimiter.len();
                    self.state = State::Boundary { blanks: 0 };
                }
                Ok(position.is_some())
            }
            State::Boundary { blanks } => match rest.get(..2) {
                None => Ok(false),
                Some(b"--") => {
                    self.state = State::End;
                    Ok(true)
                }
                Some(b"\r\n") if self.parts == MAX_PARTS => Err(MultipartError::Broken("more than 64 parts")),
                Some(b"\r\n") => {
                    self.parts += 1;
                    self.state = State::Headers;
                    Ok(true)
                }
                Some([b' ' | b'\t', _]) if blanks < MAX_BLANKS => {
                    self.at += 1;
                    self.state = State::Boundary { blanks: blanks + 1 };
                    Ok(true)
                }
                Some(_) => Err(MultipartError::Broken("text follows a boundary on its line")),
            },
            State::Headers => {
                // The boundary's line break is still there, so that "no headers" ends like all headers.
                let end = find(rest, b"\r\n\r\n");
                if end.unwrap_or(rest.len()) > MAX_HEADER_BYTES {
                    return Err(MultipartError::Broken("a part's headers are too long"));
                }
                let Some(end) = end else { return Ok(false) };
                // The headers' last line break may belong to a boundary that follows; that may still be incomplete.
                let (content, boundary) = (&rest[end + 4..], &self.delimiter[2..]);
                if boundary.starts_with(content) && content.len() < boundary.len() {
                    return Ok(false);
                }
                let wanted = part_name(&rest[..end]).as_deref() == Some(self.name);
                if wanted && self.found {
                    return Err(MultipartError::Broken("the file occurs twice"));
                }
                self.found |= wanted;
                self.at += if content.starts_with(boundary) { end + 2 } else { end + 4 };
                self.state = State::Content { wanted };
                Ok(true)
            }
            State::End => {
                self.at = self.buffer.len();
                Ok(false)
            }
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut from = 0;
    while let Some(offset) = haystack[from..].iter().position(|byte| *byte == first) {
        let at = from + offset;
        if haystack[at..].starts_with(needle) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// `name` of a `Content-Disposition: form-data; name="…"` among the headers.
fn part_name(headers: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(headers);
    let disposition = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.trim().eq_ignore_ascii_case("content-disposition").then(|| value.trim().to_owned())
    })?;
    disposition.split(';').skip(1).find_map(|parameter| {
        let (key, value) = parameter.trim().split_once('=')?;
        key.trim().eq_ignore_ascii_case("name").then(|| value.trim().trim_matches('"').to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TYPE: &str = "multipart/form-data; boundary=XX";

    fn take(body: &[u8], pieces: usize) -> Result<Vec<u8>, MultipartError> {
        let mut out = Vec::new();
        let mut multipart = Multipart::new(TYPE, "upfile")?;
        for piece in body.chunks(pieces.max(1)) {
            multipart.feed(piece, &mut out)?;
        }
        multipart.finish()?;
        Ok(out)
    }

    fn body(content: &[u8]) -> Vec<u8> {
        let head = b"--XX\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nhello\r\n\
                     --XX\r\nContent-Disposition: form-data; name=\"upfile\"; filename=\"logs.tar.gz\"\r\nContent-Type: application/x-gzip\r\n\r\n";
        [head, content, b"\r\n--XX--\r\n"].concat()
    }

    proptest! {
        #[test]
        fn the_file_comes_out_whatever_the_pieces(content: Vec<u8>, pieces in 1usize..50) {
            // The content is random; with the boundary in it, it would be another body.
            prop_assume!(find(&content, b"\r\n--XX").is_none() && !content.starts_with(b"--XX"));
            prop_assert_eq!(take(&body(&content), pieces).unwrap(), content);
        }

        #[test]
        fn noise_never_panics(noise: Vec<u8>, pieces in 1usize..50) {
            let _ = take(&noise, pieces);
            let _ = take(&[b"--XX\r\n", &noise[..]].concat(), pieces);
        }
    }

    #[test]
    fn parts_and_blanks_are_bounded() {
        let parts = [b"--XX".as_slice(), &b"\r\n\r\n--XX".repeat((3 << 20) / 8)].concat();
        let blanks = [b"--XX".as_slice(), &b" ".repeat(3 << 20)].concat();
        for pieces in [1000, parts.len()] {
            let why = |body| take(body, pieces).unwrap_err().to_string();
            assert_eq!(why(&parts), "the multipart body is broken: more than 64 parts");
            assert_eq!(why(&blanks), "the multipart body is broken: text follows a boundary on its line");
        }
    }

    #[test]
    fn an_empty_file_ends_at_once_whatever_the_pieces() {
        let head = b"--XX \t\r\nContent-Disposition: form-data; name=\"upfile\"\r\n\r\n--XX--";
        for pieces in 1..head.len() {
            assert_eq!(take(head, pieces).unwrap(), b"");
        }
    }

    #[test]
    fn broken_bodies_are_named() {
        let whole = body(b"data");
        assert!(matches!(take(&whole[..whole.len() - 6], 3), Err(MultipartError::Broken(_))));
        assert!(matches!(take(b"--XX--", 3), Err(MultipartError::Missing("upfile"))));
        assert!(matches!(
            take(&[b"--XX\r\n", vec![b'a'; 20_000].as_slice()].concat(), 999),
            Err(MultipartError::Broken(_))
        ));
        for bad in
            ["application/json", "multipart/form-data", "multipart/form-data; boundary=", "text/plain; boundary=X"]
        {
            assert!(Multipart::new(bad, "upfile").is_err(), "{bad}");
        }
    }
}
