//! LLDP neighbours, with lldpd in other network namespaces: one that speaks, and one that listens beside us.

#![allow(clippy::unwrap_used)]

use netcheck::{
    Selection,
    lldp::{LldpOptions, Neighbourhood, listen},
};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use testkit::net::{
    Host, Namespace, Segment,
    programs::{Server, command, packages},
};

const CLIENT: &str = "52:54:00:aa:bb:01";
const SWITCH: &str = "52:54:00:aa:bb:02";
const WITNESS: &str = "52:54:00:aa:bb:03";

fn options(timeout_s: u64, interfaces: &[&str]) -> LldpOptions {
    LldpOptions {
        timeout: Duration::from_secs(timeout_s),
        interfaces: Selection::Named(interfaces.iter().map(|name| (*name).to_owned()).collect()),
        sysfs: PathBuf::from("/nonexistent"),
    }
}

fn hear(host: &Host, options: &LldpOptions) -> Neighbourhood {
    host.namespace.enter(|| listen(options)).unwrap()
}

/// A running lldpd.
struct Lldpd<'a> {
    _server: Server,
    packages: &'a Path,
    namespace: &'a Namespace,
    socket: PathBuf,
}

impl<'a> Lldpd<'a> {
    /// lldpd needs its own user and a directory in /run: both are made in the mount namespace of its process only.
    fn start(packages: &'a Path, directory: &Path, host: &'a Host, arguments: &str) -> Self {
        let directory = directory.join(&host.namespace.0);
        fs::create_dir(&directory).unwrap();
        for (file, line) in [("passwd", "_lldpd:x:65533:65533::/:/bin/false\n"), ("group", "_lldpd:x:65533:\n")] {
            let text = fs::read_to_string(Path::new("/etc").join(file)).unwrap();
            fs::write(directory.join(file), text + line).unwrap();
        }
        let socket = directory.join("socket");
        let script = format!(
            "mount -t tmpfs none /run && mkdir /run/lldpd && mount --bind {d}/passwd /etc/passwd && \
             mount --bind {d}/group /etc/group && cd / && exec {p}/usr/sbin/lldpd -d -u {d}/socket -I ens3 \
             -L {p}/usr/sbin/lldpcli {arguments}",
            d = directory.display(),
            p = packages.display()
        );
        let mut shell = command(packages, &host.namespace, "/bin/sh");
        shell.args(["-c", &script]);
        let log = directory.join("log");
        let mut server = Server::start(shell, &log);
        server.await_ready(|| fs::read_to_string(&log).unwrap().contains("lldpd should resume operations"));
        Self { _server: server, packages, namespace: &host.namespace, socket }
    }

