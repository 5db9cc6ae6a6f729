//! What three, fifty and five hundred nodes cost: memory, processor time, requests.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::rig;

use controller::{Surroundings, clock::End, cluster::Login, config::Config};
use rig::{Rig, State};
use serde_json::{Value, json};
use simulator::{CertificateRequest, FaultProxy, await_some, numbered_ip, numbered_node};
use std::{
    fs,
    process::{Child, Command, Stdio},
    time::Instant,
};

/// Slower than that of other tests: what is counted by the minute has time to happen.
const SPEED: u32 = 60;
/// Half a minute passes between two looks at the service. The steady state is watched for so many.
const LOOKS: usize = 8;
/// Of the controller with five hundred nodes, in KiB: 73 000 were measured, and half as much again.
const MAX_KIB: u64 = 110_000;
const KUBECONFIG: &str = "CONTROLLER_TEST_KUBECONFIG";
const SERVICE: &str = "CONTROLLER_TEST_SERVICE";

/// The controller, in a process of the next test.
#[test]
fn the_controller() {
    let (Ok(kubeconfig), Ok(url)) = (std::env::var(KUBECONFIG), std::env::var(SERVICE)) else { return };
    let surroundings =
        Surroundings { login: Login::Kubeconfig(kubeconfig.into()), speed: SPEED, ..Surroundings::default() };
    let config = Config { url, ..rig::config() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(controller::run(config, surroundings, End::default())).unwrap();
}

struct Process(Child);

impl Process {
    fn start(rig: &Rig, service: &FaultProxy) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", &testkit::process::own_test(module_path!(), "the_controller")])
            .env(KUBECONFIG, rig.kubeconfig())
            .env(SERVICE, service.url());
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// KiB, by the kernel's name.
    fn memory(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Processor time in milliseconds: `utime` and `stime` of proc(5), in hundredths of a second.
    fn busy(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap() * 10).sum()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Of a server with two dozen disks and eight ports, as hosts send it: 20 KiB.
fn inventory(number: usize) -> String {
    let disk = |disk: usize| {
        json!({
            "by_id": format!("/dev/disk/by-id/wwn-0x5000c500{number:04x}{disk:04x}"), "by_path": format!("/dev/disk/by-path/pci-0000:18:00.0-scsi-0:2:{disk}:0"),
            "drive_type": "HDD", "has_uuid": true, "hctl": format!("0:2:{disk}:0"), "id": format!("/dev/disk/by-id/wwn-0x5000c500{number:04x}{disk:04x}"),
            "installation_eligibility": {"eligible": true, "not_eligible_reasons": null}, "model": "PERC_H730P_Mini", "name": format!("sd{disk}"),
            "path": format!("/dev/sd{disk}"), "serial": format!("006a{number:08x}{disk:08x}"), "size_bytes": 1_199_638_052_864_u64, "vendor": "DELL",
            "smart": "{\"json_format_version\":[1,0],\"smartctl\":{\"version\":[7,2],\"platform_info\":\"x86_64-linux-5.14.0\",\"exit_status\":0},\
                      \"device\":{\"type\":\"scsi\",\"protocol\":\"SCSI\"},\"temperature\":{\"current\":0}}",
            "wwn": format!("0x5000c500{number:04x}{disk:04x}"),
        })
    };
    let address = |port: usize| if port == 0 { vec![format!("{}/16", numbered_ip(number))] } else { Vec::new() };
    let interface = |port: usize| {
        json!({
            "biosdevname": format!("em{port}"), "client_id": "", "flags": ["up", "broadcast", "multicast"], "has_carrier": port == 0,
            "ipv4_addresses": address(port), "ipv6_addresses": [], "mac_address": format!("52:54:{:02x}:{:02x}:00:{port:02x}", number / 256, number % 256),
            "mtu": 1500, "name": format!("eno{port}"), "product": "0x1572", "speed_mbps": 10000, "type": "physical", "vendor": "0x8086",
        })
    };
    let flags: Vec<_> = (0..180).map(|flag| format!("flag_{flag}")).collect();
    json!({
        "hostname": numbered_node(number), "bmc_address": "10.0.0.1", "bmc_v6address": "::/0",
        "boot": {"current_boot_mode": "uefi", "secure_boot_state": "NotSupported"},
        "cpu": {"architecture": "x86_64", "count": 64, "flags": flags, "frequency": 2400.0, "model_name": "a processor"},
        "disks": (0..24).map(disk).collect::<Vec<_>>(), "gpus": [], "interfaces": (0..8).map(interface).collect::<Vec<_>>(),
        "memory": {"physical_bytes": 274_877_906_944_u64, "usable_bytes": 270_000_000_000_u64}, "routes": [],
        "system_vendor": {"manufacturer": "a maker", "product_name": "a server", "serial_number": format!("S{number}")}, "tpm_version": "2.0",
    })
    .to_string()
}

/// Hosts that are nodes, and one that is not: its inventory is read with all others as long as it is missing.
fn hosts(count: usize) -> Vec<Value> {
    let mut hosts = State::hosts("installing", "Rebooting", count + 1);
    for (number, host) in hosts.iter_mut().enumerate() {
        host["requested_hostname"] = numbered_node(number).into();
        host["inventory"] = inventory(number).into();
    }
    hosts
}

/// A row of the table, and the memory in KiB.
fn measure(count: usize) -> Option<(String, u64)> {
    let rig = Rig::new()?;
    rig.state().cluster["hosts"] = hosts(count).into();
    rig.cluster.nodes(count);
    let service = FaultProxy::http(&rig.service.url);
    let controller = Process::start(&rig, &service);
    let request = rig.cluster.certificate_request(&CertificateRequest::client(&numbered_node(count)));
    let is_done = |host: &Value| host["progress"]["current_stage"] == "Done";
    await_some("all nodes are reported", || {
        let state = rig.state();
        let hosts = state.cluster["hosts"].as_array().unwrap();
        (hosts.iter().filter(|host| is_done(host)).count() == count).then_some(())
    });
    rig.cluster.await_approval(&request);
    let until_done = controller.busy();

    let looks = || service.requests().iter().filter(|request| request.method == "GET").count();
    // What was reported is looked at once more.
    service.clear();
    await_some("a look after all reports", || (looks() >= 2).then_some(()));
    rig.proxy.clear();
    service.clear();
    let (started, busy) = (Instant::now(), controller.busy());
    await_some("looks in the steady state", || (looks() >= LOOKS).then_some(()));
    let minutes = started.elapsed().as_secs_f64() * f64::from(SPEED) / 60.0;
    let busy = controller.busy() - busy;
    let (to_service, to_cluster) = (service.requests(), rig.proxy.requests());
    let (resident, peak) = (controller.memory("VmRSS"), controller.memory("VmHWM"));

    for request in &to_cluster {
        let path = request.target.split('?').next().unwrap();
        let is_list = request.method == "GET" && !request.target.contains("watch=true");
        let is_watched =
            ["/nodes", "/certificatesigningrequests", "/clusteroperators"].iter().any(|kind| path.ends_with(kind));
        assert!(!is_list || !is_watched, "{}", request.target);
    }
    let per_minute = |count: usize| f64::from(u32::try_from(count).unwrap()) / minutes;
    assert!(per_minute(to_service.len()) <= 4.0, "{} in {minutes} minutes", to_service.len());
    // Half a minute a look.
    let busy_per_minute = busy * 2 / u64::try_from(LOOKS).unwrap();
    let row = format!(
        "{count:>5} {:>9} {:>9} {until_done:>12} {busy_per_minute:>12} {:>13.1} {:>13.1}",
        resident,
        peak,
        per_minute(to_cluster.len()),
        per_minute(to_service.len()),
    );
    Some((row, resident))
}

#[test]
fn what_nodes_cost() {
    let header = "nodes   RSS KiB  peak KiB  ms till done  ms a minute  cluster/min  service/min";
    let mut table = vec![header.to_owned()];
    for count in [3, 50, 500] {
        let Some((row, resident)) = measure(count) else { return };
        table.push(row);
        if count == 500 {
            assert!(resident <= MAX_KIB, "{resident} KiB\n{}", table.join("\n"));
        }
    }
    println!("{}", table.join("\n"));
}
