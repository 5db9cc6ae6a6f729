//! What an installation would do, for `--dry-run`: the same checks of options and disk, no byte written.

use crate::boot::BootConfig;
use crate::boot::console::Console;
use crate::decode::{DecodeError, Format};
use crate::disk::{Disk, Geometry, Inspection};
use crate::ends::HEAD_BYTES;
use crate::filter::Filters;
use crate::flight;
use crate::gpt::FindError;
use crate::identity::DiskIdentity;
use crate::install::{DiskState, Failure, InstallError, fit};
use crate::options::{InstallOptions, NetworkPlace, Retries, Source};
use crate::own_source;
use crate::prepare::prepare;
use crate::probe::{PartitionContents, Signature};
use crate::saved::{Saved, SavedError, SavedPartition};
use crate::source::SourceError;
use crate::stream::{LOOK_AROUND, Message, Pump};
use crate::verify::signature_at;
use kernel::units::binary;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    fs::{self, File},
    os::unix::fs::FileTypeExt,
    path::Path,
};

/// One step of an installation; `step` names it in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    /// Compare the image's start with the disk.
    CheckImage {
        /// Sectors the image must be made for.
        sector_bytes: u32,
        /// Size it must not exceed.
        max_bytes: u64,
    },
    /// Leave these partitions alone, and only them in the tables until the image is complete.
    KeepPartitions {
        /// Which; their new numbers depend on the image.
        partitions: Vec<SavedPartition>,
    },
    /// Overwrite with zeros.
    Zero {
        /// First byte.
        offset: u64,
        len: u64,
    },
    /// Stream the image but its start.
    WriteImage {
        /// First byte.
        offset: u64,
    },
    /// Check the image's sum and signature.
    VerifyImage {
        /// Where its signature is looked for.
        signature: Option<String>,
        /// Whether there must be one.
        required: bool,
        /// Whether a SHA-256 was given, itself or in a file.
        sha256: bool,
    },
    /// Compare the disk with what was written.
    ReadBack,
    /// Put the Ignition config on the boot file system.
    WriteIgnition {
        /// Its size.
        bytes: usize,
    },
    /// Make the image one of another Ignition platform, with its kernel arguments and boot loader commands.
    SetPlatform { platform: String },
    /// Set the consoles of kernel and boot loader.
    SetConsoles {
        /// As the kernel writes them.
        consoles: Vec<String>,
    },
    /// Add kernel arguments to the first boot.
    AddFirstBootArguments { args: String },
    /// Change the kernel arguments.
    EditKernelArguments {
        /// Removed.
        delete: Vec<String>,
        /// Then added.
        append: Vec<String>,
    },
    /// Copy network keyfiles.
    CopyNetwork {
        files: Vec<String>,
        /// Where to.
        #[serde(default)]
        to: NetworkPlace,
    },
    /// Make the disk's GUID a random one, and put the backup table at the disk's end.
    NewDiskGuid,
    /// Write the image's start with the partition table.
    WriteTable {
        /// From byte 0.
        len: u64,
    },
    /// Make the kernel read the new table.
    ReadTable,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CheckImage { sector_bytes, max_bytes } => {
                let most = binary(*max_bytes);
                write!(f, "check that the image is for {sector_bytes}-byte sectors and has at most {most}")
            }
            Self::KeepPartitions { partitions } => {
                let list: Vec<_> = partitions.iter().map(|p| format!("{} (\"{}\")", p.number, p.name)).collect();
                write!(f, "retain only these in the partition table: {}", list.join(", "))
            }
            Self::Zero { offset, len } => write!(f, "zero {} at byte {offset}", binary(*len)),
            Self::WriteImage { offset } => write!(f, "write the image from byte {offset}"),
            Self::VerifyImage { signature, required, sha256 } => {
                f.write_str("check the image's ")?;
                if *sha256 {
                    f.write_str("SHA-256 and ")?;
                }
                let at = signature.as_deref().unwrap_or("nowhere");
                write!(f, "signature ({at}; {})", if *required { "required" } else { "if present" })
            }
            Self::ReadBack => f.write_str("read the disk back and compare"),
            Self::SetPlatform { platform } => write!(
                f,
                "set the Ignition platform to {platform}, with its kernel arguments and GRUB commands in place of metal's"
            ),
            Self::SetConsoles { consoles } => {
                write!(f, "set the consoles of kernel and GRUB to [{}]", consoles.join(" "))
            }
            Self::AddFirstBootArguments { args } => write!(f, "kernel arguments of the first boot: append [{args}]"),
            Self::NewDiskGuid => {
                f.write_str("give the disk a random GUID and put the backup partition table at its end")
            }
            Self::WriteIgnition { bytes } => {
                write!(f, "write ignition/config.ign ({}) to the boot file system", binary(flight::bytes(*bytes)))
            }
            Self::EditKernelArguments { delete, append } => {
                write!(f, "kernel arguments: remove [{}], append [{}]", delete.join(" "), append.join(" "))
            }
            Self::CopyNetwork { files, to } => {
                let to = match to {
                    NetworkPlace::Auto => "the initramfs, or to the boot file system if the image reads them there",
                    NetworkPlace::Boot => "the boot file system",
                    NetworkPlace::Initramfs => "the initramfs",
                };
                write!(f, "copy network keyfiles [{}] to {to}", files.join(" "))
            }
            Self::WriteTable { len } => write!(f, "write the image's first {}, with the partition table", binary(*len)),
            Self::ReadTable => f.write_str("make the kernel read the partition table"),
        }
    }
}

