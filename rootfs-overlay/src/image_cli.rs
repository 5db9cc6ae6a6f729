//! `landfall image`.

use crate::bake::program;
use crate::oci::{self, Purpose};
use crate::overlay_cli::Overlay;
use anyhow::{Context, ensure};
use clap::{Args, Subcommand};
use std::{
    fs::File,
    io::{BufWriter, Write, stdout},
    path::{Path, PathBuf},
};

/// Create images of this program, and parts for image builders
#[derive(Debug, Args)]
pub struct Image {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Oci(Oci),
    Overlay(Overlay),
}

impl Image {
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Oci(oci) => oci.run(),
            Command::Overlay(overlay) => overlay.run(),
        }
    }
}

/// Write the container image of agent, service or controller as an OCI archive
///
/// The image contains one program. In the agent's image it has its own name, cp, and the names that the assisted-installer
/// service starts (agent, next_step_runner, inventory, free_addresses, disk_speed_check, logs_sender). The service's image starts
/// `landfall serve` as an unprivileged user, with its state in the volume /var/lib/landfall, on port 8090, with tokens
/// (--auth local). The controller's image starts assisted-installer-controller as an unprivileged user; services run operators'
/// scripts in this image by the name bash, which is refused. An image has neither a shell nor CA certificates: agent and controller
/// trust the host's, if they can see the host's files, and the given CA file; the service those in SSL_CERT_FILE. The same program
/// and SOURCE_DATE_EPOCH (seconds since 1970, default 0) give the same bytes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  landfall image oci --output landfall-agent.oci.tar
  skopeo copy oci-archive:landfall-agent.oci.tar \\
    docker://registry.example.com/landfall-agent:1.0
  podman load -i landfall-agent.oci.tar
  landfall image oci --for serve --output landfall-serve.oci.tar
  landfall image oci --for controller --output landfall-controller.oci.tar")]
struct Oci {
    /// Archive to write; an existing one is replaced
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Purpose of its containers
    #[arg(long = "for", value_name = "PURPOSE", value_enum, default_value_t = Purpose::Agent)]
    purpose: Purpose,
    /// Static program for the image [default: this one; for the agent, the
    /// landfall-host installed with it, if there is one]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Name and tag in the archive [default: localhost/landfall-PURPOSE:VERSION]
    #[arg(long, value_name = "REF")]
    name: Option<String>,
    /// Entry point of its containers: 'installer' for an installer image. Without this option containers start the agent by
    /// default, or the given command, as in the agent's units
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(api::image::AGENT_LINKS))]
    entrypoint: Option<String>,
    /// Creation time in the image, seconds since 1970
    #[arg(long, value_name = "SECONDS", env = "SOURCE_DATE_EPOCH", default_value_t = 0)]
    created: u64,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

impl Oci {
    fn run(self) -> anyhow::Result<()> {
        ensure!(
            self.entrypoint.is_none() || self.purpose == Purpose::Agent,
            "--entrypoint is for agent images only: the others have their own"
        );
        let version = env!("CARGO_PKG_VERSION");
        let purpose = match self.purpose {
            Purpose::Agent => "agent",
            Purpose::Serve => "serve",
            Purpose::Controller => "controller",
        };
        let image = oci::Image {
            program: self.binary.unwrap_or_else(|| match self.purpose {
                Purpose::Agent => program::for_images(),
                Purpose::Serve | Purpose::Controller => program::RUNNING.into(),
            }),
            purpose: self.purpose,
            reference: self.name.unwrap_or_else(|| format!("localhost/landfall-{purpose}:{version}")),
            version: version.to_owned(),
            entrypoint: self.entrypoint,
            created_s: self.created,
            created: rfc3339(self.created)?,
        };
        let directory = self.output.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        let failed = || format!("cannot write {}", self.output.display());
        let draft = tempfile::NamedTempFile::new_in(directory).with_context(failed)?;
        let written = oci::write(&image, BufWriter::new(draft.as_file()))?;
        set_mode(draft.as_file()).with_context(failed)?;
        draft.persist(&self.output).with_context(failed)?;
        let oci::Written { digest, architecture, layer_bytes } = written;
        let line = if self.json {
            serde_json::json!({"schema": 1, "digest": digest, "architecture": architecture, "layer_bytes": layer_bytes})
                .to_string()
        } else {
            let size = kernel::units::binary(layer_bytes);
            format!("{}: {} for {architecture}, {size}, {digest}", self.output.display(), image.reference)
        };
        writeln!(stdout(), "{line}").context("cannot write to standard output")
    }
}

/// Mode 0644, like any file.
fn set_mode(file: &File) -> std::io::Result<()> {
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
}

fn rfc3339(seconds: u64) -> anyhow::Result<String> {
    let seconds = i64::try_from(seconds).context("SOURCE_DATE_EPOCH is too large for a date")?;
    let time =
        time::OffsetDateTime::from_unix_timestamp(seconds).context("SOURCE_DATE_EPOCH is too large for a date")?;
    Ok(time.format(&time::format_description::well_known::Rfc3339)?)
}
