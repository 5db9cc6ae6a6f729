//! The running system: its own disks and, in a network namespace of the test's own, interfaces and routes as `ip` sees them.

#![allow(clippy::unwrap_used)]

use inventory::{Root, collect, identity};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::stat::{major, minor},
};
use serde_json::Value;
use std::{fs, os::unix::fs::MetadataExt, path::Path, process::Command, thread};

fn live() -> Root {
    Root::open("/").unwrap()
}

#[test]
fn the_disk_below_us_is_not_offered() {
    let number = fs::metadata("/").unwrap().dev();
    let sys = format!("/sys/dev/block/{}:{}", major(number), minor(number));
    let Ok(sys) = fs::canonicalize(&sys) else {
        eprintln!("skipped: / is on no block device of its own");
        return;
    };
    let disk = if sys.join("partition").exists() { sys.parent().unwrap() } else { &sys };
    let name = disk.file_name().unwrap().to_str().unwrap();
    let found = collect(&live()).disks;
    let Some(disk) = found.iter().find(|disk| disk.name == name) else {
        eprintln!("skipped: / is on {name}, which is no disk");
        return;
    };
    assert!(!disk.installation_eligibility.eligible);
    let reasons = disk.installation_eligibility.not_eligible_reasons.as_ref().unwrap();
    assert!(reasons.iter().any(|reason| reason.contains("mounted on '")), "{reasons:?}");
    assert_eq!(disk.path, format!("/dev/{name}"));
}

#[test]
fn the_same_machine_gives_the_same_bytes() {
    let shown = || serde_json::to_string(&collect(&live())).unwrap();
    // Others make and remove interfaces on this machine, but not in a namespace of ours.
    in_namespace(move || assert_eq!(shown(), shown()));
    assert_eq!(identity::host_id(&live()).source, identity::host_id(&live()).source);
}

#[test]
fn facts_that_every_linux_has() {
    let found = collect(&live());
    let cpu = found.cpu.unwrap();
    assert_eq!(cpu.architecture, nix::sys::utsname::uname().unwrap().machine().to_str().unwrap());
    assert!(cpu.count > 0);
    let memory = found.memory.unwrap();
    assert!(memory.usable_bytes > 64 << 20 && memory.physical_bytes >= memory.usable_bytes, "{memory:?}");
    assert!(found.boot.unwrap().command_line.ends_with('\n'));
    assert!(found.interfaces.iter().any(|interface| interface.flags.iter().any(|flag| flag == "loopback")));
}

/// Runs in a network namespace of its own, with a sysfs that shows it. Both end with the thread.
fn in_namespace(test: impl FnOnce() + Send + 'static) {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: namespaces need root");
        return;
    }
    let inside = move || {
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&Path>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), none).unwrap();
        assert!(!Path::new("/sys/class/net/eth0").exists(), "this is not the namespace we made");
        test();
    };
    thread::spawn(inside).join().unwrap();
}

