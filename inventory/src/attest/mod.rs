//! What the TPM 2.0 of this machine proves: keys that it makes for as long as that takes, a quote over its registers, and the secret of
//! a credential. Nothing in the TPM is changed that lasts: no key is stored, no register extended, no index written.

pub mod cli;
#[cfg(test)]
mod tests;
mod wire;

use crate::ask::certificate_at;
use api::attest::{AttestReply, AttestRequest, Bytes, Digest, Evidence};
use attestation::{Pcr, QUOTED};
use kernel::{bytes::Reader, tpm::Device};
use std::io;
use wire::{Command, Kind};

/// The endorsement key that makers and systems store (TCG EK Credential Profile for TPM 2.0, 2.2.1.5.1).
const STORED_RSA: u32 = 0x8101_0001;
/// Where certificates of endorsement keys of RSA-2048 and of P-256 are.
const CERTIFICATES: [(u32, Kind); 2] = [(0x01c0_0002, Kind::Rsa), (0x01c0_000a, Kind::Curve)];
/// Registers that a TPM gives at once.
const AT_ONCE: usize = 8;

/// Why a TPM proves nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no TPM: /sys/class/tpm has none")]
    NoTpm,
    #[error("{0} is a TPM 1.2, and only a TPM 2.0 can be asked")]
    Old(String),
    #[error("cannot talk to the TPM")]
    Exchange(#[from] io::Error),
    #[error("the TPM refuses to {what}: code {code:#x}{}", hint(*code))]
    Refused { what: &'static str, code: u32 },
    #[error("the TPM's reply to '{0}' is unsound")]
    Unsound(&'static str),
    #[error("the TPM has no registers of SHA-256: enable that bank in the firmware's settings")]
    NoBank,
}

/// What to do about a code (TCG TPM 2.0 Library, part 2, 6.6).
fn hint(code: u32) -> &'static str {
    // A code of format one names the session or handle in bits 6 to 11.
    let short = if code & 0x80 != 0 { code & 0xbf } else { code };
    match short {
        0xa2 | 0x8e => ", because its endorsement hierarchy has a password: clear the TPM, or remove the password",
        0x85 => ", because its endorsement hierarchy is disabled: enable it in the firmware's settings",
        0x9f => ", because the credential is for another TPM or key",
        0x921 => ", because it is locked after wrong passwords",
        0x902 | 0x903 => ", because its memory is full of other programs' keys",
        0x100 => ", because the firmware did not start it",
        _ => "",
    }
}

/// A TPM, and what it has of ours.
struct Tpm<'a> {
    exchange: &'a mut dyn FnMut(&[u8]) -> io::Result<Vec<u8>>,
    /// Keys and sessions to flush.
    open: Vec<u32>,
}

/// A key in the TPM.
struct Key {
    handle: u32,
    public: Vec<u8>,
}

/// Answers the request, and leaves the TPM as it was.
pub fn prove(
    exchange: &mut dyn FnMut(&[u8]) -> io::Result<Vec<u8>>,
    request: &AttestRequest,
    event_log: Vec<u8>,
) -> Result<AttestReply, Error> {
    let mut tpm = Tpm { exchange, open: Vec::new() };
    let reply = tpm.prove(request, event_log);
    // Also after an error. What the TPM has no more is not worth one.
    while let Some(handle) = tpm.open.pop() {
        let flushed = tpm.run(&Command::Flush { handle });
        let _ = flushed.inspect_err(|error| tracing::debug!(handle, %error, "not flushed"));
    }
    reply
}

