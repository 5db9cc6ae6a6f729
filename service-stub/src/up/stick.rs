//! The discovery ISO on a stick.

use super::live::Live;
use crate::text::plain;
use anyhow::{Context, bail, ensure};
use kernel::units::{beside, binary};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, IsTerminal, Read, Write, stdin},
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

const PIECE_BYTES: usize = 4 << 20;

/// A disk that may be overwritten.
pub(super) struct Stick {
    path: PathBuf,
    device: File,
    size_bytes: u64,
}

impl Stick {
    /// Opens it, and asks. It is ours alone from then on: the kernel refuses a disk that is mounted or otherwise in use.
    pub(super) fn choose(path: &Path, yes: bool) -> anyhow::Result<Self> {
        let shown = path.display();
        let metadata = fs::metadata(path).with_context(|| format!("there is no disk {shown}"))?;
        ensure!(metadata.file_type().is_block_device(), "{shown} is not a disk");
        let (major, minor) = (nix::sys::stat::major(metadata.rdev()), nix::sys::stat::minor(metadata.rdev()));
        let sys = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        ensure!(!sys.join("partition").exists(), "{shown} is a partition: name the whole disk");
        // O_EXCL takes no file system, volume group or array away from this machine.
        let device = OpenOptions::new().read(true).write(true).custom_flags(nix::libc::O_EXCL).open(path);
        let device = device.map_err(|error| match error.raw_os_error() {
            Some(nix::libc::EBUSY) => anyhow::anyhow!("{shown} is in use: unmount what is on it"),
            _ => anyhow::Error::from(error).context(format!("cannot open {shown}")),
        })?;
        let fact = |name: &str| fs::read_to_string(sys.join(name)).map(|text| plain(&text)).unwrap_or_default();
        let sectors: u64 = fact("size").parse().with_context(|| format!("the size of {shown} is unknown"))?;
        let size_bytes = sectors.saturating_mul(512);
        let words = [fact("device/vendor"), fact("device/model"), binary(size_bytes)];
        let mut what = words.iter().filter(|word| !word.is_empty()).map(String::as_str).collect::<Vec<_>>().join(" ");
        if fact("removable") != "1" {
            what.push_str(", not removable");
        }
        if !yes {
            ensure!(stdin().is_terminal(), "{shown} ({what}) would be overwritten: confirm with --yes");
            let mut out = io::stderr();
            write!(out, "{shown} ({what}) will be overwritten. Type yes to continue: ")?;
            out.flush()?;
            let mut answer = String::new();
            stdin().lock().take(100).read_line(&mut answer)?;
            if answer.trim() != "yes" {
                bail!("{shown} is left as it is");
            }
        }
        Ok(Self { path: path.to_owned(), device, size_bytes })
    }

    /// Writes the ISO and reads it back.
    pub(super) fn write(mut self, iso: &Path, live: &mut Live) -> anyhow::Result<()> {
        let shown = self.path.display().to_string();
        let mut from = File::open(iso).with_context(|| format!("cannot read {}", iso.display()))?;
        let total = from.metadata()?.len();
        ensure!(
            total <= self.size_bytes,
            "{shown} has {}, and the ISO {}: take a larger one",
            beside(self.size_bytes, total),
            beside(total, self.size_bytes)
        );
        live.say(&format!("writing {} to {shown}", binary(total)));
        copy(&mut from, &mut self.device, total).with_context(|| format!("cannot write {shown}"))?;
        self.device.sync_all().with_context(|| format!("cannot write {shown}"))?;
        io::Seek::rewind(&mut from)?;
        // Not from the page cache, where what was written still is.
        drop(self.device);
        let direct = OpenOptions::new().read(true).custom_flags(nix::libc::O_EXCL).open(&self.path)?;
        drop_cache(&direct);
        ensure!(is_same(from, direct, total)?, "{shown} does not hold what was written: it is broken, take another");
        live.say(&format!("{shown} is written and checked"));
        Ok(())
    }
}

fn copy(from: &mut impl Read, to: &mut impl Write, total: u64) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut left = total;
    while left > 0 {
        let len = usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        from.read_exact(&mut piece[..len])?;
        to.write_all(&piece[..len])?;
        left -= u64::try_from(len).unwrap_or(left);
    }
    to.flush()
}

fn drop_cache(device: &File) {
    let _ = nix::fcntl::posix_fadvise(device, 0, 0, nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED);
}

fn is_same(mut one: impl Read, mut other: impl Read, total: u64) -> io::Result<bool> {
    let (mut a, mut b) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    let mut left = total;
    while left > 0 {
        let len = usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        one.read_exact(&mut a[..len])?;
        other.read_exact(&mut b[..len])?;
        if a[..len] != b[..len] {
            return Ok(false);
        }
        left -= u64::try_from(len).unwrap_or(left);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_not_a_disk_is_left_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let refused = |path: &Path| Stick::choose(path, true).map(drop).unwrap_err().to_string();
        assert!(refused(file.path()).ends_with("is not a disk"));
        assert!(refused(Path::new("/dev/null")).ends_with("is not a disk"));
        assert!(refused(Path::new("/dev/landfall-none")).starts_with("there is no disk"));
    }

    #[test]
    fn copies_are_compared() {
        let (one, mut other) = (vec![7_u8; PIECE_BYTES + 9], Vec::new());
        let total = u64::try_from(one.len()).unwrap();
        copy(&mut &one[..], &mut other, total).unwrap();
        assert!(is_same(&one[..], &other[..], total).unwrap());
        other[PIECE_BYTES + 8] = 0;
        assert!(!is_same(&one[..], &other[..], total).unwrap());
        assert!(is_same(&one[..], &[][..], total).is_err());
    }
}
