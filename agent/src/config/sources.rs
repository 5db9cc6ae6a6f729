//! The places beyond the command line and the environment. Their bytes are untrusted.

use super::{ConfigError, Key, MAX_PEM_BYTES, Source};
use base64::{Engine, prelude::BASE64_STANDARD};
use inventory::{Root, smbios::Smbios};
use kernel::spelling::nearest;
use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

const MAX_FILE_BYTES: usize = 2 << 20;
const MAX_SHOWN_CHARS: usize = 80;
/// The kernel's own limit is 4 KiB on most architectures.
const MAX_COMMAND_LINE_BYTES: usize = 64 << 10;
/// What keys of ours start with, among the kernel's arguments and the firmware's texts.
const PREFIXES: [&str; 2] = ["landfall.", "io.landfall."];
/// systemd's own ways of handing a credential over (systemd-creds(1), systemd.system-credentials(7)); the value may be base64.
const SMBIOS_CREDENTIALS: [(&str, bool); 2] =
    [("io.systemd.credential:landfall.", false), ("io.systemd.credential.binary:landfall.", true)];
const KERNEL_CREDENTIALS: [(&str, bool); 2] =
    [("systemd.set_credential=landfall.", false), ("systemd.set_credential_binary=landfall.", true)];
const FW_CFG: &str = "/sys/firmware/qemu_fw_cfg/by_name/opt";
const FW_CFG_NAMES: [&str; 3] = ["landfall/", "io.landfall/", "io.systemd.credentials/landfall."];

/// Beyond the file: the kernel's and the firmware's words never name the host, whose identity has its own rules.
fn is_given(key: Key) -> bool {
    key != Key::HostId
}

/// Where `name` is looked for here, in words.
pub(super) fn places(name: &str) -> [String; 3] {
    [
        format!("among the kernel's arguments (landfall.{name}=)"),
        format!(
            "among the firmware's SMBIOS OEM strings (io.landfall.{name}=, io.systemd.credential:landfall.{name}=)"
        ),
        format!("in QEMU's fw_cfg (opt/landfall/{name}, opt/io.landfall/{name})"),
    ]
}

/// The values of the file at `path`; `None` if it is missing and optional.
pub(super) fn file(root: &Root, path: &Path, must_exist: bool) -> Result<Option<Vec<(Key, String)>>, ConfigError> {
    let read_error = |source| ConfigError::Read { path: path.to_owned(), source };
    let absolute = std::path::absolute(path).map_err(read_error)?;
    let bytes = match root.read(&absolute, MAX_FILE_BYTES) {
        Err(error) if !must_exist && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        other => other.map_err(read_error)?,
    };
    let text = String::from_utf8(bytes)
        .map_err(|error| read_error(io::Error::new(ErrorKind::InvalidData, error.utf8_error())))?;
    parse(&text, path).map(Some)
}

fn parse(text: &str, path: &Path) -> Result<Vec<(Key, String)>, ConfigError> {
    let fail = |line, reason: String| ConfigError::Syntax { path: path.to_owned(), line, reason };
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let start = error.span().and_then(|span| text.get(..span.start));
        let line = start.map(|start| start.bytes().filter(|&b| b == b'\n').count() + 1);
        // Its own text shows the line; the message doesn't.
        fail(line, error.message().to_owned())
    })?;
    let mut values = Vec::with_capacity(table.len());
    for (name, value) in table {
        let Some(key) = Key::named(&name) else {
            let known: Vec<_> = Key::ALL.iter().map(|key| key.name()).collect();
            let name: String = name.chars().take(80).collect();
            return Err(fail(None, format!("'{name}' is not one of {}", known.join(", "))));
        };
        let text = match value {
            toml::Value::String(text) => text,
            toml::Value::Boolean(value) => value.to_string(),
            toml::Value::Integer(value) => value.to_string(),
            other => return Err(fail(None, format!("{key} must be a string, not a {}", other.type_str()))),
        };
        values.push((key, text));
    }
    Ok(values)
}

/// A key with its value, or why there is none under a name of ours.
type Given = Result<(Key, String, Source), ConfigError>;