/// `ip` with these arguments, in the namespace of the calling thread.
fn ip(arguments: &str) -> String {
    let done = Command::new("ip").args(arguments.split(' ')).output().expect("ip of iproute2");
    assert!(done.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn ip_json(arguments: &str) -> Vec<Value> {
    serde_json::from_str(&ip(arguments)).unwrap()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[test]
fn interfaces_are_those_of_ip() {
    in_namespace(|| {
        for command in [
            "link set lo up",
            "link add left address 02:00:00:00:00:0a mtu 9000 type veth peer name right address 02:00:00:00:00:0b",
            "link add br0 address 02:00:00:00:00:0c type bridge",
            "link add mac0 link left address 02:00:00:00:00:0d type macvlan",
            "tuntap add dev tap0 mode tap",
            "link set left up",
            "link set right up",
            "addr add 192.168.127.10/24 dev left",
            "addr add 192.168.127.11/24 dev left",
            "addr add 169.254.7.7/16 dev left",
            "addr add 10.9.0.1 peer 10.9.0.2/32 dev right",
            "addr add fd00:127::10/64 dev left nodad",
            "addr add fd00:5::9/128 dev left nodad",
            "route add fd00:5::/64 dev left proto ra",
        ] {
            ip(command);
        }
        let found = collect(&live()).interfaces;
        let expected = ip_json("-j -d addr");
        assert_eq!(found.len(), expected.len());
        for (interface, expected) in found.iter().zip(&expected) {
            let name = text(expected, "ifname");
            assert_eq!(interface.name, name);
            assert_eq!(Some(u64::from(interface.mtu)), expected["mtu"].as_u64(), "{name}");
            let mac = text(expected, "address");
            assert_eq!(interface.mac_address, if mac.starts_with("00:00:00:00") { "" } else { mac }, "{name}");
            let flags: Vec<_> = expected["flags"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            for flag in ["up", "broadcast", "loopback", "multicast"] {
                assert_eq!(
                    interface.flags.iter().any(|f| f == flag),
                    flags.contains(&flag.to_uppercase().as_str()),
                    "{name}"
                );
            }
            let carrier = flags.contains(&"UP") && flags.contains(&"LOWER_UP");
            assert_eq!(interface.has_carrier, carrier, "{name}: {flags:?}");
            let kind = match text(&expected["linkinfo"], "info_kind") {
                "" => "device",
                "tun" => "tuntap",
                kind => kind,
            };
            assert_eq!(interface.kind, kind, "{name}");
            let of_family = |family: &str, local: &str| {
                let own = expected["addr_info"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|address| text(address, "family") == family);
                let shown = own.map(|address| format!("{}/{}", text(address, "local"), address["prefixlen"]));
                shown.filter(|address| !address.starts_with(local)).collect::<Vec<_>>()
            };
            assert_eq!(interface.ipv4_addresses, of_family("inet", "169.254."), "{name}");
            let advertised = |address: String| address.replace("fd00:5::9/128", "fd00:5::9/64");
            let ipv6: Vec<_> = of_family("inet6", "fe80:").into_iter().map(advertised).collect();
            assert_eq!(interface.ipv6_addresses, ipv6, "{name}");
        }
        let left = found.iter().find(|interface| interface.name == "left").unwrap();
        assert_eq!(left.ipv4_addresses, ["192.168.127.10/24", "192.168.127.11/24"]);
        assert!(left.ipv6_addresses.contains(&"fd00:5::9/64".to_owned()));
        let right = found.iter().find(|interface| interface.name == "right").unwrap();
        assert_eq!(right.ipv4_addresses, ["10.9.0.1/32"]);
    });
}

#[test]
fn routes_are_those_of_ip() {
    in_namespace(|| {
        assert_eq!(collect(&live()).routes, []);
        for command in [
            "link add left type veth peer name right",
            "link set left up",
            "link set right up",
            "addr add 192.168.127.10/24 dev left",
            "addr add fd00:127::10/64 dev left nodad",
            "route add default via 192.168.127.1 dev left metric 100",
            "route add default via 192.168.127.2 dev left metric 50",
            "route add 10.0.0.0/8 via 192.168.127.3 dev left",
            "route add 10.0.0.0/16 dev right",
            "route add 10.99.0.0/16 nexthop via 192.168.127.4 dev left nexthop via 192.168.127.5 dev left",
            "route add 172.16.0.0/16 via inet6 fd00:127::7 dev left",
            "route add blackhole 10.66.0.0/16",
            "route add 10.77.0.0/16 dev left table 77",
            "route add default via fd00:127::1 dev left metric 1024",
            "route add fd00:200::/64 dev right",
            "route add unreachable fd00:66::/64",
        ] {
            ip(command);
        }
        let found = collect(&live()).routes;
        let mut expected = Vec::new();
        for (family, any, command) in [(2, "0.0.0.0", "-j -4 route"), (10, "::", "-j -6 route")] {
            for route in ip_json(command).iter().filter(|route| route["type"].is_null()) {
                let hop = route["nexthops"].get(0).unwrap_or(route);
                let destination = match text(route, "dst") {
                    "default" => any,
                    network => network.split('/').next().unwrap(),
                };
                let gateway = match text(hop, "gateway") {
                    "" => text(&hop["via"], "host"),
                    gateway => gateway,
                };
                let metric = i32::try_from(route["metric"].as_i64().unwrap_or(0)).unwrap();
                expected.push((
                    family,
                    destination.to_owned(),
                    gateway.to_owned(),
                    text(hop, "dev").to_owned(),
                    metric,
                ));
            }
        }
        let mut shown: Vec<_> = found
            .iter()
            .map(|r| (r.family, r.destination.clone(), r.gateway.clone(), r.interface.clone(), r.metric))
            .collect();
        assert_eq!((shown[0].1.as_str(), shown[0].2.as_str()), ("0.0.0.0", "192.168.127.2"));
        shown.sort();
        expected.sort();
        assert_eq!(shown, expected);
        assert!(shown.len() >= 10, "{shown:?}");
    });
}
