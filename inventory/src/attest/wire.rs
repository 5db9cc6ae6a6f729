//! Commands that make a TPM 2.0 prove something (TCG TPM 2.0 Library, parts 2 and 3). Pure; replies are hostile.
//!
//! They make keys and a session that the TPM forgets when they are flushed. None stores or changes anything that lasts.

use kernel::bytes::{Reader, be32};

const NO_SESSIONS: u16 = 0x8001;
const SESSIONS: u16 = 0x8002;
const CREATE_PRIMARY: u32 = 0x0131;
const ACTIVATE_CREDENTIAL: u32 = 0x0147;
const POLICY_SECRET: u32 = 0x0151;
const QUOTE: u32 = 0x0158;
const FLUSH_CONTEXT: u32 = 0x0165;
const READ_PUBLIC: u32 = 0x0173;
const START_AUTH_SESSION: u32 = 0x0176;
const PCR_READ: u32 = 0x017e;
/// The hierarchy that the maker vouches for, and no object.
const ENDORSEMENT: u32 = 0x4000_000b;
const NONE: u32 = 0x4000_0007;
/// The session of an empty password.
const PASSWORD: u32 = 0x4000_0009;
const HEADER_BYTES: usize = 10;
/// A reply that is none; the TPM has no such code.
pub(super) const UNSOUND: u32 = u32::MAX;

const RSA: u16 = 1;
const AES: u16 = 6;
const SHA256: u16 = 0x0b;
const NULL: u16 = 0x10;
const RSASSA: u16 = 0x14;
const ECDSA: u16 = 0x18;
const ECC: u16 = 0x23;
const CFB: u16 = 0x43;
const P256: u16 = 3;
/// fixedTPM, fixedParent, sensitiveDataOrigin, adminWithPolicy, restricted, decrypt (part 2, 8.3).
const ENDORSEMENT_ATTRIBUTES: u32 = 0x0003_00b2;
/// fixedTPM, fixedParent, sensitiveDataOrigin, userWithAuth, noDA, restricted, sign.
const SIGNER_ATTRIBUTES: u32 = 0x0005_0472;
/// Who may use the endorsement hierarchy may use the key (TCG EK Credential Profile for TPM 2.0, B.6.2).
const ENDORSEMENT_POLICY: [u8; 32] = [
    0x83, 0x71, 0x97, 0x67, 0x44, 0x84, 0xb3, 0xf8, 0x1a, 0x90, 0xcc, 0x8d, 0x46, 0xa5, 0xd7, 0x24, 0xfd, 0x52, 0xd7,
    0x6e, 0x06, 0x52, 0x0b, 0x64, 0xf2, 0xa1, 0xda, 0x1b, 0x33, 0x14, 0x69, 0xaa,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Rsa,
    Curve,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Command<'a> {
    /// The endorsement key: the same each time.
    CreateEndorsement(Kind),
    /// A key that signs only what the TPM says: the same each time.
    CreateSigner(Kind),
    ReadPublic {
        handle: u32,
    },
    StartPolicy,
    /// Its sender may use the endorsement hierarchy.
    PolicySecret {
        session: u32,
    },
    ActivateCredential {
        signer: u32,
        endorsement: u32,
        session: u32,
        blob: &'a [u8],
        secret: &'a [u8],
    },
    ReadRegisters {
        registers: &'a [u8],
    },
    Quote {
        handle: u32,
        nonce: &'a [u8],
        registers: &'a [u8],
    },
    Flush {
        handle: u32,
    },
}

impl Command<'_> {
    /// In errors, behind "the TPM refuses to".
    pub(super) fn what(&self) -> &'static str {
        match self {
            Self::CreateEndorsement(_) => "make its endorsement key",
            Self::CreateSigner(_) => "make an attestation key",
            Self::ReadPublic { .. } => "tell a public key",
            Self::StartPolicy => "start a session",
            Self::PolicySecret { .. } => "permit the use of its endorsement key",
            Self::ActivateCredential { .. } => "read the credential",
            Self::ReadRegisters { .. } => "tell its registers",
            Self::Quote { .. } => "quote its registers",
            Self::Flush { .. } => "forget a key",
        }
    }

    /// As it is sent.
    pub(super) fn encode(&self) -> Vec<u8> {
        match *self {
            Self::CreateEndorsement(kind) => create(&endorsement_template(kind)),
            Self::CreateSigner(kind) => create(&signer_template(kind)),
            Self::ReadPublic { handle } => command(NO_SESSIONS, READ_PUBLIC, &handle.to_be_bytes()),
            Self::Flush { handle } => command(NO_SESSIONS, FLUSH_CONTEXT, &handle.to_be_bytes()),
            Self::StartPolicy => {
                const POLICY: u8 = 1;
                let mut body = [NONE, NONE].map(u32::to_be_bytes).concat();
                // Nothing is encrypted by it: a nonce of zeros is as good as any.
                body.extend(with_len(&[0; 16]));
                body.extend(with_len(&[]));
                body.push(POLICY);
                body.extend([NULL, SHA256].map(u16::to_be_bytes).concat());
                command(NO_SESSIONS, START_AUTH_SESSION, &body)
            }
            Self::PolicySecret { session } => {
                let mut body = [ENDORSEMENT, session].map(u32::to_be_bytes).concat();
                body.extend(sessions(&[PASSWORD]));
                // No nonce, parameters or reference that it is bound to, and no end.
                body.extend([0; 2 + 2 + 2 + 4]);
                command(SESSIONS, POLICY_SECRET, &body)
            }
            Self::ActivateCredential { signer, endorsement, session, blob, secret } => {
                let mut body = [signer, endorsement].map(u32::to_be_bytes).concat();
                body.extend(sessions(&[PASSWORD, session]));
                body.extend(blob);
                body.extend(secret);
                command(SESSIONS, ACTIVATE_CREDENTIAL, &body)
            }
            Self::ReadRegisters { registers } => command(NO_SESSIONS, PCR_READ, &selection(registers)),
            Self::Quote { handle, nonce, registers } => {
                let mut body = handle.to_be_bytes().to_vec();
                body.extend(sessions(&[PASSWORD]));
                body.extend(with_len(nonce));
                // The key's scheme.
                body.extend(NULL.to_be_bytes());
                body.extend(selection(registers));
                command(SESSIONS, QUOTE, &body)
            }
        }
    }
}

