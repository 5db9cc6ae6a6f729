//! Tables and keys of the store's file.

use crate::model::HostKey;
use api::{HostId, InfraEnvId};
use redb::TableDefinition;
use uuid::Uuid;

/// Version of the layout below; a file of another version is refused.
pub(super) const FORMAT: u64 = 2;
/// The same layout with unencrypted records: it is read and converted.
pub(super) const PLAIN_FORMAT: u64 = 1;
/// Small, since all records are in memory.
pub(super) const CACHE_BYTES: usize = 16 << 20;
pub(super) const FILE: &str = "state.redb";
pub(super) type Id = u128;
pub(super) const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
pub(super) const CLUSTERS: TableDefinition<Id, &[u8]> = TableDefinition::new("clusters");
pub(super) const INFRA_ENVS: TableDefinition<Id, &[u8]> = TableDefinition::new("infra_envs");
pub(super) const HOSTS: TableDefinition<(Id, Id), &[u8]> = TableDefinition::new("hosts");
pub(super) const PRESENCE: TableDefinition<(Id, Id), (i64, i64)> = TableDefinition::new("presence");
pub(super) const EVENTS: TableDefinition<u64, &[u8]> = TableDefinition::new("events");

pub(super) fn key(id: Uuid) -> Id {
    id.as_u128()
}

pub(super) fn pair(host: HostKey) -> (Id, Id) {
    (key(host.infra_env.0), key(host.host.0))
}

pub(super) fn unpair((infra_env, host): (Id, Id)) -> HostKey {
    HostKey { infra_env: InfraEnvId(Uuid::from_u128(infra_env)), host: HostId(Uuid::from_u128(host)) }
}
