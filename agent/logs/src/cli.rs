//! `landfall logs`.

use super::{LIMIT, Places, Settings, Wanted, archive, collect::Collected, collect::range, guard, send};
use anyhow::{Context, bail};
use api::{ClientConfig, ClusterId, Document, HostId, InfraEnvId, LogsDocument, Secret, http::HttpConfig};
use std::{
    fs::File,
    io::{self, BufWriter, IsTerminal, Read, Write},
    net::IpAddr,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// A larger document is refused.
const MAX_DOCUMENT_BYTES: u64 = 1 << 20;

/// Gather this host's logs: into a file, or to the service
///
/// Reads the journal, the kernel's log, crashes, disks and mounts, without journalctl or other programs except LVM's. Of a
/// damaged journal it takes what is readable. What could not be gathered is listed in report.logs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  landfall logs collect --output /tmp/logs.tar.gz --since '2 hours ago'
  landfall logs collect | ssh admin@jump 'cat > host7.tar.gz'
  PULL_SECRET_TOKEN=… landfall logs send --url https://service.example.com \\
    --cluster-id 7d9e… --infra-env-id 3f1c… --host-id d3d3… --installer-gather")]
pub struct Logs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Send the logs to the service
    ///
    /// Reports its progress to the service, sends one archive of at most 250 MB, leaving out the oldest lines if there are
    /// more, and removes its files below /var/log. Exit codes: 0 sent, 255 not sent, 124 not done within an hour, 2 wrong
    /// usage, 1 other failures.
    Send(Send),
    /// Write the archive to a file or to standard output; no service is needed
    Collect(Collect),
}

#[derive(Debug, clap::Args)]
struct Send {
    /// Read request and service from this JSON file, - for standard input; other options are then ignored
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// File with the token [default: the variable PULL_SECRET_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Base URL of the service
    #[arg(long, value_name = "URL", required_unless_present = "request")]
    url: Option<String>,
    /// Cluster of the host
    #[arg(long, value_name = "UUID", required_unless_present = "request")]
    cluster_id: Option<ClusterId>,
    /// Infra-env of the host
    #[arg(long, value_name = "UUID")]
    infra_env_id: Option<InfraEnvId>,
    /// This host
    #[arg(long, value_name = "UUID", required_unless_present = "request")]
    host_id: Option<HostId>,
    /// PEM bundle trusted in addition to the system's roots
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Skip verification of the service's certificate
    #[arg(long)]
    insecure: bool,
    /// Leave the work directory and the archive in /var/log
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    what: What,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What is sent")]
struct What {
    /// Leave out journal entries before this: '2026-11-21 02:51:34', today, yesterday, -1h, '10 minutes ago', @SECONDS
    #[arg(long, value_name = "TIME", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    since: String,
    /// This host carries the temporary control plane: add bootkube's log and the cluster's own bundle
    #[arg(long)]
    bootstrap: bool,
    /// Add the kernel's log, crashes and the whole journal
    #[arg(long)]
    installer_gather: bool,
    /// Control plane hosts that a bootstrap host asks for their logs
    #[arg(long, value_name = "IP", value_delimiter = ',')]
    masters_ips: Vec<IpAddr>,
}

#[derive(Debug, clap::Args)]
struct Collect {
    /// File to write; - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Leave out journal entries before this: '2026-11-21 02:51:34', today, yesterday, -1h, '10 minutes ago', @SECONDS
    #[arg(long, value_name = "TIME", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    since: String,
    /// Read journal files below this directory instead of /var/log/journal and /run/log/journal
    #[arg(long, value_name = "DIRECTORY")]
    journal: Option<PathBuf>,
    /// Only the logs of agent and installer, and the disks: without the kernel's log, crashes and the whole journal
    #[arg(long)]
    brief: bool,
    /// Id that names the directory in the archive
    #[arg(
        long,
        value_name = "UUID",
        default_value = "00000000-0000-0000-0000-000000000000",
        hide_default_value = true
    )]
    host_id: HostId,
}

