//! The ISO: the program and the plan baked into a live ISO, and in its embed area what the live system needs of the cluster.

use anyhow::{Context, bail, ensure};
use api::{InfraEnvId, Secret, Timestamp};
use ignition::{
    Discovery,
    discovery::assisted::{Assisted, Ntp, StaticNetwork},
    network::{self, Flow, HostNetwork},
};
use rootfs_overlay::{
    Output,
    area::LiveIso,
    bake::{
        content::{Content, Ingredients, LIVE_PROGRAM, RENDEZVOUS_DIR, ROOT_PROGRAM, Service},
        iso::{IsoFile, processor},
        os_image::{LIVE_PATH, OsImage},
        program::{Program, RUNNING},
        splice,
    },
    kargs::Edit,
};
use serde_json::json;
use service_stub::{
    auth::{
        Claims,
        keys::{SigningKey, pem},
        token,
    },
    rendezvous::{ExistingCluster, Mirror, Rack, Rendezvous, parse, plan},
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The name under which the list of new nodes is in the ISO.
pub const NODES: &str = "nodes-config.yaml";
/// The same for the cluster's facts.
const CLUSTER: &str = "existing-cluster.json";
/// The key that signs the token of the ISO's agents.
const KEY: &str = "auth.key";
/// Each node is its own rendezvous.
const ADDRESS: &str = "127.0.0.1:8090";
/// After that the cluster's credentials and certificates may be others.
const VALID_S: i64 = 48 * 3600;
const REGISTRIES_CONF: &str = "/etc/containers/registries.conf";

/// Files that an ISO is made of.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Live ISO.
    pub iso: PathBuf,
    /// OS image to install, beside the live system; without one the node installs what the live system carries.
    pub image: Option<PathBuf>,
    /// The program to bake in, in place of the running one.
    pub binary: Option<PathBuf>,
}

/// What is put into the ISO.
pub struct Plan {
    pub rack: Rack,
    infra_env: InfraEnvId,
    cluster: ExistingCluster,
    nodes: String,
    key_pem: String,
    token: Secret,
}

impl Plan {
    /// Of the text of `nodes-config.yaml` and the cluster's facts.
    pub fn new(nodes: String, mut cluster: ExistingCluster, now: Timestamp) -> anyhow::Result<Self> {
        let expires = now.unix_seconds().saturating_add(VALID_S);
        cluster.expires_at = Some(Timestamp::from_unix_seconds(expires));
        let mut documents = parse(NODES, &nodes)?;
        documents.extend(parse(CLUSTER, &cluster.document().to_string())?);
        let rack = plan(&documents, None)?;
        rack.judge()?;
        let infra_env = Rendezvous::new(rack.clone(), None).infra_env;
        let (key, der) = SigningKey::generate().context("the system has no random numbers")?;
        let claims = Claims { infra_env_id: Some(infra_env), exp: Some(expires), ..Claims::default() };
        let token = token::sign(&key, &claims).context("the system has no random numbers")?;
        Ok(Self { rack, infra_env, cluster, nodes, key_pem: pem("PRIVATE KEY", &der), token: Secret::new(token) })
    }

    /// The processor of the new nodes.
    pub fn architecture(&self) -> &str {
        self.rack.infra_env.cpu_architecture.as_deref().unwrap_or_default()
    }

