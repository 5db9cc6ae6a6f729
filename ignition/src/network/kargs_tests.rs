use super::*;

fn parse_kargs(yaml: &str) -> Kargs {
    let map = ["eth0", "eth1"].iter().zip(["52:54:00:00:00:0A", "52-54-00-00-00-0b"]);
    let map: Vec<MacInterface> = map
        .map(|(name, mac)| MacInterface { mac_address: mac.to_owned(), logical_nic_name: (*name).to_owned() })
        .collect();
    let mut kargs = kargs(&State::parse(0, yaml).unwrap(), &map);
    kargs.notes.retain(|note| !note.contains("that the kernel assigns"));
    kargs
}

fn check(yaml: &str, arguments: &[&str], notes: &[&str]) {
    let kargs = parse_kargs(yaml);
    assert_eq!(kargs.arguments, arguments, "{yaml}");
    assert_eq!(kargs.notes, notes, "{yaml}");
}

const NAMES: [&str; 2] = ["ifname=eth0:52:54:00:00:00:0a", "ifname=eth1:52:54:00:00:00:0b"];

#[test]
fn fixed_addresses_take_their_gateways_along() {
    check(
        "interfaces:
- {name: eth0, type: ethernet, state: up, mtu: 9000,
   ipv4: {enabled: true, address: [{ip: 192.0.2.10, prefix-length: 24}, {ip: 192.0.2.11, prefix-length: 32}]},
   ipv6: {enabled: true, address: [{ip: '2001:db8::10', prefix-length: 64}]}}
routes: {config: [
  {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: eth0},
  {destination: '::/0', next-hop-address: 'fe80::1', next-hop-interface: eth0},
  {destination: 10.9.0.0/16, next-hop-address: 192.0.2.2, next-hop-interface: eth0, metric: 5},
  {destination: '2001:db8:9::/48', next-hop-address: '2001:db8::2', next-hop-interface: eth0},
  {destination: 10.8.0.0/16, next-hop-address: 192.0.2.2, next-hop-interface: eth0, table-id: 7}]}
dns-resolver: {config: {server: [192.0.2.1, '2001:db8::1'], search: [example.com]}}",
        &[
            NAMES[0],
            "ip=192.0.2.10::192.0.2.1:255.255.255.0::eth0:none:9000",
            "ip=192.0.2.11:::255.255.255.255::eth0:none:9000",
            "ip=[2001:db8::10]::[fe80::1]:64::eth0:none:9000",
            "rd.route=10.9.0.0/16:192.0.2.2:eth0",
            "rd.route=[2001:db8:9::/48]:[2001:db8::2]:eth0",
            "nameserver=192.0.2.1",
            "nameserver=[2001:db8::1]",
        ],
        &[
            "no argument supports the metric of the route to 10.9.0.0/16",
            "the route to 10.8.0.0/16 is left out: it is in table 7",
            "no argument supports DNS search domains",
        ],
    );
}

#[test]
fn bonds_vlans_and_bridges() {
    check(
        "interfaces:
- {name: bond0, type: bond, state: up, link-aggregation: {mode: 802.3ad, port: [eth0, eth1],
   options: {miimon: 100, xmit_hash_policy: layer3+4, arp_ip_target: ''}}}
- {name: bond0.140, type: vlan, state: up, vlan: {base-iface: bond0, id: 140}}
- {name: storage, type: vlan, state: up, vlan: {base-iface: bond0, id: 141}}
- {name: br0, type: linux-bridge, state: up, bridge: {port: [{name: bond0.140}]}, ipv6: {enabled: true, autoconf: true, dhcp: true}}
- {name: eth7, type: ethernet, state: down}",
        &[
            NAMES[0],
            NAMES[1],
            "bond=bond0:eth0,eth1:mode=802.3ad,arp_ip_target=,miimon=100,xmit_hash_policy=layer3+4",
            "vlan=bond0.140:bond0",
            "bridge=br0:bond0.140",
            "ip=bond0:off",
            "ip=br0:auto6",
        ],
        &["storage is left out: an argument supports VLAN 141 only with a name like bond0.141 or vlan141"],
    );
}

#[test]
fn what_gives_addresses_and_who_is_meant() {
    check(
        "interfaces:
- {name: wan, type: ethernet, state: up, identifier: mac-address, mac-address: '52:54:00:00:00:0C', ipv4: {enabled: true, dhcp: true}}
- {name: enp9s0, type: ethernet, state: up, ipv6: {enabled: true, dhcp: true}}
- {name: vx, type: vxlan, state: up, vxlan: {base-iface: enp9s0, id: 7, remote: 192.0.2.9}}",
        &["ifname=wan:52:54:00:00:00:0c", "ip=enp9s0:dhcp6", "ip=wan:dhcp"],
        &["vx is left out: no argument supports vxlan"],
    );
    // Nothing can slip a second argument in.
    let kargs = parse_kargs(
        "interfaces: [{name: 'a init=x', type: bond, state: up, link-aggregation: {mode: 802.3ad, port: []}}]",
    );
    assert!(kargs.arguments.is_empty(), "{kargs:?}");
    assert_eq!(kargs.notes[0], "\"bond=a init=x::mode=802.3ad\" would be split on a command line");
}

#[test]
fn masks() {
    for (len, mask) in
        [(0, "0.0.0.0"), (1, "128.0.0.0"), (24, "255.255.255.0"), (32, "255.255.255.255"), (200, "255.255.255.255")]
    {
        assert_eq!(netmask(len).to_string(), mask);
    }
}
