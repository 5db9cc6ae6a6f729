use super::*;
use proptest::prelude::*;

const DIGEST: &str = "sha256:35855191065d777e85d53f903628d99ec5c829ee07c075d884a8b7d23c5790fd";

/// Places in order, with what is special about them.
fn places(registries: &Registries, name: &str) -> Vec<String> {
    let endpoints = registries.endpoints(&name.parse().unwrap()).unwrap();
    let special = |endpoint: &Endpoint| {
        [(endpoint.mirror, " mirror"), (endpoint.insecure, " insecure"), (endpoint.blocked, " blocked")]
            .into_iter()
            .filter_map(|(is, what)| is.then_some(what))
            .collect::<String>()
    };
    endpoints.iter().map(|endpoint| format!("{}{}", endpoint.reference, special(endpoint))).collect()
}

#[test]
fn without_a_file_the_name_tells() {
    let none = Registries::default();
    assert_eq!(places(&none, "quay.io/a/b:1"), ["quay.io/a/b:1"]);
    let error = none.endpoints(&"alpine".parse().unwrap()).unwrap_err();
    assert_eq!(error, ResolveError::Short { path: "alpine".into() });
}

/// What the machine-config operator writes of an ImageDigestMirrorSet, and the manual page's example.
#[test]
fn mirrors_come_first() {
    let registries = parse(
        r#"
        unqualified-search-registries = ["registry.access.redhat.com", "docker.io"]
        short-name-mode = ""

        [[registry]]
          prefix = ""
          location = "quay.io/openshift-release-dev/ocp-v4.0-art-dev"
          blocked = true
          [[registry.mirror]]
            location = "bastion.lab:8443/ocp/release"
            pull-from-mirror = "digest-only"
          [[registry.mirror]]
            location = "mirror/by-tag"
            insecure = true
            pull-from-mirror = "tag-only"

        [[registry]]
          prefix = "example.com/foo"
          location = "internal.example.net/bar/"
          insecure = true
          [[registry.mirror]]
            location = "mirror.local/foo"
        "#,
    )
    .unwrap();
    let art = "quay.io/openshift-release-dev/ocp-v4.0-art-dev";
    assert_eq!(
        places(&registries, &format!("{art}@{DIGEST}")),
        [format!("bastion.lab:8443/ocp/release@{DIGEST} mirror"), format!("{art}@{DIGEST} blocked")]
    );
    assert_eq!(
        places(&registries, &format!("{art}:1")),
        ["mirror/by-tag:1 mirror insecure".to_owned(), format!("{art}:1 blocked")]
    );
    assert_eq!(places(&registries, &format!("{art}x:1")), [format!("{art}x:1")]);
    assert_eq!(
        places(&registries, "example.com/foo/image:latest"),
        ["mirror.local/foo/image:latest mirror", "internal.example.net/bar/image:latest insecure"]
    );
    assert_eq!(places(&registries, "alpine:3"), ["registry.access.redhat.com/alpine:3", "docker.io/library/alpine:3"]);
}

#[test]
fn the_longest_prefix_counts() {
    let registries = parse(
        r#"
        [[registry]]
        location = "a.io"
        [[registry]]
        location = "a.io/ns/repo"
        blocked = true
        [[registry]]
        prefix = "*.b.io"
        insecure = true
        [[registry.mirror]]
        location = "a.io/ns"
        [[registry]]
        prefix = "x.b.io:5000/y:1"
        mirror-by-digest-only = true
        [[registry.mirror]]
        location = "c.io"
        "#,
    )
    .unwrap();
    assert_eq!(places(&registries, "a.io/ns/repo:1"), ["a.io/ns/repo:1 blocked"]);
    assert_eq!(places(&registries, "a.io/ns/repo2:1"), ["a.io/ns/repo2:1"]);
    assert_eq!(places(&registries, "a.io:5000/ns/repo:1"), ["a.io:5000/ns/repo:1"], "another port, another registry");
    assert_eq!(
        places(&registries, "x.b.io:1/repo"),
        ["a.io/ns/repo mirror blocked", "x.b.io:1/repo insecure"],
        "a mirror may be blocked by name"
    );
    assert_eq!(places(&registries, "xb.io/repo"), ["xb.io/repo"]);
    assert_eq!(places(&registries, "x.b.io:5000/y:1"), ["x.b.io:5000/y:1"]);
}

#[test]
fn aliases_and_drop_in_files() {
    let directory = tempfile::tempdir().unwrap();
    let main = directory.path().join("registries.conf");
    fs::create_dir(directory.path().join("registries.conf.d")).unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write(
        "registries.conf",
        "unqualified-search-registries = ['a.io']\n[[registry]]\nlocation = 'b.io'\nblocked = true\n",
    );
    write("registries.conf.d/2.conf", "[aliases]\nubi = 'b.io/ubi9'\n'n/m' = ''\n");
    write(
        "registries.conf.d/1.conf",
        "[aliases]\nubi = 'c.io/ubi8'\n'n/m' = 'c.io/m'\n[[registry]]\nlocation = 'b.io'\n",
    );
    write("registries.conf.d/3.txt", "no TOML");
    let registries = Registries::load(&main, true).unwrap();
    assert_eq!(places(&registries, &format!("ubi:1@{DIGEST}")), [format!("b.io/ubi9:1@{DIGEST}")]);
    assert_eq!(places(&registries, "n/m"), ["a.io/n/m"]);

    let absent = directory.path().join("absent");
    assert_eq!(Registries::load(&absent, false).unwrap(), Registries::default());
    assert!(Registries::load(&absent, true).is_err());
}

#[test]
fn what_is_wrong_is_said() {
    let fault = |text: &str| parse(text).unwrap_err().to_string();
    assert!(fault("registry = 1").contains("registry"));
    assert!(
        fault("[registries.search]\nregistries = ['a.io']").starts_with("version 1 of the format is not supported")
    );
    assert_eq!(fault("[[registry]]\nblocked = true"), "a [[registry]] table has neither prefix nor location");
    assert_eq!(
        fault("[[registry]]\nlocation = 'https://a.io'"),
        "location 'https://a.io' is not of the form host[:port][/path]"
    );
    let registries = parse("[[registry]]\nprefix = 'a.io'\nlocation = 'b.io/NS'").unwrap();
    let error = registries.endpoints(&"a.io/x".parse().unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "registries.conf rewrites it to 'b.io/NS/x'");
}

proptest! {
    #[test]
    fn any_text_is_survived(text in any::<String>(), prefix in "[*a-z./:@]{0,12}", location in "[a-z./:]{0,12}") {
        let _ = parse(&text);
        let text = format!("[[registry]]\nprefix = '{prefix}'\nlocation = '{location}'\n[[registry.mirror]]\nlocation = '{location}'");
        if let Ok(registries) = parse(&text) {
            for name in ["a.b/c:1", "a/b", "a.b:1/c"] {
                let _ = registries.endpoints(&name.parse().unwrap());
            }
        }
    }
}
