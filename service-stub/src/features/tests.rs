use super::row::{Level, OCI, Reason};
use super::*;
use std::collections::BTreeMap;

const VERSIONS: [&str; 20] = [
    "4.5",
    "4.6",
    "4.8",
    "4.9",
    "4.10",
    "4.11",
    "4.12",
    "4.13",
    "4.14",
    "4.15",
    "4.16",
    "4.17",
    "4.18",
    "4.19",
    "4.20",
    "4.21",
    "4.22",
    "4.22.9",
    "4.23.0-ec.3",
    "5.0",
];

fn query(version: &str, architecture: Architecture) -> Query<'_> {
    Query { version, architecture, platform: None, external_name: None }
}

/// The recorded table, by feature.
fn recorded() -> Vec<BTreeMap<String, String>> {
    let mut lines = include_str!("published.tsv").lines();
    let names: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let row = |line: &str| -> BTreeMap<String, String> {
        names.iter().zip(line.split('\t')).map(|(name, cell)| (name.to_string(), cell.to_owned())).collect()
    };
    lines.map(row).collect()
}

/// `<4.10 unavailable; 4.10-4.14 supported; >=4.15 unavailable`, or one level for all.
fn recorded_level<'a>(cell: &'a str, version: &str) -> &'a str {
    let at_least = |bound: &str| crate::releases::version::at_least(version, bound).unwrap();
    let minor = |bound: &str| {
        let (major, minor) = bound.split_once('.').unwrap();
        format!("{major}.{}", minor.parse::<u32>().unwrap() + 1)
    };
    for part in cell.split("; ") {
        let Some((bounds, level)) = part.split_once(' ') else { return part };
        let holds = if let Some(bound) = bounds.strip_prefix(">=") {
            at_least(bound)
        } else if let Some(bound) = bounds.strip_prefix('<') {
            !at_least(bound)
        } else {
            let (first, last) = bounds.split_once('-').unwrap_or((bounds, bounds));
            at_least(first) && !at_least(&minor(last))
        };
        if holds {
            return level;
        }
    }
    panic!("nothing in {cell:?} for {version}");
}

/// `ODF, DUAL_STACK_PRIMARY_IPV6 (<4.19)`.
fn recorded_list(cell: &str, version: &str) -> Vec<String> {
    let entries = cell.split(", ").filter(|entry| *entry != "-");
    let holds = entries.filter(|entry| {
        entry
            .split_once(" (<")
            .is_none_or(|(_, bound)| !crate::releases::version::at_least(version, bound.trim_end_matches(')')).unwrap())
    });
    holds.map(|entry| entry.split(' ').next().unwrap().to_owned()).collect()
}

fn wire(level: Level) -> String {
    serde_json::to_value(level).unwrap().as_str().unwrap().to_owned()
}

#[test]
fn every_level_and_exclusion_is_the_recorded_one() {
    let rows = recorded();
    let mut leaves = 0;
    for row in rows.iter().filter(|row| row["group"] != "architecture") {
        let feature = *Feature::ALL.iter().find(|feature| feature.id() == row["id"]).unwrap();
        assert_eq!(feature.row().name, row["display_name"]);
        for (version, architecture) in VERSIONS.iter().flat_map(|version| Architecture::ALL.map(|a| (*version, a))) {
            let query = query(version, architecture);
            let cell = recorded_level(&row[&format!("level_{}", architecture.name())], version);
            let level = levels(&query).get(feature.id()).map_or("omitted".to_owned(), |level| wire(*level));
            assert_eq!(level, cell, "{} {version} {}", feature.id(), architecture.name());
            let runs = architecture.runs(version);
            let unfit = recorded_list(&row["incompatible_architectures"], version);
            let fits = !unfit.iter().any(|name| name == architecture.name());
            assert_eq!(feature.row().fits(version, architecture), fits, "{} {version} {architecture:?}", feature.id());
            assert!(fits || !runs || cell == "unavailable");
            leaves += 2;
        }
        for version in VERSIONS {
            let excluded: Vec<&str> = feature.row().excluded(version).map(Feature::id).collect();
            assert_eq!(excluded, recorded_list(&row["incompatible_features"], version), "{} {version}", feature.id());
            leaves += 1;
        }
    }
    assert_eq!(leaves, 56 * VERSIONS.len() * (2 * Architecture::ALL.len() + 1));
    for architecture in Architecture::ALL {
        let row = rows.iter().find(|row| row["id"] == architecture.id()).unwrap();
        for version in VERSIONS {
            let cell = recorded_level(&row[&format!("level_{}", architecture.name())], version);
            assert_eq!(wire(architecture.level(version)), cell, "{} {version}", architecture.id());
        }
    }
}

#[test]
fn what_excludes_another_is_excluded_by_it() {
    // Two ways that a network is managed do not name the operator that could not cope with them once.
    let one_sided = [Feature::VipAutoAlloc, Feature::ClusterManagedNetworking];
    for version in VERSIONS {
        for feature in Feature::ALL {
            for other in feature.row().excluded(version) {
                assert_ne!(*feature, other, "{version}");
                let mutual = other.row().excluded(version).any(|back| back == *feature);
                let known = *feature == Feature::Lvm && one_sided.contains(&other);
                assert!(mutual || known, "{version}: {} excludes {}", feature.id(), other.id());
            }
        }
    }
}

