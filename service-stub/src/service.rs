//! The service: settings, store and files on offer, and what handlers do with them.

use crate::auth::Auth;
use crate::check::requirements::Requirements;
use crate::cluster_files::ClusterFiles;
use crate::http::{
    hosts::Hosts,
    limits::{Gates, Limits},
    rate::Rates,
};
use crate::instructions::{options::StepOptions, outstanding::Outstanding};
use crate::media::Media;
use crate::metrics::Metrics;
use crate::model::{IgnoredValidations, InfraEnvRecord};
use crate::payload::{ImageArgs, Payloads};
use crate::releases::Catalogue;
use crate::store::{Change, Store, StoreError};
use crate::unregistered::Unregistered;
use crate::{http::Refusal, pass, rendezvous, rendezvous::Rendezvous, retention, retention::Retention};
use api::{ClusterId, Timestamp};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicI64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// Without a refresh for so many seconds the service is not healthy.
const STANDS_STILL_S: i64 = 300;

/// How the service behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Base URL hosts use, without a slash at the end.
    pub url: String,
    /// The same for firmware and initramfs, which check no certificate of ours.
    pub boot_url: String,
    /// What clients may call this service.
    pub hosts: Hosts,
    /// Seconds between two polls of a host.
    pub poll_interval: u64,
    /// Between two turns of the monitor.
    pub monitor_interval: Duration,
    /// What hardware is needed.
    pub requirements: Requirements,
    /// Name of the agent's image, for agents that don't tell theirs.
    pub agent_image: String,
    /// Name of the installer's image.
    pub installer_image: String,
    /// Name of the controller's image.
    pub controller_image: String,
    /// Have the discovery config fetch the binary: for an ISO that doesn't carry it.
    pub deliver_agent: bool,
    /// Clusters have a control plane, and these are its files.
    pub cluster_files: Option<ClusterFiles>,
    /// Images in install requests, as the operator names them.
    pub image_args: ImageArgs,
    /// How release images are read that name the others; none where they are not.
    pub registry: Option<Arc<netcheck::image::Options>>,
    /// How callers are told apart.
    pub auth: Auth,
    /// Certificates that hosts check ours against, PEM; none when it is of an authority they know, or there is none.
    pub ca_pem: Option<String>,
    /// A cluster is not installed before its controller has told of operators and ingress.
    pub await_controller: bool,
    /// Stages and connections that take too long are flagged, and the installation goes on.
    pub soft_timeouts: bool,
    /// Checks that are switched off, unless a cluster has a list of its own.
    pub disabled_validations: IgnoredValidations,
    /// What clients may take.
    pub limits: Limits,
    /// Versions that may be asked for, as the operator lists them; the last is the default. Others are taken as well.
    pub openshift_versions: Vec<String>,
    /// Releases and OS images on offer, instead of that list: others are refused. Without it any version is taken.
    pub catalogue: Option<Arc<Catalogue>>,
    /// Which steps hosts are given.
    pub steps: StepOptions,
    /// How long things stay that nobody touches.
    pub retention: Retention,
    /// The rack this service brings up from one of its hosts.
    pub rendezvous: Option<Arc<Rendezvous>>,
}

pub struct Service {
    pub settings: Settings,
    /// Records.
    pub store: Store,
    pub media: Media,
    /// When it started: silence before that is nobody's fault.
    pub started: Timestamp,
    /// What is to be brought to rest soon.
    pub unsettled: Unsettled,
    /// Steps that run on hosts.
    pub outstanding: Outstanding,
    /// Clusters that were deleted.
    pub unregistered: Unregistered,
    /// What release images name.
    pub payloads: Payloads,
    /// New hosts, by the address they come from.
    pub registrations: Rates,
    /// Places for requests.
    pub gates: Gates,
    /// Whether it is told to stop: what would go on for ever ends then.
    pub stopping: tokio::sync::watch::Sender<bool>,
    pub metrics: Metrics,
    /// Itself, for work that outlives a request's handler.
    itself: OnceLock<Weak<Service>>,
    /// When the last refresh began, Unix seconds.
    refreshed: AtomicI64,
    /// When it started, by a clock that nobody sets.
    up: Instant,
    /// After how many seconds of that clock it was last looked for what nobody touches.
    swept: AtomicI64,
}

/// Clusters, and hosts without one, that changed and are too large to be judged within every request.
#[derive(Default)]
pub struct Unsettled {
    clusters: Mutex<BTreeSet<Option<ClusterId>>>,
    noted: Notify,
}

impl Unsettled {
    /// Notes a cluster, or with none the hosts without a cluster.
    pub fn note(&self, id: Option<ClusterId>) {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        self.noted.notify_one();
    }

