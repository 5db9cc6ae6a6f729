//! What will be written on this machine.

use super::names::Names;
use super::source::HostDir;
use super::{ApplyError, Mac};
use crate::network::{Note, State, policy};
use kernel::order::{self, Gather};
use serde::Serialize;
use std::collections::BTreeMap;

/// What applying does.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Plan {
    /// The hosts this machine is; more than one only if the list has its interfaces in several.
    pub hosts: Vec<Host>,
    /// Profiles, sorted by name.
    pub write: Vec<Write>,
    /// What of policies does nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

/// An entry of the list that matches this machine.
#[derive(Clone, Debug, Serialize)]
pub struct Host {
    /// `host0`
    pub name: String,
    pub interfaces: Vec<NamedInterface>,
}

/// An interface of a host.
#[derive(Clone, Debug, Serialize)]
pub struct NamedInterface {
    pub mac: String,
    /// Its name in the profiles.
    pub logical: String,
    /// Its name on this machine; none without such an interface.
    pub name: Option<String>,
}

/// A profile.
#[derive(Clone, Serialize)]
pub struct Write {
    /// Name in the target.
    pub name: String,
    /// What it is made of, `host0/eth0.nmconnection`.
    pub from: String,
    /// Content. It may contain keys, so it is not shown.
    #[serde(skip)]
    pub text: String,
}

impl std::fmt::Debug for Write {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Write").field("name", &self.name).field("from", &self.from).finish_non_exhaustive()
    }
}

/// Finds the hosts that match this machine by its `interfaces`, and puts its interface names into their profiles.
pub fn plan(hosts: &[HostDir], interfaces: &BTreeMap<Mac, String>) -> Result<Plan, ApplyError> {
    let mut plan = Plan::default();
    for host in hosts.iter().filter(|host| host.map.iter().any(|(mac, _)| interfaces.contains_key(mac))) {
        let host_interfaces = host.map.iter().map(|(mac, logical)| NamedInterface {
            mac: mac.to_string(),
            logical: logical.clone(),
            name: interfaces.get(mac).cloned(),
        });
        let host_interfaces: Vec<NamedInterface> = host_interfaces.collect();
        let names = host_interfaces.iter().filter_map(|one| Some((one.logical.clone(), one.name.clone()?)));
        let names = Names(names.gather());
        for (file, text) in &host.files {
            let from = format!("{}/{file}", host.name);
            if file.ends_with(".yml") {
                let state = captured(host, file, text, interfaces)?;
                plan.notes.extend_from_slice(state.notes());
                plan.write.extend(state.keyfiles().iter().cloned().map(|keyfile| Write {
                    from: from.clone(),
                    name: keyfile.name,
                    text: keyfile.text,
                }));
            } else {
                plan.write.push(Write { name: names.file(file), text: names.text(text), from });
            }
        }
        plan.hosts.push(Host { name: host.name.clone(), interfaces: host_interfaces });
    }
    order::sort_by(&mut plan.write, |a, b| a.name.cmp(&b.name));
    check(&plan.write)?;
    Ok(plan)
}

/// The network of a policy.
fn captured(host: &HostDir, file: &str, text: &str, interfaces: &BTreeMap<Mac, String>) -> Result<State, ApplyError> {
    let path = host.path.join(file);
    let resolved =
        policy::resolve(text, |mac| interfaces.get(&mac).map(String::as_str)).map_err(|error| match error {
            policy::ResolveError::NotHere(mac) => ApplyError::NotHere { path: path.clone(), mac },
            policy::ResolveError::Shape(reason) => ApplyError::Policy { path: path.clone(), reason },
        })?;
    let number = host.name.trim_start_matches("host").parse().unwrap_or_default();
    State::parse(number, &resolved).map_err(|source| ApplyError::Keyfiles { path, source })
}

/// Two profiles must not have the same file name or uuid.
fn check(profiles: &[Write]) -> Result<(), ApplyError> {
    let (mut files, mut uuids) = (BTreeMap::new(), BTreeMap::new());
    for Write { name, from, text } in profiles {
        if let Some(one) = files.insert(name, from) {
            return Err(ApplyError::SameFile { name: name.clone(), one: one.clone(), other: from.clone() });
        }
        let Some(uuid) = uuid(text) else { continue };
        if let Some(one) = uuids.insert(uuid, from) {
            return Err(ApplyError::SameUuid { uuid: uuid.to_owned(), one: one.clone(), other: from.clone() });
        }
    }
    Ok(())
}

fn uuid(text: &str) -> Option<&str> {
    let section = text.lines().skip_while(|line| *line != "[connection]").skip(1);
    section.take_while(|line| !line.starts_with('[')).find_map(|line| line.strip_prefix("uuid="))
}
