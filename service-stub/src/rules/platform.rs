//! The platform a cluster runs on, and who looks after its network: each limits the other.

use api::Platform;
use serde_json::{Value, json};

/// Machines without an interface of their own.
pub(crate) const BAREMETAL: &str = "baremetal";
/// Nothing is known about the machines.
pub(crate) const NONE: &str = "none";
/// What runs the machines is looked after by others.
pub(crate) const EXTERNAL: &str = "external";
const NUTANIX: &str = "nutanix";
/// Oracle's cloud.
const OCI: &str = "oci";
const CONTROLLER: &str = "cloud_controller_manager";
const NAME: &str = "platform_name";

/// A platform of a kind, with nothing else set.
pub(crate) fn with_kind(kind: &str) -> Platform {
    Platform { external: json!({}), kind: kind.to_owned() }
}

/// What a cluster is before an update.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Current<'a> {
    pub(crate) platform: &'a Platform,
    /// The user looks after its network.
    pub(crate) user_managed: bool,
    /// Its control-plane hosts.
    pub(crate) control_plane_count: i64,
    /// It can look after its network on this architecture.
    pub(crate) can_manage_networking: bool,
}

fn may_be_user_managed(kind: &str) -> bool {
    !matches!(kind, BAREMETAL | NUTANIX)
}

fn must_be_user_managed(kind: &str) -> bool {
    matches!(kind, NONE | EXTERNAL)
}

/// Platform and management of a new cluster; management may stay open.
pub(crate) fn for_new_cluster(
    platform: Option<Platform>,
    user_managed: Option<bool>,
    control_plane_count: i64,
    architecture: &str,
) -> Result<(Platform, Option<bool>), String> {
    check_pair(platform.as_ref(), user_managed)?;
    check_external(platform.as_ref(), None)?;
    let platform = platform.map(|platform| with_defaults(platform, None));
    let kind = platform.as_ref().map(|platform| platform.kind.clone());
    let kind = kind.as_deref();
    if matches!(architecture, "s390x" | "ppc64le") {
        if user_managed == Some(false) {
            return Err(format!("Can't disable User Managed Networking on {architecture} architecture"));
        }
        return match platform {
            Some(platform) if platform.kind == EXTERNAL => Ok((platform, Some(true))),
            Some(platform) if platform.kind != NONE => {
                Err(format!("Can't set {} platform on {architecture} architecture", platform.kind))
            }
            _ => Ok((with_kind(NONE), Some(true))),
        };
    }
    match platform {
        Some(platform) if kind != Some(BAREMETAL) && !must_be_user_managed(&platform.kind) => {
            Ok((platform, user_managed))
        }
        platform if control_plane_count == 1 => for_single_node(platform, user_managed),
        platform => Ok(match (platform, user_managed == Some(true)) {
            (None, false) => (with_kind(BAREMETAL), Some(false)),
            (Some(platform), false) if platform.kind == BAREMETAL => (platform, Some(false)),
            (None, true) => (with_kind(NONE), Some(true)),
            (Some(platform), _) => (platform, Some(true)),
        }),
    }
}

fn for_single_node(platform: Option<Platform>, user_managed: Option<bool>) -> Result<(Platform, Option<bool>), String> {
    match platform {
        Some(platform) if platform.kind == BAREMETAL => {
            Err(format!("Can't set {} platform on single node OpenShift", platform.kind))
        }
        _ if user_managed == Some(false) => {
            Err("Can't disable user-managed-networking on single node OpenShift".to_owned())
        }
        Some(platform) => Ok((platform, Some(true))),
        None => Ok((with_kind(NONE), Some(true))),
    }
}

/// Platform and management that a cluster gets; none where it keeps its own.
pub(crate) fn for_update(
    platform: Option<Platform>,
    user_managed: Option<bool>,
    current: &Current,
) -> Result<(Option<Platform>, Option<bool>), String> {
    if platform.is_none() && user_managed.is_none() {
        return Ok((None, None));
    }
    check_pair(platform.as_ref(), user_managed)?;
    if let Some(platform) = platform.as_ref().filter(|_| user_managed.is_none() && current.control_plane_count >= 3) {
        check_alone(platform, current)?;
    }
    check_external(platform.as_ref(), Some(current.platform))?;
    let platform = platform.map(|platform| with_defaults(platform, Some(current.platform)));
    let (own, wanted) = (current.platform.kind.as_str(), platform.as_ref().map(|platform| platform.kind.clone()));
    let wanted = wanted.as_deref();
    let effective = wanted.unwrap_or(own);
    if may_be_user_managed(effective) && !must_be_user_managed(effective) {
        return Ok((platform, user_managed));
    }
    let asks = user_managed == Some(true);
    if own == BAREMETAL {
        return Ok(match wanted {
            None | Some(BAREMETAL) if !asks => (None, None),
            Some(NONE) => (Some(with_kind(NONE)), Some(true)),
            None => (Some(with_kind(NONE)), Some(true)),
            Some(_) => (platform, user_managed),
        });
    }
    if must_be_user_managed(own) {
        let mandatory = wanted.is_none_or(must_be_user_managed);
        if user_managed != Some(false) && mandatory {
            return Ok((platform.and_then(|platform| changed(platform, current.platform)), None));
        }
        if current.control_plane_count == 1 && (!asks || !mandatory) {
            return Err("disabling User Managed Networking or setting platform different than none or oci platforms is not allowed in single node Openshift".to_owned());
        }
        if !asks && wanted.is_none_or(|wanted| wanted == BAREMETAL) {
            if !current.can_manage_networking {
                return Err("disabling User Managed Networking or setting Bare-Metal platform is not allowed for clusters with non-x86_64 CPU architecture".to_owned());
            }
            return Ok((Some(with_kind(BAREMETAL)), Some(false)));
        }
    } else if wanted.is_none() && !may_be_user_managed(own) && asks {
        return Err(format!("User-managed-networking is not supported with platform {own}"));
    }
    Ok((platform, user_managed))
}