/// What stands behind the header of a reply; its code, if the TPM refused.
pub(super) fn body(reply: &[u8]) -> Result<&[u8], u32> {
    match be32(reply, 6).unwrap_or(UNSOUND) {
        0 => reply.get(HEADER_BYTES..).ok_or(UNSOUND),
        code => Err(code),
    }
}

pub(super) fn sized<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let len = u16::from_be_bytes(reader.array()?);
    reader.bytes(len.into())
}

/// Values of registers, behind the counter and the selection of a reply.
pub(super) fn register_values(body: &[u8]) -> Option<Vec<[u8; 32]>> {
    let mut reader = Reader(body);
    reader.bytes(4)?;
    let banks = u32::from_be_bytes(reader.array()?);
    for _ in 0..banks.min(16) {
        reader.bytes(2)?;
        let [len] = reader.array()?;
        reader.bytes(len.into())?;
    }
    let count = u32::from_be_bytes(reader.array()?);
    (0..count.min(16)).map(|_| sized(&mut reader)?.try_into().ok()).collect()
}

/// The public area without its numbers (TCG EK Credential Profile for TPM 2.0, B.3.3 and B.3.4).
pub(super) fn endorsement_template(kind: Kind) -> Vec<u8> {
    let cipher = [AES, 128, CFB];
    match kind {
        Kind::Rsa => template(RSA, ENDORSEMENT_ATTRIBUTES, &ENDORSEMENT_POLICY, &[&cipher, &[NULL, 2048]], &{
            [&[0; 4], with_len(&[0; 256]).as_slice()].concat()
        }),
        Kind::Curve => template(ECC, ENDORSEMENT_ATTRIBUTES, &ENDORSEMENT_POLICY, &[&cipher, &[NULL, P256, NULL]], &{
            [with_len(&[0; 32]), with_len(&[0; 32])].concat()
        }),
    }
}

fn signer_template(kind: Kind) -> Vec<u8> {
    match kind {
        // The common exponent and no modulus.
        Kind::Rsa => template(RSA, SIGNER_ATTRIBUTES, &[], &[&[NULL, RSASSA, SHA256, 2048]], &[0; 4 + 2]),
        Kind::Curve => template(ECC, SIGNER_ATTRIBUTES, &[], &[&[NULL, ECDSA, SHA256, P256, NULL]], &[0; 2 + 2]),
    }
}

fn template(kind: u16, attributes: u32, policy: &[u8], parameters: &[&[u16]], unique: &[u8]) -> Vec<u8> {
    let mut area = [kind, SHA256].map(u16::to_be_bytes).concat();
    area.extend(attributes.to_be_bytes());
    area.extend(with_len(policy));
    area.extend(parameters.concat().into_iter().flat_map(u16::to_be_bytes));
    area.extend(unique);
    area
}

fn create(template: &[u8]) -> Vec<u8> {
    let mut body = ENDORSEMENT.to_be_bytes().to_vec();
    body.extend(sessions(&[PASSWORD]));
    // A key without a password, made of no other data.
    body.extend(with_len(&[0; 2 + 2]));
    body.extend(with_len(template));
    // Nothing else about it, and no registers that it was made under.
    body.extend([0; 2 + 4]);
    command(SESSIONS, CREATE_PRIMARY, &body)
}

/// Sessions with their length: each its handle, no nonce, to go on, no password.
fn sessions(handles: &[u32]) -> Vec<u8> {
    const CONTINUES: u8 = 1;
    let each = |handle: &u32| [&handle.to_be_bytes()[..], &[0, 0, CONTINUES, 0, 0]].concat();
    let all: Vec<u8> = handles.iter().flat_map(each).collect();
    [&u32::try_from(all.len()).unwrap_or_default().to_be_bytes(), all.as_slice()].concat()
}

/// Registers of the bank of SHA-256.
fn selection(registers: &[u8]) -> Vec<u8> {
    let mut bits = [0_u8; 3];
    for register in registers {
        if let Some(byte) = bits.get_mut(usize::from(register / 8)) {
            *byte |= 1 << (register % 8);
        }
    }
    [&1_u32.to_be_bytes()[..], &SHA256.to_be_bytes(), &[3], &bits].concat()
}

fn with_len(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes(), bytes].concat()
}

fn command(tag: u16, code: u32, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(HEADER_BYTES + body.len()).unwrap_or_default();
    [&tag.to_be_bytes()[..], &len.to_be_bytes(), &code.to_be_bytes(), body].concat()
}
