//! `cp`, for an image without any other program: a service's unit copies the agent out of its image with it
//! (docs/compatibility.md#agent-launch).
//!
//! It copies regular files, as cp(1) does and with its messages, and one thing is better: a file is replaced by a new one in one
//! step, so that a running program can be, and no half-written file is ever visible.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    fs::{self, File, FileTimes, Metadata, Permissions},
    io::{self, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, chown},
    },
    path::{Path, PathBuf},
    process::ExitCode,
};
use tempfile::NamedTempFile;

/// The name of this program.
pub const NAME: &str = "cp";

const USAGE: &str = "\
Usage: cp [-f] [-p] [-v] [--] SOURCE DEST
  or:  cp [-f] [-p] [-v] [--] SOURCE... DIRECTORY
Copies regular files.

  -f           nothing more: files are replaced anyway
  -p           keeps owner, mode and times
  -v           prints each copy
      --help   prints this

This is the cp of landfall, for images without another. It copies no directories.
";

#[derive(Debug, Default)]
struct Line {
    preserve: bool,
    verbose: bool,
    names: Vec<PathBuf>,
}

/// Why a command line or a copy fails.
#[derive(Debug, thiserror::Error)]
enum CopyError {
    #[error("invalid option -- '{0}'\nTry 'cp --help' for more information.")]
    Short(char),
    #[error("unrecognized option '{0}'\nTry 'cp --help' for more information.")]
    Long(String),
    #[error("missing file operand\nTry 'cp --help' for more information.")]
    NoSource,
    #[error("missing destination file operand after {}\nTry 'cp --help' for more information.", quoted(.0))]
    NoTarget(PathBuf),
    #[error("target {}: {}", quoted(.0), reason(.1))]
    Target(PathBuf, io::Error),
    #[error("-r not specified; omitting directory {}", quoted(.0))]
    Directory(PathBuf),
    #[error("{} and {} are the same file", quoted(.0), quoted(.1))]
    Same(PathBuf, PathBuf),
    #[error("cannot {what} {}: {}", quoted(path), reason(source))]
    System { what: &'static str, path: PathBuf, source: io::Error },
}

/// The program; `words` are those behind its name.
pub fn main(words: &[OsString]) -> ExitCode {
    if words.iter().any(|word| word == "--help") {
        return print(USAGE);
    }
    match parse(words).and_then(|line| Ok((destinations(&line)?, line))) {
        Ok((pairs, line)) => {
            pairs.iter().fold(ExitCode::SUCCESS, |code, (from, to)| match copy(from, to, line.preserve) {
                Ok(()) if line.verbose => print(&format!("{} -> {}\n", quoted(from), quoted(to))),
                Ok(()) => code,
                Err(error) => complain(&error),
            })
        }
        Err(error) => complain(&error),
    }
}

fn parse(words: &[OsString]) -> Result<Line, CopyError> {
    let mut line = Line::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_bytes() {
            b"--" => line.names.extend(words.by_ref().map(PathBuf::from)),
            [b'-', b'-', ..] => return Err(CopyError::Long(word.to_string_lossy().into_owned())),
            [b'-', letters @ ..] if !letters.is_empty() => {
                for letter in OsStr::from_bytes(letters).to_string_lossy().chars() {
                    match letter {
                        'f' => {}
                        'p' => line.preserve = true,
                        'v' => line.verbose = true,
                        other => return Err(CopyError::Short(other)),
                    }
                }
            }
            _ => line.names.push(word.into()),
        }
    }
    Ok(line)
}

/// Each source with the place of its copy.
fn destinations(line: &Line) -> Result<Vec<(PathBuf, PathBuf)>, CopyError> {
    let (target, sources) = line.names.split_last().ok_or(CopyError::NoSource)?;
    let first = sources.first().ok_or_else(|| CopyError::NoTarget(target.clone()))?;
    let found = fs::metadata(target);
    if found.as_ref().is_ok_and(Metadata::is_dir) {
        let inside = |source: &PathBuf| (source.clone(), target.join(source.file_name().unwrap_or_default()));
        return Ok(sources.iter().map(inside).collect());
    }
    if sources.len() > 1 {
        let error = found.err().unwrap_or_else(|| io::Error::from_raw_os_error(libc::ENOTDIR));
        return Err(CopyError::Target(target.clone(), error));
    }
    Ok(vec![(first.clone(), target.clone())])
}

fn copy(from: &Path, to: &Path, preserve: bool) -> Result<(), CopyError> {
    let system = |what, path: &Path| {
        let path = path.to_owned();
        move |source| CopyError::System { what, path, source }
    };
    let meta = fs::metadata(from).map_err(system("stat", from))?;
    if meta.is_dir() {
        return Err(CopyError::Directory(from.to_owned()));
    }
    let existing = fs::metadata(to).ok();
    if existing.as_ref().is_some_and(|existing| (existing.dev(), existing.ino()) == (meta.dev(), meta.ino())) {
        return Err(CopyError::Same(from.to_owned(), to.to_owned()));
    }
    let mut reader = File::open(from).map_err(system("open", from))?;
    let create = "create regular file";
    // A name with a slash at its end stands for a directory.
    if to.as_os_str().as_bytes().ends_with(b"/") {
        return Err(system(create, to)(io::Error::from_raw_os_error(libc::ENOTDIR)));
    }
    // Through a link to what it names.
    let place = if existing.is_some() { fs::canonicalize(to).map_err(system(create, to))? } else { to.to_owned() };
    let directory = place.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut draft = NamedTempFile::new_in(directory).map_err(system(create, to))?;
    io::copy(&mut reader, &mut draft).map_err(system("write", to))?;
    let owner = if preserve { Some(&meta) } else { existing.as_ref() };
    let is_ours = owner.is_none_or(|owner| chown(draft.path(), Some(owner.uid()), Some(owner.gid())).is_ok());
    let mode = match owner {
        Some(owner) if is_ours => owner.mode() & 0o7777,
        Some(owner) => owner.mode() & 0o777,
        None => meta.mode() & 0o777 & !umask(),
    };
    let file = draft.as_file();
    file.set_permissions(Permissions::from_mode(mode)).map_err(system("preserve permissions for", to))?;
    if let (true, Ok(accessed), Ok(modified)) = (preserve, meta.accessed(), meta.modified()) {
        let times = FileTimes::new().set_accessed(accessed).set_modified(modified);
        file.set_times(times).map_err(system("preserve times for", to))?;
    }
    draft.persist(&place).map(drop).map_err(|error| system(create, to)(error.error))
}

/// The bits that new files do not get.
fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}

/// The cause without the number that Rust adds.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&format_args!("write error: {error}")),
    }
}

fn complain(error: &dyn fmt::Display) -> ExitCode {
    let _ = writeln!(io::stderr(), "cp: {error}");
    ExitCode::FAILURE
}

/// In single quotes, as cp prints names.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}
