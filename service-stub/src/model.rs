//! The records the service keeps, and the set of all of them.

mod texts;

pub(crate) use texts::HostTexts;

use crate::attest::record::Attestation;
use crate::check::{connectivity, disks, domains::Domains, reach::Reach};
use crate::course::{Course, DhcpVips};
use crate::planned::{HostNow, PlannedHost};
use crate::rules::networks::Family;
use crate::state::{ClusterState, HostState};
use api::{
    Cluster, ClusterId, ConnectivityReport, FencingCredentials, Host, HostId, HostRole, InfraEnv, InfraEnvId,
    Inventory, Secret, Timestamp,
};
use attestation::boot::Boot;
use kernel::order;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::{Arc, OnceLock},
};

/// Kind of a host that a cluster is made of.
pub(crate) const DAY1_HOST: &str = "Host";
/// Kind of a host that is added to a cluster.
pub(crate) const DAY2_HOST: &str = "AddToExistingClusterHost";
/// Kind of a cluster that hosts are added to.
pub(crate) const DAY2_CLUSTER: &str = "AddHostsCluster";
/// Kind of a cluster that installs itself from an ISO with its own service.
pub(crate) const DISCONNECTED_CLUSTER: &str = "DisconnectedCluster";

/// A host is known by its infra-env and its own id: the same machine may register in two infra-envs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostKey {
    pub infra_env: InfraEnvId,
    pub host: HostId,
}

/// A host as stored. What depends on the moment of asking (status text, presence) is filled in when it is shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostRecord {
    /// State; the published `status` is its text.
    pub state: HostState,
    /// Everything published.
    pub host: Host,
    /// Text fields that are published beside those of the document. Earlier versions stored them as a map, `kept`.
    #[serde(default, alias = "kept")]
    pub texts: HostTexts,
    /// When events that are recorded only so often were last recorded, by name.
    #[serde(default, rename = "told", skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) hourly_events: BTreeMap<String, Timestamp>,
    /// What it shows to the ignition endpoint; never published.
    #[serde(default, skip_serializing_if = "Secret::is_empty")]
    pub ignition_endpoint_token: Secret,
    /// The same, as further headers: names and values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ignition_endpoint_headers: Vec<(String, Secret)>,
    /// The disk that its user or plan chose; the service chooses where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chosen_disk: Option<ChosenDisk>,
    /// How the other of two control-plane nodes powers it off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fencing: Option<FencingCredentials>,
    /// What its TPM proved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attestation: Option<Attestation>,
    #[serde(skip)]
    facts: OnceLock<Arc<Facts>>,
}

/// A disk that stays chosen, also while it is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChosenDisk {
    /// What instructions and settings call it.
    pub(crate) id: String,
    /// Its device node when it was chosen.
    pub(crate) path: String,
    /// For messages.
    pub(crate) name: String,
}

/// The documents inside a host's text fields, parsed.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub inventory: Option<Inventory>,
    /// Its addresses, without those of the loopback.
    pub addresses: Vec<IpAddr>,
    /// What it sees of the others.
    pub(crate) reach: Option<Reach>,
    pub(crate) domains: Option<Domains>,
}

impl HostRecord {
    /// Whether its live system is on its own disk, and stays there.
    pub(crate) fn boots_from_disk(&self) -> bool {
        let facts = self.facts();
        let boot = facts.inventory.as_ref().and_then(|inventory| inventory.boot.as_ref());
        boot.is_some_and(|boot| boot.device_type == "persistent")
    }

    /// Sets the installation disk by the inventory: the chosen one, there or not, else the service's choice.
    pub(crate) fn set_disk(&mut self, inventory: &Inventory) {
        let (id, path) = match &self.chosen_disk {
            Some(chosen) => match disks::chosen(inventory, chosen) {
                Some(disk) => (disks::identifier(disk), disks::node(disk)),
                None => (chosen.id.clone(), chosen.path.clone()),
            },
            None => match disks::choose(inventory, &self.host.installation_disk_id) {
                Some(disk) => (disks::identifier(disk), disks::node(disk)),
                None => Default::default(),
            },
        };
        self.host.installation_disk_id = id;
        self.host.installation_disk_path = path;
    }

    /// What it has of what a plan can say.
    pub(crate) fn now(&self) -> HostNow {
        let texts = &self.texts;
        let [pool, labels] = [&texts.machine_config_pool_name, &texts.node_labels].map(Option::as_deref);
        HostNow::new(self.host.clone(), pool, labels)
    }

