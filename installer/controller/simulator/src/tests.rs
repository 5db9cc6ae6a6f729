use crate::*;
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};
use testkit::http::{Server, ok};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn config_map(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "data": { "key": "value" } })
}

#[test]
#[ignore = "the process that keeps the server of the other tests"]
fn keeper() {
    keeper::keep();
}

#[test]
fn servers_run_side_by_side_and_restart_on_their_port_with_their_data() {
    let (Some(one), Some(other)) = (ApiServer::start(), ApiServer::start()) else { return };
    let client = one.client();
    client.create(CONFIG_MAPS, &config_map("kept")).unwrap();
    let url = one.url();
    one.stop();
    assert!(matches!(client.get(CONFIG_MAPS), Err(ClientError::Transport { .. })));
    one.restart();
    assert_eq!(one.url(), url);
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/kept")).unwrap()["data"]["key"], "value");
    assert_eq!(other.client().find(&format!("{CONFIG_MAPS}/kept")).unwrap(), None);
}

#[test]
fn all_kinds_take_objects_and_reset_removes_them() {
    let Some(server) = ApiServer::shared("tests::keeper") else { return };
    let cluster = server.cluster();
    for row in &RESOURCES {
        let namespace = row.is_namespaced.then_some("openshift-machine-api");
        let status = if row.has_status { json!({ "phase": "Good" }) } else { Value::Null };
        cluster.resource(row.plural, namespace, "one", json!({ "spec": { "size": 1 }, "status": status }));
        // What another wrote stays, and what is given again is changed.
        let path = format!("{}/one", row.collection(namespace));
        server.client().patch(&path, &json!({ "metadata": { "labels": { "by": "another" } } })).unwrap();
        let stored = cluster.resource(row.plural, namespace, "one", json!({ "spec": { "size": 2 } }));
        assert_eq!((&stored["spec"]["size"], &stored["metadata"]["labels"]["by"]), (&json!(2), &json!("another")));
        assert_eq!(stored["status"]["phase"].is_string(), row.has_status, "{stored}");
    }
    cluster.cluster_operator("console", &[("Available", "True", "")], "4.20.1");
    cluster.cluster_version(&[("Progressing", "True", "Working towards 4.20.1")], "4.20.1", &["Console"], &["Console"]);
    cluster.proxy("http://proxy.example.com:3128", "", ".cluster.local");
    cluster.subscription("openshift-lso", "lso", "lso.v1");
    cluster.csv("openshift-lso", "lso.v1", "Succeeded", "done", "1.0.0");
    cluster.install_plan("openshift-lso", "plan", "lso", "Failed");
    cluster.job("openshift-marketplace", "unpack", 1, &[("Failed", "True", "")]);
    cluster.machine("worker-0", "worker");
    cluster.bare_metal_host("worker-0", &json!({ "baremetalhost.metal3.io/paused": "" }), "unmanaged");
    cluster.provisioning();
    cluster.pool("worker", false);
    cluster.install_config("networking: {}\n");
    cluster.invoker("assisted-service");
    cluster.ingress_ca("PEM");
    cluster.service("openshift-dns", "dns-default", "172.30.0.10");
    cluster.nodes(2);
    let job = server.client().get("/apis/batch/v1/namespaces/openshift-marketplace/jobs/unpack").unwrap();
    assert_eq!(job["status"]["failed"], 1);
    let version = cluster.read("clusterversions", None, "version").unwrap();
    assert_eq!(version["status"]["conditions"][0]["message"], "Working towards 4.20.1");

    server.reset();
    for row in &RESOURCES {
        assert_eq!(server.client().list(&row.collection(None)).unwrap(), Vec::<Value>::new(), "{}", row.plural);
    }
    assert_eq!(server.client().list("/api/v1/nodes").unwrap(), Vec::<Value>::new());
    let services = server.client().list("/api/v1/services").unwrap();
    let names: Vec<_> = services.iter().map(|service| &service["metadata"]["name"]).collect();
    assert_eq!(names, ["kubernetes"]);
}

