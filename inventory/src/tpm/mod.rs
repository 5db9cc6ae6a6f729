//! What a TPM 2.0 says of itself, and its endorsement certificates. Here it is only read ([`wire`]); a TPM 1.2 is not asked.

mod boot;
mod certificate;
pub(crate) mod wire;

pub(crate) use boot::measured_boot;
pub use boot::{MeasuredBoot, Measurement};
pub use certificate::Certificate;

use crate::{Root, ask::Question};
use kernel::hex;
use serde::{Deserialize, Serialize};

/// Properties (part 2, 6.13): of the TPM, and of its state.
const FIXED: u32 = 0x100;
const VARIABLE: u32 = 0x200;
const FAMILY: u32 = 0x100;
const REVISION: u32 = 0x102;
const DAY: u32 = 0x103;
const YEAR: u32 = 0x104;
const MANUFACTURER: u32 = 0x105;
const VENDOR: std::ops::RangeInclusive<u32> = 0x106..=0x109;
const FIRMWARE: [u32; 2] = [0x10b, 0x10c];
const MODES: u32 = 0x12d;
const PERMANENT: u32 = 0x200;
const LOCKOUT_COUNTER: u32 = 0x20e;
const MAX_AUTH_FAIL: u32 = 0x20f;
/// Bits of the permanent state (part 2, 8.6).
const OWNER_PASSWORD: u32 = 1;
const LOCKED_OUT: u32 = 1 << 9;
const FIPS_140_2: u32 = 1;
/// Where makers store endorsement certificates, and the chain above them (EK credential profile 2.5, 2.2.1).
const FIRST_CERTIFICATE: u32 = 0x01c0_0002;
const CHAIN: std::ops::RangeInclusive<u32> = 0x01c0_0100..=0x01c0_01ff;
/// Certificates among them; the others are templates and nonces.
const KEY_CERTIFICATES: [u32; 9] = [
    FIRST_CERTIFICATE,
    0x01c0_000a,
    0x01c0_0012,
    0x01c0_0014,
    0x01c0_0016,
    0x01c0_0018,
    0x01c0_001a,
    0x01c0_001c,
    0x01c0_001e,
];
/// Where endorsement keys are kept.
const KEYS: std::ops::RangeInclusive<u32> = 0x8101_0000..=0x8101_00ff;
/// Indices and keys that are read.
const MOST: usize = 32;
/// Algorithms (part 2, 6.3).
const ALGORITHMS: [(u16, &str); 38] = [
    (0x01, "rsa"),
    (0x03, "tdes"),
    (0x04, "sha1"),
    (0x05, "hmac"),
    (0x06, "aes"),
    (0x07, "mgf1"),
    (0x08, "keyedhash"),
    (0x0a, "xor"),
    (0x0b, "sha256"),
    (0x0c, "sha384"),
    (0x0d, "sha512"),
    (0x12, "sm3_256"),
    (0x13, "sm4"),
    (0x14, "rsassa"),
    (0x15, "rsaes"),
    (0x16, "rsapss"),
    (0x17, "oaep"),
    (0x18, "ecdsa"),
    (0x19, "ecdh"),
    (0x1a, "ecdaa"),
    (0x1b, "sm2"),
    (0x1c, "ecschnorr"),
    (0x1d, "ecmqv"),
    (0x20, "kdf1_sp800_56a"),
    (0x21, "kdf2"),
    (0x22, "kdf1_sp800_108"),
    (0x23, "ecc"),
    (0x25, "symcipher"),
    (0x26, "camellia"),
    (0x27, "sha3_256"),
    (0x28, "sha3_384"),
    (0x29, "sha3_512"),
    (0x3f, "cmac"),
    (0x40, "ctr"),
    (0x41, "ofb"),
    (0x42, "cbc"),
    (0x43, "cfb"),
    (0x44, "ecb"),
];

