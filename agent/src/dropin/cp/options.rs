//! The command line of cp(1): short options may be joined, and stand among the names.

use super::quoted;
use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

/// Which symbolic links are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Links {
    /// Not said: all of what is no directory's content.
    #[default]
    Unsaid,
    /// -L
    Followed,
    /// -H
    FollowedAtFirst,
    /// -P
    Kept,
}

/// What is to be copied, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub links: Links,
    pub preserve: bool,
    pub recursive: bool,
    pub verbose: bool,
    pub sources: Vec<PathBuf>,
    pub target: PathBuf,
    /// -t: the target must be a directory.
    pub into_directory: bool,
    /// -T: the target is no directory to copy into.
    pub plain_target: bool,
}

/// A command line that isn't carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Wrong {
    #[error("help")]
    Help,
    #[error("version")]
    Version,
    #[error("invalid option -- '{0}'")]
    Short(char),
    #[error("unrecognized option '{0}'")]
    Long(String),
    #[error("option requires an argument -- '{0}'")]
    NoArgument(char),
    #[error("option '--{0}' requires an argument")]
    NoLongArgument(&'static str),
    #[error("option '--{0}' doesn't allow an argument")]
    Argument(String),
    #[error("missing file operand")]
    NoFile,
    #[error("missing destination file operand after {}", quoted(.0))]
    NoDestination(PathBuf),
    #[error("extra operand {}", quoted(.0))]
    Extra(PathBuf),
    #[error("cannot combine --target-directory (-t) and --no-target-directory (-T)")]
    Both,
}

pub(super) fn parse(words: &[OsString]) -> Result<Options, Wrong> {
    let mut options = Options::default();
    let mut target: Option<PathBuf> = None;
    let mut words = words.iter();
    let mut names: Vec<PathBuf> = Vec::new();
    while let Some(word) = words.next() {
        let bytes = word.as_bytes();
        match bytes {
            b"--" => {
                names.extend(words.by_ref().map(PathBuf::from));
            }
            [b'-', b'-', long @ ..] => {
                let (name, value) = match long.iter().position(|&byte| byte == b'=') {
                    Some(at) => (long.get(..at).unwrap_or_default(), long.get(at + 1..)),
                    None => (long, None),
                };
                let name = String::from_utf8_lossy(name).into_owned();
                match (name.as_str(), value) {
                    ("target-directory", Some(value)) => target = Some(path(value)),
                    ("target-directory", None) => {
                        target = Some(words.next().ok_or(Wrong::NoLongArgument("target-directory"))?.into());
                    }
                    // Which attributes: all there are here.
                    ("preserve", _) => options.preserve = true,
                    ("help", None) => return Err(Wrong::Help),
                    ("version", None) => return Err(Wrong::Version),
                    (name, value) => match (long_switch(name), value) {
                        (Some(letter), None) => switch(&mut options, letter)?,
                        (Some(_), Some(_)) => return Err(Wrong::Argument(name.to_owned())),
                        (None, _) => return Err(Wrong::Long(word.to_string_lossy().into_owned())),
                    },
                }
            }
            [b'-', short @ ..] if !short.is_empty() => {
                for (at, byte) in short.iter().enumerate() {
                    if *byte != b't' {
                        switch(&mut options, char::from(*byte))?;
                        continue;
                    }
                    let joined = short.get(at + 1..).filter(|rest| !rest.is_empty()).map(path);
                    target = joined.or_else(|| words.next().map(PathBuf::from));
                    if target.is_none() {
                        return Err(Wrong::NoArgument('t'));
                    }
                    break;
                }
            }
            _ => names.push(word.into()),
        }
    }
    options.into_directory = target.is_some();
    if options.into_directory && options.plain_target {
        return Err(Wrong::Both);
    }
    match target {
        Some(target) => options.target = target,
        None => {
            let destination = names.pop().ok_or(Wrong::NoFile)?;
            if names.is_empty() {
                return Err(Wrong::NoDestination(destination));
            }
            if options.plain_target && names.len() > 1 {
                return Err(Wrong::Extra(destination));
            }
            options.target = destination;
        }
    }
    if names.is_empty() {
        return Err(Wrong::NoFile);
    }
    options.sources = names;
    Ok(options)
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

fn long_switch(name: &str) -> Option<char> {
    Some(match name {
        "archive" => 'a',
        "force" | "remove-destination" => 'f',
        "dereference" => 'L',
        "no-dereference" => 'P',
        "recursive" => 'R',
        "no-target-directory" => 'T',
        "verbose" => 'v',
        _ => return None,
    })
}

fn switch(options: &mut Options, letter: char) -> Result<(), Wrong> {
    match letter {
        'a' => {
            options.links = Links::Kept;
            options.preserve = true;
            options.recursive = true;
        }
        'd' | 'P' => options.links = Links::Kept,
        'H' => options.links = Links::FollowedAtFirst,
        'L' => options.links = Links::Followed,
        'f' => {}
        'p' => options.preserve = true,
        'r' | 'R' => options.recursive = true,
        'T' => options.plain_target = true,
        'v' => options.verbose = true,
        other => return Err(Wrong::Short(other)),
    }
    Ok(())
}

impl Options {
    /// Whether a link is followed, of which the user named the path or not.
    pub fn follows(&self, named: bool) -> bool {
        match self.links {
            Links::Followed => true,
            Links::FollowedAtFirst => named,
            Links::Kept => false,
            Links::Unsaid => !self.recursive,
        }
    }

    /// Where the copy of `source` goes, given that the target is a directory to copy into.
    pub fn inside(&self, source: &Path) -> PathBuf {
        // By the bytes: a Path overlooks a dot at its end.
        let bytes = source.as_os_str().as_bytes();
        let end = bytes.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
        match bytes.get(..end).and_then(|bytes| bytes.rsplit(|&byte| byte == b'/').next()) {
            // The directory itself.
            Some(b"" | b"." | b"..") | None => self.target.clone(),
            Some(name) => self.target.join(path(name)),
        }
    }
}
