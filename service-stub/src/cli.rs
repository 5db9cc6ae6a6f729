//! `landfall serve`.

use crate::addresses::{base_url, default_listen, host_part, is_loopback, names, who_may};
use crate::auth::{self, Auth, keys::SigningKey};
use crate::check::requirements::Requirements;
use crate::cluster_files::GivenFiles;
use crate::disconnected;
use crate::disk_images::DiskImage;
use crate::events::limits::EventLimits;
use crate::generated_manifests::options::ManifestOptions;
use crate::handlers::validations;
use crate::http::hosts::Hosts;
use crate::http::limits::Limits;
use crate::http::tls::Tls;
use crate::iso_store::IsoStoreArgs;
use crate::media::Media;
use crate::payload::ImageArgs;
use crate::preparing::{self, GenerationArgs};
use crate::registries::RegistryArgs;
use crate::releases::{Catalogue, CatalogueArgs, IsoArgument, OsImage};
use crate::rendezvous::{self, Announcement, Outcome, RendezvousArgs};
use crate::retention::Retention;
use crate::service::{Service, Settings};
use crate::state::{
    document,
    limits::{FinalizingLimit, FinalizingLimits},
};
use crate::steps::options::StepOptions;
use crate::store::{self, Store, StoreError};
use crate::{logs, media_probe, server};
use anyhow::{Context, bail};
use kernel::supervise::{Supervised, supervise};
use std::{
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{net::TcpListener, signal::unix};

const AFTER_HELP: &str = "\
Examples:
  One rack, our own ISO, one image, where any client may do everything:
    landfall serve --state-dir /var/lib/landfall --listen 0.0.0.0:8090 \\
      --url http://10.0.0.5:8090 --iso landfall-live.iso \\
      --image os-metal.x86_64.raw.gz

  A distribution's ISO, which doesn't contain the agent:
    landfall serve --state-dir ./state --auth local --iso live.x86_64.iso \\
      --deliver-agent --image os.raw.xz

  Clusters with a control plane, from files that openshift-install created:
    openshift-install create ignition-configs --dir ./rack
    landfall serve --state-dir ./state --auth local --iso live.iso \\
      --image os.raw.gz --cluster-files ./rack

  The same, with files that the service makes for each cluster:
    landfall serve --state-dir ./state --auth local --iso live.iso \\
      --image os.raw.gz --generate --release-images releases.json

  State tables of hosts and clusters:
    landfall serve states

  A backup, while the service runs:
    landfall serve backup --state-dir /var/lib/landfall landfall.backup

  On a free port, for tests (printed as the first line of stdout):
    landfall serve --state-dir \"$(mktemp -d)\" --listen 127.0.0.1:0

  Reachable from other machines, with tokens:
    landfall serve --state-dir ./state --iso live.iso --image os.raw.xz \\
      --auth local
    landfall serve token --state-dir ./state --expires 8h

  On one of the rack's own hosts, started from the live ISO:
    landfall serve --rendezvous /etc/landfall/rendezvous --check
    landfall serve --rendezvous /etc/landfall/rendezvous \\
      --state-dir /var/lib/landfall/service --image os.raw.gz \\
      --listen 0.0.0.0:8090

  With HTTPS and a certificate that the hosts trust:
    landfall serve --state-dir ./state --iso live.iso --image os.raw.xz \\
      --auth local --tls self-signed

Without --auth local any client that reaches the port may do everything, so it listens on this machine only: use --listen on a \
management network only.";

/// Serve the assisted-installer API: discover, check and install hosts, without a hub.
///
/// Prints `listening on http://ADDRESS:PORT` when ready. SIGTERM or SIGINT stops it; everything it acknowledged is on disk
/// by then, as it is after a crash.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Serve {
    #[command(subcommand)]
    command: Option<Command>,

    /// Directory for records and uploaded logs, created if missing. One service at a time
    // `serve token` needs one too, but has its own option.
    #[arg(long, value_name = "DIR", env = "LANDFALL_STATE_DIR", required_unless_present = "check")]
    pub(crate) state_dir: Option<PathBuf>,

    /// Live ISO for all infra-envs; the discovery config is written into it as it streams. May be given once per processor
    /// architecture: each infra-env gets the one for its own. VERSION:ARCH=FILE or VERSION:ARCH:STREAM=FILE, as in
    /// 4.22:x86_64:rhel-10=live.iso, is for infra-envs of that version, architecture and release stream alone; the others get the
    /// FILE without a version, or are refused
    #[arg(long = "iso", value_name = "FILE")]
    pub isos: Vec<IsoArgument>,

    /// Ignition config for images of the type disconnected-iso, as `openshift-install agent create unconfigured-ignition` writes it.
    /// The settings of each infra-env are merged into it. The ISOs are those of --os-images with that type
    #[arg(help_heading = "Versions", long, value_name = "FILE")]
    pub(crate) disconnected_ignition: Option<PathBuf>,

    /// OS image to install; hosts fetch it from /boot-artifacts/os/. May be repeated: VERSION:ARCH=FILE or
    /// VERSION:ARCH:STREAM=FILE, as with --iso, is for hosts of that version, architecture and release stream. The others get the
    /// first FILE whose name contains their architecture, else the first that names none, unless their
    /// installer arguments name another. FILE.sig beside it is served too
    #[arg(long = "image", value_name = "FILE")]
    pub images: Vec<DiskImage>,

    /// Address and port to listen on; port 0 takes a free one. Default: 127.0.0.1:8090, which other machines cannot reach; with
    /// --auth local 0.0.0.0:8090
    #[arg(help_heading = "Network", long, value_name = "ADDR:PORT", env = "LANDFALL_LISTEN")]
    pub listen: Option<SocketAddr>,

    /// Base URL at which hosts reach this service, written into every ISO and config. Port 0 stands for the port listened
    /// on. Default: the address listened on, or for a wildcard the address of this machine's default route
    #[arg(help_heading = "Network", long, value_name = "URL", env = "LANDFALL_SERVE_URL")]
    pub url: Option<String>,

    /// Additional name for this service. Requests for other names are refused; IP addresses, localhost and the host of --url
    /// are always accepted. May be repeated
    #[arg(help_heading = "Network", long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,

    /// Additional address and port without TLS, for firmware that trusts no certificate: serves boot scripts, kernels,
    /// initrds and images only
    #[arg(help_heading = "Network", long, value_name = "ADDR:PORT")]
    pub(crate) http_listen: Option<SocketAddr>,

    /// Origin of web pages that may read /boot-artifacts, as `https://console.example.com`, or * for all. May be repeated, or a list
    /// with commas
    #[arg(
        help_heading = "Network",
        long = "allow-origin",
        value_name = "ORIGIN",
        env = "ALLOWED_DOMAINS",
        value_delimiter = ','
    )]
    pub(crate) allowed_origins: Vec<String>,

    /// Maximum of open connections; further connections get 503 and are closed. Limited by the file descriptors of this
    /// process (ulimit -Hn), minus some for files
    #[arg(help_heading = "Network", long, value_name = "COUNT", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_connections: u32,

    /// Authentication: none, or local for tokens signed with this service's key. Agents have theirs in their ISO;
    /// `landfall serve token` prints users' tokens
    #[arg(help_heading = "Access and TLS", long, value_enum, value_name = "KIND", default_value_t = AuthKind::None, env = "LANDFALL_AUTH")]
    pub auth: AuthKind,

    /// Private key that signs tokens, PEM, curve P-256. Default: a key created in the state directory
    #[arg(help_heading = "Access and TLS", long, value_name = "FILE")]
    pub(crate) auth_key: Option<PathBuf>,

    /// Key that encrypts records on disk, 32 bytes. Default: a key created in the state directory; then a copy of the store's
    /// file alone reveals no secret, but a copy of the directory does
    #[arg(help_heading = "Access and TLS", long, value_name = "FILE")]
    pub(crate) secrets_key: Option<PathBuf>,

    /// Serve HTTPS with a certificate from this service's own CA, for the host of --url and the address listened on. Both are
    /// stored in the state directory; hosts trust the CA, which is tls-ca.pem there
    #[arg(help_heading = "Access and TLS", long, value_enum, value_name = "KIND", conflicts_with_all = ["tls_cert", "tls_key"])]
    pub tls: Option<TlsKind>,

    /// Serve HTTPS with this certificate chain, PEM
    #[arg(help_heading = "Access and TLS", long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert, PEM
    #[arg(help_heading = "Access and TLS", long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// CA certificates with which hosts verify --tls-cert, PEM, if they don't trust its CA already
    #[arg(help_heading = "Access and TLS", long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_ca: Option<PathBuf>,

    /// Landfall binary for hosts. Default: the landfall-host installed with
    /// this program, else this program. May be given once per processor
    /// architecture; an installed host reports with it too
    #[arg(help_heading = "Hosts", long = "agent-binary", value_name = "FILE")]
    pub(crate) agent_binaries: Vec<PathBuf>,

    /// Have the discovery config fetch the binary, for an ISO without it
    #[arg(help_heading = "Hosts", long)]
    pub deliver_agent: bool,

    /// Maximum of hosts per infra-env
    #[arg(help_heading = "Hosts", long, value_name = "COUNT", default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_hosts: u32,

    /// Seconds between polls of a host. Landfall's agent polls every few seconds while its host is new, for up to a minute
    #[arg(help_heading = "Hosts", long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub poll_interval: u64,

    /// Hardware requirements, a JSON list by version: [{"version":"default","master":{"cpu_cores":4,"ram_mib":16384,
    /// "disk_size_gb":100},"worker":{…}}]. Omitted values stay at their defaults
    #[arg(help_heading = "Hosts", long, value_name = "FILE")]
    pub requirements: Option<PathBuf>,

    /// Validations of hosts and clusters to disable, by name (as in validations_info), separated by commas: they are shown as
    /// disabled and block nothing. A cluster's own list (PUT …/ignored-validations) takes precedence
    #[arg(help_heading = "Hosts", long, alias = "ignore-validations", value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) disable_validations: Vec<String>,

    /// Directory with the install-time files of clusters with a control plane: bootstrap.ign, master.ign and worker.ign;
    /// optional: arbiter.ign, custom_manifests.json, custom_manifests.yaml, metadata.json, install-config.yaml,
    /// kubeconfig, kubeconfig-noingress and kubeadmin-password. One control-plane host is elected to bootstrap, and the
    /// cluster's controller reports when a host is done. A directory ID or NAME.DOMAIN in it has the files of one cluster. Without
    /// this option and --generate there is no control plane, and each host reports for itself
    #[arg(
        help_heading = "Clusters",
        long,
        visible_alias = "install-config-dir",
        value_name = "DIR",
        group = "control_plane"
    )]
    pub cluster_files: Option<PathBuf>,

    /// Hold a cluster in `finalizing` until its controller has reported that the operators work and uploaded the ingress
    /// certificate. Without this option a cluster whose controller reports nothing is installed when its hosts are
    #[arg(help_heading = "Clusters", long, requires = "control_plane")]
    pub await_controller: bool,

    #[command(flatten)]
    manifests: ManifestOptions,

    /// Flag stages and connections that take too long instead of failing the installation. Applies to clusters created from
    /// now on
    #[arg(help_heading = "Clusters", long)]
    pub soft_timeouts: bool,

    /// Time limit of a finalizing stage, as in "Waiting for cluster operators=12h". May be repeated. Overrides
    /// FINALIZING_STAGE_…_TIMEOUT in the environment. Applies to clusters created from now on
    #[arg(help_heading = "Clusters", long = "finalizing-timeout", value_name = "STAGE=TIME")]
    finalizing_timeouts: Vec<FinalizingLimit>,

    /// Least time between two events of a name, cluster, host and infra-env, a JSON object:
    /// {"upgrade_agent_failed":"2h"}. Events that come sooner are not recorded. Default: 1h for upgrade_agent_started,
    /// upgrade_agent_finished and upgrade_agent_failed
    #[arg(help_heading = "Clusters", long, value_name = "JSON", env = "EVENT_RATE_LIMITS")]
    event_rate_limits: Option<EventLimits>,

    /// Seconds between runs of the monitor, which detects silent hosts and expired time limits, and starts the installation of
    /// clusters whose hosts are prepared
    #[arg(help_heading = "Clusters", long, value_name = "SECONDS", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub monitor_interval: u64,

    /// Remove clusters and infra-envs, with their hosts and logs, untouched for this long (h, d, or never). Nothing is removed
    /// before the service has run for this long
    #[arg(help_heading = "Clusters", long, value_name = "TIME", default_value = "480h")]
    pub(crate) remove_inactive_after: Retention,

    /// Agent image reference for agents that report none
    #[arg(
        help_heading = "Images",
        long,
        value_name = "IMAGE",
        default_value = "quay.io/edge-infrastructure/assisted-installer-agent:latest"
    )]
    pub agent_image: String,

    /// Image reference of the installer in install requests
    #[arg(
        help_heading = "Images",
        long,
        value_name = "IMAGE",
        default_value = "quay.io/edge-infrastructure/assisted-installer:latest"
    )]
    pub installer_image: String,

    /// Image reference of the controller in install requests
    #[arg(
        help_heading = "Images",
        long,
        value_name = "IMAGE",
        default_value = "quay.io/edge-infrastructure/assisted-installer-controller:latest"
    )]
    pub controller_image: String,

    #[command(flatten)]
    generation: GenerationArgs,

    #[command(flatten)]
    image_args: ImageArgs,

    #[command(flatten)]
    registries: RegistryArgs,

    #[command(flatten)]
    releases: CatalogueArgs,

    #[command(flatten)]
    iso_store: IsoStoreArgs,

    #[command(flatten)]
    steps: StepOptions,

    #[command(flatten)]
    rendezvous: RendezvousArgs,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Token(auth::cli::Token),
    States(States),
    Backup(store::cli::Backup),
    Restore(store::cli::Restore),
    Check(store::cli::Check),
}

