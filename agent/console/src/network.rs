//! The network of one interface: from a form to NetworkManager's profiles.

use crate::form::{Field, Form};
use ignition::network::{NetworkError, State};
use serde_json::{Value, json};
use std::{fmt::Display, net::IpAddr, str::FromStr};

const TITLE: &str = "Network of one interface";
const HELP: &[&str] = &[
    "Up, Down: field    Left, Right: choice    Enter: show the profiles    Esc: back",
    "Several DNS servers are separated by spaces. Without any, DHCP's are used.",
];
const METHODS: [[&str; 3]; 2] = [["DHCP", "static", "off"], ["automatic", "static", "off"]];
/// IEEE 802.1Q, 9.6: the others are reserved.
const VLANS: std::ops::RangeInclusive<u16> = 1..=4094;

/// Fields by their place in the form.
const INTERFACE: usize = 0;
const VLAN: usize = 1;
/// Method, address and gateway of each family.
const FAMILIES: [usize; 2] = [2, 5];
const DNS: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Method {
    Auto,
    Static { ip: IpAddr, prefix_len: u8, gateway: Option<IpAddr> },
    Off,
}

/// What a form asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    interface: String,
    vlan: Option<u16>,
    /// IPv4, IPv6.
    methods: [Method; 2],
    dns: Vec<IpAddr>,
}

/// A profile as NetworkManager reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) uuid: String,
}

/// What will be written and activated, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) profiles: Vec<Profile>,
    pub(crate) gateways: Vec<IpAddr>,
}

