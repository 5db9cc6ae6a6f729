//! Refusals of clusters, made and changed.

use super::{Form, World, refused, with};
use crate::common::{API, Answer};
use serde_json::{Value, json};

macro_rules! no_domain {
    ($name:literal) => {
        concat!(
            "DNS format mismatch: ",
            $name,
            r" domain name is not valid. Must match regex [^([a-z\d]([\-]*[a-z\d]+)*\.)+[a-z\d]+([\-]*[a-z\d]+)+$], be no more than 255 characters, and not be in dotted decimal format (##.##.##.##)"
        )
    };
}

const TAGS: &str = "Invalid format for Tags: a,,b. Tags should be a comma-separated list (e.g. tag1,tag2,tag3). Each tag can consist of the following characters: Alphanumeric (aA-zZ, 0-9), underscore (_) and white-spaces.";
const TWO_VIPS: &str =
    "1 error occurred:\n\t* The IP address \"192.0.2.4\" appears both in apiVIPs and ingressVIPs\n\n";

fn vips(api: &[&str], ingress: &[&str]) -> Value {
    let list = |ips: &[&str]| ips.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>();
    json!({"api_vips": list(api), "ingress_vips": list(ingress)})
}

/// What is refused whether a cluster is made with it or changed to it.
fn either() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("base_dns_domain `example.c`", json!({"base_dns_domain": "example.c"}), no_domain!("example.c")),
        ("base_dns_domain `-example.com`", json!({"base_dns_domain": "-example.com"}), no_domain!("-example.com")),
        ("base_dns_domain `Example.com`", json!({"base_dns_domain": "Example.com"}), no_domain!("Example.com")),
        (
            "ssh_public_key `ssh-rsa AAAA`",
            json!({"ssh_public_key": "ssh-rsa AAAA"}),
            "SSH key: ssh-rsa AAAA does not match any supported type: ssh-rsa, ssh-ed25519, ecdsa-[VARIANT]",
        ),
        (
            "ssh_public_key `garbage`",
            json!({"ssh_public_key": "garbage"}),
            "SSH key: garbage does not match any supported type: ssh-rsa, ssh-ed25519, ecdsa-[VARIANT]",
        ),
        ("one address as API and ingress VIP", vips(&["192.0.2.4"], &["192.0.2.4"]), TWO_VIPS),
        (
            "two VIPs of one family (IPv4)",
            vips(&["192.0.2.4", "192.0.2.5"], &["192.0.2.6", "192.0.2.7"]),
            "dual-stack apiVIPs must include exactly one IPv6 address",
        ),
        (
            "two VIPs of one family (IPv6)",
            vips(&["fd00::4", "fd00::5"], &["fd00::6", "fd00::7"]),
            "dual-stack apiVIPs must include exactly one IPv4 address",
        ),
        (
            "an API VIP without one of ingress",
            vips(&["192.0.2.4"], &[]),
            "1 error occurred:\n\t* configuration must include the same number of apiVIPs (got 1) and ingressVIPs (got 0)\n\n",
        ),
        ("NTP source `a b`", json!({"additional_ntp_source": "a b"}), "Invalid NTP source: a b"),
        (
            "both kinds of NTP sources",
            json!({"additional_ntp_source": "n1", "ntp_sources": "n2"}),
            "ntp_sources and additional_ntp_source are mutually exclusive",
        ),
        ("tags `a,,b`", json!({"tags": "a,,b"}), TAGS),
        ("operator `zzz`", json!({"olm_operators": [{"name": "zzz"}]}), "operator zzz isn't supported"),
        (
            "Tang without servers",
            json!({"disk_encryption": {"enable_on": "all", "mode": "tang"}}),
            "Setting Tang mode but tang_servers isn't set",
        ),
        (
            "an HTTP proxy by HTTPS",
            json!({"http_proxy": "https://proxy.example.com"}),
            "Failed to validate HTTP Proxy: The URL scheme must be http and specified in the URL: 'https://proxy.example.com'",
        ),
        (
            "an ignition endpoint by FTP",
            json!({"ignition_endpoint": {"url": "ftp://example.com"}}),
            "The URL scheme must be http(s) and specified in the URL: 'ftp://example.com'",
        ),
        (
            "two machine networks of one family",
            json!({"machine_networks": [{"cidr": "192.0.2.0/24"}, {"cidr": "198.51.100.0/24"}]}),
            "Single-stack cluster cannot contain multiple Machine Networks",
        ),
        (
            "nine control-plane hosts",
            json!({"control_plane_count": 9}),
            "there should be 2-5 dedicated control plane nodes for high availability mode Full in openshift version 4.19 or newer",
        ),
        (
            "platform external without settings",
            json!({"platform": {"type": "external"}}),
            "External setting must be set when using platform type external",
        ),
        (
            "external settings on platform none",
            json!({"platform": {"type": "none", "external": {"platform_name": "acme"}}}),
            "External settings can only be set with external platform type",
        ),
        (
            "platform baremetal with user-managed networking",
            json!({"platform": {"type": "baremetal"}, "user_managed_networking": true}),
            "Can't set baremetal platform with user-managed-networking enabled",
        ),
    ]
}

