//! `landfall netcheck`: the checks by hand, and as the child processes of an agent's steps.
//!
//! Each reads the document of its step from `--request`, or a person's arguments, and prints a table for a
//! person, or with `--json` the step's reply.

mod dhcp;
mod dns;
mod doctor;
mod endpoint;
mod image;
mod lldp;
mod mesh;
mod ntp;
mod sweep;
mod tang;
mod upgrade;
mod vip;

pub use endpoint::Document;

use anyhow::{Context, bail};
use serde::Serialize;
use std::{
    fs::File,
    io::{Read, Write, stdin, stdout},
    path::Path,
    process::ExitCode,
};

/// A request for a thousand hosts is a few hundred KiB.
const MAX_REQUEST_BYTES: u64 = 16 << 20;

/// Check the network from this host.
///
/// Results go to stdout, as a table or with --json as JSON; everything else to stderr. Probes need root or the capability CAP_NET_RAW.
#[derive(clap::Args, Clone, Debug)]
pub struct Netcheck {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum Command {
    Dhcp(dhcp::Dhcp),
    Dns(dns::Dns),
    Doctor(doctor::Doctor),
    Endpoint(endpoint::Endpoint),
    Image(image::Image),
    Lldp(lldp::Lldp),
    Mesh(mesh::Mesh),
    Ntp(ntp::Ntp),
    Sweep(sweep::Sweep),
    Tang(tang::Tang),
    Upgrade(upgrade::Upgrade),
    Vip(vip::Vip),
}

impl Netcheck {
    /// Runs the subcommand. An error means that the check did not take place or its result could not be printed.
    pub fn run(self) -> anyhow::Result<Outcome> {
        let code = match self.command {
            Command::Dhcp(dhcp) => dhcp.run(),
            Command::Dns(dns) => dns.run(),
            Command::Doctor(doctor) => doctor.run(),
            Command::Endpoint(endpoint) => return endpoint.run(),
            Command::Image(image) => image.run(),
            Command::Lldp(lldp) => lldp.run(),
            Command::Mesh(mesh) => mesh.run(),
            Command::Ntp(ntp) => ntp.run(),
            Command::Sweep(sweep) => sweep.run(),
            Command::Tang(tang) => tang.run(),
            Command::Upgrade(upgrade) => upgrade.run(),
            Command::Vip(vip) => vip.run(),
        };
        code.map(Outcome::Done)
    }
}

/// What a subcommand ends with.
pub enum Outcome {
    Done(ExitCode),
    /// Something to be read and printed.
    Document(Document),
}

/// Prints a result: as a table, or with `--json`, which the agent gives, as one line of JSON.
fn print(json: bool, document: &impl Serialize, for_people: impl FnOnce() -> String) -> anyhow::Result<()> {
    let text = if json {
        let mut line = serde_json::to_string(document).context("cannot print the result")?;
        line.push('\n');
        line
    } else {
        for_people()
    };
    stdout().write_all(text.as_bytes()).context("cannot print the result")
}

/// Reads a step's document; `-` is standard input.
fn read_request(path: &Path) -> anyhow::Result<Vec<u8>> {
    let (reader, name): (Box<dyn Read>, _) = if path == Path::new("-") {
        (Box::new(stdin()), "standard input".to_owned())
    } else {
        let name = path.display().to_string();
        (Box::new(File::open(path).with_context(|| format!("cannot open the request {name}"))?), name)
    };
    let mut bytes = Vec::new();
    reader
        .take(MAX_REQUEST_BYTES + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read the request from {name}"))?;
    if u64::try_from(bytes.len())? > MAX_REQUEST_BYTES {
        bail!("the request from {name} is longer than {} MiB", MAX_REQUEST_BYTES >> 20);
    }
    Ok(bytes)
}