fn check_pair(platform: Option<&Platform>, user_managed: Option<bool>) -> Result<(), String> {
    let (Some(platform), Some(user_managed)) = (platform, user_managed) else { return Ok(()) };
    let kind = &platform.kind;
    match user_managed {
        true if !may_be_user_managed(kind) => {
            Err(format!("Can't set {kind} platform with user-managed-networking enabled"))
        }
        false if must_be_user_managed(kind) => {
            Err(format!("Can't set {kind} platform with user-managed-networking disabled"))
        }
        _ => Ok(()),
    }
}

/// A platform alone must go with the management there is; between `baremetal` and `none` that follows.
fn check_alone(platform: &Platform, current: &Current) -> Result<(), String> {
    let pair = (current.platform.kind.as_str(), platform.kind.as_str());
    if matches!(pair, (BAREMETAL, NONE) | (NONE, BAREMETAL)) {
        return Ok(());
    }
    check_pair(Some(platform), Some(current.user_managed))
}

fn set<'a>(platform: &'a Platform, name: &str) -> Option<&'a Value> {
    platform.external.get(name).filter(|value| !value.is_null())
}

fn check_external(platform: Option<&Platform>, current: Option<&Platform>) -> Result<(), String> {
    let Some(platform) = platform else { return Ok(()) };
    let is_external = platform.kind == EXTERNAL;
    let was_external = current.is_some_and(|current| current.kind == EXTERNAL);
    if is_external && !was_external {
        if !platform.external.is_object() {
            return Err("External setting must be set when using platform type external".to_owned());
        }
        if set(platform, NAME).is_none() {
            return Err("Platform name must be set to a non-empty string when using platform type external".to_owned());
        }
    }
    if !is_external && (set(platform, NAME).is_some() || set(platform, CONTROLLER).is_some()) {
        return Err("External settings can only be set with external platform type".to_owned());
    }
    let merged = |name| set(platform, name).or_else(|| set(current?, name));
    let oracle = is_external && merged(NAME).is_some_and(|name| name == OCI);
    if oracle && merged(CONTROLLER).is_none_or(|controller| controller != "External") {
        return Err("Cloud controller manager must be enabled when using oci external integration".to_owned());
    }
    Ok(())
}

/// An external platform sets how its controllers run; settings that are not given stay.
fn with_defaults(platform: Platform, current: Option<&Platform>) -> Platform {
    if platform.kind != EXTERNAL {
        return with_kind(&platform.kind);
    }
    let before = current.filter(|current| current.kind == EXTERNAL);
    let of = |name: &str| set(&platform, name).or_else(|| set(before?, name)).cloned();
    let mut external = serde_json::Map::new();
    external.extend(of(NAME).map(|name| (NAME.to_owned(), name)));
    external.insert(CONTROLLER.to_owned(), of(CONTROLLER).unwrap_or_else(|| "".into()));
    Platform { external: Value::Object(external), kind: platform.kind }
}

fn changed(platform: Platform, current: &Platform) -> Option<Platform> {
    (platform.kind != current.kind || platform.kind == EXTERNAL && platform.external != current.external)
        .then_some(platform)
}

