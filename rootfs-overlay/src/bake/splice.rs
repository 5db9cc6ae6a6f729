//! Builds files from pieces of others: unchanged bytes are copied inside the kernel.

use crate::output::{Output, OutputError, Unfinished, stdout};
use crate::patched::Patch;
use crate::progress::Progress;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// A piece of a new file.
#[derive(Debug)]
pub enum Piece<'a> {
    /// A part of a file.
    Copy {
        file: &'a File,
        /// Offset of its first byte.
        offset: u64,
        len: u64,
    },
    Bytes(Vec<u8>),
    /// This many zeros.
    Zeros(u64),
}

impl Piece<'_> {
    fn len(&self) -> u64 {
        match self {
            Self::Copy { len, .. } | Self::Zeros(len) => *len,
            Self::Bytes(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        }
    }
}

/// Total length.
pub fn total(pieces: &[Piece<'_>]) -> u64 {
    pieces.iter().map(Piece::len).sum()
}

/// The first `len` bytes of a file, with `patches` applied, which are sorted, disjoint, and within them.
pub fn patched<'a>(file: &'a File, len: u64, patches: Vec<Patch>) -> Vec<Piece<'a>> {
    let mut pieces = Vec::new();
    let mut at = 0;
    for Patch { offset, bytes } in patches {
        pieces.push(Piece::Copy { file, offset: at, len: offset.saturating_sub(at) });
        at = offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        pieces.push(Piece::Bytes(bytes));
    }
    pieces.push(Piece::Copy { file, offset: at, len: len.saturating_sub(at) });
    pieces
}

/// Writes the pieces, one after the other, to a new file or to standard output.
pub fn write(output: &Output, pieces: &[Piece<'_>]) -> Result<(), OutputError> {
    match output {
        Output::NewFile(path) => {
            let mut unfinished = Unfinished::create(path)?;
            copy(pieces, unfinished.file()).map_err(OutputError::Copy)?;
            unfinished.finish()
        }
        Output::Stdout | Output::InPlace => copy(pieces, &mut stdout()?).map_err(OutputError::Stream),
    }
}

/// Writes the pieces to an open file.
pub(crate) fn copy(pieces: &[Piece<'_>], out: &mut File) -> io::Result<()> {
    let progress = Progress::of(total(pieces));
    for piece in pieces {
        match piece {
            Piece::Copy { file, offset, len } => {
                let mut file = *file;
                file.seek(SeekFrom::Start(*offset))?;
                if progress.copy(file, *len, out)? < *len {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file was truncated meanwhile"));
                }
            }
            Piece::Bytes(bytes) => out.write_all(bytes)?,
            Piece::Zeros(len) => drop(io::copy(&mut io::repeat(0).take(*len), out)?),
        }
    }
    Ok(())
}
