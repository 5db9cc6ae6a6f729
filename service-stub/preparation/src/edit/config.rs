//! An Ignition config between reading and writing.

use super::error::EditError;
use ignition::data_url;
use ignition::model::{Document, File, Owner, Resource, Version};

/// The oldest version that OpenShift's nodes had.
const OLDEST: Version = Version::V3_1;

/// The config with `change` made to it. It stays of its version, and Ignition takes the result.
pub(super) fn edit(
    file: &str,
    text: &[u8],
    change: impl FnOnce(&mut Document<'_>) -> Result<(), EditError>,
) -> Result<Vec<u8>, EditError> {
    let mut config = read(file, text)?;
    change(&mut config)?;
    let edited = config.to_json();
    read(file, &edited)?;
    Ok(edited)
}

fn read<'a>(file: &str, text: &'a [u8]) -> Result<Document<'a>, EditError> {
    let refused = |reason| EditError::Config { file: file.to_owned(), reason };
    let (config, version, report) = ignition::parse(text).map_err(|error| match error {
        ignition::ParseError::Invalid(report) => refused(report.summary()),
        error => refused(error.to_string()),
    })?;
    if report.is_fatal() {
        return Err(refused(report.summary()));
    }
    if version < OLDEST {
        return Err(refused(format!("it is of version {version}, older than {OLDEST}")));
    }
    Ok(config)
}

/// Puts in files, in place of those of the same paths.
pub(super) fn put(config: &mut Document<'_>, files: Vec<File<'static>>) {
    let existing = &mut config.storage.files;
    existing.retain(|old| files.iter().all(|new| new.path != old.path));
    existing.extend(files);
}

/// A file of root's that everyone may read, which is not on the system before.
pub(super) fn file(path: &'static str, source: String) -> File<'static> {
    File {
        path: path.into(),
        overwrite: Some(false),
        user: Owner { id: None, name: Some("root".into()) },
        mode: Some(0o644),
        contents: resource(source),
        ..File::default()
    }
}

/// What a URL holds.
pub(super) fn resource(source: String) -> Resource<'static> {
    Resource { source: Some(source.into()), ..Resource::default() }
}

/// The URL of a text, encoded as the files are that openshift-install makes.
pub(super) fn text_url(text: &str) -> String {
    data_url::base64_of("text/plain;charset=utf-8", text.as_bytes())
}

/// What is in a file; nothing where it is fetched or packed.
pub(super) fn contents(file: &File<'_>) -> Option<Vec<u8>> {
    let source = file.contents.source.as_deref().filter(|_| file.contents.compression.is_none())?;
    Some(data_url::decode(source).ok()?.data.into_owned())
}