/// `landfall.KEY=` and systemd's credentials; the last of a name counts, as in the kernel.
pub(super) fn kernel_arguments(root: &Root) -> Vec<Given> {
    let line = root.text("/proc/cmdline", MAX_COMMAND_LINE_BYTES).unwrap_or_default();
    let words = words(&line);
    let mut found: Vec<_> = words
        .iter()
        .filter_map(|word| ours(word).or_else(|| credential(word, &KERNEL_CREDENTIALS, ':')))
        .filter_map(|word| word.given(Source::KernelArgument))
        .collect();
    found.reverse();
    found
}

/// Words of a kernel command line: blanks part them unless they are quoted, and quotes go.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_ascii_whitespace() && !quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// The firmware's OEM strings.
pub(super) fn oem_strings(root: &Root) -> Vec<Given> {
    let strings = Smbios::read(root).oem_strings();
    let words = strings.iter().map(|text| text.trim());
    words
        .filter_map(|text| ours(text).or_else(|| credential(text, &SMBIOS_CREDENTIALS, '=')))
        .filter_map(|word| word.given(Source::OemString))
        .collect()
}

/// QEMU's files; it needs the kernel's qemu_fw_cfg module.
pub(super) fn fw_cfg(root: &Root) -> Vec<Given> {
    if !root.is_dir(FW_CFG) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for key in Key::ALL.into_iter().filter(|key| is_given(*key)) {
        for start in FW_CFG_NAMES {
            let path = PathBuf::from(format!("{FW_CFG}/{start}{}/raw", key.name()));
            if let Some(text) = root.text(&path, MAX_PEM_BYTES + 1) {
                // Such a file often ends as a string of C does.
                found.push(Ok((key, text.trim_end_matches('\0').to_owned(), Source::FwCfg(path))));
            }
        }
    }
    found
}

/// A word whose name is of ours.
struct Word<'a> {
    /// The whole name.
    name: String,
    key: &'a str,
    /// `None` for a bare name.
    value: Option<String>,
}

impl Word<'_> {
    /// `None` for what another reader takes.
    fn given(self, source: impl Fn(String) -> Source) -> Option<Given> {
        let Self { name, key, value } = self;
        let fail = |reason| Err(ConfigError::Name { from: source(shown(&name)), reason });
        let Some(known) = Key::named(key) else {
            let names = Key::ALL.map(Key::name);
            let meant = nearest(&key.replace('-', "_"), names).map_or_else(
                || format!("it is not one of {}", names.join(", ")),
                |name| format!("did you mean '{name}'?"),
            );
            return Some(fail(format!("'{}' is not a setting: {meant}", shown(key))));
        };
        // The host's identity has its own rules, and its own reader.
        if !is_given(known) {
            return None;
        }
        match value {
            Some(value) => Some(Ok((known, value, source(name)))),
            None if known.is_switch() => Some(Ok((known, "true".to_owned(), source(name)))),
            None => Some(fail("it has no value".to_owned())),
        }
    }
}

/// A name for messages.
fn shown(name: &str) -> String {
    name.chars().take(MAX_SHOWN_CHARS).collect::<String>().escape_default().to_string()
}

/// A `landfall.KEY=VALUE` or a bare `landfall.KEY`.
fn ours(text: &str) -> Option<Word<'_>> {
    let rest = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let (key, value) = rest.split_once('=').map_or((rest, None), |(key, value)| (key, Some(value.to_owned())));
    Some(Word { name: text.split('=').next().unwrap_or_default().to_owned(), key, value })
}

/// As [`ours`], of a credential; `separator` stands between its name and its value.
fn credential<'a>(text: &'a str, kinds: &[(&str, bool)], separator: char) -> Option<Word<'a>> {
    let (prefix, is_base64) = kinds.iter().find(|(prefix, _)| text.starts_with(prefix))?;
    let (key, value) = text.strip_prefix(prefix)?.split_once(separator)?;
    let value = if *is_base64 {
        // Anything but base64 of a text becomes a value that is refused, with its source.
        let bytes = BASE64_STANDARD.decode(value).unwrap_or_else(|_| vec![0xff]);
        String::from_utf8_lossy(&bytes).into_owned()
    } else {
        value.to_owned()
    };
    Some(Word { name: format!("{prefix}{key}"), key, value: Some(value) })
}
