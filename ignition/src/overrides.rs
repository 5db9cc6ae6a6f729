//! Overrides: configs that users write, merged over those built here (docs/compatibility.md#config-overrides).

use crate::check::{ParseError, parse, version_text};
use crate::model::{Document, Version};
use crate::report::Report;
use crate::translate::{check_merged, upgrade};

/// The oldest that the service's own parser knows.
const OLDEST: Version = Version::V3_1;
/// Characters of a version that a message shows.
const SHOWN_CHARS: usize = 32;

/// Why an override can't be merged. No text of it is shown, it may hold secrets.
#[derive(Debug, thiserror::Error)]
pub enum OverrideError {
    /// Not JSON, or JSON of another shape.
    #[error("it can't be read: {}", .0.summary())]
    Json(Report),
    /// A version that can't be merged.
    #[error("its ignition.version is {found}; {OLDEST} to {} can be merged", Version::V3_7)]
    Version {
        /// As found, shortened, or `missing`.
        found: String,
    },
    /// Ignition would reject it.
    #[error("it is not valid: {}", .0.summary())]
    Invalid(Report),
    /// Ignition would reject the merged config.
    #[error("the config merged with it is not valid: {}", .0.summary())]
    Merged(Report),
    /// It is of an older version than something in the config.
    #[error("it is of version {version}, which can't express all of the config; use a newer one")]
    Lost { version: Version },
}

/// `config` with the JSON text of an override merged over it; empty text changes nothing. The result is of the override's version,
/// as it is in Ignition, and valid in it.
pub fn merge_override<'a>(mut config: Document<'a>, text: &'a str) -> Result<Document<'a>, OverrideError> {
    if text.trim().is_empty() {
        return Ok(config);
    }
    let unknown = || {
        let found = version_text(text.as_bytes()).unwrap_or_else(|| "missing".to_owned());
        OverrideError::Version { found: found.chars().take(SHOWN_CHARS).collect() }
    };
    let (child, version, report) = parse(text.as_bytes()).map_err(|error| match error {
        ParseError::Invalid(report) => OverrideError::Json(report),
        ParseError::Empty | ParseError::Version(_) => unknown(),
    })?;
    if version < OLDEST {
        return Err(unknown());
    }
    if report.is_fatal() {
        return Err(OverrideError::Invalid(report));
    }
    // Configs built here have a version.
    let from = Version::parse(&config.ignition.version).unwrap_or(OLDEST);
    upgrade(&mut config, from, version);
    let merged = config.merge(child);
    let json = merged.to_json();
    let reread = check_merged(&json).map_err(|error| match error {
        ParseError::Invalid(report) => OverrideError::Merged(report),
        ParseError::Empty | ParseError::Version(_) => unknown(),
    })?;
    // What this version can't express is not read back.
    if reread == merged { Ok(merged) } else { Err(OverrideError::Lost { version }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::{bytes_file, empty};

    fn merged(text: &str) -> Result<String, String> {
        let mut config = empty(Version::V3_2);
        config.storage.files.push(bytes_file("/a", 0o644, b"x"));
        let merged = merge_override(config, text).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(merged.to_json()).unwrap())
    }

    #[test]
    fn the_result_is_of_the_overrides_version() {
        let plain = merged(" \n").unwrap();
        assert!(plain.contains(r#""version":"3.2.0""#), "{plain}");
        for version in ["3.1.0", "3.2.0", "3.3.0", "3.6.0", "3.7.0-experimental"] {
            let with = merged(&format!(r#"{{"ignition":{{"version":"{version}"}}}}"#)).unwrap();
            assert_eq!(with, plain.replace("3.2.0", version));
        }
    }

    #[test]
    fn an_override_that_cant_be_is_refused_with_its_place() {
        let refused = |text: &str| merged(text).unwrap_err();
        let files = |file: &str| format!(r#"{{"ignition":{{"version":"3.2.0"}},"storage":{{"files":{file}}}}}"#);
        for (text, expected) in [
            ("{", "it can't be read: error at line 0 col 0: unexpected end of JSON input"),
            ("{}", "its ignition.version is missing; 3.1.0 to 3.7.0-experimental can be merged"),
            (
                r#"{"ignition":{"version":"2.2.0"}}"#,
                "its ignition.version is 2.2.0; 3.1.0 to 3.7.0-experimental can be merged",
            ),
            (
                r#"{"ignition":{"version":"3.0.0"}}"#,
                "its ignition.version is 3.0.0; 3.1.0 to 3.7.0-experimental can be merged",
            ),
            (
                &files(r#"[{"path":"/a","mode":"0644"}]"#),
                "it can't be read: error at line 1 col 79: json: cannot unmarshal string into Go struct field Config.storage.files.0.mode of type int",
            ),
            (
                &files(r#"[{"path":"hunter2"}, {"path":"/a","mode":-1}]"#),
                "it is not valid: error at $.storage.files.0.path, line 1 col 61: path not absolute; \
                 error at $.storage.files.1.mode, line 1 col 93: illegal file mode",
            ),
            (
                r#"{"ignition":{"version":"3.2.0"},"systemd":{"units":[{"name":"a.service","contents":"hunter2"}]},"storage":{"links":[{"path":"/etc/systemd/system/a.service","target":"/b"}]}}"#,
                "it is not valid: error at $.storage.links.0.path, line 1 col 125: path conflicts with systemd unit or dropin",
            ),
        ] {
            assert_eq!(refused(text), expected, "{text}");
        }
        assert!(refused(&"[".repeat(100_000)).starts_with("it can't be read: "));
        let many = files(&format!("[{}]", [r#"{"path":""}"#; 9].join(",")));
        assert!(refused(&many).ends_with("path not specified; and 12 more"), "{}", refused(&many));
    }

    #[test]
    fn what_both_come_to_is_checked_too() {
        let mut config = empty(Version::V3_2);
        config.storage.files.push(bytes_file("/etc/systemd/system/a.service", 0o644, b""));
        let unit = r#"{"ignition":{"version":"3.2.0"},"systemd":{"units":[{"name":"a.service","contents":"[Unit]"}]}}"#;
        let error = merge_override(config, unit).unwrap_err();
        assert!(matches!(error, OverrideError::Merged(_)), "{error}");
        let mut config = empty(Version::V3_3);
        config.kernel_arguments.should_exist.push("a".into());
        let error = merge_override(config, r#"{"ignition":{"version":"3.2.0"}}"#).unwrap_err();
        assert!(matches!(error, OverrideError::Lost { version: Version::V3_2 }), "{error}");
    }
}
