//! Settings given as FIELD=VALUE, by their API names.

use super::read_small;
use serde_json::{Map, Value};
use std::path::Path;

/// A larger file is not a value.
const MAX_VALUE_BYTES: u64 = 8 << 20;
/// Fields that must not show in the process list.
const SECRETS: [&str; 2] = ["ignition_endpoint_token", "pull_secret"];

/// Why a setting is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FieldError {
    /// No `=`.
    #[error("'{0}' is not a setting: write FIELD=VALUE, FIELD=@FILE or FIELD=null")]
    Form(String),
    #[error(
        "{0} is a secret, and other users can see this command line: write {0}=@FILE, or {0}=@- for standard input"
    )]
    Secret(String),
}

/// A setting before its file is read.
#[derive(Debug, PartialEq, Eq)]
enum Source<'a> {
    Text(&'a str),
    File(&'a Path),
}

fn parse(setting: &str) -> Result<(&str, Source<'_>), FieldError> {
    let split = setting.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) =
        split.ok_or_else(|| FieldError::Form(setting.split('=').next().unwrap_or_default().to_owned()))?;
    match value.strip_prefix('@') {
        Some(path) => Ok((name, Source::File(Path::new(path)))),
        None if SECRETS.contains(&name) => Err(FieldError::Secret(name.to_owned())),
        None => Ok((name, Source::Text(value))),
    }
}

/// A value on the command line: JSON if it parses, else text.
fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

/// Adds settings to a document; the last of a name wins. The content of a file is text.
pub(crate) fn add(document: &mut Map<String, Value>, settings: &[String]) -> anyhow::Result<()> {
    for setting in settings {
        let (name, source) = parse(setting)?;
        let value = match source {
            Source::Text(text) => value(text),
            Source::File(path) => Value::from(read_small(path, MAX_VALUE_BYTES)?.trim_end()),
        };
        document.insert(name.to_owned(), value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_json_or_text() {
        let mut document = Map::new();
        let settings = [
            "name=rack",
            "control_plane_count=3",
            r#"api_vips=[{"ip":"10.0.0.9"}]"#,
            "tags=",
            "vip_dhcp_allocation=false",
        ];
        add(&mut document, &settings.map(str::to_owned)).unwrap();
        assert_eq!(
            Value::Object(document),
            json!({"name": "rack", "control_plane_count": 3, "api_vips": [{"ip": "10.0.0.9"}], "tags": "", "vip_dhcp_allocation": false})
        );
    }

    #[test]
    fn secrets_come_from_files_only() {
        assert_eq!(parse("pull_secret={}"), Err(FieldError::Secret("pull_secret".into())));
        assert_eq!(parse("pull_secret=@x"), Ok(("pull_secret", Source::File(Path::new("x")))));
        assert!(!parse("pull_secret=s3cret").unwrap_err().to_string().contains("s3cret"));
        for bad in ["", "name", "=x"] {
            assert!(matches!(parse(bad), Err(FieldError::Form(_))), "{bad}");
        }
    }
}