#[test]
fn of_new_and_of_changed_clusters() {
    let world = World::new();
    let id = world.cluster(json!({}))["id"].as_str().unwrap().to_owned();
    for (asked, body, reason) in either() {
        let answer = world.running.json("POST", "/v2/clusters", &World::cluster_body(body.clone()));
        refused(&format!("new cluster: {asked}"), &answer, 400, Form::Application, reason);
        let (asked, reason) = match asked {
            // What can't be set is told in the order of the rules, and the platform's comes later than an address' network.
            "platform external without settings" => (
                "platform external without settings, networking managed by the cluster",
                "Can't set external platform with user-managed-networking disabled",
            ),
            asked => (asked, reason),
        };
        let answer = world.running.json("PATCH", &format!("/v2/clusters/{id}"), &body);
        refused(&format!("update of a cluster: {asked}"), &answer, 400, Form::Application, reason);
    }
    assert_eq!(world.running.json("PATCH", &format!("/v2/clusters/{id}"), &json!({})).document()["name"], "rack");
}

#[test]
fn of_new_clusters_alone() {
    let world = World::new();
    for (asked, body, reason) in [
        (
            "version 4.99",
            json!({"openshift_version": "4.99"}),
            "Openshift version 4.99 for CPU architecture x86_64 is not supported: no release image found for openshiftVersion: '4.99' and CPU architecture 'x86_64'",
        ),
        (
            "version 3.11",
            json!({"openshift_version": "3.11", "control_plane_count": 3}),
            "Openshift version 3.11 for CPU architecture x86_64 is not supported: no release image found for openshiftVersion: '3.11' and CPU architecture 'x86_64'",
        ),
        (
            "architecture multi without such a release",
            json!({"openshift_version": "4.23", "cpu_architecture": "multi"}),
            "Openshift version 4.23 for CPU architecture multi is not supported: no release image found for openshiftVersion: '4.23' and CPU architecture 'multi'",
        ),
        (
            "architecture arm64 without image",
            json!({"openshift_version": "4.10", "cpu_architecture": "arm64"}),
            "Requested CPU architecture arm64 is not available",
        ),
        (
            "OpenShiftSDN on 4.22",
            json!({"network_type": "OpenShiftSDN"}),
            "Openshift version 4.22.9 is not supported for OpenShiftSDN NetworkType",
        ),
        (
            "a release without an OS image",
            json!({"openshift_version": "4.23"}),
            "No OS images are available for version 4.23 and architecture x86_64",
        ),
        (
            "an unknown release image",
            json!({"ocp_release_image": "r.io/other"}),
            "failed to get release image by URL r.io/other during cluster registration: error occurred while trying to retrieve release image with url 'r.io/other' from the db: record not found",
        ),
        (
            "pull secret without auths",
            json!({"pull_secret": "{}"}),
            "pull secret for new cluster is invalid: pull secret must contain 'auths' JSON-object field",
        ),
        (
            "name with a dot",
            json!({"name": "a.b"}),
            "Cluster name format is not valid: 'a.b'. Name must start and end with either a letter or number and consist of lower-case letters, numbers, and hyphens. Subdomains in cluster names are only valid with none platform.",
        ),
        (
            "VIPs with user-managed networking",
            with(vips(&["192.0.2.4"], &["192.0.2.5"]), json!({"user_managed_networking": true})),
            "API VIPs cannot be set with User Managed Networking",
        ),
        (
            "VIPs that come by DHCP",
            with(vips(&["192.0.2.4"], &["192.0.2.5"]), json!({"vip_dhcp_allocation": true})),
            "Setting API VIPs is forbidden when cluster is in vip-dhcp-allocation mode",
        ),
        (
            "a VIP outside of the machine network",
            with(vips(&["198.51.100.4"], &["192.0.2.5"]), json!({"machine_networks": [{"cidr": "192.0.2.0/24"}]})),
            "1 error occurred:\n\t* api-vip <198.51.100.4> does not belong to machine-network-cidr <192.0.2.0/24>\n\n",
        ),
        (
            "two VIPs before 4.12",
            with(vips(&["192.0.2.4", "fd00::4"], &["192.0.2.5", "fd00::5"]), json!({"openshift_version": "4.10"})),
            "dual-stack VIPs are not supported in OpenShift 4.10",
        ),
        (
            "four control-plane hosts before 4.18",
            json!({"openshift_version": "4.10", "control_plane_count": 4}),
            "there should be exactly 3 dedicated control plane nodes for high availability mode Full in openshift version older than 4.18",
        ),
        (
            "three control-plane hosts of a single node",
            json!({"high_availability_mode": "None", "control_plane_count": 3}),
            "single-node clusters must have a single control plane node",
        ),
        (
            "a single node on platform baremetal",
            json!({"control_plane_count": 1, "platform": {"type": "baremetal"}}),
            "Can't set baremetal platform on single node OpenShift",
        ),
        (
            "a single node on platform vsphere",
            json!({"control_plane_count": 1, "platform": {"type": "vsphere"}}),
            "Single node cluster is not supported alongside vsphere platform",
        ),
        (
            "networks of two families in two orders",
            json!({
                "machine_networks": [{"cidr": "192.0.2.0/24"}, {"cidr": "fd00::/64"}],
                "service_networks": [{"cidr": "fd02::/112"}, {"cidr": "172.30.0.0/16"}],
            }),
            "Inconsistent IP family order: machine_networks first IP is 192.0.2.0/24 but service_networks first IP is fd02::/112. All networks must have the same IP family first",
        ),
    ] {
        let answer = world.running.json("POST", "/v2/clusters", &World::cluster_body(body));
        refused(&format!("new cluster: {asked}"), &answer, 400, Form::Application, reason);
    }
}