/// What becomes of something that is on the disk now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It is overwritten, or nothing leads to it any more.
    Goes,
    /// It is retained, as requested.
    Stays,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Goes => "goes",
            Self::Stays => "stays",
        })
    }
}

/// A partition that is on the disk now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OldPartition {
    /// What becomes of it.
    pub fate: Fate,
    #[serde(flatten)]
    pub contents: PartitionContents,
}

impl fmt::Display for OldPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PartitionContents { number, span, name, type_id, type_name, signatures } = &self.contents;
        write!(f, "{}: partition {number}", self.fate)?;
        if !name.is_empty() {
            write!(f, " '{name}'")?;
        }
        write!(f, ", {} at byte {}, type {}", binary(span.len), span.offset, type_name.as_ref().unwrap_or(type_id))?;
        signatures.iter().try_for_each(|signature| write!(f, ", {signature}"))
    }
}

/// The version of a [`Plan`]'s JSON form: one more with each change that old readers would misread.
pub const PLAN_SCHEMA: u32 = 2;

/// The plan of an installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// [`PLAN_SCHEMA`].
    pub schema: u32,
    /// The source without secrets.
    pub source: String,
    pub disk: Geometry,
    /// All its names.
    pub identity: DiskIdentity,
    /// What is on the whole disk now; all of it goes.
    pub signatures: Vec<Signature>,
    /// What partitions it has now.
    pub partitions: Vec<OldPartition>,
    /// Operating systems that seem to be on it.
    pub systems: Vec<String>,
    /// What to consider; none of it prevents the installation.
    pub warnings: Vec<String>,
    /// Why it will not be done; empty if it will.
    pub refusals: Vec<String>,
    pub steps: Vec<Step>,
}

impl Plan {
    /// Whether it would be refused.
    pub fn is_refused(&self) -> bool {
        !self.refusals.is_empty()
    }
}

impl fmt::Display for Plan {
    /// A report of some lines, for a terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { disk, identity, .. } = self;
        writeln!(f, "Disk {}: {identity}", disk.path.display())?;
        let (logical, physical) = (disk.sector_bytes, identity.physical_sector_bytes);
        writeln!(f, "  sectors of {logical} bytes, physically {physical}")?;
        for link in &identity.by_id {
            writeln!(f, "  /dev/disk/by-id/{link}")?;
        }
        for link in &identity.by_path {
            writeln!(f, "  /dev/disk/by-path/{link}")?;
        }
        if !self.systems.is_empty() {
            writeln!(f, "Appears to hold: {}", self.systems.join(", "))?;
        }
        if self.signatures.is_empty() && self.partitions.is_empty() {
            writeln!(f, "Nothing was recognized on it.")?;
        }
        for signature in &self.signatures {
            writeln!(f, "  {}: {signature}", Fate::Goes)?;
        }
        for partition in &self.partitions {
            writeln!(f, "  {partition}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "Warning: {warning}")?;
        }
        if self.is_refused() {
            for refusal in &self.refusals {
                writeln!(f, "Refused: {refusal}")?;
            }
            return Ok(());
        }
        writeln!(f, "Image {}:", self.source)?;
        self.steps.iter().zip(1u32..).try_for_each(|(step, number)| writeln!(f, "{number}. {step}"))
    }
}

