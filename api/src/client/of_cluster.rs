//! Calls that are about a cluster as a whole: its files, and the logs of its controller.

use super::{Client, ClientError};
use crate::{ClusterId, LogsState};
use std::io::Cursor;
use ureq::http::Method;

impl Client {
    /// `v2DownloadClusterFiles`: `bootstrap.ign`, `custom_manifests.json`, …
    pub fn cluster_file(&self, id: ClusterId, name: &str) -> Result<Vec<u8>, ClientError> {
        let path = format!("/v2/clusters/{id}/downloads/files?file_name={name}");
        self.call(Method::GET, &path, None::<&()>)
    }

    /// `v2UpdateClusterLogsProgress`.
    pub fn put_cluster_logs_progress(&self, id: ClusterId, state: LogsState) -> Result<(), ClientError> {
        let body = serde_json::json!({ "logs_state": state });
        self.call(Method::PUT, &format!("/v2/clusters/{id}/logs-progress"), Some(&body)).map(drop)
    }

    /// `v2UploadLogs` of the controller in the cluster.
    pub fn upload_controller_logs(&self, id: ClusterId, archive: &[u8]) -> Result<(), ClientError> {
        let path = format!("/v2/clusters/{id}/logs?logs_type=controller");
        self.upload(&path, "controller_logs.tar.gz", || Ok(Cursor::new(archive.to_vec())))
    }
}
