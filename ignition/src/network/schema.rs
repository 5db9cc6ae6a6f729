//! What the members of NMState are to us: which of them name an interface, and which NetworkManager's keyfiles have no place for. The
//! library that converts them drops the latter without a word (docs/compatibility.md#static-network).

use super::Mac;
use serde_norway::{Mapping, Value};
use std::{collections::BTreeSet, sync::LazyLock};

/// Each member: its names, marks behind a colon, and its own members. Of a mapping in braces all members are listed, and others refused; in
/// parentheses are those with a mark, and the library refuses what it doesn't know. Lists are not shown.
///
/// `@` names an interface that must exist, `~` one that is only renamed, `%` may end with the zone of an address. Letters are [`REASONS`].
const SCHEMA: &str = "\
description:d hostname{running:f config:h} dns-resolver{running:f config{server:% search options}} \
route-rules{config{state:z family ip-from ip-to priority route-table fwmark fwmask action iif:~ \
suppress-prefix-length|suppress_prefixlength}} \
routes{running:f config{state:z destination next-hop-interface:~ next-hop-address metric table-id weight route-type cwnd source \
initcwnd initrwnd mtu quickack advmss lock-mtu vrf-name}} \
ovs-db:o ovn{bridge-mappings:o{localnet state bridge}} \
interfaces{name:~ profile-name description type driver:f state:i identifier mac-address:jrv permanent-mac-address:f pci-address mtu:l \
min-mtu:f max-mtu:f wait-ip mptcp controller:~ accept-all-mac-addresses:jr copy-mac-from:~u \
ipv4|ipv6{enabled dhcp:e autoconf:e dhcp-client-id:ey dhcp-duid:ey auto-dns:ey auto-gateway:ey auto-routes:ey \
auto-route-table-id:ey auto-route-metric:ey dhcp-send-hostname:ey dhcp-custom-hostname:eys forwarding prefix-route-metric:e \
addr-gen-mode token:e allow-extra-address:x \
address:e{ip:tbk prefix-length mptcp-flags:f protocol valid-life-time|valid-left|valid-lft \
preferred-life-time|preferred-left|preferred-lft:p}} \
ovs-db(external_ids other_config) \
802.1x{identity eap-methods private-key client-cert ca-cert private-key-password phase2-auth password} \
lldp(neighbors:f) dispatch alt-names:a veth{peer:~} \
ethernet(speed:n duplex:n sr-iov(max-vfs:f drivers-autoprobe:0 vfs:0(iface-name:f qos:q vlan-proto:q))) \
ethtool(pause(rx:g tx:g) coalesce(sample-interval:p stats-block-usecs:p tx-usecs-high:p tx-usecs-irq:p tx-usecs-low:p) \
ring(rx-max:f rx-jumbo-max:f rx-mini-max:f tx-max:f) fec(mode:m)) \
link-aggregation|bond(port|ports:@ ports-config(name:@) options(primary:~)) \
bridge(allow-extra-ports:x allow-extra-patch-ports:x options(gc-timer:f hello-timer:f) \
port|ports(name:@ vlan(enable-native:c) link-aggregation|bond(port|ports(name:@)))) \
vlan(base-iface:@) vxlan(base-iface:@) mac-vlan(base-iface:@) mac-vtap(base-iface:@) macsec(base-iface:@) infiniband(base-iface:@) \
vrf(port|ports:@) patch dpdk hsr ipvlan ip-tunnel libreswan}";

