use super::*;
use std::{path::PathBuf, time::Duration};

struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

fn release(version: &str, architectures: &str, level: &str) -> String {
    let multi = architectures.contains(',');
    let list: Vec<String> = architectures.split(',').map(|name| format!("{name:?}")).collect();
    let minor = version::minor(version).unwrap();
    let suffix = if multi { "-multi" } else { "" };
    let one = if multi { "multi" } else { architectures };
    let level = if level.is_empty() { String::new() } else { format!(r#","support_level":"{level}""#) };
    format!(
        r#"{{"openshift_version":"{minor}{suffix}","cpu_architecture":"{one}","cpu_architectures":[{}],"url":"r/{version}-{one}","version":"{version}"{level},"extra":1}}"#,
        list.join(",")
    )
}

fn catalogue() -> Catalogue {
    let files = Files::new();
    let releases = [
        release("4.21.3", "x86_64", ""),
        release("4.22.9", "x86_64", ""),
        release("4.22.10", "x86_64", ""),
        release("4.22.8", "aarch64", ""),
        release("4.22.10-multi", "x86_64,aarch64,s390x", ""),
        release("4.23.0-rc.1", "x86_64", "beta"),
        release("4.23.0-rc.2", "x86_64", "beta"),
    ];
    let releases = files.write("releases", &format!("[{}]", releases.join(",")));
    let os = |version: &str, architecture: &str| {
        format!(
            r#"{{"openshift_version":"{version}","cpu_architecture":"{architecture}","url":"o/{version}","version":"b"}}"#
        )
    };
    let images = [
        os("4.21", "x86_64"),
        os("4.22", "x86_64"),
        os("4.22", "aarch64"),
        os("4.9.1", "x86_64"),
        os("4.9.7", "x86_64"),
    ];
    let images = files.write("images", &format!("[{}]", images.join(",")));
    let gather = files.write("gather", r#"{"4.22-x86_64":{"ocp":"a"},"4.22":{"ocp":"b"},"4.22.9-x86_64":{"ocp":"c"}}"#);
    Catalogue::read(Some(&releases.into()), Some(&images.into()), Some(&gather.into())).unwrap().unwrap()
}

#[test]
fn a_minor_release_stands_for_its_latest() {
    let catalogue = catalogue();
    for (version, architecture, expected) in [
        ("4.22", "x86_64", Ok("4.22.10")),
        ("4.22", "", Ok("4.22.10")),
        ("4.22.9", "amd64", Ok("4.22.9")),
        ("4.22", "arm64", Ok("4.22.8")),
        ("4.22-multi", "s390x", Ok("4.22.10-multi")),
        ("4.22-multi", "multi", Ok("4.22.10-multi")),
        ("4.22.10-multi", "aarch64", Ok("4.22.10-multi")),
        ("4.23", "x86_64", Ok("4.23.0-rc.2")),
        ("4.23.0-rc.1", "x86_64", Ok("4.23.0-rc.1")),
        ("4.99", "x86_64", Err("no release image found for openshiftVersion: '4.99' and CPU architecture 'x86_64'")),
        ("4.22", "s390x", Err("no release image found for openshiftVersion: '4.22' and CPU architecture 's390x'")),
        (
            "4",
            "x86_64",
            Err(
                "invalid openshiftVersion '4'. Expected format: 'major.minor' or 'major.minor.patch', optionally followed by a prerelease identifier",
            ),
        ),
    ] {
        let found = catalogue.release(version, architecture);
        let found = found.map(|release| release.version.as_str()).map_err(|why| why.to_string());
        assert_eq!(found, expected.map_err(str::to_owned), "{version} {architecture}");
    }
}

#[test]
fn os_images_by_version_and_minor_release() {
    let catalogue = catalogue();
    for (version, architecture, expected) in [
        ("4.22.9", "x86_64", Ok("o/4.22")),
        ("4.22", "aarch64", Ok("o/4.22")),
        ("4.9", "x86_64", Ok("o/4.9.7")),
        ("4.9.1", "x86_64", Ok("o/4.9.1")),
        ("4.22", "s390x", Err("The requested CPU architecture (s390x) isn't specified in OS images list")),
        (
            "10000.0.0",
            "x86_64",
            Err(
                "The requested OS image for version (10000.0.0) and CPU architecture (x86_64) isn't specified in OS images list",
            ),
        ),
        ("x", "x86_64", Err("invalid version")),
    ] {
        let found = catalogue.os_image(version, architecture, "");
        let found = found.map(|image| image.url.as_str()).map_err(|why| why.to_string());
        assert_eq!(found, expected.map_err(str::to_owned), "{version} {architecture}");
    }
    assert_eq!(catalogue.latest_os_image("x86_64", "").unwrap().openshift_version, "4.22");
    assert_eq!(catalogue.os_architectures("4.22.9"), ["x86_64", "arm64"]);
    assert!(catalogue.os_architectures("4.9").is_empty(), "listed by patches only");
}

#[test]
fn ignored_versions_are_neither_found_nor_offered() {
    let mut catalogue = catalogue();
    let list = |text: &str| Listing::Text(text.to_owned());
    catalogue.ignore(&list(r#"["4.21", "4.22.10", "4.23"]"#)).unwrap();
    let found = |version: &str, architecture: &str| {
        let found = catalogue.release(version, architecture);
        found.map(|release| release.version.clone()).map_err(|why| why.to_string())
    };
    for (version, expected) in [
        ("4.21.3", Err("version '4.21.3' is ignored")),
        ("4.22.10", Err("version '4.22.10' is ignored")),
        ("4.22", Ok("4.22.9")),
        ("4.22.9", Ok("4.22.9")),
        ("4.21", Err("no matching release image found")),
        ("4.99", Err("no release image found for openshiftVersion: '4.99' and CPU architecture 'x86_64'")),
    ] {
        assert_eq!(found(version, "x86_64"), expected.map(str::to_owned).map_err(str::to_owned), "{version}");
    }
    assert_eq!(found("4.22.10-multi", "s390x"), Err("version '4.22.10' is ignored".to_owned()));
    assert_eq!(
        catalogue.release_at("r/4.21.3-x86_64", "x86_64").unwrap_err().to_string(),
        "failed to get release image by URL r/4.21.3-x86_64 during cluster registration: version '4.21.3' is ignored"
    );
    assert_eq!(catalogue.offers(None, false).into_keys().collect::<Vec<_>>(), ["4.22.8", "4.22.9"]);
    assert_eq!(catalogue.offers(None, true).into_keys().collect::<Vec<_>>(), ["4.22.9"]);
    let error = catalogue.ignore(&list(r#"["4.21", "x"]"#)).unwrap_err().to_string();
    assert!(error.ends_with("entry 2: 'x' is not a version such as 4.22 or 4.22.9"), "{error}");
}

#[test]
fn sources_of_releases_are_checked_and_shown_as_they_are() {
    let list = |text: &str| Listing::Text(text.to_owned());
    let text = r#"[{"openshift_version":"4.22","multi_cpu_architectures":["x86_64"],"upgrade_channels":[{"cpu_architecture":"x86_64","channels":["stable","eus"]}]}]"#;
    let expected: serde_json::Value = serde_json::from_str(text).unwrap();
    let read = |text: &str| ReleaseSources::read(Some(&list(text)), "", "", Duration::ZERO);
    assert_eq!(serde_json::to_value(read(text).unwrap().list).unwrap(), expected);
    for (what, by) in
        [("eus", "nightly"), ("x86_64", "vax"), ("4.22\"", "4.22.9\""), ("4.22\"", "four\""), ("upgrade_", "")]
    {
        assert!(read(&text.replace(what, by)).is_err(), "{what} {by}");
    }
    for bad in ["{}", "[1]"] {
        assert!(read(bad).is_err(), "{bad}");
    }
}

#[test]
fn images_that_gather_logs_by_the_closest_version() {
    let catalogue = catalogue();
    let ocp = |version, architecture| Some(catalogue.must_gather(version, architecture)?["ocp"].as_str());
    assert_eq!(ocp("4.22.9", "x86_64"), Some("c"));
    assert_eq!(ocp("4.22.10", "x86_64"), Some("a"));
    assert_eq!(ocp("4.22.10", "arm64"), Some("b"));
    assert_eq!(ocp("4.23.0", "x86_64"), None);
}

#[test]
fn hosts_of_a_cluster_with_several_architectures() {
    let catalogue = catalogue();
    assert!(catalogue.check_host_release("4.22.10-multi", "s390x").is_ok());
    let why = catalogue.check_host_release("4.23", "s390x").unwrap_err().to_string();
    assert!(why.starts_with("The requested RHCOS version (4.23, arch: s390x) does not have"), "{why}");
    assert!(why.ends_with("match one of these: 4.22-multi"), "{why}");
    let why = catalogue.check_host_release("4.22", "ppc64le").unwrap_err().to_string();
    assert!(why.ends_with("There are no OCP versions available in release images for arch ppc64le."), "{why}");
}

#[test]
fn the_latest_of_each_minor_release() {
    let catalogue = catalogue();
    let latest: Vec<&str> = latest_of_each_minor(&catalogue.releases().iter().collect::<Vec<_>>())
        .iter()
        .map(|release| release.version.as_str())
        .collect();
    assert_eq!(latest, ["4.21.3", "4.22.10", "4.22.10-multi", "4.23.0-rc.2"]);
}

#[test]
fn offers_have_an_os_image_for_each_architecture() {
    let catalogue = catalogue();
    let names = |version, only_latest| catalogue.offers(version, only_latest).into_keys().collect::<Vec<_>>();
    assert_eq!(names(Some("4.22"), true), ["4.22.10", "4.22.10-multi"]);
    assert_eq!(names(None, false), ["4.21.3", "4.22.10", "4.22.10-multi", "4.22.8", "4.22.9"]);
    let multi = &catalogue.offers(Some("multi"), false)["4.22.10-multi"];
    let expected = serde_json::json!({"cpu_architectures": ["x86_64", "arm64"], "display_name": "4.22.10-multi", "support_level": "production"});
    assert_eq!(serde_json::to_value(multi).unwrap(), expected);
}

#[test]
fn versions_in_order() {
    let ordered = ["4.9.59", "4.10", "4.22.0-ec.1", "4.22.0-rc.2", "4.22.0-rc.10", "4.22", "4.22.9", "4.22.10"];
    for pair in ordered.windows(2) {
        let [first, second] = pair else { continue };
        assert!(Version::parse(first) < Version::parse(second), "{first} {second}");
    }
    for bad in ["", "x", "4..2", "4.22-", "4.22-a..b", "4.22 ", "99999999999999999999"] {
        assert_eq!(Version::parse(bad), None, "{bad}");
    }
    assert_eq!(version::at_least("4.22.0-rc.1", "4.22"), Some(true), "by numbers alone");
    assert!(version::older("4.9.59", "4.10") && !version::older("any", "4.10"));
}

#[test]
fn what_a_file_must_have() {
    let files = Files::new();
    let good = release("4.22.9", "x86_64", "");
    for (text, expected) in [
        ("{}".to_owned(), "is not a JSON list of release images"),
        ("[{}]".to_owned(), "entry 1: openshift_version is missing"),
        (format!("[{good},{good}]"), "entry 2: url r/4.22.9-x86_64 is that of an earlier entry"),
        (
            format!("[{}]", good.replace("\"x86_64\"]", "\"vax\"]")),
            "entry 1: cpu_architectures: 'vax' is not an architecture",
        ),
        (
            format!("[{}]", good.replace("\"4.22\"", "\"latest\"")),
            "entry 1: openshift_version: 'latest' is not a version",
        ),
        (format!("[{}]", good.replace("\"r/", &format!("\"{}", "x".repeat(1100)))), "entry 1: url is longer"),
        (format!("[{}]", vec!["{}"; 5000].join(",")), "has 5000 entries, more than 4096"),
        (" ".repeat(5 << 20), "has more than 4 MiB"),
    ] {
        let path = files.write("releases", &text);
        let error = Catalogue::read(Some(&path.into()), None, None).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let gather = files.write("gather", r#"{"latest":{"ocp":"a"}}"#);
    let error = Catalogue::read(None, None, Some(&gather.into())).unwrap_err().to_string();
    assert!(error.ends_with("entry 1: 'latest' begins with no version"), "{error}");
    assert_eq!(Catalogue::read(None, None, None).unwrap(), None);
}
