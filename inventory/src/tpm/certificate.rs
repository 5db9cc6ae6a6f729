//! What an endorsement certificate says (RFC 5280; TCG EK credential profile for TPM 2.0, 3). Pure; the bytes are hostile.
//!
//! Nothing is verified here: that takes the maker's root certificate.

use kernel::{bytes::Reader, hex};
use serde::{Deserialize, Serialize};

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT: u8 = 0x06;
const UTF16: u8 = 0x1e;
const UTC_TIME: u8 = 0x17;
/// Version and extensions of a certificate, and a name among alternative names.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const DIRECTORY_NAME: u8 = 0xa4;

// Object identifiers, as they are encoded.
const ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const SERIAL_NUMBER: &[u8] = &[0x55, 0x04, 0x05];
const KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x0e];
/// 2.23.133.2.1 to 2.3.
const TPM_MAKER: &[u8] = &[0x67, 0x81, 0x05, 0x02, 0x01];
const TPM_MODEL: &[u8] = &[0x67, 0x81, 0x05, 0x02, 0x02];
const TPM_VERSION: &[u8] = &[0x67, 0x81, 0x05, 0x02, 0x03];
const RSA: &[&[u8]] = &[
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01],
    // OAEP and PSS: endorsement keys decrypt.
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x07],
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a],
];
const ECC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const CURVES: [(&[u8], &str); 4] = [
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07], "P-256"),
    (&[0x2b, 0x81, 0x04, 0x00, 0x22], "P-384"),
    (&[0x2b, 0x81, 0x04, 0x00, 0x23], "P-521"),
    (&[0x2a, 0x81, 0x1c, 0xcf, 0x55, 0x01, 0x82, 0x2d], "SM2 P256"),
];
/// Names of parts of names (RFC 4514, 3).
const ATTRIBUTES: [(&[u8], &str); 7] = [
    (&[0x55, 0x04, 0x03], "CN"),
    (SERIAL_NUMBER, "serialNumber"),
    (&[0x55, 0x04, 0x06], "C"),
    (&[0x55, 0x04, 0x07], "L"),
    (&[0x55, 0x04, 0x08], "ST"),
    (&[0x55, 0x04, 0x0a], "O"),
    (&[0x55, 0x04, 0x0b], "OU"),
];
/// Certificates of a chain, and parts of one name or list.
const MAX_CERTIFICATES: usize = 16;
const MAX_PARTS: usize = 64;

/// A certificate that a TPM stores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Certificate {
    /// Where it is in the TPM's non-volatile memory, eight hexadecimal digits.
    pub nv_index: String,
    /// Who signed it, as RFC 4514 writes names.
    pub issuer: String,
    /// Whose it is; that of an endorsement key may be empty.
    pub subject: String,
    /// Serial number, hexadecimal.
    pub serial_number: String,
    /// First moment it is valid, UTC.
    pub not_before: String,
    /// Last moment it is valid, UTC; the year 9999 means for ever.
    pub not_after: String,
    /// Its key: `RSA 2048`, `ECC P-384`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Maker of the TPM, by the letters or digits of its registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpm_manufacturer: Option<String>,
    /// Model of the TPM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpm_model: Option<String>,
    /// Firmware version of the TPM when the certificate was made, as the maker writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpm_version: Option<String>,
}

/// The certificates that stand one behind the other, each with what only one machine has: its key, signature and number.
pub(super) fn all(bytes: &[u8]) -> impl Iterator<Item = (Certificate, Vec<String>)> {
    items(bytes).take_while(|item| item.tag == SEQUENCE).take(MAX_CERTIFICATES).filter_map(|item| parse(item.body))
}

/// A tag and what it holds.
#[derive(Clone, Copy)]
struct Item<'a> {
    tag: u8,
    body: &'a [u8],
}

/// The items up to one that is cut, or too long for a certificate.
fn items(bytes: &[u8]) -> impl Iterator<Item = Item<'_>> {
    let mut reader = Reader(bytes);
    std::iter::from_fn(move || {
        let [tag, len] = reader.array()?;
        let len = match len {
            0..=0x7f => usize::from(len),
            0x81 => usize::from(reader.array::<1>()?[0]),
            0x82 => usize::from(u16::from_be_bytes(reader.array()?)),
            _ => return None,
        };
        Some(Item { tag, body: reader.bytes(len)? })
    })
}