/// Why a marked member does nothing: the letter, when it is so, the words. Conditions are joined by `&`; one is `MEMBER=VALUE`, `!=`, or
/// `MEMBER^START`, of the same mapping or, behind a dot, of the interface. A member that is not there has an empty value.
const REASONS: &str = "\
d||a description of the whole network is stored nowhere
f||NMState reports it and does not set it
h||profiles have no hostname: set it for the host at the service, or in /etc/hostname
o||it is in Open vSwitch's own database
p||profiles have no place for it
a||NetworkManager gives no alternative names
x||a new host has none but what its profiles have
z|state=absent|a new host has nothing that could be removed
i|state=ignore|the interface gets no profile
i|state=unknown|the interface gets no profile
e|enabled!=true|without `enabled: true` the address family is off
y|dhcp!=true|it is for DHCP, which is off
s|dhcp-send-hostname=false|no name is sent
t|valid-life-time!=|NMState takes an address with a life time for one that DHCP gave, and does not set it
b|protocol!=|NMState takes an address with a protocol for one that a program gave, and does not set it
k|ip^fe80:|the kernel gives the link-local address
n|auto-negotiation!=false|it needs `auto-negotiation: false`
g|autoneg!=false|it needs `autoneg: false`
m|auto=true|`auto: true` chooses the mode
q|vlan-id=|it needs a vlan-id
0|total-vfs=false|there are no virtual functions
l|.type=loopback|profiles of the loopback interface have no place for it
r|.type=loopback|profiles of the loopback interface have no place for it
j|.type=infiniband|profiles of InfiniBand have no place for it
v|.type=vrf|a VRF takes no hardware address
u|.type!=bond&.type!=linux-bridge|only bonds and bridges take the address of a port
c|.type=ovs-bridge|ports of Open vSwitch have no place for it";

/// Types of interfaces that keyfiles are made of. The library makes an Ethernet interface of a type it doesn't know, and profiles without
/// their settings of some that it does.
const TYPES: &str = "bond dummy ethernet infiniband ipsec linux-bridge loopback mac-vlan mac-vtap macsec ovs-bridge ovs-interface veth vlan \
                     vrf vxlan";
/// What the library reads of an interface that is absent.
const KEPT: [&str; 6] = ["name", "type", "state", "identifier", "mac-address", "pci-address"];
/// Of a name that a message shows.
const SHOWN_CHARS: usize = 40;

/// A member, of [`SCHEMA`].
#[derive(Default)]
struct Member {
    names: &'static str,
    marks: &'static str,
    /// Whether it may have no members but these.
    closed: bool,
    members: Vec<Member>,
}

impl Member {
    fn find(&self, name: &str) -> Option<&Self> {
        self.members.iter().find(|member| member.names.split('|').any(|own| own == name))
    }
}

static ROOT: LazyLock<Member> =
    LazyLock::new(|| Member { closed: true, members: members(&mut &*SCHEMA), ..Member::default() });

/// The members up to the bracket that closes their mapping.
fn members(rest: &mut &'static str) -> Vec<Member> {
    let mut found = Vec::new();
    loop {
        *rest = rest.trim_start();
        let end = rest.find([' ', '{', '(', '}', ')']).unwrap_or(rest.len());
        let Some((word, behind)) = rest.split_at_checked(end).filter(|(word, _)| !word.is_empty()) else {
            *rest = rest.get(1..).unwrap_or_default();
            return found;
        };
        *rest = behind;
        let (names, marks) = word.split_once(':').unwrap_or((word, ""));
        let closed = rest.starts_with('{');
        let mut member = Member { names, marks, closed, members: Vec::new() };
        if closed || rest.starts_with('(') {
            *rest = rest.get(1..).unwrap_or_default();
            member.members = members(rest);
        }
        found.push(member);
    }
}

/// A place of a document: keys, and elements of lists with their name if they have one.
#[derive(Clone, Copy)]
pub(super) enum Step<'v> {
    Key(&'v Value),
    Element(usize, Option<&'v str>),
}

/// Where an interface is named.
pub(super) struct Named<'v> {
    pub(super) steps: Vec<Step<'v>>,
    pub(super) name: &'v str,
    /// Whether there must be such an interface.
    pub(super) must_exist: bool,
}

/// What of a network does nothing.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Note {
    /// `host0: interfaces[eth0].ethernet.speed`
    pub what: String,
    pub why: String,
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} does nothing: {}", self.what, self.why)
    }
}

