//! Writes a changed image: in place, to a new file, or to standard output. Unchanged bytes are copied inside the kernel.

use crate::patched::Patch;
use crate::progress::Progress;
use kernel::order;
use std::fs::File;
use std::io::{self, IsTerminal, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Prefix of incomplete files.
const UNFINISHED: &str = ".coreos-installer-temp-";

/// Where to write a changed image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// In place.
    InPlace,
    /// A new file; an existing one is not changed.
    NewFile(PathBuf),
    /// Standard output.
    Stdout,
}

/// Why it can't be written. Texts are coreos-installer's.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// A new file can't be created.
    #[error("creating temporary file")]
    Create(#[source] io::Error),
    /// The image can't be copied.
    #[error("copying input to temporary file")]
    Copy(#[source] io::Error),
    /// Some bytes can't be written.
    #[error("writing {len} bytes at {offset}")]
    Write { len: usize, offset: u64, source: io::Error },
    #[error("copying file")]
    Stream(#[source] io::Error),
    /// The output is a terminal.
    #[error("Refusing to write binary data to terminal")]
    Terminal,
    /// The file can't get its name.
    #[error("persisting output file to {}", path.display())]
    Persist { path: PathBuf, source: io::Error },
    /// The path has no file name.
    #[error("no parent directory of {}", path.display())]
    NoParent { path: PathBuf },
}

impl Output {
    /// `-` is standard output; no path means in place.
    pub(crate) fn from_path(path: Option<&Path>) -> Self {
        match path {
            None => Self::InPlace,
            Some(path) if path == Path::new("-") => Self::Stdout,
            Some(path) => Self::NewFile(path.to_owned()),
        }
    }

    /// Writes `image` with `patches` applied; for changes in place it must be open for writing.
    pub fn write(&self, image: &File, mut patches: Vec<Patch>) -> Result<(), OutputError> {
        match self {
            Self::InPlace => apply(image, &patches),
            Self::Stdout => {
                let mut out = stdout()?;
                order::sort_by_key(&mut patches, |patch| patch.offset);
                stream(image, &patches, &mut out).map_err(OutputError::Stream)
            }
            Self::NewFile(path) => {
                let mut unfinished = Unfinished::create(path)?;
                let mut source = image;
                // Of a drive, which has no length as a file, too.
                let len = source.seek(SeekFrom::End(0)).map_err(OutputError::Copy)?;
                source.seek(SeekFrom::Start(0)).map_err(OutputError::Copy)?;
                Progress::of(len).copy(image, len, unfinished.file()).map_err(OutputError::Copy)?;
                apply(unfinished.file(), &patches)?;
                unfinished.finish()
            }
        }
    }
}

/// Standard output, if it isn't a terminal.
pub(crate) fn stdout() -> Result<File, OutputError> {
    let out = io::stdout();
    if out.is_terminal() {
        return Err(OutputError::Terminal);
    }
    out.as_fd().try_clone_to_owned().map(File::from).map_err(OutputError::Stream)
}

/// Overwrites what the patches change.
pub(crate) fn apply(file: &File, patches: &[Patch]) -> Result<(), OutputError> {
    for Patch { offset, bytes } in patches {
        let failed = |source| OutputError::Write { len: bytes.len(), offset: *offset, source };
        file.write_all_at(bytes, *offset).map_err(failed)?;
    }
    Ok(())
}

/// From start to end, with the patches, which are sorted and don't overlap, in their places.
fn stream(image: &File, patches: &[Patch], out: &mut File) -> io::Result<()> {
    let mut image = image;
    let mut at = image.seek(SeekFrom::Start(0))?;
    for Patch { offset, bytes } in patches {
        io::copy(&mut io::Read::take(image, offset.saturating_sub(at)), out)?;
        io::Write::write_all(out, bytes)?;
        at = image.seek(SeekFrom::Start(offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX))))?;
    }
    io::copy(&mut image, out).map(drop)
}

/// A new file under a temporary name in its directory, removed if not finished. Only its owner can read it: what is embedded may be
/// secret.
pub(crate) struct Unfinished {
    file: tempfile::NamedTempFile,
    path: PathBuf,
    replaces: bool,
}

impl Unfinished {
    /// A draft of `path`.
    pub(crate) fn create(path: &Path) -> Result<Self, OutputError> {
        let directory = parent(path)?;
        // Fail before a gigabyte has been copied.
        if path.symlink_metadata().is_ok() {
            let source = io::Error::from_raw_os_error(nix::libc::EEXIST);
            return Err(OutputError::Persist { path: path.to_owned(), source });
        }
        Self::draft(directory, path, false)
    }

    /// A draft of `path` that takes the place of a file there.
    #[cfg(feature = "pack-osmet")]
    pub(crate) fn replacing(path: &Path) -> Result<Self, OutputError> {
        Self::draft(parent(path)?, path, true)
    }

    fn draft(directory: &Path, path: &Path, replaces: bool) -> Result<Self, OutputError> {
        let file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(directory).map_err(OutputError::Create)?;
        Ok(Self { file, path: path.to_owned(), replaces })
    }

    /// The open file.
    pub(crate) fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Renames it to its path, unless that exists meanwhile and is not to be replaced.
    pub(crate) fn finish(self) -> Result<(), OutputError> {
        let Self { file, path, replaces } = self;
        let persisted = if replaces { file.persist(&path) } else { file.persist_noclobber(&path) };
        persisted.map(drop).map_err(|error| OutputError::Persist { path, source: error.error })
    }
}

fn parent(path: &Path) -> Result<&Path, OutputError> {
    path.parent().ok_or_else(|| OutputError::NoParent { path: path.to_owned() })
}
