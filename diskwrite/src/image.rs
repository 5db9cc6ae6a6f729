//! What an image's first MiB says, and whether it fits a disk; all before anything is written.

use crate::disk::Geometry;
use crate::ends::HEAD_BYTES;
use crate::gpt::{Partition, TableError, backup_end, image_sector_bytes, partitions};
use kernel::units::beside;

/// GPT name of the partition with kernels, boot loader entries and the Ignition config.
const BOOT: &str = "boot";

/// Why an image can't go to a disk.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Not even a partition table.
    #[error("the image has {bytes} bytes, less than the MiB that holds a partition table: is it the right file?")]
    TooShort { bytes: usize },
    #[error("the image is for disks with {image}-byte sectors, but this disk has {disk}-byte sectors: use the {} image",
        if *disk == 4096 { "4k metal" } else { "512-byte metal" })]
    SectorSize {
        /// Of the image's table, in bytes.
        image: u32,
        /// Of the disk, in bytes.
        disk: u32,
    },
    #[error("the image has {}, the disk only has {}", beside(*image_bytes, *disk_bytes), beside(*disk_bytes, *image_bytes))]
    TooLarge {
        image_bytes: u64,
        /// Size of the disk.
        disk_bytes: u64,
    },
    /// Its table needs a larger disk.
    #[error("the image's partition {number} ('{name}') ends at {}, the disk at {}", beside(*end, *disk_bytes), beside(*disk_bytes, *end))]
    PartitionPastEnd {
        number: u32,
        name: String,
        /// Byte after its last.
        end: u64,
        /// Size of the disk.
        disk_bytes: u64,
    },
    /// Cut off: it ends before what its own table lists.
    #[error(
        "the image is truncated: it has {}, but its partition {number} ('{name}') ends at {}",
        beside(*image_bytes, *end),
        beside(*end, *image_bytes)
    )]
    Incomplete {
        /// Unpacked size.
        image_bytes: u64,
        /// GPT number.
        number: u32,
        /// GPT name.
        name: String,
        /// Byte after its last.
        end: u64,
    },
    /// Cut off behind its last partition: it lacks the backup table, or the zeros before that.
    #[error("the image is truncated: it has {}, but its backup partition table ends at {}", beside(*image_bytes, *end), beside(*end, *image_bytes))]
    NoBackup {
        image_bytes: u64,
        /// Byte after the backup's header, by the primary's word.
        end: u64,
    },
    #[error("the image's partition table is unusable")]
    Table(#[from] TableError),
    /// No place for what should go to the boot file system.
    #[error("the image has no GPT, so no partition named '{BOOT}' for Ignition config, kernel arguments or keyfiles")]
    NoTable,
    #[error("the image has {} partitions named '{BOOT}' ({}), where one was expected for Ignition config, kernel arguments or keyfiles",
        numbers.len(), names.join(", "))]
    NotOneBoot {
        /// GPT numbers of those there are.
        numbers: Vec<u32>,
        /// GPT names of all partitions.
        names: Vec<String>,
    },
    /// As before, when no partition has that name.
    #[error("the image has no partition named '{BOOT}' ({}), and {} file systems labelled '{BOOT}' (partitions {}), where one was expected for Ignition config, kernel arguments or keyfiles",
        names.join(", "), numbers.len(), numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))]
    NotOneLabel {
        /// GPT numbers of those with the label.
        numbers: Vec<u32>,
        /// GPT names of all partitions.
        names: Vec<String>,
    },
    /// What was written can't be read again.
    #[error("cannot read the label of the file system in partition {number}")]
    Label { number: u32, source: std::io::Error },
    /// It must be writable while the table is held back.
    #[error("the image's partition {number} ('{BOOT}') starts at byte {start}, within the first MiB")]
    BootInHead { number: u32, start: u64 },
}

/// What is known of an image that fits.
#[derive(Debug)]
pub(crate) struct Image {
    pub partitions: Vec<Partition>,
    /// Byte after its backup table; 0 without any.
    pub backup_end: u64,
    /// The partition to configure, if requested and identified by its name.
    pub boot: Option<Partition>,
    /// Whether it is to be found by its file system's label, which shows only when it is written.
    pub boot_by_label: bool,
}

/// Checks the image's start, and its size if `raw_bytes` is known, against the disk.
pub(crate) fn check(
    head: &[u8],
    raw_bytes: Option<u64>,
    disk: &Geometry,
    needs_boot: bool,
) -> Result<Image, ImageError> {
    if head.len() < HEAD_BYTES {
        return Err(ImageError::TooShort { bytes: head.len() });
    }
    let sector = image_sector_bytes(head);
    if let Some(image) = sector.filter(|size| *size != disk.sector_bytes) {
        return Err(ImageError::SectorSize { image, disk: disk.sector_bytes });
    }
    if let Some(image_bytes) = raw_bytes.filter(|bytes| *bytes > disk.size_bytes) {
        return Err(ImageError::TooLarge { image_bytes, disk_bytes: disk.size_bytes });
    }
    let Some(sector) = sector else {
        return if needs_boot {
            Err(ImageError::NoTable)
        } else {
            Ok(Image { partitions: Vec::new(), backup_end: 0, boot: None, boot_by_label: false })
        };
    };
    let partitions = partitions(head, sector)?;
    if let Some(last) = partitions.iter().find(|partition| partition.end() > disk.size_bytes) {
        return Err(ImageError::PartitionPastEnd {
            number: last.number,
            name: last.name.clone(),
            end: last.end(),
            disk_bytes: disk.size_bytes,
        });
    }
    let boot = if needs_boot { boot_partition(&partitions)? } else { None };
    let boot_by_label = needs_boot && boot.is_none();
    let image = Image { partitions, backup_end: backup_end(head, sector)?, boot, boot_by_label };
    raw_bytes.map_or(Ok(()), |bytes| image.check_complete(bytes))?;
    Ok(image)
}

