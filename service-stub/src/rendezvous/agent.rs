//! `agent-config.yaml` and `nodes-config.yaml` of the agent-based installer, which list hosts alike.

use super::{
    PlanError,
    draft::{Draft, hints, put, put_host},
    hub::time_sources,
    listed,
    machine::{COPY_NETWORK, interfaces, network, role},
    metadata::Metadata,
    names::AGENT_CONFIG,
    read::Fields,
};
use crate::planned::PlannedHost;
use api::HostRole;

/// Architectures of new nodes, by both of their names.
const ARCHITECTURES: [(&str, &str); 6] = [
    ("amd64", "x86_64"),
    ("arm64", "aarch64"),
    ("x86_64", "x86_64"),
    ("aarch64", "aarch64"),
    ("ppc64le", "ppc64le"),
    ("s390x", "s390x"),
];

pub(crate) fn agent_config(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let metadata = Metadata::take(&mut fields)?;
    metadata.finish(&fields, &[])?;
    fields.idle(listed::of(listed::IDLE, "AgentConfig"));
    put(&mut draft.other, "address", fields.text("rendezvousIP")?, &fields, "rendezvousIP")?;
    time_sources(&mut fields, draft)?;
    hosts(&mut fields, draft)
}

/// New nodes of a cluster that exists. What is not understood is refused: there is no second chance to see a warning.
pub(crate) fn nodes_config(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let metadata = Metadata::take(&mut fields)?;
    metadata.finish(&fields, &[])?;
    let architecture = fields.text("cpuArchitecture")?.map(|given| {
        let known = ARCHITECTURES.iter().find(|(name, _)| *name == given);
        known.map(|(_, architecture)| *architecture).ok_or_else(|| {
            let names: Vec<&str> = ARCHITECTURES.iter().map(|(name, _)| *name).collect();
            fields.error("cpuArchitecture", format!("'{given}' is not one of {}", names.join(", ")))
        })
    });
    put(&mut draft.cluster, "cpu_architecture", architecture.transpose()?, &fields, "cpuArchitecture")?;
    put(&mut draft.infra_env, "ssh_authorized_key", fields.text("sshKey")?, &fields, "sshKey")?;
    put(&mut draft.other, "boot_artifacts", fields.text("bootArtifactsBaseURL")?, &fields, "bootArtifactsBaseURL")?;
    hosts(&mut fields, draft)?;
    if draft.hosts.is_empty() {
        return Err(fields.error("hosts", "is empty: give the MAC addresses of each new node"));
    }
    let others = [(HostRole::Master, "a master"), (HostRole::Arbiter, "an arbiter")];
    let other = |host: &PlannedHost| others.iter().find(|(role, _)| host.role == *role).map(|(_, name)| *name);
    if let Some((host, role)) = draft.hosts.iter().find_map(|host| Some((host, other(host)?))) {
        let reason = format!("host {} is {role}, but only workers can be added", host.label());
        return Err(fields.error("hosts", reason));
    }
    draft.adds_nodes = true;
    fields.finish()
}

fn hosts(fields: &mut Fields, draft: &mut Draft) -> Result<(), PlanError> {
    for mut host in fields.objects("hosts")? {
        let known = interfaces(&mut host)?;
        let mut installer_args = Vec::new();
        if let Some(config) = host.value("networkConfig") {
            network(&host, "networkConfig", &config, &known, draft)?;
            installer_args.push(COPY_NETWORK.to_owned());
        }
        let role_text = host.text("role")?;
        let planned = PlannedHost {
            name: host.text("hostname")?.unwrap_or_default(),
            role: role(&host, "role", role_text)?,
            macs: known.into_iter().map(|(mac, _)| mac).collect(),
            hints: hints(&mut host, "rootDeviceHints")?,
            installer_args,
            origins: [AGENT_CONFIG].into(),
            place: host.full_place("interfaces"),
            ..PlannedHost::default()
        };
        put_host(draft, planned)?;
    }
    Ok(())
}
