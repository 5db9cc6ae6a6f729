//! The BareMetalHost objects in the bootstrap's config: each gets the hardware of a host that is there, since no operator inspected it.

use super::config;
use super::error::{EditError, shown};
use super::settings::{Node, NodeSettings};
use api::{Cidr, Disk, HostRole, Interface, Inventory};
use ignition::model::File;
use ignition::yaml;
use kernel::order;
use serde_json::{Value, json};

/// Parts of the paths of these objects.
const PATHS: [&str; 2] = ["openshift-cluster-api_hosts", "openshift-cluster-api_arbiter_hosts"];
const KIND: &str = "BareMetalHost";
/// Where the operator finds a status that it did not make.
const ANNOTATION: &str = "baremetalhost.metal3.io/status";
/// A larger one is a mistake.
const MAX_BYTES: usize = 1 << 20;

pub(super) fn is_object(file: &File<'_>) -> bool {
    PATHS.iter().any(|part| file.path.contains(part))
}

/// The hosts that no object stands for yet: masters, arbiters, workers, each by name.
pub(super) struct Unmatched<'s> {
    settings: &'s NodeSettings,
    nodes: Vec<&'s Node>,
}

impl<'s> Unmatched<'s> {
    pub(super) fn new(settings: &'s NodeSettings) -> Self {
        let mut nodes: Vec<&Node> = settings.nodes.iter().collect();
        order::sort_by_key(&mut nodes, |node| (role(node), &node.name));
        Self { settings, nodes }
    }

    /// The contents of an object's file for the host that it stands for.
    pub(super) fn matched(&mut self, file: &File<'_>) -> Result<String, EditError> {
        let refused = |reason: &str| EditError::BareMetalHost { path: shown(&file.path), reason: reason.to_owned() };
        let text = config::contents(file).ok_or_else(|| refused("it is not in the config itself"))?;
        let mut object: Value = yaml::document(&text, MAX_BYTES).map_err(|error| refused(&error.to_string()))?;
        if object.get("kind").is_none_or(|kind| kind != KIND) {
            return Err(refused("it is of another kind"));
        }
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let node = self.take(name)?;
        self.fill(&mut object, node).ok_or_else(|| refused("a part of it is not a mapping"))?;
        // JSON is YAML in which no text can be taken for another type.
        Ok(format!("{object:#}\n"))
    }

    /// The host of the object's name; without one, the first that is left of the role that the name says.
    fn take(&mut self, name: &str) -> Result<&'s Node, EditError> {
        let named = self.nodes.iter().position(|node| node.name == name);
        let wanted = if name.contains("-master-") { Role::Master } else { Role::Worker };
        let found = named.or_else(|| self.nodes.iter().position(|node| role(node) == wanted));
        found.map(|at| self.nodes.remove(at)).ok_or(EditError::Hosts { role: wanted.name() })
    }

    /// `None` if the object is of another shape.
    fn fill(&self, object: &mut Value, node: &Node) -> Option<()> {
        let status = json!({
            "errorCount": 0,
            "errorMessage": "",
            "goodCredentials": {},
            "hardware": self.hardware(node),
            "hardwareProfile": "",
            "operationalStatus": "",
            "poweredOn": true,
            "provisioning": {"ID": "", "image": {"url": ""}, "state": ""},
            "triedCredentials": {},
        });
        let annotations = mapping(mapping(object, "metadata")?, "annotations")?;
        annotations.as_object_mut()?.insert(ANNOTATION.to_owned(), status.to_string().into());
        if self.settings.has_metal() {
            mapping(object, "spec")?.as_object_mut()?.insert("externallyProvisioned".to_owned(), true.into());
        }
        object.as_object_mut()?.remove("status");
        Some(())
    }

    fn hardware(&self, node: &Node) -> Value {
        let Inventory { cpu, memory, system_vendor: vendor, interfaces, disks, .. } = &node.inventory;
        let cpu = cpu.as_ref().map(|cpu| {
            object([
                ("arch", json!(cpu.architecture)),
                ("clockMegahertz", number(cpu.frequency)),
                ("count", json!(cpu.count)),
                ("flags", json!(cpu.flags)),
                ("model", json!(cpu.model_name)),
            ])
        });
        let vendor = vendor.as_ref().map(|vendor| {
            object([
                ("manufacturer", json!(vendor.manufacturer)),
                ("productName", json!(vendor.product_name)),
                ("serialNumber", json!(vendor.serial_number)),
            ])
        });
        object([
            ("cpu", json!(cpu)),
            ("hostname", json!(node.requested_hostname)),
            ("nics", interfaces.iter().flat_map(|nic| self.nics(nic)).collect()),
            ("ramMebibytes", json!(memory.as_ref().map(|memory| memory.physical_bytes >> 20))),
            ("storage", disks.iter().map(disk).collect()),
            ("systemVendor", json!(vendor)),
        ])
    }

    /// An entry for IPv4, or else for IPv6; for both in a cluster of both.
    fn nics(&self, nic: &Interface) -> Vec<Value> {
        let of_family = |addresses: &Vec<String>| {
            self.address(addresses).map(|address| {
                object([
                    ("ip", json!(address)),
                    ("mac", json!(nic.mac_address)),
                    ("model", json!(nic.product)),
                    ("name", json!(nic.name)),
                    // The real service divides by 1024.
                    ("speedGbps", json!(nic.speed_mbps / 1024)),
                ])
            })
        };
        let families = [&nic.ipv4_addresses, &nic.ipv6_addresses].into_iter().filter_map(of_family);
        families.take(if self.settings.dual_stack { 2 } else { 1 }).collect()
    }

    /// The first in a network of the nodes, else the first; none without any.
    fn address(&self, texts: &[String]) -> Option<String> {
        let first = texts.first()?;
        let is_of_nodes = |cidr: &Cidr| self.settings.machine_networks.iter().any(|own| own.contains(cidr.address));
        let found = texts.iter().filter_map(|text| text.parse().ok()).find(is_of_nodes).or_else(|| first.parse().ok());
        Some(found.map(|cidr: Cidr| cidr.address.to_string()).unwrap_or_default())
    }
}

