//! `landfall ignition build host`, `pointer`, `dest` and `live`.

use super::{Output, text_of};
use crate::cli::read;
use crate::customize::{self, Customize, Input, InstallerOptions};
use crate::host::{self, HostConfig};
use anyhow::Context;
use api::Secret;
use clap::Args;
use std::net::IpAddr;
use std::path::PathBuf;

/// The config of an installed host: its role's, with this host's own settings.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    landfall ignition build host --hostname node-1 --role-config worker.ign \\\n    \
    --override node-1.json > node-1.ign\n  \
    landfall ignition build host --hostname sno --role-config bootstrap.ign \\\n    \
    --nodeip-hint 192.168.131.0")]
pub(super) struct Host {
    /// Its name, for /etc/hostname
    #[arg(long, value_name = "NAME", default_value = "")]
    hostname: String,
    /// The config of its role, into which everything else is merged
    #[arg(long, value_name = "FILE")]
    role_config: Option<PathBuf>,
    /// Public keys of user core, one per line
    #[arg(long, value_name = "FILE")]
    ssh_keys: Option<PathBuf>,
    /// Address of the network in which the kubelet uses the host's address
    #[arg(long, value_name = "ADDRESS")]
    nodeip_hint: Option<IpAddr>,
    /// Fetch this pool's config instead of the worker's
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Remove the system on the disk that the host was installed from
    #[arg(long)]
    persistent_boot: bool,
    /// The host's override: an Ignition config
    #[arg(long = "override", value_name = "FILE")]
    ignition_override: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl Host {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let host = HostConfig {
            hostname: self.hostname,
            role_config: self.role_config.map(|file| read(&file)).transpose()?,
            ssh_authorized_key: text_of(self.ssh_keys.as_ref())?.unwrap_or_default(),
            nodeip_hint: self.nodeip_hint,
            pool: self.pool,
            persistent_boot: self.persistent_boot,
            ignition_override: text_of(self.ignition_override.as_ref())?.unwrap_or_default(),
            ..HostConfig::default()
        };
        self.output.print_document(&host::build(&host)?)
    }
}

/// A config that makes a host fetch the rest of its config, for workers of a running cluster.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    landfall ignition build pointer \\\n    \
    https://api-int.example.com:22623/config/worker --ca mcs.pem \\\n    \
    --hostname node-7")]
pub(super) struct Pointer {
    /// URL of the rest
    source: String,
    /// CA certificates for the server, PEM
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Token, sent as "Authorization: Bearer ..."
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// The host's name, for /etc/hostname
    #[arg(long, value_name = "NAME", default_value = "")]
    hostname: String,
    /// The host's override: an Ignition config
    #[arg(long = "override", value_name = "FILE")]
    ignition_override: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl Pointer {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let token = text_of(self.token.as_ref())?;
        let bearer = |token: String| ("Authorization".to_owned(), Secret::new(format!("Bearer {}", token.trim())));
        let host = HostConfig {
            hostname: self.hostname,
            pointer: Some(host::Pointer { source: self.source, headers: token.map(bearer).into_iter().collect() }),
            ca_pem: text_of(self.ca.as_ref())?,
            ignition_override: text_of(self.ignition_override.as_ref())?.unwrap_or_default(),
            ..HostConfig::default()
        };
        self.output.print_document(&host::build(&host)?)
    }
}

/// The config of a system that a customised live ISO installs: a single config unchanged, several as one that merges them.
#[derive(Debug, Args)]
pub(super) struct Dest {
    #[command(flatten)]
    configs: DestConfigs,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct DestConfigs {
    /// Config of the installed system; repeatable, later ones are merged over earlier ones
    #[arg(long, value_name = "FILE")]
    dest_ignition: Vec<PathBuf>,
    /// Certificate that Ignition trusts for what it fetches, PEM; repeatable
    #[arg(long, value_name = "FILE")]
    ignition_ca: Vec<PathBuf>,
}

impl DestConfigs {
    fn read(&self) -> anyhow::Result<Customize> {
        Ok(Customize {
            dest_configs: inputs(&self.dest_ignition)?,
            certificate_authorities: inputs(&self.ignition_ca)?,
            ..Customize::default()
        })
    }
}

impl Dest {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let config = customize::dest_config(&self.configs.read()?)?;
        self.output.print(&config.context("no config given: use --dest-ignition")?)
    }
}

/// Groups of options in the help.
const INSTALLED: &str = "Installed system";
const INSTALLATION: &str = "Installation";

/// The config of a live ISO of CoreOS that installs a machine unattended.
///
/// It contains the installed system's config, the installer's configs, and programs to run before and after the installation.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    landfall ignition build live --dest-device /dev/sda \\\n    \
    --dest-ignition node.ign --post-install tell.sh --budget > live.ign")]
pub(super) struct Live {
    #[command(flatten)]
    dest: DestConfigs,
    /// Config of the live system; repeatable
    #[arg(long, value_name = "FILE")]
    live_ignition: Vec<PathBuf>,
    /// Device to install to
    #[arg(help_heading = INSTALLED, long, value_name = "PATH")]
    dest_device: Option<String>,
    /// Console of the installed system; repeatable
    #[arg(help_heading = INSTALLED, long, value_name = "SPEC")]
    dest_console: Vec<String>,
    /// Kernel argument to add on the installed system; repeatable
    #[arg(help_heading = INSTALLED, long, value_name = "ARG", allow_hyphen_values = true)]
    dest_karg_append: Vec<String>,
    /// Kernel argument to remove on the installed system; repeatable
    #[arg(help_heading = INSTALLED, long, value_name = "ARG", allow_hyphen_values = true)]
    dest_karg_delete: Vec<String>,
    /// Copy the live system's network settings
    #[arg(help_heading = INSTALLED, long)]
    copy_network: bool,
    /// Program to run before the installation; repeatable
    #[arg(help_heading = INSTALLATION, long, value_name = "FILE")]
    pre_install: Vec<PathBuf>,
    /// Program to run after it; repeatable
    #[arg(help_heading = INSTALLATION, long, value_name = "FILE")]
    post_install: Vec<PathBuf>,
    /// Config of the installer; repeatable
    #[arg(help_heading = INSTALLATION, long, value_name = "FILE")]
    installer_config: Vec<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl Live {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let installer = InstallerOptions {
            append_karg: self.dest_karg_append,
            console: self.dest_console,
            copy_network: self.copy_network,
            delete_karg: self.dest_karg_delete,
            dest_device: self.dest_device,
            ignition_file: None,
        };
        let customize = Customize {
            live_configs: inputs(&self.live_ignition)?,
            pre_install: inputs(&self.pre_install)?,
            post_install: inputs(&self.post_install)?,
            installer_configs: inputs(&self.installer_config)?,
            installer,
            ..self.dest.read()?
        };
        let config = customize::live_config(&customize)?;
        self.output.print(&config.context("no options for the live system: it needs no config")?)
    }
}

fn inputs(files: &[PathBuf]) -> anyhow::Result<Vec<Input>> {
    let input = |file: &PathBuf| {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Input { name, content: read(file)? })
    };
    files.iter().map(input).collect()
}
