//! Networks that need bonds, VLANs and netem, which not every kernel that runs tests has: which host is probed from
//! where, what is reported of faults, and how exactly loss and delay are measured.

#![allow(clippy::unwrap_used)]

use crate::facts;

use facts::Facts;
use qemu_tests::{
    media,
    vm::{Vm, VmBuilder},
};
use serde_json::{Value, json};
use std::time::Instant;

const MAC_A: &str = "52:54:00:aa:bb:01";
const MAC_B: &str = "52:54:00:aa:bb:02";
const MAC_C: &str = "52:54:00:aa:bb:03";
const ID_B: &str = "b28954e9-3896-4eeb-953a-89d6a44b04ea";
const ID_C: &str = "4e38f3db-7328-4883-b636-49f7e181dc3c";

/// How networks are made. Hosts and switches are network namespaces.
const WORDS: &str = r#"
ip() { /usr/sbin/ip "$@"; }
tc() { /usr/sbin/tc -n "$@"; }
# HOST
host() {
    ip netns add $1
    ip netns exec $1 sh -c 'echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad'
    ip -n $1 link set lo up
}
# SWITCH
switch() { host $1; ip -n $1 link add br0 type bridge mcast_snooping 0; ip -n $1 link set br0 up; }
# HOST MAC SWITCH: a cable from ens3 of the host to the switch
plug() {
    ip -n $1 link add ens3 address $2 type veth peer name to-$1 netns $3
    ip -n $3 link set to-$1 master br0 up
    ip -n $1 link set ens3 up
}
# HOST DEVICE
vlan() { ip -n $1 link add link $2 name $2.100 type vlan id 100; ip -n $1 link set $2.100 up; }
# HOST DEVICE ADDRESS...
own() { on=$1 device=$2; shift 2; for address; do ip -n $on addr add $address dev $device; done; }
# HOST DEVICE DIRECTION FLOWER... action pass: counts; action drop: drops
watch() { on=$1 device=$2 way=$3; shift 3; tc $on filter add dev $device $way "$@"; }
"#;

fn machine(name: &str) -> VmBuilder {
    Vm::builder("network", name).memory_mib(384).kernel(media::network_system().unwrap()).shell()
}

fn run(facts: &mut Facts, script: &str) -> String {
    facts.text(&format!("{WORDS}\n{script}"))
}

fn asked(id: &str, mac: &str, addresses: &[&str]) -> Value {
    json!({"host_id": id, "nics": [{"name": "ens3", "mac": mac, "ip_addresses": addresses}]})
}

/// What the check says from `host`.
fn mesh(facts: &mut Facts, host: &str, asked: &[Value], options: &str) -> Value {
    let request = Value::from(asked);
    let script = format!("ip netns exec {host} landfall netcheck mesh --json {options} <<'E'\n{request}\nE");
    serde_json::from_str(&run(facts, &script)).unwrap()
}

/// As [`mesh`], with measured times replaced by 1.0.
fn check(facts: &mut Facts, host: &str, asked: &[Value]) -> Value {
    let mut report = mesh(facts, host, asked, "");
    for host in report["remote_hosts"].as_array_mut().unwrap() {
        for echo in host["l3_connectivity"].as_array_mut().into_iter().flatten() {
            if let Some(time) = echo.get_mut("average_rtt_ms") {
                assert!(time.as_f64().unwrap() > 0.0);
                *time = json!(1.0);
            }
        }
    }
    report
}

fn reports(hosts: &[Value]) -> Value {
    json!({"remote_hosts": hosts})
}

fn host(id: &str, l2: Value, l3: Value, mtu: Value) -> Value {
    json!({"host_id": id, "l2_connectivity": l2, "l3_connectivity": l3, "mtu_report": mtu})
}

fn arp(source: &str, nic: &str, address: &str, mac: &str) -> Value {
    json!({"outgoing_ip_address": source, "outgoing_nic": nic, "remote_ip_address": address, "remote_mac": mac,
           "successful": true})
}

fn ndp(nic: &str, address: &str, mac: &str) -> Value {
    json!({"outgoing_nic": nic, "remote_ip_address": address, "remote_mac": mac, "successful": true})
}

fn echo(address: &str) -> Value {
    json!({"average_rtt_ms": 1.0, "remote_ip_address": address, "successful": true})
}

