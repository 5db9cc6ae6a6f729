//! Encrypted disks of nodes: one manifest for each role that has them.

use super::generated::{Generated, machine_config};
use crate::encryption::covers;
use crate::model::ClusterRecord;
use crate::rules::encryption::tang_servers;
use crate::text::at;
use api::HostRole;
use serde_json::{Value, json};

const ROLES: [(&str, HostRole); 3] =
    [("master", HostRole::Master), ("arbiter", HostRole::Arbiter), ("worker", HostRole::Worker)];

pub(super) fn manifests(cluster: &ClusterRecord, roles: &[&str], cipher: &str) -> Vec<Generated> {
    let Some(setting) = cluster.settings.get("disk_encryption") else { return Vec::new() };
    let by_tang = at(setting, "/mode") == "tang";
    let (lock, clevis) = match by_tang {
        true => ("tang", json!({"tang": tang_servers(at(setting, "/tang_servers")).unwrap_or_default()})),
        false => ("tpm", json!({"tpm2": true})),
    };
    let covered = ROLES.iter().filter(|(name, role)| roles.contains(name) && covers(at(setting, "/enable_on"), *role));
    let of_role = |(role, _): &(&str, HostRole)| {
        let mut manifest = machine_config(&format!("{role}-{lock}"), role, disk(&clevis, cipher));
        if by_tang {
            // The initramfs must reach the servers.
            manifest["spec"]["kernelArguments"] = json!(["rd.neednet=1"]);
        }
        Generated::new(format!("99-openshift-{role}-{lock}-encryption.yaml"), &manifest)
    };
    covered.map(of_role).collect()
}

/// The root file system, made anew on an encrypted device.
fn disk(clevis: &Value, cipher: &str) -> Value {
    json!({
        "ignition": {"version": "3.2.0"},
        "storage": {
            "luks": [{
                "name": "root",
                "label": "luks-root",
                "device": "/dev/disk/by-partlabel/root",
                "clevis": clevis,
                "options": ["--cipher", cipher],
                "wipeVolume": true,
            }],
            "filesystems": [{
                "device": "/dev/mapper/root",
                "format": "xfs",
                "label": "root",
                "wipeFilesystem": true,
            }],
        },
    })
}
