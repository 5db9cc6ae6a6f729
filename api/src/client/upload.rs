//! Uploads of logs.

use super::{Client, error::ClientError};
use crate::endpoint::{Target, UPLOAD_LOGS};
use crate::media::Media;
use crate::{ClusterId, HostId, InfraEnvId};
use std::{
    io::{self, Cursor, Read},
    time::Duration,
};

/// An upload without progress for this long has failed.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for the service to store an upload and answer.
const STORE_TIMEOUT: Duration = Duration::from_secs(180);

impl Client {
    /// Uploads a host's logs. The archive is read from `open`'s result, once per attempt, and never held in memory: its length may
    /// be unknown. A reader that fails ends the attempt, and the service discards it.
    pub fn upload_host_logs<R: Read + 'static>(
        &self,
        cluster: ClusterId,
        infra_env: Option<InfraEnvId>,
        host: HostId,
        open: impl FnMut() -> io::Result<R>,
    ) -> Result<(), ClientError> {
        let target = UPLOAD_LOGS.at(&[&cluster]).with("host_id", host);
        let target = match infra_env {
            Some(id) => target.with("infra_env_id", id),
            None => target,
        };
        self.upload(&target.with("logs_type", "host"), "logs.tar.gz", open)
    }

    /// Uploads the logs of the controller in the cluster. Each attempt clones the archive: one that may be large is shared.
    pub fn upload_controller_logs(
        &self,
        id: ClusterId,
        archive: impl AsRef<[u8]> + Clone + 'static,
    ) -> Result<(), ClientError> {
        let target = UPLOAD_LOGS.at(&[&id]).with("logs_type", "controller");
        self.upload(&target, "controller_logs.tar.gz", || Ok(Cursor::new(archive.clone())))
    }

    fn upload<R: Read + 'static>(
        &self,
        target: &Target,
        file_name: &str,
        mut open: impl FnMut() -> io::Result<R>,
    ) -> Result<(), ClientError> {
        let boundary = uuid::Uuid::new_v4().simple().to_string();
        let content_type = format!("{}; boundary={boundary}", Media::Multipart);
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"upfile\"; filename=\"{file_name}\"\r\n\
             Content-Type: application/x-gzip\r\n\r\n"
        );
        let tail = format!("\r\n--{boundary}--\r\n");
        self.retrying(|| {
            let failed = |source: ureq::Error| self.no_answer(target, source);
            let archive = open().map_err(|error| failed(error.into()))?;
            let body = Cursor::new(head.clone()).chain(archive).chain(Cursor::new(tail.clone()));
            let request = self.request(target).header("Content-Type", &content_type);
            let request = request.body(ureq::SendBody::from_owned_reader(body));
            let request = request.map_err(|error| failed(error.into()))?;
            let request = self.agent.configure_request(request).max_redirects(0).max_redirects_will_error(false);
            // No total time limit: a slow network is not a failure, a stalled one is.
            let request = request.timeout_per_write(Some(STALL_TIMEOUT)).timeout_recv_response(Some(STORE_TIMEOUT));
            let mut response = self.agent.run(request.build()).map_err(failed)?;
            self.answer(target, &mut response).map(drop)
        })
    }
}
