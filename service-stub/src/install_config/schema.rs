//! What an install configuration may hold: every key once, in the order it is written. Overrides are checked against this table,
//! merged by it, and the text is written by it.

use serde_json::Value;

/// The kind of a value. Names are those of Go's types, as clients know them from errors.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Text(&'static str),
    Flag,
    Int,
    Int32,
    List(&'static Kind),
    Object(&'static Object),
    /// What it points to may be absent, unlike the value itself.
    Pointer(&'static Kind),
}

#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [Field],
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// It is left out where it is empty.
    omit_empty: bool,
}

const fn always(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, omit_empty: false }
}

const fn if_set(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, omit_empty: true }
}

const fn object(name: &'static str, fields: &'static [Field]) -> Object {
    Object { name, fields }
}

/// An object that is absent unless it was set.
macro_rules! optional {
    ($object:expr) => {
        Kind::Pointer(&Kind::Object(&$object))
    };
}

const TEXT: Kind = Kind::Text("string");
const TEXTS: Kind = Kind::List(&TEXT);
/// Types without a name are shown as this.
const UNNAMED: &str = "struct";

/// The whole.
pub(crate) const CONFIG: Kind = Kind::Object(&ROOT);

static ROOT: Object = object(
    "installcfg.InstallerConfigBaremetal",
    &[
        always("apiVersion", TEXT),
        always("baseDomain", TEXT),
        if_set("proxy", optional!(PROXY)),
        always("networking", Kind::Object(&NETWORKING)),
        always("metadata", Kind::Object(&METADATA)),
        always("compute", Kind::List(&Kind::Object(&POOL))),
        always("controlPlane", Kind::Object(&CONTROL_PLANE)),
        if_set("arbiter", optional!(POOL)),
        always("platform", Kind::Object(&PLATFORM)),
        if_set("bootstrapInPlace", optional!(BOOTSTRAP_IN_PLACE)),
        always("fips", Kind::Flag),
        if_set("cpuPartitioningMode", Kind::Text("installcfg.CPUPartitioningMode")),
        always("pullSecret", TEXT),
        always("sshKey", TEXT),
        if_set("additionalTrustBundle", TEXT),
        if_set("additionalTrustBundlePolicy", Kind::Text("installcfg.PolicyType")),
        if_set("imageContentSources", Kind::List(&Kind::Object(&CONTENT_SOURCE))),
        if_set("imageDigestSources", Kind::List(&Kind::Object(&DIGEST_SOURCE))),
        if_set("capabilities", optional!(CAPABILITIES)),
        if_set("featureSet", Kind::Text("v1.FeatureSet")),
        if_set("featureGates", TEXTS),
        if_set("osImageStream", TEXT),
    ],
);

static PROXY: Object =
    object("installcfg.Proxy", &[if_set("httpProxy", TEXT), if_set("httpsProxy", TEXT), if_set("noProxy", TEXT)]);

static NETWORKING: Object = object(
    UNNAMED,
    &[
        always("networkType", TEXT),
        always("clusterNetwork", Kind::List(&Kind::Object(&CLUSTER_NETWORK))),
        if_set("machineNetwork", Kind::List(&Kind::Object(&MACHINE_NETWORK))),
        always("serviceNetwork", TEXTS),
    ],
);
static CLUSTER_NETWORK: Object =
    object("installcfg.ClusterNetwork", &[always("cidr", TEXT), always("hostPrefix", Kind::Int)]);
static MACHINE_NETWORK: Object = object("installcfg.MachineNetwork", &[always("cidr", TEXT)]);

static METADATA: Object = object(UNNAMED, &[always("name", TEXT)]);

static POOL: Object =
    object(UNNAMED, &[if_set("hyperthreading", TEXT), always("name", TEXT), always("replicas", Kind::Int)]);
