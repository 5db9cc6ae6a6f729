//! Messages of HTTP/1.1 out of the bytes of one direction of a connection. Everything is bounded: a program that sends more is
//! wrong, not the reader.

use std::io::Read;

const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_HEADERS: usize = 100;
const MAX_BODY_BYTES: usize = 16 << 20;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum ParseError {
    #[error("the head of a message has more than {MAX_HEAD_BYTES} bytes or {MAX_HEADERS} lines")]
    LongHead,
    #[error("a body has more than {MAX_BODY_BYTES} bytes")]
    LongBody,
    #[error("'{0}' is not the first line of a message")]
    FirstLine(String),
    #[error("'{0}' is not a header")]
    Header(String),
    #[error("'{0}' is not a length")]
    Length(String),
    #[error("a body is not gzip although its header says so")]
    Gzip,
    #[error("there are {responses} responses to {requests} requests")]
    Responses { requests: usize, responses: usize },
}

/// One message, its body as it was before it was packed and cut into chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    pub first_line: String,
    /// Names as sent.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Where it starts in the bytes of its direction.
    pub offset: usize,
}

impl Message {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn status(&self) -> Option<u16> {
        self.first_line.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()
    }
}

/// The requests in `bytes`. What is cut off at the end is left out.
pub(crate) fn requests(bytes: &[u8]) -> Result<Vec<Message>, ParseError> {
    let mut reader = Reader { bytes, at: 0, closed: false };
    let mut found = Vec::new();
    while let Some(mut message) = reader.head()? {
        if message.first_line.split(' ').count() != 3 || message.status().is_some() {
            return Err(ParseError::FirstLine(message.first_line));
        }
        let Some(body) = reader.body(&message, false)? else { break };
        message.body = body;
        found.push(message);
    }
    Ok(found)
}

