//! The small plan, `rack.toml`: each field has a default but the number of machines.

use super::{
    PlanError,
    draft::{Draft, hints, put, put_host},
    hub::vips,
    machine::{mac, role},
    names::RACK_FILE,
    read::Fields,
};
use crate::planned::PlannedHost;

/// The domain of a small plan that names none.
const DOMAIN: &str = "example.com";
/// The version of a small plan that names none. Without a control plane it is only recorded.
const VERSION: &str = "4.20";
/// A pull secret for hosts that pull nothing.
const NO_PULL_SECRET: &str = r#"{"auths":{"registry.example.com":{"auth":"bm9uZTpub25l"}}}"#;

pub(crate) fn take(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let name = fields.text("name")?.unwrap_or_else(|| "rack".to_owned());
    put(&mut draft.cluster, "name", Some(name), &fields, "name")?;
    put(&mut draft.cluster, "base_dns_domain", fields.text("domain")?, &fields, "domain")?;
    put(&mut draft.other, "version", fields.text("version")?, &fields, "version")?;
    put(&mut draft.cluster, "pull_secret", fields.text("pull_secret")?, &fields, "pull_secret")?;
    draft.defaults =
        [("base_dns_domain", DOMAIN), ("openshift_version", VERSION), ("pull_secret", NO_PULL_SECRET)].into();
    put(&mut draft.cluster, "ssh_public_key", fields.text("ssh_key")?, &fields, "ssh_key")?;
    put(&mut draft.cluster, "cpu_architecture", fields.text("architecture")?, &fields, "architecture")?;
    let sources = fields.texts("time_servers")?;
    let sources = (!sources.is_empty()).then(|| sources.join(","));
    put(&mut draft.infra_env, "additional_ntp_sources", sources, &fields, "time_servers")?;
    let Some(hosts) = fields.number("hosts")? else {
        return Err(fields.error("hosts", "is missing: how many machines?"));
    };
    let masters = match (fields.number("control_plane")?, hosts) {
        (_, 0 | 2) => {
            return Err(fields.error("hosts", format!("{hosts} machines are not a cluster: give 1, or 3 and more")));
        }
        (Some(1), 2..) => {
            return Err(fields.error("control_plane", "a cluster of one control-plane host has no other hosts"));
        }
        (Some(count), _) if (1..=hosts).contains(&count) => count,
        (Some(count), _) => {
            return Err(fields.error("control_plane", format!("{count} of {hosts} machines: give 1 to {hosts}")));
        }
        (None, 1) => 1,
        (None, _) => 3,
    };
    put(&mut draft.other, "control_plane", Some(masters), &fields, "control_plane")?;
    put(&mut draft.other, "workers", Some(hosts - masters), &fields, "hosts")?;
    vips(&mut fields, draft, ["api_addresses", "api_address"], ["ingress_addresses", "ingress_address"])?;
    draft.is_small = true;
    for mut machine in fields.objects("machine")? {
        let Some(mac) = mac(&mut machine, "mac")? else {
            return Err(machine.error("mac", "is missing: a machine is known by it"));
        };
        let role_text = machine.text("role")?;
        let planned = PlannedHost {
            name: machine.text("name")?.unwrap_or_default(),
            role: role(&machine, "role", role_text)?,
            macs: [mac].into(),
            hints: hints(&mut machine, "disk")?,
            origins: [RACK_FILE].into(),
            place: machine.full_place("mac"),
            ..PlannedHost::default()
        };
        put_host(draft, planned)?;
    }
    Ok(())
}
