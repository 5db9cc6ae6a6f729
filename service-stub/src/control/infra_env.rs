//! `landfall infra-env`.

use super::{
    Console, Output, Reach, Session,
    ask::confirm,
    display_name, download, fields,
    mirror_args::MirrorArgs,
    read_small, read_ssh_key,
    table::{Column, Table, short_ids},
};
use crate::text::{at, plain};
use api::endpoint::{
    DEREGISTER_INFRA_ENV, GET_IMAGE_URL, GET_INFRA_ENV, LIST_CLUSTERS, LIST_INFRA_ENVS, REGISTER_INFRA_ENV,
    UPDATE_INFRA_ENV,
};
use serde_json::{Map, Value};
use std::{path::PathBuf, process::ExitCode};

/// A larger file is not a secret or key.
const MAX_SECRET_BYTES: u64 = 1 << 20;

/// Infra-envs, in which hosts are discovered: list, show, create, get the ISO
///
/// INFRA-ENV is a name, an id, or the start of an id that matches only one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  landfall infra-env create rack --cluster rack \\
    --pull-secret-file pull-secret.json --ssh-key-file ~/.ssh/id_ed25519.pub
  landfall infra-env iso rack --output rack.iso
  landfall infra-env iso rack --show-url   # for a BMC to mount
  landfall infra-env set rack proxy='{\"http_proxy\":\"http://10.0.0.1:3128\"}'

Exit codes: 0 success, 1 failure, 2 wrong usage.")]
pub struct InfraEnv {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List infra-envs
    List {
        #[command(flatten)]
        format: Output,
    },
    /// Show an infra-env
    Show {
        /// Name or id
        infra_env: String,
        #[command(flatten)]
        format: Output,
    },
    /// Create an infra-env
    Create(Create),
    /// Change settings by their API names: FIELD=VALUE, where VALUE is JSON, text or @FILE
    Set {
        /// Name or id
        infra_env: String,
        /// Settings
        #[arg(value_name = "FIELD=VALUE", required_unless_present = "registries_conf")]
        settings: Vec<String>,
        #[command(flatten)]
        mirrors: MirrorArgs,
    },
    /// Download the ISO, or print its URL
    Iso {
        /// Name or id
        infra_env: String,
        /// Output file, - for standard output. Default: NAME.iso in the current directory
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Only print its URL
        #[arg(long, conflicts_with = "output")]
        show_url: bool,
    },
    /// Delete an infra-env that has no hosts
    Delete {
        /// Name or id
        infra_env: String,
        /// Do not ask, on a terminal
        #[arg(long, short)]
        yes: bool,
    },
}

#[derive(Debug, clap::Args)]
struct Create {
    /// Name
    name: String,
    /// Registry credentials, JSON; - for standard input
    #[arg(long, value_name = "FILE")]
    pull_secret_file: PathBuf,
    /// Bind its hosts to this cluster
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,
    /// Public key of user core on the live hosts
    #[arg(long, value_name = "FILE")]
    ssh_key_file: Option<PathBuf>,
    /// full-iso or minimal-iso
    #[arg(long, value_name = "TYPE")]
    image_type: Option<String>,
    /// Any other setting by its API name; VALUE is JSON, text or @FILE
    #[arg(long = "set", value_name = "FIELD=VALUE")]
    settings: Vec<String>,
    #[command(flatten)]
    mirrors: MirrorArgs,
}

impl Create {
    fn document(&self, session: &Session) -> anyhow::Result<Value> {
        let mut document = Map::new();
        document.insert("name".into(), self.name.as_str().into());
        document.insert("pull_secret".into(), read_small(&self.pull_secret_file, MAX_SECRET_BYTES)?.trim().into());
        if let Some(cluster) = &self.cluster {
            document.insert("cluster_id".into(), session.cluster_id(cluster)?.into());
        }
        if let Some(path) = &self.ssh_key_file {
            document.insert("ssh_authorized_key".into(), read_ssh_key(path)?.into());
        }
        document.extend(self.image_type.as_deref().map(|kind| ("image_type".to_owned(), kind.into())));
        self.mirrors.add(&mut document)?;
        fields::add(&mut document, &self.settings)?;
        Ok(Value::Object(document))
    }
}

