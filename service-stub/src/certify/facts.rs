//! What the service's records say of a host of a run.

use super::record::{HostRun, StepRun};
use crate::model::{ClusterRecord, HostKey, HostRecord, Model};
use crate::state::{ClusterState, HostState};
use crate::store::Presences;
use api::{ClusterId, HostStage, Timestamp};
use std::net::IpAddr;

/// A host that polled within this time is there, seconds. Hosts of a run poll more often than others.
const PRESENT_S: i64 = 180;

/// How far the installation of a host is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Install {
    /// It is in no cluster.
    None,
    /// Its cluster cannot be installed yet, and why.
    Unready(String),
    Ready(String),
    Running(String),
    /// The image is written, and the installed system starts.
    Written,
    /// The installed system is up.
    Done,
    Failed(String),
}

/// A host of a run, at a moment.
#[derive(Clone, Debug)]
pub(super) struct HostFacts {
    pub key: HostKey,
    pub name: String,
    /// Empty if its tables have none.
    pub serial: String,
    pub manufacturer: String,
    pub product: String,
    pub has_inventory: bool,
    /// Its agent polls from the live system.
    pub is_live: bool,
    /// It may join a cluster.
    pub can_bind: bool,
    pub registered_at: Timestamp,
    pub address: Option<IpAddr>,
    pub disk: String,
    pub cluster: Option<ClusterId>,
    pub install: Install,
}

impl HostFacts {
    pub(super) fn new(model: &Model, presences: &Presences, record: &HostRecord, now: Timestamp) -> Self {
        use HostState as S;
        let in_live_system = matches!(
            record.state,
            S::Discovering
                | S::Insufficient
                | S::PendingForInput
                | S::Known
                | S::DiscoveringUnbound
                | S::InsufficientUnbound
                | S::KnownUnbound
        );
        let polled = presences.get(record.key()).checked_in_at;
        let inventory = record.facts().inventory.as_ref();
        let vendor = inventory.and_then(|inventory| inventory.system_vendor.clone()).unwrap_or_default();
        let cluster = record.host.cluster_id;
        Self {
            key: record.key(),
            name: record.name_or_id(),
            serial: vendor.serial_number,
            manufacturer: vendor.manufacturer,
            product: vendor.product_name,
            has_inventory: inventory.is_some(),
            is_live: in_live_system && now.seconds_since(polled) < PRESENT_S,
            can_bind: record.state == S::KnownUnbound && cluster.is_none(),
            registered_at: record.host.registered_at,
            address: record.facts().addresses.iter().copied().find(|address| !is_link_local(*address)),
            disk: record.host.installation_disk_path.clone(),
            cluster,
            install: match cluster.map(|id| model.clusters.get(&id)) {
                None => Install::None,
                Some(None) => Install::Failed("its cluster was deleted".to_owned()),
                Some(Some(cluster)) => install(record, cluster),
            },
        }
    }

    /// The host in a run that begins. A serial number that another host has too tells nothing.
    pub(super) fn host_run(&self, has_own_serial: bool, steps: Vec<StepRun>) -> HostRun {
        let serial = match self.serial.trim() {
            "" => self.key.host.to_string(),
            serial if has_own_serial => serial.to_owned(),
            _ => self.key.host.to_string(),
        };
        HostRun {
            infra_env_id: self.key.infra_env,
            host_id: self.key.host,
            name: crate::text::plain(&self.name),
            serial: crate::text::plain(&serial),
            manufacturer: self.manufacturer.clone(),
            product: self.product.clone(),
            sku: None,
            differences: Vec::new(),
            blocked: String::new(),
            cluster_id: None,
            waits_for: String::new(),
            steps,
        }
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn install(record: &HostRecord, cluster: &ClusterRecord) -> Install {
    use ClusterState as C;
    let stage = record.stage();
    let info = || record.host.status_info.clone();
    match record.state {
        HostState::Error | HostState::Cancelled | HostState::PreparingFailed => return Install::Failed(info()),
        HostState::Installed => return Install::Done,
        _ => {}
    }
    match (cluster.state, stage) {
        (C::Error | C::Cancelled, _) => Install::Failed(cluster.cluster.status_info.clone()),
        (_, Some(HostStage::Joined | HostStage::Done)) => Install::Done,
        (_, Some(HostStage::Rebooting | HostStage::WaitingForIgnition | HostStage::Configuring)) => Install::Written,
        (C::Ready, _) => Install::Ready("starts the installation".to_owned()),
        (C::Insufficient | C::PendingForInput, _) => Install::Unready(info()),
        _ => Install::Running(match (record.state, stage) {
            (HostState::InstallingPendingUserAction, _) | (_, None) => info(),
            (_, Some(stage)) => stage.to_string(),
        }),
    }
}
