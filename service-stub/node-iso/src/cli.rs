//! `landfall node-iso`.

use crate::{
    facts,
    image::{Plan, Sources},
};
use anyhow::{Context, bail, ensure};
use api::Timestamp;
use kernel::units::binary;
use service_stub::rendezvous::ExistingCluster;
use std::{
    fs::File,
    io::{Read, Write},
    path::{Path, PathBuf},
};

/// A larger file is not a list of nodes, and the facts of a cluster have less.
const MAX_BYTES: u64 = 4 << 20;

/// Make an ISO that adds workers to a cluster which exists
///
/// Reads the cluster with an administrator's kubeconfig, and puts what its nodes must know beside the program into a live ISO. A machine
/// of nodes-config.yaml that boots it checks itself, installs itself and joins the cluster; it needs no service. Approve the certificate
/// requests of the new node in the cluster.
///
/// The ISO has the cluster's pull secret in it, and is of no use after 48 hours.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  landfall node-iso --kubeconfig admin.kubeconfig --iso live.iso
  landfall node-iso nodes-config.yaml --iso live.iso -o worker.iso

  Without a way to the cluster, in two steps:
    landfall node-iso --only-cluster-info > cluster.json
    landfall node-iso --cluster-info cluster.json --iso live.iso

nodes-config.yaml has hosts as an AgentConfig has them (hostname, interfaces, networkConfig, rootDeviceHints), and may have \
cpuArchitecture and sshKey. `landfall pxe` makes files to boot from the network of the ISO.")]
pub struct NodeIso {
    /// The new nodes
    #[arg(value_name = "FILE", default_value = "nodes-config.yaml")]
    nodes: PathBuf,
    /// Live ISO of the cluster's release
    #[arg(long, value_name = "FILE", required_unless_present = "only_cluster_info")]
    iso: Option<PathBuf>,
    /// OS image to install, put beside the live system [default: what the live
    /// system carries]
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Static landfall with the service, for the new nodes' processor [default:
    /// this program]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// ISO to write [default: node.ARCH.iso]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// An administrator's kubeconfig of the cluster
    #[arg(help_heading = CLUSTER, long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Take what --only-cluster-info printed, and ask no cluster
    #[arg(help_heading = CLUSTER, long, value_name = "FILE")]
    cluster_info: Option<PathBuf>,
    /// Print what is read of the cluster, as JSON, and make no ISO. The pull
    /// secret is in it
    #[arg(help_heading = CLUSTER, long)]
    only_cluster_info: bool,
}

const CLUSTER: &str = "Cluster";

impl NodeIso {
    /// Makes the ISO.
    ///
    /// # Errors
    /// What can't be read, what in it can't be used, or why the ISO can't be written.
    pub fn run(self) -> anyhow::Result<()> {
        let cluster = match (&self.cluster_info, &self.kubeconfig) {
            (Some(path), _) => ExistingCluster::parse("cluster-info.json", &read(path)?)
                .with_context(|| format!("cannot use {}", path.display()))?,
            (None, Some(path)) => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                let facts = runtime.block_on(facts::read(path));
                // A lookup that nothing answers must not keep this process.
                runtime.shutdown_background();
                facts?
            }
            (None, None) => bail!("give the cluster's --kubeconfig, or --cluster-info"),
        };
        let mut stdout = std::io::stdout();
        if self.only_cluster_info {
            writeln!(stdout, "{:#}", cluster.document())?;
            return Ok(());
        }
        let live_iso = cluster.live_iso.clone();
        let plan = Plan::new(read(&self.nodes)?, cluster, Timestamp::now())?;
        plan.rack.warnings.iter().try_for_each(|warning| writeln!(std::io::stderr(), "{warning}"))?;
        let iso = self.iso.context("give the live ISO with --iso")?;
        if !live_iso.is_empty() {
            ensure!(iso.exists(), "{} is missing: the cluster's release has {live_iso}", iso.display());
        }
        let output = self.output.unwrap_or_else(|| format!("node.{}.iso", plan.architecture()).into());
        plan.write(&Sources { iso, image: self.image, binary: self.binary }, &output)?;
        let bytes = output.metadata().map(|meta| meta.len()).unwrap_or_default();
        let expires = plan.rack.existing.as_ref().and_then(|existing| existing.expires_at).unwrap_or_default();
        let (count, path) = (plan.rack.total, output.display());
        writeln!(stdout, "{path}: {}, adds {count} workers until {expires}", binary(bytes))?;
        Ok(())
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    let failed = || format!("cannot read {}", path.display());
    let mut text = String::new();
    File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text)).with_context(failed)?;
    ensure!(u64::try_from(text.len())? <= MAX_BYTES, "{} is larger than {}", path.display(), binary(MAX_BYTES));
    Ok(text)
}
