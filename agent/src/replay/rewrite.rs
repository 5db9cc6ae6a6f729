//! What a recorded step may not do here: it was meant for another machine's disks.

use api::{Step, StepType};
use serde_json::{Value, json};
use std::path::Path;

/// Why a step isn't replayed.
#[derive(Debug, thiserror::Error)]
pub enum Withheld {
    #[error("{0} writes or reboots: give it another target with --allow-writes, {1}")]
    Writes(StepType, &'static str),
    /// It reaches beyond this run.
    #[error("{0} would act on the agent of this host, or send its logs away: it is never replayed")]
    ActsOnTheAgent(StepType),
    /// Its request can't be rewritten.
    #[error("the request of {0} is not a JSON object, so it can't get another target")]
    Form(StepType),
}

/// The step as it may run: one that writes only to `target`, a disk or for reclaiming the root of a node.
pub fn rewrite(mut step: Step, host_id: &str, target: Option<&Path>) -> Result<Step, Withheld> {
    let kind = step.step_type.clone();
    let disk = || target.filter(|target| target.starts_with("/dev/") && !target.is_dir());
    let node = || target.filter(|target| target.is_dir());
    match kind {
        StepType::StopInstallation | StepType::UpgradeAgent | StepType::LogsGather => {
            return Err(Withheld::ActsOnTheAgent(kind));
        }
        StepType::Install => {
            let target = disk().ok_or(Withheld::Writes(kind, "a disk"))?;
            edit(&mut step, |request| {
                request["boot_device"] = json!(target);
                request["disks_to_format"] = json!([]);
                request["host_id"] = json!(host_id);
            })?;
        }
        StepType::InstallationDiskSpeedCheck => {
            let target = disk().ok_or(Withheld::Writes(kind, "a disk"))?;
            edit(&mut step, |request| request["path"] = json!(target))?;
        }
        StepType::DownloadBootArtifacts | StepType::RebootForReclaim => {
            let target = node().ok_or(Withheld::Writes(kind, "a directory to use as the node's root"))?;
            edit(&mut step, |request| request["host_fs_mount_dir"] = json!(target))?;
        }
        _ => {}
    }
    Ok(step)
}

fn edit(step: &mut Step, change: impl FnOnce(&mut Value)) -> Result<(), Withheld> {
    let form = || Withheld::Form(step.step_type.clone());
    let mut request: Value =
        step.args.first().and_then(|text| serde_json::from_slice(text.as_bytes()).ok()).ok_or_else(form)?;
    if !request.is_object() {
        return Err(form());
    }
    change(&mut request);
    if let Some(first) = step.args.first_mut() {
        *first = request.to_string();
    }
    Ok(())
}
