//! For which machine a program is: the first bytes of an ELF file (System V ABI, "ELF header").

use std::{fs::File, io, os::unix::fs::FileExt};

/// To the end of `e_machine`.
const HEADER_BYTES: usize = 20;
const MAGIC: [u8; 4] = [0x7f, b'E', b'L', b'F'];
const BIG_ENDIAN: u8 = 2;

/// `e_machine` of the architectures that releases are built for, in Go's words.
const MACHINES: [(u16, &str); 4] = [(62, "amd64"), (183, "arm64"), (21, "ppc64le"), (22, "s390x")];

/// Why a file is not a program for this machine.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    #[error("it can't be read")]
    Read(#[from] io::Error),
    #[error("it is not an ELF file")]
    NotElf,
    #[error("it is for {found}, this machine is {own}")]
    Machine { found: String, own: String },
}

/// Checks that `file` is a program for `architecture`, in Go's words.
pub(super) fn check(file: &File, architecture: &str) -> Result<(), ElfError> {
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(&mut header, 0).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => ElfError::NotElf,
        _ => error.into(),
    })?;
    let found = machine(&header).ok_or(ElfError::NotElf)?;
    let name = MACHINES.iter().find(|(machine, _)| *machine == found).map(|(_, name)| *name);
    if name == Some(architecture) {
        return Ok(());
    }
    let found = name.map_or_else(|| format!("machine {found}"), str::to_owned);
    Err(ElfError::Machine { found, own: architecture.to_owned() })
}

fn machine(header: &[u8; HEADER_BYTES]) -> Option<u16> {
    let [a, b, c, d, _class, encoding, .., low, high] = *header;
    let number = if encoding == BIG_ENDIAN { u16::from_be_bytes([low, high]) } else { u16::from_le_bytes([low, high]) };
    ([a, b, c, d] == MAGIC).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn found(bytes: &[u8], own: &str) -> Result<(), String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        check(&file, own).map_err(|error| error.to_string())
    }

    #[test]
    fn a_program_is_for_one_machine() {
        let mut header = [0; 64];
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        header[18] = 62;
        assert_eq!(found(&header, "amd64"), Ok(()));
        assert_eq!(found(&header, "arm64"), Err("it is for amd64, this machine is arm64".into()));
        header[18..20].copy_from_slice(&[0, 22]);
        header[5] = BIG_ENDIAN;
        assert_eq!(found(&header, "s390x"), Ok(()));
        header[18..20].copy_from_slice(&[1, 0]);
        assert_eq!(found(&header, "s390x"), Err("it is for machine 256, this machine is s390x".into()));
        for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\necho this is not a program\n"] {
            assert_eq!(found(bytes, "amd64"), Err("it is not an ELF file".into()));
        }
    }

    #[test]
    fn this_test_is_a_program_for_this_machine() {
        let own = File::open(std::env::current_exe().unwrap()).unwrap();
        check(&own, netcheck::image::manifest::own_architecture()).unwrap();
    }
}
