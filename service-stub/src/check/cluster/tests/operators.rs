//! What operators ask of a cluster.

use super::*;
use crate::course::{Operator, OperatorKind};
use std::collections::BTreeSet;

/// Chooses operators for a cluster of a version that has them all.
fn choose(setup: &mut Setup, names: &[&str]) {
    let chosen = names.iter().map(|name| Operator::new(name, OperatorKind::Olm)).collect();
    setup.record.course.set_olm_operators(chosen);
    setup.cluster().openshift_version = "4.22.9".into();
    setup.cluster().cpu_architecture = "x86_64".into();
}

/// Sets the roles of the hosts, which have these disks.
fn hosts(setup: &mut Setup, roles: &[HostRole], disks: &[u64]) {
    setup.hosts = (1..).zip(roles).map(|(number, role)| host(number, *role)).collect();
    for record in &mut setup.hosts {
        record.host.installation_disk_id = "/dev/sda".into();
        let disk = |(name, gb): (&str, &u64)| {
            let id = format!("/dev/{name}");
            json!({"name": name, "id": id, "drive_type": "HDD", "size_bytes": gb * 1_000_000_000})
        };
        let disks: Vec<Value> = ["sda", "sdb", "sdc"].into_iter().zip(disks).map(disk).collect();
        record.set_inventory(json!({"disks": disks}).to_string());
    }
}

fn gpu(setup: &mut Setup, index: usize, vendor: &str) {
    setup.hosts[index].set_inventory(json!({"gpus": [{"vendor_id": vendor}]}).to_string());
}