/// What a document says beyond what the library reads.
#[derive(Default)]
pub(super) struct Reading<'v> {
    pub(super) named: Vec<Named<'v>>,
    pub(super) left_out: Vec<Note>,
    /// Members that NMState doesn't have, and where.
    pub(super) unknown: Vec<String>,
    /// What the library would make something else of.
    pub(super) replaced: Vec<String>,
    steps: Vec<Step<'v>>,
    interface: Option<&'v Mapping>,
    interfaces: BTreeSet<(&'v str, &'v str)>,
}

/// Reads a document by the schema.
pub(super) fn read(document: &Value) -> Reading<'_> {
    let mut reading = Reading::default();
    if let Value::Mapping(mapping) = document {
        reading.mapping(&ROOT, mapping);
    }
    reading
}

/// The value at a place.
pub(super) fn at<'d>(document: &'d mut Value, steps: &[Step<'_>]) -> Option<&'d mut Value> {
    steps.iter().try_fold(document, |value, step| match step {
        Step::Key(key) => value.get_mut(*key),
        Step::Element(index, _) => value.get_mut(*index),
    })
}

/// Names of a place, `interfaces[eth0].ethernet.speed`.
pub(super) fn place(steps: &[Step<'_>]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            Step::Key(key) if text.is_empty() => text = shown(key.as_str().unwrap_or_default()),
            Step::Key(key) => text = format!("{text}.{}", shown(key.as_str().unwrap_or_default())),
            Step::Element(_, Some(name)) => text = format!("{text}[{}]", shown(name)),
            Step::Element(index, None) => text = format!("{text}[{index}]"),
        }
    }
    text
}

fn shown(name: &str) -> String {
    name.chars().take(SHOWN_CHARS).collect::<String>().escape_debug().to_string()
}

impl<'v> Reading<'v> {
    fn mapping(&mut self, member: &'static Member, mapping: &'v Mapping) {
        let state = self.state(member, mapping);
        for (key, value) in mapping {
            let name = key.as_str().unwrap_or_default();
            self.steps.push(Step::Key(key));
            let gone = state.filter(|_| !KEPT.contains(&name));
            match member.find(name) {
                None if member.closed => self.unknown(member, name),
                None => {}
                Some(own) => {
                    let why = own.marks.chars().find_map(|mark| self.why(mark, mapping));
                    let why = why.filter(|(_, always)| says_something(value, *always)).map(|(why, _)| why.to_owned());
                    let gone = gone.map(|state| format!("the interface is {state}"));
                    let is_gone = gone.is_some();
                    if let Some(why) = gone.or(why) {
                        self.left_out.push(Note { what: place(&self.steps), why });
                    }
                    if !is_gone {
                        self.value(own, value, mapping);
                    }
                }
            }
            self.steps.pop();
        }
    }

    /// An interface is checked; its state is given if it has nothing but that.
    fn state(&mut self, member: &Member, mapping: &'v Mapping) -> Option<&'static str> {
        if member.names != "interfaces" {
            return None;
        }
        self.interface = Some(mapping);
        let text = |key: &str| mapping.get(key).and_then(Value::as_str).unwrap_or_default();
        let (name, kind) = (text("name"), text("type"));
        let state = ["absent", "ignore", "unknown"].into_iter().find(|state| *state == text("state"));
        if !kind.is_empty() && state.is_none() && !TYPES.split_whitespace().any(|known| known == kind) {
            let place = place(&self.steps);
            self.replaced.push(format!("{place} is of type {}; there are profiles of {TYPES}", shown(kind)));
        }
        let mac = text("mac-address");
        let is_mac = mac.parse::<Mac>().is_ok() || ["", "permanent", "preserve", "random", "stable"].contains(&mac);
        if !is_mac && kind != "infiniband" {
            self.replaced.push(format!("{}.mac-address is not a MAC address: {}", place(&self.steps), shown(mac)));
        }
        // The library tells those of user space by their type too.
        let space = ["ovs-bridge", "ipsec"].into_iter().find(|space| *space == kind).unwrap_or_default();
        if !self.interfaces.insert((name, space)) {
            self.replaced.push(format!("{} is there twice; only the last would count", place(&self.steps)));
        }
        state
    }

    fn value(&mut self, member: &'static Member, value: &'v Value, parent: &'v Mapping) {
        match value {
            Value::Sequence(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.steps.push(Step::Element(index, item.get("name").and_then(Value::as_str)));
                    self.value(member, item, parent);
                    self.steps.pop();
                }
            }
            Value::Mapping(mapping) => self.mapping(member, mapping),
            Value::String(text) => {
                let (mut name, mut must_exist) = (text.as_str(), member.marks.contains('@'));
                match member.marks.chars().next() {
                    Some('%') => match text.split_once('%') {
                        Some((_, zone)) => name = zone,
                        None => return,
                    },
                    // A port of Open vSwitch that is itself a bond is made by its name.
                    Some('@') => {
                        must_exist &= !["link-aggregation", "bond"].iter().any(|bond| parent.contains_key(bond))
                    }
                    Some('~') => {}
                    _ => return,
                }
                self.named.push(Named { steps: self.steps.clone(), name, must_exist });
            }
            _ => {}
        }
    }