    /// Whether both would be stored as the same.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        let Self {
            state,
            host,
            texts,
            hourly_events,
            ignition_endpoint_token,
            ignition_endpoint_headers,
            chosen_disk,
            fencing,
            attestation,
            facts: _,
        } = self;
        *state == other.state
            && *host == other.host
            && *texts == other.texts
            && *hourly_events == other.hourly_events
            && *ignition_endpoint_token == other.ignition_endpoint_token
            && *ignition_endpoint_headers == other.ignition_endpoint_headers
            && *chosen_disk == other.chosen_disk
            && *fencing == other.fencing
            && *attestation == other.attestation
    }

    /// Size of the host's stored reports, bytes.
    pub(crate) fn texts_bytes(&self) -> usize {
        let texts: usize = self.texts.published().map(|(_, text)| text.len()).sum();
        texts + self.host.inventory.len() + self.host.connectivity.len()
    }

    /// A host that just registered.
    pub fn new(key: HostKey, cluster: Option<ClusterId>, now: Timestamp) -> Self {
        let state = if cluster.is_some() { HostState::Discovering } else { HostState::DiscoveringUnbound };
        let host = Host {
            id: key.host,
            infra_env_id: key.infra_env,
            cluster_id: cluster,
            href: format!("{}/v2/infra-envs/{}/hosts/{}", api::API_PATH, key.infra_env, key.host),
            kind: DAY1_HOST.into(),
            user_name: "admin".into(),
            created_at: now,
            registered_at: now,
            ..Host::default()
        };
        Self {
            state,
            host,
            texts: HostTexts::default(),
            hourly_events: BTreeMap::new(),
            ignition_endpoint_token: Secret::default(),
            ignition_endpoint_headers: Vec::new(),
            fencing: None,
            chosen_disk: None,
            attestation: None,
            facts: OnceLock::new(),
        }
    }

    pub fn key(&self) -> HostKey {
        HostKey { infra_env: self.host.infra_env_id, host: self.host.id }
    }

    /// Whether it can read its discovery media.
    pub(crate) fn media_connected(&self) -> bool {
        self.host.media_status != "disconnected"
    }

    /// It is added to a cluster that is there already.
    pub fn day2(&self) -> bool {
        self.host.kind == DAY2_HOST
    }

    /// Becomes a host of the cluster, with the kind that makes it.
    pub fn join(&mut self, cluster: &ClusterRecord) {
        self.host.cluster_id = Some(cluster.cluster.id);
        self.host.kind = cluster.host_kind().to_owned();
        if cluster.day2() {
            self.host.role = HostRole::Worker;
            self.texts.machine_config_pool_name = Some("worker".to_owned());
        } else if cluster.single_node() {
            self.host.role = HostRole::Master;
        }
        self.host.suggested_role = self.host.role;
    }

    /// Forgets its cluster (docs/compatibility.md#host-states).
    pub(crate) fn leave(&mut self) {
        self.clear_installation();
        let host = &mut self.host;
        host.cluster_id = None;
        host.kind = DAY1_HOST.to_owned();
        host.bootstrap = false;
        host.installation_disk_id.clear();
        host.installation_disk_path.clear();
        self.chosen_disk = None;
        let host = &mut self.host;
        host.role = HostRole::AutoAssign;
        host.suggested_role = HostRole::AutoAssign;
        self.set_connectivity(String::new());
        let ntp_sources = self.texts.ntp_sources.take();
        self.texts.clear_replies();
        self.texts.ntp_sources = ntp_sources;
        self.texts.machine_config_pool_name = None;
        self.facts = OnceLock::new();
    }

    fn clear_installation(&mut self) {
        let host = &mut self.host;
        host.progress = None;
        host.stage_started_at = Timestamp::ZERO;
        host.stage_updated_at = Timestamp::ZERO;
        host.connection_timed_out = false;
        self.clear_logs();
    }

    /// No logs of an earlier attempt.
    pub(crate) fn clear_logs(&mut self) {
        self.host.logs_info.clear();
        self.host.logs_collected_at = Timestamp::ZERO;
        self.host.logs_started_at = Timestamp::ZERO;
    }

    /// The parsed documents; a stored document that no longer parses counts as absent.
    pub(crate) fn facts(&self) -> &Facts {
        self.facts.get_or_init(|| {
            let inventory: Option<Inventory> = serde_json::from_str(&self.host.inventory).ok();
            let report: Option<ConnectivityReport> = serde_json::from_str(&self.host.connectivity).ok();
            let addresses = inventory.iter().flat_map(connectivity::addresses).collect();
            let domains = self.texts.domain_name_resolutions.as_deref().and_then(Domains::parse);
            Arc::new(Facts { inventory, addresses, reach: report.map(Reach::from), domains })
        })
    }

    /// Stores a new inventory document.
    pub fn set_inventory(&mut self, inventory: String) {
        self.host.inventory = inventory;
        self.facts = OnceLock::new();
    }

    /// Stores a new connectivity document.
    pub(crate) fn set_connectivity(&mut self, connectivity: String) {
        self.host.connectivity = connectivity;
        self.facts = OnceLock::new();
    }

    #[cfg(test)]
    pub(crate) fn set_text(&mut self, name: &str, text: String) {
        self.texts.set(name, text);
        self.facts = OnceLock::new();
    }

    pub fn set_domain_name_resolutions(&mut self, resolutions: String) {
        self.texts.domain_name_resolutions = Some(resolutions);
        self.facts = OnceLock::new();
    }

    /// The name it has or will have; none before an inventory or a user gives one.
    pub(crate) fn hostname(&self) -> Option<&str> {
        let requested = Some(self.host.requested_hostname.as_str());
        let reported = self.facts().inventory.as_ref().map(|inventory| inventory.hostname.as_str());
        requested.into_iter().chain(reported).find(|name| !name.is_empty())
    }

    /// The pool of machines that a worker joins in place of `worker`.
    pub(crate) fn pool(&self) -> Option<&str> {
        let pool = self.texts.machine_config_pool_name.as_deref();
        pool.filter(|pool| self.effective_role() == HostRole::Worker && !matches!(*pool, "" | "worker"))
    }

    /// Its name, else its id.
    pub(crate) fn name_or_id(&self) -> String {
        self.hostname().map_or_else(|| self.host.id.to_string(), str::to_owned)
    }

    /// The role it has, or would be given.
    pub(crate) fn effective_role(&self) -> HostRole {
        match self.host.role {
            HostRole::AutoAssign => self.host.suggested_role,
            role => role,
        }
    }

    /// The stage reached, if any.
    pub fn stage(&self) -> Option<api::HostStage> {
        self.host.progress.as_ref().and_then(|progress| progress.current_stage)
    }

    /// Forgets everything learnt from an earlier boot (docs/compatibility.md#host-states).
    pub fn reset(&mut self) {
        self.clear_installation();
        let host = &mut self.host;
        host.bootstrap = false;
        host.media_status.clear();
        host.discovery_agent_version.clear();
        host.installer_version.clear();
        host.validations_info.clear();
        self.set_inventory(String::new());
        self.texts.clear_replies();
        self.facts = OnceLock::new();
    }
}