/// A role that objects are matched by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Master,
    Arbiter,
    Worker,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Master => "master",
            Self::Arbiter => "arbiter",
            Self::Worker => "worker",
        }
    }
}

fn role(node: &Node) -> Role {
    match node.role {
        HostRole::Master | HostRole::Bootstrap => Role::Master,
        HostRole::Arbiter => Role::Arbiter,
        HostRole::Worker | HostRole::AutoAssign => Role::Worker,
    }
}

fn disk(disk: &Disk) -> Value {
    object([
        ("hctl", json!(disk.hctl)),
        ("model", json!(disk.model)),
        ("name", json!(if disk.by_path.is_empty() { &disk.path } else { &disk.by_path })),
        ("rotational", json!(disk.drive_type == "HDD")),
        ("serialNumber", json!(disk.serial)),
        ("sizeBytes", json!(disk.size_bytes)),
        ("vendor", json!(disk.vendor)),
        ("wwn", json!(disk.wwn)),
    ])
}

/// Without a fraction, where it has none.
fn number(value: f64) -> Value {
    serde_json::from_str(&value.to_string()).unwrap_or_default()
}

/// An object of these fields without those that have no value.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let is_set = |value: &Value| match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(_) => true,
    };
    let set = fields.into_iter().filter(|(_, value)| is_set(value));
    Value::Object(set.map(|(key, value)| (key.to_owned(), value)).collect())
}

