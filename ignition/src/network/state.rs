//! NMState, read and turned into keyfiles by the library that nmstatectl is made of, with limits that it lacks: on the
//! size of its input, on what its errors may show, on what a panic does.

use super::keyfile::Keyfile;
use super::schema::{self, Note, Reading};
use super::{NetworkError, keyfile};
use crate::yaml::{self, YamlError};
use kernel::{
    attempt::{Attempt, attempt},
    order::{self, Gather},
};
use nmstate::{InterfaceState, InterfaceType, NetworkState, NmstateError};
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

/// One host's network, read and converted.
pub struct State {
    pub(super) network: NetworkState,
    keyfiles: Vec<Keyfile>,
    /// Interfaces that must exist, and where the NMState names them.
    pub(super) needed: Vec<(String, String)>,
    notes: Vec<Note>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("keyfiles", &self.keyfiles).finish_non_exhaustive()
    }
}

impl State {
    /// Reads and converts the NMState of `host`, which errors name it by.
    pub fn parse(host: usize, text: &str) -> Result<Self, NetworkError> {
        if text.len() > MAX_YAML_BYTES {
            return Err(NetworkError::TooLong { host, found: text.len(), max: MAX_YAML_BYTES });
        }
        let mut secrets = BTreeSet::new();
        let document = match yaml::document::<Value>(text.as_bytes(), MAX_YAML_BYTES) {
            Ok(document) => Ok(document),
            // Text that isn't even YAML is given to the library all the same, for its message; that names only a place.
            Err(reason @ YamlError::Syntax { .. }) => Err(reason),
            Err(reason) => return Err(NetworkError::Yaml { host, reason }),
        };
        let mut reading = Reading::default();
        if let Ok(document) = &document {
            collect_secrets(document, false, &mut secrets);
            reading = schema::read(document);
        }
        let safe = |text: &str| without_secrets(text, &secrets);
        if let Some(text) = reading.unknown.first() {
            return Err(NetworkError::Parse { host, text: safe(text) });
        }
        let converted = guarded(host, &secrets, || {
            let mut network = NetworkState::new_from_yaml(text).map_err(|error| (true, error))?;
            // NetworkManager brings a device up by DHCP that no profile is of.
            let absent = network.interfaces.iter_mut().filter(|one| one.is_absent());
            for interface in absent.filter(|one| one.iface_type() == InterfaceType::Ethernet) {
                interface.base_iface_mut().state = InterfaceState::Down;
            }
            let mut generated = network.gen_conf().map_err(|error| (false, error))?;
            Ok((network, generated.remove("NetworkManager").unwrap_or_default()))
        })?;
        let (network, generated) = converted.map_err(|(reading, error): (bool, NmstateError)| {
            let text = safe(error.msg());
            if reading { NetworkError::Parse { host, text } } else { NetworkError::Keyfiles { host, text } }
        })?;
        // It reads members that are there twice.
        document.as_ref().map_err(|reason| NetworkError::Parse { host, text: reason.to_string() })?;
        if let Some(text) = reading.replaced.first() {
            return Err(NetworkError::Keyfiles { host, text: safe(text) });
        }
        if network.interfaces.is_empty() {
            return Err(NetworkError::NoInterface { host });
        }
        let keyfiles = named_once(host, generated)?;
        let needed = reading.named.iter().filter(|named| named.must_exist);
        let needed = needed.map(|named| (named.name.to_owned(), schema::place(&named.steps))).collect();
        let mut notes = reading.left_out;
        for Note { what, .. } in &mut notes {
            *what = format!("host{host}: {}", safe(what));
        }
        let ports: BTreeSet<&str> = network.interfaces.iter().filter_map(|one| one.ports()).flatten().gather();
        let waiting = network.interfaces.iter().filter(|one| one.base_iface().wait_ip.is_some());
        notes.extend(waiting.filter(|one| ports.contains(one.name())).map(|one| Note {
            what: format!("host{host}: interfaces[{}].wait-ip", one.name().escape_debug()),
            why: "a port has no address to wait for".to_owned(),
        }));
        Ok(Self { network, keyfiles, needed, notes })
    }

    /// NetworkManager's keyfiles for it, sorted by name, with what the service adds: each profile is activated by itself, before
    /// those without a priority, unless its interface is to be down.
    pub fn keyfiles(&self) -> &[Keyfile] {
        &self.keyfiles
    }

    /// What of the NMState the keyfiles don't have, each with the reason.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}

/// The generated profiles under names that a directory can hold.
fn named_once(host: usize, generated: Vec<(String, String)>) -> Result<Vec<Keyfile>, NetworkError> {
    let mut keyfiles = Vec::new();
    for (name, text) in generated {
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

/// The library's result. Another process asks it first: a panic of the library must not end this one.
fn guarded<T, E>(
    host: usize,
    secrets: &BTreeSet<String>,
    ask: impl Fn() -> Result<T, E>,
) -> Result<Result<T, E>, NetworkError> {
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
