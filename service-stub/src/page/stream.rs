//! Notifies open pages of changes by server-sent events.

use super::answer::{Shared, guarded};
use crate::http::call::call_of;
use crate::http::{Call, Refusal};
use crate::model::{HostKey, Model};
use crate::service::Service;
use api::{ClusterId, HostId, InfraEnvId};
use axum::{
    body::Body,
    extract::{RawPathParams, Request, State},
    http::header,
    response::{IntoResponse, Response},
};
use futures_util::stream::unfold;
use std::{
    collections::hash_map::DefaultHasher,
    convert::Infallible,
    hash::{Hash, Hasher},
    sync::Arc,
    time::Duration,
};
use tokio::sync::watch;

/// Interval of keep-alives on an idle stream, which also detect clients that are gone.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Minimum time between events: a fleet changes faster than a person reads.
const LEAST: Duration = Duration::from_millis(500);
/// After this time the browser reconnects, in milliseconds.
const RETRY_MS: u32 = 2000;

/// What a page shows.
#[derive(Clone, Copy, Debug)]
enum Scope {
    All,
    Cluster(ClusterId),
    Host(HostKey),
}

impl Scope {
    fn from_call(call: &Call) -> Result<Self, Refusal> {
        if let Some(cluster) = call.query_uuid("cluster_id")? {
            return Ok(Self::Cluster(ClusterId(cluster)));
        }
        Ok(match (call.query_uuid("infra_env_id")?, call.query_uuid("host_id")?) {
            (Some(infra_env), Some(host)) => {
                Self::Host(HostKey { infra_env: InfraEnvId(infra_env), host: HostId(host) })
            }
            _ => Self::All,
        })
    }

    /// A number that changes with anything in it.
    fn state(self, model: &Model) -> u64 {
        let mut hash = DefaultHasher::new();
        let clusters = model.clusters.values().map(|record| &record.cluster);
        let hosts = model.hosts.values().map(|record| &record.host);
        match self {
            Self::All => {
                clusters.for_each(|cluster| (cluster.id, cluster.updated_at.unix_milliseconds()).hash(&mut hash));
                hosts.for_each(|host| (host.id, host.updated_at.unix_milliseconds()).hash(&mut hash));
                model.infra_envs.values().for_each(|record| record.infra_env.id.hash(&mut hash));
            }
            Self::Cluster(id) => {
                let of_cluster = model.clusters.get(&id).map(|record| record.cluster.updated_at.unix_milliseconds());
                of_cluster.hash(&mut hash);
                hosts
                    .filter(|host| host.cluster_id == Some(id))
                    .for_each(|host| (host.id, host.updated_at.unix_milliseconds()).hash(&mut hash));
            }
            Self::Host(key) => {
                model.hosts.get(&key).map(|record| record.host.updated_at.unix_milliseconds()).hash(&mut hash);
            }
        }
        hash.finish()
    }
}

/// GET /ui/stream.
pub(super) async fn stream(State(service): Shared, params: RawPathParams, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let scope = match call_of(&params, &parts).and_then(|call| Scope::from_call(&call)) {
        Ok(scope) => scope,
        Err(refusal) => return refusal.into_response(),
    };
    let (changes, stopping) = (service.store.changes(), service.stopping.subscribe());
    let watcher = Watcher { service, changes, stopping, scope, seen: None };
    let pieces = unfold(watcher, |watcher| watcher.next());
    guarded(([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(pieces)).into_response())
}

struct Watcher {
    service: Arc<Service>,
    changes: watch::Receiver<u64>,
    stopping: watch::Receiver<bool>,
    scope: Scope,
    /// The state last sent to the page; `None` before the first event.
    seen: Option<u64>,
}

impl Watcher {
    /// The next piece of the stream; `None` when the service stops.
    async fn next(mut self) -> Option<(Result<String, Infallible>, Self)> {
        // The first event covers changes between the page and its stream.
        if self.seen.is_none() {
            self.seen = Some(self.look());
            return Some((Ok(format!("retry: {RETRY_MS}\nevent: change\ndata: first\n\n")), self));
        }
        loop {
            let changed = tokio::select! {
                _ = self.stopping.wait_for(|stop| *stop) => return None,
                changed = self.changes.changed() => Some(changed.is_ok()),
                () = tokio::time::sleep(HEARTBEAT) => None,
            };
            match changed {
                None => return Some((Ok(": alive\n\n".to_owned()), self)),
                Some(false) => return None,
                Some(true) => {}
            }
            tokio::select! {
                _ = self.stopping.wait_for(|stop| *stop) => return None,
                () = tokio::time::sleep(LEAST) => {}
            }
            let state = self.look();
            if self.seen.replace(state) != Some(state) {
                return Some((Ok(format!("event: change\ndata: {state:016x}\n\n")), self));
            }
        }
    }

    fn look(&mut self) -> u64 {
        self.changes.mark_unchanged();
        self.scope.state(&self.service.store.model())
    }
}
