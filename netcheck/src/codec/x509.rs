//! What a person wants to know of a certificate (RFC 5280 section 4.1): whose, by whom, from when to when, for which names.
//!
//! For messages only: what is to be trusted is rustls's to decide, and it reads certificates with a reader of its own.

use super::text::printable;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use time::{Date, Month, OffsetDateTime, Time};

const SEQUENCE: u8 = 0x30;
const OBJECT: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const EXTENSIONS: u8 = 0xa3;
const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;
/// Texts are cut behind so many characters: a certificate is the other side's to fill.
const MAX_TEXT_CHARS: usize = 200;
const MAX_NAMES: usize = 50;

/// A certificate's facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// As `CN=api.example.com, O=Example`, in the certificate's order; empty if it has none.
    pub subject: String,
    /// The same of who signed it.
    pub issuer: String,
    /// Signed by itself, as far as the names tell.
    pub is_self_issued: bool,
    /// Valid from.
    pub not_before: OffsetDateTime,
    /// Valid until.
    pub not_after: OffsetDateTime,
    /// DNS names and addresses it is for, at most 50.
    pub names: Vec<String>,
}

impl Certificate {
    /// Reads DER; `None` if it is no certificate.
    pub fn parse(der: &[u8]) -> Option<Self> {
        let (certificate, _) = expect(der, SEQUENCE)?;
        let (mut rest, _) = expect(certificate, SEQUENCE)?;
        // The version is optional, with a tag of its own.
        if let Some((0xa0, _, after)) = element(rest) {
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
        Some(Self {
            subject: name(subject),
            issuer: name(issuer),
            is_self_issued: subject == issuer,
            not_before,
            not_after,
            names: alternative_names(rest),
        })
    }
}

/// The first element: tag, content, what follows. Only tags of one byte and lengths up to 2^32 occur in certificates.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
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

fn expect(bytes: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = element(bytes)?;
    (tag == wanted).then_some((content, rest))
}

fn elements(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (tag, content, after) = element(rest)?;
        rest = after;
        Some((tag, content))
    })
}

/// A distinguished name in words.
fn name(sequence: &[u8]) -> String {
    let attributes = elements(sequence).flat_map(|(_, set)| elements(set));
    let parts = attributes.filter_map(|(_, attribute)| {
        let (object, value) = expect(attribute, OBJECT)?;
        let (tag, value, _) = element(value)?;
        let kind = match object {
            [0x55, 0x04, 0x03] => "CN",
            [0x55, 0x04, 0x06] => "C",
            [0x55, 0x04, 0x07] => "L",
            [0x55, 0x04, 0x08] => "ST",
            [0x55, 0x04, 0x0a] => "O",
            [0x55, 0x04, 0x0b] => "OU",
            _ => return None,
        };
        Some(format!("{kind}={}", text(tag, value)))
    });
    parts.take(MAX_NAMES).collect::<Vec<_>>().join(", ")
}

/// A string of one of ASN.1's kinds, without what could command a terminal.
fn text(tag: u8, value: &[u8]) -> String {
    let plain = match tag {
        // BMPString
        0x1e => {
            let units = value.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            let text: String =
                char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
            printable(text.as_bytes())
        }
        _ => printable(value),
    };
    plain.chars().take(MAX_TEXT_CHARS).collect()
}

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

fn alternative_names(rest: &[u8]) -> Vec<String> {
    let extensions = elements(rest).find(|(tag, _)| *tag == EXTENSIONS).and_then(|(_, list)| expect(list, SEQUENCE));
    let Some((extensions, _)) = extensions else { return Vec::new() };
    let value = elements(extensions).find_map(|(_, extension)| {
        let (object, _) = expect(extension, OBJECT)?;
        (object == SUBJECT_ALTERNATIVE_NAME).then(|| elements(extension).last())?
    });
    let Some((names, _)) = value.and_then(|(_, octets)| expect(octets, SEQUENCE)) else { return Vec::new() };
    let named = elements(names).filter_map(|(tag, value)| match tag {
        DNS_NAME => Some(text(tag, value)),
        IP_ADDRESS => {
            let v4 = || Some(IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?)));
            let v6 = || Some(IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?)));
            Some(v4().or_else(v6)?.to_string())
        }
        _ => None,
    });
    named.take(MAX_NAMES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;
    use time::macros::datetime;

    /// As openssl writes one.
    fn made(arguments: &[&str]) -> Option<Vec<u8>> {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("key");
        let output = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-outform", "DER"])
            .arg("-keyout")
            .arg(&key)
            .args(arguments)
            .output();
        let Ok(output) = output else {
            skip::because("openssl is not there");
            return None;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(output.stdout)
    }

    #[test]
    fn what_openssl_writes_is_read() {
        let names = "subjectAltName=DNS:api.example.com,DNS:*.apps.example.com,IP:192.0.2.7,IP:2001:db8::7";
        let Some(der) =
            made(&["-subj", "/O=Müller & Söhne/CN=api.example.com", "-utf8", "-addext", names, "-days", "30"])
        else {
            return;
        };
        let read = Certificate::parse(&der).unwrap();
        assert_eq!(read.subject, "O=Müller & Söhne, CN=api.example.com");
        assert_eq!((read.issuer == read.subject, read.is_self_issued), (true, true));
        assert_eq!(read.names, ["api.example.com", "*.apps.example.com", "192.0.2.7", "2001:db8::7"]);
        assert_eq!((read.not_after - read.not_before).whole_days(), 30);
        for length in 0..der.len() {
            let _ = Certificate::parse(&der[..length]);
        }
    }

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

    #[test]
    fn nothing_in_a_name_commands_a_terminal() {
        assert_eq!(text(0x0c, b"a\x1b[31mb"), "a\u{fffd}[31mb");
        assert_eq!(text(0x0c, &[b'x'; 300]).len(), MAX_TEXT_CHARS);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Certificate::parse(&bytes);
            let _ = (moment(&bytes), name(&bytes), alternative_names(&bytes));
        }
    }
}
