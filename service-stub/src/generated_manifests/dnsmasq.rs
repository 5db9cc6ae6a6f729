//! A single node that resolves the cluster's names itself: dnsmasq answers with the node's own address, and the node asks it first.

use super::generated::{Generated, file, machine_config};
use crate::machine_networks;
use crate::model::{ClusterRecord, HostRecord};
use serde_json::json;
use std::{net::IpAddr, sync::Arc};

const SCRIPT: &str = "/usr/local/bin/dnsmasq_config.sh";
const UNIT: &str = "\
[Unit]
Description=Resolve the names of the cluster on its only node
After=network.target ovs-configuration.service
Before=crio.service kubelet.service

[Service]
ExecStartPre=/usr/local/bin/dnsmasq_config.sh
ExecStart=/usr/sbin/dnsmasq -k
Restart=always
TimeoutStartSec=30

[Install]
WantedBy=multi-user.target
";

/// None as long as the node's address is not known.
pub(super) fn manifest(cluster: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> Option<Generated> {
    let address = cluster.single_node().then(|| machine_networks::own_address(cluster, hosts)).flatten()?;
    let with_dashboard = cluster.course.olm_operators().any(|operator| operator.name == "openshift-ai");
    let names = names(cluster, address);
    let files = [
        file(SCRIPT, 0o555, &names_script(&names, with_dashboard)),
        file("/etc/NetworkManager/dispatcher.d/forcedns", 0o555, &dispatcher_script(&names)),
        file("/etc/NetworkManager/conf.d/single-node.conf", 0o644, "[main]\nrc-manager=unmanaged\n"),
    ];
    let config = json!({
        "ignition": {"version": "3.1.0"},
        "storage": {"files": files},
        "systemd": {"units": [{"name": "dnsmasq.service", "enabled": true, "contents": UNIT}]},
    });
    let manifest = machine_config("50-master-dnsmasq-configuration", "master", config);
    Some(Generated::new("dnsmasq-bootstrap-in-place.yaml", &manifest))
}

/// The beginning of both scripts: domain and address, which a file on the node may replace.
fn names(cluster: &ClusterRecord, address: IpAddr) -> String {
    let (name, base) = (&cluster.cluster.name, &cluster.cluster.base_dns_domain);
    format!(
        "#!/bin/bash\n\
         # Variables in this file replace the values below.\n\
         overrides=/etc/default/sno_dnsmasq_configuration_overrides\n\
         [ ! -f \"$overrides\" ] || . \"$overrides\"\n\
         domain=${{SNO_CLUSTER_NAME_OVERRIDE:-{name}}}.${{SNO_BASE_DOMAIN_OVERRIDE:-{base}}}\n\
         address=${{SNO_DNSMASQ_IP_OVERRIDE:-{address}}}\n"
    )
}

fn names_script(names: &str, with_dashboard: bool) -> String {
    let dashboard = if with_dashboard { " rhods-dashboard-redhat-ods-applications.apps" } else { "" };
    format!(
        "{names}\
         for name in apps api-int api{dashboard}; do\n    \
         echo \"address=/$name.$domain/$address\"\n\
         done > /etc/dnsmasq.d/single-node.conf\n"
    )
}

/// NetworkManager runs it with an interface and what happened to it.
fn dispatcher_script(names: &str) -> String {
    format!("{names}{DISPATCHER}")
}

const DISPATCHER: &str = r#"case "$2" in
up | dhcp4-change | dhcp6-change | connectivity-change) ;;
*) exit 0 ;;
esac
source=/run/NetworkManager/resolv.conf
new=$(mktemp /etc/resolv.conf.XXXXXX) || exit 1
chmod --reference="$source" "$new"
if awk -v domain="$domain" -v address="$address" '
    $1 == "search" {
        line = "search " domain
        for (i = 2; i <= NF; i++) if ($i != domain) line = line " " $i
        print line
        next
    }
    $1 == "nameserver" && !done { print "nameserver " address; done = 1 }
    { print }
    END { if (!done) print "nameserver " address }
' "$source" > "$new"; then
    mv "$new" /etc/resolv.conf
else
    rm -f "$new"
fi
"#;

#[cfg(test)]
pub(super) fn scripts(cluster: &ClusterRecord, address: IpAddr, with_dashboard: bool) -> [String; 2] {
    let names = names(cluster, address);
    [names_script(&names, with_dashboard), dispatcher_script(&names)]
}
