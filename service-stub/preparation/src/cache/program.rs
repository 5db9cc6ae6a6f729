//! Which of a release's programs runs here, and where the release image has it.

use super::error::ExtractError;
use std::fs;

/// It runs on any machine of its architecture.
const STATIC: &str = "openshift-install";
/// It needs the libraries of the release's base system, and has those of FIPS mode.
const DYNAMIC: &str = "openshift-baremetal-install";
/// The first minor release whose `openshift-install` does all that the other one does.
const STATIC_SINCE: (u64, u64) = (4, 16);
const FIPS_ENABLED: &str = "/proc/sys/crypto/fips_enabled";

/// A file in an image of the release.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Component {
    pub tag: &'static str,
    pub path: String,
}

/// Major and minor number; None for a text that is not a version.
pub(super) fn minor(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.split(['.', '-', '+']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The program that a version is installed with. One that can't be read is taken for a new one.
pub(super) fn name(version: &str, fips_host: bool) -> &'static str {
    let is_static = minor(version).is_none_or(|minor| minor >= STATIC_SINCE);
    if is_static && !fips_host { STATIC } else { DYNAMIC }
}

/// Whether this machine's kernel is in FIPS mode.
pub(super) fn host_is_fips() -> bool {
    fs::read_to_string(FIPS_ENABLED).is_ok_and(|text| text.trim() == "1")
}

/// An architecture in Go's words.
pub(super) fn go_architecture(name: &str) -> &str {
    match name {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Whether a release for `release` has no images for `own` machine.
pub(super) fn is_foreign(release: &str, own: &str) -> bool {
    !matches!(release, "" | "multi") && go_architecture(release) != own
}

/// Where a release has `program` for `own` machine, in Go's words.
pub(super) fn component(program: &'static str, release: &str, own: &str) -> Result<Component, ExtractError> {
    const PATH: &str = "usr/bin/openshift-install";
    match (program == DYNAMIC, is_foreign(release, own)) {
        (false, false) => Ok(Component { tag: "installer", path: PATH.to_owned() }),
        (true, false) => Ok(Component { tag: "baremetal-installer", path: PATH.to_owned() }),
        (false, true) => {
            let path = format!("usr/share/openshift/linux_{own}/openshift-install");
            Ok(Component { tag: "installer-artifacts", path })
        }
        (true, true) => Err(ExtractError::Foreign { release: release.to_owned(), own: own.to_owned(), program }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_and_fips_hosts_take_the_dynamic_one() {
        for (version, fips, expected) in [
            ("4.22.9", false, STATIC),
            ("4.22.9", true, DYNAMIC),
            ("4.16.0-ec.1", false, STATIC),
            ("4.16.0-0.nightly-2024", false, STATIC),
            ("4.15.60", false, DYNAMIC),
            ("4.9", false, DYNAMIC),
            ("5.0.1-multi", false, STATIC),
            ("unknown", false, STATIC),
        ] {
            assert_eq!(name(version, fips), expected, "{version} {fips}");
        }
    }

    #[test]
    fn a_release_for_other_machines_has_the_static_one_among_its_artifacts() {
        let of = |program, release, own| component(program, release, own).map(|found| (found.tag, found.path));
        let bin = || "usr/bin/openshift-install".to_owned();
        assert_eq!(of(STATIC, "x86_64", "amd64").unwrap(), ("installer", bin()));
        assert_eq!(of(STATIC, "multi", "arm64").unwrap(), ("installer", bin()));
        assert_eq!(of(DYNAMIC, "aarch64", "arm64").unwrap(), ("baremetal-installer", bin()));
        let artifacts = ("installer-artifacts", "usr/share/openshift/linux_amd64/openshift-install".to_owned());
        assert_eq!(of(STATIC, "arm64", "amd64").unwrap(), artifacts);
        let error = of(DYNAMIC, "arm64", "amd64").unwrap_err().to_string();
        assert!(
            error.starts_with("the release is for arm64, and its openshift-baremetal-install does not run"),
            "{error}"
        );
    }
}
