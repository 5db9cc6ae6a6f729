use super::*;
use crate::network::{Flow, HOSTS_DIR, HostNetwork, MacInterface, files};
use std::cell::RefCell;
use std::time::Duration;
use tempfile::TempDir;

const ETH: &str = "
interfaces:
- {name: eth0, type: ethernet, state: up}
- {name: eth1, type: ethernet, state: up, ipv4: {enabled: true, dhcp: true}}
- {name: eth0.1400, type: vlan, state: up, vlan: {base-iface: eth0, id: 1400}, ipv4: {enabled: true, dhcp: true}}
- {name: bond0, type: bond, state: up, link-aggregation: {mode: active-backup, port: [eth0]}}
";

fn host(yaml: &str, map: &[(&str, &str)]) -> HostNetwork {
    let entry =
        |(mac, name): &(&str, &str)| MacInterface { mac_address: (*mac).into(), logical_nic_name: (*name).into() };
    HostNetwork { network_yaml: yaml.into(), mac_interface_map: map.iter().map(entry).collect() }
}

/// A live host's files and interfaces.
struct Machine(TempDir);

impl Machine {
    fn new(interfaces: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, mac) in interfaces {
            let interface = dir.path().join("sys/class/net").join(name);
            fs::create_dir_all(&interface).unwrap();
            fs::write(interface.join("address"), format!("{mac}\n")).unwrap();
        }
        Self(dir)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    fn carries(&self, configs: &[HostNetwork], flow: Flow) -> &Self {
        for file in files(configs, flow).unwrap() {
            self.write(&file.path, &file.bytes);
        }
        self
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), bytes).unwrap();
    }

    fn plan(&self) -> Result<Plan, ApplyError> {
        plan(&read_hosts(&self.path(HOSTS_DIR))?.0, &interfaces(&self.path("sys"))?)
    }

    fn apply(&self) -> Result<Vec<String>, ApplyError> {
        let (plan, target) = (self.plan()?, self.path("target"));
        carry_out(&plan, &target, &stale(&plan, &target)?)?;
        Ok(self.target())
    }

    fn target(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path("target"))
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn the_host_that_has_the_address_gets_its_profiles_under_its_own_names() {
    let configs = [
        host(ETH, &[("52:54:00:00:00:01", "eth0"), ("52:54:00:00:00:02", "eth1")]),
        host(ETH, &[("52:54:00:00:00:0a", "eth0"), ("52:54:00:00:00:0b", "eth1")]),
    ];
    for flow in [Flow::Keyfiles, Flow::Policy] {
        // As sysfs has them: lower case; and the loopback, which has an address too.
        let machine = Machine::new(&[
            ("ens1f0np0long", "52:54:00:00:00:0a"),
            ("ens2", "52:54:00:00:00:0b"),
            ("lo", "00:00:00:00:00:00"),
        ]);
        machine.carries(&configs, flow);
        machine.write("target/old.nmconnection", b"old");
        machine.write("target/bond0.nmconnection", b"old");
        let names = machine.apply().unwrap();
        // A policy names the VLAN itself, so that it keeps its name.
        let vlan = if flow == Flow::Keyfiles { "ens1f0np0l.1400" } else { "eth0.1400" };
        let mut wanted = ["bond0", "ens1f0np0long", vlan, "ens2"].map(|name| format!("{name}.nmconnection"));
        wanted.sort();
        assert_eq!(names, wanted, "{flow:?}");
        let text = |name: &str| fs::read_to_string(machine.path(&format!("target/{name}.nmconnection"))).unwrap();
        assert!(text("ens2").contains("\ninterface-name=ens2\n"), "{}", text("ens2"));
        assert!(
            text(vlan).contains(&format!("\ninterface-name={vlan}\n"))
                && text(vlan).contains("\nparent=ens1f0np0long\n")
        );
        assert!(text("bond0").contains("\nautoconnect-priority=1\n"));
        for name in names {
            let mode = fs::metadata(machine.path("target").join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o600);
        }
        // Once more changes nothing.
        assert_eq!(machine.apply().unwrap(), wanted);
    }
}

#[test]
fn what_is_there_stays_when_the_machine_is_no_host() {
    let machine = Machine::new(&[("ens2", "52:54:00:00:00:99")]);
    machine.carries(&[host(ETH, &[("52:54:00:00:00:0a", "eth0"), ("52:54:00:00:00:0b", "eth1")])], Flow::Keyfiles);
    machine.write("target/old.nmconnection", b"old");
    assert_eq!(machine.apply().unwrap(), ["old.nmconnection"]);
    assert!(machine.plan().unwrap().hosts.is_empty());
}

