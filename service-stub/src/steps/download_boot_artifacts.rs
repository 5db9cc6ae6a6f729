//! `download-boot-artifacts`: kernel and initrd with which an installed host boots into discovery.

use super::kind::{Kind, Outcome, Replied, Situation, detail, json};
use crate::http::Refusal;
use crate::state::{HostState, host::Trigger};
use api::{BootArtifactsRequest, kinds};

pub(crate) fn kind() -> Kind {
    Kind {
        // A kernel and an initrd, each in several attempts.
        limit_s: Some(3600),
        succeeded,
        failed,
        ..Kind::new::<kinds::DownloadBootArtifacts>(|state, _| state == HostState::Reclaiming, ask)
    }
}

fn ask(situation: &Situation) -> Option<Vec<String>> {
    let (infra_env, settings) = (situation.infra_env?, situation.settings);
    let initrd = format!("/images/{}/pxe-initrd", infra_env.infra_env.id);
    let (initrd, _) = settings.auth.presigned(&initrd, Some(infra_env), None);
    json::<kinds::DownloadBootArtifacts>(&BootArtifactsRequest {
        kernel_url: format!("{}/boot-artifacts/kernel", settings.url),
        initrd_url: format!("{}{initrd}", settings.url),
        rootfs_url: format!("{}/boot-artifacts/rootfs", settings.url),
        host_fs_mount_dir: "/host".into(),
    })
}

fn succeeded(_: &Replied) -> Result<Outcome, Refusal> {
    Ok(Outcome::Trigger(Trigger::RebootForReclaim, String::new()))
}

fn failed(replied: &Replied) -> Result<Outcome, Refusal> {
    let why = detail(replied.reply);
    let reason = format!("the files of the discovery image could not be fetched: {why}");
    Ok(Outcome::Trigger(Trigger::ReclaimFailed, reason))
}