fn parse(certificate: &[u8]) -> Option<(Certificate, Vec<String>)> {
    let mut outer = items(certificate);
    let (signed, _, signature) = (outer.next()?, outer.next()?, outer.next());
    let mut parts = items(signed.body).filter(|item| item.tag != VERSION);
    let serial = parts.next().filter(|item| item.tag == INTEGER)?.body;
    // The algorithm of the signature.
    parts.next()?;
    let (issuer, validity, subject, key) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let mut times = items(validity.body).map(|item| time(item));
    let (not_before, not_after) = (times.next()??, times.next()??);
    let mut unique = vec![number(serial), key_bits(key.body).map_or_else(String::new, number)];
    unique.extend(signature.map(|item| number(item.body)));
    unique.extend(name_parts(subject.body).filter(|(id, _)| *id == SERIAL_NUMBER).map(|(_, value)| text(value)));
    let mut found = Certificate {
        issuer: name(issuer.body),
        subject: name(subject.body),
        serial_number: hex::lower(serial),
        not_before,
        not_after,
        key: key_kind(key.body),
        ..Certificate::default()
    };
    let extensions = parts.find(|item| item.tag == EXTENSIONS).and_then(|item| items(item.body).next());
    for extension in extensions.iter().flat_map(|list| items(list.body)).take(MAX_PARTS) {
        let id = items(extension.body).next().map(|item| item.body);
        let Some(value) = items(extension.body).find(|item| item.tag == OCTET_STRING) else { continue };
        if id == Some(KEY_IDENTIFIER) {
            unique.extend(items(value.body).next().map(|item| number(item.body)));
        }
        if id == Some(ALTERNATIVE_NAME) {
            let names = items(value.body).next();
            let names = names.iter().flat_map(|list| items(list.body)).filter(|item| item.tag == DIRECTORY_NAME);
            for (id, value) in names.flat_map(|name| items(name.body).next()).flat_map(|name| name_parts(name.body)) {
                match id {
                    TPM_MAKER => found.tpm_manufacturer = Some(maker(&text(value))),
                    TPM_MODEL => found.tpm_model = Some(text(value)),
                    TPM_VERSION => found.tpm_version = Some(text(value)),
                    _ => {}
                }
            }
        }
    }
    Some((found, unique))
}

/// A number's digits, hexadecimal, without the zeros before it.
fn number(bytes: &[u8]) -> String {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    hex::lower(bytes.get(zeros..).unwrap_or_default())
}

/// The parts of a name, in its order: which, and the value.
fn name_parts(name: &[u8]) -> impl Iterator<Item = (&[u8], Item<'_>)> {
    let pairs = items(name).filter(|item| item.tag == SET).flat_map(|set| items(set.body));
    pairs.take(MAX_PARTS).filter_map(|pair| {
        let mut pair = items(pair.body);
        Some((pair.next().filter(|item| item.tag == OBJECT)?.body, pair.next()?))
    })
}

/// The last part comes first (RFC 4514).
fn name(name: &[u8]) -> String {
    let mut parts: Vec<String> = name_parts(name)
        .map(|(id, value)| {
            let known = ATTRIBUTES.iter().find(|(known, _)| *known == id);
            let label = known.map_or_else(|| object(id), |(_, label)| (*label).to_owned());
            format!("{label}={}", escaped(&text(value)))
        })
        .collect();
    parts.reverse();
    parts.join(",")
}

