//! What shows a fault of the cluster: the release's and the operators' own collectors run as pods, and their results are one archive.
//!
//! A pod's collector runs first, as its only init container; then this program, from this controller's image, writes the archive to the
//! pod's log, from where it is read: no connection into the pod is needed, and no program but this one.

use crate::{
    Context,
    cluster::{
        Cluster,
        objects::{self, CLUSTER_ROLE_BINDING, IMAGE_STREAM, NAMESPACE, POD, text},
    },
    logs,
};
use anyhow::{Context as _, bail, ensure};
use kube::core::ObjectMeta;
use serde_json::json;
use std::{borrow::Cow, collections::BTreeMap, io, time::Duration};

/// A collector may take this long.
const LIMIT: Duration = Duration::from_secs(45 * 60);
const POLL: Duration = Duration::from_secs(10);
const DIRECTORY: &str = "/must-gather";
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_ANSWER: u64 = 200;

/// Results of collectors, each a tar.gz, by image.
#[derive(Default)]
pub(crate) struct Gathered(BTreeMap<String, Vec<u8>>);

impl Gathered {
    pub(crate) fn lacks(&self, images: &[String]) -> bool {
        images.iter().any(|image| !self.0.contains_key(image))
    }

    /// One tar.gz of all; none if there is no result. A single result is that already.
    pub(crate) fn archive(&self) -> io::Result<Option<Cow<'_, [u8]>>> {
        let first = self.0.values().next();
        if self.0.len() < 2 {
            return Ok(first.map(|only| only.as_slice().into()));
        }
        let names: Vec<_> = self.0.keys().enumerate().map(|(number, image)| member(number, image)).collect();
        let members = names.iter().map(String::as_str).zip(self.0.values().map(Vec::as_slice));
        Ok(Some(logs::archive(members)?.into()))
    }
}

/// The file of an image's result: the end of the image's name in it, and a number that tells it from others.
fn member(number: usize, image: &str) -> String {
    let end = image.rsplit('/').next().unwrap_or_default();
    let end: String = end.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("{number}-{}.tar.gz", if end.is_empty() { "release" } else { &end })
}

/// Runs collectors of the images whose results are missing; an empty name is the release's. One that fails keeps no other, and the error is
/// the first.
pub(crate) async fn gather(ctx: &Context, images: &[String], gathered: &mut Gathered) -> anyhow::Result<()> {
    let cluster = ctx.admin.cluster().await?;
    let own_image = crate::own_image(ctx).await?;
    let namespace = ObjectMeta {
        generate_name: Some("openshift-must-gather-".to_owned()),
        labels: Some([("pod-security.kubernetes.io/enforce".to_owned(), "privileged".to_owned())].into()),
        ..ObjectMeta::default()
    };
    let namespace = cluster.create(NAMESPACE, namespace, json!({})).await?;
    let namespace = objects::name(&namespace.metadata).to_owned();
    let result = gather_in(ctx, &cluster, &namespace, images, &own_image, gathered).await;
    for (kind, name) in [(CLUSTER_ROLE_BINDING, &namespace), (NAMESPACE, &namespace)] {
        if let Err(error) = cluster.delete(kind, None, name).await {
            tracing::warn!(
                name,
                error = &error as &dyn std::error::Error,
                "what collected for the logs stays in the cluster"
            );
        }
    }
    result
}

async fn gather_in(
    ctx: &Context,
    cluster: &Cluster,
    namespace: &str,
    images: &[String],
    own_image: &str,
    gathered: &mut Gathered,
) -> anyhow::Result<()> {
    // Collectors read everything.
    let binding = ObjectMeta { name: Some(namespace.to_owned()), ..ObjectMeta::default() };
    let rights = json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}],
    });
    cluster.create(CLUSTER_ROLE_BINDING, binding, rights).await?;
    let mut all = Ok(());
    for image in images {
        // Operators may share one.
        if gathered.0.contains_key(image) {
            continue;
        }
        let result = collect(ctx, cluster, namespace, image, own_image).await;
        match result.with_context(|| format!("the collector of image '{image}'")) {
            Ok(archive) => drop(gathered.0.insert(image.clone(), archive)),
            Err(error) => all = all.and(Err(error)),
        }
    }
    all
}

async fn collect(
    ctx: &Context,
    cluster: &Cluster,
    namespace: &str,
    image: &str,
    own_image: &str,
) -> anyhow::Result<Vec<u8>> {
    let image = if image.is_empty() { release_image(cluster).await? } else { image.to_owned() };
    let pod = start(cluster, namespace, &image, own_image).await?;
    result_of(ctx, cluster, namespace, &pod).await
}

/// The collector that the release names.
async fn release_image(cluster: &Cluster) -> anyhow::Result<String> {
    let stream = cluster.read(IMAGE_STREAM, Some("openshift"), "must-gather").await?;
    let image = text(&stream, "/status/tags/0/items/0/dockerImageReference");
    ensure!(!image.is_empty(), "the image stream openshift/must-gather has no image: set MUST_GATHER_IMAGE");
    Ok(image.to_owned())
}

async fn start(cluster: &Cluster, namespace: &str, image: &str, own_image: &str) -> anyhow::Result<String> {
    let mount = json!([{"name": "output", "mountPath": DIRECTORY}]);
    let deadline = LIMIT.as_secs();
    let pod = json!({"spec": {
        "restartPolicy": "Never", "activeDeadlineSeconds": deadline, "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}], "priorityClassName": "system-cluster-critical",
        "initContainers": [{"name": "gather", "image": image, "command": ["/usr/bin/gather"], "volumeMounts": mount}],
        "containers": [{
            "name": "send", "image": own_image, "command": ["/usr/bin/landfall", "controller", "--send-directory", DIRECTORY],
            "securityContext": {"runAsUser": 0}, "volumeMounts": mount,
        }],
        "volumes": [{"name": "output", "emptyDir": {}}],
    }});
    let metadata = ObjectMeta {
        generate_name: Some("must-gather-".to_owned()),
        namespace: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    };
    Ok(objects::name(&cluster.create(POD, metadata, pod).await?.metadata).to_owned())
}

async fn result_of(ctx: &Context, cluster: &Cluster, namespace: &str, pod: &str) -> anyhow::Result<Vec<u8>> {
    let started = ctx.clock.now();
    loop {
        let object = cluster.read(POD, Some(namespace), pod).await?;
        match text(&object, "/status/phase") {
            "Running" | "Succeeded" => break,
            "Failed" => bail!("its pod failed: {}", crate::text::line(text(&object, "/status/message"))),
            _ => {}
        }
        ensure!(ctx.clock.now().saturating_sub(started) < LIMIT, "no result within {} min", LIMIT.as_secs() / 60);
        ctx.clock.sleep(POLL).await;
    }
    let log = cluster.follow_log(namespace, pod, "send").await?;
    crate::sent::read(&log).context("its result")
}

/// One line of what a URL answers, whoever signed for it.
pub(crate) fn probe(url: &str) -> String {
    let configuration = match api::http::configuration(&[], true) {
        Ok(configuration) => {
            configuration.timeout_global(Some(PROBE_TIMEOUT)).max_redirects(0).max_redirects_will_error(false)
        }
        Err(error) => return error.to_string(),
    };
    match api::http::build(configuration, api::proxy::ProxyVariables::default()).get(url).call() {
        Ok(mut answer) => {
            let body = api::read_body(&mut answer, MAX_ANSWER).unwrap_or_default();
            format!("{}: {}", answer.status(), crate::text::line(&String::from_utf8_lossy(&body)))
        }
        Err(error) => error.to_string(),
    }
}