#[test]
fn nodes_are_as_large_as_real_ones_and_their_pods_have_logs() {
    let Some(server) = ApiServer::shared("tests::keeper") else { return };
    let cluster = server.cluster();
    cluster.node_joins(&NodeState {
        name: "master-0",
        internal_ips: &["192.168.126.10", "2001:db8::10"],
        labels: &[("node-role.kubernetes.io/master", "")],
        taints: vec![
            json!({ "key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule" }),
        ],
        is_ready: false,
    });
    let ready = |node: &Value| node["status"]["conditions"][3]["status"].as_str().unwrap().to_owned();
    let node = cluster.read_node("master-0").unwrap();
    assert_eq!((ready(&node).as_str(), node["spec"]["taints"].as_array().unwrap().len()), ("False", 1));
    assert!(node.to_string().len() > 12_000, "{} bytes", node.to_string().len());
    cluster.set_ready("master-0", true);
    assert_eq!(ready(&cluster.read_node("master-0").unwrap()), "True");

    cluster.mcs_pod("master-0", "one\ntwo\nthree\n");
    let pods = "/api/v1/namespaces/openshift-machine-config-operator/pods";
    let log = format!("{pods}/machine-config-server-master-0/log");
    let client = server.client();
    assert_eq!(client.list(&format!("{pods}?labelSelector=k8s-app%3Dmachine-config-server")).unwrap().len(), 1);
    assert_eq!(client.text(&log).unwrap(), "one\ntwo\nthree\n");
    assert_eq!(client.text(&format!("{log}?tailLines=1")).unwrap(), "three\n");
    assert_eq!(client.text(&format!("{log}?limitBytes=5&sinceSeconds=300")).unwrap(), "one\nt");
    assert!(server.kubelet().requests().last().unwrap().contains("sinceSeconds=300"));
    server.kubelet().fail_log("openshift-machine-config-operator", "machine-config-server-master-0", 500);
    assert_eq!(client.text(&log).unwrap_err().status(), Some(500));
    client.delete_collection(pods).unwrap();
    assert_eq!(client.list(pods).unwrap(), Vec::<Value>::new());
}

#[test]
fn kubelets_request_certificates_as_who_they_are() {
    let Some(server) = ApiServer::shared("tests::keeper") else { return };
    let cluster = server.cluster();
    let name = cluster.certificate_request(&CertificateRequest::client("worker-0"));
    let client = cluster.read_certificate_request(&name);
    assert_eq!(client["spec"]["username"], NODE_BOOTSTRAPPER);
    let mut groups = NODE_BOOTSTRAPPER_GROUPS.to_vec();
    groups.push("system:authenticated");
    assert_eq!(client["spec"]["groups"], json!(groups));
    cluster.judge_certificate_request(&name, "Approved");
    cluster.await_approval(&name);

    let request = CertificateRequest::serving("worker-0", &["192.168.126.20"]);
    let serving = cluster.read_certificate_request(&cluster.certificate_request(&request));
    assert_eq!(serving["spec"]["username"], "system:node:worker-0");
    assert_eq!(serving["spec"]["groups"], json!(["system:nodes", "system:authenticated"]));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-noout", "-text"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut openssl = openssl.spawn().unwrap();
    std::io::Write::write_all(&mut openssl.stdin.take().unwrap(), request.pem().as_bytes()).unwrap();
    let text = String::from_utf8(openssl.wait_with_output().unwrap().stdout).unwrap();
    for part in ["O = system:nodes, CN = system:node:worker-0", "DNS:worker-0, IP Address:192.168.126.20"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn service_accounts_may_do_what_they_are_allowed_to() {
    let Some(server) = ApiServer::shared("tests::keeper") else { return };
    let token = server.service_account_token("assisted-installer", "controller");
    let client = Client::new(&server.url(), server.ca_pem(), &token);
    assert_eq!(client.list("/api/v1/nodes").unwrap_err().status(), Some(403));
    let subject = json!([{ "kind": "ServiceAccount", "name": "controller", "namespace": "assisted-installer" }]);
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node" });
    let binding = json!({ "metadata": { "name": "controller" }, "roleRef": role, "subjects": subject });
    server.client().create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).unwrap();
    await_some("the right to list nodes", || client.list("/api/v1/nodes").ok());
    assert!(
        server.kubeconfig_with_token(&token).contains(&token) && server.admin_kubeconfig().contains("simulator-admin")
    );
}

#[test]
fn requests_through_the_proxy_fail_on_demand() {
    let Some(server) = ApiServer::shared("tests::keeper") else { return };
    let proxy = server.proxy();
    let client = Client::new(&proxy.url(), proxy.ca_pem(), "simulator-admin");
    server.cluster().nodes(30);
    assert_eq!(client.list("/api/v1/nodes?limit=500").unwrap().len(), 30);
    proxy.clear();
    proxy.set_faults(|method, path, query| match (method, path) {
        ("POST", _) => Fault::LoseReply,
        ("DELETE", _) => Fault::Drop,
        (_, CONFIG_MAPS) if query == "limit=7" => Fault::Status(503),
        _ => Fault::Delay(Duration::from_millis(1)),
    });
    assert_eq!(client.get(&format!("{CONFIG_MAPS}?limit=7")).unwrap_err().status(), Some(503));
    assert!(client.create(CONFIG_MAPS, &config_map("lost")).unwrap_err().status().is_none());
    assert!(client.delete(&format!("{CONFIG_MAPS}/lost")).unwrap_err().status().is_none());
    // It was made all the same, and not deleted.
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/lost")).unwrap()["data"]["key"], "value");
    let seen: Vec<_> = proxy.requests().into_iter().map(|seen| (seen.method, seen.target, seen.status)).collect();
    let row = |method: &str, target: String, status| (method.to_owned(), target, status);
    assert_eq!(seen[0], row("GET", format!("{CONFIG_MAPS}?limit=7"), Some(503)));
    assert_eq!(seen.last().unwrap(), &row("GET", format!("{CONFIG_MAPS}/lost"), Some(200)));
    assert!(seen.contains(&row("POST", CONFIG_MAPS.to_owned(), None)), "{seen:?}");
}

/// The lines of a watch, as they come.
fn watch(proxy: &FaultProxy) -> impl Iterator<Item = Value> + use<> {
    let agent = api::http::agent_trusting_only(proxy.ca_pem().as_bytes()).unwrap();
    let url = format!("{}{CONFIG_MAPS}?watch=true", proxy.url());
    let reply = agent.get(url).header("Authorization", "Bearer simulator-admin").call().unwrap();
    let lines = BufReader::new(reply.into_body().into_reader()).lines();
    lines.map_while(Result::ok).map(|line| serde_json::from_str(&line).unwrap())
}

#[test]
fn watches_pass_through_the_proxy_until_they_are_cut() {
    let Some(server) = ApiServer::shared("tests::keeper") else { return };
    let proxy = server.proxy();
    let client = server.client();
    let mut events = watch(&proxy);
    for name in ["one", "two"] {
        client.create(CONFIG_MAPS, &config_map(name)).unwrap();
        assert_eq!(events.next().unwrap()["object"]["metadata"]["name"], name);
    }
    proxy.blackhole(true);
    client.create(CONFIG_MAPS, &config_map("three")).unwrap();
    let (sender, received) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || events.for_each(|event| sender.send(event).unwrap()));
    assert!(received.recv_timeout(Duration::from_millis(300)).is_err());
    proxy.blackhole(false);
    assert_eq!(received.recv_timeout(PATIENCE).unwrap()["object"]["metadata"]["name"], "three");
    assert_eq!(proxy.cut_watches(), 1);
    reader.join().unwrap();

    // A server that dies ends them too.
    let events = watch(&proxy);
    server.stop();
    assert_eq!(events.filter(|event| event["type"] != "ADDED").count(), 0);
    server.restart();
}

