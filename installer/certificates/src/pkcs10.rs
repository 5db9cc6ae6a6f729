//! Reads PKCS #10 (RFC 2986). The API server's signer reads the same bytes with another parser and issues what that one has found,
//! so anything that two parsers might read differently is refused.

use super::seen::Seen;
use ring::signature::{ECDSA_P256_SHA256_ASN1, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm};
use std::net::IpAddr;
use x509_cert::{
    der::{
        self, Decode, Encode, Tag, Tagged,
        asn1::{Any, ObjectIdentifier, PrintableStringRef, Utf8StringRef},
        oid::db::{
            rfc4519::{COMMON_NAME, ORGANIZATION_NAME},
            rfc5280::ID_CE_SUBJECT_ALT_NAME,
            rfc5912::{
                ECDSA_WITH_SHA_256, ID_EC_PUBLIC_KEY, ID_EXTENSION_REQ, RSA_ENCRYPTION, SECP_256_R_1,
                SHA_256_WITH_RSA_ENCRYPTION,
            },
        },
        pem,
    },
    ext::pkix::{SubjectAltName, name::GeneralName},
    name::Name,
    request::{CertReq, ExtensionReq},
};

/// Those of kubelets have 1 KiB. Sets are sorted in a time that grows with the square of their members, so this bounds the time too.
const MAX_PEM_BYTES: usize = 16 << 10;
const MAX_NAMES: usize = 64;
const LABEL: &str = "CERTIFICATE REQUEST";
const BEGIN: &[u8] = b"-----BEGIN ";

/// Why bytes are not a request that a kubelet makes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("it has {0} bytes, expected at most {MAX_PEM_BYTES}")]
    Length(usize),
    #[error("it is not one PEM block: {0}")]
    Pem(pem::Error),
    #[error("it does not begin with a PEM block")]
    Preamble,
    #[error("its PEM label is {0}, expected '{LABEL}'")]
    Label(Seen),
    #[error("it is not a DER-encoded PKCS #10 request: {0}")]
    Der(der::Error),
    #[error("it is not in the canonical form of DER")]
    NotCanonical,
    #[error("a part of its subject has {0} attributes, expected 1")]
    MultiValued(usize),
    #[error("its subject has the attribute {0}, expected only a common name and an organization")]
    SubjectAttribute(ObjectIdentifier),
    #[error("its subject has {0} common names, expected 1")]
    CommonNames(usize),
    #[error("its subject has text of the kind {0}, expected UTF8String or PrintableString")]
    TextKind(Tag),
    #[error("it has {0} attributes, expected at most one, which requests extensions")]
    Attributes(usize),
    #[error("it has the attribute {0}, expected only one that requests extensions")]
    Attribute(ObjectIdentifier),
    #[error("it requests extensions {0} times, expected once")]
    ExtensionRequests(usize),
    #[error("it requests {0} extensions, expected only alternative names")]
    Extensions(usize),
    #[error("it requests the extension {0}, expected only alternative names")]
    Extension(ObjectIdentifier),
    #[error("it requests {0} names, expected at most {MAX_NAMES}")]
    TooManyNames(usize),
    #[error("it requests {0}, expected only DNS names and addresses")]
    NameKind(&'static str),
    #[error("it requests an address of {0} bytes, expected 4 or 16")]
    AddressLength(usize),
    #[error("its key or signature is of another kind than P-256 or RSA with SHA-256")]
    Key,
    #[error("its signature was not made with its key")]
    Signature,
}

impl From<der::Error> for Malformed {
    fn from(error: der::Error) -> Self {
        Self::Der(error)
    }
}

/// An alternative name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AltName {
    Dns(String),
    Address(IpAddr),
}

/// What the certificate would say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) common_name: String,
    pub(super) organizations: Vec<String>,
    pub(super) names: Vec<AltName>,
}

/// One PEM block and nothing else, signed with its own key.
pub(super) fn parse(text: &[u8]) -> Result<Wanted, Malformed> {
    if text.len() > MAX_PEM_BYTES {
        return Err(Malformed::Length(text.len()));
    }
    // The decoder would skip text before the block.
    if !text.starts_with(BEGIN) {
        return Err(Malformed::Preamble);
    }
    let (label, bytes) = pem::decode_vec(text).map_err(Malformed::Pem)?;
    if label != LABEL {
        return Err(Malformed::Label(Seen::text(label)));
    }
    let (wanted, request) = read(&bytes)?;
    verify(&request)?;
    Ok(wanted)
}

/// The same without PEM and signature.
pub(super) fn read(bytes: &[u8]) -> Result<(Wanted, CertReq), Malformed> {
    let request = CertReq::from_der(bytes)?;
    // Sets are sorted while they are read.
    if request.to_der()? != bytes {
        return Err(Malformed::NotCanonical);
    }
    let (common_name, organizations) = subject(&request.info.subject)?;
    let names = names(&request)?;
    Ok((Wanted { common_name, organizations, names }, request))
}

