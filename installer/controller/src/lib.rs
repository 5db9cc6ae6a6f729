//! The controller in a cluster that is being installed: it approves the nodes' certificates, tells the service how far hosts and operators
//! are, does what is left to do in the cluster, and ends with it.
//!
//! `run` reads the settings and decides, by [`Mode`], which tasks run; each task is a module, and ends by itself or with [`clock::End`].
//! Tasks share what the service last said (`follow`) and what went wrong ([`clock::Faults`]). Nothing is kept on disk: after a restart each
//! task finds in service and cluster how far it was.

mod admin;
mod agent_based;
mod bare_metal;
mod boots;
mod certificates;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod config;
mod dns;
mod finalize;
mod follow;
mod hosts;
mod labels;
mod logs;
mod manifests;
mod must_gather;
mod nodes;
mod ready;
mod reboots;
mod sent;
mod service;
mod taint;
mod text;

pub(crate) use logs::OWN_LOG;

use admin::Admin;
use anyhow::Context as _;
use api::{RetryPolicy, proxy::ProxyVariables};
use clock::{Clock, End, Ended, Faults, Reason};
use cluster::{
    CallError, Cluster, Login, Watched,
    objects::{self, CONFIG_MAP, Node, POD, PROXY, text},
};
use config::{BOOTSTRAP_KUBECONFIG, Config};
use follow::Follow;
use hosts::Snapshot;
use kube::core::DynamicObject;
use reboots::Reboots;
use service::Service;
use std::{
    cell::Cell,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The service may come up after the cluster does.
const SERVICE_LIMIT: Duration = Duration::from_secs(70 * 60);
/// That of the agent-based installer is there, or it is gone for good.
const AGENT_BASED_SERVICE_LIMIT: Duration = Duration::from_secs(5 * 60);
/// Who installs the cluster.
const INVOKER: (&str, &str, &str) = ("openshift-config", "openshift-install-manifests", "invoker");
const AGENT_BASED: &str = "agent-installer";
/// The API server restarts while the cluster comes up: what all else depends on is asked for so long.
const START_LIMIT: Duration = Duration::from_secs(5 * 60);
const START_INTERVAL: Duration = Duration::from_secs(5);

/// What differs between the ways to install.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The service is outside of the cluster, and stays.
    Service,
    /// The service is on one of the hosts, which becomes a node last.
    AgentBased,
    /// The service was on this node.
    AgentBasedSingleNode,
}

impl Mode {
    fn new(invoker: &str, is_single_node: bool) -> Self {
        match (invoker == AGENT_BASED, is_single_node) {
            (false, _) => Self::Service,
            (true, false) => Self::AgentBased,
            (true, true) => Self::AgentBasedSingleNode,
        }
    }

    /// Whether a service is there until the end.
    fn has_service(self) -> bool {
        self == Self::Service
    }
}

/// What the tasks share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Context {
    pub config: Arc<Config>,
    pub mode: Mode,
    pub clock: Clock,
    pub end: End,
    pub faults: Faults,
    pub service: Service,
    pub cluster: Cluster,
    /// All its nodes.
    pub nodes: Watched<Node>,
    pub follow: Follow,
    pub admin: Admin,
    pub reboots: Reboots,
    pub own_log: PathBuf,
}

/// How it runs, where tests differ from a pod.
#[derive(Clone, Debug)]
pub struct Surroundings {
    pub login: Login,
    /// Simulated seconds in one.
    pub speed: u32,
    /// Of a call to the cluster, in real time.
    pub deadline: Duration,
    pub retry: RetryPolicy,
    pub own_log: PathBuf,
    /// On a single node, where an administrator's kubeconfig is.
    pub bootstrap_kubeconfig: PathBuf,
}

impl Default for Surroundings {
    fn default() -> Self {
        Self {
            login: Login::choose(Path::new(BOOTSTRAP_KUBECONFIG)),
            speed: 1,
            deadline: cluster::DEADLINE,
            retry: RetryPolicy::Controller,
            own_log: OWN_LOG.into(),
            bootstrap_kubeconfig: BOOTSTRAP_KUBECONFIG.into(),
        }
    }
}