/// Checks options, disk and the image's first MiB, and reports what [`install`](crate::install()) would do, or why not.
/// The disk is only read. A pipe is not, since it can be read only once; a server gets one request,
/// and a failure of that is only a warning.
///
/// An error means that not even a plan can be made: there is no such disk, or the options contradict themselves.
pub fn plan(options: &InstallOptions) -> Result<Plan, InstallError> {
    let fail = |cause: Failure| {
        let cause = Box::new(cause);
        InstallError { device: options.device.clone(), disk: DiskState::Untouched, cause }
    };
    let config = prepare(options).map_err(|error| fail(error.into()))?;
    let found = Disk::inspect(&options.device).map_err(|error| fail(error.into()))?;
    let mut refusals: Vec<_> = found.refusals.iter().map(|error| kernel::in_full(error)).collect();
    refusals
        .extend(own_source::check(&options.source, &found.geometry.path).err().map(|error| kernel::in_full(&error)));
    let saved = saved(options, &found.geometry).map_err(|error| fail(error.into()))?;
    let mut warnings = warnings(&found);
    match image(options, &found.geometry, &saved) {
        Ok(()) => {}
        Err(error) if is_away(&error) => {
            warnings.push(format!("the image cannot be checked now: {}", kernel::in_full(&error)))
        }
        Err(error) => refusals.push(kernel::in_full(&error)),
    }
    let saved = saved.list();
    let steps = steps(&found.geometry, &saved, &config, options);
    let Inspection { geometry, identity, contents, .. } = found;
    let old = |contents: PartitionContents| {
        let stays = saved.iter().any(|saved| saved.number == contents.number);
        OldPartition { fate: if stays { Fate::Stays } else { Fate::Goes }, contents }
    };
    Ok(Plan {
        schema: PLAN_SCHEMA,
        source: options.source.to_string(),
        disk: geometry,
        identity,
        signatures: contents.signatures,
        partitions: contents.partitions.into_iter().map(old).collect(),
        systems: contents.systems,
        warnings,
        refusals,
        steps,
    })
}

/// Checks the image's start against the disk and its retained partitions.
fn image(options: &InstallOptions, disk: &Geometry, saved: &Saved) -> Result<(), Failure> {
    let is_pipe = |path: &Path| fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo());
    if matches!(&options.source, Source::Stdin) || matches!(&options.source, Source::File(path) if is_pipe(path)) {
        return Ok(());
    }
    let pump = Pump::start(&InstallOptions { retries: Retries::Count(0), ..options.clone() }, Vec::new())?;
    let (format, total, head) = loop {
        match pump.next(LOOK_AROUND) {
            Some(Message::Opened { format, total, head }) => break (format, total, head),
            Some(Message::Failed(error)) => return Err(error.into()),
            _ if options.cancelled() => return Err(Failure::Cancelled { written_bytes: 0 }),
            _ => {}
        }
    };
    fit(&head, total.filter(|_| format == Format::Raw), disk, saved, options).map(drop)
}

/// Whether a server may be there by the time of the installation.
fn is_away(error: &Failure) -> bool {
    let Failure::Source(DecodeError::Source(error)) = error else { return false };
    matches!(error, SourceError::Transport { .. } | SourceError::Body { .. } | SourceError::Stalled { .. })
        || matches!(error, SourceError::Status { status, .. } if *status >= 500)
}

fn warnings(found: &Inspection) -> Vec<String> {
    let mut warnings = Vec::new();
    if !found.twins.is_empty() {
        warnings.push(format!(
            "{} has the same WWN as {}: if these are paths to one disk, start multipathd and use the multipath device",
            found.identity.name,
            found.twins.join(", ")
        ));
    }
    if found.identity.removable {
        warnings.push("the disk is removable".to_owned());
    }
    if !matches!(found.geometry.sector_bytes, 512 | 4096) {
        warnings.push(format!("{}-byte sectors are unusual: no image is made for them", found.geometry.sector_bytes));
    }
    let unreadable = &found.contents.unreadable;
    if let Some(first) = unreadable.first() {
        let bytes: u64 = unreadable.iter().map(|span| span.len).fold(0, u64::saturating_add);
        warnings.push(format!("{} cannot be read, the first at byte {}", binary(bytes), first.offset));
    }
    warnings
}

fn saved(options: &InstallOptions, disk: &Geometry) -> Result<Saved, SavedError> {
    let filters = Filters::parse(options)?;
    let error = |source| FindError::Read { offset: 0, len: 0, source };
    let file = File::open(&disk.path).map_err(error)?;
    Saved::find_on(&file, disk, &filters)
}

