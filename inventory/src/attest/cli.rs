//! `landfall attest`: what the TPM proves, by hand and as the child process of an agent's step.

use super::attest;
use crate::Root;
use anyhow::Context;
use api::attest::{AttestRequest, Digest};
use kernel::hex;
use std::{
    fs::File,
    io::{Read, Write, stdin, stdout},
    path::PathBuf,
};

/// A request has a nonce and a credential.
const MAX_REQUEST_BYTES: u64 = 64 << 10;

/// Prove what was booted: the TPM's signed registers over a nonce, and the firmware's log
///
/// Prints one JSON object: keys, certificate, quote, signature, registers, log. Makes an endorsement key and an attestation key in the TPM,
/// and removes both afterwards; the TPM stores nothing. `landfall serve --attest` asks hosts for this proof.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = r#"Examples:
  landfall attest --nonce $(openssl rand -hex 32) --json | jq .evidence.pcrs
  landfall attest --request - --json <request.json"#)]
pub struct Attest {
    /// The nonce: 64 hexadecimal digits
    #[arg(long, value_name = "HEX", required_unless_present = "request", conflicts_with = "request")]
    nonce: Option<String>,
    /// A service's request, a JSON object; '-' is standard input
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// Print JSON, the only form
    #[arg(long)]
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
        let path = self.request.as_deref().context("--nonce or --request is missing")?;
        let file: Box<dyn Read> = match path.to_str() {
            Some("-") => Box::new(stdin().lock()),
            _ => Box::new(File::open(path).with_context(|| format!("cannot read {}", path.display()))?),
        };
        let mut text = Vec::new();
        file.take(MAX_REQUEST_BYTES).read_to_end(&mut text).context("cannot read the request")?;
        serde_json::from_slice(&text).context("the request is not that of an attestation")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        attest: Attest,
    }

    #[test]
    fn a_nonce_or_a_request_is_wanted() {
        let parse = |words: &[&str]| Cli::try_parse_from([&["attest"], words].concat()).map(|cli| cli.attest);
        let nonce = "5a".repeat(32);
        let asked = parse(&["--nonce", &nonce, "--json"]).unwrap().request().unwrap();
        assert_eq!(asked, AttestRequest { nonce: Digest([0x5a; 32]), credential: None });
        assert!(parse(&["--request", "-", "--json"]).is_ok());
        assert!(parse(&["--json"]).is_err() && parse(&["--nonce", &nonce, "--request", "-"]).is_err());
        let short = parse(&["--nonce", "5a"]).unwrap().request().unwrap_err().to_string();
        assert!(short.starts_with("--nonce must be 64 hexadecimal digits"), "{short}");
        assert!(parse(&["--request", "/nonexistent"]).unwrap().request().is_err());
    }
}
