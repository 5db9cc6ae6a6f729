//! What operators ask of a host.

use super::*;
use crate::course::{Operator, OperatorKind};
use crate::operators::{OPERATORS, Roles};

const FINE: Option<(Status, &str)> = Some((Success, ""));

/// Chooses operators; the host is one of three masters, with a spare disk.
fn choose(setup: &mut Setup, names: &[&str]) {
    let chosen = names.iter().map(|name| Operator::new(name, OperatorKind::Olm)).collect();
    setup.cluster().course.set_olm_operators(chosen);
    roles(setup, &[HostRole::Master; 3]);
    part(setup, "/memory/usable_bytes", json!(64_u64 << 30));
    part(setup, "/memory/physical_bytes", json!(64_u64 << 30));
    part(setup, "/cpu/count", json!(16));
    part(setup, "/cpu/flags", json!(["fpu", "svm"]));
    disks(setup, &[100, 100]);
}

fn roles(setup: &mut Setup, roles: &[HostRole]) {
    setup.shared.roles = Roles::count(roles.iter().map(|role| (*role, *role)));
}

/// Disks of so many GB; it is installed to the first.
fn disks(setup: &mut Setup, sizes: &[u64]) {
    let disk = |(number, gb): (usize, &u64)| {
        let name = char::from(b"abcd"[number]);
        json!({"name": format!("sd{name}"), "path": format!("/dev/sd{name}"), "id": format!("/dev/sd{name}"),
               "drive_type": "SSD", "size_bytes": gb * 1_000_000_000, "installation_eligibility": {"eligible": true}})
    };
    part(setup, "/disks", sizes.iter().enumerate().map(disk).collect());
}

fn in_role(setup: &mut Setup, role: HostRole) {
    setup.record.host.role = role;
}

fn with(names: &[&str], change: impl Fn(&mut Setup)) -> Setup {
    let mut setup = setup();
    choose(&mut setup, names);
    change(&mut setup);
    setup
}

