//! What an installation would do, for `--dry-run`: the same checks of options and disk, no source opened, no byte written.

use crate::disk::{Disk, Geometry};
use crate::install::{DiskState, Failure, InstallError};
use crate::options::InstallOptions;
use crate::prepare::{BootConfig, prepare};
use crate::pump::HEAD_BYTES;
use serde::{Deserialize, Serialize};
use std::fmt;

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
    /// Overwrite with zeros.
    Zero {
        /// First byte.
        offset: u64,
        /// How many.
        len: u64,
    },
    /// Stream the image but its start.
    WriteImage {
        /// First byte.
        offset: u64,
    },
    /// Put the Ignition config on the boot file system.
    WriteIgnition {
        /// Its size.
        bytes: usize,
    },
    /// Change the kernel arguments.
    EditKernelArguments {
        /// Removed.
        delete: Vec<String>,
        /// Then added.
        append: Vec<String>,
    },
    /// Copy network keyfiles.
    CopyNetwork {
        /// Their names.
        files: Vec<String>,
    },
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
                write!(f, "check that the image is for {sector_bytes}-byte sectors and at most {max_bytes} bytes")
            }
            Self::Zero { offset, len } => write!(f, "zero {len} bytes at byte {offset}"),
            Self::WriteImage { offset } => write!(f, "write the image from byte {offset} on"),
            Self::WriteIgnition { bytes } => {
                write!(f, "write ignition/config.ign ({bytes} bytes) to the boot file system")
            }
            Self::EditKernelArguments { delete, append } => {
                write!(f, "kernel arguments: remove [{}], append [{}]", delete.join(" "), append.join(" "))
            }
            Self::CopyNetwork { files } => write!(f, "copy network keyfiles [{}]", files.join(" ")),
            Self::WriteTable { len } => write!(f, "write the image's first {len} bytes, with the partition table"),
            Self::ReadTable => f.write_str("make the kernel read the partition table"),
        }
    }
}

/// An installation that was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The source without secrets.
    pub source: String,
    /// The disk.
    pub disk: Geometry,
    /// In order.
    pub steps: Vec<Step>,
}

/// Checks options and disk and tells what [`install`](crate::install()) would do. The source is not opened.
pub fn plan(options: &InstallOptions) -> Result<Plan, InstallError> {
    let fail = |cause: Failure| {
        let cause = Box::new(cause);
        InstallError { device: options.device.clone(), disk: DiskState::Untouched, cause }
    };
    let config = prepare(options).map_err(|error| fail(error.into()))?;
    let disk = Disk::inspect(&options.device).map_err(|error| fail(error.into()))?;
    let steps = steps(&disk, &config);
    Ok(Plan { source: options.source.to_string(), disk, steps })
}

fn steps(disk: &Geometry, config: &BootConfig) -> Vec<Step> {
    let head = u64::try_from(HEAD_BYTES).unwrap_or(u64::MAX);
    let mut steps = vec![
        Step::CheckImage { sector_bytes: disk.sector_bytes, max_bytes: disk.size_bytes },
        Step::Zero { offset: 0, len: head },
        Step::Zero { offset: disk.size_bytes.saturating_sub(head), len: head },
        Step::WriteImage { offset: head },
    ];
    if let Some(ignition) = &config.ignition {
        steps.push(Step::WriteIgnition { bytes: ignition.config.len() });
    }
    if config.kargs != Default::default() {
        let (delete, append) = (config.kargs.delete.clone(), config.kargs.append.clone());
        steps.push(Step::EditKernelArguments { delete, append });
    }
    if let Some(files) = &config.network {
        let files = files.iter().map(|file| file.name.to_string_lossy().into_owned()).collect();
        steps.push(Step::CopyNetwork { files });
    }
    steps.extend([Step::WriteTable { len: head }, Step::ReadTable]);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::kargs::KargEdits;
    use crate::prepare::Ignition;

    #[test]
    fn table_comes_after_everything_else() {
        let disk = Geometry { path: "/dev/sdx".into(), size_bytes: 8 << 30, sector_bytes: 512 };
        let config = BootConfig {
            ignition: Some(Ignition { config: b"{}".to_vec(), hash: None }),
            kargs: KargEdits { append: vec!["a".into()], ..Default::default() },
            network: Some(vec![]),
            ..Default::default()
        };
        let plan = Plan { source: "x".into(), steps: steps(&disk, &config), disk };
        assert_eq!(plan.steps.len(), 9);
        assert_eq!(plan.steps[7], Step::WriteTable { len: 1 << 20 });
        let json = serde_json::to_value(&plan).unwrap();
        assert_eq!(json["steps"][2]["offset"], (8u64 << 30) - (1 << 20));
        assert_eq!(json["steps"][5]["step"], "edit_kernel_arguments");
        assert_eq!(serde_json::from_value::<Plan>(json).unwrap(), plan);
    }
}
