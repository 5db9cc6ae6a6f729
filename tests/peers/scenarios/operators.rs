//! What the real service and ours find of operators: the requirements beforehand, and the checks of hosts and clusters.

use super::*;
use crate::service::{ServiceOptions, ours::OurService};
use std::collections::BTreeMap;

/// Time for a service to judge what it has heard.
const JUDGED: Duration = Duration::from_secs(20);

/// A cluster, its operators, and the roles and inventories of its hosts.
struct Case {
    name: &'static str,
    version: &'static str,
    operators: &'static [&'static str],
    hosts: Vec<(&'static str, Value)>,
}

/// A machine with disks of so many GB.
fn machine(cpus: u64, gib: u64, disks: &[u64]) -> Value {
    let disk = |(number, gb): (usize, &u64)| {
        let path = format!("/dev/vd{}", char::from(b"abcdef"[number]));
        json!({"name": &path[5..], "path": path, "id": path, "drive_type": "HDD", "bootable": number == 0,
               "size_bytes": gb * 1_000_000_000, "installation_eligibility": {"eligible": true}, "has_uuid": true})
    };
    let disks: Vec<Value> = disks.iter().enumerate().map(disk).collect();
    json!({
        "boot": {"current_boot_mode": "uefi", "secure_boot_state": "Disabled"},
        "cpu": {"architecture": "x86_64", "count": cpus, "flags": ["vmx"], "model_name": "a"},
        "disks": disks,
        "interfaces": [],
        "memory": {"physical_bytes": gib << 30, "usable_bytes": gib << 30, "physical_bytes_method": "ghw"},
        "routes": [],
        "system_vendor": {"manufacturer": "QEMU", "product_name": "Q35", "virtual": true},
    })
}

fn changed(mut machine: Value, pointer: &str, value: Value) -> Value {
    *machine.pointer_mut(pointer).unwrap() = value;
    machine
}

fn accelerated(vendor: &str, secure: &str) -> Value {
    let mut machine = changed(machine(16, 64, &[120]), "/boot/secure_boot_state", secure.into());
    machine["gpus"] = json!([{"vendor_id": vendor, "device_id": "1eb8", "address": "0000:01:00.0"}]);
    machine
}

fn cases() -> Vec<Case> {
    let masters = |machine: Value| -> Vec<_> { (0..3).map(|_| ("master", machine.clone())).collect() };
    let with_workers = |workers: usize, machine: Value| {
        let workers = (0..workers).map(|_| ("worker", machine.clone()));
        masters(machine.clone()).into_iter().chain(workers).collect::<Vec<_>>()
    };
    let large = || machine(24, 96, &[120, 120]);
    let case = |name, version, operators, hosts| Case { name, version, operators, hosts };
    vec![
        case("odf compact", "4.22", &["odf"], masters(large())),
        case("odf small disks", "4.22", &["odf"], masters(machine(24, 96, &[120, 20]))),
        case("odf no disks", "4.22", &["odf"], masters(machine(24, 96, &[120]))),
        case("odf standard", "4.22", &["odf", "mce"], with_workers(3, large())),
        case("odf one worker", "4.22", &["odf"], with_workers(1, large())),
        case("cnv and mtv", "4.22", &["mtv", "nmstate"], masters(machine(3, 64, &[120]))),
        case("no virtualization", "4.22", &["cnv"], masters(changed(large(), "/cpu/flags", json!(["fpu"])))),
        case("lvm", "4.22", &["lvm", "mce"], masters(machine(24, 96, &[120, 40]))),
        case("models", "4.22", &["openshift-ai"], with_workers(2, machine(4, 16, &[120]))),
        case("nvidia", "4.22", &["nvidia-gpu"], with_workers(2, accelerated("10de", "Enabled"))),
        case("amd", "4.22", &["amd-gpu"], masters(accelerated("1002", "Disabled"))),
        case("no accelerator", "4.22", &["nvidia-gpu", "osc"], masters(large())),
        case(
            "the rest",
            "4.22",
            &[
                "cluster-observability",
                "fence-agents-remediation",
                "kube-descheduler",
                "metallb",
                "node-maintenance",
                "numaresources",
                "oadp",
            ],
            masters(large()),
        ),
    ]
}