/// Common name and organizations.
fn subject(name: &Name) -> Result<(String, Vec<String>), Malformed> {
    let mut common_names = Vec::new();
    let mut organizations = Vec::new();
    for part in &name.0 {
        let [attribute] = part.0.as_slice() else { return Err(Malformed::MultiValued(part.0.len())) };
        match attribute.oid {
            COMMON_NAME => common_names.push(text(&attribute.value)?),
            ORGANIZATION_NAME => organizations.push(text(&attribute.value)?),
            other => return Err(Malformed::SubjectAttribute(other)),
        }
    }
    let count = common_names.len();
    let [common_name] = <[String; 1]>::try_from(common_names).map_err(|_| Malformed::CommonNames(count))?;
    Ok((common_name, organizations))
}

fn text(value: &Any) -> Result<String, Malformed> {
    Ok(match value.tag() {
        Tag::Utf8String => value.decode_as::<Utf8StringRef<'_>>()?.as_str().to_owned(),
        Tag::PrintableString => value.decode_as::<PrintableStringRef<'_>>()?.as_str().to_owned(),
        other => return Err(Malformed::TextKind(other)),
    })
}

/// Alternative names, the only extension that a kubelet requests.
fn names(request: &CertReq) -> Result<Vec<AltName>, Malformed> {
    let attribute = match request.info.attributes.as_slice() {
        [] => return Ok(Vec::new()),
        [attribute] if attribute.oid == ID_EXTENSION_REQ => attribute,
        [attribute] => return Err(Malformed::Attribute(attribute.oid)),
        many => return Err(Malformed::Attributes(many.len())),
    };
    let [value] = attribute.values.as_slice() else {
        return Err(Malformed::ExtensionRequests(attribute.values.len()));
    };
    let ExtensionReq(extensions) = value.decode_as()?;
    let [extension] = extensions.as_slice() else { return Err(Malformed::Extensions(extensions.len())) };
    if extension.extn_id != ID_CE_SUBJECT_ALT_NAME {
        return Err(Malformed::Extension(extension.extn_id));
    }
    let SubjectAltName(names) = SubjectAltName::from_der(extension.extn_value.as_bytes())?;
    if names.len() > MAX_NAMES {
        return Err(Malformed::TooManyNames(names.len()));
    }
    names.iter().map(alt_name).collect()
}

fn alt_name(name: &GeneralName) -> Result<AltName, Malformed> {
    match name {
        GeneralName::DnsName(name) => Ok(AltName::Dns(name.as_str().to_owned())),
        GeneralName::IpAddress(bytes) => address(bytes.as_bytes()).map(AltName::Address),
        GeneralName::Rfc822Name(_) => Err(Malformed::NameKind("an email address")),
        GeneralName::UniformResourceIdentifier(_) => Err(Malformed::NameKind("a URI")),
        GeneralName::DirectoryName(_) => Err(Malformed::NameKind("a directory name")),
        GeneralName::OtherName(_) | GeneralName::EdiPartyName(_) | GeneralName::RegisteredId(_) => {
            Err(Malformed::NameKind("a name of an unusual kind"))
        }
    }
}

fn address(bytes: &[u8]) -> Result<IpAddr, Malformed> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Ok(v4.into());
    }
    let v6 = <[u8; 16]>::try_from(bytes).map_err(|_| Malformed::AddressLength(bytes.len()))?;
    Ok(IpAddr::from(v6).to_canonical())
}

/// Whether the requester has the private key. Those of kubelets are of P-256.
fn verify(request: &CertReq) -> Result<(), Malformed> {
    let key = &request.info.public_key;
    let curve = key.algorithm.parameters.as_ref().and_then(|curve| curve.decode_as::<ObjectIdentifier>().ok());
    let algorithm: &dyn VerificationAlgorithm = match (key.algorithm.oid, curve, request.algorithm.oid) {
        (ID_EC_PUBLIC_KEY, Some(SECP_256_R_1), ECDSA_WITH_SHA_256) => &ECDSA_P256_SHA256_ASN1,
        (RSA_ENCRYPTION, None, SHA_256_WITH_RSA_ENCRYPTION) => &RSA_PKCS1_2048_8192_SHA256,
        _ => return Err(Malformed::Key),
    };
    let (Some(key), Some(signature)) = (key.subject_public_key.as_bytes(), request.signature.as_bytes()) else {
        return Err(Malformed::Signature);
    };
    let signed = request.info.to_der()?;
    UnparsedPublicKey::new(algorithm, key).verify(&signed, signature).map_err(|_| Malformed::Signature)
}
