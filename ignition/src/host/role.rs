//! What becomes of a role's config on one host (docs/compatibility.md#host-config).

use crate::check::version_text;
use crate::model::{Document, Version};
use crate::translate::upgrade;
use crate::{BuildError, ParseError, parse, parts};

/// Removes what the host was installed from: the system that ran from its own disk.
const CLEANUP_PATH: &str = "/usr/local/bin/cleanup-assisted-discovery-stateroot.sh";
const CLEANUP_SCRIPT: &str = include_str!("stateroot-cleanup.sh");
const CLEANUP_NAME: &str = "cleanup-assisted-discovery-stateroot.service";
/// Mounts made writable stay so for the script alone.
const CLEANUP_UNIT: &str = "\
[Unit]
Description=Remove the system that this host was installed from
ConditionFirstBoot=yes
ConditionPathExists=/sysroot/ostree/deploy/rhcos
Wants=first-boot-complete.target
Before=first-boot-complete.target

[Service]
Type=oneshot
RemainAfterExit=yes
PrivateMounts=yes
ExecStart=/usr/local/bin/cleanup-assisted-discovery-stateroot.sh

[Install]
WantedBy=basic.target
";
/// The oldest version that the host's part can be said in.
const OLDEST: Version = Version::V3_1;

/// The role's config with the host's part merged over it, in the role's version: the node's Ignition may know no newer one.
pub(super) fn merged<'a>(role: &'a [u8], mut part: Document<'a>) -> Result<Document<'a>, BuildError> {
    let (mut config, from, report) = parse(role).map_err(|error| match error {
        ParseError::Invalid(report) => BuildError::Role(report),
        ParseError::Empty | ParseError::Version(_) => {
            let found = version_text(role).unwrap_or_else(|| "missing".to_owned());
            BuildError::RoleVersion { found: found.chars().take(32).collect() }
        }
    })?;
    if report.is_fatal() {
        return Err(BuildError::Role(report));
    }
    let to = from.max(OLDEST);
    upgrade(&mut config, from, to);
    upgrade(&mut part, Version::V3_2, to);
    Ok(config.merge(part))
}

/// Has the host fetch its pool's config where it would fetch the workers'.
pub(super) fn point_to_pool(config: &mut Document<'_>, pool: &str) -> Result<(), BuildError> {
    let missing = || BuildError::Pool { pool: pool.chars().take(80).flat_map(char::escape_default).collect() };
    if pool.is_empty() || !pool.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte)) {
        return Err(missing());
    }
    let mut is_found = false;
    for source in config.ignition.config.merge.iter_mut().filter_map(|reference| reference.source.as_mut()) {
        if source.contains("config/worker") {
            *source = source.replacen("config/worker", &format!("config/{pool}"), 1).into();
            is_found = true;
        }
    }
    if is_found { Ok(()) } else { Err(missing()) }
}

