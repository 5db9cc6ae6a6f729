//! Waits for masters, and arbiters, in the bootstrap's control plane, and reports each that has joined to the service.

use super::{BootstrapError, Context, hosts::Hosts, taints, taints::Policy};
use crate::kube::{Client, KubeError, Node};
use api::{HostProgress, HostStage};
use ignition::yaml::{self, YamlError};
use kernel::Cancel;
use serde::Deserialize;
use std::{collections::BTreeSet, error::Error};

pub(super) const MASTER: &str = "node-role.kubernetes.io/master";
const ARBITER: &str = "node-role.kubernetes.io/arbiter";
/// Who invoked the installation, when it was the agent-based installer.
pub(super) const AGENT_INSTALLER: &str = "agent-installer";
/// This many masters, still without the bootstrap host, are enough for etcd.
const ENOUGH_MASTERS: u32 = 2;
const ENOUGH_ARBITERS: usize = 1;
/// A ConfigMap has at most a mebibyte.
const MAX_INSTALL_CONFIG_BYTES: usize = 1 << 20;
/// The status of a host that needs no more progress.
const INSTALLED: &str = "installed";

/// Of the install configuration, what is needed.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InstallConfig {
    #[serde(default)]
    control_plane: Option<Pool>,
    #[serde(default)]
    arbiter: Option<Pool>,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
struct Pool {
    #[serde(default)]
    replicas: Option<i64>,
}

impl InstallConfig {
    fn masters_needed(&self) -> Option<usize> {
        let replicas = u32::try_from(replicas(&self.control_plane)).ok().filter(|replicas| *replicas >= 1)?;
        usize::try_from((replicas - 1).min(ENOUGH_MASTERS)).ok()
    }

    fn arbiters_needed(&self) -> Option<usize> {
        (replicas(&self.arbiter) >= 1).then_some(ENOUGH_ARBITERS)
    }
}

fn replicas(pool: &Option<Pool>) -> i64 {
    pool.as_ref().and_then(|pool| pool.replicas).unwrap_or_default()
}

