//! `dev` and `pack`: what image builds and developers use.

use super::extract::open_iso;
use super::pxe;
use super::{network::write_new, note, print};
use crate::area::LiveIso;
use crate::initrd::{Archive, Names, scan};
use crate::iso9660::{Descriptor, Iso, Record};
use crate::miniso::MINISO_PATH;
use crate::miniso::{self, Data, Statistics};
use crate::output::apply;
use crate::patched::Patch;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use diskwrite::{Copy, InstallOptions, Osmet, Packing, Source};
use kernel::order::Gather;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, create_dir_all};
use std::io::BufReader;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The version in descriptions of minimal ISOs: that of the program whose format it is.
const APP_VERSION: &str = "0.27.0";

/// Inspect images and initrds; for developers, may change at any time
#[derive(Debug, Args)]
pub struct Dev {
    #[command(subcommand)]
    command: DevCommand,
}

#[derive(Debug, Subcommand)]
enum DevCommand {
    /// Print the structure of an image or a file
    #[command(subcommand)]
    Show(DevShow),
    /// Extract the parts of an image
    #[command(subcommand)]
    Extract(DevExtract),
}

#[derive(Debug, Subcommand)]
enum DevShow {
    Iso(ShowIso),
    Initrd(ShowInitrd),
    Fiemap(ShowFiemap),
}

#[derive(Debug, Subcommand)]
enum DevExtract {
    Osmet(ExtractOsmet),
    Initrd(ExtractInitrd),
}

impl Dev {
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            DevCommand::Show(DevShow::Iso(iso)) => iso.run(),
            DevCommand::Show(DevShow::Initrd(initrd)) => initrd.run(),
            DevCommand::Show(DevShow::Fiemap(fiemap)) => fiemap.run(),
            DevCommand::Extract(DevExtract::Osmet(osmet)) => osmet.run(),
            DevCommand::Extract(DevExtract::Initrd(initrd)) => initrd.run(),
        }
    }
}

/// Steps of an image build: prepare the parts of a live ISO
#[derive(Debug, Args)]
pub struct Pack {
    #[command(subcommand)]
    command: PackCommand,
}

#[derive(Debug, Subcommand)]
enum PackCommand {
    #[cfg(feature = "pack-osmet")]
    Osmet(super::osmet::PackOsmet),
    /// Pack a disk for offline installation (only in the full program)
    #[cfg(not(feature = "pack-osmet"))]
    Osmet(NotHere),
    MinimalIso(PackMinimalIso),
}

impl Pack {
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            PackCommand::Osmet(osmet) => osmet.run(),
            PackCommand::MinimalIso(minimal_iso) => minimal_iso.run(),
        }
    }
}

/// Any arguments of a command that this build lacks.
#[cfg(not(feature = "pack-osmet"))]
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
struct NotHere {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _words: Vec<std::ffi::OsString>,
}

#[cfg(not(feature = "pack-osmet"))]
impl NotHere {
    fn run(self) -> anyhow::Result<()> {
        bail!("'pack osmet' is not in the host's program: use the full program, landfall")
    }
}

/// Print the volume descriptors and paths of an ISO as JSON
#[derive(Debug, Args)]
struct ShowIso {
    /// Print offset and length of the area for an Ignition config instead
    #[arg(long, conflicts_with = "kargs")]
    ignition: bool,
    /// Print the locations and the default of the kernel arguments instead
    #[arg(long, conflicts_with = "ignition")]
    kargs: bool,
    /// The ISO
    #[arg(value_name = "ISO")]
    input: PathBuf,
}

/// The content of an ISO.
#[derive(Serialize)]
struct Contents<'a> {
    header: Header<'a>,
    records: Vec<String>,
}

#[derive(Serialize)]
struct Header<'a> {
    descriptors: &'a [Descriptor],
}

/// Where the embed area is.
#[derive(Serialize)]
struct Area {
    offset: u64,
    length: u64,
}

impl ShowIso {
    fn run(self) -> anyhow::Result<()> {
        if self.ignition {
            let extent = LiveIso::open(self.input)?.area().extent;
            return print_json(&Area { offset: extent.offset, length: extent.len });
        }
        if self.kargs {
            return print_json(&LiveIso::open(self.input)?.kargs_if_any());
        }
        let mut iso = open_iso(&self.input)?;
        let walked = iso.walk().context("while walking ISO filesystem")?;
        let records = walked.into_iter().map(|(path, _)| path).collect();
        print_json(&Contents { header: Header { descriptors: iso.descriptors() }, records })
    }
}