/// Print the state transitions of hosts and clusters.
///
/// These tables alone decide what the service does: the first row that matches wins. A row's name is its section and row in
/// the published behaviour.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  landfall serve states
  landfall serve states picture > states.md")]
struct States {
    /// Markdown tables, or Mermaid state diagrams
    #[arg(value_enum, default_value_t = StatesForm::Table)]
    form: StatesForm,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum StatesForm {
    Table,
    Picture,
}

impl States {
    fn run(self) -> anyhow::Result<()> {
        let text = match self.form {
            StatesForm::Table => document::tables(),
            StatesForm::Picture => document::pictures(),
        };
        Ok(std::io::stdout().write_all(text.as_bytes())?)
    }
}

/// Where the certificate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TlsKind {
    /// Our own CA.
    SelfSigned,
}

/// How callers are authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum AuthKind {
    /// Not at all.
    None,
    /// By this service's tokens.
    Local,
}

impl Serve {
    /// Serves until a signal stops it.
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Some(Command::Token(token)) => return token.run(),
            Some(Command::States(states)) => return states.run(),
            Some(Command::Backup(backup)) => return backup.run(),
            Some(Command::Restore(restore)) => return restore.run(),
            Some(Command::Check(check)) => return check.run(),
            None => {}
        }
        let announce = self.rendezvous.announce;
        let version = self.releases.openshift_versions.last().map(String::as_str);
        let rendezvous = match self.rendezvous.read(version, self.auth_key.as_deref())? {
            Outcome::None => None,
            Outcome::Done => return Ok(()),
            Outcome::Serve(rendezvous) => Some(rendezvous),
        };
        if rendezvous.is_some() && self.auth == AuthKind::Local && self.auth_key.is_none() {
            bail!(
                "--rendezvous with --auth local needs --auth-key: the agents' image holds a token signed with that key beforehand \
                 (landfall serve token --auth-key FILE --infra-env ID; `--rendezvous DIR --check` prints the id)"
            );
        }
        let state_dir = self.state_dir.context("--state-dir is missing")?;
        let auth = match (self.auth, &self.auth_key) {
            (AuthKind::None, None) => Auth::None,
            (AuthKind::None, Some(_)) => bail!("--auth-key needs --auth local"),
            (AuthKind::Local, Some(path)) => Auth::Local(Arc::new(SigningKey::read(path)?)),
            (AuthKind::Local, None) => Auth::Local(Arc::new(SigningKey::load_or_create(&state_dir)?)),
        };
        let requirements = match &self.requirements {
            Some(path) => Requirements::read(path)?,
            None => Requirements::default(),
        };
        let cluster_files = self.cluster_files.as_deref().map(GivenFiles::open).transpose()?;
        let (isos, listed) = IsoArgument::split(self.isos);
        let mut catalogue = self.releases.read()?;
        if !listed.is_empty() {
            catalogue.get_or_insert_with(Catalogue::default).add_os_images(listed.into_iter(), !isos.is_empty());
        }
        let os_images = catalogue.as_ref().map(Catalogue::os_images).unwrap_or_default();
        let elsewhere = os_images.iter().filter(|image| image.path().is_none()).count();
        if elsewhere > 0 && isos.is_empty() && self.iso_store.no_download {
            tracing::warn!(
                elsewhere,
                "OS images with addresses elsewhere are not downloaded: give the live ISO of each with --iso VERSION:ARCH=FILE"
            );
        }
        let release_sources = self.releases.sources()?;
        let mirror = self.registries.mirror()?.map(Arc::new);
        let cluster_ca_pem = self.registries.cluster_ca_pem()?;
        let (limits, bad) = FinalizingLimits::from_environment(|name| std::env::var(name).ok());
        for name in bad {
            tracing::warn!("{name} is not a duration such as 90m or 1h30m: the usual limit stays");
        }
        let finalizing = FinalizingLimits::new(limits.into_iter().chain(self.finalizing_timeouts));
        let disconnected_ignition = self.disconnected_ignition.as_deref().map(disconnected::read).transpose()?;
        // Release images come from the registries that podman uses on this machine.
        let has_control_plane = cluster_files.is_some() || self.generation.generate;
        let registry = has_control_plane.then(|| self.registries.image_options().map(Arc::new)).transpose()?;
        let given = isos.iter().map(|path| ("--iso", path.as_path()));
        let listed = os_images.iter().filter_map(OsImage::path).map(|path| ("OS image", path));
        for (what, path) in given.chain(listed) {
            if !media_probe::is_iso(path).with_context(|| format!("cannot read {}", path.display()))? {
                bail!("{what} {} is not an ISO", path.display());
            }
        }
        for DiskImage { path, .. } in &self.images {
            if let Some(fault) = media_probe::fault(path).with_context(|| format!("cannot read {}", path.display()))? {
                bail!("--image {} cannot be installed: {fault}", path.display());
            }
        }
        let media = Media::open(&isos, &self.images, &self.agent_binaries)?.with_listed(os_images)?;
        let hosts_boot = os_images.iter().filter(|image| !image.offline).filter_map(OsImage::path);
        let all: Vec<PathBuf> = isos.into_iter().chain(hosts_boot.map(PathBuf::from)).collect();
        for fault in media_probe::agent_faults(&all, &self.agent_binaries, self.deliver_agent) {
            tracing::warn!("{fault}");
        }
        let wanted = self.listen.unwrap_or_else(|| default_listen(&auth));
        let listen = |at| {
            server::listen(at).map_err(|error| match error.kind() {
                std::io::ErrorKind::AddrInUse => {
                    anyhow::anyhow!(
                        "{at} is in use by another program or service: --listen ADDR:PORT takes another port"
                    )
                }
                _ => anyhow::Error::from(error).context(format!("cannot listen on {at}")),
            })
        };
        let listener = listen(wanted)?;
        let secure = self.tls.is_some() || self.tls_cert.is_some();
        if self.http_listen.is_some() && !secure {
            bail!("--http-listen needs HTTPS (--tls or --tls-cert): without it --listen is plain HTTP already");
        }
        let plain = self.http_listen.map(listen).transpose()?;
        // A panic ends its process: all that was acknowledged is on disk, and the sockets queue connections meanwhile.
        let crashed = |signal, pause| tracing::error!(%signal, ?pause, "the service crashed; restarting it");
        let crashes = match supervise(crashed).context("cannot start the service process")? {
            Supervised::Worker(crashes) => crashes,
            Supervised::Ended(code) => std::process::exit(code),
        };
        let store = open(&state_dir, self.secrets_key.as_deref())?;
        preparing::clean(&state_dir);
        let options = registry.as_deref().cloned().unwrap_or_default();
        let generation = self.generation.open(&state_dir, options)?;
        logs::clean(&state_dir).context("cannot clean up unfinished uploads")?;
        let disabled_validations = validations::parse_ignored(&self.disable_validations)
            .map_err(|why| anyhow::anyhow!("--disable-validations: {why}"))?;
        let limits = Limits {
            connections: connections(self.max_connections)?,
            hosts: usize::try_from(self.max_hosts)?,
            ..Limits::default()
        };
        let os_images = catalogue.as_ref().map(Catalogue::os_images).unwrap_or_default();
        let iso_store = self.iso_store.open(&state_dir, os_images, &media, limits.free_bytes, !self.deliver_agent)?;
        let runtime = server::runtime()?;
        let served = runtime.block_on(async {
            // Before the first output, so that an early signal stops us as well.
            let mut terminate = unix::signal(unix::SignalKind::terminate())?;
            let mut interrupt = unix::signal(unix::SignalKind::interrupt())?;
            let listener = TcpListener::from_std(listener)?;
            let address = listener.local_addr()?;
            let scheme = if secure { "https" } else { "http" };
            let at = rendezvous.as_ref().and_then(|rendezvous| rendezvous.rack.address);
            let own_url = at.map(|at| format!("{scheme}://{}", SocketAddr::new(at, address.port())));
            let url = base_url(self.url.as_deref().or(own_url.as_deref()), address, secure)?;
            match auth {
                Auth::None => tracing::warn!("{}", who_may(&auth, address)),
                Auth::Local(_) => tracing::info!("{}", who_may(&auth, address)),
            }
            if self.listen.is_none() && address.ip().is_loopback() && !is_loopback(&url) {
                tracing::warn!("hosts get {url}, but cannot reach {address}, a loopback address: use --listen");
            }
            let tls = match (self.tls, &self.tls_cert, &self.tls_key) {
                (Some(TlsKind::SelfSigned), ..) => Some(Tls::with_local_authority(&state_dir, &names(&url, address))?),
                (None, Some(certificate), Some(key)) => Some(Tls::given(certificate, key, self.tls_ca.as_deref())?),
                _ => None,
            };
            let plain = plain.map(TcpListener::from_std).transpose()?;
            let boot_url = match plain.as_ref().map(|plain| plain.local_addr()).transpose()? {
                Some(plain) => format!("http://{}:{}", host_part(&url), plain.port()),
                None => url.clone(),
            };
            let settings = Settings {
                hosts: Hosts::new(&url, &self.allow_host),
                url,
                boot_url,
                poll_interval: self.poll_interval,
                monitor_interval: Duration::from_secs(self.monitor_interval),
                requirements,
                agent_image: self.agent_image,
                installer_image: self.installer_image,
                controller_image: self.controller_image,
                deliver_agent: self.deliver_agent,
                cluster_files,
                generation,
                manifests: self.manifests.on_this_machine(),
                image_args: self.image_args,
                registry,
                auth,
                ca_pem: tls.as_ref().and_then(|tls| tls.ca_pem.clone()),
                await_controller: self.await_controller,
                soft_timeouts: self.soft_timeouts,
                disabled_validations,
                limits,
                openshift_versions: self.releases.openshift_versions,
                catalogue: catalogue.map(Arc::new),
                disconnected_ignition,
                steps: self.steps,
                retention: self.remove_inactive_after,
                mirror,
                cluster_ca_pem,
                insecure_policy: self.registries.insecure_policy,
                allowed_origins: self.allowed_origins,
                event_limits: self.event_rate_limits.unwrap_or_default(),
                finalizing,
                release_sources,
                rendezvous: rendezvous.map(Arc::new),
            };
            tracing::info!(url = settings.url, state_dir = %state_dir.display(), iso = media.has_iso(), "serving");
            if !media.has_image() {
                tracing::warn!("no --image: hosts need an image in their installer arguments");
            }
            let service = Arc::new(Service::new(settings, store, media).with_iso_store(iso_store));
            if let Some(rendezvous) = &service.settings.rendezvous {
                rendezvous::begin(&service, rendezvous)
                    .map_err(|refusal| anyhow::anyhow!("the rack plan cannot be used: {}", refusal.message()))?;
            }
            let announced = match &service.settings.rendezvous {
                // A new node of a cluster serves itself alone.
                Some(rendezvous) if announce && rendezvous.rack.existing.is_none() => {
                    if rendezvous.key.is_none() && !secure && at.is_none() {
                        tracing::warn!(
                            "the mDNS announcement is not signed: agents refuse it unless they have rendezvous_unsigned = true; sign it with \
                             --rendezvous-key"
                        );
                    }
                    let begun = Announcement::begin(rendezvous, &service.settings.url, address.port(), at);
                    Some(begun.context("cannot announce this service by multicast DNS")?)
                }
                _ => None,
            };
            if crashes == 0 {
                let mut stdout = std::io::stdout();
                writeln!(stdout, "listening on {scheme}://{address}").and_then(|()| stdout.flush())?;
            }
            let stop = async move {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                tracing::info!("stopping");
            };
            let listeners = server::Listeners { main: listener, tls: tls.map(|tls| tls.acceptor), plain };
            let served = server::run(service, listeners, stop).await.context("the server failed");
            drop(announced);
            served
        });
        // A download cut off by the stop may still be reading its next piece.
        runtime.shutdown_timeout(server::STOP_GRACE);
        served
    }
}