#[test]
fn every_published_check_of_operators_is_made() {
    let made: BTreeSet<String> = ids().collect();
    let mut setup = setup();
    choose(&mut setup, &["openshift-ai"]);
    let text: Value = serde_json::from_str(&setup.findings(Waived::default()).to_json()).unwrap();
    let shown: BTreeSet<String> =
        text["operators"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(shown.len(), crate::operators::OPERATORS.len() + 1);
    let Some(published): Option<Value> = testkit::wire::document() else { return };
    let published = published["definitions"]["cluster-validation-id"]["enum"].as_array().unwrap();
    let published: BTreeSet<String> = published.iter().map(|id| id.as_str().unwrap().to_owned()).collect();
    assert!(published.is_subset(&made), "{:?}", published.difference(&made));
    assert!(shown.is_subset(&published), "{:?}", shown.difference(&published));
}

#[test]
#[rustfmt::skip]
fn versions_and_architectures() {
    const LVM: &str = "lvm-requirements-satisfied";
    fn at(s: &mut Setup, name: &str, version: &str) { choose(s, &[name]); s.cluster().openshift_version = version.into() }
    fn on_arm(s: &mut Setup, name: &str) { choose(s, &[name]); s.cluster().cpu_architecture = "arm64".into() }
    hold(&[
        ("odf-requirements-satisfied", |_| {}, Success, "odf is disabled"),
        ("openshift-ai-requirements-satisfied", |_| {}, Success, "openshift-ai is disabled"),
        ("metallb-requirements-satisfied", |s| choose(s, &["metallb"]), Success, ""),
        (LVM, |s| at(s, "lvm", "4.15.0-ec.1"), Success, ""),
        (LVM, |s| at(s, "lvm", "4.14.9"), Failure, "Logical Volume Manager is only supported for highly available openshift with version 4.15.0 or above"),
        (LVM, |s| at(s, "lvm", "4.10.9"), Failure, "Logical Volume Manager is only supported for openshift versions 4.11.0 and above"),
        (LVM, |s| { at(s, "lvm", "4.11.0"); s.single_node() }, Success, ""),
        ("mce-requirements-satisfied", |s| at(s, "mce", "4.9.9"), Failure, "multicluster engine is only supported for openshift versions 4.10.0 and above"),
        ("loki-requirements-satisfied", |s| at(s, "loki", "4.16.9"), Failure, "Loki Operator is only supported for OpenShift versions 4.17.0 and above"),
        ("openshift-logging-requirements-satisfied", |s| at(s, "openshift-logging", "4.16.9"), Failure, "OpenShift Logging Operator is only supported for OpenShift versions 4.17.0 and above"),
        ("mtv-requirements-satisfied", |s| at(s, "mtv", "4.13.9"), Failure, "OpenShift Migration Toolkit for Virtualization is only supported for openshift versions 4.14.0 and above"),
        ("mtv-requirements-satisfied", |s| on_arm(s, "mtv"), Failure, "OpenShift Migration Toolkit for Virtualization is not supported for arm64 CPU architecture."),
        ("nmstate-requirements-satisfied", |s| at(s, "nmstate", "4.11.9"), Failure, "Kubernetes NMState Operator is only supported for openshift versions 4.12.0 and above"),
        ("osc-requirements-satisfied", |s| on_arm(s, "osc"), Failure, "OpenShift sandboxed containers is not supported for arm64 CPU architecture."),
        ("cnv-requirements-satisfied", |s| on_arm(s, "cnv"), Success, ""),
    ]);
}

#[test]
#[rustfmt::skip]
fn hosts_for_storage_models_and_accelerators() {
    use HostRole::{Arbiter, AutoAssign, Master, Worker};
    const ODF: &str = "odf-requirements-satisfied";
    const AI: &str = "openshift-ai-requirements-satisfied";
    const AI_GPU: &str = "openshift-ai-gpu-requirements-satisfied";
    const NVIDIA: &str = "nvidia-gpu-requirements-satisfied";
    const NO_GPU: &str = "The NVIDIA GPU operator requires at least one supported NVIDIA GPU, but there is none in the discovered hosts.";
    fn odf(s: &mut Setup, roles: &[HostRole], disks: &[u64]) { choose(s, &["odf"]); hosts(s, roles, disks) }
    fn nvidia(s: &mut Setup, roles: &[HostRole]) { choose(s, &["nvidia-gpu"]); hosts(s, roles, &[100]) }
    hold(&[
        (ODF, |s| odf(s, &[Master; 3], &[100, 25]), Success, "ODF Requirements for Compact Deployment are satisfied."),
        (ODF, |s| odf(s, &[AutoAssign; 3], &[100, 25]), Success, "ODF Requirements for Compact Deployment are satisfied."),
        (ODF, |s| odf(s, &[Master, Master, Arbiter], &[100, 25]), Success, "ODF Requirements for Compact Deployment are satisfied."),
        (ODF, |s| odf(s, &[Master, Master, Master, Worker, Worker, Worker], &[100, 25]), Success, "ODF Requirements for Standard Deployment are satisfied."),
        (ODF, |s| odf(s, &[Master, Master, Master, Worker], &[100, 25]), Failure, "The cluster must either have no dedicated worker nodes or at least three. Add or remove hosts, or change their roles configurations to meet the requirement."),
        (ODF, |s| odf(s, &[Master; 3], &[100]), Failure, "Insufficient resources to deploy ODF in compact mode. ODF requires a minimum of 3 hosts. Each host must have at least 1 additional disk of 25 GB minimum and an installation disk."),
        (ODF, |s| { odf(s, &[Master; 3], &[100, 50, 50]); s.hosts[2].set_inventory(String::new()) }, Pending, "Missing Inventory in some of the hosts"),
        (AI, |s| { choose(s, &["openshift-ai"]); hosts(s, &[Master, Master, Master, Worker], &[]) }, Failure, "OpenShift AI requires at least 2 worker nodes, but the cluster has 1."),
        (AI, |s| { choose(s, &["openshift-ai"]); hosts(s, &[Master, Master, Master, Worker, Worker], &[]) }, Success, ""),
        (AI, |s| { choose(s, &["openshift-ai"]); s.single_node() }, Success, ""),
        (AI_GPU, |s| choose(s, &["openshift-ai"]), Success, "No GPU vendor selected - OpenShift AI will be installed without GPU support"),
        (AI_GPU, |s| choose(s, &["openshift-ai", "amd-gpu"]), Success, ""),
        (NVIDIA, |s| nvidia(s, &[Master; 3]), Failure, NO_GPU),
        (NVIDIA, |s| { nvidia(s, &[Master; 3]); gpu(s, 0, "10DE") }, Success, ""),
        (NVIDIA, |s| { nvidia(s, &[Master, Worker, Worker]); gpu(s, 0, "10de") }, Failure, NO_GPU),
        (NVIDIA, |s| { nvidia(s, &[Master, Worker, Worker]); gpu(s, 0, "10de"); s.record.settings.insert("schedulable_masters".into(), json!(true)); }, Success, ""),
        (NVIDIA, |s| { nvidia(s, &[Master, Worker, Worker]); gpu(s, 1, "10de") }, Success, ""),
        ("amd-gpu-requirements-satisfied", |s| choose(s, &["amd-gpu"]), Failure, "The AMD GPU operator requires at least one supported AMD GPU, but there is none in the discovered hosts."),
    ]);
}

#[test]
fn an_operator_that_does_not_fit_holds_the_cluster_back() {
    let mut setup = setup();
    choose(&mut setup, &["amd-gpu"]);
    assert!(!setup.findings(Waived::default()).for_state().installable);
    let ignored = ["amd-gpu-requirements-satisfied".to_owned()].into();
    assert!(setup.findings(Waived { ignored, ..Waived::default() }).for_state().installable);
}
