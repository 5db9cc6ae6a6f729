//! Answers on their way from the process that asked. Pure but for the pipe.

use std::io::{self, ErrorKind, Write};

/// What a letter holds: an answer, an errno, or a kind of error and its text.
const ANSWER: u8 = 0;
const ERRNO: u8 = 1;
const ERROR: u8 = 2;
/// Kinds of errors that have no errno, by their place.
const KINDS: [ErrorKind; 8] = [
    ErrorKind::Other,
    ErrorKind::NotFound,
    ErrorKind::Unsupported,
    ErrorKind::InvalidInput,
    ErrorKind::InvalidData,
    ErrorKind::TimedOut,
    ErrorKind::ResourceBusy,
    ErrorKind::UnexpectedEof,
];
/// Tag and length.
const HEADER_BYTES: usize = 5;

pub(super) fn send(to: &mut impl Write, answer: &io::Result<Vec<u8>>) -> io::Result<()> {
    let (tag, body) = match answer {
        Ok(bytes) => (ANSWER, bytes.clone()),
        Err(error) => match error.raw_os_error() {
            Some(errno) => (ERRNO, errno.to_le_bytes().to_vec()),
            None => {
                let kind = KINDS.iter().position(|kind| *kind == error.kind()).unwrap_or(0);
                let mut body = vec![u8::try_from(kind).unwrap_or(0)];
                body.extend(kernel::in_full(error).into_bytes());
                (ERROR, body)
            }
        },
    };
    let len = u32::try_from(body.len()).map_err(io::Error::other)?;
    to.write_all(&[&[tag][..], &len.to_le_bytes(), &body].concat())
}

/// Puts together what comes in pieces.
#[derive(Default)]
pub(super) struct Letters(Vec<u8>);

impl Letters {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    /// The next whole answer.
    pub(super) fn next(&mut self) -> Option<io::Result<Vec<u8>>> {
        let (tag, rest) = self.0.split_first()?;
        let len = usize::try_from(u32::from_le_bytes(*rest.first_chunk()?)).ok()?;
        let body = rest.get(4..4 + len)?.to_vec();
        let answer = match (*tag, body.as_slice()) {
            (ANSWER, _) => Ok(body),
            (ERRNO, &[a, b, c, d]) => Err(io::Error::from_raw_os_error(i32::from_le_bytes([a, b, c, d]))),
            (_, [kind, text @ ..]) => {
                let kind = KINDS.get(usize::from(*kind)).copied().unwrap_or(ErrorKind::Other);
                Err(io::Error::new(kind, String::from_utf8_lossy(text).into_owned()))
            }
            (_, []) => Err(ErrorKind::Other.into()),
        };
        self.0.drain(..HEADER_BYTES + len);
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_arrive_in_pieces_of_any_size() {
        let errors = [
            io::Error::from_raw_os_error(libc::ENOMEDIUM),
            io::Error::new(ErrorKind::ResourceBusy, "asleep"),
            io::Error::other(io::Error::other("the cause")),
        ];
        let mut sent = Vec::new();
        send(&mut sent, &Ok(b"answer".to_vec())).unwrap();
        send(&mut sent, &Ok(Vec::new())).unwrap();
        for error in errors {
            send(&mut sent, &Err(error)).unwrap();
        }
        for size in [1, 3, 7, 1000] {
            let (mut letters, mut found) = (Letters::default(), Vec::new());
            for piece in sent.chunks(size) {
                letters.push(piece);
                found.extend(std::iter::from_fn(|| letters.next()));
            }
            assert_eq!(found.len(), 5);
            assert_eq!(found[0].as_ref().unwrap(), b"answer");
            assert_eq!(found[1].as_ref().unwrap(), b"");
            assert_eq!(found[2].as_ref().unwrap_err().raw_os_error(), Some(libc::ENOMEDIUM));
            assert_eq!(found[3].as_ref().unwrap_err().kind(), ErrorKind::ResourceBusy);
            assert_eq!(found[4].as_ref().unwrap_err().to_string(), "the cause");
        }
    }
}