/// What a TPM 2.0 says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TpmDetails {
    /// Family of specifications: `2.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// Revision of the specification: `1.38`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Year and day of the year of the specification: `2016-273`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specification_date: Option<String>,
    /// Maker, the letters of its registration: `IFX`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manufacturer: Option<String>,
    /// Text of the maker's own, mostly the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor_text: Option<String>,
    /// Version of its firmware, four numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware_version: Option<String>,
    /// Algorithms that it has, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub algorithms: Vec<String>,
    /// Whether it is made for FIPS 140-2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fips_140_2: Option<bool>,
    /// Whether an owner has set a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_owner_password: Option<bool>,
    /// Whether it refuses passwords because too many were wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_locked_out: Option<bool>,
    /// Wrong passwords that it counts now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_tries: Option<u32>,
    /// So many wrong passwords lock it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_failed_tries: Option<u32>,
    /// Certificates of its endorsement keys, by index. They are not verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endorsement_certificates: Vec<Certificate>,
    /// Certificates above those, as the maker stored them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificate_chain: Vec<Certificate>,
    /// Endorsement keys that are kept in it, by handle.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endorsement_keys: Vec<EndorsementKey>,
}

/// An endorsement key in a TPM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EndorsementKey {
    /// Where it is, eight hexadecimal digits.
    pub handle: String,
    /// What it is: `RSA 2048`, `ECC P-256`.
    pub key: String,
    /// Its modulus, or the coordinates of its point, hexadecimal. No other TPM has it.
    pub public_key: String,
}

/// Asks the TPM of that name: `tpm0`. `None` if it does not answer.
pub(crate) fn details(root: &Root, name: &str) -> Option<TpmDetails> {
    let tpm = || name.to_owned();
    let capability = |capability, property| {
        let question = Question::TpmCapability { tpm: tpm(), capability, property };
        root.ask(&question).inspect_err(|error| tracing::debug!(name, capability, %error, "the TPM does not say")).ok()
    };
    let fixed = wire::properties(&capability(wire::PROPERTIES, FIXED)?);
    let variable = capability(wire::PROPERTIES, VARIABLE).map(|bytes| wire::properties(&bytes)).unwrap_or_default();
    let algorithms = capability(wire::ALGORITHMS, 0).map(|bytes| wire::algorithms(&bytes)).unwrap_or_default();
    let handles = |first| capability(wire::HANDLES, first).map(|bytes| wire::handles(&bytes)).unwrap_or_default();
    let indices = handles(FIRST_CERTIFICATE);
    let contents = |is_wanted: &dyn Fn(&u32) -> bool| -> Vec<(u32, Vec<u8>)> {
        let wanted = indices.iter().copied().filter(is_wanted).take(MOST);
        wanted.filter_map(|index| Some((index, root.ask(&Question::TpmNv { tpm: tpm(), index }).ok()?))).collect()
    };
    let certificates = contents(&|index| KEY_CERTIFICATES.contains(index));
    // The chain may be cut anywhere between two indices.
    let chain = contents(&|index| CHAIN.contains(index));
    let chain_start = chain.first().map(|(index, _)| *index).unwrap_or_default();
    let chain: Vec<u8> = chain.into_iter().flat_map(|(_, bytes)| bytes).collect();
    let at = |index: u32, bytes: &[u8]| -> Vec<Certificate> {
        let found = certificate::all(bytes).map(|(found, _)| found);
        found.map(|found| Certificate { nv_index: format!("{index:08x}"), ..found }).collect()
    };
    let key = |handle: u32| {
        let area = root.ask(&Question::TpmPublic { tpm: tpm(), handle }).ok()?;
        let public = wire::public(&area)?;
        let public_key = hex::lower(public.unique.concat());
        Some(EndorsementKey { handle: format!("{handle:08x}"), key: public.kind, public_key })
    };
    let keys = handles(*KEYS.start()).into_iter().filter(|handle| KEYS.contains(handle)).take(MOST);
    Some(TpmDetails {
        algorithms: algorithms.into_iter().map(algorithm).collect(),
        // Of an index only its first certificate: what follows is padding.
        endorsement_certificates: certificates
            .iter()
            .filter_map(|(index, bytes)| at(*index, bytes).into_iter().next())
            .collect(),
        certificate_chain: at(chain_start, &chain),
        endorsement_keys: keys.filter_map(key).collect(),
        ..from_properties(&fixed, &variable)
    })
}

