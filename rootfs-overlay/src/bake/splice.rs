//! Builds files from pieces of others: unchanged bytes are copied inside the kernel.

use crate::output::{Output, OutputError, Unfinished, stdout};
use crate::patched::Patch;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};

/// Bytes copied between updates of the progress bar.
const STEP_BYTES: u64 = 64 << 20;

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
    let bar = io::stderr().is_terminal().then(|| bar(total(pieces)));
    let result = match output {
        Output::NewFile(path) => {
            let mut unfinished = Unfinished::create(path)?;
            copy(pieces, unfinished.file(), bar.as_ref()).map_err(OutputError::Copy)?;
            unfinished.finish()
        }
        Output::Stdout | Output::InPlace => copy(pieces, &mut stdout()?, bar.as_ref()).map_err(OutputError::Stream),
    };
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    result
}

fn bar(len: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {bytes} of {total_bytes}  {bytes_per_sec}");
    let bar = ProgressBar::new(len);
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

fn copy(pieces: &[Piece<'_>], out: &mut File, bar: Option<&ProgressBar>) -> io::Result<()> {
    for piece in pieces {
        match piece {
            Piece::Copy { file, offset, len } => {
                let mut file = *file;
                file.seek(SeekFrom::Start(*offset))?;
                let mut remaining = *len;
                while remaining > 0 {
                    let step = remaining.min(STEP_BYTES);
                    if io::copy(&mut file.take(step), out)? < step {
                        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file was truncated meanwhile"));
                    }
                    remaining -= step;
                    if let Some(bar) = bar {
                        bar.inc(step);
                    }
                }
            }
            Piece::Bytes(bytes) => out.write_all(bytes)?,
            Piece::Zeros(len) => drop(io::copy(&mut io::repeat(0).take(*len), out)?),
        }
    }
    Ok(())
}
