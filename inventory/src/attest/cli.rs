//! `landfall attest`: what the TPM proves, by hand and as the child process of an agent's step.

use super::attest;
use crate::Root;
use anyhow::{Context, bail};
use api::attest::{AttestRequest, Digest};
use kernel::hex;
use std::io::{Read, Write, stdin, stdout};

/// A request has a nonce and a credential.
const MAX_REQUEST_BYTES: u64 = 64 << 10;

/// Let the TPM prove what was booted: a quote of its registers over a nonce, and the firmware's log
///
/// Makes the endorsement key and an attestation key in the TPM, and removes both again. Nothing in the TPM is stored or changed. Prints one
/// JSON object: keys, certificate, quote, signature, registers, log. `landfall serve --attest` asks hosts for it.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = r#"Examples:
  landfall attest --nonce $(openssl rand -hex 32) --json | jq .evidence.pcrs
  landfall attest --request - --json <request.json"#)]
#[group(required = true, multiple = false, id = "what")]
pub struct Attest {
    /// The nonce: 64 hexadecimal digits
    #[arg(long, value_name = "HEX")]
    nonce: Option<String>,
    /// Read the request, a JSON object with a nonce and perhaps a credential, from standard input
    #[arg(long, value_name = "-")]
    request: Option<String>,
    /// Print JSON; there is no other form
    #[arg(long, group = "form")]
    json: bool,
}

impl Attest {
    /// Runs the subcommand.
    pub fn run(self) -> anyhow::Result<()> {
        let request = self.request()?;
        let reply = attest(&Root::open("/")?, &request)?;
        let text = serde_json::to_string(&reply)?;
        let mut out = stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).context("cannot print the evidence")
    }

    fn request(&self) -> anyhow::Result<AttestRequest> {
        if let Some(nonce) = &self.nonce {
            let nonce = hex::parse(nonce)
                .context("--nonce must be 64 hexadecimal digits, such as `openssl rand -hex 32` prints")?;
            return Ok(AttestRequest { nonce: Digest(nonce), credential: None });
        }
        if self.request.as_deref() != Some("-") {
            bail!("--request must be '-': requests are read from standard input");
        }
        let mut text = Vec::new();
        stdin().lock().take(MAX_REQUEST_BYTES).read_to_end(&mut text).context("cannot read the request")?;
        serde_json::from_slice(&text).context("the request is not that of an attestation")
    }
}
