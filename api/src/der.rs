//! DER (X.690), as far as certificates (RFC 5280, section 4.1) need it.

use time::{Date, Month, OffsetDateTime, Time};

pub const SEQUENCE: u8 = 0x30;
pub const OBJECT: u8 = 0x06;
const OCTETS: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The context tag of a certificate's version.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;

/// The first element: tag, content, what follows. Only tags of one byte and lengths up to 2^32 occur in certificates.
pub fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let length = digits.iter().fold(0u64, |value, digit| (value << 8) | u64::from(*digit));
            (usize::try_from(length).ok()?, rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// The content of the first element, which must have this tag, and what follows.
pub fn expect(bytes: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = element(bytes)?;
    (tag == wanted).then_some((content, rest))
}

/// Tags and contents up to the end, or up to what is not DER.
pub fn elements(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (tag, content, after) = element(rest)?;
        rest = after;
        Some((tag, content))
    })
}

/// A time, and what follows.
fn moment(bytes: &[u8]) -> Option<(OffsetDateTime, &[u8])> {
    let (tag, content, rest) = element(bytes)?;
    let digits = content.strip_suffix(b"Z")?;
    let number = |from: usize, length: usize| -> Option<u16> {
        let digits = digits.get(from..from.checked_add(length)?)?;
        digits
            .iter()
            .try_fold(0u16, |value, digit| digit.is_ascii_digit().then(|| value * 10 + u16::from(digit - b'0')))
    };
    let (year, at) = match tag {
        // Two digits: 1950 to 2049.
        UTC_TIME => (number(0, 2).map(|year| if year < 50 { 2000 + year } else { 1900 + year })?, 2),
        GENERALIZED_TIME => (number(0, 4)?, 4),
        _ => return None,
    };
    let two = |position: usize| u8::try_from(number(at + 2 * position, 2)?).ok();
    let month = Month::try_from(two(0)?).ok()?;
    let date = Date::from_calendar_date(i32::from(year), month, two(1)?).ok()?;
    let time = Time::from_hms(two(2)?, two(3)?, two(4)?).ok()?;
    Some((OffsetDateTime::new_utc(date, time), rest))
}

/// The parts of a certificate. Names and extensions are as they are encoded.
#[derive(Clone, Copy, Debug)]
pub struct CertificateParts<'a> {
    pub issuer: &'a [u8],
    pub subject: &'a [u8],
    /// Valid from.
    pub not_before: OffsetDateTime,
    /// Valid until.
    pub not_after: OffsetDateTime,
    /// What follows the key.
    rest: &'a [u8],
}

impl<'a> CertificateParts<'a> {
    /// Reads DER; `None` if it is not a certificate.
    pub fn parse(der: &'a [u8]) -> Option<Self> {
        let (certificate, _) = expect(der, SEQUENCE)?;
        let (mut rest, _) = expect(certificate, SEQUENCE)?;
        if let Some((VERSION, _, after)) = element(rest) {
            rest = after;
        }
        let (_, _serial, rest) = element(rest)?;
        let (_algorithm, rest) = expect(rest, SEQUENCE)?;
        let (issuer, rest) = expect(rest, SEQUENCE)?;
        let (validity, rest) = expect(rest, SEQUENCE)?;
        let (subject, rest) = expect(rest, SEQUENCE)?;
        let (_key, rest) = expect(rest, SEQUENCE)?;
        let (not_before, after) = moment(validity)?;
        let (not_after, _) = moment(after)?;
        Some(Self { issuer, subject, not_before, not_after, rest })
    }

    /// The value of an extension, if the certificate has it.
    pub fn extension(&self, object: &[u8]) -> Option<&'a [u8]> {
        let (_, list) = elements(self.rest).find(|(tag, _)| *tag == EXTENSIONS)?;
        let (extensions, _) = expect(list, SEQUENCE)?;
        elements(extensions).find_map(|(_, extension)| {
            let (found, _) = expect(extension, OBJECT)?;
            let (tag, value) = elements(extension).last()?;
            (found == object && tag == OCTETS).then_some(value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use time::macros::datetime;

    #[test]
    fn both_kinds_of_time_are_read() {
        let utc = [&[UTC_TIME, 13][..], b"491231235959Z"].concat();
        assert_eq!(moment(&utc).unwrap().0, datetime!(2049-12-31 23:59:59 UTC));
        let old = [&[UTC_TIME, 13][..], b"500101000000Z"].concat();
        assert_eq!(moment(&old).unwrap().0, datetime!(1950-01-01 00:00:00 UTC));
        let general = [&[GENERALIZED_TIME, 15][..], b"20991231235959Z"].concat();
        assert_eq!(moment(&general).unwrap().0, datetime!(2099-12-31 23:59:59 UTC));
        let odd = [&[UTC_TIME, 13][..], b"491331235959Z"].concat();
        assert_eq!(moment(&odd), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = (moment(&bytes), CertificateParts::parse(&bytes), elements(&bytes).count());
            let parts = CertificateParts { issuer: &[], subject: &[], not_before: OffsetDateTime::UNIX_EPOCH, not_after: OffsetDateTime::UNIX_EPOCH, rest: &bytes };
            let _ = parts.extension(&[0x55, 0x1d, 0x11]);
        }
    }
}