#[test]
fn levels_only_end_where_a_plug_in_or_a_way_of_getting_addresses_ended() {
    let ended = [Feature::SdnNetworkType, Feature::VipAutoAlloc];
    for (feature, architecture) in Feature::ALL.iter().flat_map(|feature| Architecture::ALL.map(|a| (*feature, a))) {
        let usable = VERSIONS.map(|version| feature.row().level(&query(version, architecture)).0.is_usable());
        assert!(usable.is_sorted() || ended.contains(&feature), "{} {architecture:?}: {usable:?}", feature.id());
    }
}

#[test]
fn a_platform_takes_features_away_and_says_so() {
    let level = |feature: Feature, version: &str, platform: Platform, name: Option<&str>| {
        let query = Query { platform: Some(platform), external_name: name, ..query(version, Architecture::X86_64) };
        feature.row().level(&query)
    };
    for (feature, version, platform, name, expected) in [
        (Feature::Sno, "4.22", Platform::Nutanix, None, (Level::Unavailable, Some(Reason::Platform))),
        (Feature::Sno, "4.22", Platform::External, None, (Level::Supported, None)),
        (Feature::Tna, "4.21", Platform::None, None, (Level::Unavailable, Some(Reason::Platform))),
        (Feature::Tna, "4.22", Platform::None, None, (Level::Supported, None)),
        (Feature::Tna, "4.18", Platform::Vsphere, None, (Level::Unavailable, Some(Reason::Platform))),
        (Feature::Lvm, "4.10", Platform::Vsphere, None, (Level::Unavailable, Some(Reason::OpenshiftVersion))),
        (Feature::Lvm, "4.11", Platform::Vsphere, None, (Level::Unavailable, Some(Reason::Platform))),
        (Feature::Odf, "4.22", Platform::External, None, (Level::Supported, None)),
        (Feature::Odf, "4.22", Platform::External, Some(OCI), (Level::Unavailable, Some(Reason::Platform))),
        (Feature::Odf, "4.22", Platform::Baremetal, Some(OCI), (Level::Supported, None)),
        (
            Feature::FullIso,
            "4.22",
            Platform::External,
            Some(OCI),
            (Level::Unavailable, Some(Reason::OciExternalIntegrationDisabled)),
        ),
        (
            Feature::PlatformManagedNetworking,
            "4.22",
            Platform::Baremetal,
            None,
            (Level::Unsupported, Some(Reason::Platform)),
        ),
        (Feature::PlatformManagedNetworking, "4.22", Platform::None, None, (Level::Supported, None)),
    ] {
        assert_eq!(level(feature, version, platform, name), expected, "{} {version} {platform:?}", feature.id());
    }
    let with = Query { platform: Some(Platform::None), ..query("4.22", Architecture::X86_64) };
    let levels = |query| levels(query);
    assert!(!levels(&with).contains_key("NONE_PLATFORM") && levels(&with).contains_key("PLATFORM_MANAGED_NETWORKING"));
    let without = query("4.22", Architecture::X86_64);
    assert!(levels(&without).contains_key("NONE_PLATFORM"));
    assert!(!levels(&without).contains_key("PLATFORM_MANAGED_NETWORKING"));
}

#[test]
fn a_version_that_cannot_be_read_has_what_every_version_has() {
    let levels = levels(&query("zz", Architecture::X86_64));
    let expected = [
        ("CNV", Level::Supported),
        ("LVM", Level::Unavailable),
        ("SDN_NETWORK_TYPE", Level::Unavailable),
        ("VIP_AUTO_ALLOC", Level::Unavailable),
        ("PIPELINES", Level::DevPreview),
    ];
    for (id, level) in expected {
        assert_eq!(levels[id], level, "{id}");
    }
    assert_eq!(architectures("zz")["ARM64_ARCHITECTURE"], Level::Unavailable);
}

#[test]
fn refusals_name_both_sides() {
    let facts = ClusterFacts {
        version: "4.22.9",
        control_plane_count: 3,
        platform: Some(Platform::Baremetal),
        network_type: "OVNKubernetes",
        ..ClusterFacts::default()
    };
    let refusal = |facts: &ClusterFacts, architecture: Option<Architecture>| {
        check(facts, architecture).map_err(|error| error.to_string()).err().unwrap_or_default()
    };
    assert_eq!(refusal(&facts, Some(Architecture::X86_64)), "");
    let old = ClusterFacts { version: "4.9.1", ..facts.clone() };
    assert_eq!(
        refusal(&old, Some(Architecture::Arm64)),
        "cannot use arm64 architecture because it's not compatible on version 4.9.1 of OpenShift"
    );
    assert_eq!(
        refusal(&facts, Some(Architecture::S390x)),
        "cannot use Cluster Managed Networking because it's not compatible with the s390x architecture on version 4.22.9 \
         of OpenShift"
    );
    // Where the architecture is left to the infra-envs, it is no ground.
    assert_eq!(refusal(&facts, None), "");
    let single = ClusterFacts { control_plane_count: 1, ..facts.clone() };
    assert_eq!(
        refusal(&single, None),
        "cannot use Single Node OpenShift because it's not compatible with Cluster Managed Networking"
    );
    let sdn = ClusterFacts { network_type: "OpenShiftSDN", ..facts.clone() };
    assert_eq!(refusal(&sdn, None), "Openshift version 4.22.9 is not supported for OpenShiftSDN NetworkType");
    assert_eq!(refusal(&ClusterFacts { version: "4.14", ..sdn }, None), "");
    let machines = ClusterFacts { operators: vec!["mtv"], ..facts.clone() };
    assert_eq!(refusal(&machines, Some(Architecture::Arm64)), "");
    let machines = ClusterFacts { operators: vec!["mtv", "cnv"], ..facts };
    assert!(refusal(&machines, Some(Architecture::Arm64)).starts_with("cannot use OpenShift Migration Toolkit"));
}
