use super::bundles::Bundle;
use super::table::Membership;
use super::*;
use crate::course;
use crate::features::{Architecture, Feature, Query};
use crate::model::{ClusterRecord, HostKey, HostRecord};
use crate::state::ClusterState;
use api::{Cluster, HostId, HostRole, InfraEnvId, Secret, Timestamp};
use serde_json::{Value, json};

const TARGET: Target = Target { version: "4.22.9", architecture: "x86_64", single_node: false };

fn choose(target: Target, operators: &[&str]) -> Result<Vec<course::Operator>, String> {
    let operators: Vec<OperatorChoice> =
        operators.iter().map(|name| serde_json::from_value(json!({"name": name})).unwrap()).collect();
    select(target, &operators, &[]).map_err(|error| error.to_string())
}

fn names(operators: &[course::Operator]) -> Vec<&str> {
    operators.iter().map(|operator| operator.name.as_str()).collect()
}

#[test]
fn names_are_in_order_and_everything_needed_is_there() {
    assert!(OPERATORS.is_sorted_by(|one, other| one.name < other.name));
    for operator in OPERATORS {
        let needed = operator.needs.len() + operator.needs_on_single_node.len();
        assert_eq!(operator.needed_features().count(), needed, "{}", operator.name);
        assert_eq!(installs(operator.feature).map(|found| found.name), Some(operator.name));
    }
    let operators = Feature::ALL.iter().filter(|feature| installs(**feature).is_some()).count();
    assert_eq!((operators, OPERATORS.len()), (28, 28));
}

#[test]
fn a_choice_brings_what_it_needs() {
    let chosen = choose(TARGET, &["odf", "amd-gpu"]).unwrap();
    assert_eq!(names(&chosen), ["amd-gpu", "kmm", "lso", "node-feature-discovery", "odf"]);
    let needed: Vec<bool> = chosen.iter().map(|operator| operator.dependency_only).collect();
    assert_eq!(needed, [false, true, true, true, false]);
    assert_eq!(names(&choose(TARGET, &["cluster-observability"]).unwrap()).len(), 3);
    assert_eq!(names(&choose(TARGET, &["ocs", "lso", "lso", "console"]).unwrap()), ["lso", "odf"]);
    assert!(choose(TARGET, &["odf", "lso"]).unwrap().iter().all(|operator| !operator.dependency_only));
    assert_eq!(names(&choose(TARGET, &["openshift-ai"]).unwrap()), ["openshift-ai"]);
    let single = Target { single_node: true, ..TARGET };
    assert_eq!(names(&choose(single, &["openshift-ai"]).unwrap()), ["lvm", "openshift-ai"]);
}

#[test]
fn a_subscription_changes_its_name_with_the_version() {
    let subscription = |version| choose(Target { version, ..TARGET }, &["lvm"]).unwrap()[0].subscription_name.clone();
    assert_eq!((subscription("4.11.9"), subscription("4.12.0")), ("odf-lvm-operator".into(), "lvms-operator".into()));
}

#[test]
fn what_cannot_be_added_is_named() {
    for (target, operators, text) in [
        (TARGET, &["zzz"][..], "operator zzz isn't supported"),
        (TARGET, &[""], "operator  isn't supported"),
        (
            Target { architecture: "arm64", ..TARGET },
            &["mtv"],
            "OpenShift Migration Toolkit for Virtualization is not available when arm64 CPU architecture is selected",
        ),
        (
            Target { version: "4.14.1", ..TARGET },
            &["lvm", "cnv"],
            "Logical Volume Manager is only supported for highly available openshift with version 4.15.0 or above",
        ),
        (
            Target { version: "4.11.1", single_node: true, ..TARGET },
            &["lvm", "cnv"],
            "Currently, you can not install Logical Volume Manager operator at the same time as Virtualization operator.",
        ),
    ] {
        assert_eq!(choose(target, operators).unwrap_err(), text);
    }
    assert!(choose(Target { version: "4.14.1", single_node: true, ..TARGET }, &["lvm", "cnv"]).is_ok());
}