/// The responses in `bytes`, to requests of these methods; `closed` where the other side has ended the connection.
pub(crate) fn responses(bytes: &[u8], methods: &[&str], closed: bool) -> Result<Vec<Message>, ParseError> {
    let mut reader = Reader { bytes, at: 0, closed };
    let mut found = Vec::new();
    while let Some(mut message) = reader.head()? {
        let Some(status) = message.status() else { return Err(ParseError::FirstLine(message.first_line)) };
        if (100..200).contains(&status) {
            continue;
        }
        let Some(method) = methods.get(found.len()) else {
            return Err(ParseError::Responses { requests: methods.len(), responses: found.len() + 1 });
        };
        if *method != "HEAD" && status != 204 && status != 304 {
            let Some(body) = reader.body(&message, true)? else { break };
            message.body = body;
        }
        found.push(message);
    }
    Ok(found)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    closed: bool,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// The next line without its end; `None` where it is cut off.
    fn line(&mut self) -> Result<Option<String>, ParseError> {
        let rest = self.rest();
        let Some(end) = rest.iter().take(MAX_HEAD_BYTES).position(|byte| *byte == b'\n') else {
            return if rest.len() < MAX_HEAD_BYTES { Ok(None) } else { Err(ParseError::LongHead) };
        };
        self.at += end + 1;
        Ok(Some(String::from_utf8_lossy(&rest[..end]).trim_end_matches('\r').to_owned()))
    }

    fn head(&mut self) -> Result<Option<Message>, ParseError> {
        let offset = self.at;
        let Some(first_line) = self.line()? else { return Ok(None) };
        let mut message = Message { first_line, offset, ..Message::default() };
        loop {
            let Some(line) = self.line()? else { return Ok(None) };
            if line.is_empty() {
                return Ok(Some(message));
            }
            if message.headers.len() == MAX_HEADERS || self.at - offset > MAX_HEAD_BYTES {
                return Err(ParseError::LongHead);
            }
            let Some((name, value)) = line.split_once(':') else { return Err(ParseError::Header(line)) };
            message.headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }

    fn body(&mut self, head: &Message, response: bool) -> Result<Option<Vec<u8>>, ParseError> {
        let chunked = head.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"));
        let body = match head.header("content-length") {
            _ if chunked => self.chunks()?,
            Some(length) => self.take(length, 10)?,
            // Such a response ends with its connection.
            None if response => {
                let rest = self.rest().to_vec();
                self.at = self.bytes.len();
                self.closed.then_some(rest)
            }
            None => Some(Vec::new()),
        };
        if body.as_ref().is_some_and(|body| body.len() > MAX_BODY_BYTES) {
            return Err(ParseError::LongBody);
        }
        match head.header("content-encoding") {
            Some(coding) if coding.eq_ignore_ascii_case("gzip") => body.map(|body| unpacked(&body)).transpose(),
            _ => Ok(body),
        }
    }

    fn take(&mut self, length: &str, radix: u32) -> Result<Option<Vec<u8>>, ParseError> {
        let length = usize::from_str_radix(length, radix).map_err(|_| ParseError::Length(length.to_owned()))?;
        if length > MAX_BODY_BYTES {
            return Err(ParseError::LongBody);
        }
        let Some(part) = self.rest().get(..length) else { return Ok(None) };
        self.at += length;
        Ok(Some(part.to_vec()))
    }

    fn chunks(&mut self) -> Result<Option<Vec<u8>>, ParseError> {
        let mut body = Vec::new();
        loop {
            let Some(line) = self.line()? else { return Ok(None) };
            let length = line.split(';').next().unwrap_or_default().trim().to_owned();
            let Some(chunk) = self.take(&length, 16)? else { return Ok(None) };
            let last = chunk.is_empty();
            body.extend(chunk);
            if body.len() > MAX_BODY_BYTES {
                return Err(ParseError::LongBody);
            }
            // The end of the chunk, or trailers after the last one.
            loop {
                match self.line()? {
                    None => return Ok(None),
                    Some(line) if line.is_empty() => break,
                    Some(_) if last => {}
                    Some(line) => return Err(ParseError::Length(line)),
                }
            }
            if last {
                return Ok(Some(body));
            }
        }
    }
}

fn unpacked(body: &[u8]) -> Result<Vec<u8>, ParseError> {
    let mut plain = Vec::new();
    let limit = u64::try_from(MAX_BODY_BYTES + 1).unwrap_or(u64::MAX);
    flate2::read::GzDecoder::new(body).take(limit).read_to_end(&mut plain).map_err(|_| ParseError::Gzip)?;
    if plain.len() > MAX_BODY_BYTES { Err(ParseError::LongBody) } else { Ok(plain) }
}

#[test]
fn messages_are_read_whole_or_not_at_all() {
    let two = b"POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcPUT /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1;x\r\nf\r\n0\r\nT: 1\r\n\r\n";
    let found = requests(two).unwrap();
    let bodies: Vec<&[u8]> = found.iter().map(|message| &message.body[..]).collect();
    assert_eq!(bodies, [&b"abc"[..], b"def"]);
    assert_eq!((found[0].header("content-LENGTH"), found[1].offset), (Some("3"), 42));
    for cut in 0..two.len() {
        let whole = requests(&two[..cut]).unwrap();
        assert_eq!(whole[..], found[..usize::from(cut >= 42)], "{cut}");
    }
    let answers =
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n\r\nall that is left";
    assert_eq!(responses(answers, &["GET", "GET"], false).unwrap().len(), 1);
    assert_eq!(responses(answers, &["GET", "GET"], true).unwrap()[1].body, b"all that is left");
    let surplus = ParseError::Responses { requests: 1, responses: 2 };
    assert_eq!(responses(answers, &["GET"], true).unwrap_err(), surplus);
}

#[test]
fn packed_bodies_are_unpacked_within_bounds() {
    use std::io::Write;
    let packed = |plain: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    };
    let answer = |body: &[u8]| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", body.len());
        responses(&[head.as_bytes(), body].concat(), &["GET"], false)
    };
    assert_eq!(answer(&packed(b"plain")).unwrap()[0].body, b"plain");
    assert_eq!(answer(b"plain").unwrap_err(), ParseError::Gzip);
    assert_eq!(answer(&packed(&vec![0; MAX_BODY_BYTES + 1])).unwrap_err(), ParseError::LongBody);
}

#[test]
fn what_is_no_message_is_refused() {
    let long = [&b"GET / HTTP/1.1\r\nA: "[..], &vec![b'a'; MAX_HEAD_BYTES]].concat();
    let many = format!("GET / HTTP/1.1\r\n{}", "A: b\r\n".repeat(MAX_HEADERS + 1));
    for (bytes, expected) in [
        (&b"\x16\x03\x01\n"[..], None),
        (b"GET / HTTP/1.1\r\nodd\r\n\r\n", Some(ParseError::Header("odd".into()))),
        (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", Some(ParseError::Length("-1".into()))),
        (b"GET / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", Some(ParseError::LongBody)),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n", Some(ParseError::Length("z".into()))),
        (b"HTTP/1.1 200 OK\r\n\r\n", Some(ParseError::FirstLine("HTTP/1.1 200 OK".into()))),
        (&long, Some(ParseError::LongHead)),
        (many.as_bytes(), Some(ParseError::LongHead)),
    ] {
        let found = requests(bytes);
        match expected {
            Some(error) => assert_eq!(found.unwrap_err(), error),
            None => assert!(found.unwrap().is_empty(), "what may yet become a head is waited for"),
        }
    }
}
