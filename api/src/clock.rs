//! This host's clock, compared with the service's by exchanges with it.

use crate::Timestamp;
use std::{
    error::Error,
    io,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};
use time::{PrimitiveDateTime, format_description::FormatItem, macros::format_description};

/// IMF-fixdate, the one form servers may send (RFC 9110, 5.6.7).
const HTTP_DATE: &[FormatItem] =
    format_description!("[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT");
/// No answer had a time yet.
const UNKNOWN: i64 = i64::MIN;

/// By how much the service's clock is ahead of ours, by the `Date` of its last answer; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Offset(Arc<AtomicI64>);

impl Default for Offset {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(UNKNOWN)))
    }
}

impl Offset {
    /// Records an answer with this `Date` header, received now.
    pub(crate) fn note_date(&self, date: &str) {
        if let Some(theirs) = http_date(date) {
            self.0.store(theirs.seconds_since(Timestamp::now()), Ordering::Relaxed);
        }
    }

    /// Seconds to add to our clock.
    pub(crate) fn seconds(&self) -> Option<i64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&seconds| seconds != UNKNOWN)
    }
}

/// The time in a `Date` header.
fn http_date(text: &str) -> Option<Timestamp> {
    let parsed = PrimitiveDateTime::parse(text.trim(), HTTP_DATE).ok()?;
    Some(Timestamp::from_unix_seconds(parsed.assume_utc().unix_timestamp()))
}

/// A certificate refused because of this host's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateTime {
    /// Start of its validity.
    NotBefore(Timestamp),
    /// End of its validity.
    NotAfter(Timestamp),
}

impl CertificateTime {
    /// Searches the causes of `error` for it.
    pub fn among(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        // Causes of causes; a few are real.
        for _ in 0..16 {
            let error = next?;
            if let Some(found) = Self::find(error) {
                return Some(found);
            }
            // An I/O error shows its inner error's text, but not that as its source.
            let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            if let Some(found) = wrapped.and_then(|wrapped| Self::find(wrapped)) {
                return Some(found);
            }
            next = error.source();
        }
        None
    }

    fn find(error: &(dyn Error + 'static)) -> Option<Self> {
        use rustls::{CertificateError, Error as Tls};
        // A boxed cause is one of the box's type.
        let boxed = || error.downcast_ref::<Box<ureq::Error>>().map(AsRef::as_ref);
        let tls = match error.downcast_ref::<ureq::Error>().or_else(boxed) {
            Some(ureq::Error::Rustls(tls)) => tls,
            Some(ureq::Error::Io(error)) => error.get_ref()?.downcast_ref::<Tls>()?,
            _ => error.downcast_ref::<Tls>()?,
        };
        let at = |time: &rustls::pki_types::UnixTime| {
            i64::try_from(time.as_secs()).map_or(Timestamp::ZERO, Timestamp::from_unix_seconds)
        };
        match tls {
            Tls::InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. }) => {
                Some(Self::NotBefore(at(not_before)))
            }
            Tls::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. }) => {
                Some(Self::NotAfter(at(not_after)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_answers_are_points_in_time() {
        let date = http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(date.unix_seconds(), 784_111_777);
        for noise in ["", "now", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 +0100", "\u{0}"] {
            assert_eq!(http_date(noise), None, "{noise}");
        }
        let offset = Offset::default();
        offset.note_date("nonsense");
        assert_eq!(offset.seconds(), None);
        offset.clone().note_date("Sun, 06 Nov 1994 08:49:37 GMT");
        assert!(offset.seconds().unwrap() < -900_000_000);
    }

    #[test]
    fn a_certificates_time_is_found_behind_the_transports_error() {
        let tls = rustls::Error::InvalidCertificate(rustls::CertificateError::NotValidYetContext {
            time: rustls::pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_secs(60)),
            not_before: rustls::pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_secs(3600)),
        });
        let expected = Some(CertificateTime::NotBefore(Timestamp::from_unix_seconds(3600)));
        let transport = |source| crate::ClientError::Transport {
            method: "GET".parse().unwrap(),
            path: String::new(),
            url: String::new(),
            source: Box::new(source),
        };
        assert_eq!(CertificateTime::among(&transport(ureq::Error::Rustls(tls.clone()))), expected);
        assert_eq!(CertificateTime::among(&transport(ureq::Error::Io(io::Error::other(tls)))), expected);
        assert_eq!(CertificateTime::among(&transport(ureq::Error::HostNotFound)), None);
    }
}