fn steps(disk: &Geometry, saved: &[SavedPartition], config: &BootConfig, options: &InstallOptions) -> Vec<Step> {
    let head = u64::try_from(HEAD_BYTES).unwrap_or(u64::MAX);
    let max_bytes = saved.iter().map(|partition| partition.offset).min().unwrap_or(disk.size_bytes);
    let mut steps = vec![Step::CheckImage { sector_bytes: disk.sector_bytes, max_bytes }];
    if saved.is_empty() {
        steps.push(Step::Zero { offset: 0, len: head });
        steps.push(Step::Zero { offset: disk.size_bytes.saturating_sub(head), len: head });
    } else {
        steps.push(Step::KeepPartitions { partitions: saved.to_vec() });
    }
    steps.push(Step::WriteImage { offset: head });
    let trust = &options.trust;
    let sha256 = trust.has_sum() || trust.published_sha256.is_some();
    let signature = signature_at(options).map(|at| at.to_string());
    // What lies in the running system needs no signature, nor does what a sum vouches for.
    let required = trust.required && !trust.has_sum() && !matches!(options.source, Source::Osmet(_));
    if sha256 || signature.is_some() || required {
        steps.push(Step::VerifyImage { signature, required, sha256 });
    }
    if options.read_back {
        steps.push(Step::ReadBack);
    }
    if let Some(ignition) = &config.ignition {
        steps.push(Step::WriteIgnition { bytes: ignition.config.len() });
    }
    if let Some(platform) = config.platform.clone() {
        steps.push(Step::SetPlatform { platform });
    }
    if !config.consoles.is_empty() {
        steps.push(Step::SetConsoles { consoles: config.consoles.iter().map(Console::to_string).collect() });
    }
    if let Some(args) = config.firstboot_args.clone() {
        steps.push(Step::AddFirstBootArguments { args });
    }
    if config.kargs != Default::default() {
        let (delete, append) = (config.kargs.delete.clone(), config.kargs.append.clone());
        steps.push(Step::EditKernelArguments { delete, append });
    }
    if let Some(network) = config.network.as_ref().filter(|network| !network.files.is_empty()) {
        let files = network.files.iter().map(|file| file.name.to_string_lossy().into_owned()).collect();
        steps.push(Step::CopyNetwork { files, to: network.place });
    }
    if options.new_disk_guid {
        steps.push(Step::NewDiskGuid);
    }
    steps.extend([Step::WriteTable { len: head }, Step::ReadTable]);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::Ignition;
    use crate::boot::kargs::KargEdits;
    use crate::boot::network::{Network, NetworkFile};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn table_comes_after_everything_else() {
        let disk = Geometry { path: "/dev/sdx".into(), size_bytes: 8 << 30, sector_bytes: 512 };
        let config = BootConfig {
            ignition: Some(Ignition { config: b"{}".to_vec(), hash: None }),
            kargs: KargEdits { append: vec!["a".into()], ..Default::default() },
            network: Some(Network {
                directory: "/nm".into(),
                files: vec![NetworkFile {
                    name: "a".into(),
                    content: vec![],
                    permissions: fs::Permissions::from_mode(0o600),
                }],
                place: NetworkPlace::Auto,
            }),
            ..Default::default()
        };
        let plan = Plan {
            schema: PLAN_SCHEMA,
            source: "x".into(),
            steps: steps(&disk, &[], &config, &InstallOptions::default()),
            disk,
            identity: DiskIdentity::default(),
            signatures: Vec::new(),
            partitions: Vec::new(),
            systems: Vec::new(),
            warnings: Vec::new(),
            refusals: Vec::new(),
        };
        assert_eq!(plan.steps.len(), 10);
        assert_eq!(plan.steps[8], Step::WriteTable { len: 1 << 20 });
        let json = serde_json::to_value(&plan).unwrap();
        assert_eq!(json["steps"][2]["offset"], (8u64 << 30) - (1 << 20));
        assert_eq!(json["steps"][6]["step"], "edit_kernel_arguments");
        assert_eq!(serde_json::from_value::<Plan>(json).unwrap(), plan);
    }

    #[test]
    fn every_option_has_its_step_before_the_table() {
        let disk = Geometry { path: "/dev/sdx".into(), size_bytes: 8 << 30, sector_bytes: 512 };
        let options = InstallOptions {
            source: Source::Url("https://user:pa55@h/i.raw.xz?key=1".into()),
            platform: Some("qemu".into()),
            consoles: vec!["ttyS0".into(), "tty0".into()],
            firstboot_args: Some("ip=dhcp".into()),
            new_disk_guid: true,
            trust: crate::Trust { required: true, sha256: Some([0; 32]), ..Default::default() },
            ..Default::default()
        };
        let steps = |options: &InstallOptions| -> Vec<String> {
            let config = prepare(options).unwrap();
            steps(&disk, &[], &config, options).iter().skip(4).map(Step::to_string).collect()
        };
        let expected = [
            "check the image's SHA-256 and signature (https://h/i.raw.xz.sig; if present)",
            "read the disk back and compare",
            "set the Ignition platform to qemu, with its kernel arguments and GRUB commands in place of metal's",
            "set the consoles of kernel and GRUB to [ttyS0,9600n8 tty0]",
            "kernel arguments of the first boot: append [ip=dhcp]",
            "give the disk a random GUID and put the backup partition table at its end",
            "write the image's first 1 MiB, with the partition table",
            "make the kernel read the partition table",
        ];
        assert_eq!(steps(&options), expected);
        let bare = InstallOptions { read_back: false, ..Default::default() };
        assert_eq!(steps(&bare), expected[6..]);
    }
}
