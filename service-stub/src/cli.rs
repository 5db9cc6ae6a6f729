//! `landfall serve`.

mod access;
mod clusters;
mod hosts;
mod images;
mod network;
mod states;

use crate::addresses::{base_url, host_part, is_loopback, who_may};
use crate::auth::{self, Auth};
use crate::check::requirements::Requirements;
use crate::cluster_files::GivenFiles;
use crate::disconnected;
use crate::disk_images::DiskImage;
use crate::handlers::validations;
use crate::http::hosts::Hosts;
use crate::http::limits::Limits;
use crate::iso_store::IsoStoreArgs;
use crate::media::Media;
use crate::payload::ImageArgs;
use crate::preparing::{self, GenerationArgs};
use crate::registries::RegistryArgs;
use crate::releases::{Catalogue, CatalogueArgs, IsoArgument, OsImage};
use crate::rendezvous::{self, Announcement, Outcome, RendezvousArgs};
use crate::service::{Service, Settings};
use crate::state::limits::FinalizingLimits;
use crate::steps::options::StepOptions;
use crate::store::{self, Store, StoreError};
use crate::{logs, media_probe, server};
use access::{AccessArgs, AuthKind};
use anyhow::{Context, bail};
use clusters::ClusterArgs;
use hosts::HostArgs;
use images::ProgramImages;
use kernel::supervise::{Supervised, supervise};
use network::NetworkArgs;
use states::States;
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

    #[command(flatten)]
    network: NetworkArgs,

    #[command(flatten)]
    access: AccessArgs,

    #[command(flatten)]
    hosts: HostArgs,

    #[command(flatten)]
    clusters: ClusterArgs,

    #[command(flatten)]
    programs: ProgramImages,

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
        let rendezvous = match self.rendezvous.read(version, self.access.auth_key.as_deref())? {
            Outcome::None => None,
            Outcome::Done => return Ok(()),
            Outcome::Serve(rendezvous) => Some(rendezvous),
        };
        if rendezvous.is_some() && self.access.auth == AuthKind::Local && self.access.auth_key.is_none() {
            bail!(
                "--rendezvous with --auth local needs --auth-key: the agents' image holds a token signed with that key beforehand \
                 (landfall serve token --auth-key FILE --infra-env ID; `--rendezvous DIR --check` prints the id)"
            );
        }
        let state_dir = self.state_dir.context("--state-dir is missing")?;
        let auth = self.access.auth(&state_dir)?;
        let requirements = match &self.hosts.requirements {
            Some(path) => Requirements::read(path)?,
            None => Requirements::default(),
        };
        let attest = self.hosts.attest()?;
        let cluster_files = self.clusters.cluster_files.as_deref().map(GivenFiles::open).transpose()?;
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
        let finalizing = FinalizingLimits::new(limits.into_iter().chain(self.clusters.finalizing_timeouts));
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
        let media = Media::open(&isos, &self.images, &self.hosts.agent_binaries)?.with_listed(os_images)?;
        let hosts_boot = os_images.iter().filter(|image| !image.offline).filter_map(OsImage::path);
        let all: Vec<PathBuf> = isos.into_iter().chain(hosts_boot.map(PathBuf::from)).collect();
        for fault in media_probe::agent_faults(&all, &self.hosts.agent_binaries, self.hosts.deliver_agent) {
            tracing::warn!("{fault}");
        }
        let secure = self.access.is_secure();
        let (listener, plain) = self.network.listen(&auth, secure)?;
        // A panic ends its process: all that was acknowledged is on disk, and the sockets queue connections meanwhile.
        let crashed = |signal, pause| tracing::error!(%signal, ?pause, "the service crashed; restarting it");
        let crashes = match supervise(crashed).context("cannot start the service process")? {
            Supervised::Worker(crashes) => crashes,
            Supervised::Ended(code) => std::process::exit(code),
        };
        let store = open(&state_dir, self.access.secrets_key.as_deref())?;
        preparing::clean(&state_dir);
        let options = registry.as_deref().cloned().unwrap_or_default();
        let generation = self.generation.open(&state_dir, options)?;
        logs::clean(&state_dir).context("cannot clean up unfinished uploads")?;
        let disabled_validations = validations::parse_ignored(&self.hosts.disable_validations)
            .map_err(|why| anyhow::anyhow!("--disable-validations: {why}"))?;
        let limits = Limits {
            connections: self.network.connections()?,
            hosts: usize::try_from(self.hosts.max_hosts)?,
            ..Limits::default()
        };
        let os_images = catalogue.as_ref().map(Catalogue::os_images).unwrap_or_default();
        let iso_store =
            self.iso_store.open(&state_dir, os_images, &media, limits.free_bytes, !self.hosts.deliver_agent)?;
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
            let url = base_url(self.network.url.as_deref().or(own_url.as_deref()), address, secure)?;
            match auth {
                Auth::None => tracing::warn!("{}", who_may(&auth, address)),
                Auth::Local(_) => tracing::info!("{}", who_may(&auth, address)),
            }
            if self.network.listen.is_none() && address.ip().is_loopback() && !is_loopback(&url) {
                tracing::warn!("hosts get {url}, but cannot reach {address}, a loopback address: use --listen");
            }
            let tls = self.access.certificate(&state_dir, &url, address)?;
            let plain = plain.map(TcpListener::from_std).transpose()?;
            let boot_url = match plain.as_ref().map(|plain| plain.local_addr()).transpose()? {
                Some(plain) => format!("http://{}:{}", host_part(&url), plain.port()),
                None => url.clone(),
            };
            let settings = Settings {
                hosts: Hosts::new(&url, &self.network.allow_host),
                url,
                boot_url,
                poll_interval: self.hosts.poll_interval,
                monitor_interval: Duration::from_secs(self.clusters.monitor_interval),
                requirements,
                agent_image: self.programs.agent_image,
                installer_image: self.programs.installer_image,
                controller_image: self.programs.controller_image,
                deliver_agent: self.hosts.deliver_agent,
                cluster_files,
                generation,
                manifests: self.clusters.manifests.on_this_machine(rendezvous.is_some()),
                image_args: self.image_args,
                registry,
                attest,
                auth,
                ca_pem: tls.as_ref().and_then(|tls| tls.ca_pem.clone()),
                await_controller: self.clusters.await_controller,
                soft_timeouts: self.clusters.soft_timeouts,
                disabled_validations,
                limits,
                openshift_versions: self.releases.openshift_versions,
                catalogue: catalogue.map(Arc::new),
                disconnected_ignition,
                steps: self.steps,
                retention: self.clusters.remove_inactive_after,
                mirror,
                cluster_ca_pem,
                insecure_policy: self.registries.insecure_policy,
                allowed_origins: self.network.allowed_origins,
                event_limits: self.clusters.event_rate_limits.unwrap_or_default(),
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

#[cfg(test)]
mod tests {
    use super::states::StatesForm;
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
            assert_eq!(program.serve.clusters.cluster_files, Some("files".into()), "{name}");
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
