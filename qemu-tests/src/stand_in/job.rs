//! In place of Kubernetes' Jobs, and of a container's runtime: the installer's controller, with what its Job gives it.

use super::{API_PORT, CONTROLLER, Settings, pods, say};
use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};
use simulator::Client;
use std::{
    fs::{self, File},
    os::unix::{fs::symlink, process::CommandExt},
    path::Path,
    process::{Command, Stdio},
    thread::{self, sleep},
    time::Duration,
};

const NAMESPACE: &str = "assisted-installer";
const JOB: &str = "assisted-installer-controller";
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Where the service is: the test's proxy stands before it.
const SERVICE: &str = "INVENTORY_URL";
/// A kubelet's first.
const RESTART: Duration = Duration::from_secs(10);
/// Between two looks for pods.
const LOOK: Duration = Duration::from_secs(1);

/// Runs the controller on `node` until it ends well, and the pods that it makes.
pub(super) fn run(settings: &Settings, node: &str) -> Result<()> {
    let api = settings.administrator();
    let job = api.get(&format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{JOB}"))?;
    let pod = pod(&job, node);
    let name = text(&pod["metadata"]["name"]);
    let mut command = command(settings, &api, &pod)?;
    lay_out_account(&api, settings, text(&pod["spec"]["serviceAccountName"]))?;
    pods::run(&api, NAMESPACE, &pod)?;
    let copy = settings.clone();
    thread::spawn(move || run_pods(&copy));
    loop {
        say(&format!("controller starts on {node}"));
        let output = File::options().create(true).append(true).open(pods::log(name))?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let status = command.status().context("starting the controller")?;
        say(&format!("controller ended: {status}"));
        if status.success() {
            return pods::set_phase(&api, NAMESPACE, name, "Succeeded");
        }
        sleep(RESTART);
    }
}

/// Runs pods that the controller makes, here, whichever node they are for.
fn run_pods(settings: &Settings) {
    let api = settings.administrator();
    let waiting =
        format!("/api/v1/namespaces/{NAMESPACE}/pods?fieldSelector=status.phase=Pending&labelSelector=!job-name");
    loop {
        for pod in api.list(&waiting).unwrap_or_default() {
            if let Err(error) = run_pod(settings, &api, &pod) {
                eprintln!("pod {}: {error:#}", pod["metadata"]["name"]);
            }
        }
        sleep(LOOK);
    }
}

fn run_pod(settings: &Settings, api: &Client, pod: &Value) -> Result<()> {
    let name = text(&pod["metadata"]["name"]);
    let output = command(settings, api, pod)?.output()?;
    fs::write(pods::log(name), [output.stdout, output.stderr].concat())?;
    say(&format!("pod {name} ended: {}", output.status));
    pods::set_phase(api, NAMESPACE, name, if output.status.success() { "Succeeded" } else { "Failed" })
}

/// How a pod's container starts, once its volumes are in their places.
fn command(settings: &Settings, api: &Client, pod: &Value) -> Result<Command> {
    let (spec, container) = (&pod["spec"], &pod["spec"]["containers"][0]);
    for mount in list(&container["volumeMounts"]) {
        let volume = list(&spec["volumes"]).find(|volume| volume["name"] == mount["name"]);
        let volume = volume.with_context(|| format!("no volume for {mount}"))?;
        self::mount(api, volume, Path::new(text(&mount["mountPath"])))?;
    }
    let mut command = Command::new(CONTROLLER);
    // The image has one program by several names.
    let mut words = list(&container["command"]).map(text);
    if let Some(name) = words.next() {
        command.arg0(name).args(words);
    }
    command.env_clear().envs(environment(api, list(&container["env"]))?);
    command.env("KUBERNETES_SERVICE_HOST", settings.address.to_string());
    command.env("KUBERNETES_SERVICE_PORT", API_PORT.to_string());
    if !container["env"].is_null() {
        command.env(SERVICE, &settings.service_url);
    }
    Ok(command)
}

/// The pod that the Job asks for, on this node.
fn pod(job: &Value, node: &str) -> Value {
    let template = &job["spec"]["template"];
    let mut pod = json!({
        "metadata": {"name": format!("{JOB}-{node}"), "namespace": NAMESPACE, "labels": template["metadata"]["labels"]},
        "spec": template["spec"],
    });
    pod["metadata"]["labels"]["job-name"] = JOB.into();
    pod["spec"]["nodeName"] = node.into();
    pod
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A volume at its place: there is one file system for all.
fn mount(api: &Client, volume: &Value, place: &Path) -> Result<()> {
    if let Some(secret) = volume["secret"]["secretName"].as_str() {
        let secret = api.get(&format!("/api/v1/namespaces/{NAMESPACE}/secrets/{secret}"))?;
        for item in list(&volume["secret"]["items"]) {
            let value = BASE64.decode(text(&secret["data"][text(&item["key"])]))?;
            write(&place.join(text(&item["path"])), &value)?;
        }
        return Ok(());
    }
    match volume["hostPath"]["path"].as_str().map(Path::new) {
        None => fs::create_dir_all(place)?,
        Some(path) if path == place || place.exists() => {}
        Some(path) => {
            fs::create_dir_all(place.parent().unwrap_or(place))?;
            symlink(path, place).with_context(|| format!("linking {} to {}", place.display(), path.display()))?;
        }
    }
    Ok(())
}

fn lay_out_account(api: &Client, settings: &Settings, account: &str) -> Result<()> {
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let reply = api.create(&format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"), &request)?;
    for (name, text) in
        [("token", text(&reply["status"]["token"])), ("ca.crt", &settings.authority), ("namespace", NAMESPACE)]
    {
        write(&Path::new(ACCOUNT).join(name), text.as_bytes())?;
    }
    Ok(())
}

fn write(path: &Path, value: &[u8]) -> Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(path, value).with_context(|| format!("writing {}", path.display()))
}

/// Variables that are given, and those that are in ConfigMaps.
fn environment<'a>(api: &Client, variables: impl Iterator<Item = &'a Value>) -> Result<Vec<(String, String)>> {
    let mut environment = Vec::new();
    for variable in variables {
        let source = &variable["valueFrom"]["configMapKeyRef"];
        let value = match source["name"].as_str() {
            None => variable["value"].clone(),
            Some(map) => {
                let map = api.get(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{map}"))?;
                map["data"][text(&source["key"])].clone()
            }
        };
        // One that is optional, or empty, and so left out by the API server.
        environment.push((text(&variable["name"]).to_owned(), text(&value).to_owned()));
    }
    Ok(environment)
}
