//! The certificate of an endorsement key: which authority says that it is a TPM's (TCG EK Credential Profile for TPM 2.0).

use crate::public::{Numbers, Public};
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, TrustAnchor, UnixTime, pem::PemObject};
use std::time::Duration;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

/// 2.23.133.8.1, a certificate of an endorsement key.
const USAGE: &[u8] = &[0x67, 0x81, 0x05, 0x08, 0x01];
const ALGORITHMS: &[&dyn SignatureVerificationAlgorithm] = &[
    webpki::ring::ECDSA_P256_SHA256,
    webpki::ring::ECDSA_P256_SHA384,
    webpki::ring::ECDSA_P384_SHA256,
    webpki::ring::ECDSA_P384_SHA384,
    webpki::ring::RSA_PKCS1_2048_8192_SHA256,
    webpki::ring::RSA_PKCS1_2048_8192_SHA384,
    webpki::ring::RSA_PKCS1_2048_8192_SHA512,
];

/// Why a certificate is not that of the key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("the endorsement certificate is malformed: {0}")]
    Unsound(webpki::Error),
    #[error("the endorsement certificate is not for the TPM's endorsement key")]
    OtherKey,
    #[error("the endorsement certificate is not signed by an authority of --attest-roots: {0}")]
    Untrusted(webpki::Error),
    #[error("the TPM has no endorsement certificate, which --attest-roots requires")]
    Missing,
}

/// Authorities of TPM makers.
#[derive(Debug, Clone)]
pub struct Roots(Vec<CertificateDer<'static>>);

/// Why a file has no authorities.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootsFault {
    #[error("certificate {0} is malformed")]
    Unsound(usize),
    #[error("it has no certificate (-----BEGIN CERTIFICATE-----)")]
    Empty,
}

impl Roots {
    /// The certificates of a PEM file; one between a root and the keys is trusted as well.
    pub fn parse(pem: &[u8]) -> Result<Self, RootsFault> {
        let mut found = Vec::new();
        for (index, certificate) in CertificateDer::pem_slice_iter(pem).enumerate() {
            let certificate = certificate.map_err(|_| RootsFault::Unsound(index + 1))?;
            anchor_from_trusted_cert(&certificate).map_err(|_| RootsFault::Unsound(index + 1))?;
            found.push(certificate);
        }
        if found.is_empty() { Err(RootsFault::Empty) } else { Ok(Self(found)) }
    }
}

/// Whether the certificate is of `key`, and signed by one of `roots` if there are some, at a time since 1970.
pub fn check(certificate: &[u8], key: &Public, roots: Option<(&Roots, Duration)>) -> Result<(), Fault> {
    // The TPM's memory may have more bytes than the certificate.
    let der = CertificateDer::from(item(certificate).unwrap_or(certificate));
    let certificate = EndEntityCert::try_from(&der).map_err(Fault::Unsound)?;
    if !certificate.subject_public_key_info().ends_with(&key_bits(key)) {
        return Err(Fault::OtherKey);
    }
    let Some((roots, now)) = roots else { return Ok(()) };
    let anchors: Vec<TrustAnchor<'_>> = roots.0.iter().filter_map(|root| anchor_from_trusted_cert(root).ok()).collect();
    certificate
        .verify_for_usage(
            ALGORITHMS,
            &anchors,
            &[],
            UnixTime::since_unix_epoch(now),
            KeyUsage::required_if_present(USAGE),
            None,
            None,
        )
        .map(|_| ())
        .map_err(Fault::Untrusted)
}

/// The first DER item.
fn item(bytes: &[u8]) -> Option<&[u8]> {
    let len = match bytes {
        [_, len @ ..=0x7f, ..] => 2 + usize::from(*len),
        [_, 0x81, len, ..] => 3 + usize::from(*len),
        [_, 0x82, high, low, ..] => 4 + usize::from(u16::from_be_bytes([*high, *low])),
        _ => return None,
    };
    bytes.get(..len)
}

/// What the bit string of a certificate's key ends with, and what no other key's does (RFC 3279, 2.3.1; RFC 5480, 2.2).
fn key_bits(key: &Public) -> Vec<u8> {
    match &key.numbers {
        Numbers::Point { x, y } => [&[0, 4], x.as_slice(), y].concat(),
        Numbers::Rsa { modulus, exponent } => {
            // Its first bit is set: a zero is before it.
            let modulus = der(2, &[&[0], modulus.as_slice()].concat());
            let exponent: Vec<u8> = exponent.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
            let zero = exponent.first().is_some_and(|byte| byte & 0x80 != 0);
            let exponent = if zero { [vec![0], exponent].concat() } else { exponent };
            [vec![0], der(0x30, &[modulus, der(2, &exponent)].concat())].concat()
        }
    }
}

fn der(tag: u8, body: &[u8]) -> Vec<u8> {
    let len = match body.len() {
        len @ 0..0x80 => vec![u8::try_from(len).unwrap_or_default()],
        len => [vec![0x82], u16::try_from(len).unwrap_or_default().to_be_bytes().to_vec()].concat(),
    };
    [vec![tag], len, body.to_vec()].concat()
}
