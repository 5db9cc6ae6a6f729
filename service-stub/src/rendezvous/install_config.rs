//! `install-config.yaml` of openshift-install.

use super::{
    PlanError,
    draft::{Draft, Pool, put, put_overrides},
    existing::Mirror,
    hub::{hyperthreading, networks, proxy, put_external, put_platform, vips},
    listed,
    metadata::Metadata,
    read::Fields,
};
use api::MirrorRegistry;
use serde_json::{Map, Value, json};

/// Fields that a cluster has no setting for, and that are written into its own configuration as they are.
const OVERRIDES: [&str; 7] = [
    "additionalTrustBundlePolicy",
    "capabilities",
    "cpuPartitioningMode",
    "featureGates",
    "featureSet",
    "fips",
    "osImageStream",
];
/// Values that say what is so anyway.
const SAID_ANYWAY: [(&str, &[&str]); 2] =
    [("credentialsMode", &["", "Manual", "Passthrough", "Mint"]), ("publish", &["External"])];

pub(crate) fn take(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let mut metadata = Metadata::take(&mut fields)?;
    let name = Some(std::mem::take(&mut metadata.key.name)).filter(|name| !name.is_empty());
    put(&mut draft.cluster, "name", name, &fields, "metadata.name")?;
    put(&mut draft.cluster, "base_dns_domain", fields.text("baseDomain")?, &fields, "baseDomain")?;
    put(&mut draft.cluster, "pull_secret", fields.text("pullSecret")?, &fields, "pullSecret")?;
    put(&mut draft.cluster, "ssh_public_key", fields.text("sshKey")?, &fields, "sshKey")?;
    let bundle = fields.text("additionalTrustBundle")?;
    put(&mut draft.infra_env, "additional_trust_bundle", bundle, &fields, "additionalTrustBundle")?;
    mirrors(&mut fields, draft)?;
    proxy(&mut fields, draft)?;
    let masters = fields.object("controlPlane")?;
    // The default of openshift-install.
    let masters_count = pool(masters, Pool::Masters, draft)?.unwrap_or(3);
    put(&mut draft.other, "control_plane", Some(masters_count), &fields, "controlPlane")?;
    let arbiters = pool(fields.object("arbiter")?, Pool::Arbiters, draft)?.filter(|count| *count > 0);
    put(&mut draft.other, "arbiters", arbiters, &fields, "arbiter")?;
    let mut workers: Option<u64> = None;
    for compute in fields.objects("compute")? {
        let count = pool(compute, Pool::Workers, draft)?.unwrap_or(3);
        workers = Some(workers.unwrap_or(0).saturating_add(count));
    }
    put(&mut draft.other, "workers", Some(workers.unwrap_or(3)), &fields, "compute")?;
    networks(fields.object("networking")?, draft)?;
    platform(fields.object("platform")?, draft)?;
    let mut overrides = Map::new();
    for name in OVERRIDES {
        if let Some(value) = fields.value(name).filter(|value| *value != Value::Bool(false)) {
            overrides.insert(name.to_owned(), value);
        }
    }
    if !overrides.is_empty() {
        put_overrides(draft, Value::Object(overrides), &fields, "fips")?;
    }
    for (name, values) in SAID_ANYWAY {
        if let Some(text) = fields.text(name)?.filter(|text| !values.contains(&text.as_str())) {
            return Err(fields.error(name, format!("'{}' is not supported here", text.escape_default())));
        }
    }
    fields.refuse(listed::of(listed::REFUSED, "InstallConfig"))
}

/// The number of machines in a pool.
fn pool(mut fields: Fields, pool: Pool, draft: &mut Draft) -> Result<Option<u64>, PlanError> {
    if let Some(name) = fields.text("name")?.filter(|name| name != pool.name()) {
        return Err(fields.error("name", format!("'{}' is not {}", name.escape_default(), pool.name())));
    }
    let architecture =
        fields.text("architecture")?.map(|name| if name == "amd64" { "x86_64".to_owned() } else { name });
    put(&mut draft.cluster, "cpu_architecture", architecture, &fields, "architecture")?;
    hyperthreading(&mut fields, pool, draft)?;
    fields.refuse(listed::of(listed::REFUSED, "InstallConfig.pool"))?;
    fields.number("replicas")
}

fn platform(mut platforms: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    if platforms.has("none") {
        drop(platforms.object("none")?);
        put_platform(draft, Some("none".to_owned()), &platforms, "none")?;
    }
    if platforms.has("baremetal") {
        let mut platform = platforms.object("baremetal")?;
        vips(&mut platform, draft, ["apiVIPs", "apiVIP"], ["ingressVIPs", "ingressVIP"])?;
        let mut balancer = platform.object("loadBalancer")?;
        let kind = balancer.text("type")?.map(|kind| match kind.as_str() {
            "OpenShiftManagedDefault" => "cluster-managed".to_owned(),
            "UserManaged" => "user-managed".to_owned(),
            _ => kind,
        });
        put(&mut draft.cluster, "load_balancer", kind.map(|kind| json!({"type": kind})), &balancer, "type")?;
        drop(balancer);
        let sources = platform.texts("additionalNTPServers")?;
        let sources = (!sources.is_empty()).then(|| sources.join(","));
        put(&mut draft.cluster, "additional_ntp_source", sources, &platform, "additionalNTPServers")?;
        if let Some(kind) = platform.text("provisioningNetwork")?.filter(|kind| kind != "Disabled") {
            let reason = format!("'{}' is not Disabled: machines boot an ISO", kind.escape_default());
            return Err(platform.error("provisioningNetwork", reason));
        }
        platform.idle(listed::of(listed::IDLE, "InstallConfig.platform.baremetal"));
        platform.refuse(listed::of(listed::REFUSED, "InstallConfig.platform.baremetal"))?;
        put_platform(draft, Some("baremetal".to_owned()), &platform, "baremetal")?;
    }
    if platforms.has("external") {
        let mut external = platforms.object("external")?;
        let [name, manager] = [external.text("platformName")?, external.text("cloudControllerManager")?];
        put_external(draft, name, manager, &external, "platformName")?;
    }
    platforms.refuse(listed::of(listed::REFUSED, "InstallConfig.platform"))
}

/// The mirrors of registries, for the cluster and for the live systems of its hosts.
fn mirrors(fields: &mut Fields, draft: &mut Draft) -> Result<(), PlanError> {
    // Before 4.14 it had another name.
    for name in ["imageDigestSources", "imageContentSources"] {
        let mirrors: Vec<_> =
            Mirror::read(fields, name)?.into_iter().filter(|mirror| !mirror.mirrors.is_empty()).collect();
        if mirrors.is_empty() {
            continue;
        }
        let registries_conf = Mirror::registries_conf(&mirrors);
        let mirrors = json!(MirrorRegistry { registries_conf, ca_bundle: String::new() });
        for record in [&mut draft.cluster, &mut draft.infra_env] {
            put(record, "mirror_registry_configuration", Some(mirrors.clone()), fields, name)?;
        }
    }
    Ok(())
}
