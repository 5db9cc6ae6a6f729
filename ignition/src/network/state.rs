//! NMState, read and turned into keyfiles by the library that nmstatectl is made of, with limits that it lacks: on the
//! size of its input, on what its errors may show, on what a panic does.

use super::keyfile::Keyfile;
use super::{NetworkError, keyfile};
use crate::yaml::{self, YamlError};
use kernel::{
    attempt::{Attempt, attempt},
    order,
};
use nmstate::{NetworkState, NmstateError};
use serde_norway::Value;
use std::{collections::BTreeSet, time::Duration};

/// The network of a real host is a tenth of this; the library's time grows with the square of the interfaces.
pub(super) const MAX_YAML_BYTES: usize = 64 << 10;
/// A second is ample for the longest text that is read.
const PATIENCE: Duration = Duration::from_secs(60);
/// The library's message about what it could not read may be very long.
const MAX_TEXT_CHARS: usize = 600;
/// Members whose values are keys: IEEE 802.1X, IPsec, MACsec.
const SECRET_MEMBERS: [&str; 4] = ["password", "private-key-password", "psk", "mka-cak"];

/// One host's network, read.
pub struct State {
    host: usize,
    pub(super) network: NetworkState,
    /// Texts that no message may show.
    secrets: BTreeSet<String>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("host", &self.host).finish_non_exhaustive()
    }
}

impl State {
    /// Reads the NMState of `host`, which errors name it by.
    pub fn parse(host: usize, text: &str) -> Result<Self, NetworkError> {
        if text.len() > MAX_YAML_BYTES {
            return Err(NetworkError::TooLong { host, found: text.len(), max: MAX_YAML_BYTES });
        }
        let mut secrets = BTreeSet::new();
        match yaml::document::<Value>(text.as_bytes(), MAX_YAML_BYTES) {
            Ok(value) => collect_secrets(&value, false, &mut secrets),
            // Text that isn't even YAML is given to the library all the same, for its message; that names only a place.
            Err(YamlError::Syntax { .. }) => {}
            Err(reason) => return Err(NetworkError::Yaml { host, reason }),
        }
        let network = guarded(host, &secrets, || NetworkState::new_from_yaml(text))?
            .map_err(|error| NetworkError::Parse { host, text: without_secrets(error.msg(), &secrets) })?;
        if network.interfaces.is_empty() {
            return Err(NetworkError::NoInterface { host });
        }
        Ok(Self { host, network, secrets })
    }

    /// NetworkManager's keyfiles for it, sorted by name, with what the service adds: each profile is activated by itself, before
    /// those without a priority.
    pub fn keyfiles(&self) -> Result<Vec<Keyfile>, NetworkError> {
        let host = self.host;
        let mut generated = guarded(host, &self.secrets, || self.network.gen_conf())?
            .map_err(|error| NetworkError::Keyfiles { host, text: without_secrets(error.msg(), &self.secrets) })?;
        let mut keyfiles = Vec::new();
        for (name, text) in generated.remove("NetworkManager").unwrap_or_default() {
            if !keyfile::is_file_name(&name) {
                return Err(NetworkError::FileName { host, name });
            }
            keyfiles.push(Keyfile { text: keyfile::activated(&text), name });
        }
        order::sort_by(&mut keyfiles, |a, b| a.name.cmp(&b.name));
        for (one, next) in keyfiles.iter().zip(keyfiles.iter().skip(1)) {
            if one.name == next.name {
                return Err(NetworkError::SameName { host, name: one.name.clone() });
            }
        }
        if keyfiles.is_empty() {
            return Err(NetworkError::NoInterface { host });
        }
        Ok(keyfiles)
    }
}

/// The library's result. Another process asks it first: a panic of the library must not end this one.
fn guarded<T>(
    host: usize,
    secrets: &BTreeSet<String>,
    ask: impl Fn() -> Result<T, NmstateError>,
) -> Result<Result<T, NmstateError>, NetworkError> {
    let tried = attempt(PATIENCE, |_| {
        drop(ask());
        Ok(())
    });
    match tried {
        Ok(Attempt { failure: Some(said), .. }) => {
            Err(NetworkError::Library { host, text: without_secrets(&said, secrets) })
        }
        // A confined step may not fork; it is already a separate process.
        Ok(_) | Err(_) => Ok(ask()),
    }
}

/// The library's words on one line, without the secrets.
fn without_secrets(text: &str, secrets: &BTreeSet<String>) -> String {
    let mut text = text.to_owned();
    // Longer ones first: one may be part of another.
    let mut secrets: Vec<&String> = secrets.iter().collect();
    order::sort_by_key(&mut secrets, |secret| std::cmp::Reverse(secret.len()));
    for secret in secrets {
        text = text.replace(secret.as_str(), "*****");
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_TEXT_CHARS).collect()
}

fn collect_secrets(value: &Value, secret: bool, secrets: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if secret && !text.is_empty() => {
            secrets.insert(text.clone());
        }
        Value::Number(number) if secret => {
            secrets.insert(number.to_string());
        }
        Value::Sequence(items) => items.iter().for_each(|item| collect_secrets(item, secret, secrets)),
        Value::Mapping(members) => members.iter().for_each(|(key, value)| {
            let is_secret = key.as_str().is_some_and(|key| SECRET_MEMBERS.contains(&key));
            collect_secrets(value, secret || is_secret, secrets);
        }),
        _ => {}
    }
}
