//! What the kernel logs of broken hardware meanwhile.

use crate::result::MAX_FAULTS;
use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Read, Seek, SeekFrom},
    os::unix::fs::OpenOptionsExt,
};

const DEVICE: &str = "/dev/kmsg";
/// Longest record (`CONSOLE_EXT_LOG_MAX` of printk).
const RECORD_BYTES: usize = 8192;
/// Records that are looked at: a broken machine logs without end.
const MAX_RECORDS: u32 = 100_000;
const MAX_CHARS: usize = 200;
/// What the kernel's handlers of hardware errors write.
const SIGNS: [&str; 5] = ["[Hardware Error]", "Machine check", "mce: CPU", "EDAC MC", "AER: "];

/// The kernel's log from now on.
pub(super) struct Log(File);

impl Log {
    /// `None` without the right to read it.
    pub(super) fn open() -> Option<Self> {
        let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(DEVICE).ok()?;
        file.seek(SeekFrom::End(0)).ok()?;
        Some(Self(file))
    }

    /// The lines since that are signs of broken hardware.
    pub(super) fn signs(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        let mut record = [0; RECORD_BYTES];
        for _ in 0..MAX_RECORDS {
            match self.0.read(&mut record) {
                Ok(0) => break,
                Ok(len) => found.extend(sign(&String::from_utf8_lossy(record.get(..len).unwrap_or_default()))),
                // Records were overwritten before they were read.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                Err(_) => break,
            }
            if found.len() >= MAX_FAULTS {
                break;
            }
        }
        found
    }
}

/// The text of a record (Documentation/ABI/testing/dev-kmsg) if the kernel itself wrote it and it is a sign.
fn sign(record: &str) -> Option<String> {
    let (head, text) = record.split_once(';')?;
    let priority: u32 = head.split(',').next()?.parse().ok()?;
    // Programs write with another facility than 0.
    let is_kernel = priority >> 3 == 0;
    let line = text.lines().next()?;
    (is_kernel && SIGNS.iter().any(|sign| line.contains(sign))).then(|| line.chars().take(MAX_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernel_s_own_words_are_signs() {
        let text = "mce: [Hardware Error]: CPU 1: Machine Check: 0 Bank 5: be00";
        assert_eq!(sign(&format!("2,801,5140900,-;{text}\n SUBSYSTEM=x\n")).as_deref(), Some(text));
        assert_eq!(sign(&format!("10,801,5140900,-;{text}\n")), None);
        assert_eq!(sign("6,802,5140900,-;usb 1-1: new device\n"), None);
        assert_eq!((sign("nonsense"), sign("x,1;mce: CPU"), sign("")), (None, None, None));
        assert_eq!(sign(&format!("2,1,1,-;mce: CPU{}", "x".repeat(9000))).unwrap().len(), MAX_CHARS);
    }
}
