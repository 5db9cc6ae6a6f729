//! Clusters and their files.

use super::{Client, error::ClientError};
use crate::endpoint::{
    DOWNLOAD_CLUSTER_FILES, GET_CLUSTER, INSTALL_CLUSTER, LIST_CLUSTER_HOSTS, REGISTER_CLUSTER,
    UPDATE_CLUSTER_LOGS_PROGRESS,
};
use crate::{Cluster, ClusterCreateParams, ClusterId, Host, HostRole, LogsState};

impl Client {
    pub fn create_cluster(&self, params: &ClusterCreateParams) -> Result<Cluster, ClientError> {
        self.exchange(&REGISTER_CLUSTER.at(&[]), params)
    }

    /// A cluster with its hosts.
    pub fn cluster(&self, id: ClusterId) -> Result<Cluster, ClientError> {
        self.get(&GET_CLUSTER.at(&[&id]))
    }

    /// A cluster with an empty list of hosts.
    pub fn cluster_without_hosts(&self, id: ClusterId) -> Result<Cluster, ClientError> {
        self.get(&GET_CLUSTER.at(&[&id]).with("exclude-hosts", true))
    }

    /// A cluster's hosts of one role, without their inventories.
    pub fn cluster_hosts(&self, id: ClusterId, role: HostRole) -> Result<Vec<Host>, ClientError> {
        self.get(&LIST_CLUSTER_HOSTS.at(&[&id]).with("role", role))
    }

    pub fn install_cluster(&self, id: ClusterId) -> Result<Cluster, ClientError> {
        self.get(&INSTALL_CLUSTER.at(&[&id]))
    }

    /// A file of the installation: `bootstrap.ign`, `custom_manifests.json`, …
    pub fn cluster_file(&self, id: ClusterId, name: &str) -> Result<Vec<u8>, ClientError> {
        self.call(&DOWNLOAD_CLUSTER_FILES.at(&[&id]).with("file_name", name), None::<&()>)
    }

    /// Reports the progress of the controller's logs.
    pub fn put_cluster_logs_progress(&self, id: ClusterId, state: LogsState) -> Result<(), ClientError> {
        let body = serde_json::json!({ "logs_state": state });
        self.put(&UPDATE_CLUSTER_LOGS_PROGRESS.at(&[&id]), &body)
    }
}
