//! The Kubernetes API. Each call has a deadline; what is looked at again and again is watched.

mod connect;
mod login;
pub mod objects;
mod watched;

pub use login::{Login, LoginError, downloaded};
pub use watched::Watched;

use api::proxy::ProxyVariables;
use futures_util::AsyncReadExt;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::{DynamicObject, GroupVersionKind, ObjectMeta, TypeMeta},
    discovery::Scope,
};
use objects::{Kind, Node};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    fmt::{self, Debug},
    future::Future,
    path::Path,
    time::Duration,
};

/// A call that takes longer has failed, where tests say nothing else.
pub const DEADLINE: Duration = Duration::from_secs(30);
/// Whose the members are that `apply` sets.
const FIELD_MANAGER: &str = "assisted-installer-controller";
/// Of a pod's log so much is read at most.
const MAX_LOG_BYTES: u64 = 32 << 20;
/// Of a log that is followed.
const MAX_FOLLOWED_BYTES: u64 = 1 << 30;
const PIECE: usize = 64 << 10;
/// Objects on one page of a list. A node has 20 KiB, and a page is held as text and as objects.
const PAGE: u32 = 100;
/// Only a faulty server has a list of more pages.
const MAX_PAGES: u32 = 1000;

/// Why a call gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("{what}: the Kubernetes API refuses or does not answer")]
    Api { what: String, source: Box<kube::Error> },
    #[error("{what}: no answer of the Kubernetes API within {} s", deadline.as_secs())]
    Deadline { what: String, deadline: Duration },
    #[error("{what}: the list has more than {MAX_PAGES} pages")]
    Endless { what: String },
    #[error("{what}: the request cannot be made")]
    Request { what: String },
}

impl CallError {
    /// The HTTP status, if the server answered with one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Api { source, .. } => match &**source {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            _ => None,
        }
    }

    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }
}

/// A cluster. Cheap to clone.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    /// Of each call, in real time.
    deadline: Duration,
}

impl Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cluster")
    }
}

impl Cluster {
    /// Connects nothing yet.
    pub fn new(config: kube::Config, deadline: Duration) -> Result<Self, LoginError> {
        let client = connect::client(config).map_err(|source| LoginError::Client { source: Box::new(source) })?;
        Ok(Self { client, deadline })
    }

    /// The cluster of a kubeconfig, by the proxies of the environment.
    pub async fn of_kubeconfig(path: &Path) -> Result<Self, LoginError> {
        let config = Login::Kubeconfig(path.to_owned()).config(&ProxyVariables::from_env()).await?;
        Self::new(config, DEADLINE)
    }

    pub fn client(&self) -> Client {
        self.client.clone()
    }

