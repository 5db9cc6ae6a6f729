//! Device numbers.

use std::{fmt, fs, os::unix::fs::FileTypeExt, os::unix::fs::MetadataExt, path::Path};

/// A device number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DevNumber {
    /// The driver's.
    pub major: u32,
    /// The driver's choice.
    pub minor: u32,
}

impl DevNumber {
    /// From `st_rdev`, as the C library encodes it.
    pub fn from_raw(rdev: u64) -> Self {
        Self::narrow(nix::sys::stat::major(rdev), nix::sys::stat::minor(rdev))
    }

    /// From the kernel's `huge_encode_dev` (linux/kdev_t.h): 12 bits of major number between the parts of the minor one.
    pub fn from_kernel(dev: u64) -> Self {
        Self::narrow((dev >> 8) & 0xFFF, (dev & 0xFF) | ((dev >> 12) & 0xFFF_FF00))
    }

    /// From `8:1`, as sysfs and mountinfo write it.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    /// That of the block device at a path.
    pub fn of_block_device(path: &Path) -> Option<Self> {
        let meta = fs::metadata(path).ok()?;
        meta.file_type().is_block_device().then(|| Self::from_raw(meta.rdev()))
    }

    /// Linux' numbers have 32 bits for both.
    fn narrow(major: u64, minor: u64) -> Self {
        let narrow = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Self { major: narrow(major), minor: narrow(minor) }
    }
}

impl fmt::Display for DevNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_all_their_forms() {
        let number = DevNumber { major: 253, minor: 4097 };
        assert_eq!(DevNumber::parse(" 253:4097\n"), Some(number));
        assert_eq!(number.to_string(), "253:4097");
        assert_eq!(DevNumber::from_kernel(253 << 8 | 1 | 0x1000 << 12), number);
        assert_eq!(DevNumber::from_raw(nix::sys::stat::makedev(253, 4097)), number);
        assert_eq!((DevNumber::parse("8"), DevNumber::parse("8:x"), DevNumber::parse("-1:0")), (None, None, None));
        assert_eq!(DevNumber::of_block_device(Path::new("/dev/null")), None);
    }
}
