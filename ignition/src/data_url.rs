//! `data:` URLs (RFC 2397), as Ignition reads them: stricter than browsers, a stray space makes a config invalid.

use base64::{
    Engine,
    alphabet::STANDARD as ALPHABET,
    engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD},
};
use std::borrow::Cow;

/// As Go reads base64: with padding, and with any leftover bits.
const READER: GeneralPurpose =
    GeneralPurpose::new(&ALPHABET, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// What a `data:` URL holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataUrl<'a> {
    /// `type/subtype`; empty when the URL names none, which means `text/plain`.
    pub media_type: &'a str,
    /// The bytes; those of the URL where nothing in them is encoded.
    pub data: Cow<'a, [u8]>,
}

/// Why text is not a `data:` URL that Ignition reads. Offsets are in bytes from its start; the text itself may be secret
/// and isn't shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DataUrlError {
    /// Another scheme, none, or `data:` in capitals, which Ignition's reader does not know.
    #[error("missing data prefix")]
    Scheme,
    /// No comma between what describes the data and the data.
    #[error("the data: URL has no ',' before its data")]
    NoComma,
    #[error("the data: URL's media type or parameter at byte {at} can't be read")]
    Header { at: usize },
    /// A byte that must be percent-encoded.
    #[error("byte {at} of the data: URL (0x{byte:02x}) must be percent-encoded")]
    Byte { at: usize, byte: u8 },
    /// `%` without two hexadecimal digits.
    #[error("'%' at byte {at} of the data: URL is not followed by two hexadecimal digits")]
    Escape { at: usize },
    /// Not base64 of the standard alphabet with padding.
    #[error("the base64 of the data: URL, starting at byte {at}, can't be decoded")]
    Base64 {
        /// Where the data start.
        at: usize,
    },
}

/// The URL of `bytes`, percent-encoded: good for short text, which stays readable.
pub fn percent(bytes: &[u8]) -> String {
    percent_but(bytes, b"-._~/:")
}

/// The same, with letters, digits and these bytes as they are.
pub(crate) fn percent_but(bytes: &[u8], plain: &[u8]) -> String {
    let mut url = String::from("data:,");
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            url.push(char::from(byte));
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
    url
}

/// The URL of `text` as it is, or percent-encoded where it would be read as another.
pub(crate) fn plain(text: &str) -> String {
    let url = format!("data:,{text}");
    let is_plain = decode(&url).is_ok_and(|read| *read.data == *text.as_bytes());
    if is_plain { url } else { percent(text.as_bytes()) }
}

/// The URL of `bytes` in base64: good for everything longer.
pub fn base64(bytes: &[u8]) -> String {
    base64_of("", bytes)
}

/// The same of bytes that are of this media type, which may have parameters.
pub fn base64_of(media_type: &str, bytes: &[u8]) -> String {
    format!("data:{media_type};base64,{}", STANDARD.encode(bytes))
}

/// Reads a URL, in one pass over its data.
pub fn decode(url: &str) -> Result<DataUrl<'_>, DataUrlError> {
    let (header, body) = split(url)?;
    let data = if header.base64 {
        let packed = without_line_ends(body);
        READER.decode(packed).map_err(|_| DataUrlError::Base64 { at: header.data_at })?.into()
    } else {
        unescape(body, header.data_at)?
    };
    let media_type = url.get("data:".len()..header.media_type_end).unwrap_or_default();
    Ok(DataUrl { media_type, data })
}

fn without_line_ends(body: &[u8]) -> Cow<'_, [u8]> {
    if byte_scan::has_line_end(body) {
        body.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect::<Vec<_>>().into()
    } else {
        body.into()
    }
}

/// Whether it can be read, in a few kilobytes of memory however long it is, unless there are line ends in it.
pub fn check(url: &str) -> Result<(), DataUrlError> {
    let (header, body) = split(url)?;
    if !header.base64 {
        return runs(body, header.data_at, |_| ());
    }
    let bad = || DataUrlError::Base64 { at: header.data_at };
    let packed = without_line_ends(body);
    let mut unpacked = [0; PIECE_BYTES];
    let mut pieces = packed.chunks(PIECE_BYTES).peekable();
    while let Some(piece) = pieces.next() {
        READER.decode_slice(piece, &mut unpacked).map_err(|_| bad())?;
        // Padding ends the text, not just a piece of it.
        if piece.ends_with(b"=") && pieces.peek().is_some() {
            return Err(bad());
        }
    }
    Ok(())
}

