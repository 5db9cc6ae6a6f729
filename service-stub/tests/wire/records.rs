//! Clusters and infra-envs as they are created, and the steps one by one.

use super::*;
use crate::common::API;
use std::collections::{BTreeMap, BTreeSet};

const CREATED: &[Meant] = &[
    meant("cluster", ".ocp_release_image", NO_CATALOGUE),
    meant("cluster", ".openshift_version", NO_CATALOGUE),
    meant("cluster", ".org_soft_timeouts_enabled", "ours says what --soft-timeouts is"),
];
const CREATED_INFRA_ENV: &[Meant] = &[meant("infra-env", ".download_url", "each service's own address")];

#[test]
fn created_records_look_like_the_real_ones() {
    let Some(folder) = recorded("api") else { return };
    let load = |name: &str| -> Value { serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap() };
    let running = Running::start(Files::default());
    let differ = |number: u32, what: &str, recorded: &Value, ours: &Value| -> Vec<compare::Difference> {
        let all = compare::documents(recorded, ours).into_iter();
        all.map(|(place, recorded, ours)| compare::Difference { number, exchange: what.into(), place, recorded, ours })
            .collect()
    };
    let answer = running.json("POST", "/v2/clusters", &load("sno-cluster-req.json"));
    assert_eq!(answer.status, 201);
    let cluster = answer.document();
    // The ids are each service's own.
    let mut theirs = load("sno-cluster-resp.json").to_string();
    let text = |document: &Value| document["id"].as_str().unwrap().to_owned();
    theirs = theirs.replace(&text(&load("sno-cluster-resp.json")), &text(&cluster));
    let theirs: Value = serde_json::from_str(&theirs).unwrap();
    compare::settle("api cluster", 1, &differ(1, "cluster", &theirs, &cluster), &[CREATED]);
    let mut request = load("sno-infraenv-req.json");
    request["cluster_id"] = cluster["id"].clone();
    let answer = running.json("POST", "/v2/infra-envs", &request);
    assert_eq!(answer.status, 201);
    let (theirs, ours) = (load("sno-infraenv-resp.json"), answer.document());
    let same_ids = theirs.to_string().replace(&text(&theirs), &text(&ours));
    let theirs_cluster = theirs["cluster_id"].as_str().unwrap();
    let theirs = serde_json::from_str(&same_ids.replace(theirs_cluster, &text(&cluster))).unwrap();
    let found = differ(2, "infra-env", &theirs, &ours);
    compare::settle("api infra-env", 1, &found, &[CREATED_INFRA_ENV]);
}

const CONTAINER_AGENT: &str = "for an agent that is a container; ours is a program of the live system";
const LIVE_SYSTEM: &str = "a setting of the published live system, which its own image carries";
const KEYFILES: &str = "ours makes the connections from the same two files by itself";
const DISCOVERY: &[Meant] = &[
    meant("static-discovery.ign", "./etc/NetworkManager/conf.d/01-ipv6.conf", LIVE_SYSTEM),
    meant("static-discovery.ign", "./etc/landfall/agent.env", "where the agent finds its service"),
    meant("static-discovery.ign", "./etc/motd", LIVE_SYSTEM),
    meant("static-discovery.ign", "./etc/multipath.conf", LIVE_SYSTEM),
    meant("static-discovery.ign", "./root/.docker/config.json", CONTAINER_AGENT),
    meant("static-discovery.ign", "./root/assisted.te", CONTAINER_AGENT),
    meant("static-discovery.ign", "./usr/local/bin/agent-fix-bz1964591", CONTAINER_AGENT),
    meant("static-discovery.ign", "./usr/local/bin/agent-pull-image", CONTAINER_AGENT),
    meant("static-discovery.ign", "./usr/local/bin/common_network_script.sh", KEYFILES),
    meant("static-discovery.ign", "./usr/local/bin/oci-eval-user-data.sh", LIVE_SYSTEM),
    meant("static-discovery.ign", "./usr/local/bin/pre-network-manager-config.sh", KEYFILES),
    meant("static-discovery.ign", "unit agent.service", CONTAINER_AGENT),
    meant("static-discovery.ign", "unit iscsistart.service", LIVE_SYSTEM),
    meant("static-discovery.ign", "unit multipathd.service", LIVE_SYSTEM),
    meant("static-discovery.ign", "unit oci-eval-user-data.service", LIVE_SYSTEM),
    meant("static-discovery.ign", "unit pre-network-manager-config.service", KEYFILES),
    meant("static-discovery.ign", "unit selinux.service", CONTAINER_AGENT),
];
const VERSIONS: &[Meant] = &[
    meant("openshift-versions.json", ".4.21.3*", "the tests' service has a second version"),
    meant("component-versions.json", ".release_tag", "the release of this program"),
    meant("component-versions.json", ".versions.assisted-installer-service", "the release of this program"),
];

