//! Every member of NMState that the reader knows is converted, refused, or listed.

use super::schema::{self, Step};
use super::state::State;
use kernel::order::Gather;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde_norway::Value;
use std::collections::{BTreeMap, BTreeSet};

const FIELDS: &str = include_str!("tests/fields.yaml");

/// Documents that are refused as they are, by what they have.
const REFUSED: [(&str, &str); 5] = [
    ("dispatch", "Dispatch script is not supported"),
    ("hsr", "interfaces[hsr0] is of type hsr; there are profiles of bond dummy ethernet"),
    ("ipvlan", "interfaces[iv0] is of type ipvlan"),
    ("ip-tunnel", "interfaces[tun0] is of type ip-tunnel"),
    ("xfrm", "interfaces[xfrm0] is of type xfrm"),
];
/// Members without another value that the library accepts beside what else the document has, by their place: each is needed for the rest
/// of it, or must be what another member is.
const NEEDED: [&str; 16] = [
    "route-rules.config[0].family",
    "route-rules.config[1].family",
    "interfaces[bond0].link-aggregation.port[0]",
    "interfaces[bond0].link-aggregation.port[1]",
    "routes.config[0].next-hop-interface",
    "ovn.bridge-mappings[0].bridge",
    "ovn.bridge-mappings[1].state",
    "interfaces[eth0].identifier",
    "interfaces[eth0].ipv4.auto-route-metric",
    "interfaces[eth0].ipv4.prefix-route-metric",
    "interfaces[eth0].ipv6.dhcp",
    "interfaces[bond0].link-aggregation.mode",
    "interfaces[bond0].link-aggregation.options.xmit_hash_policy",
    "interfaces[eth1].controller",
    "interfaces[br0].bridge.port[eth0].vlan.enable-native",
    "interfaces[ms0].macsec.mka-cak",
];

/// Lines by the name of the profile.
type Profiles = BTreeMap<String, Vec<String>>;

/// The profiles of a document, and the places that do nothing.
fn converted(document: &Value) -> Result<(Profiles, Vec<String>), String> {
    let text = serde_norway::to_string(document).unwrap();
    let state = State::parse(0, &text).map_err(|error| error.to_string())?;
    let mut files = BTreeMap::new();
    for file in state.keyfiles() {
        let mut lines: Vec<String> = file.text.lines().map(str::to_owned).collect();
        lines.sort();
        files.insert(file.name.clone(), lines);
    }
    Ok((files, state.notes().iter().map(|note| note.what.trim_start_matches("host0: ").to_owned()).collect()))
}

fn scalars<'v>(value: &'v Value, steps: &mut Vec<Step<'v>>, found: &mut Vec<Vec<Step<'v>>>) {
    match value {
        Value::Mapping(members) if !members.is_empty() => members.iter().for_each(|(key, value)| {
            steps.push(Step::Key(key));
            scalars(value, steps, found);
            steps.pop();
        }),
        Value::Sequence(items) if !items.is_empty() => items.iter().enumerate().for_each(|(index, item)| {
            steps.push(Step::Element(index, item.get("name").and_then(Value::as_str)));
            scalars(item, steps, found);
            steps.pop();
        }),
        _ => found.push(steps.clone()),
    }
}

/// Other values of the kind, one of which the library accepts.
fn others(value: &Value) -> Vec<Value> {
    const WORDS: &str = "up down full half eth0 eth1 802.1q 802.1ad any none all slow fast bandwidth always active connected bridge vepa \
                         off mac layer2+3 trunk access mvrp eui64 ll llt signal 10.7.0.0/16 192.0.2.77 2001:db8::77 52:54:00:00:00:77 \
                         01:80:C2:00:00:07 ::77 rs delivered blackhole unreachable 200sec active-backup balance-tcp transport strict \
                         absent ipv6 enabled balance-rr check stable-privacy";
    match value {
        Value::Bool(value) => vec![(!value).into()],
        Value::Number(number) => [1, -1, 2].map(|more| (number.as_i64().unwrap() + more).into()).to_vec(),
        Value::String(text) => {
            let near = [format!("{text}x"), format!("{text}1")];
            let words = WORDS.split_whitespace().filter(|word| word != text).map(str::to_owned);
            near.into_iter().chain(words).map(Value::from).collect()
        }
        _ => vec![Value::Sequence(vec!["x".into()])],
    }
}