/// The partition with the name; None if there are only others.
fn boot_partition(partitions: &[Partition]) -> Result<Option<Partition>, ImageError> {
    let found: Vec<_> = partitions.iter().filter(|partition| partition.name == BOOT).collect();
    match found.as_slice() {
        [boot] => writable(boot).map(|()| Some((*boot).clone())),
        [] if !partitions.is_empty() => Ok(None),
        _ => {
            let numbers = found.iter().map(|partition| partition.number).collect();
            let names = partitions.iter().map(|partition| partition.name.clone()).collect();
            Err(ImageError::NotOneBoot { numbers, names })
        }
    }
}

/// Whether a file system can be changed while the first MiB is held back.
pub(crate) fn writable(boot: &Partition) -> Result<(), ImageError> {
    if boot.start < u64::try_from(HEAD_BYTES).unwrap_or(u64::MAX) {
        return Err(ImageError::BootInHead { number: boot.number, start: boot.start });
    }
    Ok(())
}

impl Image {
    /// Byte after the last of its partitions; 0 without any.
    pub(crate) fn end(&self) -> u64 {
        self.partitions.iter().map(Partition::end).max().unwrap_or(0)
    }

    /// Whether an image of this size holds all its partitions; a raw one that was cut off shows it in no other way.
    pub(crate) fn check_complete(&self, image_bytes: u64) -> Result<(), ImageError> {
        match self.partitions.iter().max_by_key(|partition| partition.end()) {
            Some(last) if last.end() > image_bytes => Err(ImageError::Incomplete {
                image_bytes,
                number: last.number,
                name: last.name.clone(),
                end: last.end(),
            }),
            _ if self.backup_end > image_bytes => Err(ImageError::NoBackup { image_bytes, end: self.backup_end }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpt::tests::head;

    fn disk(mib: u64, sector_bytes: u32) -> Geometry {
        Geometry { path: "/dev/fake".into(), size_bytes: mib << 20, sector_bytes }
    }

    const PARTS: [(&str, u64, u64); 2] = [("boot", 4096, 8191), ("root", 8192, 20479)];

    #[test]
    fn fitting_image_passes() {
        let head = head(512, &PARTS);
        let image = check(&head, Some(10 << 20), &disk(10, 512), true).unwrap();
        assert_eq!(image.boot.as_ref().map(|boot| boot.number), Some(1));
        assert!(image.check_complete(10 << 20).is_ok());
        // Its partitions end there; the backup table follows.
        let whole = Image { backup_end: (10 << 20) + 512 * 33, ..image };
        let error = whole.check_complete(10 << 20).unwrap_err();
        assert!(matches!(error, ImageError::NoBackup { image_bytes: 10_485_760, end: 10_502_656 }), "{error}");
        assert!(whole.check_complete(whole.backup_end).is_ok());
        assert!(check(&head, None, &disk(10, 512), false).unwrap().boot.is_none());
        assert!(check(&vec![0; HEAD_BYTES], None, &disk(10, 512), false).is_ok());
    }

    #[test]
    fn each_misfit_is_named() {
        let good = head(512, &PARTS);
        let error = |head: &[u8], raw, disk: Geometry| check(head, raw, &disk, true).unwrap_err();
        assert!(matches!(error(&good[..100], None, disk(10, 512)), ImageError::TooShort { bytes: 100 }));
        let wrong = error(&good, None, disk(10, 4096));
        assert!(wrong.to_string().ends_with("use the 4k metal image"), "{wrong}");
        let wrong = error(&head(4096, &PARTS), None, disk(100, 512));
        assert!(matches!(wrong, ImageError::SectorSize { image: 4096, disk: 512 }));
        let large = error(&good, Some(10_485_761), disk(10, 512));
        assert!(matches!(large, ImageError::TooLarge { image_bytes: 10_485_761, disk_bytes: 10_485_760 }));
        let past = error(&good, None, disk(9, 512));
        assert!(matches!(past, ImageError::PartitionPastEnd { number: 2, end: 10_485_760, .. }));
        let cut = error(&good, Some(9 << 20), disk(10, 512));
        assert!(matches!(cut, ImageError::Incomplete { number: 2, .. }));
        assert!(matches!(error(&vec![0; HEAD_BYTES], None, disk(10, 512)), ImageError::NoTable));
        let other = check(&head(512, &[("BOOT", 2048, 4095)]), None, &disk(10, 512), true).unwrap();
        assert!(other.boot.is_none() && other.boot_by_label);
        let none = error(&head(512, &[]), None, disk(10, 512));
        assert!(none.to_string().starts_with("the image has 0 partitions named 'boot' ()"), "{none}");
        let two = error(&head(512, &[("boot", 2048, 4095), ("boot", 4096, 5000)]), None, disk(10, 512));
        assert!(matches!(two, ImageError::NotOneBoot { numbers, .. } if numbers == [1, 2]));
        let low = error(&head(512, &[("boot", 64, 4095)]), None, disk(10, 512));
        assert!(matches!(low, ImageError::BootInHead { start: 32768, .. }));
    }
}