static CONTROL_PLANE: Object = object(
    UNNAMED,
    &[
        if_set("hyperthreading", TEXT),
        always("name", TEXT),
        always("replicas", Kind::Int),
        if_set("fencing", optional!(FENCING)),
    ],
);
static FENCING: Object = object("installcfg.Fencing", &[if_set("credentials", Kind::List(&Kind::Object(&CREDENTIAL)))]);
static CREDENTIAL: Object = object(
    "installcfg.FencingCredential",
    &[
        if_set("hostname", TEXT),
        if_set("macAddress", TEXT),
        always("address", TEXT),
        always("username", TEXT),
        always("password", TEXT),
        if_set("certificateVerification", Kind::Pointer(&Kind::Text("installcfg.CertificateVerification"))),
    ],
);

static BOOTSTRAP_IN_PLACE: Object = object("installcfg.BootstrapInPlace", &[if_set("installationDisk", TEXT)]);
static CONTENT_SOURCE: Object =
    object("installcfg.ImageContentSource", &[always("mirrors", TEXTS), always("source", TEXT)]);
static DIGEST_SOURCE: Object =
    object("installcfg.ImageDigestSource", &[always("source", TEXT), if_set("mirrors", TEXTS)]);
static CAPABILITIES: Object = object(
    "installcfg.Capabilities",
    &[
        if_set("baselineCapabilitySet", Kind::Text("v1.ClusterVersionCapabilitySet")),
        if_set("additionalEnabledCapabilities", Kind::List(&Kind::Text("v1.ClusterVersionCapability"))),
    ],
);

static PLATFORM: Object = object(
    "installcfg.Platform",
    &[
        if_set("baremetal", optional!(BAREMETAL)),
        if_set("none", optional!(NONE)),
        if_set("vsphere", optional!(VSPHERE)),
        if_set("nutanix", optional!(NUTANIX)),
        if_set("external", optional!(EXTERNAL)),
    ],
);

static NONE: Object = object("installcfg.PlatformNone", &[]);

static BAREMETAL: Object = object(
    "installcfg.BareMetalInstallConfigPlatform",
    &[
        always("provisioningNetwork", TEXT),
        if_set("apiVIPs", TEXTS),
        if_set("apiVIP", TEXT),
        if_set("ingressVIPs", TEXTS),
        if_set("ingressVIP", TEXT),
        always("hosts", Kind::List(&Kind::Object(&HOST))),
        if_set("clusterOSImage", TEXT),
        if_set("clusterProvisioningIP", TEXT),
        if_set("provisioningNetworkInterface", TEXT),
        if_set("provisioningNetworkCIDR", Kind::Pointer(&TEXT)),
        if_set("provisioningDHCPRange", TEXT),
        if_set("additionalNTPServers", TEXTS),
        if_set("loadBalancer", optional!(BAREMETAL_BALANCER)),
    ],
);
static HOST: Object = object(
    "installcfg.Host",
    &[
        always("name", TEXT),
        always("role", TEXT),
        always("bootMACAddress", TEXT),
        always("bootMode", TEXT),
        always("bmc", Kind::Object(&BMC)),
        always("hardwareProfile", TEXT),
    ],
);
static BMC: Object = object(
    "installcfg.BMC",
    &[
        always("username", TEXT),
        always("password", TEXT),
        always("address", TEXT),
        always("disableCertificateVerification", Kind::Flag),
    ],
);
static BAREMETAL_BALANCER: Object = object("v1.BareMetalPlatformLoadBalancer", BALANCER);
const BALANCER: &[Field] = &[if_set("type", Kind::Text("v1.PlatformLoadBalancerType"))];