fn no_echo(address: &str) -> Value {
    json!({"packet_loss_percentage": 100.0, "remote_ip_address": address})
}

fn mtu(nic: &str, address: &str, passed: bool) -> Value {
    let mut entry = json!({"outgoing_nic": nic, "remote_ip_address": address});
    if passed {
        entry["mtu_successful"] = json!(true);
    }
    entry
}

/// The same entry, of a station that is not the host.
fn foreign(mut entry: Value) -> Value {
    entry.as_object_mut().unwrap().remove("successful");
    entry
}

#[test]
fn bonds_and_vlans_probe_and_ports_of_bonds_do_not() {
    let began = Instant::now();
    // The bond's two cables end in real (emulated) cards on either side: virtual ones are left out for another reason.
    let mut builder = machine("bond");
    for (index, end) in [(1, "a"), (2, "a"), (1, "s"), (2, "s")] {
        let mac = format!("52:54:00:00:0{index}:0{}", if end == "a" { 1 } else { 2 });
        builder = builder
            .with("-netdev", format!("hubport,id={end}{index},hubid={index}"))
            .with("-device", format!("virtio-net-pci,netdev={end}{index},mac={mac},romfile="));
    }
    let mut vm = builder.start().unwrap();
    let mut facts = Facts::ask(&mut vm);
    println!("network, guest up: {:.1} s", began.elapsed().as_secs_f64());
    let [a1, a2, s1, s2] =
        [(1, 1), (2, 1), (1, 2), (2, 2)].map(|(cable, end)| facts.interface(&format!("52:54:00:00:0{cable}:0{end}")));
    let mac = "52:54:00:00:01:01";
    run(
        &mut facts,
        &format!(
            "host a; switch s; host b
            ip link set {a1} netns a name ens3; ip link set {a2} netns a name ens4
            ip link set {s1} netns s name one; ip link set {s2} netns s name two
            ip -n s link set one master br0 up; ip -n s link set two master br0 up
            ip -n a link add bond0 type bond mode active-backup miimon 100
            ip -n a link set ens3 master bond0; ip -n a link set ens4 master bond0; ip -n a link set bond0 up
            vlan a bond0; own a bond0 10.0.0.1/24 fd00::1/64; own a bond0.100 10.0.100.1/24
            own a ens3 10.0.0.91/24; own a ens4 10.0.0.92/24
            plug b {MAC_B} s; vlan b ens3; own b ens3 10.0.0.2/24 fd00::2/64; own b ens3.100 10.0.100.2/24
            tc b qdisc add dev ens3 clsact
            tc b qdisc add dev ens3.100 clsact
            i=0; until [ \"$(ip netns exec a cat /sys/class/net/bond0/bonding/active_slave)\" = ens3 ]; do
                usleep 100000; i=$((i+1)); [ $i -lt 100 ]; done
            ip netns exec a ping -c 1 -w 10 10.0.0.2 >/dev/null"
        ),
    );
    let addresses = ["10.0.0.2", "10.0.100.2", "fd00::2"];
    let strays = ["10.0.0.91", "10.0.0.92"];
    for address in strays.iter().chain(&["10.0.0.1"]) {
        run(&mut facts, &format!("watch b ens3 ingress protocol arp flower arp_sip {address} action pass"));
    }
    run(&mut facts, "watch b ens3.100 ingress protocol arp flower arp_sip 10.0.100.1 action pass");
    let backup = "ip netns exec a cat /sys/class/net/ens4/statistics/tx_packets";
    let sent_by_backup = run(&mut facts, backup);
    let found = check(&mut facts, "a", &[asked(ID_B, MAC_B, &addresses)]);
    let l2 = json!([
        arp("10.0.0.1", "bond0", "10.0.0.2", MAC_B),
        arp("10.0.100.1", "bond0.100", "10.0.100.2", MAC_B),
        ndp("bond0", "fd00::2", MAC_B),
    ]);
    facts.compare("bond", &found, &reports(&[host(ID_B, l2, addresses.map(echo).to_vec().into(), Value::Null)]));
    let counted =
        |facts: &mut Facts| (counters(facts, "b", "ens3", "ingress"), counters(facts, "b", "ens3.100", "ingress"));
    // The kernel has 10.0.0.2 in its table and asks again on its own at times, so that more than ours may be counted.
    let (plain, tagged) = counted(&mut facts);
    println!(
        "ARP seen by the neighbour: from the ports' stray addresses {} and {}, from bond0 {}, from bond0.100 {}",
        plain[0], plain[1], plain[2], tagged[0]
    );
    assert_eq!(plain[..2], [0, 0], "from {strays:?}");
    assert!(plain[2] > 0 && tagged[0] > 0, "{plain:?} {tagged:?}");
    assert_eq!(run(&mut facts, backup), sent_by_backup, "the backup port was silent");
    let known = run(&mut facts, "ip -n b neigh");
    assert!(known.contains(&format!("10.0.0.1 dev ens3 lladdr {mac}")) && !known.contains("10.0.0.9"), "{known}");
    // The same measurement sees a port that probes.
    mesh(&mut facts, "a", &[asked(ID_B, MAC_B, &addresses)], "--interface ens3 --interface ens4");
    assert!(counted(&mut facts).0[0] > 0, "{:?}", counted(&mut facts));
    assert_ne!(run(&mut facts, backup), sent_by_backup);
    facts.all_as_expected();
    println!("network, bond: {:.1} s", began.elapsed().as_secs_f64());
}

/// How many packets each filter met, in the order they were made.
fn counters(facts: &mut Facts, host: &str, device: &str, way: &str) -> Vec<u64> {
    let shown = run(facts, &format!("tc {host} -s filter show dev {device} {way}"));
    let mut counts: Vec<u64> = Vec::new();
    for line in shown.lines() {
        if let Some(rest) = line.trim().strip_prefix("Sent ") {
            counts.push(rest.split(' ').nth(2).unwrap().parse().unwrap());
        }
    }
    // The kernel gives later filters a smaller preference and shows them first.
    counts.reverse();
    counts
}

#[test]
fn faults_are_seen_and_loss_and_delay_measured_over_vlans() {
    let began = Instant::now();
    let mut vm = machine("vlan").virtual_time().start().unwrap();
    let mut facts = Facts::ask(&mut vm);
    println!("network, guest up: {:.1} s", began.elapsed().as_secs_f64());
    run(
        &mut facts,
        &format!(
            "switch s; switch far; host a; host b; host c
            ip -n s link add trunk type veth peer name trunk netns far
            ip -n s link set trunk master br0 up; ip -n far link set trunk master br0 up
            plug a {MAC_A} s; plug b {MAC_B} s; plug c {MAC_C} far
            vlan a ens3; vlan b ens3; vlan c ens3
            own a ens3 10.0.0.1/24; own b ens3 10.0.0.2/24
            own a ens3.100 10.0.100.1/24 fd00:100::1/64; own b ens3.100 10.0.100.2/24 10.0.100.22/24 fd00:100::2/64
            own c ens3.100 10.0.100.3/24 fd00:100::3/64"
        ),
    );
    faults(&mut facts);
    facts.all_as_expected();
    measurements(&mut facts);
    jumbo_frames(&mut facts);
    facts.all_as_expected();
    println!("network, VLAN: {:.1} s", began.elapsed().as_secs_f64());
}

const B4: &str = "10.0.100.2";
const B6: &str = "fd00:100::2";
const C4: &str = "10.0.100.3";

fn faults(facts: &mut Facts) {
    let nic = "ens3.100";
    let arp = |address, mac| arp("10.0.100.1", nic, address, mac);
    let l2 = json!([arp(B4, MAC_B), ndp(nic, B6, MAC_B)]);
    let l3 = json!([echo(B4), echo(B6)]);
    let c = || host(ID_C, json!([arp(C4, MAC_C)]), json!([echo(C4)]), Value::Null);
    let both = [asked(ID_B, MAC_B, &[B4, B6]), asked(ID_C, MAC_C, &[C4])];

    let good = reports(&[c(), host(ID_B, l2.clone(), l3.clone(), Value::Null)]);
    let found = check(facts, "a", &both);
    facts.compare("no fault", &found, &good);

    run(facts, "ip -n b link set ens3.100 down");
    let found = check(facts, "a", &both);
    let down = host(ID_B, Value::Null, json!([no_echo(B4), no_echo(B6)]), Value::Null);
    facts.compare("one host down", &found, &reports(&[c(), down.clone()]));
    run(facts, "ip -n b link set ens3.100 up; own b ens3.100 fd00:100::2/64");

    let found = check(facts, "a", &[asked(ID_B, "52:54:00:00:00:99", &[B4, B6])]);
    let others = json!([foreign(arp(B4, MAC_B)), foreign(ndp(nic, B6, MAC_B))]);
    facts.compare("wrong MAC", &found, &reports(&[host(ID_B, others, l3, Value::Null)]));

    run(facts, "own c ens3.100 10.0.100.2/24 fd00:100::2/64");
    let mut found = check(facts, "a", &both[..1]);
    let two = json!([arp(B4, MAC_B), foreign(arp(B4, MAC_C)), ndp(nic, B6, MAC_B), foreign(ndp(nic, B6, MAC_C))]);
    // Which of the two the kernel's own echoes go to, and whether that changes meanwhile, is not up to us.
    found["remote_hosts"][0]["l3_connectivity"] = Value::Null;
    facts.compare("duplicate address", &found, &reports(&[host(ID_B, two, Value::Null, Value::Null)]));
    run(
        facts,
        "for a in 10.0.100.2/24 fd00:100::2/64; do ip -n c addr del $a dev ens3.100; done; ip -n a neigh flush all",
    );

    // B's IPv4 echoes do not get out; ARP and IPv6 do.
    run(
        facts,
        "tc b qdisc add dev ens3.100 clsact
        watch b ens3.100 egress protocol ip flower ip_proto icmp action drop
        watch b ens3.100 ingress protocol ip flower ip_proto icmp action pass",
    );
    let found = check(facts, "a", &both);
    let filtered = host(ID_B, l2, json!([no_echo(B4), echo(B6)]), Value::Null);
    facts.compare("echoes blocked one way", &found, &reports(&[c(), filtered]));
    assert_eq!(counters(facts, "b", nic, "ingress"), [10], "B heard A's echoes");
    let found = check(facts, "b", &[asked(ID_C, MAC_A, &["10.0.100.1"])]);
    let from_b = json!([json!({"outgoing_ip_address": B4, "outgoing_nic": nic, "remote_ip_address": "10.0.100.1",
        "remote_mac": MAC_A, "successful": true})]);
    let blind = host(ID_C, from_b, json!([no_echo("10.0.100.1")]), Value::Null);
    facts.compare("echoes blocked one way, from B", &found, &reports(&[blind]));
    run(facts, "tc b qdisc del dev ens3.100 clsact");

    // Nothing at all gets out of B, but B hears.
    run(facts, "tc b qdisc add dev ens3.100 root netem loss 100%");
    let found = check(facts, "a", &both);
    facts.compare("B is not heard", &found, &reports(&[c(), down]));
    run(facts, "tc b qdisc del dev ens3.100 root");
    let found = check(facts, "a", &both);
    facts.compare("no fault again", &found, &good);
}

fn jumbo_frames(facts: &mut Facts) {
    let nic = "ens3.100";
    run(
        facts,
        "for h in a b c; do ip -n $h link set ens3 mtu 9000; ip -n $h link set ens3.100 mtu 9000; done
        ip -n s link set to-a mtu 9000; ip -n s link set to-b mtu 9000; ip -n far link set to-c mtu 9000",
    );
    let both = [asked(ID_B, MAC_B, &[B4, B6]), asked(ID_C, MAC_C, &[C4, "fd00:100::3"])];
    let mtus = |report: &Value| -> Vec<Value> {
        report["remote_hosts"].as_array().unwrap().iter().map(|host| host["mtu_report"].clone()).collect()
    };
    let c_passes = |passed| json!([mtu(nic, C4, passed), mtu(nic, "fd00:100::3", passed)]);
    let b_passes = json!([mtu(nic, B4, true), mtu(nic, B6, true)]);
    let found = check(facts, "a", &both);
    facts.compare("MTU with a hop of 1500", &mtus(&found).into(), &json!([c_passes(false), b_passes]));
    run(facts, "ip -n s link set trunk mtu 9000; ip -n far link set trunk mtu 9000");
    let found = check(facts, "a", &both);
    facts.compare("MTU without that hop", &mtus(&found).into(), &json!([c_passes(true), b_passes]));
}

/// Of each program with each setting; the most that the check sends.
const ECHOES: u32 = 100;

/// Both ways of looking at one path: `ping`, and what the report says.
fn measurements(facts: &mut Facts) {
    println!("{:<20} | {:>16} | {:>16} | {:>4}", "netem, 100 echoes", "ping: ms, loss %", "ours: ms, loss %", "lost");
    for (netem, delay_ms, loss) in [
        ("delay 20ms", 20.0, 0.0),
        ("delay 50ms", 50.0, 0.0),
        ("delay 20ms 5ms", 20.0, 0.0),
        ("delay 50ms 10ms", 50.0, 0.0),
        ("loss 10%", 0.0, 0.1),
        ("loss 30%", 0.0, 0.3),
        ("delay 20ms loss 30%", 20.0, 0.3),
    ] {
        measure(facts, netem, delay_ms, loss);
    }
}

/// With `netem` on B's side of the VLAN, which is to delay by that much and lose that part.
fn measure(facts: &mut Facts, netem: &str, delay_ms: f64, loss: f64) {
    let request = Value::from(vec![asked(ID_B, MAC_B, &[B4])]);
    // Pings go to B's other address, so that each counter is of one program.
    let script = format!(
        "ip -n a neigh replace 10.0.100.22 lladdr {MAC_B} dev ens3.100; ip -n a neigh replace {B4} lladdr {MAC_B} dev ens3.100
        tc b qdisc replace dev ens3.100 root netem {netem}
        tc a qdisc add dev ens3.100 clsact
        watch a ens3.100 ingress protocol ip flower ip_proto icmp src_ip {B4} action pass
        ip netns exec a ping -q -c {ECHOES} -i 0.02 -W 3 10.0.100.22 >/run/ping &
        ip netns exec a landfall netcheck mesh --json --count {ECHOES} --interval-ms 20 <<'E'\n{request}\nE\n\
        wait; cat /run/ping"
    );
    let said = run(facts, &script);
    let came = counters(facts, "a", "ens3.100", "ingress")[0];
    run(
        facts,
        "tc a qdisc del dev ens3.100 clsact; tc b qdisc del dev ens3.100 root; ip -n a neigh flush nud permanent",
    );
    let (report, ping) = said.split_once('\n').unwrap();
    let report: Value = serde_json::from_str(report).unwrap();
    let found = &report["remote_hosts"][0]["l3_connectivity"][0];
    let (ours_ms, ours_loss) =
        (found["average_rtt_ms"].as_f64().unwrap(), found["packet_loss_percentage"].as_f64().unwrap_or(0.0));
    let (ping_ms, ping_loss) = (ping_average(ping), ping_loss(ping));
    let lost = u64::from(ECHOES) - came;
    println!("{netem:<20} | {ping_ms:>8.3} {ping_loss:>7.1} | {ours_ms:>8.3} {ours_loss:>7.1} | {lost:>4}");
    // What came back is counted by the kernel too.
    let exact = 100.0 * f64::from(u32::try_from(lost).unwrap()) / f64::from(ECHOES);
    assert!((ours_loss - exact).abs() < 1e-9, "{netem}: {ours_loss} % lost, not {exact} %");
    // Five standard deviations: one run in a million is outside.
    let bound = 500.0 * (loss * (1.0 - loss) / f64::from(ECHOES)).sqrt();
    assert!((ours_loss - 100.0 * loss).abs() <= bound, "{netem}: {ours_loss} % lost, bound {bound}");
    if delay_ms > 0.0 {
        assert!((ours_ms - delay_ms).abs() <= delay_ms / 10.0, "{netem}: {ours_ms} ms");
        assert!((ours_ms - ping_ms).abs() <= delay_ms / 10.0, "{netem}: {ours_ms} ms, ping {ping_ms} ms");
    }
}

/// `rtt min/avg/max/mdev = 0.012/0.015/0.042/0.008 ms`
fn ping_average(said: &str) -> f64 {
    said.split_once(" = ").unwrap().1.split('/').nth(1).unwrap().parse().unwrap()
}

/// `10 packets transmitted, 10 received, 0% packet loss, time 932ms`
fn ping_loss(said: &str) -> f64 {
    let (before, _) = said.split_once("% packet loss").unwrap();
    before.rsplit(' ').next().unwrap().parse().unwrap()
}
