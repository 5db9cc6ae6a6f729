//! How often a node has booted, for those who certify hardware: once it is done, a pod on it reads its log of boots.

use crate::{
    Context,
    clock::{Look, until},
    cluster::{
        CallError, Cluster,
        objects::{self, POD, text},
    },
    hosts::Host,
};
use kube::core::ObjectMeta;
use serde_json::json;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::task::JoinSet;

const TRIES: u32 = 10;
const INTERVAL: Duration = Duration::from_secs(15);
const LIMIT: Duration = Duration::from_secs(360);
const POLL: Duration = Duration::from_secs(2);
const EVENT: &str = "reboots_for_node";

/// Counts under way. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Reboots(Arc<Mutex<JoinSet<()>>>);

impl Reboots {
    /// Starts to count a node's boots, if that is asked for.
    pub(crate) fn note_done(&self, ctx: &Context, host: &Host, node: &str) {
        if !ctx.config.notify_num_reboots {
            return;
        }
        let (ctx, host, node) = (ctx.clone(), host.clone(), node.to_owned());
        let work = async move {
            tokio::select! {
                () = tell(&ctx, &host, &node) => {}
                () = ctx.clock.sleep(LIMIT) => tracing::warn!(node, "its boots were not counted in time"),
            }
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).spawn(work);
    }

    /// Waits for those under way.
    pub(crate) async fn finish(&self) {
        let mut all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        while all.join_next().await.is_some() {}
    }
}

async fn tell(ctx: &Context, host: &Host, node: &str) {
    let cluster = match ctx.admin.cluster().await {
        Ok(cluster) => cluster,
        Err(error) => {
            tracing::warn!(node, error = &error as &dyn std::error::Error, "its boots can't be counted");
            return;
        }
    };
    let found = Mutex::new(None);
    let look = || async {
        match count(ctx, &cluster, node).await {
            Ok(count) => *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(count),
            Err(error) => {
                tracing::info!(node, error = &error as &dyn std::error::Error, "boots not counted yet");
                return Look::Again;
            }
        }
        Look::Done
    };
    let limit = Some(INTERVAL * (TRIES - 1));
    // The work may end meanwhile: this is still told.
    if until(&ctx.clock, &Default::default(), INTERVAL, limit, look).await.is_err() {
        return;
    }
    let Some(count) = found.into_inner().unwrap_or_else(PoisonError::into_inner) else { return };
    let message = format!("Node {node} has been rebooted {count} times before completing installation");
    let members = json!({"host_id": host.id, "infra_env_id": host.infra_env});
    if let Err(error) = ctx.service.event(EVENT, "info", &message, members).await {
        tracing::warn!(node, error = &error as &dyn std::error::Error, "its boots were not reported");
    }
}

#[derive(Debug, thiserror::Error)]
enum CountError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("the pod that reads the log of boots did not end well: {0}")]
    Pod(String),
}

/// By a pod that ends by itself.
async fn count(ctx: &Context, cluster: &Cluster, node: &str) -> Result<usize, CountError> {
    let namespace = &ctx.config.namespace;
    let image = crate::own_image(ctx).await?;
    let pod = json!({"spec": {
        "nodeName": node, "restartPolicy": "Never", "hostPID": true, "activeDeadlineSeconds": 120,
        "automountServiceAccountToken": false,
        "tolerations": [{"operator": "Exists"}],
        "containers": [{
            "name": "boots", "image": image, "command": ["/usr/bin/landfall", "controller", "--count-boots", "/host/var/log/wtmp"],
            "securityContext": {"runAsUser": 0, "privileged": true},
            "volumeMounts": [{"name": "log", "mountPath": "/host/var/log", "readOnly": true}],
        }],
        "volumes": [{"name": "log", "hostPath": {"path": "/var/log", "type": "Directory"}}],
    }});
    let metadata = ObjectMeta {
        generate_name: Some("count-boots-".to_owned()),
        namespace: Some(namespace.clone()),
        ..ObjectMeta::default()
    };
    let pod = cluster.create(POD, metadata, pod).await?;
    let name = objects::name(&pod.metadata).to_owned();
    let result = result_of(ctx, cluster, namespace, &name).await;
    if let Err(error) = cluster.delete(POD, Some(namespace), &name).await {
        tracing::warn!(pod = name, error = &error as &dyn std::error::Error, "this pod stays");
    }
    result
}

async fn result_of(ctx: &Context, cluster: &Cluster, namespace: &str, name: &str) -> Result<usize, CountError> {
    loop {
        let pod = cluster.read(POD, Some(namespace), name).await?;
        match text(&pod, "/status/phase") {
            "Succeeded" => break,
            "Failed" => return Err(CountError::Pod(crate::text::line(text(&pod, "/status/message")))),
            _ => ctx.clock.sleep(POLL).await,
        }
    }
    let log = cluster.pod_log(namespace, name, None).await?;
    let log = String::from_utf8_lossy(&log);
    log.trim().parse().map_err(|_| CountError::Pod(format!("its answer is '{}'", crate::text::line(&log))))
}
