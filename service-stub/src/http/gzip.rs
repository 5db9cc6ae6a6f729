//! Compresses answers for clients that accept it (RFC 9110, section 12.5.3). Never streams: those are compressed already, or
//! requested in parts.

use axum::http::{HeaderMap, header};
use flate2::{Compression, write::GzEncoder};
use std::io::Write;

/// A shorter answer is sent uncompressed, bytes.
pub(crate) const LEAST_BYTES: usize = 1400;

/// Whether the client accepts gzip.
pub(crate) fn accepted(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut codings = lists.flat_map(|list| list.split(',')).filter_map(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next()?;
        let refused = parts.any(|part| {
            let weight = part.strip_prefix("q=").or(part.strip_prefix("Q="));
            weight.and_then(|weight| weight.parse::<f32>().ok()).is_some_and(|weight| weight <= 0.0)
        });
        Some((name, !refused))
    });
    codings.any(|(name, taken)| taken && (name.eq_ignore_ascii_case("gzip") || name == "*"))
}

/// The same, compressed; `None` if that does not gain.
pub(crate) fn compressed(body: &[u8]) -> Option<Vec<u8>> {
    if body.len() < LEAST_BYTES {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    encoder.write_all(body).ok()?;
    encoder.finish().ok().filter(|small| small.len() < body.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_who_says_so_gets_gzip() {
        for (text, taken) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("*", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0, identity", false),
            ("identity", false),
            ("xgzip", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(text))]);
            assert_eq!(accepted(&headers), taken, "{text}");
        }
        assert!(!accepted(&HeaderMap::new()));
    }

    #[test]
    fn small_and_random_bodies_stay() {
        assert!(compressed(&[b'a'; LEAST_BYTES - 1]).is_none());
        assert!(compressed(&[b'a'; LEAST_BYTES]).is_some());
        let noise: Vec<u8> = (0..5000).map(|_| fastrand::u8(..)).collect();
        assert!(compressed(&noise).is_none());
    }
}