/// A cluster as stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// State; the published `status` is its text.
    pub state: ClusterState,
    /// Everything published, without hosts.
    pub cluster: Cluster,
    /// Registry credentials; published in the install configuration alone.
    pub pull_secret: Secret,
    /// Published settings that are shown as they were given.
    #[serde(default, rename = "kept")]
    pub settings: BTreeMap<String, Value>,
    /// What a page keeps with it; shown by an endpoint of its own.
    #[serde(default)]
    pub(crate) ui_settings: String,
    /// How its installation goes.
    #[serde(default)]
    pub course: Course,
    /// Its virtual addresses, where they come by DHCP.
    #[serde(default)]
    pub dhcp: DhcpVips,
    /// Its machine networks are its user's, and follow no hosts.
    #[serde(default)]
    pub(crate) keeps_networks: bool,
    /// The address family that comes first, where it has both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) primary: Option<Family>,
    /// Checks that block nothing; the service's list if none was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ignored_validations: Option<IgnoredValidations>,
}

/// Names of checks that are shown and block nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IgnoredValidations {
    pub host: BTreeSet<String>,
    pub cluster: BTreeSet<String>,
}

impl ClusterRecord {
    /// A cluster with nothing kept beside it.
    pub fn new(state: ClusterState, cluster: Cluster, pull_secret: Secret) -> Self {
        Self {
            state,
            cluster,
            pull_secret,
            settings: BTreeMap::new(),
            ui_settings: String::new(),
            course: Course::default(),
            dhcp: DhcpVips::default(),
            keeps_networks: false,
            primary: None,
            ignored_validations: None,
        }
    }

    /// One control-plane node and nothing else.
    pub(crate) fn single_node(&self) -> bool {
        self.cluster.control_plane_count == 1 && !self.day2()
    }

    /// Two control-plane hosts without an arbiter, each of which can power the other off.
    pub(crate) fn is_fenced_pair(&self, hosts: &[Arc<HostRecord>]) -> bool {
        let has = |role| hosts.iter().filter(move |host| host.effective_role() == role);
        self.cluster.control_plane_count == 2
            && has(HostRole::Arbiter).next().is_none()
            && has(HostRole::Master).count() == 2
            && has(HostRole::Master).all(|host| host.fencing.is_some())
    }

    /// Hosts are added to it.
    pub fn day2(&self) -> bool {
        self.cluster.kind == DAY2_CLUSTER
    }