/// Statuses and messages of the checks of operators by their names.
fn found(document: &Value) -> BTreeMap<String, (String, String)> {
    let all: Value = serde_json::from_str(document["validations_info"].as_str().unwrap_or("{}")).unwrap();
    let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
    let one = |one: &Value| (text(one, "id"), (text(one, "status"), text(one, "message")));
    all["operators"].as_array().into_iter().flatten().map(one).collect()
}

/// By operator, without what is nothing.
fn requirements(document: &Value) -> BTreeMap<String, Value> {
    let without_nulls = |role: &Value| {
        let fields = role.as_object().into_iter().flatten();
        let fields = fields.filter(|(_, value)| !value.is_null() && **value != json!([]));
        Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
    };
    let one = |one: &Value| {
        let roles = ["master", "worker"].map(|role| without_nulls(&one["requirements"][role]));
        (one["operator_name"].as_str().unwrap().to_owned(), json!([one["dependencies"], roles]))
    };
    document["operators"].as_array().unwrap().iter().map(one).collect()
}

type Found = BTreeMap<String, (String, String)>;

/// What a service finds of a case: of its requirements, its cluster and each of its hosts.
fn play(api: &Api, case: &Case) -> (BTreeMap<String, Value>, Found, Vec<Found>) {
    let mut body = single_node_cluster();
    let operators: Vec<Value> = case.operators.iter().map(|name| json!({"name": name})).collect();
    for (name, value) in [
        ("name", case.name.replace(' ', "-").into()),
        ("openshift_version", case.version.into()),
        ("control_plane_count", 3.into()),
        ("high_availability_mode", "Full".into()),
        ("olm_operators", operators.into()),
    ] {
        body[name] = value;
    }
    // Hosts without addresses are in none.
    body.as_object_mut().unwrap().remove("machine_networks");
    let (cluster, env) = create(api, body);
    let mut hosts = Vec::new();
    for (index, (role, inventory)) in case.hosts.iter().enumerate() {
        let host = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap().trim().to_owned();
        let path = format!("/infra-envs/{env}/hosts");
        api.request("POST", &path, Some(json!({"host_id": host, "discovery_agent_version": crate::site::AGENT_IMAGE})));
        let path = format!("{path}/{host}");
        let mut inventory = inventory.clone();
        inventory["hostname"] = format!("host-{index}").into();
        let reply = json!({"step_id": "inventory-1", "step_type": "inventory", "exit_code": 0, "error": "",
                           "output": inventory.to_string()});
        api.request("POST", &format!("{path}/instructions"), Some(reply));
        api.request("PATCH", &path, Some(json!({"host_role": role})));
        hosts.push(path);
    }
    thread::sleep(JUDGED);
    let requirements = requirements(&api.get(&format!("/clusters/{cluster}/preflight-requirements")));
    let cluster = found(&api.get(&format!("/clusters/{cluster}")));
    (requirements, cluster, hosts.iter().map(|path| found(&api.get(path))).collect())
}

#[test]
fn operators_are_judged_alike() {
    scenario("u: operators, the real service and ours", &["assisted-service"], &[], |peers, site| {
        let cases = cases();
        // They are required unless it is said otherwise.
        let environment = [("AMD_REQUIRE_GPU", "true"), ("NVIDIA_REQUIRE_GPU", "true")].map(|(k, v)| (k, v.to_owned()));
        let options = ServiceOptions { environment: &environment, ..ServiceOptions::default() };
        let real = site.real_service(peers, options);
        let theirs: Vec<_> = cases.iter().map(|case| play(&real.api, case)).collect();
        drop(real);
        let service = OurService::start(site, &[]);
        for (case, theirs) in cases.iter().zip(theirs) {
            let ours = play(&service.api, case);
            assert_eq!(ours.0, theirs.0, "{}: requirements", case.name);
            assert_eq!(ours.1, theirs.1, "{}: the cluster", case.name);
            assert_eq!(ours.2, theirs.2, "{}: its hosts", case.name);
        }
        format!("{} clusters", cases.len())
    });
}