fn from_properties(fixed: &[(u32, u32)], variable: &[(u32, u32)]) -> TpmDetails {
    let get = |list: &[(u32, u32)], wanted: u32| {
        list.iter().find(|(property, _)| *property == wanted).map(|(_, value)| *value)
    };
    let fixed = |wanted: u32| get(fixed, wanted);
    let text = |properties: &[u32]| {
        let bytes: Vec<u8> =
            properties.iter().filter_map(|property| fixed(*property)).flat_map(u32::to_be_bytes).collect();
        let text: String =
            bytes.iter().filter(|byte| matches!(byte, b' '..=b'~')).map(|byte| char::from(*byte)).collect();
        Some(text.split_whitespace().collect::<Vec<_>>().join(" ")).filter(|text| !text.is_empty())
    };
    let halves = |property| fixed(property).map(|value| format!("{}.{}", value >> 16, value & 0xffff));
    let [high, low] = FIRMWARE.map(halves);
    let state = get(variable, PERMANENT);
    TpmDetails {
        family: text(&[FAMILY]),
        revision: fixed(REVISION).map(|revision| format!("{}.{:02}", revision / 100, revision % 100)),
        specification_date: fixed(YEAR).zip(fixed(DAY)).map(|(year, day)| format!("{year}-{day:03}")),
        manufacturer: text(&[MANUFACTURER]),
        vendor_text: text(&VENDOR.collect::<Vec<_>>()),
        firmware_version: high.zip(low).map(|(high, low)| format!("{high}.{low}")),
        fips_140_2: fixed(MODES).map(|modes| modes & FIPS_140_2 != 0),
        has_owner_password: state.map(|state| state & OWNER_PASSWORD != 0),
        failed_tries: get(variable, LOCKOUT_COUNTER),
        max_failed_tries: get(variable, MAX_AUTH_FAIL),
        is_locked_out: state.map(|state| state & LOCKED_OUT != 0),
        ..TpmDetails::default()
    }
}

fn algorithm(number: u16) -> String {
    let known = ALGORITHMS.iter().find(|(known, _)| *known == number);
    known.map_or_else(|| format!("{number:#06x}"), |(_, name)| (*name).to_owned())
}

/// What no other machine has in the contents of an index: keys, signatures, numbers, as hexadecimal digits.
pub(crate) fn unique_in_index(contents: &[u8]) -> Vec<String> {
    certificate::all(contents).flat_map(|(_, unique)| unique).collect()
}

/// The same of a key's public area.
pub(crate) fn unique_in_key(area: &[u8]) -> Vec<String> {
    wire::public(area).map(|public| public.unique.into_iter().map(hex::lower).collect()).unwrap_or_default()
}

/// Reads the bytes as everything that a TPM tells.
pub(crate) fn fuzz(bytes: &[u8]) {
    use wire::Command;
    for command in [
        Command::GetCapability { capability: wire::PROPERTIES, property: FIXED },
        Command::NvReadPublic { index: 1 },
        Command::NvRead { index: 1, len: 1, at: 0 },
        Command::ReadPublic { handle: 1 },
    ] {
        let _ = command.parameters(bytes);
    }
    let properties = wire::properties(bytes);
    let _ = from_properties(&properties, &properties);
    let _ = (wire::handles(bytes), wire::algorithms(bytes), wire::nv_len(bytes));
    let _ = (unique_in_index(bytes), unique_in_key(bytes));
}

#[cfg(test)]
mod tests;
