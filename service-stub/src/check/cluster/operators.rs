//! What operators ask of a cluster (docs/compatibility.md#operators).

use super::Context;
use crate::check::{Status, Verdict, verdict};
use crate::features::Architecture;
use crate::model::HostRecord;
use crate::operators::{ClusterRule, Machine, OPERATORS, Operator, Roles, STORAGE_HOSTS, Situation, StorageMode};
use crate::releases::version::older;
use api::HostRole;
use std::sync::Arc;

/// A second check of OpenShift AI, made where it is installed.
pub(super) const MODELS_GPU: &str = "openshift-ai-gpu-requirements-satisfied";
/// OpenShift AI needs so many workers.
const MODELS_WORKERS: usize = 2;

/// The checks of all operators: of those that the cluster does not have too, which ask nothing.
pub(super) fn all(context: &Context) -> Vec<(&'static str, Verdict)> {
    let (cluster, hosts) = (context.record, context.hosts);
    let situation = Situation { cluster, roles: Roles::of(hosts) };
    let mut all = Vec::new();
    for operator in OPERATORS {
        let unasked = situation.unasked(operator.name);
        if unasked.is_none() && operator.cluster == ClusterRule::Models {
            all.push((MODELS_GPU, models_gpu(&situation)));
        }
        all.push((operator.check, unasked.unwrap_or_else(|| judge(operator, &situation, hosts))));
    }
    all
}

fn judge(operator: &Operator, situation: &Situation, hosts: &[Arc<HostRecord>]) -> Verdict {
    match operator.cluster {
        ClusterRule::Nothing => verdict(true, "", String::new),
        ClusterRule::Since(least, text) => since(situation, least, text),
        ClusterRule::Architecture => architecture(operator, situation),
        ClusterRule::ArchitectureSince(least) => match architecture(operator, situation) {
            (Status::Success, _) => {
                since(situation, least, &format!("{} is only supported for openshift versions", operator.title()))
            }
            failure => failure,
        },
        ClusterRule::Volumes => volumes(situation),
        ClusterRule::Storage => storage(situation, hosts),
        ClusterRule::Gpu { vendor, title } => gpu(situation, hosts, vendor, title),
        ClusterRule::Models => {
            let workers = situation.roles.effective_workers;
            verdict(situation.cluster.single_node() || workers >= MODELS_WORKERS, "", || {
                format!("OpenShift AI requires at least {MODELS_WORKERS} worker nodes, but the cluster has {workers}.")
            })
        }
    }
}

fn since(situation: &Situation, least: &str, text: &str) -> Verdict {
    verdict(!older(situation.version(), least), "", || format!("{text} {least} and above"))
}

fn architecture(operator: &Operator, situation: &Situation) -> Verdict {
    let own = &situation.cluster.cluster.cpu_architecture;
    let fits = Architecture::parse(own).is_none_or(|own| operator.feature.row().fits(situation.version(), own));
    verdict(fits, "", || format!("{} is not supported for {own} CPU architecture.", operator.title()))
}

fn volumes(situation: &Situation) -> Verdict {
    match since(situation, "4.11.0", "Logical Volume Manager is only supported for openshift versions") {
        (Status::Success, _) if !situation.cluster.single_node() => {
            verdict(!older(situation.version(), "4.15.0"), "", || {
                "Logical Volume Manager is only supported for highly available openshift with version 4.15.0 or above"
                    .to_owned()
            })
        }
        verdict => verdict,
    }
}

fn storage(situation: &Situation, hosts: &[Arc<HostRecord>]) -> Verdict {
    let mode = situation.storage_mode();
    if mode == StorageMode::Unknown {
        return (
            Status::Failure,
            "The cluster must either have no dedicated worker nodes or at least three. Add or remove hosts, or change their \
             roles configurations to meet the requirement."
                .to_owned(),
        );
    }
    let least = situation.storage_disk_gb(false);
    let too_few = || {
        let mode = mode.name().to_lowercase();
        format!(
            "Insufficient resources to deploy ODF in {mode} mode. ODF requires a minimum of {STORAGE_HOSTS} hosts. Each host must \
             have at least 1 additional disk of {least} GB minimum and an installation disk."
        )
    };
    let machines = || hosts.iter().map(|host| Machine::of(host));
    for machine in machines().filter(|machine| situation.runs_storage(machine.effective) == Some(true)) {
        if machine.inventory.is_none() {
            return (Status::Pending, "Missing Inventory in some of the hosts".to_owned());
        }
        // Disks that are all too small: the host's owner meant them for the storage.
        if matches!(machine.spare_disks(least), (0, 1..)) {
            return (Status::Failure, too_few());
        }
    }
    let (disks, hosts) = situation.storage_disks(machines());
    let enough = disks >= STORAGE_HOSTS && hosts >= STORAGE_HOSTS;
    verdict(enough, format!("ODF Requirements for {} Deployment are satisfied.", mode.name()), too_few)
}

fn gpu(situation: &Situation, hosts: &[Arc<HostRecord>], vendor: &str, title: &str) -> Verdict {
    let works = |machine: &Machine| match machine.role {
        HostRole::Master | HostRole::Bootstrap => situation.masters_work(),
        HostRole::Arbiter => false,
        HostRole::Worker | HostRole::AutoAssign => true,
    };
    let machines = hosts.iter().map(|host| Machine::of(host)).filter(works);
    let mut gpus = machines.filter_map(|machine| machine.inventory).flat_map(|inventory| &inventory.gpus);
    verdict(gpus.any(|gpu| gpu.vendor_id.eq_ignore_ascii_case(vendor)), "", || {
        format!(
            "The {title} GPU operator requires at least one supported {title} GPU, but there is none in the discovered hosts."
        )
    })
}

fn models_gpu(situation: &Situation) -> Verdict {
    let chosen = situation.has("nvidia-gpu") || situation.has("amd-gpu");
    let text = if chosen { "" } else { "No GPU vendor selected - OpenShift AI will be installed without GPU support" };
    (Status::Success, text.to_owned())
}
