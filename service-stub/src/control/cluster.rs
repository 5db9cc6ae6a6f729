//! `landfall cluster`.

use super::{
    Console, Output, Reach, Session,
    apply::infra_env_of,
    ask::confirm,
    culprit::{culprits, fitted, reason},
    display_name, download, fields, host_name,
    mirror_args::MirrorArgs,
    read_small, read_ssh_key,
    table::{Column, Table, short_ids},
};
use super::{cluster_show, wait};
use crate::rendezvous::{UsersManifest, manifests};
use crate::text::{at, number_at, plain};
use api::ClientError;
use api::endpoint::{
    CANCEL_INSTALLATION, DEREGISTER_CLUSTER, DOWNLOAD_CLUSTER_CREDENTIALS, DOWNLOAD_CLUSTER_FILES,
    DOWNLOAD_CLUSTER_LOGS, DOWNLOAD_MANIFEST, Endpoint, GET_CLUSTER, GET_CREDENTIALS, IMPORT_CLUSTER, INSTALL_CLUSTER,
    LIST_CLUSTERS, LIST_INFRA_ENVS, LIST_MANIFESTS, REGISTER_CLUSTER, RESET_CLUSTER, UPDATE_CLUSTER,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value, json};
use std::{io, path::PathBuf, process::ExitCode, time::Duration};

/// A larger file is not a secret or key.
const MAX_SECRET_BYTES: u64 = 1 << 20;

/// Groups of options in the help.
const NETWORK: &str = "Network";
const ENDPOINT: &str = "Configs of added hosts";

/// Clusters: list, show, create, install and the rest
///
/// CLUSTER is a name, an id, or the start of an id that matches only one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  export LANDFALL_URL=http://10.0.0.5:8090
  landfall cluster create rack --openshift-version 4.22 \\
    --base-domain example.com --pull-secret-file pull-secret.json
  landfall cluster list
  landfall cluster show rack                 # what failed, and the hosts
  landfall cluster set rack machine_networks='[{\"cidr\":\"10.0.0.0/24\"}]'
  landfall cluster install rack --wait
  landfall cluster kubeconfig rack --output kubeconfig
  landfall cluster list --json | jq -r '.[].status'
  landfall cluster import edge --api-name api.edge.example.com \\
    --openshift-cluster-id 5a1e… --ignition-endpoint-ca mcs-ca.pem
  landfall cluster export rack > rack.yaml   # for landfall apply -f rack.yaml

