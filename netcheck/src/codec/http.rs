//! The head of an HTTP/1 response and the start of its body (RFC 9112): enough to identify the server.

/// No server sends longer heads.
const MAX_HEADERS: usize = 100;

/// A response, as far as it has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status code, 100 to 999.
    pub status: u16,
    /// Names in lower case, values without blanks around them.
    pub headers: Vec<(String, String)>,
    /// The body so far, without chunk headers.
    pub body: Vec<u8>,
    /// Nothing more is to come.
    pub is_complete: bool,
}

impl Response {
    /// Reads the bytes of a connection; `None` while the head is not complete, or if this is not an HTTP/1 response
    /// (see [`could_be`]).
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let (head, body) = (bytes.get(..end)?, bytes.get(end + 4..)?);
        let head = String::from_utf8_lossy(head);
        let mut lines = head.split("\r\n");
        let status = status(lines.next()?)?;
        let headers: Vec<_> = lines
            .take(MAX_HEADERS)
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let mut response = Self { status, headers, body: Vec::new(), is_complete: false };
        if response.header("transfer-encoding").is_some_and(|value| value.to_ascii_lowercase().contains("chunked")) {
            (response.body, response.is_complete) = unchunk(body);
        } else {
            let announced = || response.header("content-length").and_then(|value| value.parse::<usize>().ok());
            // These have none, whatever their headers say (RFC 9110 section 6.4.1).
            let length = if matches!(status, 204 | 304) { Some(0) } else { announced() };
            response.body = body.get(..length.unwrap_or(body.len())).unwrap_or(body).to_vec();
            response.is_complete = length.is_some_and(|length| body.len() >= length);
        }
        Some(response)
    }

    /// The first header of this lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Whether these first bytes of a connection can be the start of an HTTP/1 response.
pub fn could_be(bytes: &[u8]) -> bool {
    let start = b"HTTP/1.";
    bytes.iter().zip(start).all(|(byte, expected)| byte == expected)
}

fn status(line: &str) -> Option<u16> {
    let (version, rest) = line.split_once(' ')?;
    let code = rest.split(' ').next()?.parse().ok()?;
    (version.starts_with("HTTP/1.") && (100..1000).contains(&code)).then_some(code)
}

/// The content of the chunks that are there, and whether the last was among them.
fn unchunk(bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    let mut rest = bytes;
    while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
        let (line, after) = (rest.get(..end).unwrap_or_default(), rest.get(end + 2..).unwrap_or_default());
        let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
        let length = std::str::from_utf8(digits).ok().and_then(|text| usize::from_str_radix(text.trim(), 16).ok());
        match length {
            None => break,
            Some(0) => return (body, true),
            Some(length) => match after.split_at_checked(length) {
                Some((content, behind)) => {
                    body.extend_from_slice(content);
                    rest = behind.strip_prefix(b"\r\n").unwrap_or(behind);
                }
                None => {
                    body.extend_from_slice(after);
                    break;
                }
            },
        }
    }
    (body, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_response_is_read() {
        let bytes =
            b"HTTP/1.1 401 Unauthorized\r\nDate: Sat, 21 Nov 2026 22:46:48 GMT\r\nContent-Length: 2\r\n\r\n{}rest";
        let response = Response::parse(bytes).unwrap();
        assert_eq!((response.status, response.body.as_slice(), response.is_complete), (401, &b"{}"[..], true));
        assert_eq!(response.header("date"), Some("Sat, 21 Nov 2026 22:46:48 GMT"));
        assert_eq!(Response::parse(&bytes[..40]), None);
        assert!(!Response::parse(&bytes[..bytes.len() - 5]).unwrap().is_complete);
    }

    #[test]
    fn an_answer_without_content_has_no_body() {
        let whole = Response::parse(b"HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\nnext").unwrap();
        assert_eq!((whole.body.as_slice(), whole.is_complete), (&b""[..], true));
    }

    #[test]
    fn chunks_are_joined() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let read = |body: &str| Response::parse(format!("{head}{body}").as_bytes()).unwrap();
        let whole = read("4\r\nabcd\r\n2;x=y\r\nef\r\n0\r\n\r\n");
        assert_eq!((whole.body.as_slice(), whole.is_complete), (&b"abcdef"[..], true));
        let part = read("4\r\nabcd\r\nff\r\nef");
        assert_eq!((part.body.as_slice(), part.is_complete), (&b"abcdef"[..], false));
        assert_eq!(read("ffffffffffffffff\r\nab").body, b"ab");
    }

    #[test]
    fn what_is_no_response_is_none() {
        for text in ["SSH-2.0-OpenSSH_9.2\r\n\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 20\r\n\r\n", "HTTP/1.1\r\n\r\n"] {
            assert_eq!(Response::parse(text.as_bytes()), None, "{text}");
        }
        assert!(could_be(b"HTT") && could_be(b"HTTP/1.0 200") && !could_be(b"SSH") && !could_be(b"\x15\x03"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = (Response::parse(&bytes), unchunk(&bytes), could_be(&bytes));
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            let _ = Response::parse(&[&head[..], &bytes].concat());
        }
    }
}