/// Print the extents of a file on its device as JSON
#[derive(Debug, Args)]
struct ShowFiemap {
    /// A file, on a file system that reports extents
    #[arg(value_name = "PATH")]
    path: PathBuf,
}

/// Where a file is.
#[derive(Serialize)]
struct Mapping {
    extents: Vec<diskwrite::Extent>,
}

impl ShowFiemap {
    fn run(self) -> anyhow::Result<()> {
        let file = File::open(&self.path).with_context(|| format!("opening {:?}", self.path))?;
        let extents = diskwrite::extents(&file).with_context(|| format!("mapping {:?}", self.path))?;
        print_json(&Mapping { extents })
    }
}

/// Rebuild a disk image on a device from a repository of its files
///
/// The osmet file maps bytes of the image to files in the OSTree repository, and contains all other bytes.
#[derive(Debug, Args)]
struct ExtractOsmet {
    /// The image's osmet file
    #[arg(long, value_name = "PATH")]
    osmet: PathBuf,
    /// The OSTree repository, as it was in the image
    #[arg(value_name = "PATH")]
    repo: PathBuf,
    /// Block device to write to; what is on it is destroyed
    #[arg(value_name = "DEV")]
    device: PathBuf,
}

impl ExtractOsmet {
    fn run(self) -> anyhow::Result<()> {
        let device = OpenOptions::new().write(true).open(&self.device);
        let device = device.with_context(|| format!("opening {:?}", self.device))?;
        if !device.metadata().with_context(|| format!("opening {:?}", self.device))?.file_type().is_block_device() {
            bail!("{:?} is not a block device", self.device);
        }
        let image = Osmet::read(self.osmet, self.repo)?;
        let options = InstallOptions { source: Source::Osmet(image), ..InstallOptions::default() };
        // Its own sum vouches for it.
        Copy::open(&options, None, Packing::AsItComes)?.write(Some(&device), &mut |_| ())?;
        Ok(())
    }
}

fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut json = serde_json::to_vec_pretty(value).context("failed to serialize ISO metadata")?;
    json.push(b'\n');
    print(&json)
}

/// List the paths of an initrd
#[derive(Debug, Args)]
struct ShowInitrd {
    /// The initrd; - is standard input
    #[arg(value_name = "initrd")]
    input: PathBuf,
    /// Patterns of the paths to list [default: all]
    #[arg(value_name = "glob")]
    filter: Vec<String>,
}

impl ShowInitrd {
    fn run(self) -> anyhow::Result<()> {
        let archive = read_initrd(&self.input, Names::new(&self.filter)?)?;
        let names: String = archive.members().map(|(name, _)| format!("{name}\n")).collect();
        print(names.as_bytes())
    }
}

/// Unpack an initrd
#[derive(Debug, Args)]
struct ExtractInitrd {
    /// Output directory; created if missing
    #[arg(short = 'C', long, value_name = "path", default_value = ".")]
    directory: PathBuf,
    /// Print each path that is written
    // Counted because `landfall` counts its own, which logs more.
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// The initrd; - is standard input
    #[arg(value_name = "initrd")]
    input: PathBuf,
    /// Patterns of the paths to unpack [default: all]
    #[arg(value_name = "glob")]
    filter: Vec<String>,
}

impl ExtractInitrd {
    fn run(self) -> anyhow::Result<()> {
        // Nothing is written before all names are checked.
        let archive = read_initrd(&self.input, Names::new(&self.filter)?.into_extracted())?;
        for (name, _) in archive.members() {
            let path = self.directory.join(name);
            if self.verbose > 0 {
                print(format!("{}\n", path.display()).as_bytes())?;
            }
            let parent = path.parent().with_context(|| format!("finding parent of {}", path.display()))?;
            create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
            write_new(&path, archive.get(name).unwrap_or_default())?;
        }
        Ok(())
    }
}

fn read_initrd(path: &Path, names: Names) -> anyhow::Result<Archive> {
    let path = Some(path).filter(|path| *path != Path::new("-"));
    scan(pxe::open(path)?, &names).context("decoding initrd")
}