#[test]
fn bundles_are_expanded_and_shown_again() {
    let choice = |value| serde_json::from_value::<BundleChoice>(value).unwrap();
    let ai = choice(json!({"id": "openshift-ai", "optional_operators": ["nvidia-gpu"]}));
    let operators: Vec<OperatorChoice> = vec![serde_json::from_value(json!({"name": "odf"})).unwrap()];
    let chosen = select(TARGET, &operators, std::slice::from_ref(&ai)).unwrap();
    let sources =
        |name: &str| chosen.iter().find(|operator| operator.name == name).map(|operator| operator.source_bundles.len());
    // What was chosen by name as well does not belong to the bundle any more.
    assert_eq!((sources("odf"), sources("authorino"), sources("nvidia-gpu")), (Some(0), Some(1), Some(1)));
    assert_eq!((sources("node-feature-discovery"), sources("amd-gpu")), (Some(0), None));
    assert_eq!(chosen_bundles(chosen.iter()), [ai]);
    let refused = |value| select(TARGET, &[], &[choice(value)]).unwrap_err().to_string();
    assert_eq!(refused(json!({"id": "zzz"})), "bundle 'zzz' is not supported");
    assert_eq!(
        refused(json!({"id": "openshift-ai", "optional_operators": ["lso"]})),
        "operator 'lso' is not a valid optional operator for bundle 'openshift-ai'"
    );
}

#[test]
fn bundles_are_shown_where_all_their_operators_work() {
    let query = |version, architecture| Query { version, architecture, platform: None, external_name: None };
    let ids = |bundles: Vec<Bundle>| bundles.iter().map(|bundle| bundle.id).collect::<Vec<_>>();
    assert_eq!(ids(bundles(None, false)), ["virtualization", "openshift-ai"]);
    let latest = query("4.22", Architecture::X86_64);
    assert_eq!(ids(bundles(Some(&latest), false)).len(), 2);
    assert_eq!(ids(bundles(Some(&latest), true)), ["openshift-ai"]);
    assert_eq!(bundles(Some(&latest), true)[0].operators, ["lvm", "openshift-ai"]);
    assert!(bundles(Some(&query("4.22", Architecture::Arm64)), false).is_empty());
    let large = bundle("openshift-ai", false).unwrap();
    assert_eq!(large.operators, ["authorino", "odf", "openshift-ai", "pipelines", "serverless", "servicemesh"]);
    assert_eq!(large.optional_operators, Some(vec!["amd-gpu", "nvidia-gpu"]));
    let members = OPERATORS.iter().filter(|operator| operator.membership == Membership::Always("virtualization"));
    assert_eq!(bundle("virtualization", false).unwrap().operators.len(), members.count());
}

/// A cluster with these operators and no others.
pub(super) fn cluster(version: &str, masters: u32, operators: &[&str]) -> ClusterRecord {
    let cluster = Cluster { openshift_version: version.into(), control_plane_count: masters, ..Cluster::default() };
    let mut record = ClusterRecord::new(ClusterState::Insufficient, cluster, Secret::default());
    let target = Target { version, architecture: "x86_64", single_node: masters == 1 };
    let chosen: Vec<OperatorChoice> =
        operators.iter().map(|name| serde_json::from_value(json!({"name": name})).unwrap()).collect();
    let mut chosen = select(target, &chosen, &[]).unwrap();
    chosen.retain(|own| operators.contains(&own.name.as_str()));
    record.course.set_olm_operators(chosen);
    record
}

/// A host that is installed to its first disk; the disks' sizes are in GB.
pub(super) fn host(role: HostRole, disks: &[u64]) -> HostRecord {
    let key = HostKey { infra_env: InfraEnvId::default(), host: HostId(uuid::Uuid::from_u128(1)) };
    let mut record = HostRecord::new(key, None, Timestamp::ZERO);
    record.host.role = role;
    record.host.installation_disk_id = "/dev/sd0".into();
    let disk = |(number, gb): (usize, &u64)| {
        json!({"name": format!("sd{number}"), "id": format!("/dev/sd{number}"),
        "drive_type": if number % 2 == 0 { "SSD" } else { "HDD" }, "size_bytes": gb * 1_000_000_000})
    };
    let disks: Vec<Value> = disks.iter().enumerate().map(disk).collect();
    let gpus = json!([{"vendor_id": "10de", "device_id": "1eb8"}, {"vendor_id": "10de", "device_id": "ffff"}]);
    let nics = json!([{"name": "eth0", "vendor": "0x8086", "product": "0x158B"}, {"name": "eth1", "vendor": "0x1af4"}]);
    record.set_inventory(json!({"disks": disks, "gpus": gpus, "interfaces": nics}).to_string());
    record
}