#[test]
fn of_changed_clusters_alone() {
    let world = World::new();
    let managed = world.cluster(json!({}))["id"].as_str().unwrap().to_owned();
    let unmanaged = world.cluster(json!({"user_managed_networking": true}))["id"].as_str().unwrap().to_owned();
    let single = world.cluster(json!({"control_plane_count": 1}))["id"].as_str().unwrap().to_owned();
    let patch = |id: &str, body: &Value| world.running.json("PATCH", &format!("/v2/clusters/{id}"), body);
    let day1 = format!("Can't update api vip to api.x.example.com for day1 cluster {managed}");
    for (asked, id, body, reason) in [
        (
            "VIPs with user-managed networking",
            &unmanaged,
            vips(&["192.0.2.4"], &["192.0.2.5"]),
            "API VIPs cannot be set with User Managed Networking",
        ),
        (
            "user-managed networking with VIPs",
            &managed,
            with(vips(&["192.0.2.4"], &["192.0.2.5"]), json!({"user_managed_networking": true})),
            "User Managed Networking cannot be set with API VIPs",
        ),
        (
            "a VIP outside of every host's network",
            &managed,
            vips(&["192.0.2.4"], &["192.0.2.5"]),
            "Calculate machine network CIDR: No suitable matching CIDR found for VIP 192.0.2.4",
        ),
        (
            "machine networks, with VIPs",
            &managed,
            json!({"machine_networks": [{"cidr": "192.0.2.0/24"}]}),
            "Setting the Machine Network CIDR is forbidden when the cluster is neither in VIP DHCP allocation mode nor using a user-managed load balancer",
        ),
        (
            "a cluster network with host bits",
            &managed,
            json!({"cluster_networks": [{"cidr": "10.128.0.1/14", "host_prefix": 23}]}),
            "Cluster network CIDR 10.128.0.1/14: 10.128.0.1/14 is not a valid network CIDR",
        ),
        (
            "a cluster network that is too small",
            &managed,
            json!({"cluster_networks": [{"cidr": "10.128.0.0/29", "host_prefix": 28}]}),
            "Cluster network CIDR 10.128.0.0/29: Address mask size must be between 1 to 25 and must include at least 128 addresses",
        ),
        (
            "overlapping networks",
            &managed,
            json!({"service_networks": [{"cidr": "10.128.0.0/16"}]}),
            "ServiceNetworkCidr and ClusterNetworkCidr: CIDRS 10.128.0.0/16 and 10.128.0.0/14 overlap",
        ),
        (
            "a single node whose network is the cluster's",
            &single,
            json!({"user_managed_networking": false}),
            "disabling User Managed Networking or setting platform different than none or oci platforms is not allowed in single node Openshift",
        ),
        (
            "the API's name of a day-1 cluster",
            &managed,
            json!({"api_vip_dns_name": "api.x.example.com"}),
            day1.as_str(),
        ),
        ("an unusable pull secret", &managed, json!({"pull_secret": "x"}), "pull secret must be a well-formed JSON"),
    ] {
        refused(&format!("update of a cluster: {asked}"), &patch(id, &body), 400, Form::Application, reason);
    }
}

