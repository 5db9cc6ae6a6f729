//! Instructions out of files: answers to polls, single steps, lists of them, recorded exchanges.

use api::Step;
use kernel::order;
use serde_json::Value;
use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

/// An answer with the connectivity check of a thousand hosts is below this.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// More files than any recording has.
const MAX_FILES: usize = 10_000;

/// Why nothing can be replayed.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    /// Can't be read, or is too large.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        source: io::Error,
    },
    /// Not JSON.
    #[error("{} is not JSON", path.display())]
    Json { path: PathBuf, source: serde_json::Error },
    /// Neither an answer to a poll nor a step.
    #[error("{} contains no instructions: give an answer to a poll, a step, a list of steps or a recorded exchange", path.display())]
    Nothing {
        /// The file or directory.
        path: PathBuf,
    },
}

/// The steps in the file at `path`, or in all `.json` files of a directory, by name; there the other exchanges are passed over.
pub fn read(path: &Path) -> Result<Vec<Step>, RecordedError> {
    let mut steps = Vec::new();
    if path.is_dir() {
        let fail = |source| RecordedError::Read { path: path.to_owned(), source };
        let entries = fs::read_dir(path).map_err(fail)?.collect::<Result<Vec<_>, _>>().map_err(fail)?;
        let mut files: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
        order::sort(&mut files);
        for file in files.iter().take(MAX_FILES) {
            steps.extend(instructions(&parse(file)?).unwrap_or_default());
        }
    } else {
        steps = instructions(&parse(path)?).unwrap_or_default();
    }
    if steps.is_empty() { Err(RecordedError::Nothing { path: path.to_owned() }) } else { Ok(steps) }
}

fn parse(path: &Path) -> Result<Value, RecordedError> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut text));
    read.map_err(|source| RecordedError::Read { path: path.to_owned(), source })?;
    serde_json::from_slice(&text).map_err(|source| RecordedError::Json { path: path.to_owned(), source })
}

/// The steps in `document`, whichever of the forms it has.
fn instructions(document: &Value) -> Option<Vec<Step>> {
    let document = match document.pointer("/response/body") {
        // A recorder may have stored the text.
        Some(Value::String(text)) => &serde_json::from_slice(text.as_bytes()).ok()?,
        Some(body) => body,
        None => document,
    };
    let list = match document.get("instructions") {
        Some(list) => list.as_array()?.clone(),
        None => document.as_array().cloned().unwrap_or_else(|| vec![document.clone()]),
    };
    // Any object can be read as a step without a type, but was not meant as one.
    let is_step = |step: &Value| step.get("step_type").is_some_and(Value::is_string);
    list.into_iter().map(|step| api::json::from_value(is_step(&step).then_some(step)?).ok()).collect()
}
