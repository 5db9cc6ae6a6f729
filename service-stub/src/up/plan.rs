//! The plan of the rack: from options, a small file, or manifests.

use super::{
    cli::Up,
    machines,
    place::{SERVICE, make},
    stored::Stored,
};
use crate::control::{read_small, read_ssh_key};
use crate::rendezvous::{self, RACK_FILE, Rack};
use anyhow::{Context, bail, ensure};
use std::{
    env, fs,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};
use toml::{Table, Value};

/// A larger file is not a plan.
const MAX_BYTES: u64 = 1 << 20;
/// Below the user's home, the first that exists.
const SSH_KEYS: [&str; 3] = [".ssh/id_ed25519.pub", ".ssh/id_ecdsa.pub", ".ssh/id_rsa.pub"];

const TEMPLATE: &str = r#"# The rack that `landfall up` installs. Lines behind a # show the default, or an example.

# Machines of the rack: 1, or 3 and more.
hosts = 3

# Name of the rack, and the domain of its machines.
#name = "rack"
#domain = "example.com"

# How many machines are control plane. The others are workers.
#control_plane = 3

# Public SSH key of the user core. `landfall up` takes yours if none is here.
#ssh_key = "ssh-ed25519 AAAA… you@example.com"

# Version of the cluster. Without a control plane it is only recorded.
#version = "4.20"

# Credentials of container registries, needed only with a control plane.
#pull_secret = '{"auths":{"registry.example.com":{"auth":"…"}}}'

# Virtual addresses of the API and of ingress, if the cluster manages them.
#api_addresses = ["192.0.2.10"]
#ingress_addresses = ["192.0.2.11"]

# Time servers besides those of the network.
#time_servers = ["ntp.example.com"]

# What is known of a machine beforehand, each with its MAC address. Others get
# the role that is needed, and the disk that fits best.
#[[machine]]
#mac = "52:54:00:00:00:01"
#name = "node-1"
#role = "master"
#disk = { minSizeGigabytes = 100, rotational = false }
"#;

/// A plan that was read and holds.
pub(super) struct Plan {
    /// Where its documents are.
    pub(super) directory: PathBuf,
    pub(super) rack: Rack,
}

/// Writes a plan with comments.
pub(super) fn init(path: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}: remove it first if it is an old one", path.display());
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(path).with_context(failed)?;
    file.write_all(TEMPLATE.as_bytes()).with_context(failed)?;
    writeln!(std::io::stdout(), "{} is written: edit it, then run `landfall up`", path.display())?;
    Ok(())
}

/// Reads what is given, and puts a small plan where the service finds it.
pub(super) fn prepare(up: &Up, stored: &Stored, directory: &Path) -> anyhow::Result<Plan> {
    let plans = directory.join("plan");
    // A second `up` continues with what the first one found.
    let before = [PathBuf::from(RACK_FILE), plans.join(RACK_FILE)].into_iter().find(|path| path.exists());
    let given = up.rack.clone().or(before);
    if let Some(manifests) = &stored.manifests {
        ensure!(
            up.hosts.is_none() && up.name.is_none() && up.ssh_key.is_none(),
            "{} says what the rack is: --hosts, --name and --ssh-key go with a rack.toml only",
            manifests.display()
        );
        return Ok(Plan { directory: manifests.clone(), rack: read(manifests)? });
    }
    let mut table = match &given {
        Some(path) => {
            let text = read_small(path, MAX_BYTES)?;
            text.parse().map_err(|error: toml::de::Error| {
                let at = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
                // The parser's own words may show the text, and a pull secret with it.
                anyhow::anyhow!("{} is not TOML: look at line {}", path.display(), at.matches('\n').count() + 1)
            })?
        }
        None => Table::new(),
    };
    if let Some(path) = &given {
        // By the user's own lines, before anything is added.
        let documents = rendezvous::parse(RACK_FILE, &read_small(path, MAX_BYTES)?)?;
        if let Err(error @ rendezvous::PlanError::Unknown { .. }) = rendezvous::plan(&documents, None) {
            return Err(error).with_context(|| format!("{} cannot be used", path.display()));
        }
    }
    complete(up, stored.vms, directory, &mut table)?;
    make(&plans)?;
    let text = table.to_string();
    // A plan that does not hold is not stored.
    let documents = rendezvous::parse(RACK_FILE, &text)?;
    let rack = checked(rendezvous::plan(&documents, None))?;
    let path = plans.join(RACK_FILE);
    match fs::read_to_string(&path) {
        Ok(before) if before != text && directory.join(SERVICE).exists() => bail!(
            "{} has a rack that was made with other settings ({}): `landfall up --down` removes it, --state-dir names another place",
            directory.display(),
            changed(&before, &table)
        ),
        Ok(before) if before == text => {}
        _ => write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?,
    }
    Ok(Plan { directory: plans, rack })
}

