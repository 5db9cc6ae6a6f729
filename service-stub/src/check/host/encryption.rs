//! What an encrypted installation disk is unlocked by.

use super::context::{Context, no_inventory, pending, reply, verdict};
use crate::check::Verdict;
use api::HostRole;
use serde_json::Value;

/// What opens the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Locks {
    tpm: bool,
    tang: bool,
}

/// By the cluster's setting for the role; where a host is added, by the config that it fetched. Nothing to say where the disk
/// stays in clear.
pub(super) fn requirements(context: &Context) -> Option<Verdict> {
    let locks = if context.day2() { fetched(context)? } else { set(context)? };
    let by_tpm = locks.tpm.then(|| tpm(context)).flatten();
    let by_tang = locks.tang.then(|| tang(context)).flatten();
    match (by_tpm, by_tang) {
        (Some(tpm), Some(tang)) => Some(if tpm.0 == crate::check::Status::Success { tang } else { tpm }),
        (one, other) => one.or(other),
    }
}

/// `disk_encryption` of the cluster.
fn set(context: &Context) -> Option<Locks> {
    let setting = context.cluster?.settings.get("disk_encryption")?;
    let text = |name: &str| setting.get(name).and_then(Value::as_str).unwrap_or_default();
    let group = match context.record.effective_role() {
        HostRole::Master | HostRole::Bootstrap => "masters",
        HostRole::Arbiter => "arbiters",
        HostRole::Worker | HostRole::AutoAssign => "workers",
    };
    let on = text("enable_on").split(',').any(|own| own == "all" || own == group);
    let tang = text("mode") == "tang";
    on.then_some(Locks { tpm: !tang, tang })
}

/// `storage.luks[].clevis` of the config the host fetched.
fn fetched(context: &Context) -> Option<Locks> {
    let reply: Value = reply(&context.record.texts.api_vip_connectivity)?;
    let config: Value = serde_json::from_str(reply["ignition"].as_str()?).ok()?;
    let volumes = config["storage"]["luks"].as_array()?;
    let any = |has: &dyn Fn(&Value) -> bool| volumes.iter().any(|volume| has(&volume["clevis"]));
    let locks = Locks {
        tpm: any(&|clevis| clevis["tpm2"] == true),
        tang: any(&|clevis| clevis["tang"].as_array().is_some_and(|servers| !servers.is_empty())),
    };
    (locks != Locks::default()).then_some(locks)
}

fn tpm(context: &Context) -> Option<Verdict> {
    let Some(inventory) = context.inventory() else { return no_inventory() };
    let version = inventory.tpm_version.as_str();
    verdict(version == "2.0", "Installation disk can be encrypted using tpmv2", || match version {
        "" | "none" => "TPM version could not be found, make sure TPM is enabled in host's BIOS".to_owned(),
        _ => format!("The host's TPM version is not supported, expected-version: 2.0, actual-version: {version}"),
    })
}

fn tang(context: &Context) -> Option<Verdict> {
    let Some(reply) = reply::<Value>(&context.record.texts.tang_connectivity) else {
        return pending("The host has not tried to reach the Tang servers yet");
    };
    verdict(reply["is_success"] == true, "Installation disk can be encrypted using tang", || {
        format!("Could not validate that all Tang servers are reachable and working: {reply}")
    })
}
