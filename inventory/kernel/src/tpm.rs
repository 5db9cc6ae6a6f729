//! Commands to a TPM through its device: one is written, one reply is read (Linux' drivers/char/tpm/tpm-dev-common.c).

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::AsFd,
    time::Duration,
};

/// The kernel's own limit of a command and a reply.
const MAX_BYTES: usize = 4096;
/// Tag, length, code.
const HEADER_BYTES: usize = 10;
/// How long a TPM may take to tell something; that takes tens of milliseconds.
pub const READS: Duration = Duration::from_secs(10);
/// How long it may take to make a key: some take a minute for one of RSA.
pub const MAKES_KEYS: Duration = Duration::from_secs(180);

/// A TPM's device. It gives nothing to a read that comes before the reply.
#[derive(Debug)]
pub struct Device {
    pub file: File,
    /// Of each reply.
    pub limit: Duration,
}

impl Write for Device {
    fn write(&mut self, command: &[u8]) -> io::Result<usize> {
        self.file.write(command)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Device {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut polled = [PollFd::new(self.file.as_fd(), PollFlags::POLLIN)];
        if poll(&mut polled, PollTimeout::try_from(self.limit).unwrap_or(PollTimeout::MAX))? == 0 {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no reply from the TPM"));
        }
        self.file.read(bytes)
    }
}

/// The reply to a command, as long as its header says.
pub fn exchange(device: &mut (impl Read + Write), command: &[u8]) -> io::Result<Vec<u8>> {
    device.write_all(command)?;
    let mut reply = vec![0; MAX_BYTES];
    let mut read = 0;
    loop {
        // A driver gives all at once, and drops what is not taken.
        match device.read(reply.get_mut(read..).unwrap_or_default()) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the TPM's reply ends early")),
            Ok(len) => read += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        let len = crate::bytes::be32(&reply, 2).filter(|_| read >= HEADER_BYTES);
        let len = len.and_then(|len| usize::try_from(len).ok());
        if let Some(len) = len {
            if !(HEADER_BYTES..=MAX_BYTES).contains(&len) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the TPM's reply has no sound length"));
            }
            if read >= len {
                reply.truncate(len);
                return Ok(reply);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives these replies, a few bytes at a time.
    struct Slow(Vec<u8>, usize);

    impl Write for Slow {
        fn write(&mut self, command: &[u8]) -> io::Result<usize> {
            Ok(command.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Read for Slow {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            let len = self.1.min(self.0.len()).min(bytes.len());
            bytes[..len].copy_from_slice(&self.0[..len]);
            self.0.drain(..len);
            Ok(len)
        }
    }

    #[test]
    fn replies_come_whole_or_not_at_all() {
        let reply = [0x80, 1, 0, 0, 0, 12, 0, 0, 0, 0, 7, 8];
        for step in [1, 5, 12] {
            assert_eq!(exchange(&mut Slow(reply.to_vec(), step), &[1]).unwrap(), reply);
        }
        let kind = |bytes: &[u8]| exchange(&mut Slow(bytes.to_vec(), 99), &[1]).unwrap_err().kind();
        assert_eq!(kind(&reply[..11]), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(&[0x80, 1, 0, 0, 0, 9, 0, 0, 0, 0]), io::ErrorKind::InvalidData);
        assert_eq!(kind(&[0x80, 1, 0xff, 0, 0, 9, 0, 0, 0, 0]), io::ErrorKind::InvalidData);
    }
}
