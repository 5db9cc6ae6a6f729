use super::*;
use std::{collections::BTreeSet, path::Path};

/// The published table beside the workspace, where it is there.
fn published() -> Option<Vec<Vec<String>>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/contract/features.tsv");
    let Ok(text) = std::fs::read_to_string(&path) else {
        assert!(std::env::var_os("LANDFALL_NO_SKIPS").is_none(), "{} isn't there", path.display());
        println!("skipped: {} isn't there", path.display());
        return None;
    };
    Some(text.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

/// `<4.10 unavailable; 4.10-4.14 supported; >=4.15 unavailable`, at one version.
fn published_level(cell: &str, minor: u32) -> String {
    for part in cell.split("; ") {
        let Some((range, level)) = part.split_once(' ') else { return part.to_owned() };
        let number = |text: &str| text.strip_prefix("4.").and_then(|minor| minor.parse::<u32>().ok()).unwrap();
        let holds = if let Some(bound) = range.strip_prefix('<') {
            minor < number(bound)
        } else if let Some(bound) = range.strip_prefix(">=") {
            minor >= number(bound)
        } else {
            let (least, most) = range.split_once('-').unwrap_or((range, range));
            (number(least)..=number(most)).contains(&minor)
        };
        if holds {
            return level.to_owned();
        }
    }
    panic!("{cell}: 4.{minor}")
}

#[test]
fn levels_are_the_published_ones() {
    let Some(rows) = published() else { return };
    let architectures = ["x86_64", "arm64", "s390x", "ppc64le", "multi"];
    let mut compared = 0;
    for row in rows.iter().filter(|row| row[2] != "architecture") {
        let feature = find(&row[0]).unwrap_or_else(|| panic!("{} is missing", row[0]));
        assert_eq!(feature.name, row[1]);
        for (column, cpu_architecture) in architectures.into_iter().enumerate() {
            for minor in 5..=23 {
                let expected = published_level(&row[4 + column], minor);
                let openshift_version = format!("4.{minor}.7");
                let question =
                    Question { openshift_version: &openshift_version, cpu_architecture, ..Question::default() };
                let answered = answer(&question);
                let found = answered.iter().find(|told| told.feature.id == feature.id);
                let found = found.map_or("omitted".to_owned(), |told| {
                    serde_json::to_value(told.level).unwrap().as_str().unwrap().to_owned()
                });
                assert_eq!(found, expected, "{} {cpu_architecture} {openshift_version}", feature.id);
                compared += 1;
            }
        }
    }
    assert_eq!(compared, all().len() * 5 * 19);
    for row in rows.iter().filter(|row| row[2] == "architecture") {
        let (_, architecture) = ARCHITECTURES.iter().find(|(name, _)| *name == row[0]).unwrap();
        let column = architectures.iter().position(|own| own == architecture).unwrap();
        for minor in 5..=23 {
            let level = architecture_level(architecture, &format!("4.{minor}"));
            assert_eq!(serde_json::to_value(level).unwrap(), published_level(&row[4 + column], minor), "{}", row[0]);
        }
    }
}

#[test]
fn every_line_is_read_and_names_only_what_there_is() {
    assert_eq!(all().len(), TABLE.lines().count());
    let ids: BTreeSet<&str> = all().iter().map(|feature| feature.id).collect();
    assert_eq!(ids.len(), all().len());
    for feature in all() {
        for other in &feature.excludes {
            assert!(ids.contains(other.name), "{} excludes {}", feature.id, other.name);
        }
    }
}

#[test]
fn a_platform_changes_what_is_told() {
    let told = |platform, platform_name| -> Vec<(&str, Level, Option<Reason>)> {
        let question = Question { openshift_version: "4.22.9", cpu_architecture: "x86_64", platform, platform_name };
        answer(&question).iter().map(|told| (told.feature.id, told.level, told.reason)).collect()
    };
    let vsphere = told(Some("vsphere"), None);
    assert!(vsphere.contains(&("SNO", Level::Unavailable, Some(Reason::Platform))));
    assert!(vsphere.contains(&(MANAGED_BY_PLATFORM, Level::Unsupported, Some(Reason::Platform))));
    assert!(!vsphere.iter().any(|(id, ..)| *id == "VSPHERE_INTEGRATION"));
    let oracle = told(Some("external"), Some("oci"));
    assert!(oracle.contains(&("FULL_ISO", Level::Unavailable, Some(Reason::OciExternalIntegrationDisabled))));
    assert!(told(Some("external"), None).contains(&("FULL_ISO", Level::Supported, None)));
    assert!(!told(None, None).iter().any(|(id, ..)| *id == MANAGED_BY_PLATFORM));
}

#[test]
fn features_that_exclude_each_other_are_named() {
    let sno = Selection {
        of_cluster: true,
        control_plane_count: 1,
        user_managed: true,
        platform: Platforms { kind: "none", name: None },
        network_type: "OVNKubernetes",
        ..Selection::NOTHING
    };
    let check = |selection: &Selection, version, architecture| {
        check(&selection.active(), version, architecture).err().unwrap_or_default()
    };
    assert_eq!(check(&sno, "4.22.9", "x86_64"), "");
    assert_eq!(
        check(&Selection { user_managed: false, ..sno }, "4.22.9", ""),
        "cannot use Single Node OpenShift because it's not compatible with Cluster Managed Networking"
    );
    assert_eq!(
        check(&Selection { user_managed: false, control_plane_count: 3, ..sno }, "4.22.9", "s390x"),
        "cannot use Cluster Managed Networking because it's not compatible with the s390x architecture on version 4.22.9 of OpenShift"
    );
    assert_eq!(
        check(&sno, "4.9", "arm64"),
        "cannot use arm64 architecture because it's not compatible on version 4.9 of OpenShift"
    );
    let minimal = Selection { image_type: Some("minimal-iso"), ..sno };
    assert_eq!(
        check(&minimal, "4.22.9", "s390x"),
        "cannot use Minimal ISO because it's not compatible with the s390x architecture on version 4.22.9 of OpenShift"
    );
}