    /// The files of the plan, by their names in the ISO's directory of it.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        BTreeMap::from([
            (NODES.to_owned(), self.nodes.clone().into_bytes()),
            (CLUSTER.to_owned(), self.cluster.document().to_string().into_bytes()),
            (KEY.to_owned(), self.key_pem.clone().into_bytes()),
        ])
    }

    /// What is baked in.
    fn content(&self, program: Program, has_image: bool) -> anyhow::Result<Content> {
        let image = if has_image { format!("--image {LIVE_PATH} ") } else { String::new() };
        let options = format!("{image}--listen {ADDRESS} --auth local --auth-key {RENDEZVOUS_DIR}/{KEY}");
        Ok(Content::new(Ingredients {
            program,
            agent: true,
            service: Some(self.service()),
            ca_pem: None,
            agent_toml: None,
            rendezvous: self.files(),
            rendezvous_options: Some(options),
        })?)
    }

    fn service(&self) -> Service {
        Service { url: format!("http://{ADDRESS}"), infra_env_id: self.infra_env, token: Some(self.token.clone()) }
    }

    /// The live system's config: networks, keys, proxies, trusted certificates, time sources, mirrors.
    pub fn live_config(&self) -> anyhow::Result<Vec<u8>> {
        let (infra_env, Service { url, infra_env_id, token }) = (&self.rack.infra_env, self.service());
        let discovery = Discovery {
            service_url: url,
            infra_env_id,
            agent_version: concat!("landfall-", env!("CARGO_PKG_VERSION")).to_owned(),
            token,
            proxy: infra_env.proxy.clone().unwrap_or_default(),
            ssh_authorized_key: infra_env.ssh_authorized_key.clone().unwrap_or_default(),
            ignition_override: self.mirrors(),
            ..Discovery::default()
        };
        let sources = self.cluster.time_sources.clone();
        let site = Assisted {
            trust_bundle_pem: infra_env.additional_trust_bundle.clone(),
            ntp: (!sources.is_empty()).then_some(Ntp { sources, only: false }),
            static_network: self.networks()?,
            ..Assisted::default()
        };
        let mut config = ignition::discovery::build_for_site(&discovery, Some(&site))?;
        // The program is where a live system whose /usr is read-only has it.
        for unit in &mut config.systemd.units {
            unit.contents = unit.contents.as_ref().map(|text| text.replace(ROOT_PROGRAM, LIVE_PROGRAM).into());
        }
        Ok(config.to_json())
    }

    fn networks(&self) -> anyhow::Result<Option<StaticNetwork>> {
        let Some(networks) = &self.rack.infra_env.static_network_config else { return Ok(None) };
        let networks = networks.iter().map(|network| serde_json::from_value::<HostNetwork>(network.clone()));
        let networks = networks.collect::<Result<Vec<_>, _>>()?;
        let flow = Flow::of_version(&self.cluster.version);
        let files = network::files(&networks, flow).context("a networkConfig cannot be used")?;
        Ok(Some(StaticNetwork { flow, files, discovery_delay_s: 0 }))
    }

    /// The cluster's mirrors of registries as an override of the config; empty without.
    fn mirrors(&self) -> String {
        if self.cluster.mirrors.is_empty() {
            return String::new();
        }
        let text = Mirror::registries_conf(&self.cluster.mirrors);
        let contents = ignition::resource(text.as_bytes(), ignition::Encoding::Smallest);
        json!({
            "ignition": {"version": "3.1.0"},
            "storage": {"files": [{"path": REGISTRIES_CONF, "mode": 0o644, "overwrite": true, "contents": {
                "source": contents.source.as_deref(), "compression": contents.compression.as_deref(),
            }}]},
        })
        .to_string()
    }

    /// Writes the ISO; `output` must not exist.
    pub fn write(&self, sources: &Sources, output: &Path) -> anyhow::Result<()> {
        ensure!(output.symlink_metadata().is_err(), "{} exists: remove it, or give another --output", output.display());
        if let Some(machine) = processor(&sources.iso)?.filter(|machine| machine.name() != self.architecture()) {
            bail!("{} is for {machine}, but the new nodes are {}", sources.iso.display(), self.architecture());
        }
        let program = Program::read(Some(sources.binary.as_deref().unwrap_or(Path::new(RUNNING))))?;
        ensure!(
            program.has_service,
            "each new node needs a program with the service, which this one lacks: give the full landfall with --binary FILE"
        );
        let image = sources.image.as_deref().map(OsImage::open).transpose()?;
        let content = self.content(program, image.is_some())?;
        let base = IsoFile::open(&sources.iso)?;
        let parent = output.parent().filter(|path| *path != Path::new("")).unwrap_or(Path::new("."));
        // Removed with what is in it if anything fails.
        let scratch = tempfile::Builder::new().prefix(".node-iso-").tempdir_in(parent);
        let scratch = scratch.with_context(|| format!("cannot write to {}", parent.display()))?;
        let unfinished = scratch.path().join("node.iso");
        splice::write(&Output::NewFile(unfinished.clone()), &base.baked(&content, image.as_ref())?)?;
        self.embed(&unfinished)?;
        fs::rename(&unfinished, output).with_context(|| format!("cannot write {}", output.display()))
    }

    /// Puts the live system's config into the embed area, and changes the kernel arguments of a cluster with FIPS.
    fn embed(&self, iso: &Path) -> anyhow::Result<()> {
        let live = LiveIso::open_for(iso, &Output::InPlace)?;
        let mut patches = live.embed(&self.live_config()?, false)?;
        if self.cluster.fips {
            let kargs = live.kargs()?;
            let edit = Edit { append: vec!["fips=1".to_owned()], ..Edit::default() };
            patches.extend(kargs.patches(&edit.apply(kargs.current())?)?);
        }
        Ok(live.write(patches, &Output::InPlace)?)
    }
}
