//! The controller in the cluster: waits until it says that it is ready, and sends its logs to the service until then.

use super::{BootstrapError, Context};
use crate::{
    controller_manifests::{CONTROLLER, NAMESPACE, READY_EVENT},
    kube::{Client, KubeError},
};
use api::Timestamp;
use flate2::{Compression, write::GzEncoder};
use kernel::Cancel;
use std::{error::Error, io, time::Duration};

/// How far back its logs are sent.
const LOGS_SINCE: Duration = Duration::from_secs(3600);
/// In the archive.
const LOG_NAME: &str = "assisted-installer-controller.logs";

/// Waits for the controller's event.
pub(super) fn wait(kube: &Client, ctx: &Context<'_>, cancel: &Cancel) -> Result<(), BootstrapError> {
    let mut since_sent = Duration::ZERO;
    loop {
        match kube.events(NAMESPACE, READY_EVENT) {
            Ok(events) if !events.is_empty() => return Ok(()),
            Ok(_) | Err(KubeError::Cancelled) => {}
            Err(error) => {
                tracing::warn!(error = &error as &dyn Error, "cannot get the controller's event, trying again")
            }
        }
        if since_sent >= ctx.pace.controller_logs && !cancel.is_cancelled() {
            upload_logs(kube, ctx);
            since_sent = Duration::ZERO;
        }
        if cancel.sleep(ctx.pace.poll) {
            return Err(BootstrapError::Cancelled("waiting for the controller"));
        }
        since_sent = since_sent.saturating_add(ctx.pace.poll);
    }
}

/// Sends what the controller has written. A failure is only logged: logs are not a reason to stop.
pub(super) fn upload_logs(kube: &Client, ctx: &Context<'_>) {
    let failed: Box<dyn Error> = match logs(kube) {
        Ok(None) => return tracing::info!("the controller is not running yet and has no logs"),
        Ok(Some(archive)) => match ctx.brief.session().upload_controller_logs(ctx.request.cluster_id, archive) {
            Ok(()) => return,
            Err(error) => error.into(),
        },
        Err(error) => error,
    };
    tracing::warn!(error = &*failed, "the controller's logs were not sent");
}

/// As an archive; `None` while there are none.
fn logs(kube: &Client) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
    let pods = kube.pods(NAMESPACE)?;
    let Some(pod) = pods.iter().find(|pod| pod.metadata.name.starts_with(CONTROLLER) && pod.is_running()) else {
        return Ok(None);
    };
    let log = kube.pod_log(NAMESPACE, &pod.metadata.name, LOGS_SINCE)?;
    Ok(Some(archive(&log)?))
}

fn archive(log: &[u8]) -> io::Result<Vec<u8>> {
    let mut header = tar::Header::new_gnu();
    header.set_size(u64::try_from(log.len()).unwrap_or_default());
    header.set_mode(0o644);
    header.set_mtime(u64::try_from(Timestamp::now().unix_seconds()).unwrap_or_default());
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    archive.append_data(&mut header, LOG_NAME, log)?;
    archive.into_inner()?.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_archive_has_the_log_by_its_name() {
        let archive = archive(b"line\n").unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(archive.as_slice()));
        let mut entries = archive.entries().unwrap();
        let mut entry = entries.next().unwrap().unwrap();
        assert_eq!(entry.path().unwrap().to_str(), Some(LOG_NAME));
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        assert_eq!(text, "line\n");
    }
}
