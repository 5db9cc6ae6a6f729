//! `iso bake`, `pxe bake`.

use super::{note, print};
use crate::bake::content::LIVE_PROGRAM;
use crate::bake::initrd::InitrdFile;
use crate::bake::iso::IsoFile;
use crate::bake::manifest::Manifest;
use crate::bake::os_image::{LIVE_PATH, OsImage};
use crate::bake::splice::{Piece, total, write};
use crate::bake::{CONTENT, OverlayOptions};
use crate::output::Output;
use anyhow::{Context, bail, ensure};
use clap::Args;
use kernel::units::binary;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Put landfall into a CoreOS-style live ISO that doesn't have it
///
/// Adds the program, its units and its configuration without unpacking the root file system: the initrd gets a fragment that
/// Ignition merges below the config of the embed area. That config and kernel arguments keep working. Baking again replaces what
/// was baked in before; --remove restores the original image byte for byte; --check prints what was baked in.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  landfall iso bake live.iso -o discovery.iso \\
    --url https://service.example.com --infra-env-id 5a1e… --cacert ca.pem
  landfall iso bake live.iso -o rack.iso --rendezvous ./rack \\
    --config agent.toml --image metal.raw.xz
  landfall iso bake --check discovery.iso
  landfall iso bake --remove discovery.iso -o live.iso

The image grows by a copy of its initrd and what is baked in. It stays a disk image: its partition tables are updated. A checksum \
inside the image (checkisomd5) becomes invalid, and `iso extract minimal-iso` must precede baking. IBM Z boots differently: use \
`pxe bake` there.")]
pub struct IsoBake {
    #[command(flatten)]
    common: Common,
    /// OS image to add to the medium, as /run/media/iso/images/landfall.img; a plan's rendezvous host installs it
    #[arg(help_heading = CONTENT, long, value_name = "FILE", conflicts_with_all = ["check", "remove"])]
    image: Option<PathBuf>,
    /// Live ISO
    #[arg(value_name = "ISO")]
    input: PathBuf,
}

/// Put landfall into a CoreOS-style initrd that boots from the network
///
/// The same as `iso bake`, for the initrd of a PXE boot. The kernel arguments must include ignition.firstboot and
/// ignition.platform.id=metal. Baking again keeps what was appended to the initrd in between.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  landfall pxe bake live-initramfs.img -o discovery.img \\
    --url https://service.example.com --infra-env-id 5a1e…
  landfall pxe bake --check discovery.img")]
pub(super) struct PxeBake {
    #[command(flatten)]
    common: Common,
    /// Initrd
    #[arg(value_name = "INITRD")]
    input: PathBuf,
}

#[derive(Debug, Args)]
struct Common {
    /// Write to a new file, or to standard output with -
    #[arg(short, long, value_name = "path", required_unless_present = "check")]
    output: Option<PathBuf>,
    /// Print what was baked in; exits with 1 if nothing was
    #[arg(long, conflicts_with_all = ["output", "remove"])]
    check: bool,
    /// Remove what was baked in
    #[arg(long)]
    remove: bool,
    /// With --check: as JSON; null if nothing was baked in
    #[arg(long, requires = "check")]
    json: bool,
    #[command(flatten)]
    overlay: OverlayOptions,
}

impl IsoBake {
    pub(super) fn image(&self) -> &Path {
        &self.input
    }

    pub(super) fn run(self) -> anyhow::Result<()> {
        let iso = IsoFile::open(&self.input)?;
        let common = self.common.checked()?;
        if common.check {
            return check(iso.manifest(), &self.input, common.json);
        }
        let image = self.image.as_deref().map(OsImage::open).transpose()?;
        let image_path = image.as_ref().map(|_| LIVE_PATH);
        let pieces = match common.remove {
            true => iso.removed()?,
            false => iso.baked(&common.overlay.read(image_path)?, image.as_ref())?,
        };
        finish(common.output.as_deref(), &pieces, iso.base_bytes())
    }
}

impl PxeBake {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let initrd = InitrdFile::open(&self.input)?;
        let common = self.common.checked()?;
        if common.check {
            return check(initrd.manifest(), &self.input, common.json);
        }
        let pieces = if common.remove { initrd.removed()? } else { initrd.baked(&common.overlay.read(None)?)? };
        finish(common.output.as_deref(), &pieces, initrd.base_bytes())
    }
}

impl Common {
    /// Refuses what cannot be done, before anything is.
    fn checked(self) -> anyhow::Result<Self> {
        let exists = self.output.as_deref().filter(|path| *path != Path::new("-") && path.symlink_metadata().is_ok());
        if let Some(path) = exists {
            bail!("{} exists: remove it, or give another --output", path.display());
        }
        let is_reading = self.check || self.remove;
        ensure!(!is_reading || self.overlay.is_empty(), "--check and --remove take no options about what to bake in");
        Ok(self)
    }
}