    fn unknown(&mut self, member: &'static Member, name: &str) {
        let place = match self.steps.split_last().map(|(_, above)| place(above)) {
            Some(place) if !place.is_empty() => place,
            _ => "the document".to_owned(),
        };
        let known = member.members.iter().flat_map(|member| member.names.split('|'));
        // A password may have become a key.
        let name = match member.find("password") {
            Some(_) => "member of that name".to_owned(),
            None => format!("member {}", shown(name)),
        };
        let meant = kernel::spelling::nearest(self.key(), known.clone());
        let meant = meant.map_or_else(
            || format!("it may have {}", known.collect::<Vec<_>>().join(", ")),
            |meant| format!("did you mean {meant}?"),
        );
        self.unknown.push(format!("{place} has no {name}; {meant}"));
    }

    fn key(&self) -> &'v str {
        match self.steps.last() {
            Some(Step::Key(key)) => key.as_str().unwrap_or_default(),
            _ => "",
        }
    }

    /// Why a member with the mark does nothing, and whether it always does.
    fn why(&self, mark: char, mapping: &'v Mapping) -> Option<(&'static str, bool)> {
        let holds = |condition: &str| {
            let at = condition.find(['=', '!', '^']).unwrap_or(condition.len());
            let (member, test) = condition.split_at_checked(at).unwrap_or_default();
            let found = match member.strip_prefix('.') {
                Some(member) => self.interface.and_then(|interface| interface.get(member)),
                None => mapping.get(member),
            };
            let found = found.map(plain).unwrap_or_default();
            match (test.strip_prefix("!="), test.strip_prefix('=')) {
                (Some(value), _) => found != value,
                (_, Some(value)) => found == value,
                _ => test.strip_prefix('^').is_some_and(|start| found.starts_with(start)),
            }
        };
        REASONS.lines().find_map(|line| {
            let (when, why) = line.strip_prefix(mark)?.strip_prefix('|')?.split_once('|')?;
            (when.is_empty() || when.split('&').all(holds)).then_some((why, when.is_empty()))
        })
    }
}

/// Whether the value asks for something. What is false where something else is off asks for nothing.
fn says_something(value: &Value, always: bool) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => always || *value,
        Value::String(text) => !text.is_empty(),
        Value::Sequence(items) => !items.is_empty(),
        Value::Mapping(members) => !members.is_empty(),
        _ => true,
    }
}

/// A scalar in one way to write it.
fn plain(value: &Value) -> String {
    let text = match value {
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.to_lowercase(),
        Value::Null => String::new(),
        _ => "several".to_owned(),
    };
    match text.as_str() {
        "yes" | "on" | "y" | "1" => "true".to_owned(),
        "no" | "off" | "n" | "0" => "false".to_owned(),
        _ => text,
    }
}
