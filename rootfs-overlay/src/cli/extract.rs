//! `iso extract`.

use super::print;
use crate::area::LiveIso;
use crate::iso9660::{Extent, Iso};
use crate::miniso::{self, MINISO_PATH};
use crate::output::{Output, OutputError, Unfinished, stdout};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use std::fs::{File, OpenOptions, create_dir_all};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The directory with kernel, initramfs and root file system.
const PXEBOOT_PATH: &str = "IMAGES/PXEBOOT";
const ROOTFS_PATH: &str = "IMAGES/PXEBOOT/ROOTFS.IMG";

/// Extract parts of a live ISO
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  landfall iso extract pxe -o pxe live.iso
  landfall iso extract minimal-iso --output-rootfs rootfs.img \\
    --rootfs-url https://mirror.example/rootfs.img live.iso minimal.iso")]
pub enum Extract {
    Pxe(ExtractPxe),
    MinimalIso(ExtractMinimalIso),
}

impl Extract {
    pub(super) fn image(&self) -> &Path {
        match self {
            Self::Pxe(pxe) => &pxe.input,
            Self::MinimalIso(minimal_iso) => &minimal_iso.input,
        }
    }

    pub(super) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Pxe(pxe) => pxe.run(),
            Self::MinimalIso(minimal_iso) => minimal_iso.run(),
        }
    }
}

/// Extract the files that boot the live system from the network
///
/// These are kernel, initramfs and root file system, each named after the ISO. Files that exist are not overwritten.
#[derive(Debug, Args)]
pub struct ExtractPxe {
    /// The live ISO
    #[arg(value_name = "ISO")]
    input: PathBuf,
    /// Output directory; created if missing
    #[arg(short, long, value_name = "PATH", default_value = ".")]
    output_dir: PathBuf,
}

impl ExtractPxe {
    fn run(self) -> anyhow::Result<()> {
        let mut iso = open_iso(&self.input)?;
        let found = iso.directory(PXEBOOT_PATH);
        // A file in its place is another error.
        let directory = match found {
            Err(error) if error.is_absence() => return Err(error).context("Unrecognized CoreOS ISO image."),
            found => found?,
        };
        create_dir_all(&self.output_dir)?;
        let stem = self.input.file_stem().unwrap_or_default().to_string_lossy();
        let mut file = File::open(&self.input).with_context(|| format!("opening {}", self.input.display()))?;
        let records = iso.list(&directory)?;
        let mut names: Vec<&str> = records.iter().filter(|r| !r.is_directory).map(|r| r.name.as_str()).collect();
        // A large file has several records.
        names.dedup();
        for name in names {
            let extent = iso.find(&format!("{PXEBOOT_PATH}/{name}"))?;
            let path = self.output_dir.join(format!("{stem}-{}", name.to_lowercase()));
            print(format!("{}\n", path.display()).as_bytes())?;
            copy_out(&mut file, extent, &path)?;
        }
        Ok(())
    }
}

/// Write a small ISO that fetches its root file system
///
/// It boots like the full ISO; the live system fetches the rest over the network.
#[derive(Debug, Args)]
pub struct ExtractMinimalIso {
    /// The live ISO
    #[arg(value_name = "ISO")]
    input: PathBuf,
    /// Also write the root file system, to this new file
    #[arg(long, value_name = "PATH")]
    output_rootfs: Option<PathBuf>,
    /// Small ISO to write; - is standard output
    #[arg(value_name = "OUTPUT_ISO", default_value = "-")]
    output: PathBuf,
    /// URL of the root file system, for the small ISO to fetch
    #[arg(long, value_name = "URL")]
    rootfs_url: Option<String>,
}

impl ExtractMinimalIso {
    fn run(self) -> anyhow::Result<()> {
        let mut full = File::open(&self.input).with_context(|| format!("opening {}", self.input.display()))?;
        let clone = full.try_clone().context("cloning file")?;
        // It is opened first as any ISO, then as a live one.
        open_iso(&self.input)?;
        let mut live = LiveIso::from_file(clone)?;
        let kargs = live.kargs()?;
        if !live.archive().is_empty() || kargs.current() != kargs.default_arguments() {
            bail!(
                "Cannot operate on ISO with embedded customizations.\n\
                 Reset it with `coreos-installer iso reset` and try again."
            );
        }
        let output = Output::from_path(Some(&self.output));
        let mut out = match output {
            Output::Stdout => Some(stdout()?),
            _ if self.output.parent().is_none() => {
                return Err(OutputError::NoParent { path: self.output }.into());
            }
            _ => None,
        };
        if let Some(path) = &self.output_rootfs {
            let extent = live.iso().find(ROOTFS_PATH).with_context(|| format!("looking up '{ROOTFS_PATH}'"))?;
            copy_out(&mut full, extent, path)?;
        }
        let data = match live.iso().read_file(MINISO_PATH, miniso::MAX_DATA_BYTES * 16) {
            Err(error) if error.is_absence() => {
                bail!("This ISO image does not support extracting a minimal ISO.")
            }
            data => data.with_context(|| format!("looking up '{MINISO_PATH}'"))?,
        };
        let data = miniso::Data::decode(&data).context("reading miniso data file")?;
        if let Some(out) = &mut out {
            let mut file = tempfile::tempfile().context("creating temporary file")?;
            miniso::unpack(&data, &mut full, &mut file, self.rootfs_url.as_deref())?;
            file.seek(SeekFrom::Start(0)).context("seeking back to start of miniso tempfile")?;
            io::copy(&mut file, out).context("writing output")?;
            return Ok(());
        }
        let mut unfinished = Unfinished::create(&self.output).map_err(bare)?;
        miniso::unpack(&data, &mut full, unfinished.file(), self.rootfs_url.as_deref())?;
        unfinished.finish().map_err(bare)
    }
}

/// Without saying which file it was.
fn bare(error: OutputError) -> anyhow::Error {
    match error {
        OutputError::Persist { source, .. } => source.into(),
        error => error.into(),
    }
}

pub(super) fn open_iso(path: &Path) -> anyhow::Result<Iso<BufReader<File>>> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    Ok(Iso::open(BufReader::new(file))?)
}

/// Copies a part of an image to a new file.
fn copy_out(image: &mut File, extent: Extent, path: &Path) -> anyhow::Result<()> {
    let out = OpenOptions::new().write(true).create_new(true).open(path);
    let mut out = out.with_context(|| format!("opening {}", path.display()))?;
    image.seek(SeekFrom::Start(extent.offset))?;
    let copied = io::copy(&mut Read::take(image, extent.len), &mut out)?;
    if copied < extent.len {
        bail!("the ISO image ended while copying {}", path.display());
    }
    Ok(())
}