/// Runs until the cluster is installed, or can't be, or `end` is set.
///
/// # Errors
///
/// Why it cannot begin. Whatever happens later is told to the service.
pub async fn run(config: Config, surroundings: Surroundings, end: End) -> anyhow::Result<()> {
    let environment = ProxyVariables::from_env();
    let clock = Clock::fast(surroundings.speed);
    let first = Cluster::new(surroundings.login.config(&environment).await?, surroundings.deadline)?;
    let proxy = asked(&clock, &end, || first.read(PROXY, None, "cluster")).await;
    if end.is_set() {
        return Ok(());
    }
    let proxies = with_proxies(&proxy.context("the cluster's proxies are not known")?, environment.clone());
    let cluster = match proxies == environment {
        true => first,
        false => Cluster::new(surroundings.login.config(&proxies).await?, surroundings.deadline)?,
    };
    let mode = Mode::new(&invoker(&cluster, &clock, &end).await, config.is_single_node());
    let (retry, speed) = (surroundings.retry, surroundings.speed);
    let service = Service::new(&config, proxies.clone(), retry, speed, end.clone(), mode.has_service())?;
    let given = (mode == Mode::AgentBasedSingleNode).then(|| surroundings.bootstrap_kubeconfig.clone());
    let ctx = Context {
        follow: Follow::new(service.clone()),
        admin: Admin::new(service.clone(), proxies, given, surroundings.deadline),
        config: Arc::new(config),
        mode,
        clock,
        end,
        faults: Faults::default(),
        service,
        nodes: cluster.watch_nodes(),
        cluster,
        reboots: Reboots::default(),
        own_log: surroundings.own_log,
    };
    tracing::info!(cluster = %ctx.config.cluster_id, ?mode, "controller starts");
    match mode {
        Mode::Service => with_service(&ctx).await,
        Mode::AgentBased => agent_based(&ctx).await,
        Mode::AgentBasedSingleNode => agent_based_single_node(&ctx).await,
    }
}

async fn with_service(ctx: &Context) -> anyhow::Result<()> {
    // Before any contact with the service: its name may need the cluster's name server.
    let dns = spawn(ctx, |ctx| async move { dns::run(&ctx).await });
    let ready = ready::announce(ctx, SERVICE_LIMIT).await;
    // The work has ended, or the cluster is gone: another run would not find it either.
    if ctx.end.is_set() || ready == Err(Ended::Cancelled) {
        return Ok(());
    }
    ready.map_err(|why| anyhow::anyhow!("Failed to retrieve cluster from assisted service: {why}"))?;
    let snapshot = ctx.follow.last().context("the service said nothing of the cluster")?;
    let mut tasks = common(ctx, &snapshot.platform, Some(&snapshot)).await;
    tasks.push(dns);
    tasks.push(spawn(ctx, |ctx| async move { finalize::run(&ctx).await }));
    tasks.push(spawn(ctx, |ctx| async move { logs::periodically(&ctx).await }));
    if snapshot.platform == "baremetal" {
        tasks.push(spawn(ctx, |ctx| async move { bare_metal::run(&ctx).await }));
    }
    let status = ctx.follow.run(&ctx.clock, &ctx.end).await;
    if status.as_deref() == Some("error") {
        ctx.faults.set_failed();
    }
    ctx.end.set(Reason::Finished);
    join(tasks).await;
    let rest = async {
        if status.is_some() {
            tokio::select! {
                () = logs::finally(ctx) => {}
                () = async { logs::probe_router(ctx, &ctx.config).await; std::future::pending().await } => {}
            }
        }
        ctx.reboots.finish().await;
    };
    tokio::select! {
        biased;
        () = ctx.end.stopped() => {}
        () = rest => {}
    }
    Ok(())
}

async fn agent_based(ctx: &Context) -> anyhow::Result<()> {
    let dns = spawn(ctx, |ctx| async move { dns::run(&ctx).await });
    if let Err(why) = ready::announce(ctx, AGENT_BASED_SERVICE_LIMIT).await {
        tracing::warn!(%why, "the service does not answer: its host has rebooted, or will not; the installation continues without it");
    }
    let snapshot = ctx.follow.last();
    let platform = match &snapshot {
        Some(snapshot) => snapshot.platform.clone(),
        None => installed_platform(ctx).await,
    };
    let untaints = taint::is_wanted(ctx, &platform, true, snapshot.as_deref()).await;
    let mut tasks = common(ctx, &platform, snapshot.as_deref()).await;
    tasks.push(dns);
    tasks.push(spawn(ctx, |ctx| async move { agent_based::apply_manifests(&ctx, || false).await }));
    tasks.push(spawn(ctx, |ctx| async move { logs::periodically(&ctx).await }));
    if platform == "baremetal" && snapshot.is_some() {
        tasks.push(spawn(ctx, |ctx| async move { bare_metal::run(&ctx).await }));
    }
    // While it answers; nodes are reported by what it says.
    tasks.push(spawn(ctx, |ctx| async move { drop(ctx.follow.run(&ctx.clock, &ctx.end).await) }));
    agent_based::wait(ctx, untaints, ctx.config.control_plane_count).await;
    ctx.end.set(Reason::Finished);
    // The service is gone: boots that are not counted yet are of no use.
    join(tasks).await;
    Ok(())
}