fn read(directory: &Path) -> anyhow::Result<Rack> {
    checked(rendezvous::directory(directory, None))
}

fn checked(rack: Result<Rack, rendezvous::PlanError>) -> anyhow::Result<Rack> {
    let rack = rack.and_then(|rack| rack.judge().map(|()| rack)).context("the rack's plan cannot be used")?;
    ensure!(rack.existing.is_none(), "the plan adds nodes to a cluster that exists: `landfall node-iso` does that");
    if let Some(address) = rack.address {
        bail!(
            "the plan has the rendezvousIP {address}, at which a machine of the rack serves: remove it, or bake the plan into an ISO \
             (`landfall iso bake --rendezvous`)"
        );
    }
    rack.tell();
    Ok(rack)
}

/// Adds what options say, and what can be found out.
fn complete(up: &Up, vms: Option<u8>, directory: &Path, table: &mut Table) -> anyhow::Result<()> {
    let hosts = up.hosts.or(vms.map(u64::from));
    match hosts {
        Some(hosts) => drop(table.insert("hosts".into(), Value::Integer(i64::try_from(hosts)?))),
        None => drop(table.entry("hosts").or_insert(Value::Integer(3))),
    }
    if let Some(count) = vms {
        let machine = |(name, mac): (String, String)| {
            Value::Table([("mac".to_owned(), mac.into()), ("name".to_owned(), name.into())].into_iter().collect())
        };
        table.entry("machine").or_insert(Value::Array(machines::planned(directory, count).map(machine).collect()));
    }
    if let Some(name) = &up.name {
        table.insert("name".into(), name.clone().into());
    }
    let key = match &up.ssh_key {
        Some(path) => Some(read_ssh_key(path)?),
        None if table.contains_key("ssh_key") => None,
        None => {
            let home = env::var_os("HOME").map(PathBuf::from);
            let found = home.and_then(|home| SSH_KEYS.iter().map(|name| home.join(name)).find(|path| path.is_file()));
            found.as_deref().map(read_ssh_key).transpose()?
        }
    };
    if let Some(key) = key {
        table.insert("ssh_key".into(), key.into());
    }
    Ok(())
}

/// The settings that differ, by name: values may be secrets.
fn changed(before: &str, now: &Table) -> String {
    let before: Table = before.parse().unwrap_or_default();
    let mut names: Vec<&str> = before.keys().chain(now.keys()).map(String::as_str).collect();
    kernel::order::sort(&mut names);
    names.dedup();
    names.retain(|name| before.get(*name) != now.get(*name));
    names.join(", ")
}

/// Mode 0600: a pull secret may be in it.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn rack(text: &str) -> Result<Rack, String> {
        let documents = rendezvous::parse(RACK_FILE, text).unwrap();
        rendezvous::plan(&documents, None).map_err(|error| error.to_string())
    }

    #[test]
    fn the_template_is_a_plan_with_and_without_its_examples() {
        let plain = rack(TEMPLATE).unwrap();
        assert_eq!((plain.total, plain.masters, plain.warnings.len()), (3, 3, 0));
        assert_eq!(plain.cluster.user_managed_networking, Some(true));
        let uncommented: String = TEMPLATE
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(setting) if !setting.starts_with(' ') => setting,
                _ => line,
            })
            .flat_map(|line| [line, "\n"])
            .collect();
        let full = rack(&uncommented).unwrap();
        assert_eq!(full.warnings, Vec::<String>::new());
        assert_eq!((full.hosts.len(), full.cluster.api_vips.as_ref().map(Vec::len)), (1, Some(1)));
    }

    #[test]
    fn counts_that_are_not_a_cluster_are_refused() {
        for (text, part) in [
            ("", "hosts: is missing"),
            ("hosts = 0", "0 machines are not a cluster"),
            ("hosts = 2", "2 machines are not a cluster"),
            ("hosts = 3\ncontrol_plane = 4", "4 of 3 machines"),
            ("hosts = 3\ncontrol_plane = 1", "has no other hosts"),
            ("hosts = 'x'", "hosts"),
            ("hosts = 1\n[[machine]]\nname = 'a'", "mac: is missing"),
        ] {
            let error = rack(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let five = rack("hosts = 5").unwrap();
        assert_eq!((five.masters, five.total), (3, 5));
        let error = rack("hosts = 1\nhost = 3").unwrap_err();
        assert_eq!(error, "rack.toml: host, line 2: is not a field of this document: did you mean 'hosts'?");
    }

    #[test]
    fn differences_are_named_without_values() {
        let now: Table = "hosts = 1\npull_secret = 'new'".parse().unwrap();
        assert_eq!(changed("hosts = 3\npull_secret = 'old'\nname = 'a'", &now), "hosts, name, pull_secret");
    }
}