#[test]
fn a_missing_interface_is_reported_and_the_rest_applied() {
    let machine = Machine::new(&[("ens2", "52:54:00:00:00:0B")]);
    let configs = [host(ETH, &[("52:54:00:00:00:0a", "eth0"), ("52:54:00:00:00:0b", "eth1")])];
    machine.carries(&configs, Flow::Keyfiles);
    let plan = machine.plan().unwrap();
    let renamed: Vec<_> =
        plan.hosts[0].interfaces.iter().map(|renamed| (renamed.logical.as_str(), renamed.name.as_deref())).collect();
    assert_eq!(renamed, [("eth0", None), ("eth1", Some("ens2"))]);
    assert!(machine.apply().unwrap().contains(&"ens2.nmconnection".to_owned()));
    // A policy names what is missing.
    let machine = Machine::new(&[("ens2", "52:54:00:00:00:0B")]);
    machine.carries(&configs, Flow::Policy);
    let error = machine.plan().unwrap_err().to_string();
    assert!(error.contains("MAC address 52:54:00:00:00:0A, which the policy captures"), "{error}");
}

#[test]
fn collisions_stop_before_anything_is_written() {
    // The other name of eth1 is the name of eth0's own profile.
    let machine = Machine::new(&[("bond0", "52:54:00:00:00:0a")]);
    machine.carries(&[host(ETH, &[("52:54:00:00:00:0a", "eth1"), ("52:54:00:00:00:0b", "eth0")])], Flow::Keyfiles);
    assert!(matches!(machine.apply().unwrap_err(), ApplyError::SameFile { name, .. } if name == "bond0.nmconnection"));
    assert!(machine.target().is_empty());
    // One machine, two hosts of the list.
    let machine = Machine::new(&[("ens1", "52:54:00:00:00:0a"), ("ens2", "52:54:00:00:00:0b")]);
    let yaml = "interfaces: [{name: eth0, type: ethernet, state: up}]";
    machine.carries(
        &[host(yaml, &[("52:54:00:00:00:0a", "eth0")]), host(yaml, &[("52:54:00:00:00:0b", "eth0")])],
        Flow::Keyfiles,
    );
    assert!(matches!(machine.apply().unwrap_err(), ApplyError::SameUuid { .. }));
}

#[test]
fn a_directory_that_holds_more_than_profiles_is_left_alone() {
    let machine = Machine::new(&[("ens1", "52:54:00:00:00:0a")]);
    let yaml = "interfaces: [{name: eth0, type: ethernet, state: up}]";
    machine.carries(&[host(yaml, &[("52:54:00:00:00:0a", "eth0")])], Flow::Keyfiles);
    machine.write("target/systemd/x", b"");
    machine.write("target/passwd", b"");
    assert!(matches!(machine.apply().unwrap_err(), ApplyError::NotProfiles { name, .. } if name == "systemd"));
    assert_eq!(machine.target(), ["passwd", "systemd"]);
}

#[test]
fn maps_that_cant_be_read_are_named_by_line() {
    let machine = Machine::new(&[("ens1", "52:54:00:00:00:0a")]);
    machine.write("/etc/assisted/network/host0/mac_interface.ini", b"52:54:00:00:00:0a=eth0\n\nx=y\n");
    let error = machine.plan().unwrap_err().to_string();
    assert!(error.ends_with("mac_interface.ini, line 3: \"x\" is not a MAC address: expected six pairs of hexadecimal digits separated by colons or dashes"), "{error}");
    machine.write("/etc/assisted/network/host0/mac_interface.ini", &[0xff]);
    assert!(matches!(machine.plan(), Err(ApplyError::Text { .. })));
    machine.write("/etc/assisted/network/host0/mac_interface.ini", &vec![b'\n'; (1 << 20) + 1]);
    assert!(matches!(machine.plan(), Err(ApplyError::TooLong { .. })));
}