/// A single node runs on no platform that balances load.
pub(crate) fn check_single_node(control_plane_count: i64, platform: &Platform) -> Result<(), String> {
    if control_plane_count != 1 || must_be_user_managed(&platform.kind) {
        return Ok(());
    }
    Err(format!("Single node cluster is not supported alongside {} platform", platform.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(kind: &str) -> Option<Platform> {
        match kind {
            "" => None,
            EXTERNAL => Some(Platform { external: json!({"platform_name": "acme"}), kind: kind.to_owned() }),
            kind => Some(Platform { external: Value::Null, kind: kind.to_owned() }),
        }
    }

    fn outcome(result: Result<(Option<Platform>, Option<bool>), String>) -> String {
        match result {
            Ok((platform, user_managed)) => {
                format!("{} {user_managed:?}", platform.map_or("-".to_owned(), |platform| platform.kind))
            }
            Err(why) => why,
        }
    }

    #[test]
    fn platforms_of_new_clusters() {
        for (kind, user_managed, masters, architecture, expected) in [
            ("", None, 3, "x86_64", "baremetal Some(false)"),
            ("", Some(true), 3, "x86_64", "none Some(true)"),
            ("none", None, 3, "x86_64", "none Some(true)"),
            ("external", None, 3, "x86_64", "external Some(true)"),
            ("vsphere", None, 3, "x86_64", "vsphere None"),
            ("nutanix", None, 3, "x86_64", "nutanix None"),
            ("", None, 1, "x86_64", "none Some(true)"),
            ("external", None, 1, "x86_64", "external Some(true)"),
            ("", None, 3, "s390x", "none Some(true)"),
            ("baremetal", Some(true), 3, "x86_64", "Can't set baremetal platform with user-managed-networking enabled"),
            ("nutanix", Some(true), 3, "x86_64", "Can't set nutanix platform with user-managed-networking enabled"),
            ("none", Some(false), 3, "x86_64", "Can't set none platform with user-managed-networking disabled"),
            ("baremetal", None, 1, "x86_64", "Can't set baremetal platform on single node OpenShift"),
            ("", Some(false), 1, "x86_64", "Can't disable user-managed-networking on single node OpenShift"),
            ("", Some(false), 3, "ppc64le", "Can't disable User Managed Networking on ppc64le architecture"),
            ("vsphere", None, 3, "s390x", "Can't set vsphere platform on s390x architecture"),
        ] {
            let made = for_new_cluster(platform(kind), user_managed, masters, architecture);
            let made = made.map(|(platform, user_managed)| (Some(platform), user_managed));
            assert_eq!(outcome(made), expected, "{kind} {user_managed:?} {masters} {architecture}");
        }
        let bare = Platform { external: Value::Null, kind: EXTERNAL.to_owned() };
        assert_eq!(
            for_new_cluster(Some(bare), None, 3, "x86_64").unwrap_err(),
            "External setting must be set when using platform type external"
        );
        let oracle = Platform { external: json!({"platform_name": "oci"}), kind: EXTERNAL.to_owned() };
        assert_eq!(
            for_new_cluster(Some(oracle), None, 3, "x86_64").unwrap_err(),
            "Cloud controller manager must be enabled when using oci external integration"
        );
        let odd = Platform { external: json!({"platform_name": "a"}), kind: NONE.to_owned() };
        assert_eq!(
            for_new_cluster(Some(odd), None, 3, "x86_64").unwrap_err(),
            "External settings can only be set with external platform type"
        );
        let (made, _) = for_new_cluster(platform(EXTERNAL), None, 3, "x86_64").unwrap();
        assert_eq!(made.external, json!({"platform_name": "acme", "cloud_controller_manager": ""}));
    }

    #[test]
    fn platforms_of_updates() {
        for (own, was_managed, kind, user_managed, masters, expected) in [
            ("baremetal", false, "", Some(true), 3, "none Some(true)"),
            ("baremetal", false, "", Some(false), 3, "- None"),
            ("baremetal", false, "none", None, 3, "none Some(true)"),
            ("baremetal", false, "vsphere", None, 3, "vsphere None"),
            ("baremetal", false, "nutanix", None, 3, "nutanix None"),
            ("none", true, "", Some(false), 3, "baremetal Some(false)"),
            ("none", true, "baremetal", None, 3, "baremetal Some(false)"),
            ("none", true, "none", None, 3, "- None"),
            ("none", true, "external", None, 3, "external None"),
            ("vsphere", false, "", Some(true), 3, "- Some(true)"),
            ("none", true, "nutanix", None, 3, "Can't set nutanix platform with user-managed-networking enabled"),
            (
                "baremetal",
                false,
                "external",
                None,
                3,
                "Can't set external platform with user-managed-networking disabled",
            ),
            ("baremetal", false, "external", Some(true), 3, "external Some(true)"),
            ("nutanix", false, "", Some(true), 3, "User-managed-networking is not supported with platform nutanix"),
            (
                "none",
                true,
                "",
                Some(false),
                1,
                "disabling User Managed Networking or setting platform different than none or oci platforms is not allowed in single node Openshift",
            ),
        ] {
            let own = with_kind(own);
            let current = Current {
                platform: &own,
                user_managed: was_managed,
                control_plane_count: masters,
                can_manage_networking: true,
            };
            let made = for_update(platform(kind), user_managed, &current);
            assert_eq!(outcome(made), expected, "{} -> {kind} {user_managed:?} {masters}", own.kind);
        }
    }

    #[test]
    fn an_external_platform_keeps_settings_that_are_not_given() {
        let own = Platform {
            external: json!({"platform_name": "acme", "cloud_controller_manager": "External"}),
            kind: EXTERNAL.to_owned(),
        };
        let current =
            Current { platform: &own, user_managed: true, control_plane_count: 3, can_manage_networking: true };
        let renamed = Platform { external: json!({"platform_name": "oci"}), kind: EXTERNAL.to_owned() };
        let (made, _) = for_update(Some(renamed), None, &current).unwrap();
        assert_eq!(made.unwrap().external, json!({"platform_name": "oci", "cloud_controller_manager": "External"}));
        assert_eq!(outcome(for_update(Some(own.clone()), None, &current)), "- None");
    }
}