/// The mapping at `key`, made if it is missing.
fn mapping<'v>(value: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    let inner = value.as_object_mut()?.entry(key).or_insert(Value::Null);
    if inner.is_null() {
        *inner = json!({});
    }
    Some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(role: HostRole, name: &str) -> Node {
        Node { role, name: name.into(), ..Node::default() }
    }

    fn bmh(text: &str) -> File<'static> {
        config::file("/opt/openshift/manifests/99_openshift-cluster-api_hosts-0.yaml", config::text_url(text))
    }

    fn named(name: &str) -> File<'static> {
        bmh(&format!(
            "apiVersion: metal3.io/v1alpha1\nkind: {KIND}\nmetadata:\n  name: {name}\nspec:\n  online: true\n"
        ))
    }

    fn matched(settings: &NodeSettings, file: &File<'_>) -> (Value, Value) {
        let text = Unmatched::new(settings).matched(file).unwrap();
        let object: Value = yaml::document(text.as_bytes(), MAX_BYTES).unwrap();
        let status = object["metadata"]["annotations"][ANNOTATION].as_str().unwrap();
        let status = serde_json::from_str(status).unwrap();
        (object, status)
    }

    #[test]
    fn objects_and_hosts_are_matched_by_name_and_then_by_role() {
        use HostRole::{Arbiter, AutoAssign, Bootstrap, Master, Worker};
        let nodes =
            [(Worker, "b"), (Master, "m-2"), (Bootstrap, "m-1"), (Arbiter, "x"), (AutoAssign, "a"), (Master, "m-3")];
        let settings =
            NodeSettings { nodes: nodes.map(|(role, name)| node(role, name)).into(), ..NodeSettings::default() };
        for (objects, expected) in [
            (
                &["m-2", "c-master-0", "c-master-1", "x", "b", "c-worker-0"][..],
                Ok(&["m-2", "m-1", "m-3", "x", "b", "a"][..]),
            ),
            (&["c-worker-0", "c-worker-1"], Ok(&["a", "b"])),
            (&["x", "x"], Ok(&["x", "a"])),
            (&["c-worker-0", "c-worker-1", "m-1", "other"], Err("worker")),
            (&["m-1", "m-2", "m-3", "c-master-0"], Err("master")),
        ] {
            let mut unmatched = Unmatched::new(&settings);
            let found: Result<Vec<&str>, String> = objects
                .iter()
                .map(|name| unmatched.take(name).map(|node| &*node.name).map_err(|error| error.to_string()))
                .collect();
            let expected = expected
                .map(<[&str]>::to_vec)
                .map_err(|role| format!("Not enough registered hosts in role {role} to match with BareMetalHosts"));
            assert_eq!(found, expected, "{objects:?}");
        }
    }

    #[test]
    fn a_whole_frequency_has_no_fraction() {
        assert_eq!([0.0, 2000.0, 2400.5].map(|value| number(value).to_string()), ["0", "2000", "2400.5"]);
    }

    #[test]
    fn an_object_gets_its_hosts_hardware() {
        let inventory = json!({
            "cpu": {"architecture": "x86_64", "count": 8, "flags": ["fpu"], "frequency": 2400.5, "model_name": "Xeon"},
            "memory": {"physical_bytes": (16_u64 << 30) + 5, "usable_bytes": 1},
            "system_vendor": {"manufacturer": "Dell", "product_name": "R640", "serial_number": "S1"},
            "interfaces": [
                {"name": "eth0", "mac_address": "52:54:00:00:00:01", "product": "0x1", "speed_mbps": 10_240,
                 "ipv4_addresses": ["198.51.100.5/24", "192.0.2.5/24"], "ipv6_addresses": ["fd00::5/64"]},
                {"name": "eth1", "speed_mbps": -1, "ipv4_addresses": ["203.0.113.5/24", "203.0.113.6/24"]},
                {"name": "eth2", "ipv6_addresses": ["x"]},
                {"name": "eth3"}],
            "disks": [
                {"by_path": "/dev/disk/by-path/pci-1", "path": "/dev/sda", "drive_type": "HDD", "size_bytes": 5, "wwn": "0x5",
                 "vendor": "V", "model": "M", "serial": "S", "hctl": "0:0:0:0"},
                {"path": "/dev/sdb", "drive_type": "SSD"}],
        });
        let own = Node {
            requested_hostname: "m-1".into(),
            inventory: serde_json::from_value(inventory).unwrap(),
            ..node(HostRole::Master, "m-1")
        };
        let mut settings = NodeSettings {
            openshift_version: "4.7.0".into(),
            machine_networks: vec!["192.0.2.0/24".parse().unwrap()],
            nodes: vec![own],
            ..NodeSettings::default()
        };
        let (object, status) = matched(&settings, &named("m-1"));
        assert_eq!(object["spec"], json!({"online": true, "externallyProvisioned": true}));
        let eth0 =
            json!({"ip": "192.0.2.5", "mac": "52:54:00:00:00:01", "model": "0x1", "name": "eth0", "speedGbps": 10});
        let mut expected = json!({
            "errorCount": 0, "errorMessage": "", "goodCredentials": {}, "triedCredentials": {}, "hardwareProfile": "",
            "operationalStatus": "", "poweredOn": true, "provisioning": {"ID": "", "image": {"url": ""}, "state": ""},
            "hardware": {
                "cpu": {"arch": "x86_64", "clockMegahertz": 2400.5, "count": 8, "flags": ["fpu"], "model": "Xeon"},
                "hostname": "m-1",
                "nics": [eth0, {"ip": "203.0.113.5", "name": "eth1"}, {"name": "eth2"}],
                "ramMebibytes": 16 << 10,
                "storage": [
                    {"hctl": "0:0:0:0", "model": "M", "name": "/dev/disk/by-path/pci-1", "rotational": true,
                     "serialNumber": "S", "sizeBytes": 5, "vendor": "V", "wwn": "0x5"},
                    {"name": "/dev/sdb"}],
                "systemVendor": {"manufacturer": "Dell", "productName": "R640", "serialNumber": "S1"},
            },
        });
        assert_eq!(status, expected);

        settings.dual_stack = true;
        settings.openshift_version = "4.6.9".into();
        let (object, status) = matched(&settings, &named("m-1"));
        let nics = expected["hardware"]["nics"].as_array_mut().unwrap();
        nics.insert(
            1,
            json!({"ip": "fd00::5", "mac": "52:54:00:00:00:01", "model": "0x1", "name": "eth0", "speedGbps": 10}),
        );
        assert_eq!(status, expected);
        assert_eq!(object["spec"], json!({"online": true}), "no operator runs");
    }

    #[test]
    fn what_else_an_object_says_stays_but_its_status() {
        let settings = NodeSettings { nodes: vec![node(HostRole::Worker, "w")], ..NodeSettings::default() };
        let text = format!(
            "kind: {KIND}\nmetadata:\n  creationTimestamp: null\n  annotations:\n    a: \"yes\"\n    {ANNOTATION}: old\nspec:\n  \
             bootMACAddress: 10:20:30:40:50:55\n  later: [1]\nstatus:\n  poweredOn: false\n"
        );
        let (object, status) = matched(&settings, &bmh(&text));
        assert_eq!(status["hardware"], json!({}));
        assert!(object.get("status").is_none());
        assert_eq!(object["metadata"]["annotations"]["a"], "yes");
        let spec = json!({"bootMACAddress": "10:20:30:40:50:55", "later": [1], "externallyProvisioned": true});
        assert_eq!(object["spec"], spec);
        let text = Unmatched::new(&settings).matched(&bmh(&text)).unwrap();
        assert_eq!(Unmatched::new(&settings).matched(&bmh(&text)).unwrap(), text, "the second time changes nothing");
    }

    #[test]
    fn what_is_not_an_object_is_refused() {
        let settings = NodeSettings { nodes: vec![node(HostRole::Worker, "w")], ..NodeSettings::default() };
        let deep = "[".repeat(100_000);
        let long = "#".repeat(MAX_BYTES + 1);
        for (text, expected) in [
            ("kind: ConfigMap\n", "it is of another kind"),
            ("- 1\n", "it is of another kind"),
            ("kind: [BareMetalHost]\n", "it is of another kind"),
            ("kind: BareMetalHost\nmetadata: 1\n", "a part of it is not a mapping"),
            ("kind: BareMetalHost\nmetadata: {annotations: []}\n", "a part of it is not a mapping"),
            ("kind: BareMetalHost\nspec: x\n", "a part of it is not a mapping"),
            ("kind: {", "it can't be read"),
            ("kind: BareMetalHost\n1: {[a]: b}\n", "it can't be read"),
            (&deep, "it is nested too deeply"),
            (&long, "it has 1048577 bytes, more than 1048576"),
        ] {
            let error = Unmatched::new(&settings).matched(&bmh(text)).unwrap_err().to_string();
            let whole = format!(
                "/opt/openshift/manifests/99_openshift-cluster-api_hosts-0.yaml in bootstrap.ign is not a {KIND}: {expected}"
            );
            assert!(error.starts_with(&whole), "{error}");
        }
        let mut file = named("w");
        file.path = "/a\u{1b}[31m_openshift-cluster-api_hosts".into();
        file.contents.compression = Some("gzip".into());
        let error = Unmatched::new(&settings).matched(&file).unwrap_err().to_string();
        assert!(error.contains("\\u{1b}[31m") && error.ends_with("it is not in the config itself"), "{error}");
        file.contents.source = None;
        assert!(Unmatched::new(&settings).matched(&file).is_err());
    }
}