/// Store in a live ISO what `iso extract minimal-iso` needs
///
/// Both ISOs must be from the same build. Common content is not stored twice.
#[derive(Debug, Args)]
struct PackMinimalIso {
    /// The live ISO, which is changed in place
    #[arg(value_name = "FULL_ISO")]
    full: PathBuf,
    /// The minimal ISO of the same build
    #[arg(value_name = "MINIMAL_ISO")]
    minimal: PathBuf,
    /// Remove the minimal ISO once it is stored
    #[arg(long)]
    consume: bool,
}

impl PackMinimalIso {
    fn run(self) -> anyhow::Result<()> {
        let open = |path: &Path, write| {
            let file = OpenOptions::new().read(true).write(write).open(path);
            file.with_context(|| format!("opening {}", path.display()))
        };
        let mut full_file = open(&self.full, true)?;
        let mut full = Iso::open(BufReader::new(full_file.try_clone().context("cloning file")?))?;
        let mut minimal_file = open(&self.minimal, false)?;
        let mut minimal = Iso::open(BufReader::new(minimal_file.try_clone().context("cloning file")?))?;
        let full_files = files(&mut full, &self.full)?;
        let minimal_files = files(&mut minimal, &self.minimal)?;

        note("Packing minimal ISO");
        let packed = Data::pack(&mut minimal_file, &full_files, &minimal_files);
        let (data, Statistics { matches, skipped_bytes, written_bytes, packed_bytes }) =
            packed.context("packing miniso")?;
        note(&format!("Matched {matches} files of {}", minimal_files.len()));
        note(&format!("Total bytes skipped: {skipped_bytes}"));
        note(&format!("Total bytes written: {written_bytes}"));
        note(&format!("Total bytes written (compressed): {packed_bytes}"));
        note("Verifying that packed image matches digest");
        data.unpack(&mut full_file, std::io::sink()).context("unpacking miniso for verification")?;

        let looking = || format!("looking up '{MINISO_PATH}'");
        let record = full.get(MINISO_PATH).with_context(looking)?;
        let extent = full.find(MINISO_PATH)?;
        let bytes = data.encode(APP_VERSION).context("writing miniso data file")?;
        if !u64::try_from(bytes.len()).is_ok_and(|len| len <= extent.len) {
            let conflict = miniso::collision(&format!("end of file {}", record.name), extent.len);
            return Err(conflict).context("failed to serialize data").context("writing miniso data file");
        }
        apply(&full_file, &[Patch { offset: extent.offset, bytes }])?;
        if self.consume {
            let consuming = || format!("consuming {}", self.minimal.display());
            std::fs::remove_file(&self.minimal).with_context(consuming)?;
        }
        note("Packing successful!");
        Ok(())
    }
}

/// All files of an ISO by their paths.
fn files(iso: &mut Iso<BufReader<File>>, path: &Path) -> anyhow::Result<BTreeMap<String, Record>> {
    let walked = iso.walk().context("while walking ISO filesystem");
    let walked = walked.with_context(|| format!("collecting files from {}", path.display()))?;
    let files: BTreeMap<String, Record> = walked.into_iter().filter(|(_, record)| !record.is_directory).gather();
    if files.is_empty() {
        bail!("No files found in {}", path.display());
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::newc;

    #[test]
    fn an_initrd_that_leads_out_of_the_directory_is_refused() {
        for name in ["../evil", "a/../../evil", "/evil"] {
            let dir = tempfile::tempdir().unwrap();
            let mut bytes = Vec::new();
            newc::append(&mut bytes, 1, newc::REGULAR | 0o644, "a/good", b"x").unwrap();
            newc::append(&mut bytes, 2, newc::REGULAR | 0o644, name, b"x").unwrap();
            newc::finish(&mut bytes);
            let input = dir.path().join("initrd");
            std::fs::write(&input, bytes).unwrap();
            let directory = dir.path().join("out");
            let extract = |filter: &[&str]| ExtractInitrd {
                directory: directory.clone(),
                verbose: 0,
                input: input.clone(),
                filter: filter.iter().map(|glob| (*glob).to_owned()).collect(),
            };
            let error = format!("{:#}", extract(&[]).run().unwrap_err());
            assert_eq!(error, format!("decoding initrd: path {name} contains path traversal"));
            assert!(!directory.exists());
            // What is not asked for does no harm.
            extract(&["a/good"]).run().unwrap();
            assert_eq!(std::fs::read(directory.join("a/good")).unwrap(), b"x");
        }
    }
}