impl Tpm<'_> {
    fn prove(&mut self, request: &AttestRequest, event_log: Vec<u8>) -> Result<AttestReply, Error> {
        let (endorsement, certificate) = self.endorsement_key()?;
        let signer = match self.create(Command::CreateSigner(Kind::Curve)) {
            // A TPM without that curve.
            Err(Error::Refused { .. }) => self.create(Command::CreateSigner(Kind::Rsa))?,
            made => made?,
        };
        let secret = match &request.credential {
            Some(credential) => {
                let session = self.session()?;
                let command = Command::ActivateCredential {
                    signer: signer.handle,
                    endorsement: endorsement.handle,
                    session,
                    blob: &credential.blob.0,
                    secret: &credential.secret.0,
                };
                let body = self.run(&command)?;
                Some(Bytes(
                    parameters(&body)
                        .and_then(|mut reader| wire::sized(&mut reader))
                        .ok_or(Error::Unsound(command.what()))?
                        .to_vec(),
                ))
            }
            None => None,
        };
        let (attest, signature) = self.quote(signer.handle, &request.nonce.0)?;
        let evidence = Evidence {
            ek_public: Bytes(endorsement.public),
            ek_certificate: certificate.map(Bytes),
            ak_public: Bytes(signer.public),
            attest: Bytes(attest),
            signature: Bytes(signature),
            pcrs: self.registers()?,
            event_log: Bytes(event_log),
        };
        Ok(AttestReply { evidence, secret })
    }

    /// That with a certificate; the stored one is there at once, and to make one of RSA takes some TPMs a minute.
    fn endorsement_key(&mut self) -> Result<(Key, Option<Vec<u8>>), Error> {
        for (index, kind) in CERTIFICATES {
            let found = certificate_at(&mut *self.exchange, index);
            let Ok(certificate) = found.inspect_err(|error| tracing::debug!(index, %error, "no certificate")) else {
                continue;
            };
            let key = self.stored_or_made(kind)?;
            return Ok((key, Some(certificate)));
        }
        let stored = self.stored();
        let key = stored.map_or_else(|| self.create(Command::CreateEndorsement(Kind::Curve)), Ok)?;
        Ok((key, None))
    }

    fn stored_or_made(&mut self, kind: Kind) -> Result<Key, Error> {
        match self.stored().filter(|_| kind == Kind::Rsa) {
            Some(key) => Ok(key),
            None => self.create(Command::CreateEndorsement(kind)),
        }
    }

    /// The stored key, if it is made from the common template.
    fn stored(&mut self) -> Option<Key> {
        let body = self.run(&Command::ReadPublic { handle: STORED_RSA }).ok()?;
        let public = wire::sized(&mut Reader(&body))?.to_vec();
        let template = wire::endorsement_template(Kind::Rsa);
        // All before the modulus.
        let common = template.len().checked_sub(256)?;
        (public.get(..common) == template.get(..common)).then_some(Key { handle: STORED_RSA, public })
    }

    fn create(&mut self, command: Command<'_>) -> Result<Key, Error> {
        let body = self.run(&command)?;
        let mut reader = Reader(&body);
        let handle = reader.array().map(u32::from_be_bytes).ok_or(Error::Unsound(command.what()))?;
        self.open.push(handle);
        // The length of the parameters.
        let public = reader.bytes(4).and_then(|_| wire::sized(&mut reader)).ok_or(Error::Unsound(command.what()))?;
        Ok(Key { handle, public: public.to_vec() })
    }

    /// A session that may use the endorsement key, as its policy asks for.
    fn session(&mut self) -> Result<u32, Error> {
        let command = Command::StartPolicy;
        let body = self.run(&command)?;
        let session = Reader(&body).array().map(u32::from_be_bytes).ok_or(Error::Unsound(command.what()))?;
        self.open.push(session);
        self.run(&Command::PolicySecret { session })?;
        Ok(session)
    }

    fn quote(&mut self, handle: u32, nonce: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let command = Command::Quote { handle, nonce, registers: &QUOTED };
        let body = self.run(&command)?;
        let parts = || {
            let mut reader = parameters(&body)?;
            let attest = wire::sized(&mut reader)?.to_vec();
            Some((attest, reader.0.to_vec()))
        };
        parts().ok_or(Error::Unsound(command.what()))
    }

    fn registers(&mut self) -> Result<Vec<Pcr>, Error> {
        let mut found = Vec::new();
        for indices in QUOTED.chunks(AT_ONCE) {
            let command = Command::ReadRegisters { registers: indices };
            let body = self.run(&command)?;
            let values = wire::register_values(&body).ok_or(Error::Unsound(command.what()))?;
            if values.len() != indices.len() {
                return Err(Error::NoBank);
            }
            found.extend(indices.iter().zip(values).map(|(index, value)| Pcr { index: *index, sha256: Digest(value) }));
        }
        Ok(found)
    }

    /// What follows the header of the reply.
    fn run(&mut self, command: &Command<'_>) -> Result<Vec<u8>, Error> {
        let reply = (self.exchange)(&command.encode())?;
        wire::body(&reply).map(<[u8]>::to_vec).map_err(|code| match code {
            wire::UNSOUND => Error::Unsound(command.what()),
            code => Error::Refused { what: command.what(), code },
        })
    }
}

/// Parameters of a reply with sessions: exactly as long as the reply says.
fn parameters(body: &[u8]) -> Option<Reader<'_>> {
    let mut reader = Reader(body);
    let len = u32::from_be_bytes(reader.array()?);
    reader.bytes(usize::try_from(len).ok()?).map(Reader)
}

/// Asks the TPM of the running system.
pub fn attest(root: &crate::Root, request: &AttestRequest) -> Result<AttestReply, Error> {
    let names = root.list("/sys/class/tpm");
    let name = names.into_iter().find(|name| name.starts_with("tpm")).ok_or(Error::NoTpm)?;
    if root.attribute(format!("/sys/class/tpm/{name}/tpm_version_major")).as_deref() == Some("1") {
        return Err(Error::Old(name));
    }
    let path = format!("/sys/kernel/security/{name}/binary_bios_measurements");
    let log = root.read(&path, attestation::MAX_LOG_BYTES);
    // Firmware may have none, and the file system may not be mounted.
    let log = log
        .inspect_err(|error| tracing::debug!(path, %error, "no log of what the firmware measured"))
        .unwrap_or_default();
    let mut device: Device = crate::ask::open_tpm(&name, kernel::tpm::MAKES_KEYS)?;
    prove(&mut |command| kernel::tpm::exchange(&mut device, command), request, log)
}

/// Reads the bytes as every reply that is read here.
pub(crate) fn fuzz(bytes: &[u8]) {
    let request = AttestRequest {
        nonce: Digest([1; 32]),
        credential: Some(api::attest::Credential { blob: Bytes(vec![1]), secret: Bytes(vec![2]) }),
    };
    let mut left = 64_u8;
    let mut rest = Reader(bytes);
    let mut exchange = |_: &[u8]| {
        left = left.checked_sub(1).ok_or(io::ErrorKind::UnexpectedEof)?;
        let [len] = rest.array().ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(rest.bytes(len.into()).unwrap_or_default().to_vec())
    };
    let _ = prove(&mut exchange, &request, Vec::new());
}