/// Of base64, a multiple of four.
const PIECE_BYTES: usize = 4096;

/// The part before the data, and the data.
fn split(url: &str) -> Result<(Header, &[u8]), DataUrlError> {
    let scheme_len = "data:".len();
    if !url.starts_with("data:") {
        return Err(DataUrlError::Scheme);
    }
    let header = Header::read(url.as_bytes(), scheme_len)?;
    let body = url.as_bytes().get(header.data_at..).unwrap_or_default();
    Ok((header, body))
}

/// What stands before the data.
struct Header {
    media_type_end: usize,
    base64: bool,
    data_at: usize,
}

impl Header {
    fn read(url: &[u8], start: usize) -> Result<Self, DataUrlError> {
        let mut at = start;
        if !matches!(url.get(at), Some(b',' | b';')) {
            at = media_type(url, at)?;
        }
        let media_type_end = at;
        let mut base64 = false;
        loop {
            match url.get(at) {
                None => return Err(DataUrlError::NoComma),
                Some(b',') => return Ok(Self { media_type_end, base64, data_at: at + 1 }),
                Some(b';') if base64 => return Err(DataUrlError::Header { at }),
                Some(b';') if url[at..].starts_with(b";base64,") => (base64, at) = (true, at + b";base64".len()),
                Some(b';') => at = parameter(url, at + 1)?,
                Some(_) => return Err(DataUrlError::Header { at }),
            }
        }
    }
}

/// Reads `type/subtype` and returns where it ends.
fn media_type(url: &[u8], start: usize) -> Result<usize, DataUrlError> {
    const TYPES: [&[u8]; 8] = [b"application", b"audio", b"image", b"message", b"multipart", b"text", b"video", b"x-"];
    let slash = token(url, start);
    if slash == url.len() {
        return Err(DataUrlError::NoComma);
    }
    let known = TYPES.iter().any(|name| url[start..slash].to_ascii_lowercase().starts_with(name));
    if !known || url.get(slash) != Some(&b'/') {
        return Err(DataUrlError::Header { at: start });
    }
    let end = token(url, slash + 1);
    if end == slash + 1 { Err(DataUrlError::Header { at: end }) } else { Ok(end) }
}

/// Reads `attribute=value` and returns where it ends.
fn parameter(url: &[u8], start: usize) -> Result<usize, DataUrlError> {
    let equals = token(url, start);
    if equals == start || url.get(equals) != Some(&b'=') {
        return Err(DataUrlError::Header { at: start });
    }
    let value = equals + 1;
    if url.get(value) != Some(&b'"') {
        let end = token(url, value);
        return if end == value { Err(DataUrlError::Header { at: value }) } else { Ok(end) };
    }
    let mut at = value + 1;
    loop {
        match url.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return Err(DataUrlError::Header { at: value }),
        }
    }
}

/// Where the token (RFC 2045) at `start` ends.
fn token(url: &[u8], start: usize) -> usize {
    let is_token = |byte: &u8| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(byte);
    start + url.get(start..).unwrap_or_default().iter().take_while(|byte| is_token(byte)).count()
}

/// What is percent-encoded in `body`, which stands `offset` bytes from the URL's start.
fn unescape(body: &[u8], offset: usize) -> Result<Cow<'_, [u8]>, DataUrlError> {
    let mut data = Cow::Borrowed(&[][..]);
    runs(body, offset, |run| {
        if run.len() == body.len() {
            data = Cow::Borrowed(body);
        } else {
            data.to_mut().extend(run);
        }
    })?;
    Ok(data)
}