/// Who started the installation, if the cluster says.
fn invoker(kube: &Client) -> Result<Option<String>, KubeError> {
    match kube.config_map("openshift-config", "openshift-install-manifests") {
        Ok(mut map) => Ok(map.data.remove("invoker")),
        Err(error) if error.status() == Some(404) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The same, asked for until there is an answer.
pub(super) fn wait_for_invoker(
    kube: &Client,
    ctx: &Context<'_>,
    cancel: &Cancel,
) -> Result<Option<String>, BootstrapError> {
    loop {
        match invoker(kube) {
            Ok(invoker) => return Ok(invoker),
            Err(KubeError::Cancelled) => {}
            Err(error) => tracing::warn!(
                error = &error as &dyn Error,
                "cannot find out who invoked the installation, trying again"
            ),
        }
        if cancel.sleep(ctx.pace.poll) {
            return Err(BootstrapError::Cancelled("asking who invoked the installation"));
        }
    }
}

/// Waits until enough masters, and arbiters if the cluster has any, are ready.
pub(super) fn wait(kube: &Client, ctx: &Context<'_>, policy: &Policy, cancel: &Cancel) -> Result<(), BootstrapError> {
    let config = install_config(kube, ctx, cancel)?;
    for (label, needed) in [(MASTER, config.masters_needed()), (ARBITER, config.arbiters_needed())] {
        let Some(needed) = needed else { continue };
        Joining::default().wait(label, needed, kube, ctx, policy, cancel)?;
    }
    Ok(())
}

fn install_config_of(text: &str) -> Result<InstallConfig, YamlError> {
    yaml::document(text.as_bytes(), MAX_INSTALL_CONFIG_BYTES)
}

/// The control plane answers only after a while.
fn install_config(kube: &Client, ctx: &Context<'_>, cancel: &Cancel) -> Result<InstallConfig, BootstrapError> {
    let mut last = String::new();
    loop {
        let reason = match kube.config_map("kube-system", "cluster-config-v1") {
            Ok(map) => match map.data.get("install-config").map(|text| install_config_of(text)) {
                Some(Ok(config)) => return Ok(config),
                // Its content is secret.
                Some(Err(_)) => "its install-config can't be read".to_owned(),
                None => "it has no install-config".to_owned(),
            },
            Err(KubeError::Cancelled) => return Err(BootstrapError::Cancelled("waiting for the control plane")),
            Err(error) => kernel::in_full(&error),
        };
        if reason != last {
            tracing::info!(reason, "waiting for ConfigMap cluster-config-v1 of the bootstrap's control plane");
            last = reason;
        }
        if cancel.sleep(ctx.pace.poll) {
            return Err(BootstrapError::Cancelled("waiting for the control plane"));
        }
    }
}

/// What is known of nodes of one role.
#[derive(Default)]
struct Joining {
    hosts: Option<Hosts>,
    ready: BTreeSet<String>,
    /// Ready nodes whose hosts the service does not know to have joined.
    untold: BTreeSet<String>,
    last: Option<usize>,
}

impl Joining {
    fn wait(
        &mut self,
        label: &str,
        needed: usize,
        kube: &Client,
        ctx: &Context<'_>,
        policy: &Policy,
        cancel: &Cancel,
    ) -> Result<(), BootstrapError> {
        loop {
            match kube.nodes(label) {
                Ok(nodes) => {
                    if policy.may_apply()
                        && !nodes.is_empty()
                        && policy.applies(invoker(kube).ok().flatten().as_deref())
                    {
                        taints::remove(kube, &nodes);
                    }
                    let all_known = self.look(&nodes, ctx);
                    if self.last.replace(self.ready.len()) != Some(self.ready.len()) {
                        tracing::info!(ready = self.ready.len(), needed, label, "waiting for nodes");
                    }
                    if all_known && self.ready.len() >= needed {
                        return Ok(());
                    }
                }
                Err(KubeError::Cancelled) => {}
                Err(error) => tracing::warn!(error = &error as &dyn Error, "cannot get the nodes, trying again"),
            }
            if cancel.sleep(ctx.pace.poll) {
                return Err(BootstrapError::Cancelled("waiting for nodes to join"));
            }
        }
    }

    /// Takes note of ready nodes. Whether each is of a host that the service knows; one that isn't counts, but the service is asked
    /// again first.
    fn look(&mut self, nodes: &[Node], ctx: &Context<'_>) -> bool {
        let Some(hosts) = self.hosts(ctx) else { return false };
        let mut all_known = true;
        for node in nodes.iter().filter(|node| node.is_ready()) {
            let name = &node.metadata.name;
            if self.ready.contains(name) && !self.untold.contains(name) {
                continue;
            }
            match hosts.find(name, node.internal_addresses()) {
                Some(host) => {
                    let is_reported = host.status == INSTALLED || {
                        let progress = HostProgress { current_stage: HostStage::Joined, progress_info: String::new() };
                        tracing::info!(node = name, host = %host.id, "a node has joined");
                        is_reported(&ctx.brief.session().put_progress(host.infra_env, host.id, &progress))
                    };
                    if is_reported {
                        self.untold.remove(name);
                    } else {
                        self.untold.insert(name.clone());
                    }
                }
                None => {
                    tracing::warn!(node = name, "the service does not know a host for this node; asking again");
                    self.hosts = None;
                    all_known = false;
                }
            }
            self.ready.insert(name.clone());
        }
        all_known
    }

    fn hosts(&mut self, ctx: &Context<'_>) -> Option<Hosts> {
        if self.hosts.is_none() {
            match ctx.brief.session().cluster(ctx.request.cluster_id) {
                Ok(cluster) => self.hosts = Some(Hosts::new(&cluster)),
                Err(error) => {
                    tracing::warn!(error = &error as &dyn Error, "cannot get the hosts from the service, trying again")
                }
            }
        }
        self.hosts.clone()
    }
}

/// Whether the service accepted or refused: what it refuses, it would refuse again.
pub(super) fn is_reported(result: &Result<(), api::ClientError>) -> bool {
    let Err(error) = result else { return true };
    tracing::warn!(error = error as &dyn Error, "progress report of another host failed, continuing");
    matches!(error.status(), Some(400..=499)) && !matches!(error.status(), Some(404 | 408 | 423 | 425 | 429))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_are_needed_is_in_the_install_config() {
        let needed = |text: &str| {
            let config = install_config_of(text).unwrap();
            (config.masters_needed(), config.arbiters_needed())
        };
        for (replicas, masters) in [(-1, None), (0, None), (1, Some(0)), (2, Some(1)), (3, Some(2)), (5, Some(2))] {
            let text = format!("metadata: {{name: x}}\ncontrolPlane:\n  name: master\n  replicas: {replicas}\n");
            assert_eq!(needed(&text), (masters, None), "{replicas}");
        }
        assert_eq!(needed("controlPlane: {replicas: 2}\narbiter: {replicas: 1}\n"), (Some(1), Some(1)));
        assert_eq!(needed("controlPlane:\narbiter: {replicas: 0}\n"), (None, None));
        assert_eq!(needed("{}"), (None, None));
        let nested = install_config_of(&"{a: ".repeat(10_000)).unwrap_err().to_string();
        assert!(nested.contains("nested too deeply"), "{nested}");
    }
}
