//! The same clusters at both services, which prepare them with the same double of `openshift-install`: how it is called, what it finds,
//! and what hosts and users get of what it makes.

mod cases;
mod readable;

use super::*;
use crate::service::{RealService, ServiceOptions, ours::OurService};
use cases::{Case, cases};
use installer_double::{Behaviour, Double, Fault};
use std::collections::BTreeMap;

const NAMES: &[(&str, &str)] = &[("quay.io", "192.0.2.80")];
/// Ours has the other one.
const REAL_PORT: u16 = 8092;
/// Hosts without names that are served, whose clocks have stopped.
const DISABLED_OF_HOSTS: &str = "api-domain-name-resolved-correctly,api-int-domain-name-resolved-correctly,\
    apps-domain-name-resolved-correctly,dns-wildcard-not-configured,\
    time-synced-between-host-and-service";
const DISABLED_OF_CLUSTERS: &str = "ntp-server-configured";
const FILES: [&str; 8] = [
    "bootstrap.ign",
    "master.ign",
    "worker.ign",
    "arbiter.ign",
    "metadata.json",
    "install-config.yaml",
    "custom_manifests.json",
    "custom_manifests.yaml",
];
const CREDENTIALS: [&str; 3] = ["kubeadmin-password", "kubeconfig", "kubeconfig-noingress"];

/// What may be another: a part of the case's name, parts of the way to the difference with `*` between them, and why.
const NAMED: &[(&str, &str, &str)] = &[
    ("", "iscsi-nic-reapply.service > contents", "our own script"),
    ("single node", "dnsmasq-bootstrap-in-place.yaml*contents", "our own scripts and unit"),
    ("persistent boot", "cleanup-assisted-discovery-stateroot.s*contents", "our own script and unit"),
    ("", "hosts*files > /* > user", "a file without an owner is root's"),
    ("", "credentials > kubeconfig > ", "here, it waits for the ingress, so nobody gets one without its certificate"),
    ("", "files > arbiter.ign > reason", "a missing file's name is enough"),
    ("", "files > arbiter.ign > status", "what is missing is not a conflict"),
    ("", "files > custom_manifests.json > reason", "a missing file's name is enough"),
    ("", "files > custom_manifests.json > status", "what is missing is not a conflict"),
    ("", "files > custom_manifests.yaml > reason", "a missing file's name is enough"),
    ("", "files > custom_manifests.yaml > status", "what is missing is not a conflict"),
    ("DHCP", "unsupported-monitor.conf*mac-address", "made from the cluster's id, which is new each time"),
    ("operators", "loki_operator_group.yaml*spec", "the strategy is the default"),
    ("operators", "nmstate_ns.yaml*spec", "Kubernetes sets a namespace's finalizers itself"),
    ("operators", "metadata > namespace", "there, samples are in the namespace of who applies them"),
    (
        "LVM",
        "lvm.metadata.yaml > subscriptionName",
        "there, it is empty, so the controller does not wait for the operator",
    ),
    ("a missing pool", "calls", "here, it is refused before the program runs"),
    ("a missing pool", "preparation > reason", "here, it is refused before the program runs"),
    ("a missing pool", "events", "here, it is refused before the program runs"),
    ("a bad patch", "preparation > reason", "there, it names the service's directory"),
    ("a bad patch", "events", "there, it names the service's directory"),
];