static VSPHERE: Object = object(
    "installcfg.VsphereInstallConfigPlatform",
    &[
        if_set("vCenter", TEXT),
        if_set("username", TEXT),
        if_set("password", TEXT),
        if_set("datacenter", TEXT),
        if_set("defaultDatastore", TEXT),
        if_set("folder", TEXT),
        if_set("network", TEXT),
        if_set("cluster", TEXT),
        if_set("apiVIP", TEXT),
        if_set("ingressVIP", TEXT),
        if_set("ingressVIPs", TEXTS),
        if_set("apiVIPs", TEXTS),
        if_set("failureDomains", Kind::List(&Kind::Object(&FAILURE_DOMAIN))),
        if_set("vcenters", Kind::List(&Kind::Object(&VCENTER))),
        if_set("loadBalancer", optional!(VSPHERE_BALANCER)),
    ],
);
static VSPHERE_BALANCER: Object = object("v1.VSpherePlatformLoadBalancer", BALANCER);
static FAILURE_DOMAIN: Object = object(
    "installcfg.VsphereFailureDomain",
    &[
        always("name", TEXT),
        always("region", TEXT),
        always("server", TEXT),
        always("topology", Kind::Object(&TOPOLOGY)),
        always("zone", TEXT),
    ],
);
static TOPOLOGY: Object = object(
    "installcfg.VsphereFailureDomainTopology",
    &[
        always("computeCluster", TEXT),
        always("datacenter", TEXT),
        always("datastore", TEXT),
        if_set("folder", TEXT),
        if_set("networks", TEXTS),
        if_set("resourcePool", TEXT),
    ],
);
static VCENTER: Object = object(
    "installcfg.VsphereVCenter",
    &[
        always("datacenters", TEXTS),
        always("password", TEXT),
        if_set("port", Kind::Int32),
        always("server", TEXT),
        always("user", TEXT),
    ],
);

static NUTANIX: Object = object(
    "installcfg.NutanixInstallConfigPlatform",
    &[
        if_set("apiVIPs", TEXTS),
        if_set("apiVIP", TEXT),
        if_set("ingressVIPs", TEXTS),
        if_set("ingressVIP", TEXT),
        always("prismCentral", Kind::Object(&PRISM_CENTRAL)),
        always("prismElements", Kind::List(&Kind::Object(&PRISM_ELEMENT))),
        always("subnetUUIDs", Kind::List(&Kind::Text("strfmt.UUID"))),
    ],
);
static PRISM_CENTRAL: Object = object(
    "installcfg.NutanixPrismCentral",
    &[always("endpoint", Kind::Object(&ENDPOINT)), always("username", TEXT), always("password", TEXT)],
);
static PRISM_ELEMENT: Object = object(
    "installcfg.NutanixPrismElement",
    &[always("endpoint", Kind::Object(&ENDPOINT)), always("uuid", TEXT), always("name", TEXT)],
);
static ENDPOINT: Object = object("installcfg.NutanixEndpoint", &[always("address", TEXT), always("port", Kind::Int32)]);

/// `openshift-install` reads keys without regard to case.
static EXTERNAL: Object = object(
    "installcfg.ExternalInstallConfigPlatform",
    &[always("PlatformName", TEXT), always("CloudControllerManager", Kind::Text("installcfg.CloudControllerManager"))],
);

impl Object {
    /// Its name without the package's; empty if it has none.
    pub(crate) fn short_name(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(_, name)| name)
    }

    /// The field of a key: by its name, else without regard to case, as Go's decoder matches them.
    pub(crate) fn field(&self, key: &str) -> Option<&'static Field> {
        let alike = |name: &str| name.chars().map(fold).eq(key.chars().map(fold));
        let exact = self.fields.iter().find(|field| field.name == key);
        exact.or_else(|| self.fields.iter().find(|field| alike(field.name)))
    }
}

/// Two letters beyond ASCII are other cases of `s` and `k`.
fn fold(letter: char) -> char {
    match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        letter => letter.to_ascii_lowercase(),
    }
}