impl Logs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Send(send) => Ok(super::run_to_end(&send.settings()?)),
            Command::Collect(collect) => collect.run().map(|()| ExitCode::SUCCESS),
        }
    }
}

impl Send {
    fn settings(self) -> anyhow::Result<Settings> {
        if let Some(path) = &self.request {
            return Ok(settings(LogsDocument::read(path)?));
        }
        let (Some(url), Some(cluster_id), Some(host_id)) = (self.url, self.cluster_id, self.host_id) else {
            bail!("--url, --cluster-id and --host-id are needed");
        };
        let token = match &self.token_file {
            Some(path) => String::from_utf8(read(path)?).context("the token is not text")?.trim_end().to_owned(),
            None => std::env::var("PULL_SECRET_TOKEN").unwrap_or_default(),
        };
        let What { since, bootstrap, installer_gather, masters_ips } = self.what;
        range(&since)?;
        Ok(Settings {
            client: ClientConfig {
                url,
                token: Secret::new(token),
                http: HttpConfig { ca_cert: self.cacert, insecure: self.insecure, proxies: None },
                agent_version: String::new(),
                answer_timeout: None,
            },
            cluster_id,
            infra_env_id: self.infra_env_id,
            wanted: Wanted { host_id, since, bootstrap, installer_gather, masters: masters_ips },
            keep: self.keep,
            places: Places::default(),
        })
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let source: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(path).with_context(|| format!("cannot read {}", path.display()))?),
    };
    source
        .take(MAX_DOCUMENT_BYTES + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {}", path.display()))?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > MAX_DOCUMENT_BYTES) {
        bail!("{} has more than {}", path.display(), kernel::units::binary(MAX_DOCUMENT_BYTES));
    }
    Ok(bytes)
}

/// Settings from what the agent writes.
fn settings(document: LogsDocument) -> Settings {
    let LogsDocument { request, service } = document;
    Settings {
        client: ClientConfig { agent_version: service.agent_version.clone(), ..service.client_config() },
        cluster_id: request.cluster_id,
        infra_env_id: Some(request.infra_env_id),
        wanted: Wanted {
            host_id: request.host_id,
            since: String::new(),
            bootstrap: request.bootstrap,
            installer_gather: request.installer_gather,
            masters: request.master_ips,
        },
        keep: false,
        places: Places::default(),
    }
}

impl Collect {
    fn run(self) -> anyhow::Result<()> {
        range(&self.since)?;
        let to_stdout = self.output.as_os_str() == "-";
        if to_stdout && io::stdout().is_terminal() {
            bail!("not writing an archive to a terminal: give --output FILE, or a pipe");
        }
        let mut places = Places::default();
        if let Some(journal) = self.journal {
            places.journals = vec![journal];
        }
        let wanted = Wanted {
            host_id: self.host_id,
            since: self.since,
            bootstrap: false,
            installer_gather: !self.brief,
            masters: Vec::new(),
        };
        guard::watch(Vec::new(), LIMIT).context("cannot watch signals")?;
        // Nothing but the archive is written: each item is read where it is.
        let mut collected = Collected::gather(&wanted, &places, false, false, &mut |_| ());
        collected.add_report();
        send::make_fit(&mut collected, places.max_archive_bytes).context("cannot make the archive")?;
        let out: Box<dyn Write> = match to_stdout {
            true => Box::new(io::stdout().lock()),
            false => {
                Box::new(File::create(&self.output).with_context(|| format!("cannot write {}", self.output.display()))?)
            }
        };
        let mut out = BufWriter::new(out);
        let packed = archive::write(&collected.directory, &collected.items, &mut out);
        packed.and_then(|_| out.flush()).with_context(|| format!("cannot write {}", self.output.display()))?;
        for item in &collected.items {
            tracing::info!(bytes = item.sent(), "{}", item.name);
        }
        Ok(())
    }
}