Exit codes: 0 success, 1 failure, 2 wrong usage; with --wait those of `landfall wait`.")]
pub struct Cluster {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List clusters
    List {
        #[command(flatten)]
        format: Output,
    },
    /// Show a cluster: what stands in its way, its state, its hosts
    Show {
        /// Name or id
        cluster: String,
        /// All validations, including those that pass
        #[arg(long, alias = "validations")]
        all: bool,
        #[command(flatten)]
        format: Output,
    },
    /// Create a cluster
    Create(Create),
    /// Make a cluster known that exists, to add hosts to it
    Import(Import),
    /// Change settings by their API names: FIELD=VALUE, where VALUE is JSON, text or @FILE
    Set {
        /// Name or id
        cluster: String,
        /// Settings
        #[arg(value_name = "FIELD=VALUE",
            required_unless_present_any = ["ignition_endpoint", "ignition_endpoint_ca", "registries_conf"])]
        settings: Vec<String>,
        #[command(flatten)]
        endpoint: IgnitionEndpoint,
        #[command(flatten)]
        mirrors: MirrorArgs,
    },
    /// Start the installation
    Install {
        /// Name or id
        cluster: String,
        /// Wait until it is installed or has failed
        #[arg(long)]
        wait: bool,
        /// Maximum time to wait: 90m, 2h, 45s
        #[arg(long, value_name = "TIME", default_value = "90m", value_parser = wait::duration, requires = "wait")]
        timeout: Duration,
        /// Do not ask, on a terminal
        #[arg(long, short)]
        yes: bool,
    },
    /// Cancel the installation; the hosts stay as they are
    Cancel {
        /// Name or id
        cluster: String,
    },
    /// Reset it to its state before the installation; its hosts must boot the discovery image again
    Reset {
        /// Name or id
        cluster: String,
    },
    /// Delete the cluster, its hosts and their logs
    Delete {
        /// Name or id
        cluster: String,
        /// Do not ask, on a terminal
        #[arg(long, short)]
        yes: bool,
    },
    /// Print user, password and console URL of the installed cluster
    Credentials {
        /// Name or id
        cluster: String,
    },
    /// Download the kubeconfig, to standard output or a file of mode 0600
    Kubeconfig {
        /// Name or id
        cluster: String,
        /// Output file
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// The kubeconfig without the ingress certificate
        #[arg(long)]
        no_ingress: bool,
    },
    /// Download an installation file: bootstrap.ign, master.ign, worker.ign, metadata.json, install-config.yaml, …
    File {
        /// Name or id
        cluster: String,
        /// File name
        name: String,
        /// Output file
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Print the cluster, its infra-env and hosts as the manifests that `landfall apply -f` reads, without secrets
    Export {
        /// Name or id
        cluster: String,
    },
    /// Download a log archive: of one host, of the controller, or of all. A file that exists is not replaced
    Logs {
        /// Name or id
        cluster: String,
        /// Logs of this host
        #[arg(long, conflicts_with = "controller")]
        host: Option<String>,
        /// Logs of the cluster's controller
        #[arg(long)]
        controller: bool,
        /// Output file, - for standard output. Default: a fitting name in the current directory
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

#[derive(Debug, clap::Args)]
#[command(override_usage = "landfall cluster create [OPTIONS] --openshift-version <VERSION>\n       \
    --pull-secret-file <FILE> <NAME>")]
struct Create {
    /// Name of the cluster, a DNS label
    name: String,
    /// Version to install
    #[arg(long, value_name = "VERSION")]
    openshift_version: String,
    /// Registry credentials, JSON; - for standard input
    #[arg(long, value_name = "FILE")]
    pull_secret_file: PathBuf,
    /// Base DNS domain
    #[arg(long, value_name = "DOMAIN")]
    base_domain: Option<String>,
    /// Control-plane hosts; 1 is a single node
    #[arg(long, value_name = "COUNT")]
    control_plane_count: Option<u32>,
    /// Public key of user core on the installed hosts
    #[arg(long, value_name = "FILE")]
    ssh_key_file: Option<PathBuf>,
    /// API address; give a second one for dual stack
    #[arg(help_heading = NETWORK, long = "api-vip", value_name = "ADDRESS")]
    api_vips: Vec<String>,
    /// Ingress address; give a second one for dual stack
    #[arg(help_heading = NETWORK, long = "ingress-vip", value_name = "ADDRESS")]
    ingress_vips: Vec<String>,
    /// Network of the hosts
    #[arg(help_heading = NETWORK, long = "machine-network", value_name = "CIDR")]
    machine_networks: Vec<String>,
    /// You provide load balancers and DNS
    #[arg(help_heading = NETWORK, long)]
    user_managed_networking: bool,
    /// Any other setting by its API name; VALUE is JSON, text or @FILE
    #[arg(long = "set", value_name = "FIELD=VALUE")]
    settings: Vec<String>,
    #[command(flatten)]
    mirrors: MirrorArgs,
}

#[derive(Debug, clap::Args)]
#[command(override_usage = "landfall cluster import [OPTIONS] --api-name <NAME>\n       \
    --openshift-cluster-id <UUID> <NAME>")]
struct Import {
    /// Name of the cluster, if that of its API has none
    name: String,
    /// Host name of its API, as api.edge.example.com
    #[arg(long, value_name = "NAME")]
    api_name: String,
    /// Its own id: `oc get clusterversion version -o jsonpath='{.spec.clusterID}'`
    #[arg(long, value_name = "UUID")]
    openshift_cluster_id: String,
    /// Its version
    #[arg(long, value_name = "VERSION")]
    openshift_version: Option<String>,
    #[command(flatten)]
    endpoint: IgnitionEndpoint,
}

/// Where added hosts get the configs of their roles.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = ENDPOINT)]
struct IgnitionEndpoint {
    /// URL of the configs, without the pool. Default: port 22623 of the API with
    /// a CA, else port 22624
    #[arg(long, value_name = "URL")]
    ignition_endpoint: Option<String>,
    /// PEM bundle of the authority that signed its certificate
    #[arg(long, value_name = "FILE")]
    ignition_endpoint_ca: Option<PathBuf>,
}

impl IgnitionEndpoint {
    /// The setting; none without options.
    fn setting(&self) -> anyhow::Result<Option<Value>> {
        let read = |path: &PathBuf| {
            let pem = read_small(path, MAX_SECRET_BYTES)?;
            let begins = "-----BEGIN CERTIFICATE-----";
            anyhow::ensure!(pem.contains(begins), "{} has no PEM certificate: no line is {begins}", path.display());
            Ok(BASE64_STANDARD.encode(pem))
        };
        let mut setting = Map::new();
        setting.extend(self.ignition_endpoint.as_deref().map(|url| ("url".to_owned(), url.into())));
        let ca = self.ignition_endpoint_ca.as_ref().map(read).transpose()?;
        setting.extend(ca.map(|ca| ("ca_certificate".to_owned(), ca.into())));
        Ok((!setting.is_empty()).then_some(Value::Object(setting)))
    }
}

impl Import {
    fn document(&self) -> Value {
        json!({
            "name": self.name,
            "api_vip_dnsname": self.api_name,
            "openshift_cluster_id": self.openshift_cluster_id,
            "openshift_version": self.openshift_version.as_deref().unwrap_or_default(),
        })
    }
}

impl Create {
    fn document(&self) -> anyhow::Result<Value> {
        let mut document = Map::new();
        document.insert("name".into(), self.name.as_str().into());
        document.insert("openshift_version".into(), self.openshift_version.as_str().into());
        document.insert("pull_secret".into(), read_small(&self.pull_secret_file, MAX_SECRET_BYTES)?.trim().into());
        let key = self.ssh_key_file.as_deref().map(read_ssh_key).transpose()?;
        let list = |values: &[String], name: &str| {
            (!values.is_empty()).then(|| values.iter().map(|value| json!({name: value})).collect::<Value>())
        };
        let given = [
            ("base_dns_domain", self.base_domain.as_deref().map(Value::from)),
            ("control_plane_count", self.control_plane_count.map(Value::from)),
            ("ssh_public_key", key.map(Value::from)),
            ("api_vips", list(&self.api_vips, "ip")),
            ("ingress_vips", list(&self.ingress_vips, "ip")),
            ("machine_networks", list(&self.machine_networks, "cidr")),
            ("user_managed_networking", self.user_managed_networking.then_some(Value::Bool(true))),
        ];
        document.extend(given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        self.mirrors.add(&mut document)?;
        fields::add(&mut document, &self.settings)?;
        Ok(Value::Object(document))
    }
}

impl Cluster {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        Console::standard(|console| self.run_on(console))
    }

    /// The same, printing to `console`.
    pub fn run_on(self, console: &mut Console) -> anyhow::Result<ExitCode> {
        let session = self.reach.session()?;
        let act = |cluster: &str, action: &'static Endpoint| {
            anyhow::Ok(session.client.send(&action.at(&[&session.cluster_id(cluster)?]), None)?)
        };
        match self.command {
            Command::List { format } => {
                let clusters = Value::Array(session.list(&LIST_CLUSTERS.at(&[]))?);
                console.document(&session, format, &clusters, |console| list(console, &clusters))?;
            }
            Command::Show { cluster, all, format } => {
                let document = session.client.document(&GET_CLUSTER.at(&[&session.cluster_id(&cluster)?]))?;
                console.document(&session, format, &document, |console| cluster_show::show(console, &document, all))?;
            }
            Command::Create(create) => {
                let all = session.list(&LIST_CLUSTERS.at(&[]))?;
                if let Some(other) = all.iter().find(|other| display_name(other) == create.name) {
                    anyhow::bail!(
                        "cluster '{}' exists ({}): give another name, or delete it with `landfall cluster delete`",
                        create.name,
                        at(other, "/id")
                    );
                }
                let document = session.client.send(&REGISTER_CLUSTER.at(&[]), Some(&create.document()?))?;
                done(&session, console, &document, "created")?;
            }
            Command::Import(import) => {
                let endpoint = import.endpoint.setting()?;
                let mut document = session.client.send(&IMPORT_CLUSTER.at(&[]), Some(&import.document()))?;
                if let Some(endpoint) = endpoint {
                    let target = UPDATE_CLUSTER.at(&[&at(&document, "/id")]);
                    document = session.client.send(&target, Some(&json!({"ignition_endpoint": endpoint})))?;
                }
                done(&session, console, &document, "imported")?;
            }
            Command::Set { cluster, settings, endpoint, mirrors } => {
                let mut changes = Map::new();
                changes.extend(endpoint.setting()?.map(|endpoint| ("ignition_endpoint".to_owned(), endpoint)));
                mirrors.add(&mut changes)?;
                fields::add(&mut changes, &settings)?;
                let target = UPDATE_CLUSTER.at(&[&session.cluster_id(&cluster)?]);
                let document = session.client.send(&target, Some(&Value::Object(changes)))?;
                done(&session, console, &document, "changed")?;
            }
            Command::Install { cluster, wait, timeout, yes } => {
                confirm(yes, || {
                    let document = session.client.document(&GET_CLUSTER.at(&[&session.cluster_id(&cluster)?]))?;
                    let hosts = document.get("hosts").and_then(Value::as_array).into_iter().flatten().map(host_name);
                    let hosts = plain(&hosts.collect::<Vec<_>>().join(", "));
                    Ok(format!("The installation disks of {hosts} are overwritten."))
                })?;
                let id = session.cluster_id(&cluster)?;
                let begun = session.client.send(&INSTALL_CLUSTER.at(&[&id]), None);
                let document = begun.map_err(|error| refusal(&session, &id, error))?;
                if wait {
                    return wait::follow(&session, console, &id, wait::Goal::Installed, None, timeout);
                }
                done(&session, console, &document, "is being installed")?;
            }
            Command::Cancel { cluster } => done(&session, console, &act(&cluster, &CANCEL_INSTALLATION)?, "cancelled")?,
            Command::Reset { cluster } => done(&session, console, &act(&cluster, &RESET_CLUSTER)?, "reset")?,
            Command::Delete { cluster, yes } => {
                let id = session.cluster_id(&cluster)?;
                confirm(yes, || Ok(format!("Cluster {} is deleted with its hosts and their logs.", plain(&cluster))))?;
                session.client.send(&DEREGISTER_CLUSTER.at(&[&id]), None)?;
                if !session.json {
                    console.say(format!("cluster {id} deleted"))?;
                }
            }
            Command::Credentials { cluster } => {
                let id = session.cluster_id(&cluster)?;
                let document = session.client.document(&GET_CREDENTIALS.at(&[&id]))?;
                match session.json {
                    true => console.json(&document)?,
                    false => console.list(&[
                        ("User", at(&document, "/username").to_owned()),
                        ("Password", at(&document, "/password").to_owned()),
                        ("Console", at(&document, "/console_url").to_owned()),
                    ])?,
                }
            }
            Command::Kubeconfig { cluster, output, no_ingress } => {
                let name = if no_ingress { "kubeconfig-noingress" } else { "kubeconfig" };
                let id = session.cluster_id(&cluster)?;
                let target = DOWNLOAD_CLUSTER_CREDENTIALS.at(&[&id]).with("file_name", name);
                download::file(&session, console, &target, output.as_deref())?;
            }
            Command::File { cluster, name, output } => {
                let target = DOWNLOAD_CLUSTER_FILES.at(&[&session.cluster_id(&cluster)?]).with("file_name", name);
                download::file(&session, console, &target, output.as_deref())?;
            }
            Command::Export { cluster } => {
                let id = session.cluster_id(&cluster)?;
                let document = session.client.document(&GET_CLUSTER.at(&[&id]))?;
                let all = session.list(&LIST_INFRA_ENVS.at(&[]))?;
                let infra_env = infra_env_of(&all, Some(&id), at(&document, "/name"))?;
                let mut files = Vec::new();
                for one in session.list(&LIST_MANIFESTS.at(&[&id]))? {
                    let [folder, file] = ["/folder", "/file_name"].map(|field| at(&one, field).to_owned());
                    let target = DOWNLOAD_MANIFEST.at(&[&id]).with("file_name", &file).with("folder", &folder);
                    files.push(UsersManifest { content: session.client.file(&target)?, folder, file });
                }
                console.out.write_all(manifests(&document, infra_env, &files)?.as_bytes())?;
            }
            Command::Logs { cluster, host, controller, output } => {
                let id = session.cluster_id(&cluster)?;
                let logs = |kind: &str| DOWNLOAD_CLUSTER_LOGS.at(&[&id]).with("logs_type", kind);
                let (target, name) = match host {
                    Some(host) => {
                        let host = session.host_of(&id, &host)?;
                        let host = at(&host, "/id");
                        (logs("host").with("host_id", host), format!("{host}.tar.gz"))
                    }
                    None if controller => (logs("controller"), format!("{id}_controller.tar.gz")),
                    None => (logs("all"), format!("{id}.tar")),
                };
                let output = output.unwrap_or_else(|| name.into());
                download::new_file(&session, console, &target, &output)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Why an installation was refused: what stands in its way, which a service that refuses names as JSON.
fn refusal(session: &Session, id: &str, error: ClientError) -> anyhow::Error {
    let refused = error.status() == Some(409);
    let now = if refused { session.client.document(&GET_CLUSTER.at(&[&id])).unwrap_or_default() } else { Value::Null };
    match culprits(&now) {
        lines if lines.is_empty() => error.into(),
        lines => {
            let line = format!("cluster {} is {} and cannot be installed:", display_name(&now), at(&now, "/status"));
            let lines = fitted(&lines, super::width(&io::stderr()));
            anyhow::Error::msg(format!("{}\n{}", plain(&line), lines.trim_end()))
        }
    }
}

fn done(session: &Session, console: &mut Console, document: &Value, what: &str) -> anyhow::Result<()> {
    if session.json {
        return console.json(document);
    }
    let (name, id, status) = (display_name(document), at(document, "/id"), at(document, "/status"));
    console.say(plain(&format!("cluster {name} ({id}) {what}; its status is {status}")))
}

fn list(console: &mut Console, clusters: &Value) -> anyhow::Result<()> {
    let clusters = clusters.as_array().map(Vec::as_slice).unwrap_or_default();
    let ids: Vec<&str> = clusters.iter().map(|cluster| at(cluster, "/id")).collect();
    let mut rows = Table::new(&[
        ("NAME", Column::Name),
        ("ID", Column::Detail(1)),
        ("STATUS", Column::State),
        ("PROGRESS", Column::Detail(2)),
        ("HOSTS", Column::Detail(3)),
        ("VERSION", Column::Detail(4)),
        ("REASON", Column::Reason),
    ]);
    for (cluster, id) in clusters.iter().zip(short_ids(&ids)) {
        rows.row([
            display_name(cluster),
            id,
            at(cluster, "/status").to_owned(),
            cluster_show::percent(cluster),
            number_at(cluster, "/total_host_count").to_string(),
            at(cluster, "/openshift_version").to_owned(),
            reason(cluster),
        ]);
    }
    console.table(&rows)
}
