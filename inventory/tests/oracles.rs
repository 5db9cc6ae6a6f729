//! The running machine, and networks made for the test, as other programs see them: `lsblk`, `lscpu`, `ip` and libudev.

#![allow(clippy::unwrap_used)]

use crate::common;

use api::{Interface, Route};
use common::in_namespace;
use inventory::{Root, collect};
use serde_json::Value;
use std::process::Command;

fn live() -> Root {
    Root::open("/").unwrap()
}

/// What a program prints, in the namespaces of the calling thread; `None` if there is no such program.
fn shown_by(program: &str, arguments: &str) -> Option<String> {
    match Command::new(program).args(arguments.split(' ')).output() {
        Ok(done) => {
            assert!(done.status.success(), "{program} {arguments}: {}", String::from_utf8_lossy(&done.stderr));
            Some(String::from_utf8(done.stdout).unwrap())
        }
        Err(error) => {
            testkit::skip::because(format_args!("{program}: {error}"));
            None
        }
    }
}

fn ip(arguments: &str) -> Vec<Value> {
    let shown = shown_by("ip", arguments).unwrap_or_default();
    if shown.trim().is_empty() { Vec::new() } else { serde_json::from_str(&shown).unwrap() }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[test]
fn disks_are_those_of_lsblk() {
    let Some(shown) = shown_by("lsblk", "-J -O -b -d") else { return };
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let found = collect(&live()).disks;
    for disk in &found {
        let name = &disk.name;
        let known = shown["blockdevices"].as_array().unwrap().iter().find(|known| text(known, "kname") == name);
        // lsblk leaves out what has no medium.
        let Some(known) = known else {
            assert_eq!(disk.size_bytes, 0, "{name} is not known to lsblk");
            continue;
        };
        assert_eq!(Some(disk.size_bytes), known["size"].as_u64(), "{name}");
        assert_eq!(Some(disk.removable), known["rm"].as_bool(), "{name}");
        assert_eq!(disk.hctl, text(known, "hctl"), "{name}");
        assert_eq!(disk.path, text(known, "path"), "{name}");
        assert_eq!(disk.vendor, text(known, "vendor").trim(), "{name}");
        if ["HDD", "SSD"].contains(&disk.drive_type.as_str()) && !name.starts_with("nvme") && !name.starts_with("mmc") {
            assert_eq!(disk.drive_type == "HDD", known["rota"] == Value::Bool(true), "{name}");
        }
        for (own, key) in [(&disk.serial, "serial"), (&disk.wwn, "wwn")] {
            let theirs = text(known, key);
            assert!(theirs.is_empty() || own == theirs, "{name}: {key} is {own} here and {theirs} there");
        }
        let model = text(known, "model").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(model.is_empty() || disk.model.replace('_', " ") == model, "{name}: {} and {model}", disk.model);
        let reasons = disk.installation_eligibility.not_eligible_reasons.clone().unwrap_or_default();
        let mounted = known["mountpoints"].as_array().into_iter().flatten().filter_map(Value::as_str).next();
        assert!(mounted.is_none() || !reasons.is_empty(), "{name} is mounted and yet eligible");
        assert!(
            known["ro"] != Value::Bool(true) || !disk.installation_eligibility.eligible || disk.drive_type == "ODD"
        );
    }
    for known in shown["blockdevices"].as_array().unwrap().iter().filter(|known| text(known, "type") == "disk") {
        let name = text(known, "kname");
        assert!(name.starts_with("zram") || found.iter().any(|disk| disk.name == name), "{name} is missing");
    }
}

#[test]
fn processors_are_those_of_lscpu() {
    let Some(shown) = shown_by("lscpu", "-J") else { return };
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let mut fields = Vec::new();
    flatten(&shown["lscpu"], &mut fields);
    let field = |name: &str| fields.iter().rev().find(|(field, _)| field == name).map(|(_, data)| data.as_str());
    let cpu = collect(&live()).cpu.unwrap();
    assert_eq!(Some(cpu.architecture.as_str()), field("Architecture"));
    assert_eq!(Some(cpu.count.to_string().as_str()), field("CPU(s)"));
    if let Some(model) = field("Machine type").or(field("Model name")).filter(|model| *model != "-") {
        assert_eq!(cpu.model_name, model);
    }
    assert_eq!(cpu.flags.map(|flags| flags.join(" ")).as_deref(), field("Flags"));
    if let Some(mhz) = field("CPU max MHz").or(field("CPU static MHz")) {
        assert!((cpu.frequency - mhz.parse::<f64>().unwrap()).abs() < 0.01, "{} and {mhz}", cpu.frequency);
    }
}

/// Newer versions nest their fields.
fn flatten(list: &Value, fields: &mut Vec<(String, String)>) {
    for field in list.as_array().into_iter().flatten() {
        fields.push((text(field, "field").trim_end_matches(':').to_owned(), text(field, "data").to_owned()));
        flatten(&field["children"], fields);
    }
}

/// The routes of one family as `ip` shows them, in the wire's fields.
fn routes_of_ip(family: i32) -> Vec<Route> {
    let (any, command) = if family == 2 { ("0.0.0.0", "-4") } else { ("::", "-6") };
    let routes = ip(&format!("-j {command} route show table main"));
    // Only those that lead nowhere have a type.
    let leads = routes.iter().filter(|route| route["type"].is_null());
    let of = |route: &Value| {
        let hop = route["nexthops"].get(0).unwrap_or(route);
        let destination = match text(route, "dst") {
            "default" => any,
            network => network.split('/').next().unwrap(),
        };
        let gateway = if text(hop, "gateway").is_empty() { text(&hop["via"], "host") } else { text(hop, "gateway") };
        let metric = u32::try_from(route["metric"].as_u64().unwrap_or(0)).unwrap();
        Route {
            destination: destination.to_owned(),
            family,
            gateway: gateway.to_owned(),
            interface: text(hop, "dev").to_owned(),
            metric: metric.cast_signed(),
        }
    };
    leads.map(of).collect()
}

/// An interface as `ip` shows it; speed and PCI numbers it does not know.
fn interface_of_ip(shown: &Value, own: &Interface) -> Interface {
    let flags: Vec<&str> = shown["flags"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let has = |flag: &str| flags.contains(&flag);
    let mut names: Vec<_> =
        ["UP", "BROADCAST", "LOOPBACK", "POINTOPOINT", "MULTICAST"].iter().filter(|f| has(f)).collect();
    // ip shows IFF_RUNNING only where it is missing.
    let is_running = has("UP") && !has("NO-CARRIER") && own.flags.iter().any(|flag| flag == "running");
    if is_running {
        names.push(&"RUNNING");
    }
    let name = |flag: &&str| if *flag == "POINTOPOINT" { "pointtopoint".to_owned() } else { flag.to_lowercase() };
    let mac = text(shown, "address");
    let is_mac = mac.contains(':') && mac.bytes().any(|byte| !b"0:".contains(&byte));
    let permanent = text(&shown["linkinfo"]["info_slave_data"], "perm_hwaddr");
    let addresses = |family: &str, local: &str| {
        let all = shown["addr_info"].as_array().unwrap().iter().filter(|address| text(address, "family") == family);
        let shown = all.map(|address| format!("{}/{}", text(address, "local"), address["prefixlen"]));
        shown.filter(|address| !address.starts_with(local)).collect::<Vec<_>>()
    };
    Interface {
        flags: names.into_iter().map(name).collect(),
        has_carrier: has("UP") && has("LOWER_UP"),
        ipv4_addresses: addresses("inet", "169.254."),
        ipv6_addresses: addresses("inet6", "fe80:"),
        mac_address: if !permanent.is_empty() {
            permanent
        } else if is_mac {
            mac
        } else {
            ""
        }
        .to_owned(),
        mtu: u32::try_from(shown["mtu"].as_u64().unwrap()).unwrap(),
        name: text(shown, "ifname").to_owned(),
        kind: match (own.kind.as_str(), text(&shown["linkinfo"], "info_kind")) {
            ("physical", _) => "physical",
            (_, "") => "device",
            (_, "tun") => "tuntap",
            (_, kind) => kind,
        }
        .to_owned(),
        ..own.clone()
    }
}

/// Fails unless interfaces and routes are those that `ip` shows. Others may change the network meanwhile.
fn agrees_with_ip() -> (Vec<Interface>, Vec<Route>) {
    let look = || (ip("-j -d addr"), routes_of_ip(2), routes_of_ip(10));
    let agreed = testkit::wait::found(|| {
        let (before, found, after) = (look(), collect(&live()), look());
        if before != after {
            return None;
        }
        let (links, ipv4, ipv6) = after;
        assert_eq!(found.interfaces.len(), links.len());
        for (own, shown) in found.interfaces.iter().zip(&links) {
            // A prefix that a router advertised stands in for the address's own, which is tested by its value.
            let bare = |own: &Interface| Interface {
                ipv6_addresses: own.ipv6_addresses.iter().map(|ip| ip.split('/').next().unwrap().to_owned()).collect(),
                ..own.clone()
            };
            assert_eq!(bare(own), bare(&interface_of_ip(shown, own)));
        }
        let sorted = |mut routes: Vec<Route>| {
            routes.sort_by_key(|r| (r.family, r.destination.clone(), r.gateway.clone(), r.interface.clone(), r.metric));
            routes
        };
        assert_eq!(sorted(found.routes.clone()), sorted([ipv4, ipv6].concat()));
        Some((found.interfaces, found.routes))
    });
    agreed.expect("the network never stands still")
}

#[test]
fn the_network_of_this_machine_is_that_of_ip() {
    if shown_by("ip", "-V").is_some() {
        agrees_with_ip();
    }
}

#[test]
fn a_network_of_all_kinds_is_that_of_ip() {
    if shown_by("ip", "-V").is_none() {
        return;
    }
    in_namespace(|| {
        assert_eq!(collect(&live()).routes, []);
        agrees_with_ip();
        let mut made = Vec::new();
        for command in [
            "link set lo up",
            "link add left address 02:00:00:00:00:0a mtu 9000 type veth peer name right address 02:00:00:00:00:0b",
            "link add br0 address 02:00:00:00:00:0c type bridge",
            "link add mac0 link left address 02:00:00:00:00:0d type macvlan",
            "tuntap add dev tap0 mode tap",
            "tuntap add dev tun0 mode tun",
            "link set left up",
            "link set right up",
            "addr add 192.168.127.10/24 dev left",
            "addr add 192.168.127.11/24 dev left",
            "addr add 169.254.7.7/16 dev left",
            "addr add 10.9.0.1 peer 10.9.0.2/32 dev right",
            "addr add fd00:127::10/64 dev left nodad",
            "addr add fd00:5::9/128 dev left nodad",
            "route add fd00:5::/64 dev left proto ra",
            "route add default via 192.168.127.1 dev left metric 100",
            "route add default via 192.168.127.2 dev left metric 50",
            "route add 10.0.0.0/8 via 192.168.127.3 dev left",
            "route add 10.0.0.0/16 dev right",
            "route add 10.88.0.0/16 via 203.0.113.9 dev left onlink metric 4294967295",
            "route add 10.99.0.0/16 nexthop via 192.168.127.4 dev left nexthop via 192.168.127.5 dev left",
            "route add 172.16.0.0/16 via inet6 fd00:127::7 dev left",
            "route add blackhole 10.66.0.0/16",
            "route add prohibit 10.67.0.0/16",
            "route add 10.77.0.0/16 dev left table 77",
            "route add default via fd00:127::1 dev left metric 1024",
            "route add fd00:200::/64 dev right",
            "route add unreachable fd00:66::/64",
        ] {
            shown_by("ip", command);
        }
        // Not every kernel has these.
        for command in [
            "link add link left name left.7 address 02:00:00:00:00:0f type vlan id 7",
            "link add dummy7 address 02:00:00:00:00:0e type dummy",
            "link add bond0 address 02:00:00:00:00:10 type bond mode active-backup",
            "link add vrf0 type vrf table 10",
            "link add vx0 type vxlan id 7 dstport 4789",
            "link set dummy7 master bond0",
        ] {
            let done = Command::new("ip").args(command.split(' ')).output().unwrap();
            made.push(done.status.success());
        }
        println!("vlan, dummy, bond, vrf, vxlan, bond's port: {made:?}");
        let (interfaces, routes) = agrees_with_ip();
        let of = |name: &str| interfaces.iter().find(|interface| interface.name == name).unwrap();
        assert_eq!(of("left").ipv4_addresses, ["192.168.127.10/24", "192.168.127.11/24"]);
        // One that DHCPv6 leased is in the network that the router advertised.
        assert_eq!(of("left").ipv6_addresses.iter().find(|ip| ip.starts_with("fd00:5::9/")).unwrap(), "fd00:5::9/64");
        assert!(of("left").ipv6_addresses.contains(&"fd00:127::10/64".to_owned()));
        assert_eq!(of("right").ipv4_addresses, ["10.9.0.1/32"]);
        assert_eq!((of("tun0").kind.as_str(), of("tun0").mac_address.as_str()), ("tuntap", ""));
        assert_eq!((routes[0].destination.as_str(), routes[0].gateway.as_str()), ("0.0.0.0", "192.168.127.2"));
        assert!(routes.iter().any(|route| route.metric == -1), "the largest metric is -1 on the wire");
        assert!(routes.len() >= 10, "{routes:?}");
    });
}

/// libudev reads `/run/udev/data` and nothing else, so it gets its own `/run`.
#[cfg(target_env = "gnu")]
mod libudev {
    use super::common::with_own_mounts;
    use inventory::fuzzing::udev_properties;
    use nix::mount::{MsFlags, mount};
    use proptest::{prelude::*, test_runner::TestRunner};
    use std::{collections::BTreeMap, fs, os::unix::ffi::OsStrExt, path::Path};
    use testkit::disk::Loop;
    use udev::DeviceType;

    /// Major and minor number.
    fn number(device: &Loop) -> (u64, u64) {
        let text = fs::read_to_string(format!("/sys/block/{}/dev", device.name())).unwrap();
        let (major, minor) = text.trim().split_once(':').unwrap();
        (major.parse().unwrap(), minor.parse().unwrap())
    }

    /// What libudev makes of an entry: all properties but those of the kernel's own uevent, and its own.
    fn by_libudev((major, minor): (u64, u64), entry: &[u8]) -> BTreeMap<String, String> {
        fs::write(format!("/run/udev/data/b{major}:{minor}"), entry).unwrap();
        let number = nix::sys::stat::makedev(major, minor);
        let device = udev::Device::from_devnum(DeviceType::Block, number).unwrap();
        let own = |key: &str| {
            let kernels = ["DEVPATH", "DEVNAME", "DEVTYPE", "DISKSEQ", "MAJOR", "MINOR", "SUBSYSTEM"];
            let libudevs = ["USEC_INITIALIZED", "DEVLINKS", "TAGS", "CURRENT_TAGS", "UDEV_DATABASE_VERSION"];
            !kernels.contains(&key) && !libudevs.contains(&key)
        };
        let text = |raw: &std::ffi::OsStr| String::from_utf8_lossy(raw.as_bytes()).into_owned();
        let all = device.properties().map(|property| (text(property.name()), text(property.value())));
        all.filter(|(key, _)| own(key)).collect()
    }

    #[test]
    fn udevs_database_is_read_as_libudev_reads_it() {
        with_own_mounts(|| {
            let file = tempfile::NamedTempFile::new().unwrap();
            file.as_file().set_len(1 << 20).unwrap();
            let device = Loop::over(file.path(), &["--read-only"]);
            let number = number(&device);
            mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), None::<&Path>).unwrap();
            fs::create_dir_all("/run/udev/data").unwrap();
            let usual = "S:disk/by-id/wwn-0x5\nW:1\nI:7000000\nE:ID_MODEL=A B  C\nE:ID_PATH=pci-0000:00:1f.2-ata-1\nE:ID_MODEL_ENC=A\\x20B\n\
                         E:EMPTY=\nE:EQUAL=a=b==\nE:LAST=1\nE:LAST=2\nE:GONE=1\nE:GONE=\nE:TAIL=x  \nE:CR=x\ry\nE:noise\nnoise\n\nG:systemd\nV:1\n";
            let long = format!("E:LONG={}\nE:NEXT=1\n", "x".repeat(100_000));
            for entry in [usual.as_bytes(), long.as_bytes(), b"E:BYTES=\xff\xfe x \xc3\nE:AFTER=1\n", b""] {
                assert_eq!(udev_properties(entry), by_libudev(number, entry), "{}", String::from_utf8_lossy(entry));
            }
            assert_eq!(udev_properties(usual.as_bytes())["EQUAL"], "a=b==");
            let line = "[ESWIGNX:= ]{0,3}(ID_A|ID_B|ID_C|é)?[:= ]{0,2}[a-z\\\\\"'%= :]{0,6}\r?";
            let entry = prop::collection::vec(line, 0..8).prop_map(|lines| lines.join("\n") + "\n");
            let same = |entry: String| {
                // libudev takes the end of such a line for the first character of its value, and with a line of one character loses
                // the next.
                let confuses = |line: &str| line.len() == 1 || line.len() == 2 && line.ends_with(':');
                prop_assume!(!entry.split(['\n', '\r']).any(confuses));
                prop_assert_eq!(udev_properties(entry.as_bytes()), by_libudev(number, entry.as_bytes()));
                Ok(())
            };
            let config = ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() };
            TestRunner::new(config).run(&entry, same).unwrap();
        });
    }
}