#[test]
fn every_published_check_of_operators_is_made() {
    let made: BTreeSet<String> = ids().collect();
    for setup in [setup(), with(&["odf", "cnv"], |_| {})] {
        let findings = setup.findings(Waived::default());
        let text: Value = serde_json::from_str(&findings.to_json()).unwrap();
        let shown: Vec<&str> =
            text["operators"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
        assert_eq!(shown, OPERATORS.iter().map(|operator| operator.check).collect::<Vec<_>>());
        assert!(shown.is_sorted());
    }
    let Some(published): Option<Value> = testkit::wire::document() else { return };
    let published = published["definitions"]["host-validation-id"]["enum"].as_array().unwrap();
    let published = published.iter().map(|id| id.as_str().unwrap().to_owned());
    let mut of_operators = published.filter(|id| id.ends_with("-requirements-satisfied"));
    assert_eq!(of_operators.find(|id| !made.contains(id)), None);
}

#[test]
fn operators_that_are_not_there_ask_nothing() {
    hold(&[
        ("numa-resources-requirements-satisfied", |_| {}, Some((Success, "numaresources is disabled"))),
        ("cnv-requirements-satisfied", |s| choose(s, &["lso"]), Some((Success, "cnv is disabled"))),
        ("lso-requirements-satisfied", |s| choose(s, &["lso"]), FINE),
        (
            "lso-requirements-satisfied",
            |s| {
                choose(s, &["lso"]);
                s.day2();
            },
            Some((Success, "lso validation is disabled when adding hosts to an existing cluster.")),
        ),
    ]);
}

#[test]
#[rustfmt::skip]
fn hardware_is_enough_for_each_operator() {
    const CNV: &str = "cnv-requirements-satisfied";
    const MCE: &str = "mce-requirements-satisfied";
    const AI: &str = "openshift-ai-requirements-satisfied";
    fn cnv(s: &mut Setup) { choose(s, &["cnv"]) }
    fn ai(s: &mut Setup) { choose(s, &["openshift-ai"]); in_role(s, HostRole::Worker) }
    fn mce(s: &mut Setup) { choose(s, &["mce"]) }
    hold(&[
        (CNV, |s| cnv(s), FINE),
        (CNV, |s| { cnv(s); part(s, "/cpu/flags", json!(["fpu"])) }, Some((Failure, "CPU does not have virtualization support"))),
        (CNV, |s| { cnv(s); part(s, "/cpu/flags", json!(null)); part(s, "/cpu/architecture", json!("aarch64")) }, FINE),
        (CNV, |s| { cnv(s); part(s, "/cpu/count", json!(4)) }, FINE),
        (CNV, |s| { cnv(s); part(s, "/cpu/count", json!(3)) }, Some((Failure, "Insufficient CPU to deploy OpenShift Virtualization. Required CPU count is 4 but found 3 "))),
        (CNV, |s| { cnv(s); part(s, "/memory/usable_bytes", json!(149_u64 << 20)) }, Some((Failure, "Insufficient memory to deploy OpenShift Virtualization. Required memory is 150 MiB but found 149 MiB"))),
        (CNV, |s| { cnv(s); in_role(s, HostRole::AutoAssign) }, Some((Failure, "All host roles must be assigned to enable OpenShift Virtualization"))),
        (CNV, |s| { cnv(s); no_inventory(s) }, Some((Pending, "Missing Inventory in some of the hosts"))),
        (CNV, |s| { cnv(s); s.single_node(); s.cluster().cluster.openshift_version = "4.11.9".into(); disks(s, &[100, 53]) }, Some((Failure, "OpenShift Virtualization on SNO requires an additional disk with 53 GB (50 Gi) in order to provide persistent storage for VMs, using hostpath-provisioner"))),
        (CNV, |s| { cnv(s); s.single_node(); s.cluster().cluster.openshift_version = "4.11.9".into(); disks(s, &[100, 54]) }, FINE),
        (MCE, |s| { mce(s); part(s, "/memory/usable_bytes", json!(16_u64 << 30)) }, FINE),
        (MCE, |s| { mce(s); part(s, "/memory/usable_bytes", json!((16_u64 << 30) - 1)) }, Some((Failure, "Insufficient memory to deploy multicluster engine. Required memory is 16384 MiB but found 16383 MiB"))),
        (MCE, |s| { mce(s); no_inventory(s) }, Some((Pending, "Missing Inventory in the host"))),
        ("mtv-requirements-satisfied", |s| { choose(s, &["mtv"]); part(s, "/cpu/count", json!(0)) }, Some((Failure, "Insufficient CPU to deploy OpenShift Migration Toolkit for Virtualization. Required CPU count is 1 but found 0 "))),
        ("osc-requirements-satisfied", |s| { choose(s, &["osc"]); part(s, "/memory/usable_bytes", json!(0)) }, Some((Failure, "Insufficient memory to deploy OpenShift sandboxed containers. Required memory is 1024 MiB but found 0 MiB"))),
        (AI, |s| ai(s), FINE),
        (AI, |s| { ai(s); no_inventory(s) }, Some((Pending, "Missing inventory in the host"))),
        (AI, |s| { ai(s); part(s, "/cpu/count", json!(7)); part(s, "/memory/usable_bytes", json!(31_u64 << 30)) }, Some((Failure, "Insufficient CPU to deploy OpenShift AI, requires 8 CPU cores but found 7\nInsufficient memory to deploy OpenShift AI, requires 32 GiB but found 31 GiB"))),
    ]);
}

#[test]
#[rustfmt::skip]
fn storage_needs_disks_that_are_not_installed_to() {
    const ODF: &str = "odf-requirements-satisfied";
    const LVM: &str = "lvm-requirements-satisfied";
    fn odf(s: &mut Setup) { choose(s, &["odf"]) }
    fn lvm(s: &mut Setup) { choose(s, &["lvm"]) }
    hold(&[
        (ODF, |s| odf(s), FINE),
        (ODF, |s| { odf(s); disks(s, &[100]) }, Some((Failure, "Insufficient disks, ODF requires at least one non-installation SSD or HDD disk on each host in compact mode."))),
        (ODF, |s| { odf(s); disks(s, &[100, 24]) }, Some((Failure, "Insufficient resources to deploy ODF in compact mode. ODF requires a minimum of 3 hosts. Each host must have at least 1 additional disk of 25 GB minimum and an installation disk."))),
        (ODF, |s| { odf(s); disks(s, &[100, 24, 25]) }, FINE),
        (ODF, |s| { choose(s, &["odf", "mce"]); disks(s, &[100, 74]) }, Some((Failure, "Insufficient resources to deploy ODF in compact mode. ODF requires a minimum of 3 hosts. Each host must have at least 1 additional disk of 75 GB minimum and an installation disk."))),
        (ODF, |s| { odf(s); no_inventory(s) }, Some((Pending, "Missing Inventory in the host."))),
        (ODF, |s| { odf(s); roles(s, &[HostRole::AutoAssign; 4]); in_role(s, HostRole::AutoAssign) }, Some((Pending, "Auto-assigning roles for hosts with ODF is allowed only for clusters with exactly three hosts. For other scenarios, please manually assign the host role as either a control plane node or a worker."))),
        (ODF, |s| { odf(s); disks(s, &[100]); roles(s, &[HostRole::Master, HostRole::Master, HostRole::Master, HostRole::Worker]) }, FINE),
        (LVM, |s| lvm(s), FINE),
        (LVM, |s| { lvm(s); disks(s, &[100]) }, Some((Failure, "Logical Volume Manager requires at least one non-installation HDD/SSD disk on the host"))),
        (LVM, |s| { choose(s, &["lvm", "mce"]); s.single_node(); disks(s, &[100, 69]) }, Some((Failure, "Logical Volume Manager requires at least one non-installation HDD/SSD disk of 70GB minimum on the host"))),
        (LVM, |s| { lvm(s); disks(s, &[100]); roles(s, &[HostRole::Worker; 2]) }, FINE),
        (LVM, |s| { lvm(s); roles(s, &[HostRole::Worker; 2]); in_role(s, HostRole::AutoAssign) }, Some((Failure, "For Logical Volume Manager Standard Mode, host role must be assigned to master or worker."))),
        (LVM, |s| { lvm(s); no_inventory(s) }, Some((Pending, "Missing Inventory in the host"))),
    ]);
}

#[test]
#[rustfmt::skip]
fn unsigned_modules_need_a_boot_that_takes_them() {
    const NVIDIA: &str = "nvidia-gpu-requirements-satisfied";
    fn secure(s: &mut Setup, names: &[&str], vendor: &str) {
        choose(s, names);
        part(s, "/boot", json!({"secure_boot_state": "Enabled"}));
        part(s, "/gpus", json!([{"vendor_id": vendor}]));
    }
    hold(&[
        (NVIDIA, |s| choose(s, &["nvidia-gpu"]), FINE),
        (NVIDIA, |s| secure(s, &["nvidia-gpu"], "1002"), FINE),
        (NVIDIA, |s| secure(s, &["nvidia-gpu"], "10de"), Some((Failure, "Secure boot is enabled, but it needs to be disabled in order to load NVIDIA GPU drivers"))),
        ("amd-gpu-requirements-satisfied", |s| secure(s, &["amd-gpu"], "1002"), Some((Failure, "Secure boot is enabled, but it needs to be disabled in order to load AMD GPU drivers"))),
        ("kmm-requirements-satisfied", |s| secure(s, &["kmm"], ""), Some((Failure, "Secure boot is enabled, but it needs to be disabled in order to load modules"))),
        (NVIDIA, |s| { choose(s, &["nvidia-gpu"]); no_inventory(s) }, Some((Pending, "Missing inventory in the host"))),
    ]);
}

#[test]
fn what_operators_take_counts_for_the_role() {
    let fits = |cpus: u64, mib: u64| {
        let setup = with(&["odf"], |setup| {
            part(setup, "/cpu/count", json!(cpus));
            part(setup, "/memory/physical_bytes", json!(mib << 20));
        });
        let found = |id| setup.found(id).unwrap();
        (found("has-cpu-cores-for-role"), found("has-memory-for-role"))
    };
    let (cpus, memory) = fits(12, (16 + 24) << 10);
    assert_eq!((cpus.0, memory.0), (Success, Success));
    let (cpus, memory) = fits(11, (15 + 24) << 10);
    assert_eq!(cpus, (Failure, "Role master needs 12 CPU cores, the host has 11".to_owned()));
    assert_eq!(memory, (Failure, "Role master needs 40960 MiB of memory, the host has 39936 MiB".to_owned()));
    let failing = with(&["cnv"], |setup| part(setup, "/cpu/flags", json!([])));
    let sufficient = failing.findings(Waived::default()).for_state().sufficient;
    assert_eq!(sufficient, ["CPU does not have virtualization support"]);
}
