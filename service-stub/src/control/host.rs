//! `landfall host`.

use super::{
    Console, MAX_TOKEN_BYTES, Output, Reach, Session,
    ask::confirm,
    cluster_show,
    culprit::{Urgency, of_host, reason, urgency},
    download, fields, host_name, host_show, host_target, inventory, read_small,
    table::{Column, Table, short_ids},
};
use crate::text::{self, at, plain};
use anyhow::Context;
use api::endpoint::{
    BIND_HOST, CLEAR_GOOD_BOOTS, DEREGISTER_HOST, DOWNLOAD_HOST_IGNITION, INSTALL_HOST, RECORD_GOOD_BOOT, UNBIND_HOST,
    UPDATE_HOST, UPDATE_HOST_IGNITION, UPDATE_INSTALLER_ARGS,
};
use kernel::order;
use serde_json::{Map, Value, json};
use std::{path::PathBuf, process::ExitCode};

/// A larger file is not an Ignition config.
const MAX_IGNITION_BYTES: u64 = 2 << 20;

/// Hosts: list, show, set, bind and the rest
///
/// HOST is a name, an id, or the start of an id that matches only one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  landfall host list --cluster rack
  landfall host show node-1         # what failed, hardware, unfit disks
  landfall host set 3f1c --hostname node-1 --role master --disk /dev/nvme0n1
  landfall host bind node-1 rack
  landfall host install node-4      # added to a cluster that exists
  landfall host installer-args node-1 -- --append-karg console=ttyS0
  landfall host ignition node-1 --set extra.ign
  landfall host ignition node-1 --installed > node-1.ign

Exit codes: 0 success, 1 failure, 2 wrong usage.")]
pub struct Host {
    #[command(flatten)]
    reach: Reach,
    /// Only hosts of this infra-env
    #[arg(long, global = true, value_name = "INFRA-ENV")]
    infra_env: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List hosts
    List {
        /// Only hosts of this cluster
        #[arg(long, value_name = "CLUSTER", conflicts_with = "unbound")]
        cluster: Option<String>,
        /// Only hosts without a cluster
        #[arg(long)]
        unbound: bool,
        #[command(flatten)]
        format: Output,
    },
    /// Show a host: what stands in its way, state, hardware
    Show {
        /// Name or id
        host: String,
        /// All validations, including those that pass
        #[arg(long, alias = "validations")]
        all: bool,
        /// Only the inventory, as JSON
        #[arg(long)]
        inventory: bool,
        #[command(flatten)]
        format: Output,
    },
    /// Change name, role, installation disk or other settings
    Set {
        /// Name or id
        host: String,
        /// New hostname
        #[arg(long, value_name = "NAME")]
        hostname: Option<String>,
        /// master, worker, arbiter or auto-assign
        #[arg(long)]
        role: Option<String>,
        /// Disk to install to: its path, or its id in the inventory
        #[arg(long, value_name = "PATH|ID")]
        disk: Option<String>,
        /// File with the token that an added host shows where it gets its config, - for standard input
        #[arg(long, value_name = "FILE")]
        ignition_endpoint_token_file: Option<PathBuf>,
        /// Other settings by their API names; VALUE is JSON, text or @FILE
        #[arg(value_name = "FIELD=VALUE", required_unless_present_any = ["hostname", "role", "disk", "ignition_endpoint_token_file"])]
        settings: Vec<String>,
    },
    /// Install a host that is added to a cluster which exists
    Install {
        /// Name or id
        host: String,
        /// Do not ask, on a terminal
        #[arg(long, short)]
        yes: bool,
    },
    /// Bind a host to a cluster
    Bind {
        /// Name or id
        host: String,
        /// Cluster: name or id
        cluster: String,
    },
    /// Unbind a host from its cluster
    Unbind {
        /// Name or id
        host: String,
    },
    /// Show or set the Ignition config merged into the installed host's config
    Ignition {
        /// Name or id
        host: String,
        /// Set it from this file, - for standard input; an empty file removes it
        #[arg(long, value_name = "FILE")]
        set: Option<PathBuf>,
        /// Print the full config of the installed host
        #[arg(long, conflicts_with = "set")]
        installed: bool,
    },
    /// Set the installer arguments, as for coreos-installer; give none to remove them
    InstallerArgs {
        /// Name or id
        host: String,
        /// Arguments, after --
        #[arg(last = true, value_name = "ARG")]
        args: Vec<String>,
    },
    /// Record what a host booted as good, for all hosts of its infra-env
    ///
    /// The host's TPM must have proven it: `landfall serve --attest`. Without an option, shows what is said of its boot.
    Attest {
        /// Name or id
        host: String,
        /// What it booted is good
        #[arg(long)]
        record: bool,
        /// Forget all good boots of its infra-env
        #[arg(long, conflicts_with = "record")]
        clear: bool,
    },
    /// Delete a host; it reappears when it registers again
    Delete {
        /// Name or id
        host: String,
        /// Do not ask, on a terminal
        #[arg(long, short)]
        yes: bool,
    },
}

