//! The service: settings, store and served files, and operations on them for handlers.

pub use crate::generated_manifests::options::ManifestOptions;
pub use crate::settings::Settings;

use crate::attest::Challenges;
use crate::certify::Runs;
use crate::http::{Refusal, limits::Gates, rate::Rates};
use crate::instructions::outstanding::Outstanding;
use crate::iso_store::IsoStore;
use crate::media::Media;
use crate::metrics::Metrics;
use crate::model::InfraEnvRecord;
use crate::pass::{Rules, Unsettled};
use crate::payload::Payloads;
use crate::preparing::running::Preparations;
use crate::releases::Catalogue;
use crate::store::{Change, Store, StoreError};
use crate::unregistered::Unregistered;
use api::Timestamp;
use kernel::Cancel;
use std::{
    sync::{
        Arc, OnceLock, PoisonError, RwLock, Weak,
        atomic::{AtomicI64, Ordering},
    },
    time::Instant,
};

/// Without a refresh for this many seconds the service is not healthy.
const STANDS_STILL_S: i64 = 300;

/// The running service.
pub struct Service {
    pub settings: Settings,
    /// Records.
    pub store: Store,
    pub media: Media,
    /// ISOs that are downloaded.
    pub iso_store: IsoStore,
    /// The operator's catalogue, with the releases fetched last.
    releases: RwLock<Option<Arc<Catalogue>>>,
    /// When it started: no host could report before.
    pub started: Timestamp,
    /// Clusters and hosts whose states must be updated soon.
    pub(crate) unsettled: Unsettled,
    /// Steps that run on hosts.
    pub outstanding: Outstanding,
    /// What hosts are asked to prove.
    pub(crate) challenges: Challenges,
    /// Runs of certifications.
    pub(crate) certifications: Runs,
    /// Deleted clusters.
    pub(crate) unregistered: Unregistered,
    /// Images named by release images.
    pub payloads: Payloads,
    /// Clusters whose files are being made.
    pub(crate) preparations: Preparations,
    /// New hosts, by source address.
    pub registrations: Rates,
    /// Places for requests.
    pub gates: Gates,
    /// Set when it must stop: ends work that would otherwise continue for ever.
    pub(crate) stopping: tokio::sync::watch::Sender<bool>,
    pub metrics: Metrics,
    /// A reference to itself, for work that outlives a request's handler.
    itself: OnceLock<Weak<Service>>,
    /// When the last refresh began, Unix seconds.
    pub(crate) refreshed: AtomicI64,
    /// When it started, by the monotonic clock.
    pub(crate) up: Instant,
    /// The last search for untouched records, in seconds of that clock.
    pub(crate) swept: AtomicI64,
}

impl Service {
    /// Creates a service on an open store.
    pub fn new(settings: Settings, store: Store, media: Media) -> Self {
        let gates = Gates::new(&settings.limits);
        store.leave_free(settings.limits.store_free_bytes);
        store.limit_events(&settings.event_limits);
        let started = Timestamp::now();
        Self {
            releases: RwLock::new(settings.catalogue.clone()),
            certifications: Runs::open(store.directory()),
            settings,
            store,
            media,
            iso_store: IsoStore::default(),
            started,
            unsettled: Unsettled::default(),
            outstanding: Outstanding::default(),
            challenges: Challenges::default(),
            unregistered: Unregistered::default(),
            payloads: Payloads::default(),
            preparations: Preparations::default(),
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

    /// The operator's catalogue, with the releases fetched last.
    pub(crate) fn catalogue(&self) -> Option<Arc<Catalogue>> {
        self.releases.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Fetches releases until it is cancelled.
    pub(crate) fn fetch_releases(&self, cancel: &Cancel) {
        let listed = self.settings.catalogue.as_deref().cloned().unwrap_or_default();
        self.settings.release_sources.work(&listed, cancel, &|catalogue| {
            *self.releases.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(catalogue));
        });
    }

    /// The same, with ISOs to download.
    pub fn with_iso_store(self, iso_store: IsoStore) -> Self {
        Self { iso_store, ..self }
    }

    /// The inputs of its passes.
    pub(crate) fn rules(&self) -> Rules<'_> {
        let settings = &self.settings;
        let with_control_plane = settings.has_control_plane();
        // With a control plane the host we run on bootstraps, and that waits for the others anyway.
        let rendezvous = settings.rendezvous.as_ref().filter(|_| !with_control_plane);
        Rules {
            requirements: &settings.requirements,
            steps: &settings.steps,
            disabled_validations: &settings.disabled_validations,
            attest: settings.attest.policy,
            with_control_plane,
            single_node_dnsmasq: settings.manifests.single_node_dnsmasq,
            await_controller: settings.await_controller,
            own_host: rendezvous.and_then(|rendezvous| rendezvous.serving_host),
            started: self.started,
            presences: self.store.presences(),
            state_directory: self.store.directory(),
            unsettled: &self.unsettled,
        }
    }

    /// Sets the reference for `shared`.
    pub fn share(self: &Arc<Self>) {
        // It is always the same.
        let _ = self.itself.set(Arc::downgrade(self));
    }

    /// A reference to itself, once it serves.
    pub(crate) fn shared(&self) -> Option<Arc<Self>> {
        self.itself.get()?.upgrade()
    }

    /// The seconds since the last refresh began, if too many.
    pub(crate) fn stands_still(&self) -> Option<i64> {
        let since = Timestamp::now().unix_seconds().saturating_sub(self.refreshed.load(Ordering::Relaxed));
        (since > STANDS_STILL_S).then_some(since)
    }

    /// Makes a change, and returns once it is on disk.
    pub fn change<T>(
        &self,
        request_id: &str,
        work: impl FnOnce(&mut Change) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        self.store.change(request_id, work)
    }

    /// Gives every infra-env its agents' token. Infra-envs get one when created, but not if that was without authentication or
    /// with another key.
    pub(crate) fn renew_tokens(&self) -> Result<(), StoreError> {
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
}