    /// Waits until something is noted.
    pub async fn noted(&self) {
        self.noted.notified().await;
    }

    fn take(&self) -> BTreeSet<Option<ClusterId>> {
        std::mem::take(&mut self.clusters.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Service {
    /// A service on an open store.
    pub fn new(settings: Settings, store: Store, media: Media) -> Self {
        let gates = Gates::new(&settings.limits);
        store.leave_free(settings.limits.store_free_bytes);
        let started = Timestamp::now();
        Self {
            settings,
            store,
            media,
            started,
            unsettled: Unsettled::default(),
            outstanding: Outstanding::default(),
            unregistered: Unregistered::default(),
            payloads: Payloads::default(),
            registrations: Rates::default(),
            gates,
            metrics: Metrics::default(),
            itself: OnceLock::new(),
            refreshed: AtomicI64::new(started.unix_seconds()),
            up: Instant::now(),
            swept: AtomicI64::new(0),
            stopping: tokio::sync::watch::Sender::new(false),
        }
    }

    /// Lets [`Self::shared`] find it.
    pub fn share(self: &Arc<Self>) {
        // It is the same every time.
        let _ = self.itself.set(Arc::downgrade(self));
    }

    /// Itself, once it is served.
    pub fn shared(&self) -> Option<Arc<Self>> {
        self.itself.get()?.upgrade()
    }

    /// For how many seconds no refresh has begun, if those are too many.
    pub fn stands_still(&self) -> Option<i64> {
        let since = Timestamp::now().unix_seconds().saturating_sub(self.refreshed.load(Ordering::Relaxed));
        (since > STANDS_STILL_S).then_some(since)
    }

    /// Makes a change and answers only once it is on disk.
    pub fn change<T>(
        &self,
        request_id: &str,
        work: impl FnOnce(&mut Change) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        self.store.change(request_id, work)
    }

    /// Gives every infra-env the token its agents show. They have one from the start, but not of a key that is new, or from a
    /// time without authentication.
    pub fn renew_tokens(&self) -> Result<(), StoreError> {
        let auth = &self.settings.auth;
        if self.store.model().infra_envs.values().all(|record| auth.fits(record)) {
            return Ok(());
        }
        self.store.change("", |change| {
            for record in change.model().infra_envs.clone().values().filter(|record| !auth.fits(record)) {
                let mut record = InfraEnvRecord::clone(record);
                record.agent_token = auth.agent_token(record.infra_env.id, record.key_generation).unwrap_or_default();
                change.put_infra_env(record);
            }
            Ok(())
        })
    }

    /// One pass over everything that time alone may change.
    pub fn refresh(&self) -> Result<(), StoreError> {
        self.refreshed.store(Timestamp::now().unix_seconds(), Ordering::Relaxed);
        self.unsettled.take();
        let model = self.store.model();
        self.outstanding.retain(|key| model.hosts.contains_key(key));
        let unbound = model.hosts.values().any(|record| record.host.cluster_id.is_none());
        let began = Instant::now();
        let all = model.clusters.keys().map(|id| Some(*id)).chain(unbound.then_some(None));
        self.settle_all(all, pass::monitor_cluster)?;
        self.store.published().cycle(began.elapsed());
        if let Err(refusal) = rendezvous::advance(self) {
            tracing::error!(?refusal, "the rack's plan can't be carried out");
        }
        let up = i64::try_from(self.up.elapsed().as_secs()).unwrap_or(i64::MAX);
        let idle = up.saturating_sub(self.swept.load(Ordering::Relaxed));
        if self.settings.retention.interval().is_some_and(|interval| idle >= interval) {
            self.swept.store(up, Ordering::Relaxed);
            retention::sweep(self, up)?;
        }
        self.store.save_presence()
    }

    /// Brings to rest what was noted as unsettled.
    pub fn settle(&self) -> Result<(), StoreError> {
        self.settle_all(self.unsettled.take(), pass::settle_cluster)
    }

    fn settle_all(
        &self,
        ids: impl IntoIterator<Item = Option<ClusterId>>,
        judge: fn(&Self, &mut Change, ClusterId),
    ) -> Result<(), StoreError> {
        for id in ids {
            // One by one, and half of the time nobody, so that requests come in between.
            let began = Instant::now();
            self.store.change("", |change| {
                match id {
                    Some(id) => judge(self, change, id),
                    None => pass::settle_unbound(self, change),
                }
                Ok::<_, StoreError>(())
            })?;
            thread::sleep(began.elapsed());
        }
        Ok(())
    }
}
