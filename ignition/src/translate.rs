//! Configs from one version of the specification to another.

use crate::check::{ParseError, parse};
use crate::model::{Document, Version};
use crate::report::{DUPLICATE, Entry, Report, Severity};

/// Permission bits that mean something before 3.6.
const PLAIN_MODE: i64 = 0o777;

/// Why a config can't be translated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TranslateError {
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// It is not valid to begin with.
    #[error("the config is not valid:\n{0}")]
    Invalid(Report),
    /// The other version can't express it.
    #[error("version {to} can't express all of the config:\n{}", list(dropped))]
    Lost {
        to: Version,
        /// What it would make of it.
        dropped: Vec<Entry>,
    },
}

fn list(entries: &[Entry]) -> String {
    entries.iter().map(|entry| format!("  {}: {}\n", entry.path.as_deref().unwrap_or("$"), entry.message)).collect()
}

/// The same config in version `to`: upwards as Ignition does it itself (docs/compatibility.md#ignition-translation),
/// downwards where nothing is lost. Unknown keys are left out, as by every reader.
pub fn translate(text: &[u8], to: Version) -> Result<Vec<u8>, TranslateError> {
    let (mut config, from, before) = parse(text)?;
    if before.is_fatal() {
        return Err(TranslateError::Invalid(before));
    }
    upgrade(&mut config, from, to);
    let translated = config.to_json();
    let (_, _, after) = parse(&translated)?;
    let is_new =
        |entry: &&Entry| !before.entries.iter().any(|old| old.path == entry.path && old.message == entry.message);
    let dropped: Vec<_> = after.entries.iter().filter(is_new).cloned().collect();
    if dropped.is_empty() { Ok(translated) } else { Err(TranslateError::Lost { to, dropped }) }
}

/// Makes a config that was read as `from` one of `to`.
pub(crate) fn upgrade(config: &mut Document<'_>, from: Version, to: Version) {
    config.ignition.version = to.name().into();
    if from < Version::V3_6 && to >= Version::V3_6 {
        let files = config.storage.files.iter_mut().map(|file| &mut file.mode);
        for mode in files.chain(config.storage.directories.iter_mut().map(|directory| &mut directory.mode)) {
            *mode = mode.map(|mode| mode & PLAIN_MODE);
        }
    }
}

/// These configs as one, parents first, in the newest version among them. The error is of the config at this place, or of
/// the result.
pub fn merge_all(texts: &[&[u8]]) -> Result<Vec<u8>, (Option<usize>, TranslateError)> {
    let mut configs = Vec::with_capacity(texts.len());
    for (place, text) in texts.iter().enumerate() {
        let of = |error: TranslateError| (Some(place), error);
        let (config, version, report) = parse(text).map_err(|error| of(error.into()))?;
        if report.is_fatal() {
            return Err(of(TranslateError::Invalid(report)));
        }
        configs.push((config, version));
    }
    let to = configs.iter().map(|(_, version)| *version).max().unwrap_or(Version::NEWEST_STABLE);
    let merged = configs.into_iter().map(|(mut config, from)| {
        upgrade(&mut config, from, to);
        config
    });
    merged_json(&merged.reduce(Document::merge).unwrap_or_default()).map_err(|error| (None, error))
}

/// What was merged, as text; checked.
pub(crate) fn merged_json(config: &Document<'_>) -> Result<Vec<u8>, TranslateError> {
    let json = config.to_json();
    match check_merged(&json) {
        Ok(_) => Ok(json),
        Err(ParseError::Invalid(report)) => Err(TranslateError::Invalid(report)),
        Err(error) => Err(error.into()),
    }
}

/// What was merged, read back; [`ParseError::Invalid`] if Ignition would not take it. It looks for duplicate entries only
/// in what people wrote.
pub(crate) fn check_merged(merged: &[u8]) -> Result<Document<'_>, ParseError> {
    let (config, _, mut report) = parse(merged)?;
    report.entries.retain(|entry| entry.severity == Severity::Error && entry.message != DUPLICATE);
    if report.entries.is_empty() { Ok(config) } else { Err(ParseError::Invalid(report)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(result: Result<Vec<u8>, TranslateError>) -> String {
        String::from_utf8(result.unwrap()).unwrap()
    }

    #[test]
    fn up_through_every_version() {
        let config = br#"{"ignition":{"version":"3.0.0"},"storage":{"files":[{"path":"/a","mode":420,"contents":{"source":"data:,x"}}]}}"#;
        for to in Version::ALL {
            let expected = format!(
                r#"{{"ignition":{{"version":"{to}"}},"storage":{{"files":[{{"path":"/a","contents":{{"source":"data:,x"}},"mode":420}}]}}}}"#
            );
            assert_eq!(text(translate(config, to)), expected);
        }
    }

    #[test]
    fn special_mode_bits_meant_nothing_before() {
        let config = br#"{"ignition":{"version":"3.5.0"},"storage":{"directories":[{"path":"/a","mode":1023}]}}"#;
        assert!(text(translate(config, Version::V3_6)).contains("\"mode\":511"));
        assert!(text(translate(config, Version::V3_4)).contains("\"mode\":1023"));
    }

    #[test]
    fn down_only_where_nothing_is_lost() {
        let config = br#"{"ignition":{"version":"3.6.0"},"kernelArguments":{"shouldExist":["a"]},"storage":{"files":[{"path":"/a","mode":2541}]}}"#;
        let error = translate(config, Version::V3_2).unwrap_err();
        let TranslateError::Lost { dropped, .. } = &error else { panic!("{error}") };
        let paths: Vec<_> = dropped.iter().map(|entry| entry.path.as_deref().unwrap()).collect();
        assert_eq!(paths, ["$.storage.files.0.mode", "$.kernelArguments"]);
        assert!(
            error.to_string().starts_with("version 3.2.0 can't express all of the config:\n  $.storage"),
            "{error}"
        );
        assert!(translate(br#"{"ignition":{"version":"3.6.0"}}"#, Version::V3_0).is_ok());
    }

    #[test]
    fn what_is_not_valid_stays_as_it_is() {
        let config = br#"{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"a"}]}}"#;
        assert!(matches!(translate(config, Version::V3_3), Err(TranslateError::Invalid(_))));
        assert!(matches!(translate(b"", Version::V3_3), Err(TranslateError::Parse(ParseError::Empty))));
    }
}