    fn control(&self, arguments: &str) -> String {
        let mut control = command(self.packages, self.namespace, "usr/sbin/lldpcli");
        control.arg("-u").arg(&self.socket).args(arguments.split(' '));
        let output = control.output().unwrap();
        assert!(output.status.success(), "{arguments}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn what_a_neighbour_says_is_heard_as_lldpd_hears_it() {
    let (Some(segment), Some(packages)) = (Segment::new(), packages()) else { return };
    segment.forward_lldp();
    let directory = tempfile::tempdir().unwrap();
    let switch = segment.host("s", SWITCH, &["192.168.127.1/24"]);
    let witness = segment.host("w", WITNESS, &[]);
    let client = segment.host("c", CLIENT, &[]);
    let speaker = Lldpd::start(&packages, directory.path(), &switch, "-C ens3 -S NX-OS -m 192.168.127.1");
    for setting in [
        "configure system hostname leaf-07",
        "configure lldp tx-interval 1",
        "configure lldp portidsubtype ifname",
        "configure ports ens3 lldp portdescription rack-7",
        "configure lldp custom-tlv oui 00,80,c2 subtype 1 oui-info 00,7e",
        "configure lldp custom-tlv add oui 00,80,c2 subtype 3 oui-info 00,7f,07,73,74,6f,72,61,67,65",
        "configure lldp custom-tlv add oui 00,12,0f subtype 4 oui-info 23,28",
        "update",
    ] {
        speaker.control(setting);
    }
    let listener = Lldpd::start(&packages, directory.path(), &witness, "-r");
    let neighbours =
        || -> Value { serde_json::from_str(&listener.control("-f json0 show neighbors details")).unwrap() };
    testkit::wait::until("the other lldpd has heard it all", || neighbours().to_string().contains("storage"));

    let found = hear(&client, &options(300, &["ens3"]));
    assert!(found.listened_ms < 300_000, "all was heard, so there was nothing to wait for");
    let mut document = serde_json::to_value(&found).unwrap();
    document["listened_ms"] = json!(0);
    let expected = json!({
        "schema_version": 1,
        "listened_ms": 0,
        "ports": [{
            "interface": "ens3",
            "mac": CLIENT,
            "mtu": 1500,
            "driver": null,
            "link": "up",
            "silence": null,
            "neighbours": [{
                "from_mac": SWITCH,
                "chassis": {"kind": "MAC address", "value": SWITCH},
                "port": {"kind": "interface name", "value": "ens3"},
                "valid_s": 4,
                "port_description": "rack-7",
                "system_name": "leaf-07",
                "system_description": "NX-OS",
                "management_addresses": ["192.168.127.1"],
                "port_vlan": 126,
                "vlans": [{"id": 127, "name": "storage"}],
                "aggregation": {"capable": true, "active": false, "port": 0},
                "max_frame_bytes": 9000,
            }],
        }],
    });
    assert_eq!(document, expected);

    let theirs = neighbours();
    let at = |pointer: &str| theirs.pointer(&format!("/lldp/0/interface/0{pointer}")).cloned().unwrap_or(Value::Null);
    let ours = &expected["ports"][0]["neighbours"][0];
    for (pointer, ours) in [
        ("/chassis/0/id/0/value", ours["chassis"]["value"].clone()),
        ("/chassis/0/name/0/value", ours["system_name"].clone()),
        ("/chassis/0/descr/0/value", ours["system_description"].clone()),
        ("/chassis/0/mgmt-ip/0/value", ours["management_addresses"][0].clone()),
        ("/port/0/id/0/value", ours["port"]["value"].clone()),
        ("/port/0/descr/0/value", ours["port_description"].clone()),
        ("/port/0/ttl/0/value", json!("4")),
        ("/port/0/mfs/0/value", json!("9000")),
        ("/vlan/0/value", json!("storage")),
        ("/vlan/0/vlan-id", json!("127")),
    ] {
        assert_eq!(at(pointer), ours, "{pointer} of {theirs:#}");
    }
}

#[test]
fn a_port_of_a_bridge_hears_its_own_neighbour() {
    let (Some(segment), Some(packages)) = (Segment::new(), packages()) else { return };
    segment.forward_lldp();
    let directory = tempfile::tempdir().unwrap();
    let switch = segment.host("s", SWITCH, &[]);
    let client = segment.host("c", CLIENT, &[]);
    client.namespace.ip("link add br0 type bridge");
    client.namespace.ip("link set ens3 master br0");
    client.namespace.ip("link set br0 up");
    let speaker = Lldpd::start(&packages, directory.path(), &switch, "-C ens3");
    speaker.control("configure lldp tx-interval 1");
    let found = hear(&client, &options(300, &["ens3"]));
    let heard: Vec<_> =
        found.ports.iter().flat_map(|port| &port.neighbours).map(|one| one.from_mac.to_string()).collect();
    assert_eq!(heard, [SWITCH]);
}

#[test]
fn silence_is_waited_for_only_where_something_can_be_heard() {
    let Some(segment) = Segment::new() else { return };
    let client = segment.host("c", CLIENT, &[]);
    client.namespace.ip("link add ens8 type veth peer name ens9");
    client.namespace.ip("link set ens8 up");
    let found = hear(&client, &options(600, &["ens8", "ens9"]));
    let states = |found: &Neighbourhood| -> Value {
        let state = |port: &netcheck::lldp::Port| json!([port.interface, port.link, port.silence]);
        found.ports.iter().map(state).collect()
    };
    assert_eq!(states(&found), json!([["ens8", "no-carrier", "no-link"], ["ens9", "down", "no-link"]]));
    let found = hear(&client, &options(1, &["ens9", "ens3"]));
    assert_eq!(states(&found), json!([["ens3", "up", "nobody-spoke"], ["ens9", "down", "no-link"]]));
    assert!(found.listened_ms >= 1000);
}