#[test]
fn a_service_without_tls_has_a_proxy_too() {
    let service = Server::start(|request| ok([request.target().as_bytes(), b" ", &request.body].concat()));
    let proxy = FaultProxy::http(&service.url(""));
    let agent =
        api::http::agent(&api::http::HttpConfig { proxies: Some(Default::default()), ..Default::default() }).unwrap();
    let url = format!("{}/path?query", proxy.url());
    let ask = || agent.put(&url).send("body").map(|mut reply| reply.body_mut().read_to_string().unwrap());
    assert_eq!(ask().unwrap(), "/path?query body");
    let target = url.clone();
    proxy.set_faults(
        move |_, path, query| if target.ends_with(&format!("{path}?{query}")) { Fault::Drop } else { Fault::Pass },
    );
    assert!(ask().is_err());
    proxy.set_faults(|_, _, _| Fault::Hang);
    let hangs = agent.get(&url).config().timeout_global(Some(Duration::from_millis(200))).build().call();
    assert!(matches!(hangs, Err(ureq::Error::Timeout(_))), "{hangs:?}");
    proxy.pass();
    assert_eq!(ask().unwrap(), "/path?query body");
    assert_eq!(proxy.requests().last().unwrap().body, b"body");
}

#[test]
fn a_life_happens_in_order() {
    let Some(server) = ApiServer::shared("tests::keeper") else { return };
    let cluster = server.cluster();
    let seen = Arc::<Mutex<Vec<u32>>>::default();
    let note = |number: u32| {
        let seen = seen.clone();
        move |_: &Cluster| seen.lock().unwrap().push(number)
    };
    let life = || Life::new().at_minute(5, note(2)).at_minute(1, note(1)).at_minute(5, note(3)).at_minute(90, note(4));
    let mut by_hand = life();
    by_hand.advance_to(Duration::from_secs(300), &cluster);
    assert_eq!((by_hand.next(), seen.lock().unwrap().clone()), (Some(Duration::from_secs(5400)), vec![1, 2, 3]));
    seen.lock().unwrap().clear();
    life().run(&cluster, 54_000).join().unwrap();
    assert_eq!(*seen.lock().unwrap(), [1, 2, 3, 4]);
}

#[test]
fn kinds_are_named_as_the_real_ones_are() {
    let Some(folder) = testkit::recordings::path("data/crd") else { return };
    for ours in crds() {
        let name = ours["metadata"]["name"].as_str().unwrap();
        let (plural, group) = name.split_once('.').unwrap();
        let Ok(text) = std::fs::read_to_string(folder.join(format!("{group}_{plural}.yaml"))) else { continue };
        let real: Value = serde_norway::from_str(&text).unwrap();
        for pointer in ["/metadata/name", "/spec/group", "/spec/scope", "/spec/names/kind", "/spec/names/listKind"] {
            assert_eq!(ours.pointer(pointer), real.pointer(pointer), "{name}");
        }
        let version = &ours["spec"]["versions"][0];
        let real = real["spec"]["versions"].as_array().unwrap();
        let same = real.iter().find(|real| real["name"] == version["name"]).unwrap();
        if !same["subresources"].is_null() {
            assert_eq!(version["subresources"], same["subresources"], "{name}");
        }
    }
}