impl Kind {
    /// The name of the type.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Text(name) => name.to_owned(),
            Self::Flag => "bool".to_owned(),
            Self::Int => "int".to_owned(),
            Self::Int32 => "int32".to_owned(),
            Self::List(kind) => format!("[]{}", kind.name()),
            Self::Object(object) => object.name.to_owned(),
            Self::Pointer(kind) => kind.name(),
        }
    }

    /// Compact JSON of a value, in the table's order. What the value lacks is written as nothing of its kind.
    pub(crate) fn write(self, out: &mut String, value: &Value) {
        match self {
            Self::Text(_) => write_text(out, value.as_str().unwrap_or_default()),
            Self::Flag => out.push_str(if value == &Value::Bool(true) { "true" } else { "false" }),
            Self::Int | Self::Int32 => out.push_str(&value.as_i64().unwrap_or(0).to_string()),
            Self::Pointer(_) | Self::List(_) if value.is_null() => out.push_str("null"),
            Self::Pointer(kind) => kind.write(out, value),
            Self::List(kind) => {
                let items = value.as_array().into_iter().flatten();
                bracketed(out, '[', ']', items, |out, item| kind.write(out, item));
            }
            Self::Object(object) => {
                let value = |field: &Field| value.get(field.name).unwrap_or(&Value::Null);
                let fields = object.fields.iter();
                let fields = fields.filter(|field| !(field.omit_empty && field.kind.is_empty(value(field))));
                bracketed(out, '{', '}', fields, |out, field| {
                    write_text(out, field.name);
                    out.push(':');
                    field.kind.write(out, value(field));
                });
            }
        }
    }

    fn is_empty(self, value: &Value) -> bool {
        match self {
            Self::Text(_) => value.as_str().is_none_or(str::is_empty),
            Self::Flag => value != &Value::Bool(true),
            Self::Int | Self::Int32 => value.as_i64().is_none_or(|number| number == 0),
            Self::Pointer(_) => value.is_null(),
            Self::List(_) => value.as_array().is_none_or(Vec::is_empty),
            Self::Object(_) => false,
        }
    }
}

fn bracketed<T>(
    out: &mut String,
    open: char,
    close: char,
    items: impl Iterator<Item = T>,
    write: impl Fn(&mut String, T),
) {
    out.push(open);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(close);
}

/// Go writes characters that HTML or JavaScript would take as theirs by their numbers.
fn write_text(out: &mut String, text: &str) {
    for letter in Value::from(text).to_string().chars() {
        match letter {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            letter => out.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(kind: Kind, value: &Value) -> String {
        let mut out = String::new();
        kind.write(&mut out, value);
        out
    }

    #[test]
    fn what_is_lacking_is_written_by_its_kind() {
        assert_eq!(
            text(CONFIG, &json!({})),
            r#"{"apiVersion":"","baseDomain":"","networking":{"networkType":"","clusterNetwork":null,"serviceNetwork":null},"metadata":{"name":""},"compute":null,"controlPlane":{"name":"","replicas":0},"platform":{},"fips":false,"pullSecret":"","sshKey":""}"#
        );
        let platform = json!({"baremetal": {"hosts": [{}], "loadBalancer": {}}, "none": {}, "external": {}});
        assert_eq!(
            text(Kind::Object(&PLATFORM), &platform),
            r#"{"baremetal":{"provisioningNetwork":"","hosts":[{"name":"","role":"","bootMACAddress":"","bootMode":"","bmc":{"username":"","password":"","address":"","disableCertificateVerification":false},"hardwareProfile":""}],"loadBalancer":{}},"none":{},"external":{"PlatformName":"","CloudControllerManager":""}}"#
        );
        assert_eq!(text(Kind::Object(&CONTENT_SOURCE), &json!({"mirrors": []})), r#"{"mirrors":[],"source":""}"#);
    }

    #[test]
    fn texts_are_safe_in_a_page() {
        assert_eq!(text(TEXT, &json!("<a> & \"b\"\n\u{2028}")), r#""\u003ca\u003e \u0026 \"b\"\n\u2028""#);
    }

    #[test]
    fn every_key_is_there_once() {
        fn check(kind: Kind) {
            match kind {
                Kind::List(kind) | Kind::Pointer(kind) => check(*kind),
                Kind::Object(object) => {
                    for (index, field) in object.fields.iter().enumerate() {
                        let earlier = object.fields.iter().take(index);
                        let same = earlier.filter(|other| other.name.eq_ignore_ascii_case(field.name));
                        assert_eq!(same.count(), 0, "{} {}", object.name, field.name);
                        check(field.kind);
                    }
                }
                _ => {}
            }
        }
        check(CONFIG);
    }
}
