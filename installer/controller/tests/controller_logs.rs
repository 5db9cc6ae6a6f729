//! What the controller sends beside its reports: its log, what shows a fault, and how often nodes have booted.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::rig;

use base64::{Engine, prelude::BASE64_STANDARD};
use controller::config::MustGatherImages;
use rig::{CLUSTER, INFRA_ENV, NAMESPACE, Rig, State, host_id, operator};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use simulator::Cluster;
use std::{
    fs,
    io::Read,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

const POD: &str = "assisted-installer-controller-abcde";
const LOG: &str = "assisted-installer-controller.logs";
const GATHERED: &str = "must-gather.tar.gz";
const GATHER: &str = "must-gather-";
const COUNT: &str = "count-boots-";

/// Files of a tar.gz, in order.
fn files(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(archive));
    let file = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (name, bytes)
    };
    tar.entries().unwrap().map(file).collect()
}

/// Files of each upload, in order.
fn uploads(rig: &Rig) -> Vec<Vec<(String, Vec<u8>)>> {
    let requests = rig.service.requests();
    let sent = requests.iter().filter(|request| request.ends_with("POST", "/logs"));
    let archive = |bytes: &[u8]| {
        let start = bytes.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        let end = bytes.windows(4).rposition(|start| start == b"\r\n--").unwrap();
        files(&bytes[start..end])
    };
    sent.map(|request| archive(&request.bytes)).collect()
}

/// Names of the files of each upload.
fn names(rig: &Rig) -> Vec<Vec<String>> {
    uploads(rig).into_iter().map(|files| files.into_iter().map(|(name, _)| name).collect()).collect()
}

fn log(rig: &Rig) -> Option<String> {
    let last = uploads(rig).pop()?;
    last.into_iter().find(|(name, _)| name == LOG).map(|(_, bytes)| String::from_utf8(bytes).unwrap())
}

/// The controller's own pod, on a node.
fn own_pod(rig: &Rig) {
    rig.node("node0", true);
    rig.cluster.pod(NAMESPACE, POD, "node0", &[("job-name", "assisted-installer-controller")]);
    rig.cluster.kubelet().set_log(NAMESPACE, POD, "by the cluster\n");
}

