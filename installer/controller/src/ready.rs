//! The sign that this controller works: the bootstrap host waits for it before it reboots.

use crate::{
    Context,
    clock::{Ended, Look, until},
    cluster::{CallError, objects::EVENT},
};
use kube::core::ObjectMeta;
use serde_json::json;
use std::{cell::Cell, time::Duration};

const INTERVAL: Duration = Duration::from_secs(1);
/// So often in a row the service says that there is no such cluster, each time after tries of its client: it was deleted.
const GONE: u32 = 3;
/// Name and reason of the event. The bootstrap host looks for it by name.
const EVENT_NAME: &str = "AssistedControllerIsReady";
const CONTROLLER: &str = "assisted-installer-controller";

/// Waits until both sides answer, and writes the event. The error is that of the wait; a cluster that was deleted cancels it.
pub(crate) async fn announce(ctx: &Context, limit: Duration) -> Result<(), Ended> {
    let missing = Cell::new(0);
    let look = || async {
        if let Err(error) = ctx.follow.look().await {
            tracing::warn!(error = &error as &dyn std::error::Error, "not ready yet");
            missing.set(if error.status() == Some(404) { missing.get() + 1 } else { 0 });
            return if missing.get() < GONE { Look::Again } else { Look::Over(Ended::Cancelled) };
        }
        let written = write(ctx).await;
        Look::from(
            written
                .inspect_err(|error| tracing::warn!(error = error as &dyn std::error::Error, "not ready yet"))
                .is_ok(),
        )
    };
    until(&ctx.clock, &ctx.end, INTERVAL, Some(limit), look).await
}

async fn write(ctx: &Context) -> Result<(), CallError> {
    let now = api::Timestamp::now();
    let namespace = ctx.config.namespace.clone();
    let data = json!({
        "involvedObject": {"namespace": namespace, "name": CONTROLLER},
        "reason": EVENT_NAME,
        "message": "Assisted controller managed to connect to assisted service and kube-apiserver and is ready to start",
        "type": "Normal", "count": 1, "firstTimestamp": now, "lastTimestamp": now,
    });
    let metadata =
        ObjectMeta { name: Some(EVENT_NAME.to_owned()), namespace: Some(namespace), ..ObjectMeta::default() };
    match ctx.cluster.create(EVENT, metadata, data).await {
        // An earlier run of this controller wrote it.
        Err(error) if error.status() == Some(409) => Ok(()),
        result => result.map(drop),
    }
}