const MASTERS: [HostRole; 3] = [HostRole::Master; 3];
const WORKERS: [HostRole; 6] =
    [HostRole::Master, HostRole::Master, HostRole::Master, HostRole::Worker, HostRole::Worker, HostRole::Worker];

#[test]
fn an_operator_takes_more_of_some_hosts() {
    use HostRole::{Arbiter, AutoAssign, Master, Worker};
    /// Operator, version, the roles of all hosts, that of the one, and what it takes: processors and MiB.
    type Row = (&'static str, &'static str, &'static [HostRole], HostRole, (u64, u64));
    let rows: &[Row] = &[
        ("lso", "4.22.9", &MASTERS, Master, (0, 0)),
        ("metallb", "4.22.9", &MASTERS, Master, (0, 0)),
        ("mtv", "4.22.9", &MASTERS, Master, (1, 1024)),
        ("mtv", "4.22.9", &[Master, Master, Arbiter], Arbiter, (0, 0)),
        ("osc", "4.22.9", &WORKERS, Worker, (1, 1024)),
        ("mce", "4.22.9", &MASTERS, Master, (4, 16384)),
        ("mce", "4.22.9", &[Master], Master, (8, 32768)),
        ("mce", "4.22.9", &[Master, Master, Arbiter], Arbiter, (0, 0)),
        ("openshift-ai", "4.22.9", &WORKERS, Master, (0, 0)),
        ("openshift-ai", "4.22.9", &WORKERS, Worker, (8, 32768)),
        ("openshift-ai", "4.22.9", &[AutoAssign; 3], AutoAssign, (0, 0)),
        // Two devices that a virtual machine may be given.
        ("cnv", "4.22.9", &MASTERS, Master, (4, 150)),
        ("cnv", "4.22.9", &WORKERS, Worker, (2, 360 + 2048)),
        ("cnv", "4.22.9", &[AutoAssign; 3], AutoAssign, (2, 360 + 2048)),
        ("cnv", "4.22.9", &[Master], Master, (6, 510 + 2048)),
        ("cnv", "4.22.9", &[Master, Master, Arbiter], Arbiter, (0, 0)),
        ("lvm", "4.12.3", &[Master], Master, (1, 1200)),
        ("lvm", "4.15.0", &MASTERS, Master, (1, 400)),
        ("lvm", "4.16.0", &WORKERS, Worker, (1, 100)),
        ("lvm", "4.22.9", &WORKERS, Master, (0, 0)),
        ("lvm", "4.22.9", &[Master, Master, Arbiter], Arbiter, (0, 0)),
        // Two disks besides the one it is installed to, one of them too small.
        ("odf", "4.22.9", &MASTERS, Master, (6 + 2, (19 + 5) << 10)),
        ("odf", "4.22.9", &[AutoAssign; 3], AutoAssign, (6 + 2, (19 + 5) << 10)),
        ("odf", "4.22.9", &[Master, Master, Arbiter], Arbiter, (6 + 2, (19 + 5) << 10)),
        ("odf", "4.22.9", &WORKERS, Master, (0, 0)),
        ("odf", "4.22.9", &WORKERS, Worker, (8 + 2, (19 + 5) << 10)),
        ("odf", "4.22.9", &WORKERS[..4], Worker, (0, 0)),
    ];
    for (name, version, roles, role, expected) in rows {
        let masters = if roles.len() == 1 { 1 } else { 3 };
        let cluster = cluster(version, masters, &[name]);
        let situation = Situation { cluster: &cluster, roles: Roles::count(roles.iter().map(|role| (*role, *role))) };
        let record = host(*role, &[120, 25, 24]);
        let found = total(&situation, &Machine::of(&record));
        assert_eq!((found.cpu_cores, found.ram_mib), *expected, "{name} {version} {role} of {roles:?}");
    }
}

#[test]
fn a_compact_storage_host_counts_with_one_disk_before_any_is_seen() {
    let cluster = cluster("4.22.9", 3, &["odf", "mtv"]);
    let situation = Situation { cluster: &cluster, roles: Roles::count(MASTERS.iter().map(|role| (*role, *role))) };
    let record = host(HostRole::Master, &[120]);
    assert_eq!(total(&situation, &Machine::of(&record)), Amount::new(6 + 2 + 1, ((19 + 5) << 10) + 1024));
    let mut day2 = cluster.clone();
    day2.cluster.kind = crate::model::DAY2_CLUSTER.into();
    assert_eq!(total(&Situation { cluster: &day2, ..situation }, &Machine::of(&record)), Amount::NONE);
}

#[test]
fn requirements_are_told_of_every_operator() {
    let told = |version: &str, masters: u32| {
        let cluster = cluster(version, masters, &[]);
        preflight(&Situation { cluster: &cluster, roles: Roles::default() })
    };
    let all = told("4.22.9", 3);
    let names: Vec<&str> = all.iter().map(|one| one["operator_name"].as_str().unwrap()).collect();
    assert_eq!(names, OPERATORS.iter().map(|operator| operator.name).collect::<Vec<_>>());
    let of = |all: &[Value], name: &str| all.iter().find(|one| one["operator_name"] == name).unwrap().clone();
    let nothing = json!({"quantitative": {}});
    assert_eq!(
        of(&all, "lso"),
        json!({"operator_name": "lso", "dependencies": [], "requirements": {"master": nothing, "worker": nothing}})
    );
    let mtv = json!({"quantitative": {"cpu_cores": 1, "ram_mib": 1024},
        "qualitative": ["1024 MiB of additional RAM", "1 additional CPUs"]});
    assert_eq!(
        of(&all, "mtv"),
        json!({"operator_name": "mtv", "dependencies": ["cnv"], "requirements": {"master": mtv, "worker": mtv}})
    );
    let needs = |all: &[Value], name: &str, role: &str| of(all, name)["requirements"][role].clone();
    assert_eq!(needs(&all, "odf", "master")["quantitative"], json!({"cpu_cores": 6, "ram_mib": 19456}));
    assert_eq!(needs(&all, "odf", "worker")["qualitative"][1], "5 GiB of additional RAM for each non-boot disk");
    assert_eq!(needs(&all, "lvm", "worker")["quantitative"], json!({"cpu_cores": 1, "ram_mib": 100}));
    assert_eq!(needs(&all, "mce", "master"), json!({"quantitative": {"cpu_cores": 4, "ram_mib": 16384}}));
    assert_eq!(needs(&all, "openshift-ai", "master"), nothing);
    assert_eq!(needs(&all, "cnv", "master")["quantitative"], json!({"cpu_cores": 4, "ram_mib": 150}));
    let alone = told("4.11.9", 1);
    assert_eq!(needs(&alone, "cnv", "master")["quantitative"], json!({"cpu_cores": 6, "ram_mib": 510}));
    assert_eq!(needs(&alone, "cnv", "master")["qualitative"][3], "Additional disk with 50 Gi");
    assert_eq!(of(&alone, "openshift-ai")["dependencies"], json!(["lvm"]));
}

#[test]
fn storage_is_on_one_kind_of_hosts() {
    use HostRole::{Arbiter, AutoAssign, Master, Worker};
    let cluster = cluster("4.22.9", 3, &["odf"]);
    let rows: &[(&[HostRole], StorageMode)] = &[
        (&[], StorageMode::Unknown),
        (&[Master; 3], StorageMode::Compact),
        (&[AutoAssign; 3], StorageMode::Compact),
        (&[Master, AutoAssign, AutoAssign], StorageMode::Compact),
        (&[Master, Master, Arbiter], StorageMode::Compact),
        (&[Master; 5], StorageMode::Compact),
        (&[Master, Master, Master, AutoAssign], StorageMode::Unknown),
        (&[Master, Master, Master, Worker], StorageMode::Unknown),
        (&WORKERS, StorageMode::Standard),
        (&[Master, Master, Arbiter, Worker, Worker, Worker], StorageMode::Standard),
        (&[Master, Master, Worker, Worker, Worker], StorageMode::Unknown),
    ];
    for (roles, mode) in rows {
        let situation = Situation { cluster: &cluster, roles: Roles::count(roles.iter().map(|role| (*role, *role))) };
        assert_eq!(situation.storage_mode(), *mode, "{roles:?}");
    }
}

#[test]
fn what_cannot_be_installed_is_named() {
    let chosen = choose(Target { version: "4.8.1", ..TARGET }, &["odf"]).unwrap();
    let what = |version| not_carried(Target { version, ..TARGET }, &chosen);
    assert_eq!((what("4.8.1"), what("4.9.0")), (Some("the operator odf before OpenShift 4.9"), None));
}