/// Gives the bytes of `body`, unencoded ones in runs.
fn runs(body: &[u8], offset: usize, mut take: impl FnMut(&[u8])) -> Result<(), DataUrlError> {
    // What is visible ASCII, but for " # % < > [ \ ] ^ ` { | }.
    let is_plain =
        |byte: &u8| matches!(byte, b'!' | b'$' | b'&'..=b';' | b'=' | b'?'..=b'Z' | b'_' | b'a'..=b'z' | b'~');
    let mut rest = body;
    loop {
        let (run, after) = rest.split_at(rest.iter().position(|byte| !is_plain(byte)).unwrap_or(rest.len()));
        take(run);
        let at = offset + (body.len() - after.len());
        rest = match after {
            [] => return Ok(()),
            [b'%', high, low, rest @ ..] => {
                let digit = |digit: &u8| char::from(*digit).to_digit(16);
                let value = digit(high).zip(digit(low)).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
                take(&[value.ok_or(DataUrlError::Escape { at })?]);
                rest
            }
            [b'%', ..] => return Err(DataUrlError::Escape { at }),
            [byte, ..] => return Err(DataUrlError::Byte { at, byte: *byte }),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn urls_read_as_ignition_reads_them() {
        for (url, expected) in [
            ("data:,", Ok("")),
            ("data:,a%20b", Ok("a b")),
            ("DATA:,a", Err(DataUrlError::Scheme)),
            ("data:text/plain;charset=utf-8;base64,aGk=", Ok("hi")),
            ("data:;charset=\"a,b\\\"\",x", Ok("x")),
            ("data:;base64,aG\nk=", Ok("hi")),
            // Two bits too many, which Go ignores.
            ("data:;base64,aGl=", Ok("hi")),
            ("data:,%61b%63%64", Ok("abcd")),
            ("data:x-own/thing,a", Ok("a")),
            ("data:,hello world", Err(DataUrlError::Byte { at: 11, byte: b' ' })),
            ("data:,ü", Err(DataUrlError::Byte { at: 6, byte: 0xc3 })),
            ("data:,%4", Err(DataUrlError::Escape { at: 6 })),
            ("data:,%zz", Err(DataUrlError::Escape { at: 6 })),
            ("data:;base64,aGk", Err(DataUrlError::Base64 { at: 13 })),
            ("data:;base64,a%3D", Err(DataUrlError::Base64 { at: 13 })),
            ("data:;base64;base64,", Err(DataUrlError::Header { at: 6 })),
            ("data:foo/bar,", Err(DataUrlError::Header { at: 5 })),
            ("data:text/,", Err(DataUrlError::Header { at: 10 })),
            ("data:;=,", Err(DataUrlError::Header { at: 6 })),
            ("data:text", Err(DataUrlError::NoComma)),
            ("data:", Err(DataUrlError::NoComma)),
            ("http://a/", Err(DataUrlError::Scheme)),
            ("", Err(DataUrlError::Scheme)),
        ] {
            let found = decode(url).map(|url| String::from_utf8(url.data.into_owned()).unwrap());
            assert_eq!(found, expected.clone().map(str::to_owned), "{url}");
            assert_eq!(check(url), expected.map(drop), "{url}");
        }
        assert_eq!(decode("data:text/plain;a=b,").unwrap().media_type, "text/plain");
    }

    #[test]
    fn plain_data_is_not_copied() {
        assert!(matches!(decode("data:,plain").unwrap().data, Cow::Borrowed(b"plain")));
        assert!(matches!(decode("data:,%70lain").unwrap().data, Cow::Owned(_)));
    }

    #[test]
    fn long_base64_is_checked_to_its_end() {
        for len in [3071, 3072, 3073, 6143, 6144, 6145, 100_000] {
            let url = base64(&vec![7; len]);
            assert_eq!(check(&url), Ok(()), "{len}");
            let middle = url.len() / 2;
            let broken = [url.get(..middle).unwrap(), "\r\n", url.get(middle..).unwrap()].concat();
            assert_eq!(check(&broken), Ok(()), "{len}");
            for bad in [format!("{url}="), format!("{url}A"), format!("{url}===="), url.replacen("BwcH", "Bw==", 1)] {
                assert_eq!(check(&bad), decode(&bad).map(drop), "{len}");
                assert!(check(&bad).is_err(), "{len}");
            }
        }
    }

    #[test]
    fn plain_text_stays_where_it_can() {
        for (text, expected) in [
            ("node-1.example", "data:,node-1.example"),
            ("KEY=fd00::1", "data:,KEY=fd00::1"),
            ("a%41", "data:,a%2541"),
            ("a b", "data:,a%20b"),
            ("ü\n", "data:,%C3%BC%0A"),
            ("", "data:,"),
        ] {
            assert_eq!(plain(text), expected);
            assert_eq!(*decode(&plain(text)).unwrap().data, *text.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn what_is_built_is_read_back(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for url in [percent(&bytes), base64(&bytes)] {
                prop_assert_eq!(&*decode(&url).unwrap().data, &bytes);
                prop_assert_eq!(check(&url), Ok(()));
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "(data:)?[a-z/;=,%\"\\\\ü ]{0,40}") {
            prop_assert_eq!(check(&text), decode(&text).map(drop));
        }
    }
}