#[test]
fn what_looks_wrong_and_is_taken() {
    let world = World::new();
    let cluster = world.cluster(json!({"cluster_networks": [{"cidr": "10.128.0.0/29", "host_prefix": 28}]}));
    assert_eq!(cluster["cluster_networks"][0]["host_prefix"], 28);
    assert_eq!(
        (&cluster["openshift_version"], &cluster["ocp_release_image"]),
        (&json!("4.22.9"), &json!("r.io/release:4.22.9"))
    );
    let multi = world.cluster(json!({"openshift_version": "4.22-multi"}));
    assert_eq!((&multi["openshift_version"], &multi["cpu_architecture"]), (&json!("4.22.9-multi"), &json!("multi")));
    let by_image = world.cluster(json!({"ocp_release_image": "r.io/release:4.10.67"}));
    assert_eq!(by_image["openshift_version"], "4.10.67");
    let imported = json!({"name": "scale-up-x", "api_vip_dnsname": "api.edge.example.com",
        "openshift_cluster_id": "7e5ff6df-e038-4103-bbb2-90433ded3e50"});
    let answer: Answer = world.running.json("POST", "/v2/clusters/import", &imported);
    let document = answer.document();
    assert_eq!((&document["name"], &document["base_dns_domain"]), (&json!("edge"), &json!("example.com")));
    for (platform, external) in [("none", json!({})), ("external", json!({"platform_name": "acme"}))] {
        let cluster = world.cluster(json!({"platform": {"type": platform, "external": external}}));
        assert_eq!(
            (&cluster["platform"]["type"], &cluster["user_managed_networking"]),
            (&json!(platform), &json!(true))
        );
    }
}

#[test]
fn a_new_cluster_has_what_the_real_services_clusters_have() {
    let world = World::new();
    let created = world.cluster(with(vips(&["192.0.2.4"], &["192.0.2.5"]), json!({"base_dns_domain": "example.com"})));
    for (name, expected) in [
        ("status", json!("insufficient")),
        ("status_info", json!("Cluster is not ready for install")),
        ("openshift_version", json!("4.22.9")),
        ("ocp_release_image", json!("r.io/release:4.22.9")),
        ("email_domain", json!("Unknown")),
        ("org_soft_timeouts_enabled", json!(false)),
        ("api_vips", json!([{"cluster_id": created["id"], "ip": "192.0.2.4"}])),
        ("ingress_vips", json!([{"cluster_id": created["id"], "ip": "192.0.2.5"}])),
        ("last-installation-preparation", json!({})),
    ] {
        assert_eq!(created[name], expected, "{name}");
    }
    let operators = created["monitored_operators"].as_array().unwrap();
    assert_eq!(operators.iter().map(|operator| &operator["name"]).collect::<Vec<_>>(), ["console"]);
    let object = |text: &Value| serde_json::from_str::<Value>(text.as_str().unwrap()).unwrap().is_object();
    assert!(object(&created["feature_usage"]));
    // The rest is known once it has been judged.
    world.running.monitor();
    let judged = world.running.get(&format!("{API}/v2/clusters/{}", created["id"].as_str().unwrap())).document();
    assert_eq!(judged["ip_collisions"], "{}");
    assert!(object(&judged["connectivity_majority_groups"]));
}