/// Adds what removes the system that the host was installed from.
pub(super) fn with_cleanup(config: Document<'_>) -> Document<'_> {
    let mut part = parts::empty(Version::V3_2);
    part.ignition.version = config.ignition.version.clone();
    part.storage.files.push(parts::bytes_file(CLEANUP_PATH, 0o755, CLEANUP_SCRIPT.as_bytes()));
    part.systemd.units.push(parts::unit(CLEANUP_NAME, CLEANUP_UNIT));
    config.merge(part)
}

#[cfg(test)]
mod tests {
    use crate::host::{HostConfig, build};
    use std::{fs, process::Command};

    const WORKER: &str = r#"{"ignition":{"version":"3.2.0","config":{"merge":[{"source":"https://api-int:22623/config/worker"}]}},
        "storage":{"links":[{"path":"/etc/hostname","target":"/x"}],"luks":[{"name":"root","device":"/dev/x"}]}}"#;

    fn worker() -> HostConfig {
        HostConfig { hostname: "node-1".into(), role_config: Some(WORKER.into()), ..HostConfig::default() }
    }

    fn text(host: &HostConfig) -> String {
        String::from_utf8(build(host).unwrap().to_json()).unwrap()
    }

    #[test]
    fn the_hosts_part_goes_over_its_roles() {
        let host = HostConfig { nodeip_hint: Some("fd00::1".parse().unwrap()), ..worker() };
        let config = build(&host).unwrap();
        assert_eq!(config.ignition.version, "3.2.0");
        // Its name is not a link any more.
        assert!(config.storage.links.is_empty() && config.storage.luks.len() == 1);
        let hint = &config.storage.files[1];
        assert_eq!(
            (&*hint.path, hint.mode, hint.contents.source.as_deref()),
            ("/etc/default/nodeip-configuration", Some(0o644), Some("data:,KUBELET_NODEIP_HINT=fd00::1"))
        );
        let role = r#"{"ignition":{"version":"3.2.0"}}"#;
        for (version, expected) in [("3.0.0", "3.1.0"), ("3.1.0", "3.1.0"), ("3.2.0", "3.2.0"), ("3.4.0", "3.4.0")] {
            let host = HostConfig { role_config: Some(role.replace("3.2.0", version).into()), ..worker() };
            assert_eq!(build(&host).unwrap().ignition.version, expected);
            let ignition_override = r#"{"ignition":{"version":"3.5.0"}}"#.to_owned();
            assert_eq!(build(&HostConfig { ignition_override, ..host }).unwrap().ignition.version, "3.5.0");
        }
        let older = HostConfig { ignition_override: r#"{"ignition":{"version":"3.1.0"}}"#.into(), ..worker() };
        let error = build(&older).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.starts_with("it is of version 3.1.0, which can't express all"), "{cause}");
    }

    #[test]
    fn a_pools_config_takes_the_workers_place() {
        let host = HostConfig { pool: Some("gpu".into()), ..worker() };
        assert!(text(&host).contains(r#""source":"https://api-int:22623/config/gpu""#));
        for (pool, role) in [("gpu", WORKER.replace("worker", "master")), ("a/../b", WORKER.to_owned())] {
            let host = HostConfig { pool: Some(pool.into()), role_config: Some(role.into()), ..worker() };
            let error = build(&host).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("no config is fetched from .../config/worker, which pool '{pool}' would replace")
            );
        }
    }

    #[test]
    fn a_roles_config_that_cant_be_is_refused() {
        for (role, expected) in [
            ("", "the role's config is of the unknown version missing"),
            (r#"{"ignition":{"version":"9.0.0"}}"#, "the role's config is of the unknown version 9.0.0"),
            ("[", "the role's config can't be used: error at line 0 col 0: unexpected end of JSON input"),
        ] {
            let host = HostConfig { role_config: Some(role.into()), ..worker() };
            assert_eq!(build(&host).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn the_system_it_was_installed_from_is_removed() {
        let host = HostConfig { persistent_boot: true, ..worker() };
        let config = build(&host).unwrap();
        assert_eq!(config.storage.files.last().unwrap().path, super::CLEANUP_PATH);
        assert_eq!(config.systemd.units[0].name, super::CLEANUP_NAME);
        let older = HostConfig { role_config: Some(WORKER.replace("3.2.0", "3.3.0").into()), ..host };
        assert_eq!(build(&older).unwrap().ignition.version, "3.3.0");

        let dir = tempfile::tempdir().unwrap();
        let deploy = dir.path().join("sysroot/ostree/deploy");
        for stateroot in ["install", "rhcos"] {
            fs::create_dir_all(deploy.join(stateroot).join("var")).unwrap();
        }
        let systemctl = "#!/bin/sh\necho \"systemctl $@\" >> \"$LOG\"\n";
        let ostree = "#!/bin/sh\necho \"$@\" >> \"$LOG\"\n[ \"$2\" != status ] || printf '%s\\n' '* install 0a.0' \
                      '    origin: x' '  rhcos 0b.0 (rollback)' '  rhcos 0c.1'\n";
        for (name, script) in
            [("ostree", ostree), ("systemctl", systemctl), ("mount", "#!/bin/sh\n"), ("chattr", "#!/bin/sh\n")]
        {
            fs::write(dir.path().join(name), script).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(dir.path().join(name), mode).unwrap();
        }
        let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
        let log = dir.path().join("log");
        let script = dir.path().join("cleanup");
        fs::write(&script, super::CLEANUP_SCRIPT).unwrap();
        let mut bash = Command::new("bash");
        bash.arg(&script).env("PATH", path).env("LOG", &log).env("ROOT", dir.path());
        assert!(bash.status().unwrap().success());
        let calls = fs::read_to_string(&log).unwrap();
        assert_eq!(
            calls,
            "admin status\nsystemctl stop rpm-ostreed.service\nadmin undeploy 2\nadmin undeploy 1\nadmin cleanup\n\
             systemctl start rpm-ostreed.service\n"
        );
        assert!(deploy.join("install").exists() && !deploy.join("rhcos").exists());
    }
}