/// Writes the image, and prints by how much it grew.
fn finish(output: Option<&Path>, pieces: &[Piece<'_>], base_bytes: u64) -> anyhow::Result<()> {
    let path = output.context("--output is missing: give the file to write")?;
    write(&Output::from_path(Some(path)), pieces)?;
    let all = total(pieces);
    let (size, path) = (binary(all), path.display());
    match all.saturating_sub(base_bytes) {
        0 => note(&format!("{path}: {size}, as before anything was baked in")),
        added => note(&format!("{path}: {size}, of which {} were added", binary(added))),
    }
    Ok(())
}

/// Prints a manifest.
fn check(manifest: Option<&Manifest>, path: &Path, json: bool) -> anyhow::Result<()> {
    if json {
        let mut value = api::json::to_value(manifest).context("writing JSON")?;
        // The undo data is internal.
        if let Some(fields) = value.as_object_mut() {
            fields.remove("iso");
        }
        let mut text = serde_json::to_string_pretty(&value).context("writing JSON")?;
        text.push('\n');
        print(text.as_bytes())?;
    }
    match manifest {
        None => bail!("nothing was baked into {}", path.display()),
        Some(manifest) if !json => print(described(manifest).as_bytes()),
        Some(_) => Ok(()),
    }
}

/// For people.
fn described(manifest: &Manifest) -> String {
    let program = &manifest.program;
    let mut text = String::new();
    // Writing to memory can't fail.
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<12}{value}");
    };
    line("program", LIVE_PROGRAM);
    line("version", program.version.as_deref().unwrap_or("unknown"));
    line("processor", &program.architecture);
    line("SHA-256", &program.sha256);
    line("service", manifest.service_url.as_deref().unwrap_or("none"));
    line("rendezvous", if manifest.rendezvous { "a rack plan" } else { "no plan" });
    line("units", if manifest.units.is_empty() { "none".to_owned() } else { manifest.units.join(" ") }.as_str());
    if let Some(image) = &manifest.image {
        line("OS image", &format!("{} ({})", image.path, binary(image.bytes)));
    }
    for file in &manifest.files {
        line("file", &format!("{} {:>10} {}", file.mode, file.bytes, file.path));
    }
    line("baked by", &format!("landfall {}", manifest.landfall_version));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bake::program::sample;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        bake: PxeBake,
    }

    #[test]
    fn a_command_line_bakes_checks_and_removes() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let run = |words: &str| {
            let named = |word: &str| word.strip_prefix('@').map_or_else(|| word.to_owned(), path);
            let words = std::iter::once("bake".to_owned()).chain(words.split(' ').map(named));
            match Line::try_parse_from(words) {
                Ok(line) => line.bake.run().map_err(|error| format!("{error:#}")),
                Err(error) => Err(error.to_string()),
            }
        };
        std::fs::write(path("base"), crate::initrd::Archive::new().to_cpio().unwrap()).unwrap();
        std::fs::write(path("program"), sample(1, 62)).unwrap();
        std::fs::write(path("dynamic"), sample(3, 62)).unwrap();
        std::fs::write(path("empty"), "").unwrap();
        let env = "--url http://a --infra-env-id 5f8c6ef1-4b5a-4c3c-9a3e-0a6b5d3c2b1a";
        assert_eq!(run(&format!("@base -o @baked --binary @program {env}")), Ok(()));
        assert_eq!(run("--check @baked"), Ok(()));
        assert_eq!(run("--check --json @baked"), Ok(()));
        assert_eq!(run("--remove @baked -o @removed"), Ok(()));
        assert_eq!(std::fs::read(path("removed")).unwrap(), std::fs::read(path("base")).unwrap());
        for (words, expected) in [
            ("--check @base", "nothing was baked into"),
            ("--remove @base -o @x", "nothing was baked into"),
            ("@base", "--output"),
            ("@base -o @baked --binary @program", "exists: remove it, or give another --output"),
            ("@base -o @x --binary @dynamic", "dynamically linked"),
            ("@base -o @x --binary @program --url http://a", "--infra-env-id"),
            ("--remove @baked -o @x --no-agent", "take no options about what to bake in"),
            ("@base -o @x --binary @program --cacert @empty", "has no PEM certificate"),
            (&format!("@base -o @x --binary @program --token-file @empty {env}"), "the file is empty"),
            ("@program -o @x", "it does not start like an initrd"),
        ] {
            let error = run(words).unwrap_err();
            assert!(error.contains(expected), "{words}: {error}");
            assert!(!Path::new(&path("x")).exists(), "{words}");
        }
    }
}
