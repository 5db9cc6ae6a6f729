//! A disk as the writer's target: direct I/O where the disk takes it, zero ranges left to the kernel.

use crate::buffer::Buffer;
use crate::write::Target;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, OFlag, fallocate, fcntl};
use std::{fs::File, io, os::unix::fs::FileExt};

/// Zeros written at once where the kernel has no better way.
const ZERO_BYTES: usize = 1 << 20;

pub(crate) struct Device<'a> {
    file: &'a File,
    direct: bool,
    zero_range: bool,
}

impl<'a> Device<'a> {
    /// Switches the descriptor to direct I/O if it can.
    pub fn new(file: &'a File) -> Self {
        let mut device = Self { file, direct: false, zero_range: true };
        device.direct = device.set_direct(true).inspect_err(|error| tracing::debug!(%error, "no direct I/O")).is_ok();
        device
    }

    fn set_direct(&self, on: bool) -> nix::Result<()> {
        let mut flags = OFlag::from_bits_retain(fcntl(self.file, FcntlArg::F_GETFL)?);
        flags.set(OFlag::O_DIRECT, on);
        fcntl(self.file, FcntlArg::F_SETFL(flags)).map(drop)
    }
}

impl Drop for Device<'_> {
    fn drop(&mut self) {
        // Whoever uses the descriptor next may not have aligned memory.
        if self.direct {
            let _ = self.set_direct(false);
        }
    }
}

impl Target for Device<'_> {
    fn write_at(&mut self, data: &[u8], offset: u64) -> io::Result<usize> {
        match self.file.write_at(data, offset) {
            // Some drivers want more alignment than a page, or a short write left an odd rest.
            Err(error) if self.direct && error.raw_os_error() == Some(libc::EINVAL) => {
                tracing::debug!(offset, len = data.len(), "direct write refused, going on through the page cache");
                self.set_direct(false)?;
                self.direct = false;
                self.file.write_at(data, offset)
            }
            result => result,
        }
    }

    /// `FALLOC_FL_ZERO_RANGE` on a block device makes zeros: by the disk's own command that guarantees them, without
    /// unmapping, else by the kernel writing pages of them (block/fops.c, blkdev_fallocate). A discard guarantees nothing
    /// and is not used.
    fn zero(&mut self, offset: u64, len: u64) -> io::Result<()> {
        if self.zero_range {
            let (from, count) = (offset.try_into(), len.try_into());
            let (from, count) = (from.map_err(io::Error::other)?, count.map_err(io::Error::other)?);
            match fallocate(self.file, FallocateFlags::FALLOC_FL_ZERO_RANGE, from, count) {
                Ok(()) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(error) => {
                    tracing::debug!(%error, "no zero ranges, writing zeros");
                    self.zero_range = false;
                }
            }
        }
        let mut zeros = Buffer::new(ZERO_BYTES);
        zeros.set_len(ZERO_BYTES);
        let (mut at, mut left) = (offset, len);
        while left > 0 {
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(ZERO_BYTES);
            let count = match self.write_at(&zeros[..count], at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => u64::try_from(count).map_err(io::Error::other)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            at += count;
            left = left.saturating_sub(count);
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn odd_memory_and_file_systems_without_zero_ranges_only_cost_speed() {
        for dir in ["/dev/shm", "/var/tmp", "/tmp"].iter().filter(|dir| std::path::Path::new(dir).is_dir()) {
            let mut file = tempfile::tempfile_in(dir).unwrap();
            file.set_len(3 << 20).unwrap();
            let mut device = Device::new(&file);
            let data = vec![7; 4096 + 1];
            // Of two starts one byte apart at least one is not aligned.
            for start in 0..2 {
                assert_eq!(device.write_at(&data[start..start + 4096], 0).unwrap(), 4096);
            }
            device.zero(512, 2 << 20).unwrap();
            device.sync().unwrap();
            drop(device);
            let mut found = Vec::new();
            file.read_to_end(&mut found).unwrap();
            assert!(
                found.len() == 3 << 20 && found[..512] == data[..512] && found[512..].iter().all(|byte| *byte == 0)
            );
        }
    }
}
