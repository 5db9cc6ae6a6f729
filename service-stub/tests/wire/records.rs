//! Clusters and infra-envs as they are created, and the steps one by one.

use super::*;

const CREATED: &[Meant] = &[meant("cluster", ".org_soft_timeouts_enabled", "timeouts are soft with an option")];
const CREATED_INFRA_ENV: &[Meant] = &[meant("infra-env", ".download_url", "each service's own address")];

#[test]
fn created_records_look_like_the_real_ones() {
    let Some(folder) = recorded("api") else { return };
    let load = |name: &str| -> Value { serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap() };
    let releases = json!([{"openshift_version": "4.22", "cpu_architecture": "x86_64", "version": "4.22.9",
        "url": "quay.io/openshift-release-dev/ocp-release:4.22.9-x86_64"}]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), releases.to_string()).unwrap();
    let catalogue = service_stub::releases::Catalogue::read(Some(file.path()), None, None).unwrap();
    let running = Running::start(Files { catalogue: catalogue.map(std::sync::Arc::new), ..Files::default() });
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