/// Opens the store, which stays locked for a moment after its service was killed.
fn open(directory: &Path, key: Option<&Path>) -> Result<Store, StoreError> {
    const TRIES: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(100);
    for _ in 1..TRIES {
        match Store::open_sealed(directory, key) {
            Err(StoreError::Locked { .. }) => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
    Store::open_sealed(directory, key)
}

/// Raises the limit of file descriptors as far as allowed, and returns how many connections may use.
fn connections(wanted: u32) -> anyhow::Result<usize> {
    let (was, bound) = server::raise_descriptors().context("cannot read the limit on open files")?;
    let most = connection_limit(bound);
    tracing::info!(was, open_files = bound, connections = most.min(wanted.into()), "file descriptors");
    if u64::from(wanted) > most {
        tracing::warn!(
            "--max-connections {wanted} exceeds the limit of {bound} open files: limited to {most} connections (raise ulimit -Hn, or \
             LimitNOFILE= in the unit)"
        );
    }
    Ok(usize::try_from(most.min(wanted.into()))?)
}

/// Some are reserved for the store, uploads and served files; if there are very few, half.
fn connection_limit(descriptors: u64) -> u64 {
    descriptors.saturating_sub(2048).max(descriptors / 2).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::releases::Listing;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        serve: Serve,
    }

    #[test]
    fn the_files_of_a_control_plane_have_two_names() {
        for name in ["--cluster-files", "--install-config-dir"] {
            let program = Program::try_parse_from(["serve", "--state-dir", "state", name, "files"]).unwrap();
            assert_eq!(program.serve.cluster_files, Some("files".into()), "{name}");
        }
    }

    #[test]
    fn isos_are_for_all_or_for_one_version_and_lists_are_files_or_text() {
        let parse = |words: &[&str]| Program::try_parse_from(["serve", "--state-dir", "s"].iter().chain(words));
        let serve =
            parse(&["--iso", "a.iso", "--iso", "4.22:x86_64:rhel-10=b.iso", "--os-images", "[]"]).unwrap().serve;
        let (any, listed) = IsoArgument::split(serve.isos);
        assert_eq!((any, listed[0].os_stream.as_str()), (vec!["a.iso".into()], "rhel-10"));
        assert_eq!(serve.releases.os_images, Some(Listing::Text("[]".into())));
        let file = parse(&["--os-images", "images.json"]).unwrap().serve.releases.os_images;
        assert_eq!(file, Some(Listing::File("images.json".into())));
        assert!(parse(&["--iso", "4.22:vax=b.iso"]).is_err());
    }

    #[test]
    fn descriptors_are_left_for_files() {
        assert_eq!([20_000, 4096, 1024, 1].map(connection_limit), [17_952, 2048, 512, 1]);
    }

    #[test]
    fn tables_need_no_state_directory() {
        #[derive(clap::Parser)]
        struct Program {
            #[command(flatten)]
            serve: Serve,
        }
        let parse = |args: &[&str]| Program::try_parse_from(args).map(|program| program.serve.command);
        let states = |args| matches!(parse(args), Ok(Some(Command::States(States { form: StatesForm::Picture }))));
        assert!(states(&["serve", "states", "picture"]));
        assert!(parse(&["serve", "states", "song"]).is_err());
        assert!(matches!(parse(&["serve", "--state-dir", "x"]), Ok(None)));
        assert!(parse(&["serve", "--state-dir", "x", "--await-controller"]).is_err(), "there is no control plane");
    }
}