#[test]
fn every_member_is_converted_or_refused_or_listed() {
    let (mut wrong, mut listed, mut members) = (Vec::new(), BTreeSet::new(), 0);
    for part in FIELDS.split("\n--- # ").skip(1) {
        let (title, text) = part.split_once('\n').unwrap();
        let document: Value = serde_norway::from_str(text).unwrap();
        let (before, notes) = match converted(&document) {
            Ok(converted) => converted,
            Err(error) => {
                let reason = REFUSED.iter().find(|(what, _)| *what == title);
                assert!(reason.is_some_and(|(_, reason)| error.contains(reason)), "{title}: {error}");
                continue;
            }
        };
        let mut places = Vec::new();
        scalars(&document, &mut Vec::new(), &mut places);
        for steps in places {
            members += 1;
            let own =
                schema::at(&mut document.clone(), &steps[..steps.len() - 1]).and_then(|own| own.get("state").cloned());
            if own
                .as_ref()
                .and_then(Value::as_str)
                .is_some_and(|state| ["absent", "ignore", "unknown"].contains(&state))
            {
                // It asks that nothing is there.
                let place = schema::place(&steps);
                listed.extend(notes.iter().find(|note| place.starts_with(note.as_str())).cloned());
                continue;
            }
            let place = schema::place(&steps);
            // The note about an address is at what tells it from others.
            let told = notes.iter().find(|note| place.starts_with(note.trim_end_matches(".ip")));
            listed.extend(told.cloned());
            let value = schema::at(&mut document.clone(), &steps).cloned().unwrap();
            let (mut changed, mut same) = (false, false);
            for other in others(&value) {
                let mut document = document.clone();
                *schema::at(&mut document, &steps).unwrap() = other;
                match converted(&document) {
                    Ok((after, _)) if after == before => same = true,
                    Ok(_) => {
                        changed = true;
                        break;
                    }
                    Err(_) => {}
                }
                // What is listed must only be shown to do nothing once.
                if told.is_some() && same {
                    break;
                }
            }
            if !changed {
                let mut document = document.clone();
                let (last, above) = steps.split_last().unwrap();
                match (schema::at(&mut document, above), last) {
                    (Some(Value::Mapping(members)), Step::Key(key)) => drop(members.remove(*key)),
                    (Some(Value::Sequence(items)), Step::Element(index, _)) => drop(items.remove(*index)),
                    _ => unreachable!(),
                }
                changed = converted(&document).is_ok_and(|(after, _)| after != before);
            }
            match (told, changed, same) {
                (None, false, true) => wrong.push(format!("{title}: {place} is dropped without a word")),
                (None, false, false) if !is_needed(&place) => wrong.push(format!("{title}: {place} is not understood")),
                (Some(note), true, false) => {
                    wrong.push(format!("{title}: {place} has an effect, though {note} is listed"))
                }
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{members} members; listed: {listed:#?}");
    assert!(members > 400 && listed.len() > 60, "{members} members, {} listed", listed.len());
}

fn is_needed(place: &str) -> bool {
    let own = ["name", "type", "state"].iter().any(|own| place.ends_with(&format!("].{own}")));
    own || place.ends_with(".enabled") || NEEDED.contains(&place)
}

/// Tells the members of the type that it should read.
struct Asked<'a>(&'a mut BTreeSet<&'static str>);

impl<'de> Deserializer<'de> for Asked<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(Self::Error::custom("only structs have members"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.extend(fields);
        Err(Self::Error::custom("told"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct seq tuple
        tuple_struct map enum identifier ignored_any
    }
}

fn members_of<T: DeserializeOwned>(found: &mut BTreeSet<&'static str>) {
    let before = found.len();
    let _ = T::deserialize(Asked(found));
    assert!(found.len() >= before);
}

#[test]
fn the_documents_have_every_member_that_the_library_reads() {
    use nmstate::*;
    let mut known = BTreeSet::new();
    macro_rules! ask {
        ($($kind:ty)*) => { $(members_of::<$kind>(&mut known);)* };
    }
    ask!(NetworkState HostNameState DnsState DnsClientState RouteRules RouteRuleEntry Routes RouteEntry OvsDbGlobalConfig
        OvnConfiguration OvnBridgeMapping InterfaceIpv4 InterfaceIpv6 InterfaceIpAddr MptcpConfig OvsDbIfaceConfig Ieee8021XConfig
        LldpConfig EthtoolConfig EthtoolPauseConfig EthtoolCoalesceConfig EthtoolRingConfig EthtoolFecConfig DispatchConfig AltNameEntry
        EthernetConfig VethConfig SrIovConfig SrIovVfConfig BondConfig BondOptions BondPortConfig LinuxBridgeConfig LinuxBridgeOptions
        LinuxBridgePortConfig LinuxBridgeStpOptions BridgePortVlanConfig OvsBridgeConfig OvsBridgeOptions OvsBridgePortConfig
        OvsBridgeBondConfig OvsBridgeBondPortConfig OvsPatchConfig OvsDpdkConfig VlanConfig VlanQosMapping VxlanConfig MacVlanConfig
        MacVtapConfig VrfConfig InfiniBandConfig MacSecConfig HsrConfig IpVlanConfig IpTunnelConfig LibreswanConfig);
    assert!(known.len() > 250, "{}", known.len());
    // Other names of members, which stand for the same.
    let aliases = "ports valid-left valid-lft preferred-left preferred-lft suppress_prefixlength accept-all-mac balance-slb bond n_rxq \
                   dpdk-lsc-interrupt";
    let aliases: BTreeSet<&str> = aliases.split_whitespace().gather();
    let tested = |name: &&&str| {
        let key = [format!("{name}:"), format!("'{name}':")];
        !aliases.contains(**name) && !key.iter().any(|key| FIELDS.contains(key.as_str()))
    };
    let untested: Vec<_> = known.iter().filter(tested).collect();
    assert!(untested.is_empty(), "the library reads members that no document has: {untested:?}");
}

#[test]
fn what_is_misspelt_or_twice_or_of_another_kind_is_refused_with_its_place() {
    let eth0 = "name: eth0, type: ethernet, state: up";
    for (text, said) in [
        (format!("interfaces: [{{{eth0}, mtv: 5}}]"), "interfaces[eth0] has no member mtv; did you mean mtu?"),
        (
            format!("{{interface: [], interfaces: [{{{eth0}}}]}}"),
            "the document has no member interface; did you mean interfaces?",
        ),
        (
            format!("interfaces: [{{{eth0}, ipv4: {{enabled: true, adress: []}}}}]"),
            "interfaces[eth0].ipv4 has no member adress; did you mean address?",
        ),
        // The library drops these.
        (
            format!("interfaces: [{{{eth0}, veth: {{peer: a, peers: b}}}}]"),
            "interfaces[eth0].veth has no member peers; did you mean peer?",
        ),
        (
            format!("interfaces: [{{{eth0}, 802.1x: {{identity: me, hunter2: x}}}}]"),
            "interfaces[eth0].802.1x has no member of that name; it may have identity, eap-methods",
        ),
        (
            format!(
                "{{interfaces: [{{{eth0}}}], routes: {{config: [{{destination: 0.0.0.0/0, gateway: 192.0.2.1}}]}}}}"
            ),
            "routes.config[0] has no member gateway; ",
        ),
        (
            format!("interfaces: [{{{eth0}}}, {{{eth0}, mtu: 1400}}]"),
            "interfaces[eth0] is there twice; only the last would count",
        ),
        (format!("interfaces: [{{{eth0}, mtu: 1400, mtu: 1500}}]"), "it can't be read"),
        (
            "interfaces: [{name: eth0, type: ethernte, state: up}]".to_owned(),
            "interfaces[eth0] is of type ethernte; there are profiles of",
        ),
        (
            "interfaces: [{name: tun0, type: tun, state: up}]".to_owned(),
            "interfaces[tun0] is of type tun; there are profiles of",
        ),
    ] {
        let error = State::parse(0, &text).unwrap_err().to_string();
        assert!(error.contains(said) && !error.contains("hunter2"), "{text}: {error}");
    }
    // What names tell apart only with their types, and interfaces without one.
    for good in [
        "interfaces: [{name: br0, type: ovs-bridge, state: up, bridge: {port: [{name: br0}]}}, {name: br0, type: ovs-interface, state: up}]",
        "interfaces: [{name: eth0, state: up, mtu: 1400}]",
    ] {
        State::parse(0, good).unwrap();
    }
}
