//! The live ISO of real parts (NetworkManager, chrony, journald, dracut's initramfs with the real Ignition), started in every way
//! machines are: what the agent does there is what it would do on CoreOS.
//!
//! One of the boots by default; LANDFALL_BOOT=systemd-live for all, or a part of one's name (uefi, ipxe).

#![allow(clippy::unwrap_used)]

use crate::common;

use api::{ClusterId, Host, InfraEnvCreateParams, Mac, Secret};
use common::{
    LIMIT,
    console::{self, press, text, type_in},
    finish_installation, ok, start_installation, turn,
};
use qemu_tests::{
    arch::Arch,
    images::{Compression, Drivers, LiveIso, SectorSize, System, live_iso},
    media, paths,
    rack::{Rack, RackConfig},
    service::{self, Service, ServiceConfig},
    shell::Shell,
    switch::Switch,
    table,
    uplink::{self, Uplink},
    view,
    vm::{Disk, Firmware, Vm},
};
use rootfs_overlay::{
    area::Output,
    bake::{
        content::{Content, Ingredients},
        iso::IsoFile,
        program::Program,
        splice,
    },
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

const MACS: [Mac; 2] = [Mac([0x52, 0x54, 0, 0x4c, 0x47, 0]), Mac([0x52, 0x54, 0, 0x4c, 0x47, 1])];

/// Where a machine gets its live system from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Medium {
    /// All of it on a CD.
    FullIso,
    /// A CD, and the root file system by HTTP.
    MinimalIso,
    /// The same of an ISO that does not describe its minimal form.
    CutIso,
    /// A script, kernel, initramfs and root file system by HTTP.
    Ipxe,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
struct Boot {
    medium: Medium,
    firmware: Firmware,
    /// Addresses by a static network config; by DHCP otherwise.
    fixed: bool,
}

/// The addresses of the static network config, interface by interface.
const FIXED: [&str; 2] = ["10.0.2.77", "192.0.2.77"];

/// Two hosts' networks; the first is not one of our machines. Logical names say nothing of which interface is meant: the
/// addresses do, and they are in the other order.
fn static_networks() -> Vec<Value> {
    let network = |addresses: [&str; 2]| {
        format!(
            "interfaces:\n\
             - {{name: uplink, type: ethernet, state: up, ipv4: {{enabled: true, dhcp: false, address: [{{ip: {}, prefix-length: 24}}]}}}}\n\
             - {{name: storage, type: ethernet, state: up, ipv4: {{enabled: true, dhcp: false, address: [{{ip: {}, prefix-length: 24}}]}}}}\n\
             routes: {{config: [{{destination: 0.0.0.0/0, next-hop-address: {}, next-hop-interface: uplink}}]}}\n",
            addresses[0],
            addresses[1],
            uplink::HOST
        )
    };
    let entry = |addresses, macs: [String; 2]| {
        json!({"network_yaml": network(addresses), "mac_interface_map": [
            {"mac_address": macs[1], "logical_nic_name": "storage"}, {"mac_address": macs[0], "logical_nic_name": "uplink"}]})
    };
    vec![
        entry(["10.0.2.99", "192.0.2.99"], ["52:54:00:00:00:01".into(), "52:54:00:00:00:02".into()]),
        entry(FIXED, MACS.map(|mac| mac.to_string())),
    ]
}

/// The service with the ISO, and a segment.
struct Site {
    vm: Option<Vm>,
    uplink: Uplink,
    switch: Switch,
    service: Service,
    infra_env: api::InfraEnv,
    dir: tempfile::TempDir,
    boot: Boot,
}

impl Site {
    fn new(iso: &Path, boot: Boot) -> Self {
        let logs = ok(paths::log_dir(&run_name(boot)));
        let dir = ok(paths::scratch_dir());
        let service = ok(Service::start(ServiceConfig {
            state_dir: dir.path().join("state"),
            iso: iso.to_owned(),
            agent_binary: None,
            image: ok(media::os_image(SectorSize::B512, Compression::Raw, Drivers::Cloud)),
            offered: Vec::new(),
            openshift_install: None,
            poll_interval_s: 2,
            requirements: "[]".to_owned(),
            deliver_agent: false,
            log: logs.join("service.log"),
        }));
        let kargs =
            Arch::X86_64.kernel_arguments.split(' ').map(|value| json!({"operation": "append", "value": value}));
        let params = InfraEnvCreateParams {
            name: "live".into(),
            pull_secret: Secret::new(r#"{"auths":{"registry.example.com":{"auth":"dXNlcjpwYXNz"}}}"#),
            additional_ntp_sources: Some(uplink::HOST.to_string()),
            cluster_id: None::<ClusterId>,
            image_type: matches!(boot.medium, Medium::MinimalIso | Medium::CutIso).then(|| "minimal-iso".to_owned()),
            static_network_config: boot.fixed.then(static_networks),
            // The script's own arguments have the console elsewhere.
            kernel_arguments: (boot.medium == Medium::Ipxe).then(|| kargs.collect()),
            ..InfraEnvCreateParams::default()
        };
        let infra_env = ok(service.client().create_infra_env(&params));
        let switch = ok(Switch::start(1));
        let script = dir.path().join("tftp/boot.ipxe");
        ok(fs::create_dir(dir.path().join("tftp")));
        // A lease has no room for the whole address.
        let url = format!(
            "{}/api/assisted-install/v2/infra-envs/{}/downloads/files?file_name=ipxe-script",
            service.url(),
            infra_env.id
        );
        ok(fs::write(&script, format!("#!ipxe\nchain {url}\n")));
        let offered = (boot.medium == Medium::Ipxe).then_some(script.as_path());
        let uplink = ok(Uplink::start_offering(&switch, &logs, offered));
        Self { vm: None, uplink, switch, service, infra_env, dir, boot }
    }

    fn power_on(&mut self) {
        let disk = Disk {
            path: self.dir.path().join("disk.img"),
            size_bytes: 4 << 30,
            serial: "LIVE-DISK".to_owned(),
            sector_bytes: 512,
            bus: Default::default(),
        };
        let mut machine = Vm::builder(run_name(self.boot), "node-0")
            .memory_mib(1536)
            .firmware(self.boot.firmware)
            .identity("4c616e64-6661-6c6c-8000-000000000047", "LANDFALL-LIVE")
            .disk(disk)
            .shell();
        for mac in MACS {
            let port = ok(self.switch.add_port(&format!("node-0-{mac}")));
            machine = machine.nic(mac, self.switch.port_path(port));
        }
        machine = if self.boot.medium == Medium::Ipxe {
            machine.netboot()
        } else {
            let iso = self.dir.path().join("discovery.iso");
            ok(self.service.fetch(&self.infra_env.download_url, &iso));
            machine.iso(iso)
        };
        self.vm = Some(ok(machine.start()));
    }

    fn vm(&mut self) -> &mut Vm {
        self.vm.as_mut().unwrap()
    }

    /// Waits for a host that `done` is true of; when that was, since power-on.
    fn wait(&mut self, what: &str, done: impl Fn(&Host) -> bool) -> (Host, Duration) {
        let began = Instant::now();
        loop {
            ok(self.uplink.check());
            ok(self.service.check());
            ok(self.vm().check());
            let hosts = ok(self.service.client().hosts(self.infra_env.id));
            if let Some(host) = hosts.into_iter().find(|host| done(host)) {
                let at = self.vm().uptime();
                return (host, at);
            }
            assert!(began.elapsed() < LIMIT, "no host {what}; see {}", self.vm().log().display());
            std::thread::sleep(Duration::from_millis(250));
        }
    }
}

fn run_name(boot: Boot) -> String {
    format!("systemd-live-{:?}-{:?}", boot.medium, boot.firmware).to_lowercase()
}

/// The ISO; with the description of the minimal one packed into it by the program under test.
fn iso(dir: &Path) -> PathBuf {
    let full = dir.join("full.iso");
    ok(fs::copy(ok(media::dracut_iso(true)), &full));
    let minimal = ok(media::dracut_iso(false));
    let output = ok(Command::new(ok(service::binary())).args(["pack", "minimal-iso"]).args([&full, &minimal]).output());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    println!("{}", String::from_utf8_lossy(&output.stderr).trim_end());
    println!(
        "ISO {} bytes, minimal {} bytes",
        fs::metadata(full.as_path()).unwrap().len(),
        fs::metadata(minimal).unwrap().len()
    );
    full
}

/// Boots, waits for the host, looks inside; the row of the table.
fn boot(iso: &Path, boot: Boot) -> Vec<String> {
    let mut site = Site::new(iso, boot);
    site.power_on();
    let initramfs = ok(site.vm().wait_for("initramfs ", LIMIT));
    let kernel_s: f64 = initramfs.value("kernel-s").unwrap().parse().unwrap();
    let rootfs = ok(site.vm().wait_for("live-rootfs", LIMIT));
    let login = ok(site.vm().wait_for("live-login", LIMIT));
    let (_, registered) = site.wait("registered", |_| true);
    let (host, inventoried) = site.wait("with an inventory and a verdict", |host| {
        view::inventory(host).is_some()
            && ["known", "insufficient", "known-unbound", "insufficient-unbound"].contains(&host.status.as_str())
    });
    ok(site.vm().wait_for("live ready", LIMIT));
    let mut shell = ok(site.vm().shell(LIMIT));
    check_journal(&mut shell);
    check_addresses(&mut shell, &host, boot.fixed);
    check_time_sources(&mut site, &mut shell);
    let failed = text(&mut shell, "systemctl list-units --failed --plain --no-legend");
    assert_eq!(failed, "", "failed units");
    let at = |seconds: f64| format!("{seconds:.1}");
    vec![
        format!("{:?}", boot.medium),
        format!("{:?}", boot.firmware),
        if boot.fixed { "static" } else { "DHCP" }.to_owned(),
        at(initramfs.at.as_secs_f64() - kernel_s),
        at(initramfs.at.as_secs_f64()),
        at(rootfs.at.as_secs_f64()),
        at(login.at.as_secs_f64()),
        at(registered.as_secs_f64()),
        at(inventoried.as_secs_f64()),
        host.status,
    ]
}

/// Records of the agent have the fields of docs/compatibility.md#agent-logging, from journald itself.
fn check_journal(shell: &mut Shell) {
    let records = text(shell, "journalctl --no-pager TAG=agent -o json");
    let records: Vec<Value> = records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!records.is_empty(), "no record with TAG=agent");
    for record in &records {
        let field = |name: &str| record[name].as_str().unwrap_or_else(|| panic!("no {name}: {record}"));
        let message = field("MESSAGE");
        assert!(message.starts_with("time=\"") && message.contains(" msg="), "{message}");
        let level = message.split_once("level=").unwrap().1.split(' ').next().unwrap();
        let priorities = [
            ("panic", "0"),
            ("fatal", "2"),
            ("error", "3"),
            ("warning", "4"),
            ("info", "6"),
            ("debug", "7"),
            ("trace", "7"),
        ];
        assert!(priorities.contains(&(level, field("PRIORITY"))), "{record}");
        assert_eq!((field("TAG"), field("DRY_AGENT_ID")), ("agent", ""), "{record}");
        assert_eq!(field("_TRANSPORT"), "journal", "{record}");
    }
    assert!(records.iter().any(|record| record["_SYSTEMD_UNIT"] == "agent.service"), "{:?}", records[0]);
    println!("journal: {} records with TAG=agent, the first: {}", records.len(), records[0]["MESSAGE"]);
}

/// What NetworkManager made of it, and what the service knows of it.
fn check_addresses(shell: &mut Shell, host: &Host, fixed: bool) {
    let said: Vec<Value> = serde_json::from_str(&text(shell, "ip -j -4 addr")).unwrap();
    let links: Vec<Value> = serde_json::from_str(&text(shell, "ip -j link")).unwrap();
    let inventory = view::inventory(host).unwrap();
    for (index, mac) in MACS.iter().enumerate() {
        let name = links.iter().find(|link| link["address"] == mac.to_string().as_str()).unwrap()["ifname"].clone();
        let addresses: Vec<String> = said
            .iter()
            .filter(|link| link["ifname"] == name)
            .flat_map(|link| link["addr_info"].as_array().unwrap())
            .map(|info| info["local"].as_str().unwrap().to_owned())
            .collect();
        println!("{mac} is {name} with {addresses:?}");
        if fixed {
            assert_eq!(addresses, [FIXED[index]], "{mac}");
        } else {
            assert!(addresses[0].starts_with("10.0.2."), "{mac}: {addresses:?}");
        }
        let nic = inventory.interfaces.iter().find(|nic| nic.mac_address == mac.to_string()).unwrap();
        assert_eq!(nic.ipv4_addresses, [format!("{}/24", addresses[0])], "{mac}");
    }
    println!("{}", text(shell, "nmcli -g NAME,DEVICE,STATE connection show --active").trim_end());
}

/// The infra-env's source, in chrony as in the host's record.
fn check_time_sources(site: &mut Site, shell: &mut Shell) {
    let source = uplink::HOST.to_string();
    let hosts = format!("{}/api/assisted-install/v2/infra-envs/{}/hosts", site.service.url(), site.infra_env.id);
    let path = site.dir.path().join("hosts.json");
    let began = Instant::now();
    loop {
        let chrony = text(shell, "chronyc -n -c sources");
        ok(site.service.fetch(&hosts, &path));
        let known: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let known = known[0]["ntp_sources"].to_string();
        if chrony.contains(&source) && known.contains(&source) {
            println!("chrony: {}; the service: {known}", chrony.trim_end());
            return;
        }
        assert!(began.elapsed() < LIMIT, "no time source {source}: chrony has '{chrony}', the service {known}");
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[test]
fn the_agent_registers_whatever_the_machine_starts_from() {
    let _turn = turn();
    let dir = ok(paths::scratch_dir());
    let iso = iso(dir.path());
    let mut rows = vec![
        ["MEDIUM", "FIRMWARE", "NETWORK", "KERNEL", "INITRAMFS", "ROOT", "LOGIN", "REGISTERED", "INVENTORY", "STATE"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let boots = [
        Boot { medium: Medium::FullIso, firmware: Firmware::Bios, fixed: true },
        Boot { medium: Medium::FullIso, firmware: Firmware::Uefi, fixed: false },
        Boot { medium: Medium::MinimalIso, firmware: Firmware::Bios, fixed: false },
        Boot { medium: Medium::CutIso, firmware: Firmware::Uefi, fixed: true },
        Boot { medium: Medium::CutIso, firmware: Firmware::Bios, fixed: false },
        Boot { medium: Medium::Ipxe, firmware: Firmware::Bios, fixed: false },
    ];
    let named = std::env::var("LANDFALL_BOOT").ok();
    let chosen = |case: &Boot| match &named {
        Some(name) => run_name(*case).contains(name),
        // The baked ISO below starts whole, and `static_network` has the profiles.
        None => case.medium == Medium::MinimalIso || case.medium == Medium::CutIso && case.fixed,
    };
    for case in boots.into_iter().filter(chosen) {
        let plain = || ok(media::dracut_iso(true));
        rows.push(if case.medium == Medium::CutIso { boot(&plain(), case) } else { boot(&iso, case) });
        println!("{}", rows.last().unwrap().join("  "));
    }
    println!("seconds since power-on:");
    table::columns(&rows).iter().for_each(|line| println!("{line}"));
}

/// The bare ISO with the program under test baked in; what that adds.
fn baked(directory: &Path) -> PathBuf {
    let content = ok(Content::new(Ingredients {
        program: ok(Program::read(Some(&ok(service::binary())))),
        agent: true,
        service: None,
        ca_pem: None,
        agent_toml: None,
        rendezvous: BTreeMap::new(),
        rendezvous_options: None,
    }));
    let base = ok(live_iso(&LiveIso { system: System::Dracut, ..LiveIso::default() }));
    let out = directory.join("baked.iso");
    ok(splice::write(&Output::NewFile(out.clone()), &ok(ok(IsoFile::open(&base)).baked(&content, None))));
    let [before, after] = [&base, &out].map(|path| fs::metadata(path).unwrap().len());
    println!("base {before} bytes, baked {after} bytes, {} more", after - before);
    out
}

#[test]
fn a_machine_installs_itself_from_the_baked_iso() {
    let _turn = turn();
    let dir = ok(paths::scratch_dir());
    let image = ok(media::os_image(SectorSize::B512, Compression::Raw, Drivers::Cloud));
    let mut config = RackConfig::new("systemd-live-baked", 1, baked(dir.path()), image);
    config.memory_mib = 1536;
    config.shell = true;
    let mut rack = ok(Rack::start(config, common::changes()));
    ok(rack.power_on());
    ok(rack.discover(LIMIT));
    println!("registered {:.0} s after power-on", rack.vms()[0].uptime().as_secs_f64());
    check_console(&mut rack.vms()[0]);
    start_installation(&mut rack);
    finish_installation(&mut rack);
    println!("installed {:.0} s after power-on", rack.vms()[0].uptime().as_secs_f64());
}

/// The status is on the first screen, and its form changes the network: what is not kept is taken back, what is kept stays.
fn check_console(vm: &mut Vm) {
    let mut shell = ok(vm.shell(LIMIT));
    println!("{}", console::wait_for(&mut shell, &["Landfall", "this host is registered", "n network", "10.0.2."]));
    let addresses = "ip -4 -br addr show scope global";
    let before = text(&mut shell, addresses);
    let profiles = "ls -A /etc/NetworkManager/system-connections 2>/dev/null || :";
    let profiles_before = text(&mut shell, profiles);
    let fill = |vm: &mut Vm, shell: &mut Shell, address: &str| {
        press(vm, &["n"]);
        console::wait_for(shell, &["Network of one interface", "< DHCP >"]);
        press(vm, &["down", "down", "right", "down"]);
        type_in(vm, address);
        press(vm, &["down"]);
        type_in(vm, &uplink::HOST.to_string());
        println!("{}", console::wait_for(shell, &["< static >", address]));
        press(vm, &["ret"]);
        println!("{}", console::wait_for(shell, &[".nmconnection", "method=manual"]));
        press(vm, &["ret"]);
        println!("{}", console::wait_for(shell, &["taken back in", address]));
        assert!(text(shell, addresses).contains(address));
    };
    fill(vm, &mut shell, "10.0.2.201/24");
    press(vm, &["esc"]);
    console::wait_for(&mut shell, &["n network", "as it was"]);
    // DHCP begins again.
    let began = Instant::now();
    while text(&mut shell, addresses) != before {
        assert!(began.elapsed() < LIMIT, "{} and not {before}", text(&mut shell, addresses));
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(text(&mut shell, profiles), profiles_before, "nothing is left of it");

    // The address that DHCP gave it: the agent's connections go on.
    let own = before.split_whitespace().last().unwrap();
    fill(vm, &mut shell, own);
    press(vm, &["k"]);
    console::wait_for(&mut shell, &["n network", "kept"]);
    assert!(text(&mut shell, "ip -4 addr show scope global").contains("valid_lft forever"), "DHCP's ends");
    let manager = "org.freedesktop.NetworkManager /org/freedesktop/NetworkManager org.freedesktop.NetworkManager";
    let checkpoints = text(&mut shell, &format!("busctl get-property {manager} Checkpoints"));
    assert_eq!(checkpoints.trim(), "ao 0", "it would be taken back");
    let failed = text(&mut shell, "systemctl list-units --failed --plain --no-legend");
    assert_eq!(failed, "", "failed units");
}
