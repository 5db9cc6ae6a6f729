//! Disks of nodes that unlock themselves: what a cluster sets, and what of it concerns a host
//! (docs/compatibility.md#tang-connectivity-check).

use crate::model::{ClusterRecord, HostRecord};
use api::{HostRole, TangServer};
use serde_json::Value;

/// The servers that unlock a host's disk, as the text that its step holds; none where no server does. Of a cluster that the host is
/// added to they are what its config says, which the host has fetched.
pub(crate) fn tang_servers(cluster: &ClusterRecord, host: &HostRecord) -> Option<String> {
    if cluster.day2() {
        return servers_of_config(host);
    }
    let setting = cluster.settings.get("disk_encryption")?;
    let by_tang = setting["mode"] == "tang" && covers(setting["enable_on"].as_str()?, host.effective_role());
    by_tang.then(|| setting["tang_servers"].as_str().map(str::to_owned)).flatten()
}

/// Whether disks of a role are among those that are encrypted.
pub(crate) fn covers(enable_on: &str, role: HostRole) -> bool {
    let name = match role {
        HostRole::Master | HostRole::Bootstrap => "masters",
        HostRole::Arbiter => "arbiters",
        HostRole::Worker | HostRole::AutoAssign => "workers",
    };
    enable_on == "all" || enable_on.split(',').any(|part| part == name)
}

fn servers_of_config(host: &HostRecord) -> Option<String> {
    let answer: Value = serde_json::from_str(host.texts.api_vip_connectivity.as_ref()?).ok()?;
    let config: Value = serde_json::from_str(answer["ignition"].as_str()?).ok()?;
    let disks = config.pointer("/storage/luks")?.as_array()?;
    let servers = disks.iter().filter_map(|disk| disk.pointer("/clevis/tang")?.as_array()).flatten();
    let text = |server: &Value, name: &str| server[name].as_str().unwrap_or_default().to_owned();
    let servers: Vec<TangServer> =
        servers.map(|server| TangServer { url: text(server, "url"), thumbprint: text(server, "thumbprint") }).collect();
    (!servers.is_empty()).then(|| serde_json::to_string(&servers).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_among_those_that_are_encrypted() {
        use HostRole::{Arbiter, Bootstrap, Master, Worker};
        let roles = |enable_on| [Master, Bootstrap, Arbiter, Worker].map(|role| covers(enable_on, role));
        assert_eq!(roles("none"), [false; 4]);
        assert_eq!(roles("all"), [true; 4]);
        assert_eq!(roles("masters"), [true, true, false, false]);
        assert_eq!(roles("arbiters,workers"), [false, false, true, true]);
    }
}
