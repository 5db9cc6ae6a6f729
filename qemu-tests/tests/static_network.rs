//! A static network on a machine: the files of two hosts as the live ISO carries them, the one that is this machine found by its
//! MAC addresses, and the real NetworkManager carrying out the profiles; what came of it is read from the kernel.

#![allow(clippy::unwrap_used)]

use crate::facts;

use facts::Facts;
use qemu_tests::{
    media, paths,
    vm::{Bus, Disk, Vm},
};
use serde_json::{Value, json};
use std::{fs, path::Path, process::Command, time::Instant};

/// Room for the packages, twice what they take.
const DISK: &str = "160M";

/// Logical names; the names of the interfaces on the machine are up to the kernel and udev.
const NETWORK: &str = r#"
interfaces:
- {name: left, type: ethernet, state: up}
- {name: right, type: ethernet, state: up}
- {name: third, type: ethernet, state: up}
- {name: fourth, type: ethernet, state: up, identifier: mac-address, mac-address: "52:54:00:AA:00:04",
   ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.130, prefix-length: 25}]}}
- name: bond0
  type: bond
  state: up
  link-aggregation: {mode: active-backup, options: {miimon: "100", primary: left}, port: [left, right]}
  ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.10, prefix-length: 25}]}
  ipv6: {enabled: true, dhcp: false, autoconf: false, address: [{ip: "2001:db8::10", prefix-length: 64}]}
- name: bond0.140
  type: vlan
  state: up
  vlan: {base-iface: bond0, id: 140}
  ipv4: {enabled: true, dhcp: false, address: [{ip: 198.51.100.10, prefix-length: 24}]}
- name: br0
  type: linux-bridge
  state: up
  bridge: {options: {stp: {enabled: false}}, port: [{name: third}]}
  ipv4: {enabled: true, dhcp: false, address: [{ip: 203.0.113.10, prefix-length: 24}]}
dns-resolver: {config: {server: [192.0.2.1, "2001:db8::1"], search: [lab.example.com]}}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: bond0}
  - {destination: "::/0", next-hop-address: "2001:db8::1", next-hop-interface: bond0}
  - {destination: 10.9.0.0/16, next-hop-address: 203.0.113.1, next-hop-interface: br0, metric: 150}
"#;

/// The bus and NetworkManager, from their own disk and with their own loader. Nothing else of their system exists.
const START: &str = r#"
mkdir -p /nm /run/dbus /run/NetworkManager /var/lib/NetworkManager /etc/NetworkManager
mount -t ext4 -o ro /dev/disk/by-id/virtio-NM /nm
cat >/run/nm <<'EOF'
program=$1; shift
lib=lib/x86_64-linux-gnu
export DBUS_SYSTEM_BUS_ADDRESS=unix:path=/run/dbus/system_bus_socket
exec /nm/$lib/ld-linux-x86-64.so.2 --library-path /nm/usr/$lib:/nm/$lib /nm/usr/$program "$@"
EOF
cat >/run/bus.conf <<'EOF'
<busconfig><type>system</type><listen>unix:path=/run/dbus/system_bus_socket</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_type="method_call"/><allow send_type="signal"/>
<allow send_requested_reply="true"/><allow receive_requested_reply="true"/>
<allow receive_type="method_call"/><allow receive_type="signal"/></policy></busconfig>
EOF
printf '[main]\nplugins=keyfile\nauth-polkit=false\nno-auto-default=*\n' >/etc/NetworkManager/NetworkManager.conf
sh /run/nm bin/dbus-daemon --config-file=/run/bus.conf --fork
sh /run/nm sbin/NetworkManager --debug --log-level=INFO >/run/nm.log 2>&1 &
"#;

/// Until every address exists. Those of IPv6 are usable once no other station has claimed them.
const READY: &str = r#"
for _ in $(seq 80); do
    ip addr >/run/addresses
    found=$(grep -cE ' (192.0.2.10|2001:db8::10|198.51.100.10|203.0.113.10|192.0.2.130)/' /run/addresses || :)
    if [ "$found" = 5 ] && ! grep -q tentative /run/addresses; then exit 0; fi
    sleep 1
done
cat /run/nm.log /run/addresses >&2
exit 1
"#;

/// The files the live ISO would carry, made by the program under test.
fn write_files(facts: &mut Facts) {
    let entry = |macs: [(&str, &str); 3]| {
        let map = macs.map(|(name, mac)| json!({"mac_address": mac, "logical_nic_name": name}));
        json!({"network_yaml": NETWORK.replace("00:AA:00:04", &macs[0].1[6..].replace("00:01", "00:04")), "mac_interface_map": map})
    };
    let list = json!([
        entry([("left", "52:54:00:bb:00:01"), ("right", "52:54:00:bb:00:02"), ("third", "52:54:00:bb:00:03")]),
        entry([("left", "52:54:00:aa:00:01"), ("right", "52:54:00:AA:00:02"), ("third", "52:54:00:aa:00:03")]),
    ]);
    facts.run(&format!(
        "cat >/run/list <<'EOF'\n{list}\nEOF\nlandfall ignition network files /run/list --to /etc/assisted/network"
    ));
}

fn asked(facts: &mut Facts, command: &str) -> Value {
    serde_json::from_slice(&facts.run(command)).unwrap()
}