/// In place of a node: runs the pods that the controller makes, until it is dropped.
struct Runs {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Runs {
    /// `run` has the pod's log by its object and its number, or an error for a pod that fails.
    fn start(rig: &Rig, run: impl Fn(&Value, usize) -> Result<String, String> + Send + 'static) -> Self {
        let (cluster, over) = (rig.cluster.clone(), Arc::<AtomicBool>::default());
        let is_over = over.clone();
        let thread = thread::spawn(move || {
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) {
                for pod in cluster.client().list("/api/v1/pods").unwrap() {
                    let name = pod["metadata"]["name"].as_str().unwrap();
                    let is_new = pod["status"]["phase"] == "Pending";
                    if is_new && (name.starts_with(GATHER) || name.starts_with(COUNT)) {
                        run_pod(&cluster, &pod, &run(&pod, count));
                        count += 1;
                    }
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

fn run_pod(cluster: &Cluster, pod: &Value, result: &Result<String, String>) {
    let text = |member: &str| pod["metadata"][member].as_str().unwrap();
    let (namespace, name) = (text("namespace"), text("name"));
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    if pod["spec"]["nodeName"].is_null() {
        let binding =
            json!({"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": "node0"}});
        cluster.client().create(&format!("{path}/binding"), &binding).unwrap();
    }
    let status = match result {
        Ok(log) => {
            cluster.kubelet().set_log(namespace, name, log.as_str());
            json!({"phase": "Succeeded"})
        }
        Err(message) => json!({"phase": "Failed", "message": message}),
    };
    // The controller may have deleted it.
    let _ = cluster.client().patch_status(&path, &status);
}

/// A collector's result as its pod writes it.
fn sent(result: &[u8]) -> String {
    let lines: String = result.chunks(48).map(|line| BASE64_STANDARD.encode(line) + "\n").collect();
    format!("{lines}sha256:{}\n", BASE64_STANDARD.encode(Sha256::digest(result)))
}

fn image(pod: &Value) -> &str {
    pod["spec"]["initContainers"][0]["image"].as_str().unwrap()
}

/// Images of the collectors that ran, sorted.
fn images(rig: &Rig) -> Vec<String> {
    let mut images: Vec<_> = rig.pods(GATHER).iter().map(|pod| image(pod).to_owned()).collect();
    images.sort();
    images
}

fn states(rig: &Rig) -> Vec<Value> {
    rig.sent("PUT", "/logs-progress").iter().map(|body| body["logs_state"].clone()).collect()
}

fn kubeconfigs(rig: &Rig) -> usize {
    rig.sent("GET", "/downloads/credentials").len()
}

/// Something is sent every five minutes: the pod's log, else the one on disk, else why there is none.
#[test]
fn a_log_is_sent_whatever_can_be_read() {
    let Some(rig) = Rig::new() else { return };
    own_pod(&rig);
    rig.fail_all("GET", "/pods", 500);
    let controller = rig.start();
    rig.until("a reason", |rig| log(rig).is_some_and(|log| log.starts_with("no log from the Kubernetes API")));
    assert_eq!(names(&rig), [[LOG]]);
    fs::write(rig.surroundings().own_log, "on disk\n").unwrap();
    rig.until("the log on disk", |rig| log(rig).is_some_and(|log| log == "on disk\n"));
    rig.cluster.kubelet().fail_log(NAMESPACE, POD, 500);
    rig.proxy.pass();
    let before = uploads(&rig).len();
    rig.until("two more", |rig| uploads(rig).len() > before + 1);
    assert_eq!(log(&rig).unwrap(), "on disk\n");
    rig.cluster.kubelet().set_log(NAMESPACE, POD, "by the cluster\n");
    rig.until("the pod's log", |rig| log(rig).is_some_and(|log| log == "by the cluster\n"));
    assert!(states(&rig).is_empty());
    controller.stop();
    assert!(states(&rig).is_empty(), "another run goes on");
}

/// A cluster is installed: its last log is sent, and nothing is collected.
#[test]
fn nothing_is_collected_of_a_cluster_that_is_well() {
    for is_single_node in [false, true] {
        let Some(rig) = Rig::new() else { return };
        rig.finalizes();
        own_pod(&rig);
        rig.set_status("installed");
        let mut config = rig.config();
        config.control_plane_count = if is_single_node { 1 } else { 3 };
        rig.start_with(config).finish().unwrap();
        assert_eq!(names(&rig), [[LOG]]);
        assert_eq!(states(&rig), ["requested", "completed"]);
        assert_eq!(kubeconfigs(&rig), 0);
        assert!(images(&rig).is_empty());
    }
}

/// The service never takes the last log: the controller gives up after its time, and says that it has ended.
#[test]
fn logs_that_are_never_taken_are_given_up() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    rig.set_status("installed");
    rig.state().failures.push(("POST", "/logs", 9999, 500));
    rig.start().finish().unwrap();
    assert!(uploads(&rig).len() > 20);
    assert_eq!(states(&rig), ["requested", "completed"]);
    assert!(images(&rig).is_empty() && kubeconfigs(&rig) == 0);
}

/// A cluster fails: the log goes first, since what follows may take long; then what the collector of the set image found. A collector that
/// fails runs again, after the rest was sent without it.
#[test]
fn a_collector_that_fails_runs_again() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    own_pod(&rig);
    rig.set_status("error");
    let _runs = Runs::start(&rig, |_, number| if number == 0 { Err("evicted".to_owned()) } else { Ok(sent(b"found")) });
    let mut config = rig.config();
    config.must_gather = MustGatherImages::One("quay.io/must-gather:1".to_owned());
    rig.start_with(config).finish().unwrap();
    assert_eq!(images(&rig), ["quay.io/must-gather:1", "quay.io/must-gather:1"]);
    let both = vec![GATHERED.to_owned(), LOG.to_owned()];
    assert_eq!(names(&rig), [vec![LOG.to_owned()], vec![LOG.to_owned()], vec![LOG.to_owned()], both]);
    assert_eq!(uploads(&rig)[3][0].1, b"found");
    assert_eq!(states(&rig), ["requested", "completed"]);
    assert_eq!(kubeconfigs(&rig), 1, "it is downloaded once");
    // What the collector needed is gone with it.
    let bindings = rig.cluster.client().list("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings").unwrap();
    assert!(bindings.iter().all(|it| !it["metadata"]["name"].as_str().unwrap().starts_with("openshift-must-gather-")));
}

/// What was collected is kept until the service takes it.
#[test]
fn a_refused_upload_does_not_collect_again() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    own_pod(&rig);
    rig.set_status("error");
    rig.state().failures.push(("POST", "/logs", 4, 500));
    let result: Vec<u8> =
        (0..100_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let log = sent(&result);
    let _runs = Runs::start(&rig, move |_, _| Ok(log.clone()));
    let mut config = rig.config();
    config.must_gather = MustGatherImages::One("quay.io/must-gather:1".to_owned());
    rig.start_with(config).finish().unwrap();
    assert_eq!(images(&rig).len(), 1);
    assert_eq!(uploads(&rig).len(), 5);
    assert!(uploads(&rig)[4][0] == (GATHERED.to_owned(), result));
}

/// On a single node the router is asked as well; that it does not answer changes nothing, nor does a kubeconfig that comes late, or a
/// cluster that can't be read any more.
#[test]
fn a_single_node_that_fails_is_collected_from_as_well() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    own_pod(&rig);
    rig.set_status("error");
    rig.state().failures.push(("GET", "/downloads/credentials", 1, 500));
    let _runs = Runs::start(&rig, |_, _| Ok(sent(b"found")));
    let mut config = rig.config();
    config.control_plane_count = 1;
    config.must_gather = MustGatherImages::One("quay.io/must-gather:1".to_owned());
    let controller = rig.start_with(config);
    rig.until("the end begins", |rig| !states(rig).is_empty());
    rig.state().failures.push(("GET", CLUSTER, 9999, 500));
    controller.finish().unwrap();
    assert_eq!((kubeconfigs(&rig), images(&rig).len()), (2, 1));
    assert_eq!(names(&rig).last().unwrap(), &[GATHERED, LOG]);
}

/// Images by operator: the release's where the cluster failed, and that of each operator that did. Each result has its place.
#[test]
fn operators_that_failed_are_collected_from_by_their_images() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    own_pod(&rig);
    rig.state().operators.push(operator("cnv", "olm", "progressing"));
    let _runs = Runs::start(&rig, |pod, _| Ok(sent(image(pod).as_bytes())));
    let mut config = rig.config();
    let by_operator = [("ocp", "quay.io/a/release:1"), ("cnv", "quay.io/b/cnv:1"), ("ocs", "quay.io/c/ocs:1")];
    let by_operator = by_operator.map(|(name, image)| (name.to_owned(), image.to_owned()));
    config.must_gather = MustGatherImages::ByOperator(by_operator.into());
    let controller = rig.start_with(config);
    for stage in
        ["Waiting for olm operators csv initialization", "Applying olm manifests", "Waiting for olm operators csv"]
    {
        rig.time_out(stage);
    }
    rig.until("completion", |rig| !rig.sent("POST", "/complete-installation").is_empty());
    rig.set_status("error");
    controller.finish().unwrap();
    assert_eq!(images(&rig), ["quay.io/a/release:1", "quay.io/b/cnv:1"]);
    let last = uploads(&rig).pop().unwrap();
    let wanted = [("0-release-1.tar.gz", "quay.io/a/release:1"), ("1-cnv-1.tar.gz", "quay.io/b/cnv:1")];
    assert_eq!(files(&last[0].1), wanted.map(|(name, text)| (name.to_owned(), text.as_bytes().to_owned())));
}

/// Without an image of its own in the settings, the release's is the one that the cluster knows.
#[test]
fn the_cluster_knows_the_collector_of_its_release() {
    for images_by_operator in [None, Some([("cnv".to_owned(), "quay.io/cnv:1".to_owned())].into())] {
        let Some(rig) = Rig::new() else { return };
        rig.finalizes();
        own_pod(&rig);
        let status = json!({"tags": [{"tag": "latest", "items": [{"dockerImageReference": "quay.io/release:2"}]}]});
        rig.cluster.resource("imagestreams", Some("openshift"), "must-gather", json!({"status": status}));
        rig.set_status("error");
        let _runs = Runs::start(&rig, |_, _| Ok(sent(b"found")));
        let mut config = rig.config();
        config.must_gather = images_by_operator.map_or(MustGatherImages::Release, MustGatherImages::ByOperator);
        rig.start_with(config).finish().unwrap();
        assert_eq!(images(&rig), ["quay.io/release:2"]);
        assert_eq!(names(&rig).last().unwrap(), &[GATHERED, LOG]);
    }
}

/// Asked to end while a collector runs, the controller leaves the rest to another run.
#[test]
fn the_last_logs_are_another_runs_too() {
    let Some(rig) = Rig::new() else { return };
    rig.finalizes();
    own_pod(&rig);
    rig.set_status("error");
    let mut config = rig.config();
    config.must_gather = MustGatherImages::One("quay.io/must-gather:1".to_owned());
    let controller = rig.start_with(config.clone());
    rig.until("the collector", |rig| !images(rig).is_empty());
    let before = uploads(&rig).len();
    controller.stop();
    assert_eq!((uploads(&rig).len(), states(&rig)), (before, vec![json!("requested")]));
    let _runs = Runs::start(&rig, |_, _| Ok(sent(b"found")));
    rig.start_with(config).finish().unwrap();
    assert_eq!(states(&rig), ["requested", "requested", "completed"]);
    assert_eq!(names(&rig).last().unwrap(), &[GATHERED, LOG]);
}

/// Boots of a node are counted once it is done, by a pod on it, and reported. A kubeconfig that does not come costs that node's count and no
/// other; one that came is kept.
#[test]
fn boots_of_a_node_are_reported() {
    let Some(rig) = Rig::new() else { return };
    own_pod(&rig);
    rig.cluster.set_ready("node0", false);
    rig.file("kubeconfig-noingress", rig.server.admin_kubeconfig());
    rig.state().failures.push(("GET", "/downloads/credentials", 1, 500));
    // The first count of node1 fails.
    let _runs = Runs::start(&rig, |pod, number| match number {
        0 => Err("evicted".to_owned()),
        _ if pod["spec"]["nodeName"] == "node1" => Ok("2\n".to_owned()),
        _ => Ok("1\n".to_owned()),
    });
    let mut config = rig.config();
    config.notify_num_reboots = true;
    let controller = rig.start_with(config);
    rig.node("node0", true);
    rig.until("one download", |rig| kubeconfigs(rig) == 1);
    rig.rounds(3);
    assert!(rig.sent("POST", "/events").is_empty() && rig.pods(COUNT).is_empty());
    for number in 1..3 {
        rig.node(&format!("node{number}"), true);
        rig.until("an event", |rig| rig.sent("POST", "/events").len() == number);
    }
    rig.set_status("installed");
    controller.finish().unwrap();
    assert_eq!(kubeconfigs(&rig), 2);
    for (event, (number, boots)) in rig.sent("POST", "/events").iter().zip([(1, 2), (2, 1)]) {
        assert_eq!(
            (&event["name"], &event["category"], &event["severity"]),
            (&json!("reboots_for_node"), &json!("user"), &json!("info"))
        );
        assert_eq!(
            (&event["host_id"], &event["infra_env_id"], &event["cluster_id"]),
            (&json!(host_id(number)), &json!(INFRA_ENV), &json!(CLUSTER))
        );
        let message = format!("Node node{number} has been rebooted {boots} times before completing installation");
        assert_eq!(event["message"], message);
    }
    assert!(rig.pods(COUNT).is_empty(), "they are removed");
}

/// Unless it is asked for, nothing is counted.
#[test]
fn boots_are_not_counted_unasked() {
    let Some(rig) = Rig::new() else { return };
    own_pod(&rig);
    rig.file("kubeconfig-noingress", rig.server.admin_kubeconfig());
    rig.state().cluster["hosts"] = State::hosts("installing", "Rebooting", 1).into();
    let controller = rig.start();
    rig.until("Done", |rig| rig.stages(0).last().is_some_and(|stage| stage == "Done"));
    rig.set_status("installed");
    controller.finish().unwrap();
    assert!(rig.sent("POST", "/events").is_empty() && rig.pods(COUNT).is_empty());
    assert_eq!(kubeconfigs(&rig), 0);
}
