//! Programs that the operator names: `--openshift-install`.

use super::{error::ExtractError, program};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    str::FromStr,
};

/// `VERSION=FILE`, or `FILE` for all versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenInstaller {
    version: Option<String>,
    path: PathBuf,
}

/// Why a text does not name a program.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' names no file: expected FILE or VERSION=FILE, like 4.22=/usr/local/bin/openshift-install")]
pub struct GivenError(String);

impl FromStr for GivenInstaller {
    type Err = GivenError;

    fn from_str(text: &str) -> Result<Self, GivenError> {
        // The path of a file may have an equals sign too.
        let (version, path) = match text.split_once('=') {
            Some((version, path)) if program::minor(version).is_some() => (Some(version.to_owned()), path),
            _ => (None, text),
        };
        if path.is_empty() {
            return Err(GivenError(text.to_owned()));
        }
        Ok(Self { version, path: path.into() })
    }
}

/// All that were given.
#[derive(Clone, Debug, Default)]
pub struct GivenInstallers(pub Vec<GivenInstaller>);

impl GivenInstallers {
    /// The one for a version: given for it, for its minor release, or for all. Of several the last counts.
    pub fn find(&self, version: &str) -> Option<&Path> {
        let version = version.strip_suffix("-multi").unwrap_or(version);
        let minor = program::minor(version).map(|(major, minor)| format!("{major}.{minor}"));
        let named = |wanted: Option<&str>| self.0.iter().rev().find(|own| own.version.as_deref() == wanted);
        let exact = named(Some(version)).or_else(|| minor.as_deref().and_then(|minor| named(Some(minor))));
        exact.or_else(|| named(None)).map(|given| given.path.as_path())
    }

    /// Whether all of them can be run.
    pub fn check(&self) -> Result<(), ExtractError> {
        self.0.iter().try_for_each(|given| check(&given.path))
    }
}

/// Whether a file can be run.
pub(super) fn check(path: &Path) -> Result<(), ExtractError> {
    let can_run = fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    if can_run { Ok(()) } else { Err(ExtractError::Given { path: path.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_version_wins_and_of_two_the_last() {
        let given = ["/all", "4.22=/minor", "4.22.9=/old", "4.22.9=/exact"].map(|text| text.parse().unwrap());
        let given = GivenInstallers(given.into());
        for (version, expected) in [
            ("4.22.9", "/exact"),
            ("4.22.9-multi", "/exact"),
            ("4.22.8", "/minor"),
            ("4.22", "/minor"),
            ("4.2", "/all"),
            ("unknown", "/all"),
        ] {
            assert_eq!(given.find(version), Some(Path::new(expected)), "{version}");
        }
        assert_eq!(GivenInstallers(given.0[1..].into()).find("4.21.1"), None);
        assert_eq!(GivenInstallers::default().find("4.22.9"), None);
    }

    #[test]
    fn a_path_may_have_an_equals_sign() {
        let path = |text: &str| text.parse::<GivenInstaller>().map(|given| (given.version, given.path));
        assert_eq!(path("/a=b/c"), Ok((None, "/a=b/c".into())));
        assert_eq!(path("4.22.9-rc.1=/a=b"), Ok((Some("4.22.9-rc.1".into()), "/a=b".into())));
        for bad in ["", "4.22="] {
            assert_eq!(path(bad), Err(GivenError(bad.into())));
        }
    }

    #[test]
    fn what_cannot_be_run_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("program");
        fs::write(&file, "x").unwrap();
        let given =
            |path: &Path| GivenInstallers(vec![GivenInstaller { version: None, path: path.to_owned() }]).check();
        assert!(given(&file).is_err() && given(directory.path()).is_err());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(given(&file).is_ok());
        fs::remove_file(&file).unwrap();
        let error = given(&file).unwrap_err().to_string();
        assert_eq!(error, format!("{} is not a program that can be run", file.display()));
    }
}