impl Plan {
    /// The profiles as they are shown.
    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = |profile: &Profile| {
            let name = std::iter::once(format!("# {}", profile.name));
            name.chain(profile.text.lines().map(str::to_owned)).collect::<Vec<_>>()
        };
        self.profiles.iter().flat_map(lines).collect()
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    #[error("the settings are refused")]
    State(#[from] NetworkError),
    #[error("the profile {0} has no uuid")]
    NoUuid(String),
}

pub(crate) fn form(interfaces: Vec<String>) -> Form {
    let method = |family: usize| METHODS.get(family).into_iter().flatten().map(|name| (*name).to_owned()).collect();
    let fields = vec![
        Field::choice("Interface", interfaces),
        Field::text("VLAN (1-4094, or empty)", ""),
        Field::choice("IPv4", method(0)),
        Field::text("  address/prefix", ""),
        Field::text("  gateway", ""),
        Field::choice("IPv6", method(1)),
        Field::text("  address/prefix", ""),
        Field::text("  gateway", ""),
        Field::text("DNS servers", ""),
    ];
    Form::new(TITLE, HELP, fields)
}

/// The settings; else the field that is wrong, and why.
pub(crate) fn parse(form: &Form) -> Result<Settings, (usize, String)> {
    let interface = form.get(INTERFACE).to_owned();
    if interface.is_empty() {
        return Err((INTERFACE, "this machine has no Ethernet interface".to_owned()));
    }
    let vlan = match form.get(VLAN) {
        "" => None,
        text => Some(parsed(VLAN, text, "a number from 1 to 4094")?),
    };
    if vlan.is_some_and(|vlan| !VLANS.contains(&vlan)) {
        return Err((VLAN, format!("'{}' is not a number from 1 to 4094", form.get(VLAN))));
    }
    let methods = [method(form, 0)?, method(form, 1)?];
    let dns = form.get(DNS).split([' ', ',']).filter(|word| !word.is_empty());
    let dns: Vec<IpAddr> = dns.map(|word| parsed(DNS, word, "an IP address")).collect::<Result<_, _>>()?;
    if let Some(server) = dns.iter().find(|ip| methods.get(usize::from(ip.is_ipv6())) == Some(&Method::Off)) {
        return Err((DNS, format!("{server} cannot be asked: its version of IP is off")));
    }
    Ok(Settings { interface, vlan, methods, dns })
}

fn method(form: &Form, family: usize) -> Result<Method, (usize, String)> {
    let at = FAMILIES.get(family).copied().unwrap_or_default();
    let names = METHODS.get(family).copied().unwrap_or_default();
    let [automatic, static_, _] = names;
    match form.get(at) {
        chosen if chosen == automatic => Ok(Method::Auto),
        chosen if chosen == static_ => {
            let (kind, bits) = if family == 0 { ("IPv4", 32) } else { ("IPv6", 128) };
            let expected = format!(
                "an {kind} address and prefix such as {}",
                if family == 0 { "192.0.2.7/24" } else { "2001:db8::7/64" }
            );
            let (address, gateway) = (at + 1, at + 2);
            let text = form.get(address);
            let (ip, len) = text.split_once('/').unwrap_or((text, ""));
            let ip: IpAddr = parsed(address, ip, &expected)?;
            let prefix_len = parsed(address, len, &expected)?;
            let fits = |ip: &IpAddr| ip.is_ipv6() == (family == 1);
            if !fits(&ip) || !(1..=bits).contains(&prefix_len) || ip.is_unspecified() || ip.is_multicast() {
                return Err((address, format!("'{text}' is not {expected}")));
            }
            let gateway_ip: Option<IpAddr> = match form.get(gateway) {
                "" => None,
                text => Some(parsed(gateway, text, &format!("an {kind} address"))?),
            };
            if let Some(other) = gateway_ip.filter(|ip| !fits(ip)) {
                return Err((gateway, format!("'{other}' is not an {kind} address")));
            }
            Ok(Method::Static { ip, prefix_len, gateway: gateway_ip })
        }
        _ => Ok(Method::Off),
    }
}

fn parsed<T: FromStr>(field: usize, text: &str, expected: &str) -> Result<T, (usize, String)> {
    text.parse().map_err(|_| (field, format!("'{text}' is not {expected}")))
}

impl Settings {
    /// NMState, in the subset of YAML that is JSON: names need no quotes of ours.
    fn nmstate(&self) -> String {
        let name = self.name();
        let mut interfaces = Vec::new();
        let [ipv4, ipv6] = [0, 1].map(|family| self.family(family));
        let mut interface = json!({"name": name, "type": "ethernet", "state": "up", "ipv4": ipv4, "ipv6": ipv6});
        if let (Some(vlan), Some(members)) = (self.vlan, interface.as_object_mut()) {
            let off = json!({"enabled": false});
            interfaces
                .push(json!({"name": self.interface, "type": "ethernet", "state": "up", "ipv4": off, "ipv6": off}));
            members.insert("type".to_owned(), "vlan".into());
            members.insert("vlan".to_owned(), json!({"base-iface": self.interface, "id": vlan}));
        }
        interfaces.push(interface);
        let routes: Vec<Value> = self.gateways().map(|gateway| route(&name, gateway)).collect();
        json!({"interfaces": interfaces, "routes": {"config": routes},
            "dns-resolver": {"config": {"server": self.dns}}})
        .to_string()
    }

    /// The interface that has the addresses.
    fn name(&self) -> String {
        self.vlan.map_or_else(|| self.interface.clone(), |vlan| format!("{}.{vlan}", self.interface))
    }

    fn family(&self, family: usize) -> Value {
        // Servers from DHCP would be asked besides the given ones.
        let auto_dns = self.dns.is_empty();
        match self.methods.get(family) {
            Some(Method::Auto) if family == 0 => json!({"enabled": true, "dhcp": true, "auto-dns": auto_dns}),
            Some(Method::Auto) => json!({"enabled": true, "dhcp": true, "autoconf": true, "auto-dns": auto_dns}),
            Some(Method::Static { ip, prefix_len, .. }) => {
                json!({"enabled": true, "dhcp": false, "address": [{"ip": ip, "prefix-length": prefix_len}]})
            }
            Some(Method::Off) | None => json!({"enabled": false}),
        }
    }

    fn gateways(&self) -> impl Iterator<Item = IpAddr> {
        self.methods.iter().filter_map(|method| match method {
            Method::Static { gateway, .. } => *gateway,
            Method::Auto | Method::Off => None,
        })
    }