/// The disk with NetworkManager on it, or none where its packages aren't.
fn packages(dir: &Path) -> Option<Disk> {
    let packages = paths::target_dir().join("vm/packages/networkmanager");
    if !testkit::skip::unless(format_args!("{}: run .ci/setup", packages.display()), packages.join(".done").exists()) {
        return None;
    }
    let path = dir.join("networkmanager.img");
    let mut make = Command::new("/sbin/mke2fs");
    make.args(["-q", "-t", "ext4", "-O", "^has_journal", "-d"]).arg(packages).arg(&path).arg(DISK);
    let made = make.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let size_bytes = fs::metadata(&path).unwrap().len();
    Some(Disk { path, size_bytes, serial: "NM".to_owned(), sector_bytes: 512, bus: Bus::Virtio })
}

#[test]
fn network_manager_brings_up_what_nmstate_says_on_the_host_with_the_addresses() {
    let (began, dir) = (Instant::now(), paths::scratch_dir().unwrap());
    let Some(disk) = packages(dir.path()) else { return };
    let mut builder =
        Vm::builder("static-network", "nm").memory_mib(512).kernel(media::network_system().unwrap()).shell().disk(disk);
    // Not in the order of their names.
    for index in [3, 1, 4, 2] {
        builder = builder
            .with("-netdev", format!("hubport,id=n{index},hubid={index}"))
            .with("-device", format!("virtio-net-pci,netdev=n{index},mac=52:54:00:aa:00:0{index},romfile="));
    }
    let mut vm = builder.start().unwrap();
    let mut facts = Facts::ask(&mut vm);
    println!("static network, guest up: {:.1} s", began.elapsed().as_secs_f64());
    write_files(&mut facts);
    facts.run(
        "mkdir -p /etc/NetworkManager/system-connections; echo old >/etc/NetworkManager/system-connections/old.nmconnection",
    );
    let plan = asked(&mut facts, "landfall ignition network apply --json");
    let interfaces = plan["hosts"][0]["interfaces"].as_array().unwrap();
    let [left, right, third] = ["left", "right", "third"]
        .map(|name| interfaces.iter().find(|one| one["logical"] == name).unwrap()["name"].as_str().unwrap());
    assert_eq!((&plan["hosts"][0]["name"], &plan["remove"]), (&json!("host1"), &json!(["old.nmconnection"])));
    facts.run(START);
    facts.run(READY);
    println!("static network, activated: {:.1} s", began.elapsed().as_secs_f64());

    // What is active, as NetworkManager reports it.
    let active = facts.text("sh /run/nm bin/nmcli -t -f NAME,DEVICE,STATE connection show --active");
    let fourth = facts.interface("52:54:00:aa:00:04");
    let mut wanted: Vec<String> = [left, right, third, "bond0", "bond0.140", "br0"]
        .iter()
        .map(|name| format!("{name}:{name}:activated"))
        .chain([format!("fourth:{fourth}:activated")])
        .collect();
    wanted.sort();
    let mut active: Vec<&str> = active.lines().filter(|line| !line.contains(":lo:")).collect();
    active.sort_unstable();
    assert_eq!(active, wanted);

    // And what the kernel has.
    let links = asked(&mut facts, "/usr/sbin/ip -j -d link");
    let link = |name: &str| links.as_array().unwrap().iter().find(|link| link["ifname"] == name).unwrap();
    for (port, of) in [(left, "bond0"), (right, "bond0"), (third, "br0")] {
        assert_eq!(link(port)["master"], of, "{port}");
    }
    let bond = json!({"mode": "active-backup", "miimon": 100, "primary": left, "active_slave": left});
    facts.contains("bond", &link("bond0")["linkinfo"], &json!({"info_kind": "bond", "info_data": bond}));
    let vlan = json!({"link": "bond0", "linkinfo": {"info_kind": "vlan", "info_data": {"id": 140}}});
    facts.contains("vlan", link("bond0.140"), &vlan);
    let bridge = json!({"info_kind": "bridge", "info_data": {"stp_state": 0}});
    facts.contains("bridge", &link("br0")["linkinfo"], &bridge);
    facts.all_as_expected();
    let addresses = asked(&mut facts, "/usr/sbin/ip -j addr");
    for (name, address, len) in [
        ("bond0", "192.0.2.10", 25),
        ("bond0", "2001:db8::10", 64),
        ("bond0.140", "198.51.100.10", 24),
        ("br0", "203.0.113.10", 24),
        (fourth.as_str(), "192.0.2.130", 25),
    ] {
        let interface = addresses.as_array().unwrap().iter().find(|one| one["ifname"] == name).unwrap();
        let found = interface["addr_info"].as_array().unwrap().iter().find(|one| one["local"] == address);
        assert_eq!(found.unwrap()["prefixlen"], len, "{name}: {address}");
    }
    let routes = ["/usr/sbin/ip -j route", "/usr/sbin/ip -j -6 route"].map(|command| asked(&mut facts, command));
    let routes: Vec<&Value> = routes.iter().flat_map(|routes| routes.as_array().unwrap()).collect();
    for (destination, gateway, device) in
        [("default", "192.0.2.1", "bond0"), ("default", "2001:db8::1", "bond0"), ("10.9.0.0/16", "203.0.113.1", "br0")]
    {
        let found = routes.iter().find(|route| route["dst"] == destination && route["gateway"] == gateway);
        let found = found.unwrap_or_else(|| panic!("no route to {destination} by {gateway} in {routes:?}"));
        assert_eq!(found["dev"], device);
        assert!(destination == "default" || found["metric"] == 150, "{found}");
    }
    let resolv = facts.text("cat /run/NetworkManager/resolv.conf");
    for line in ["search lab.example.com", "nameserver 192.0.2.1", "nameserver 2001:db8::1"] {
        assert!(resolv.lines().any(|found| found == line), "{line} in {resolv}");
    }
    println!("static network: {:.1} s", began.elapsed().as_secs_f64());
}