/// The config's version, and its files and units by name, each as one text.
fn parts(config: &Value) -> BTreeMap<String, String> {
    let mut parts = BTreeMap::from([("version".to_owned(), config["ignition"]["version"].to_string())]);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let name = |value: &Value| value.as_str().unwrap().to_owned();
    for file in list(&config["storage"]["files"]) {
        let source = name(&file["contents"]["source"]);
        // Ours leaves the media type out, which changes nothing.
        let content = source.strip_prefix("data:text/plain").map_or(source.clone(), |rest| format!("data:{rest}"));
        parts.insert(format!(".{}", name(&file["path"])), format!("{} {content}", file["mode"]));
    }
    for unit in list(&config["systemd"]["units"]) {
        parts.insert(format!("unit {}", name(&unit["name"])), unit["contents"].to_string());
    }
    parts
}

#[test]
fn files_and_versions_are_served_as_the_real_one_does() {
    let Some(folder) = recorded("api") else { return };
    let load = |name: &str| -> Value { serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap() };
    let running = Running::start(Files::default());
    let mut request = load("static-infraenv-req.json");
    request.as_object_mut().unwrap().remove("cluster_id");
    let answer = running.json("POST", "/v2/infra-envs", &request);
    assert_eq!(answer.status, 201);
    let path = format!("/v2/infra-envs/{}/downloads/files", answer.document()["id"].as_str().unwrap());
    let ours = running.get(&format!("{API}{path}?file_name=discovery.ign")).document();
    let (theirs, ours) = (parts(&load("static-discovery.ign")), parts(&ours));
    let names: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
    let text = |parts: &BTreeMap<String, String>, name| parts.get(name).cloned().unwrap_or("(absent)".into());
    let found: Vec<_> = names
        .into_iter()
        .filter(|name| theirs.get(*name) != ours.get(*name))
        .map(|name| compare::Difference {
            number: 1,
            exchange: "static-discovery.ign".into(),
            place: name.clone(),
            recorded: text(&theirs, name),
            ours: text(&ours, name),
        })
        .collect();
    for name in ["./etc/assisted/network/host0/mac_interface.ini", "./etc/assisted/network/host0/ymlFile0.yml"] {
        assert_eq!(ours.get(name), theirs.get(name), "{name}");
    }
    compare::settle("api discovery.ign", 1, &found, &[DISCOVERY]);

    let mut found = Vec::new();
    for (number, name) in ["openshift-versions.json", "component-versions.json"].into_iter().enumerate() {
        let path = name.strip_suffix(".json").unwrap();
        let answer = running.get(&format!("{API}/v2/{path}")).document();
        let differences = compare::documents(&load(name), &answer).into_iter();
        found.extend(differences.map(|(place, recorded, ours)| compare::Difference {
            number: u32::try_from(number).unwrap(),
            exchange: name.into(),
            place,
            recorded,
            ours,
        }));
    }
    compare::settle("api versions", 2, &found, &[VERSIONS]);
}
