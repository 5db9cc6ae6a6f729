//! What a person wants to know of a certificate (RFC 5280 section 4.1): whose, by whom, from when to when, for which names.
//!
//! For messages only: trust is decided by rustls, with its own certificate reader.

use super::text::printable;
use api::der::{CertificateParts, OBJECT, SEQUENCE, element, elements, expect};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use time::OffsetDateTime;

const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;
/// Texts are cut after this many characters: the other side chooses what a certificate contains.
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
    /// Reads DER; `None` if it is not a certificate.
    pub fn parse(der: &[u8]) -> Option<Self> {
        let parts = CertificateParts::parse(der)?;
        Some(Self {
            subject: name(parts.subject),
            issuer: name(parts.issuer),
            is_self_issued: parts.subject == parts.issuer,
            not_before: parts.not_before,
            not_after: parts.not_after,
            names: alternative_names(&parts),
        })
    }
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

fn alternative_names(certificate: &CertificateParts<'_>) -> Vec<String> {
    let value = certificate.extension(SUBJECT_ALTERNATIVE_NAME);
    let Some((names, _)) = value.and_then(|value| expect(value, SEQUENCE)) else { return Vec::new() };
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
            testkit::skip::because("openssl is missing");
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
    fn nothing_in_a_name_commands_a_terminal() {
        assert_eq!(text(0x0c, b"a\x1b[31mb"), "a\u{fffd}[31mb");
        assert_eq!(text(0x0c, &[b'x'; 300]).len(), MAX_TEXT_CHARS);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Certificate::parse(&bytes);
            let _ = name(&bytes);
        }
    }
}