    fn api(&self, kind: Kind, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client(), namespace, &kind.resource()),
            None => Api::all_with(self.client(), &kind.resource()),
        }
    }

    /// One object; `None` if there is none of that name, or the cluster has no such kind.
    pub async fn get(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<DynamicObject>, CallError> {
        let what = || format!("get {} {name}", kind.plural());
        let api = self.api(kind, namespace);
        bounded(self.deadline, what, api.get_opt(name)).await
    }

    /// One object that must be there.
    pub async fn read(&self, kind: Kind, namespace: Option<&str>, name: &str) -> Result<DynamicObject, CallError> {
        let api = self.api(kind, namespace);
        bounded(self.deadline, || format!("get {} {name}", kind.plural()), api.get(name)).await
    }

    /// All objects, page by page. `labels` is a selector, or empty.
    pub async fn list(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Vec<DynamicObject>, CallError> {
        let what = || format!("list {}", kind.plural());
        let parameters = ListParams::default().labels(labels);
        let (items, _) = pages(&self.api(kind, namespace), parameters, self.deadline, what, |_| ()).await?;
        Ok(items)
    }

    /// Creates an object of `metadata` and the other members in `data`.
    pub async fn create(&self, kind: Kind, metadata: ObjectMeta, data: Value) -> Result<DynamicObject, CallError> {
        let types = Some(TypeMeta { api_version: kind.api_version(), kind: kind.name().to_owned() });
        let api = self.api(kind, metadata.namespace.as_deref());
        let object = DynamicObject { types, metadata, data };
        bounded(self.deadline, || format!("create {}", kind.plural()), api.create(&PostParams::default(), &object))
            .await
    }

    /// Writes an object as a whole, unless it has changed since it was read (409). `subresource` is `status` and the like, or empty.
    pub async fn replace(
        &self,
        kind: Kind,
        object: &DynamicObject,
        subresource: &str,
    ) -> Result<DynamicObject, CallError> {
        let name = objects::name(&object.metadata).to_owned();
        let api = self.api(kind, object.metadata.namespace.as_deref());
        let mut object = object.clone();
        // Items of lists lack it.
        object.types = Some(TypeMeta { api_version: kind.api_version(), kind: kind.name().to_owned() });
        let what = || format!("update {} {name} {subresource}", kind.plural()).trim_end().to_owned();
        let parameters = PostParams::default();
        match subresource {
            "" => bounded(self.deadline, what, api.replace(&name, &parameters, &object)).await,
            below => bounded(self.deadline, what, api.replace_subresource(below, &name, &parameters, &object)).await,
        }
    }

    /// Merges `change` into an object (RFC 7386).
    pub async fn merge(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        name: &str,
        change: &Value,
    ) -> Result<(), CallError> {
        let api = self.api(kind, namespace);
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(change));
        let patched = api.patch(name, &parameters, &patch);
        bounded(self.deadline, || format!("patch {} {name}", kind.plural()), patched).await.map(drop)
    }

    /// Makes an object as given, or changes it to that (server-side apply). Other members of an existing one stay.
    pub async fn apply(&self, kind: &GroupVersionKind, object: &DynamicObject) -> Result<(), CallError> {
        let name = objects::name(&object.metadata);
        let what = || format!("apply {} {name}", kind.kind);
        let (resource, capabilities) =
            bounded(self.deadline, what, kube::discovery::pinned_kind(&self.client, kind)).await?;
        let api: Api<DynamicObject> = match (capabilities.scope, &object.metadata.namespace) {
            (Scope::Cluster, _) => Api::all_with(self.client(), &resource),
            (Scope::Namespaced, namespace) => {
                Api::namespaced_with(self.client(), namespace.as_deref().unwrap_or("default"), &resource)
            }
        };
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        bounded(self.deadline, what, api.patch(name, &parameters, &Patch::Apply(object))).await.map(drop)
    }

    /// With what belongs to it: the pods of a Job.
    pub async fn delete(&self, kind: Kind, namespace: Option<&str>, name: &str) -> Result<(), CallError> {
        let api = self.api(kind, namespace);
        let parameters = DeleteParams::background();
        bounded(self.deadline, || format!("delete {} {name}", kind.plural()), api.delete(name, &parameters))
            .await
            .map(drop)
    }

    /// Deletes all objects of a kind in a namespace.
    pub async fn delete_all(&self, kind: Kind, namespace: &str) -> Result<(), CallError> {
        let api = self.api(kind, Some(namespace));
        let (parameters, all) = (DeleteParams::default(), ListParams::default());
        let deleted = api.delete_collection(&parameters, &all);
        bounded(self.deadline, || format!("delete all {} of {namespace}", kind.plural()), deleted).await.map(drop)
    }

    /// What a pod's first container wrote, in these last seconds if given; its beginning, if that is much.
    pub async fn pod_log(&self, namespace: &str, pod: &str, since: Option<Duration>) -> Result<Vec<u8>, CallError> {
        let since = since.map(|since| format!("&sinceSeconds={}", since.as_secs())).unwrap_or_default();
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/log?limitBytes={MAX_LOG_BYTES}{since}");
        let what = || format!("read the log of pod {pod}");
        let Ok(request) = http::Request::get(&path).body(Vec::new()) else {
            return Err(CallError::Request { what: what() });
        };
        let read = async {
            let stream = self.client.request_stream(request).await?;
            let mut log = Vec::new();
            // A server that ignores the limit is faulty.
            let mut stream = std::pin::pin!(stream.take(MAX_LOG_BYTES));
            stream.read_to_end(&mut log).await.map_err(kube::Error::ReadEvents)?;
            Ok(log)
        };
        bounded(self.deadline, what, read).await
    }

    /// All that a container writes, until it ends.
    pub async fn follow_log(&self, namespace: &str, pod: &str, container: &str) -> Result<Vec<u8>, CallError> {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}&follow=true");
        let what = || format!("follow the log of pod {pod}");
        let Ok(request) = http::Request::get(&path).body(Vec::new()) else {
            return Err(CallError::Request { what: what() });
        };
        let stream = bounded(self.deadline, what, self.client.request_stream(request)).await?;
        let mut log = Vec::new();
        let mut stream = std::pin::pin!(stream.take(MAX_FOLLOWED_BYTES));
        loop {
            let mut piece = vec![0; PIECE];
            let read = async { stream.read(&mut piece).await.map_err(kube::Error::ReadEvents) };
            match bounded(self.deadline, what, read).await? {
                0 => return Ok(log),
                len => log.extend(piece.drain(..len)),
            }
        }
    }

    /// All nodes, watched.
    pub fn watch_nodes(&self) -> Watched<Node> {
        let trim = |node: &mut Node| {
            let ObjectMeta { name, labels, .. } = std::mem::take(&mut node.metadata);
            node.metadata = ObjectMeta { name, labels, ..ObjectMeta::default() };
        };
        let api = Api::all_with(self.client(), &objects::NODE.resource());
        Watched::start(api, objects::NODE, self.deadline, trim)
    }

    /// All objects of a kind, watched.
    pub fn watch(&self, kind: Kind, namespace: Option<&str>) -> Watched<DynamicObject> {
        let trim = |object: &mut DynamicObject| object.metadata.managed_fields = None;
        Watched::start(self.api(kind, namespace), kind, self.deadline, trim)
    }
}

/// A call that takes no longer than this.
async fn bounded<T>(
    deadline: Duration,
    what: impl Fn() -> String,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallError> {
    match tokio::time::timeout(deadline, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(source)) => Err(CallError::Api { what: what(), source: Box::new(source) }),
        Err(_) => Err(CallError::Deadline { what: what(), deadline }),
    }
}

/// All objects, page by page, and the version of the list.
async fn pages<K: Clone + DeserializeOwned + Debug>(
    api: &Api<K>,
    parameters: ListParams,
    deadline: Duration,
    what: impl Fn() -> String,
    trim: impl Fn(&mut K),
) -> Result<(Vec<K>, String), CallError> {
    let mut parameters = parameters.limit(PAGE);
    let mut items = Vec::new();
    for _ in 0..MAX_PAGES {
        let mut page = bounded(deadline, &what, api.list(&parameters)).await?;
        page.items.iter_mut().for_each(&trim);
        items.append(&mut page.items);
        match page.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => parameters.continue_token = Some(more),
            None => return Ok((items, page.metadata.resource_version.unwrap_or_default())),
        }
    }
    Err(CallError::Endless { what: what() })
}