impl InfraEnv {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        Console::standard(|console| self.run_on(console))
    }

    /// The same, printing to `console`.
    pub fn run_on(self, console: &mut Console) -> anyhow::Result<ExitCode> {
        let session = self.reach.session()?;
        match self.command {
            Command::List { format } => {
                let infra_envs = Value::Array(session.list(&LIST_INFRA_ENVS.at(&[]))?);
                console.document(&session, format, &infra_envs, |console| list(&session, console, &infra_envs))?;
            }
            Command::Show { infra_env, format } => {
                let id = session.infra_env_id(&infra_env)?;
                let document = session.client.document(&GET_INFRA_ENV.at(&[&id]))?;
                console.document(&session, format, &document, |console| show(console, &document))?;
            }
            Command::Create(create) => {
                let body = create.document(&session)?;
                let document = session.client.send(&REGISTER_INFRA_ENV.at(&[]), Some(&body))?;
                done(&session, console, &document, "created")?;
            }
            Command::Set { infra_env, settings, mirrors } => {
                let mut changes = Map::new();
                mirrors.add(&mut changes)?;
                fields::add(&mut changes, &settings)?;
                let target = UPDATE_INFRA_ENV.at(&[&session.infra_env_id(&infra_env)?]);
                let document = session.client.send(&target, Some(&Value::Object(changes)))?;
                done(&session, console, &document, "changed")?;
            }
            Command::Iso { infra_env, output, show_url } => {
                let id = session.infra_env_id(&infra_env)?;
                let document = session.client.document(&GET_IMAGE_URL.at(&[&id]))?;
                let url = at(&document, "/url");
                anyhow::ensure!(!url.is_empty(), "the service has no ISO for infra-env {id}");
                match (session.json, show_url) {
                    (true, true) => console.json(&document)?,
                    (false, true) => console.say(url)?,
                    _ => {
                        let output = match output {
                            Some(output) => output,
                            None => iso_name(&session.client.document(&GET_INFRA_ENV.at(&[&id]))?),
                        };
                        download::url(&session, console, url, Some(&output))?;
                    }
                }
            }
            Command::Delete { infra_env, yes } => {
                let id = session.infra_env_id(&infra_env)?;
                confirm(yes, || Ok(format!("Infra-env {} is deleted.", plain(&infra_env))))?;
                session.client.send(&DEREGISTER_INFRA_ENV.at(&[&id]), None)?;
                if !session.json {
                    console.say(format!("infra-env {id} deleted"))?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Only harmless characters of the name go into the file name.
fn iso_name(infra_env: &Value) -> PathBuf {
    let name: String =
        display_name(infra_env).chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')).collect();
    let name = if name.is_empty() { at(infra_env, "/id").to_owned() } else { name };
    PathBuf::from(format!("{name}.iso"))
}

fn done(session: &Session, console: &mut Console, document: &Value, what: &str) -> anyhow::Result<()> {
    if session.json {
        return console.json(document);
    }
    console.say(plain(&format!("infra-env {} ({}) {what}", display_name(document), at(document, "/id"))))
}

fn show(console: &mut Console, document: &Value) -> anyhow::Result<()> {
    let text = |pointer| at(document, pointer).to_owned();
    console.list(&[
        ("Name", display_name(document)),
        ("Id", text("/id")),
        ("Cluster", text("/cluster_id")),
        ("Image", text("/type")),
        ("Architecture", text("/cpu_architecture")),
        ("Version", text("/openshift_version")),
        ("ISO", api::http::public_url(at(document, "/download_url"))),
        ("HTTP proxy", api::http::public_url(at(document, "/proxy/http_proxy"))),
        ("HTTPS proxy", api::http::public_url(at(document, "/proxy/https_proxy"))),
        ("Created", text("/created_at")),
    ])
}

fn list(session: &Session, console: &mut Console, infra_envs: &Value) -> anyhow::Result<()> {
    let infra_envs = infra_envs.as_array().map(Vec::as_slice).unwrap_or_default();
    let clusters = session.list(&LIST_CLUSTERS.at(&[]))?;
    let cluster = |id: &str| {
        clusters.iter().find(|cluster| at(cluster, "/id") == id).map(display_name).unwrap_or_else(|| id.to_owned())
    };
    let ids: Vec<&str> = infra_envs.iter().map(|infra_env| at(infra_env, "/id")).collect();
    let mut rows = Table::new(&[
        ("NAME", Column::Name),
        ("ID", Column::Detail(1)),
        ("CLUSTER", Column::Name),
        ("IMAGE", Column::Detail(2)),
        ("ARCHITECTURE", Column::Detail(3)),
        ("CREATED", Column::Detail(4)),
    ]);
    for (infra_env, id) in infra_envs.iter().zip(short_ids(&ids)) {
        let text = |pointer| at(infra_env, pointer).to_owned();
        rows.row([
            display_name(infra_env),
            id,
            cluster(at(infra_env, "/cluster_id")),
            text("/type"),
            text("/cpu_architecture"),
            text("/created_at"),
        ]);
    }
    console.table(&rows)
}