async fn agent_based_single_node(ctx: &Context) -> anyhow::Result<()> {
    tracing::warn!("the service ran on this node, and is gone: only manifests of operators are left to apply");
    let dns = spawn(ctx, |ctx| async move { dns::run(&ctx).await });
    // Both: a cluster that is available may still lack its operators' manifests, and they may be what it waits for.
    let is_available = Cell::new(false);
    let available = async {
        agent_based::wait(ctx, false, 0).await;
        is_available.set(true);
    };
    tokio::join!(available, agent_based::apply_manifests(ctx, || is_available.get()));
    ctx.end.set(Reason::Finished);
    join(vec![dns]).await;
    Ok(())
}

type Task = tokio::task::JoinHandle<()>;

/// Nodes and their labels and certificates: in every mode but one.
async fn common(ctx: &Context, platform: &str, snapshot: Option<&Snapshot>) -> Vec<Task> {
    let untaints = taint::is_wanted(ctx, platform, ctx.mode == Mode::AgentBased, snapshot).await;
    let (over, is_over) = tokio::sync::oneshot::channel::<()>();
    let nodes = spawn(ctx, move |ctx| async move {
        nodes::run(&ctx, untaints).await;
        drop(over);
    });
    let mode = ctx.mode;
    let certificates = spawn(ctx, move |ctx| async move {
        let over = async {
            let _ = is_over.await;
            // Workers may come when the service is gone, the host of the service does.
            if !mode.has_service() {
                std::future::pending::<()>().await;
            }
        };
        certificates::run(&ctx, over).await;
    });
    vec![nodes, certificates, spawn(ctx, |ctx| async move { labels::run(&ctx).await })]
}

fn spawn<F: Future<Output = ()> + Send + 'static>(ctx: &Context, task: impl FnOnce(Context) -> F) -> Task {
    tokio::spawn(task(ctx.clone()))
}

async fn join(tasks: Vec<Task>) {
    for task in tasks {
        if let Err(error) = task.await {
            tracing::error!(%error, "a task ended early");
        }
    }
}

/// Those of the cluster over those of the environment.
fn with_proxies(proxy: &DynamicObject, environment: ProxyVariables) -> ProxyVariables {
    let of_cluster = [
        ("HTTP_PROXY", text(proxy, "/status/httpProxy")),
        ("HTTPS_PROXY", text(proxy, "/status/httpsProxy")),
        ("NO_PROXY", text(proxy, "/status/noProxy")),
    ];
    let set: Vec<_> = of_cluster.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    if set.is_empty() {
        return environment;
    }
    let others = environment.pairs().filter(|(name, _)| set.iter().all(|(set, _)| !set.eq_ignore_ascii_case(name)));
    ProxyVariables::from_pairs(&others.chain(set.iter().copied()).collect::<Vec<_>>())
}

/// Who installs this cluster.
async fn invoker(cluster: &Cluster, clock: &Clock, end: &End) -> String {
    let (namespace, name, key) = INVOKER;
    match asked(clock, end, || cluster.get(CONFIG_MAP, Some(namespace), name)).await {
        Ok(map) => map.and_then(|map| objects::entry(&map, key)).unwrap_or_default(),
        Err(_) => "assisted-service".to_owned(),
    }
}

/// Asks the cluster until it answers, for [`START_LIMIT`]; the last error.
async fn asked<T, F: Future<Output = Result<T, CallError>>>(
    clock: &Clock,
    end: &End,
    mut ask: impl FnMut() -> F,
) -> Result<T, CallError> {
    let started = clock.now();
    loop {
        let answer = ask().await;
        let Err(error) = &answer else { return answer };
        if clock.now().saturating_sub(started) >= START_LIMIT {
            return answer;
        }
        tracing::warn!(error = error as &dyn std::error::Error, "the cluster does not say yet how it is set up");
        tokio::select! {
            () = clock.sleep(START_INTERVAL) => {}
            () = end.wait() => return answer,
        }
    }
}

/// By the install configuration.
async fn installed_platform(ctx: &Context) -> String {
    let config = taint::install_config(&ctx.cluster).await.unwrap_or_default();
    let platform = config.get("platform").and_then(|platform| platform.as_object());
    platform.and_then(|platform| platform.keys().next().cloned()).unwrap_or_default()
}

/// The image of this controller: its pods do what needs a node or another namespace.
pub(crate) async fn own_image(ctx: &Context) -> Result<String, CallError> {
    let pods = ctx.cluster.list(POD, Some(&ctx.config.namespace), logs::POD_LABEL).await?;
    let image = pods.iter().map(|pod| text(pod, "/spec/containers/0/image")).find(|image| !image.is_empty());
    image.map(str::to_owned).ok_or_else(|| CallError::Request { what: "find this controller's own pod".to_owned() })
}
