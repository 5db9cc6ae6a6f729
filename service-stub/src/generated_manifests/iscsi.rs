//! Nodes whose root is on an iSCSI disk lose the name servers of the initramfs; applying every connection again brings them back.

use super::generated::Generated;
use serde_json::json;

/// A disk by iSCSI that holds the root file system, in a partition or below multipath as well. systemd halves the backslashes, and expands
/// `$` and `%`, so there are none.
pub(super) const UNIT: &str = r#"[Unit]
Description=Apply network connections again if the root file system is on iSCSI
After=NetworkManager.service

[Service]
Type=oneshot
ExecStart=-/bin/sh -c 'lsblk -o NAME,TRAN,MOUNTPOINTS --json | jq -e "any(.blockdevices[]; .tran == \\"iscsi\\" and any(.. | objects | .mountpoints[]?; . == \\"/sysroot\\"))" >/dev/null && nmcli -g DEVICE device status | xargs -r -n 1 nmcli device reapply'
ExecStartPost=-systemctl disable iscsi-nic-reapply.service

[Install]
WantedBy=multi-user.target
"#;

pub(super) fn manifests(roles: &[&str]) -> Vec<Generated> {
    let config = json!({
        "ignition": {"version": "3.1.0"},
        "systemd": {"units": [{"name": "iscsi-nic-reapply.service", "enabled": true, "contents": UNIT}]},
    });
    let of_role =
        |role: &&str| Generated::machine_config(&format!("50-{role}s-iscsi-nic-reapply"), role, config.clone());
    roles.iter().map(of_role).collect()
}
