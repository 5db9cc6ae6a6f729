//! Objects within bodies, and the forms that texts have: names and rules of the published API.

use crate::http::body::{
    Field, Model, Pattern, flag, form, integer, length, list, model, object, one_of, text, texts, uuid,
};
use std::net::{IpAddr, Ipv6Addr};

const IP: Pattern = Pattern {
    text: r"^(?:(?:(?:[0-9]{1,3}\.){3}[0-9]{1,3})|(?:(?:[0-9a-fA-F]*:[0-9a-fA-F]*){2,}))?$",
    fits: |text| text.is_empty() || is_ipv4(text) || is_ipv6(text),
};
const SUBNET: Pattern = Pattern {
    text: r"^(?:(?:(?:[0-9]{1,3}\.){3}[0-9]{1,3}\/(?:(?:[0-9])|(?:[1-2][0-9])|(?:3[0-2])))|(?:(?:[0-9a-fA-F]*:[0-9a-fA-F]*){2,})/(?:(?:[0-9])|(?:[1-9][0-9])|(?:1[0-1][0-9])|(?:12[0-8])))$",
    fits: |text| {
        let Some((address, prefix)) = text.split_once('/') else { return false };
        is_ipv4(address) && is_number(prefix, 32) || is_ipv6(address) && is_number(prefix, 128)
    },
};
const MAC: Pattern = Pattern {
    text: "^([0-9A-Fa-f]{2}[:]){5}([0-9A-Fa-f]{2})$",
    fits: |text| {
        let pairs: Vec<&str> = text.split(':').collect();
        pairs.len() == 6
            && pairs.iter().all(|pair| pair.len() == 2 && pair.bytes().all(|byte| byte.is_ascii_hexdigit()))
    },
};
const KERNEL_ARGUMENT: Pattern = Pattern { text: r#"^(?:(?:[^ \t\n\r"]+)|(?:"[^"]*"))+$"#, fits: is_kernel_argument };
/// A name of a manifest's file.
pub(crate) const MANIFEST_FILE: Pattern =
    Pattern { text: r"^[^\/]*\.(json|ya?ml(\.patch_?[a-zA-Z0-9_]*)?)$", fits: is_manifest_file };
/// An address, or nothing.
pub(crate) const RENDEZVOUS_IP: Pattern = Pattern {
    text: r"^(?:$|(?:(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])|(?:([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,7}:|([0-9a-fA-F]{1,4}:){1,6}:[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,5}(:[0-9a-fA-F]{1,4}){1,2}|([0-9a-fA-F]{1,4}:){1,4}(:[0-9a-fA-F]{1,4}){1,3}|([0-9a-fA-F]{1,4}:){1,3}(:[0-9a-fA-F]{1,4}){1,4}|([0-9a-fA-F]{1,4}:){1,2}(:[0-9a-fA-F]{1,4}){1,5}|[0-9a-fA-F]{1,4}:(:[0-9a-fA-F]{1,4}){1,6}|:(:[0-9a-fA-F]{1,4}){1,7}|:|fe80:(:[0-9a-fA-F]{0,4}){0,4}%[0-9a-zA-Z]{1,}|::(ffff(:0{1,4}){0,1}:){0,1}((25[0-5]|(2[0-4]|1?[0-9])?[0-9])\.){3}(25[0-5]|(2[0-4]|1?[0-9])?[0-9])|([0-9a-fA-F]{1,4}:){1,4}:((25[0-5]|(2[0-4]|1?[0-9])?[0-9])\.){3}(25[0-5]|(2[0-4]|1?[0-9])?[0-9]))))$",
    fits: |text| text.is_empty() || text.parse::<IpAddr>().is_ok() || is_link_local_with_zone(text),
};
/// As `SUBNET`, for fields that hold one themselves.
pub(crate) const NETWORK: Pattern = SUBNET;

fn is_ipv4(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    parts.len() == 4
        && parts.iter().all(|part| (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_ipv6(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':') && text.matches(':').count() >= 2
}

/// Without zeros before it.
fn is_number(text: &str, most: u8) -> bool {
    text.parse::<u8>().is_ok_and(|number| number <= most && number.to_string() == text)
}

fn is_link_local_with_zone(text: &str) -> bool {
    let Some((address, zone)) = text.split_once('%') else { return false };
    let zoned = !zone.is_empty() && zone.bytes().all(|byte| byte.is_ascii_alphanumeric());
    zoned && address.parse::<Ipv6Addr>().is_ok_and(|address| address.is_unicast_link_local())
}

/// Runs of non-blank characters, and quoted runs that may contain blanks.
fn is_kernel_argument(text: &str) -> bool {
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            ' ' | '\t' | '\n' | '\r' if !quoted => return false,
            _ => {}
        }
    }
    !text.is_empty() && !quoted
}

fn is_manifest_file(name: &str) -> bool {
    let is_patch = |rest: &str| {
        let rest = rest.strip_prefix(".patch").map(|rest| rest.strip_prefix('_').unwrap_or(rest));
        rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
    };
    let ends = |(at, _): (usize, &str)| {
        let rest = &name[at..];
        let of_yaml = rest.strip_prefix(".yaml").or_else(|| rest.strip_prefix(".yml"));
        rest == ".json" || of_yaml.is_some_and(|rest| rest.is_empty() || is_patch(rest))
    };
    !name.contains('/') && name.match_indices('.').any(ends)
}

pub(crate) const VERIFICATION: &[&str] = &["unverified", "failed", "succeeded"];
pub(crate) const DISK_ROLES: &[&str] = &["none", "install"];
pub(crate) const PLATFORM_TYPES: &[&str] = &["baremetal", "nutanix", "vsphere", "none", "external"];
pub(crate) const LOGS_STATES: &[&str] = &["requested", "collecting", "completed", "timeout", ""];
pub(crate) const IMAGE_TYPES: &[&str] = &["full-iso", "minimal-iso", "disconnected-iso"];
/// Roles whose disks are encrypted, or whose processors have two threads a core.
pub(crate) const ROLES: &[&str] = &[
    "none",
    "masters",
    "arbiters",
    "workers",
    "masters,arbiters",
    "masters,workers",
    "arbiters,workers",
    "masters,arbiters,workers",
    "all",
];

pub(crate) const API_VIP: Model = model("APIVip", "api_vip", VIP);
pub(crate) const INGRESS_VIP: Model = model("IngressVip", "ingress_vip", VIP);
const VIP: &[Field] = &[
    uuid("cluster_id").or_zero(),
    form("ip", &IP).or_zero(),
    one_of("verification", VERIFICATION).described("@vip_verification"),
];

pub(crate) const CLUSTER_NETWORK: Model = model(
    "ClusterNetwork",
    "cluster_network",
    &[form("cidr", &SUBNET).or_zero(), uuid("cluster_id").or_zero(), integer("host_prefix", 1, 128).or_zero()],
);
pub(crate) const MACHINE_NETWORK: Model = model("MachineNetwork", "machine_network", SIMPLE_NETWORK);
pub(crate) const SERVICE_NETWORK: Model = model("ServiceNetwork", "service_network", SIMPLE_NETWORK);
const SIMPLE_NETWORK: &[Field] = &[form("cidr", &SUBNET).or_zero(), uuid("cluster_id").or_zero()];

pub(crate) const DISK_ENCRYPTION: Model = model(
    "DiskEncryption",
    "disk-encryption",
    &[one_of("enable_on", ROLES), one_of("mode", &["tpmv2", "tang"]), text("tang_servers")],
);
pub(crate) const IGNITION_ENDPOINT: Model =
    model("IgnitionEndpoint", "ignition-endpoint", &[text("ca_certificate").nullable(), text("url").nullable()]);
pub(crate) const LOAD_BALANCER: Model =
    model("LoadBalancer", "load_balancer", &[one_of("type", &["cluster-managed", "user-managed"]).or_zero()]);
pub(crate) const PLATFORM: Model = model(
    "Platform",
    "platform",
    &[
        object("external", &PLATFORM_EXTERNAL).nullable(),
        one_of("type", PLATFORM_TYPES).required().described("@platform_type"),
    ],
);
const PLATFORM_EXTERNAL: Model = model(
    "PlatformExternal",
    "platform_external",
    &[
        one_of("cloud_controller_manager", &["", "External"]).nullable(),
        length("platform_name", 1, usize::MAX).nullable(),
    ],
);
/// Not in the published API.
pub(crate) const MIRROR_REGISTRY: Model =
    model("MirrorRegistry", "mirror_registry", &[text("ca_bundle"), text("registries_conf")]);
pub(crate) const OPERATOR: Model =
    model("OperatorCreateParams", "operator-create-params", &[text("name"), text("properties")]);
pub(crate) const BUNDLE: Model =
    model("BundleCreateParams", "bundle-create-params", &[text("id").required(), texts("optional_operators")]);

pub(crate) const KERNEL_ARGUMENTS: Model = model(
    "KernelArgument",
    "kernel_argument",
    &[
        one_of("operation", &["append", "replace", "delete"]).or_zero().described("=append").described_as_required(),
        form("value", &KERNEL_ARGUMENT).or_zero().described_as_required(),
    ],
);
pub(crate) const PROXY: Model = model(
    "Proxy",
    "proxy",
    &[text("http_proxy").nullable(), text("https_proxy").nullable(), text("no_proxy").nullable()],
);
pub(crate) const HOST_NETWORK: Model = model(
    "HostStaticNetworkConfig",
    "host_static_network_config",
    &[list("mac_interface_map", &MAC_INTERFACE).described("[any]"), text("network_yaml")],
);
const MAC_INTERFACE: Model = model(
    "MacInterfaceMapItems0",
    "mac_interface_map",
    &[text("logical_nic_name"), form("mac_address", &MAC).required().or_zero()],
);

pub(crate) const DISK_CONFIG: Model = model(
    "DiskConfigParams",
    "disk-config-params",
    &[text("id").required(), one_of("role", DISK_ROLES).or_zero().described("@disk-role")],
);
pub(crate) const DISK_SKIP_FORMATTING: Model = model(
    "DiskSkipFormattingParams",
    "disk-skip-formatting-params",
    &[text("disk_id").required(), flag("skip_formatting").required()],
);
pub(crate) const HTTP_HEADER: Model = model(
    "IgnitionEndpointHTTPHeadersParams",
    "ignition-endpoint-http-headers-params",
    &[text("key").required(), text("value").required()],
);
pub(crate) const FENCING_CREDENTIALS: Model = model(
    "FencingCredentialsParams",
    "fencing-credentials-params",
    &[
        text("address").required(),
        one_of("certificate_verification", &["Enabled", "Disabled"]),
        text("mac_address").nullable(),
        text("password").required(),
        text("username").required(),
    ],
);
pub(crate) const NODE_LABEL: Model =
    model("NodeLabelParams", "node-label-params", &[text("key").required(), text("value").required()]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for (pattern, good, bad) in [
            (
                &IP,
                vec!["", "1.2.3.4", "999.1.1.1", "::", "fd00::1"],
                vec!["x", "1.2.3", "::ffff:1.2.3.4", "1.2.3.4/24", "a:b"],
            ),
            (
                &SUBNET,
                vec!["1.2.3.0/24", "10.0.0.0/0", "fd00::/64", "::/128"],
                vec!["", "1.2.3.0", "1.2.3.0/33", "1.2.3.0/08", "fd00::/129", "x/8"],
            ),
            (&MAC, vec!["52:54:00:00:00:0a"], vec!["52-54-00-00-00-0a", "52:54:00:00:00", "52:54:00:00:00:0g"]),
            (&KERNEL_ARGUMENT, vec!["a=b", "a=\"b c\"", "\"a b\"c"], vec!["", "a b", "a=\"b c", "a\nb"]),
            (
                &MANIFEST_FILE,
                vec!["a.yaml", "a.yml", "a.json", "a.b.yaml.patch", "a.yml.patch_x1", ".yaml", "a b.yaml"],
                vec!["x.txt", "a/b.yaml", "a.yaml.x", "a.json.patch", "yaml", "a.yaml.patch-x", ""],
            ),
            (
                &RENDEZVOUS_IP,
                vec!["", "1.2.3.4", "fd00::1", "fe80::1%eth0"],
                vec!["host", "1.2.3.256", "01.2.3.4", "fd00::1%eth0"],
            ),
        ] {
            for text in good {
                assert!((pattern.fits)(text), "{} {text}", pattern.text);
            }
            for text in bad {
                assert!(!(pattern.fits)(text), "{} {text}", pattern.text);
            }
        }
    }
}