    /// The user's own load balancer holds the virtual addresses.
    pub(crate) fn user_balanced(&self) -> bool {
        self.settings.get("load_balancer").is_some_and(|balancer| balancer["type"] == "user-managed")
    }

    /// A network plug-in that comes with the cluster, not of another maker.
    pub(crate) fn has_bundled_network(&self) -> bool {
        matches!(self.cluster.network_type.as_str(), "OVNKubernetes" | "OpenShiftSDN")
    }

    /// The kind of hosts that register in it.
    pub(crate) fn host_kind(&self) -> &'static str {
        if self.day2() { DAY2_HOST } else { DAY1_HOST }
    }
}

/// An infra-env as stored.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct InfraEnvRecord {
    /// Everything published.
    pub infra_env: InfraEnv,
    /// Registry credentials; never published.
    pub pull_secret: Secret,
    /// Its agents' token; empty without authentication.
    #[serde(default)]
    pub agent_token: Secret,
    /// Addresses signed with another key are no longer valid.
    #[serde(default)]
    pub signing_key: String,
    /// How many times that key was regenerated. Agents with a token of another generation are refused.
    #[serde(default)]
    pub key_generation: u64,
    /// What each of its hosts gets when it registers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlannedHost>,
    /// What its hosts may boot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub good_boots: Vec<Boot>,
}

/// All records. A change is made on a clone that becomes current once it is on disk; cloned is what is changed, no more.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub clusters: Arc<BTreeMap<ClusterId, Arc<ClusterRecord>>>,
    pub infra_envs: Arc<BTreeMap<InfraEnvId, Arc<InfraEnvRecord>>>,
    /// By infra-env and id.
    pub hosts: Arc<BTreeMap<HostKey, Arc<HostRecord>>>,
}

impl Model {
    /// Hosts bound to a cluster, by id.
    pub(crate) fn hosts_of_cluster(&self, cluster: ClusterId) -> Vec<Arc<HostRecord>> {
        let mut hosts: Vec<_> =
            self.hosts.values().filter(|record| record.host.cluster_id == Some(cluster)).cloned().collect();
        order::sort_by_key(&mut hosts, |record| record.host.id);
        hosts
    }

    /// Infra-envs of a cluster, by id.
    pub(crate) fn infra_envs_of_cluster(&self, cluster: ClusterId) -> impl Iterator<Item = &InfraEnvRecord> {
        let all = self.infra_envs.values().map(AsRef::as_ref);
        all.filter(move |record: &&InfraEnvRecord| record.infra_env.cluster_id == Some(cluster))
    }

    /// Hosts registered in an infra-env, by id.
    pub(crate) fn hosts_of_infra_env(&self, infra_env: InfraEnvId) -> Vec<Arc<HostRecord>> {
        self.hosts.iter().filter(|(key, _)| key.infra_env == infra_env).map(|(_, record)| record.clone()).collect()
    }
}

/// When a host last polled. Separate from its record: every poll changes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Presence {
    /// Its last poll or registration.
    pub checked_in_at: Timestamp,
    /// Its clock at that time, Unix seconds; 0 if it reported none.
    pub clock: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What happened, by name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<ClusterId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_id: Option<HostId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infra_env_id: Option<InfraEnvId>,
    /// `info`, `warning`, `error` or `critical`.
    pub severity: String,
    /// `user` or `metrics`.
    #[serde(default = "user_category")]
    pub category: String,
    /// The message.
    pub message: String,
    pub(crate) event_time: Timestamp,
    /// The request that caused it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) request_id: String,
    /// Details, JSON.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub props: String,
}

impl Event {
    /// No text of a stored event is longer, in bytes.
    pub(crate) const MAX_TEXT_BYTES: usize = 4096;

    /// Truncates its texts. `props` is a document, which truncation would break, so it is dropped as a whole.
    pub fn bound(&mut self) {
        for text in [&mut self.name, &mut self.message, &mut self.request_id] {
            let mut end = text.len().min(Self::MAX_TEXT_BYTES);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
        }
        if self.props.len() > Self::MAX_TEXT_BYTES {
            self.props.clear();
        }
    }
}

fn user_category() -> String {
    "user".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_of_events_are_cut() {
        // A character of two bytes lies across the bound.
        let long = format!("x{}", "ä".repeat(5000));
        let document = serde_json::json!({"severity": "info", "message": long, "props": long,
            "event_time": "2026-11-21T03:15:46.000Z"});
        let mut event: Event = serde_json::from_value(document).unwrap();
        event.bound();
        assert_eq!((event.message.len(), event.props.as_str()), (Event::MAX_TEXT_BYTES - 1, ""));
        let bounded = event.clone();
        event.bound();
        assert_eq!(event, bounded);
    }
}