/// Whether a way has these parts, in their order.
fn fits(way: &str, pattern: &str) -> bool {
    let mut rest = way;
    pattern.split('*').all(|part| match rest.split_once(part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

/// A cluster at a service, with its hosts.
struct Rack<'a> {
    case: &'a Case,
    cluster: String,
    env: String,
    hosts: Vec<String>,
    /// Steps that were replied to: host, type, arguments.
    replied: BTreeMap<(usize, String), Value>,
    refused: Vec<Value>,
    is_begun: bool,
    /// All that is to be compared, once it is prepared.
    seen: Option<Value>,
}

impl<'a> Rack<'a> {
    fn register(api: &Api, number: usize, case: &'a Case) -> Self {
        let body = install_config::with(case.base.cluster.clone(), json!({"name": case.label()}));
        let cluster = id(&api.request("POST", "/clusters", Some(body)));
        let mut body = install_config::with(infra_env(Some(&cluster)), case.base.infra_env.clone());
        body["openshift_version"] = case.base.cluster["openshift_version"].clone();
        let env = id(&api.request("POST", "/infra-envs", Some(body)));
        let hosts: Vec<String> =
            (0..case.base.hosts.len()).map(|host| format!("00000000-0000-4000-8000-{number:06}{host:06}")).collect();
        let mut rack = Self {
            case,
            cluster,
            env,
            hosts,
            replied: BTreeMap::new(),
            refused: Vec::new(),
            is_begun: false,
            seen: None,
        };
        for (index, (id, host)) in rack.hosts.iter().zip(&case.base.hosts).enumerate() {
            let register = json!({"host_id": id, "discovery_agent_version": crate::site::AGENT_IMAGE});
            api.request("POST", &format!("/infra-envs/{}/hosts", rack.env), Some(register));
            let output = host.inventory.to_string();
            let reply = json!({"step_id": "inventory-1", "step_type": "inventory", "exit_code": 0, "output": output});
            api.request("POST", &format!("{}/instructions", rack.host(index)), Some(reply));
            if rack.hosts.len() > 1 {
                api.request("PATCH", &rack.host(index), Some(json!({"host_role": host.role})));
            }
        }
        for (index, host) in case.base.hosts.iter().enumerate() {
            rack.try_request(api, "PATCH", &rack.host(index), &host.patch);
        }
        for (method, path, body) in &case.requests {
            let mut path =
                path.replace("CLUSTER", &rack.cluster).replace("/hosts/", &format!("/infra-envs/{}/hosts/", rack.env));
            for (index, id) in rack.hosts.iter().enumerate() {
                path = path.replace(&format!("HOST-{index}"), id);
            }
            rack.try_request(api, method, &path, body);
        }
        rack
    }

    fn try_request(&mut self, api: &Api, method: &str, path: &str, body: &Value) {
        let (status, answer) = api.try_request(method, path, Some(body.clone()));
        if !(200..300).contains(&status) {
            self.refused.push(json!([body, status, answer]));
        }
    }

    fn host(&self, index: usize) -> String {
        format!("/infra-envs/{}/hosts/{}", self.env, self.hosts[index])
    }

    /// Lets the hosts reply to new steps, and the cluster begin its installation once it can.
    fn advance(&mut self, api: &Api, double: &Double) {
        for index in 0..self.hosts.len() {
            let path = format!("{}/instructions", self.host(index));
            let steps = api.get(&path)["instructions"].as_array().cloned().unwrap_or_default();
            for step in steps {
                let kind = step["step_type"].as_str().unwrap().to_owned();
                let arguments = step["args"].clone();
                if self.replied.get(&(index, kind.clone())) == Some(&arguments) {
                    continue;
                }
                let list = arguments.as_array().cloned().unwrap_or_default();
                let Some(output) = cases::reply(&kind, &list, &self.case.base.hosts[index].inventory) else { continue };
                let reply = json!({"step_id": step["step_id"], "step_type": kind, "exit_code": 0, "output": output.to_string()});
                self.try_request(api, "POST", &path, &reply);
                self.replied.insert((index, kind), arguments);
            }
        }
        let path = format!("/clusters/{}", self.cluster);
        let cluster = api.get(&path);
        if !self.is_begun && cluster["status"] == "ready" {
            api.request("POST", &format!("{path}/actions/install"), None);
            self.is_begun = true;
        }
        let preparation = &cluster["last-installation-preparation"]["status"];
        let preparing = ["ready", "preparing-for-installation"].contains(&cluster["status"].as_str().unwrap());
        if self.is_begun && !preparing && preparation == "success"
            || preparation == "failed" && cluster["status"] == "ready"
        {
            self.seen = Some(self.seen(api, double));
        }
    }

    /// Why it is not prepared.
    fn unprepared(&self, api: &Api) -> Value {
        let why = |state: &Value| {
            json!([state["status"], state["status_info"], crate::user::failures(&state["validations_info"])])
        };
        let hosts: Vec<Value> = (0..self.hosts.len()).map(|index| why(&api.get(&self.host(index)))).collect();
        let cluster = api.get(&format!("/clusters/{}", self.cluster));
        json!({"never prepared": why(&cluster), "hosts": hosts, "refused": self.refused})
    }

    fn seen(&self, api: &Api, double: &Double) -> Value {
        let path = format!("/clusters/{}", self.cluster);
        let cluster = api.get(&path);
        let file = |path: &str| {
            let (status, bytes) = api.file(path);
            let content = readable::content(&bytes);
            if status == 200 { content } else { json!({"status": status, "reason": content["reason"]}) }
        };
        let named = |names: &[&str], kind: &str| -> Value {
            names
                .iter()
                .map(|name| ((*name).to_owned(), file(&format!("{path}/downloads/{kind}?file_name={name}"))))
                .collect()
        };
        let hosts: Value = (0..self.hosts.len())
            .map(|index| {
                // The published path is singular.
                let path = format!("/infra-env/{}/hosts/{}/downloads/ignition", self.env, self.hosts[index]);
                (self.hosts[index].clone(), file(&path))
            })
            .collect();
        let events = api.get(&format!("/events?cluster_id={}&order=ascending&limit=1000", self.cluster));
        let events = events.as_array().unwrap().iter().filter(|event| event["host_id"].is_null());
        let is_begin = |event: &&Value| event["message"].as_str().unwrap().ends_with("to preparing-for-installation");
        let events = events.skip_while(|event| !is_begin(event));
        let events: Vec<Value> =
            events.map(|event| json!([event["name"], event["severity"], event["message"]])).collect();
        let bootstrap = self.bootstrap(api);
        let addresses = ["ipv4_addresses", "ipv6_addresses"].iter().flat_map(|family| {
            let interfaces = bootstrap["interfaces"].as_array().into_iter().flatten();
            interfaces.flat_map(move |interface| interface[family].as_array().cloned().unwrap_or_default())
        });
        let addresses: Vec<String> = addresses
            .map(|address| format!("--node-ip={}\\n", address.as_str().unwrap().split('/').next().unwrap()))
            .collect();
        let seen = json!({
            "refused": self.refused,
            "preparation": cluster["last-installation-preparation"],
            "calls": self.calls(api, double),
            "files": named(&FILES, "files"),
            "credentials": named(&CREDENTIALS, "credentials"),
            "hosts": hosts,
            "events": events,
        });
        let mut known = vec![(self.cluster.as_str(), "CLUSTER"), (self.env.as_str(), "INFRA-ENV")];
        known.extend(addresses.iter().map(|address| (address.as_str(), "--node-ip=BOOTSTRAP\\n")));
        serde_json::from_str(&readable::anonymous(&seen.to_string(), &known)).unwrap()
    }

    /// The inventory of the host that was elected: each service has its own order.
    fn bootstrap(&self, api: &Api) -> Value {
        let hosts = api.get(&format!("/infra-envs/{}/hosts", self.env));
        let bootstrap = hosts.as_array().unwrap().iter().find(|host| host["bootstrap"] == true);
        bootstrap.map_or(Value::Null, |host| serde_json::from_str(host["inventory"].as_str().unwrap()).unwrap())
    }

    fn calls(&self, api: &Api, double: &Double) -> Value {
        let inventory = self.bootstrap(api).to_string();
        let calls = double.calls().unwrap();
        let own = calls.iter().filter(|call| call.install_config["metadata"]["name"] == *self.case.label());
        let directories: Vec<_> = own.map(|call| call.directory.clone()).collect();
        let one = |call: &installer_double::Call| {
            let directory = call.directory.as_ref().unwrap().display().to_string();
            let environment = call.environment.iter().filter(|(name, _)| name.starts_with("OPENSHIFT_"));
            let of_bootstrap = |value: &str| {
                if inventory.contains(&format!("\"{value}/")) { "BOOTSTRAP".to_owned() } else { value.to_owned() }
            };
            let environment: BTreeMap<_, _> = environment.map(|(name, value)| (name, of_bootstrap(value))).collect();
            let arguments: Vec<_> = call.arguments.iter().map(|word| word.replace(&directory, "DIRECTORY")).collect();
            let files: Vec<_> = call.files.iter().map(|name| readable::untold(name)).collect();
            let manifests =
                call.manifests.iter().map(|(name, text)| (readable::untold(name), readable::content(text.as_bytes())));
            let manifests: serde_json::Map<String, Value> = manifests.collect();
            json!({"arguments": arguments, "environment": environment, "files": files, "manifests": manifests,
                "install_config": readable::plain(call.install_config.clone())})
        };
        calls.iter().filter(|call| directories.contains(&call.directory)).map(one).collect()
    }
}

/// What a service does with clusters that are there at the same time.
fn play(api: &Api, double: &Double, cases: &[Case]) -> Vec<Value> {
    let numbered = cases.iter().enumerate();
    let mut racks: Vec<Rack> = numbered.map(|(number, case)| Rack::register(api, number, case)).collect();
    let end = Instant::now() + PATIENCE;
    while racks.iter().any(|rack| rack.seen.is_none()) && Instant::now() < end {
        racks.iter_mut().filter(|rack| rack.seen.is_none()).for_each(|rack| rack.advance(api, double));
        thread::sleep(Duration::from_millis(200));
    }
    racks.iter().map(|rack| rack.seen.clone().unwrap_or_else(|| rack.unprepared(api))).collect()
}

#[test]
fn clusters_are_prepared_alike() {
    scenario("t: preparations, both services", &["assisted-service"], NAMES, |peers, site| {
        let programs = tempfile::tempdir().unwrap();
        let built = testkit::process::program("openshift-install-double");
        let behaviour = Behaviour { logs_manifests: true, ..Behaviour::default() };
        let our_double = Double::place(&built, programs.path(), &behaviour).unwrap();
        let program = format!("--openshift-install={}", our_double.program().display());
        let disabled = format!("--disable-validations={DISABLED_OF_HOSTS},{DISABLED_OF_CLUSTERS}");
        let options =
            ["--generate", &program, "--tls=self-signed", "--single-node-dnsmasq", "--monitor-interval=1", &disabled];
        let ours = OurService::start(site, &options);
        let environment = [
            ("DUMMY_IGNITION", "false".to_owned()),
            // Ours does not ask for the registry's name.
            ("DISABLED_HOST_VALIDATIONS", format!("{DISABLED_OF_HOSTS},release-domain-name-resolved-correctly")),
            ("DISABLED_CLUSTER_VALIDATIONS", DISABLED_OF_CLUSTERS.to_owned()),
            ("SERVICE_CA_CERT_PATH", ours.authority().display().to_string()),
        ];
        let base_url = site.url().replace("http:", "https:");
        let options = ServiceOptions { base_url, environment: &environment, ..ServiceOptions::default() };
        let real = RealService::start(peers, &site.server.namespace, REAL_PORT, options);
        let real_double = Double::place(&built, &real.programs(), &behaviour).unwrap();
        let both = |cases: &[Case]| -> Vec<(Value, Value)> {
            let (theirs, own) = thread::scope(|scope| {
                let theirs = scope.spawn(|| play(&real.api, &real_double, cases));
                let own = play(&ours.api, &our_double, cases);
                (theirs.join().unwrap(), own)
            });
            theirs.into_iter().zip(own).collect()
        };
        let all = cases();
        let mut pairs: Vec<(&str, (Value, Value))> = all.iter().map(|case| case.base.name).zip(both(&all)).collect();
        for (name, command, output_chars) in
            [("a failure with much output", "ignition-configs", 5000), ("a failure with some output", "manifests", 524)]
        {
            let fault = Fault { command: Some(command.into()), output_chars, exit_code: Some(4), ..Fault::default() };
            let failing = Behaviour { faults: vec![fault], ..behaviour.clone() };
            our_double.behave(&failing).unwrap();
            real_double.behave(&failing).unwrap();
            let cases = [cases::failing(name)];
            pairs.extend(both(&cases).into_iter().map(|pair| (name, pair)));
        }
        compare_all(&pairs)
    });
}

/// What of an outcome says why it is what it is.
fn brief(seen: &Value) -> &Value {
    if seen["preparation"].is_null() { seen } else { &seen["preparation"] }
}

/// Clusters whose names begin with an article fail.
fn compare_all(pairs: &[(&str, (Value, Value))]) -> String {
    let (mut unnamed, mut named) = (Vec::new(), [0; NAMED.len()]);
    for (name, (theirs, own)) in pairs {
        let file = name.replace([',', ' '], "-");
        for (whose, seen) in [("real", theirs), ("ours", own)] {
            std::fs::write(traces().join(format!("{file}.{whose}.json")), format!("{seen:#}")).unwrap();
            let wanted = if name.starts_with("a ") { "failed" } else { "success" };
            if seen["preparation"]["status"] != wanted {
                unnamed.push(format!("{name}: at the {whose} service it is not {wanted}: {}", brief(seen)));
            }
        }
        let mut found = Vec::new();
        readable::differences("", theirs, own, &mut found);
        for (path, real, ours) in found {
            match NAMED.iter().position(|(case, part, _)| name.contains(case) && fits(&path, part)) {
                Some(row) => named[row] += 1,
                None => unnamed.push(format!("{name}:{path}:\n  real {real}\n  ours {ours}")),
            }
        }
    }
    let unused = NAMED.iter().zip(named).filter(|(_, count)| *count == 0);
    unnamed.extend(unused.map(|((case, part, _), _)| format!("{case}: {part}: nothing differs so")));
    std::fs::write(traces().join("different.txt"), unnamed.join("\n\n")).unwrap();
    let first = unnamed.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(unnamed.is_empty(), "{} differences are not named; the first:\n{first}", unnamed.len());
    format!("{} clusters, {} differences as named", pairs.len(), named.iter().sum::<usize>())
}
