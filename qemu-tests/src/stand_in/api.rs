//! The control plane's two servers.

use super::{
    API_PORT, CONFIG_PORT, Role, Settings, address, https,
    https::{Answer, Request},
    machine_config,
    objects::{Body, Objects},
};
use anyhow::{Context, Result};
use serde_json::json;
use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A copy of all objects, for a master by its name; and who serves. Not Kubernetes': the stand-ins' own.
const COPY: &str = "/stand-in/objects/";
const SERVER: &str = "/stand-in/server";

/// A control plane that serves.
#[derive(Clone)]
pub(super) struct Serving(Arc<Mutex<State>>);

struct State {
    objects: Objects,
    name: String,
    /// The last copy sent: to which master, and of which version.
    copied: Option<(String, u64)>,
}

impl Serving {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Objects) -> T) -> T {
        work(&mut self.state().objects)
    }

    /// Whether `name` has a copy of all there is.
    pub(super) fn has_copy(&self, name: &str) -> bool {
        let state = self.state();
        state.copied.as_ref().is_some_and(|(who, version)| who == name && *version == state.objects.version())
    }
}

/// Takes the cluster's address and serves there, as `name`.
pub(super) fn start(settings: &Settings, objects: Objects, name: &str) -> Result<Serving> {
    let serving = Serving(Arc::new(Mutex::new(State { objects, name: name.to_owned(), copied: None })));
    let listen =
        |port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).with_context(|| format!("listening on port {port}"));
    let (kubernetes, configs) = (listen(API_PORT)?, listen(CONFIG_PORT)?);
    let api = serving.clone();
    https::serve(kubernetes, https::server(settings, true)?, move |request| answer(&api, request));
    let (configs_of, copy) = (serving.clone(), settings.clone());
    https::serve(configs, https::server(settings, false)?, move |request| {
        machine_config::answer(&copy, &configs_of, request)
    });
    address::take(settings.address)?;
    Ok(serving)
}

fn answer(serving: &Serving, request: &Request) -> Answer {
    let mut state = serving.state();
    let (status, body) = match (request.method.as_str(), request.path.as_str()) {
        ("GET", SERVER) => (200, Body::Json(json!({"name": state.name}))),
        ("GET", path) if path.starts_with(COPY) => {
            state.copied = Some((path.trim_start_matches(COPY).to_owned(), state.objects.version()));
            (200, Body::Json(json!(state.objects)))
        }
        (method, path) => state.objects.answer(method, path, &request.query, &request.body),
    };
    match body {
        Body::Json(document) => (status, "application/json", document.to_string().into_bytes()),
        Body::Text(text) => (status, "text/plain", text.into_bytes()),
    }
}

/// Where the API is.
pub(super) fn endpoint(settings: &Settings) -> SocketAddr {
    SocketAddr::from((settings.address, API_PORT))
}

/// Who serves the API now.
pub(super) fn server_name(settings: &Settings) -> Result<String> {
    let answer = https::ask(settings, endpoint(settings), "GET", SERVER, b"", &[])?;
    let document: serde_json::Value = serde_json::from_slice(&answer)?;
    Ok(document["name"].as_str().unwrap_or_default().to_owned())
}

/// A copy of all objects, for the master `name`.
pub(super) fn copy(settings: &Settings, name: &str) -> Result<Objects> {
    let answer = https::ask(settings, endpoint(settings), "GET", &format!("{COPY}{name}"), b"", &[])?;
    serde_json::from_slice(&answer).context("the copy of the objects")
}

/// What a cluster begins with.
pub(super) fn initial(settings: &Settings) -> Objects {
    let mut objects = Objects::default();
    let config = format!("controlPlane:\n  name: master\n  replicas: {}\n", settings.replicas);
    objects.config_map("kube-system", "cluster-config-v1", json!({"install-config": config}));
    objects.config_map("openshift-config", "openshift-install-manifests", json!({"invoker": "assisted-service"}));
    for role in [Role::Master, Role::Worker] {
        let name = machine_config::rendered_name(role);
        objects.put_manifest(json!({"kind": "MachineConfig", "metadata": {"name": name}}));
    }
    objects
}