    /// The profiles. The interface below a VLAN comes first.
    pub(crate) fn plan(&self) -> Result<Plan, PlanError> {
        let state = State::parse(0, &self.nmstate())?;
        let profile = |name: String, text: String| {
            let uuid = text.lines().find_map(|line| line.strip_prefix("uuid=")).map(str::to_owned);
            let uuid = uuid.ok_or_else(|| PlanError::NoUuid(name.clone()))?;
            Ok(Profile { name, text, uuid })
        };
        let profiles: Result<Vec<_>, PlanError> =
            state.keyfiles().iter().cloned().map(|keyfile| profile(keyfile.name, keyfile.text)).collect();
        let mut profiles = profiles?;
        let below = format!("{}.nmconnection", self.interface);
        kernel::order::sort_by_key(&mut profiles, |profile| profile.name != below);
        Ok(Plan { profiles, gateways: self.gateways().collect() })
    }
}

fn route(interface: &str, gateway: IpAddr) -> Value {
    let destination: &dyn Display = if gateway.is_ipv4() { &"0.0.0.0/0" } else { &"::/0" };
    json!({"destination": destination.to_string(), "next-hop-address": gateway, "next-hop-interface": interface})
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::keys::Key;

    /// A form in which these fields are written, or chosen by so many steps.
    pub(crate) fn filled(values: &[(usize, &str)]) -> Form {
        let mut form = form(vec!["eth0".into(), "eth1".into()]);
        for (at, value) in values {
            form.focus = *at;
            for c in value.chars() {
                form.key(if c == '>' { Key::Right } else { Key::Char(c) });
            }
        }
        form
    }

    #[test]
    fn dhcp_is_what_an_empty_form_says() {
        let settings = parse(&filled(&[])).unwrap();
        assert_eq!((settings.methods, settings.interface.as_str()), ([Method::Auto, Method::Auto], "eth0"));
    }

    #[test]
    fn a_static_network_becomes_profiles() {
        let values =
            [(0, ">"), (1, "140"), (2, ">"), (3, "192.0.2.7/24"), (4, "192.0.2.1"), (5, ">>"), (8, "192.0.2.53")];
        let plan = parse(&filled(&values)).unwrap().plan().unwrap();
        let names: Vec<_> = plan.profiles.iter().map(|profile| profile.name.as_str()).collect();
        assert_eq!(names, ["eth1.nmconnection", "eth1.140.nmconnection"]);
        let vlan = &plan.profiles[1];
        for line in ["[vlan]", "id=140", "method=manual", "192.0.2.7/24", "dns=192.0.2.53", "method=disabled"] {
            assert!(vlan.text.contains(line), "{line} in {}", vlan.text);
        }
        assert!(vlan.text.contains("192.0.2.1") && vlan.uuid.len() == 36, "{}", vlan.text);
        assert_eq!(plan.gateways, ["192.0.2.1".parse::<IpAddr>().unwrap()]);
        let dhcp = parse(&filled(&[(8, "192.0.2.53")])).unwrap().plan().unwrap();
        let text = &dhcp.profiles[0].text;
        assert!(text.contains("method=auto") && text.contains("ignore-auto-dns=true"), "{text}");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_field() {
        let wrong = |values: &[(usize, &str)]| parse(&filled(values)).unwrap_err();
        assert_eq!(wrong(&[(1, "4095")]), (1, "'4095' is not a number from 1 to 4094".into()));
        assert_eq!(wrong(&[(1, "x")]).0, 1);
        for address in ["", "192.0.2.7", "192.0.2.7/33", "192.0.2.7/0", "2001:db8::7/24", "0.0.0.0/8", "x/24"] {
            assert_eq!(wrong(&[(2, ">"), (3, address)]).0, 3, "{address}");
        }
        assert_eq!(wrong(&[(2, ">"), (3, "192.0.2.7/24"), (4, "2001:db8::1")]).0, 4);
        assert_eq!(wrong(&[(5, ">"), (6, "192.0.2.7/24")]).0, 6);
        assert_eq!(wrong(&[(8, "192.0.2.1 dns")]).0, 8);
        assert_eq!(wrong(&[(5, ">>"), (8, "2001:db8::53")]).0, 8);
        assert_eq!(parse(&form(Vec::new())).unwrap_err().0, 0);
    }
}