#[test]
fn a_device_goes_before_what_is_made_of_it() {
    let machine = Machine::new(&[
        ("a-bond", "52:54:00:00:00:0a"),
        ("b-port", "52:54:00:00:00:0a"),
        ("c-vf", "52:54:00:00:00:0a"),
    ]);
    machine.write("sys/class/net/b-port/device/x", b"");
    machine.write("sys/class/net/c-vf/device/x", b"");
    machine.write("sys/class/net/bonding_masters", b"");
    let found = interfaces(&machine.path("sys")).unwrap();
    assert_eq!(found.values().collect::<Vec<_>>(), ["b-port"]);
    machine.write("sys/class/net/b-port/master/x", b"");
    assert_eq!(interfaces(&machine.path("sys")).unwrap().values().collect::<Vec<_>>(), ["c-vf"]);
}

#[test]
fn a_rule_names_the_interface_of_this_machine() {
    let yaml = "{interfaces: [{name: eth0, type: ethernet, state: up, description: eth0, \
                ipv4: {enabled: true, address: [{ip: 198.51.100.10, prefix-length: 24}]}, \
                ipv6: {enabled: true, address: [{ip: '2001:db8::1', prefix-length: 64}]}}], \
                dns-resolver: {config: {server: ['fe80::1%eth0'], search: [eth0]}}, \
                route-rules: {config: [{ip-from: 198.51.100.10/32, iif: eth0, route-table: 200, priority: 100}]}, \
                routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 198.51.100.1, next-hop-interface: eth0, table-id: 200}]}}";
    for flow in [Flow::Keyfiles, Flow::Policy] {
        let machine = Machine::new(&[("ens1f0", "52:54:00:00:00:01")]);
        machine.carries(&[host(yaml, &[("52:54:00:00:00:01", "eth0")])], flow);
        assert_eq!(machine.apply().unwrap(), ["ens1f0.nmconnection"]);
        let text = fs::read_to_string(machine.path("target/ens1f0.nmconnection")).unwrap();
        assert!(text.contains(" iif ens1f0 table 200\n") && !text.contains("iif eth0"), "{flow:?}: {text}");
        assert!(text.contains("description=eth0\n") && text.contains("dns-search=eth0\n"), "{flow:?}: {text}");
        assert!(text.contains("dns=fe80::1"), "{text}");
    }
}

#[test]
fn ports_of_a_bond_that_the_initramfs_made_are_known_by_their_own_addresses() {
    let shown = "52:54:00:00:00:01";
    let configs = [host(
        "interfaces: [{name: bond0, type: bond, state: up, link-aggregation: {mode: active-backup, options: {primary: eth1}, \
         port: [eth0, eth1]}}]",
        &[(shown, "eth0"), ("52:54:00:00:00:02", "eth1")],
    )];
    for flow in [Flow::Keyfiles, Flow::Policy] {
        let machine = Machine::new(&[("bond0", shown), ("ens1f0", shown), ("ens1f1", shown)]);
        for (name, own) in [("ens1f0", shown), ("ens1f1", "52:54:00:00:00:02")] {
            machine.write(&format!("sys/class/net/{name}/bonding_slave/perm_hwaddr"), format!("{own}\n").as_bytes());
            machine.write(&format!("sys/class/net/{name}/device/x"), b"");
            machine.write(&format!("sys/class/net/{name}/master/x"), b"");
        }
        machine.carries(&configs, flow);
        let names = ["bond0", "ens1f0", "ens1f1"].map(|name| format!("{name}.nmconnection"));
        assert_eq!(machine.apply().unwrap(), names, "{flow:?}");
        let bond = fs::read_to_string(machine.path("target/bond0.nmconnection")).unwrap();
        assert!(bond.contains("\nprimary=ens1f1\n"), "{bond}");
    }
}

#[test]
fn waiting_ends_with_quiet_or_with_time() {
    let seconds = Duration::from_secs;
    let wait = |names: &dyn Fn(u64) -> Vec<String>| {
        let slept = RefCell::new(0);
        let now = || Ok(names(*slept.borrow()));
        let end = settle(now, |pause| *slept.borrow_mut() += pause.as_secs(), seconds(3), seconds(30)).unwrap();
        (end, slept.into_inner())
    };
    assert_eq!(wait(&|_| vec!["ens1".into()]), (Settled::Stable, 3));
    assert_eq!(wait(&|second| vec![if second < 10 { "eth0" } else { "ens1" }.into()]), (Settled::Stable, 3));
    assert_eq!(wait(&|second| if second < 10 { Vec::new() } else { vec!["ens1".into()] }), (Settled::Stable, 13));
    assert_eq!(wait(&|second| vec![format!("eth{}", second / 2)]), (Settled::TimedOut, 30));
    assert_eq!(wait(&|_| Vec::new()), (Settled::TimedOut, 30));
}