fn escaped(value: &str) -> String {
    let mut escaped = String::new();
    for c in value.chars() {
        if matches!(c, ',' | '+' | '"' | '\\' | '<' | '>' | ';') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

fn text(value: Item<'_>) -> String {
    match value.tag {
        UTF16 => {
            let (pairs, _) = value.body.as_chunks::<2>();
            String::from_utf16_lossy(&pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect::<Vec<_>>())
        }
        _ => String::from_utf8_lossy(value.body).into_owned(),
    }
}

/// An object identifier with dots.
fn object(id: &[u8]) -> String {
    let (mut numbers, mut number) = (Vec::new(), 0_u64);
    for byte in id {
        number = number.wrapping_shl(7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if numbers.is_empty() {
                let first = (number / 40).min(2);
                numbers.push(first.to_string());
                number -= first * 40;
            }
            numbers.push(number.to_string());
            number = 0;
        }
    }
    numbers.join(".")
}

/// `id:49465800` is four letters.
fn maker(text: &str) -> String {
    let bytes = text.strip_prefix("id:").and_then(hex::parse::<4>).unwrap_or_default();
    let letters = kernel::bytes::text(&bytes);
    let is_name = !letters.is_empty() && letters.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    if is_name { letters.trim().to_owned() } else { text.to_owned() }
}

/// Two or four digits of the year, then all others, in UTC.
fn time(item: Item<'_>) -> Option<String> {
    let text = std::str::from_utf8(item.body).ok().filter(|text| text.is_ascii())?;
    let (year, rest) = match item.tag {
        // RFC 5280, 4.1.2.5.1.
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            (format!("{}{year}", if year < "50" { "20" } else { "19" }), rest)
        }
        _ => text.split_at_checked(4).map(|(year, rest)| (year.to_owned(), rest))?,
    };
    let digits = rest.strip_suffix('Z').filter(|digits| digits.len() == 10)?;
    let all_digits = digits.bytes().chain(year.bytes()).all(|byte| byte.is_ascii_digit());
    let pair = |at: usize| digits.get(at..at + 2);
    let [month, day, hour, minute, second] = [pair(0)?, pair(2)?, pair(4)?, pair(6)?, pair(8)?];
    all_digits.then(|| format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z"))
}

/// The kind of a public key (RFC 3279, 2.3; RFC 5480).
fn key_kind(info: &[u8]) -> Option<String> {
    let mut algorithm = items(items(info).next()?.body);
    let id = algorithm.next()?.body;
    if id == ECC {
        let curve = algorithm.next().filter(|item| item.tag == OBJECT)?.body;
        let known = CURVES.iter().find(|(known, _)| *known == curve);
        return Some(format!("ECC {}", known.map_or_else(|| object(curve), |(_, name)| (*name).to_owned())));
    }
    if !RSA.contains(&id) {
        return Some(object(id));
    }
    let modulus = key_bits(info)?;
    let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
    let first = modulus.get(zeros)?;
    let bits = (modulus.len() - zeros) * 8 - usize::try_from(first.leading_zeros()).ok()?;
    Some(format!("RSA {bits}"))
}

/// The modulus of an RSA key, else all of the key.
fn key_bits(info: &[u8]) -> Option<&[u8]> {
    let bits = items(info).find(|item| item.tag == BIT_STRING)?.body.get(1..)?;
    let sequence = items(bits).next().filter(|item| item.tag == SEQUENCE && bits.first() == Some(&SEQUENCE));
    let modulus = sequence.and_then(|sequence| items(sequence.body).next()).filter(|item| item.tag == INTEGER);
    Some(modulus.map_or(bits, |modulus| modulus.body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        let read = |tag, text: &str| time(Item { tag, body: text.as_bytes() });
        assert_eq!(read(UTC_TIME, "491231235959Z").as_deref(), Some("2049-12-31T23:59:59Z"));
        assert_eq!(read(UTC_TIME, "500101000000Z").as_deref(), Some("1950-01-01T00:00:00Z"));
        assert_eq!(read(0x18, "99991231235959Z").as_deref(), Some("9999-12-31T23:59:59Z"));
        for wrong in ["4912312359Z", "4912312359x9Z", "€"] {
            assert_eq!(read(UTC_TIME, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_and_makers() {
        assert_eq!(object(TPM_MAKER), "2.23.133.2.1");
        assert_eq!(object(ECC), "1.2.840.10045.2.1");
        assert_eq!(
            ["id:49465800", "id:414D4400", "id:00001014", "other"].map(maker),
            ["IFX", "AMD", "id:00001014", "other"]
        );
        assert_eq!(escaped("a,b"), "a\\,b");
    }
}