impl Host {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        Console::standard(|console| self.run_on(console))
    }

    /// The same, printing to `console`.
    pub fn run_on(self, console: &mut Console) -> anyhow::Result<ExitCode> {
        let session = self.reach.session()?;
        let find = |wanted: &str| session.host(wanted, self.infra_env.as_deref());
        match self.command {
            Command::List { cluster, unbound, format } => {
                let cluster = cluster.map(|cluster| session.cluster_id(&cluster)).transpose()?;
                let hosts = session.hosts(self.infra_env.as_deref())?;
                // Unique among all, of which a command takes one.
                let ids = short_ids(&hosts.iter().map(|host| at(host, "/id")).collect::<Vec<_>>());
                let mut rows: Vec<(Value, String)> = hosts.into_iter().zip(ids).collect();
                rows.retain(|(host, _)| match at(host, "/cluster_id") {
                    "" => cluster.is_none(),
                    own => !unbound && cluster.as_deref().is_none_or(|wanted| wanted == own),
                });
                let document = rows.iter().map(|(host, _)| host.clone()).collect();
                console.document(&session, format, &document, |console| list(console, rows))?;
            }
            Command::Show { host, all, inventory, format } => {
                let host = find(&host)?;
                if inventory {
                    let text = at(&host, "/inventory");
                    anyhow::ensure!(!text.is_empty(), "the host has not sent an inventory yet");
                    let document = serde_json::from_str(text).context("cannot parse the inventory")?;
                    console.document(&session, format, &document, |console| console.json(&document))?;
                } else {
                    console.document(&session, format, &host, |console| host_show::show(console, &host, all))?;
                }
            }
            Command::Set { host, hostname, role, disk, ignition_endpoint_token_file: token, settings } => {
                let host = find(&host)?;
                let mut changes = Map::new();
                changes.extend(hostname.map(|name| ("host_name".to_owned(), name.into())));
                changes.extend(role.map(|role| ("host_role".to_owned(), role.into())));
                if let Some(disk) = disk {
                    changes.insert(
                        "disks_selected_config".into(),
                        json!([{"id": disk_id(&host, &disk), "role": "install"}]),
                    );
                }
                if let Some(path) = token {
                    let token = read_small(&path, MAX_TOKEN_BYTES)?;
                    changes.insert("ignition_endpoint_token".into(), token.trim().into());
                }
                fields::add(&mut changes, &settings)?;
                let changed = session.client.send(&host_target(&host, &UPDATE_HOST), Some(&Value::Object(changes)))?;
                done(&session, console, &changed, "changed")?;
            }
            Command::Install { host, yes } => {
                let host = find(&host)?;
                confirm(yes, || {
                    Ok(plain(&format!("The installation disk of host {} is overwritten.", host_name(&host))))
                })?;
                let begun = session.client.send(&host_target(&host, &INSTALL_HOST), None)?;
                done(&session, console, &begun, "is being installed")?;
            }
            Command::Bind { host, cluster } => {
                let host = find(&host)?;
                let body = json!({"cluster_id": session.cluster_id(&cluster)?});
                let bound = session.client.send(&host_target(&host, &BIND_HOST), Some(&body))?;
                done(&session, console, &bound, "bound")?;
            }
            Command::Unbind { host } => {
                let host = find(&host)?;
                let unbound = session.client.send(&host_target(&host, &UNBIND_HOST), None)?;
                done(&session, console, &unbound, "unbound")?;
            }
            Command::Ignition { host, set, installed } => {
                let host = find(&host)?;
                if let Some(file) = set {
                    let config = read_small(&file, MAX_IGNITION_BYTES)?;
                    let body = json!({"config": config.trim()});
                    let changed = session.client.send(&host_target(&host, &UPDATE_HOST_IGNITION), Some(&body))?;
                    done(&session, console, &changed, "changed")?;
                } else if installed {
                    download::file(&session, console, &host_target(&host, &DOWNLOAD_HOST_IGNITION), None)?;
                } else {
                    let config = at(&host, "/ignition_config_overrides");
                    console.say(if config.is_empty() { "{}" } else { config })?;
                }
            }
            Command::InstallerArgs { host, args } => {
                let host = find(&host)?;
                let body = json!({"args": args});
                let changed = session.client.send(&host_target(&host, &UPDATE_INSTALLER_ARGS), Some(&body))?;
                done(&session, console, &changed, "changed")?;
            }
            Command::Attest { host, record, clear } => {
                let host = find(&host)?;
                if clear {
                    session.client.send(&host_target(&host, &CLEAR_GOOD_BOOTS), None)?;
                    console.say("no boot is recorded as good any more")?;
                } else if record {
                    let recorded = session.client.send(&host_target(&host, &RECORD_GOOD_BOOT), None)?;
                    if session.json {
                        console.json(&recorded)?;
                    } else {
                        let known = if recorded["is_new"] == false { ", as it was before" } else { "" };
                        let count = &recorded["good_boots"];
                        let name = host_name(&host);
                        console.say(plain(&format!(
                            "the boot of host {name} is good{known}; its infra-env has {count} good boots"
                        )))?;
                    }
                } else {
                    let message = text::boot(at(&host, "/validations_info"));
                    let message =
                        message.as_deref().unwrap_or("hosts are not asked: `landfall serve` runs without --attest");
                    console.say(plain(message))?;
                }
            }
            Command::Delete { host, yes } => {
                let host = find(&host)?;
                confirm(yes, || Ok(plain(&format!("Host {} is deleted with its logs.", host_name(&host)))))?;
                session.client.send(&host_target(&host, &DEREGISTER_HOST), None)?;
                if !session.json {
                    console.say(plain(&format!("host {} ({}) deleted", host_name(&host), at(&host, "/id"))))?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The inventory's id of a disk named by its path; an unknown disk is left for the service to refuse.
fn disk_id(host: &Value, wanted: &str) -> String {
    let disks = inventory(host).map(|inventory| inventory.disks).unwrap_or_default();
    let named = disks.into_iter().find(|disk| disk.path == wanted || disk.name == wanted);
    named.map(|disk| disk.id).filter(|id| !id.is_empty()).unwrap_or_else(|| wanted.to_owned())
}

fn done(session: &Session, console: &mut Console, host: &Value, what: &str) -> anyhow::Result<()> {
    if session.json {
        return console.json(host);
    }
    let (name, id, status) = (host_name(host), at(host, "/id"), at(host, "/status"));
    let line = if id.is_empty() {
        format!("host {what}")
    } else {
        format!("host {name} ({id}) {what}; its status is {status}")
    };
    console.say(plain(&line))
}

/// Those that failed come first, and after the table where to read more about them.
fn list(console: &mut Console, mut hosts: Vec<(Value, String)>) -> anyhow::Result<()> {
    order::sort_by_key(&mut hosts, |(host, _)| urgency(host));
    let mut rows = Table::new(&[
        ("NAME", Column::Name),
        ("ID", Column::Detail(1)),
        ("ROLE", Column::Detail(3)),
        ("STATUS", Column::State),
        ("DONE", Column::Detail(2)),
        ("HARDWARE", Column::Detail(4)),
        ("REASON", Column::Reason),
    ]);
    for (host, id) in &hosts {
        rows.row([
            host_name(host),
            id.clone(),
            cluster_show::role(host),
            at(host, "/status").to_owned(),
            cluster_show::host_percent(host),
            inventory(host).map(|inventory| text::hardware(&inventory)).unwrap_or_default(),
            reason(host),
        ]);
    }
    console.table(&rows)?;
    let failed = hosts.iter().filter(|(host, _)| urgency(host) == Urgency::Failed);
    let lines: Vec<String> = failed.flat_map(|(host, _)| of_host(host)).collect();
    if !lines.is_empty() {
        console.say("")?;
    }
    lines.iter().try_for_each(|line| console.say(line))
}
