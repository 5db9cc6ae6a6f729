//! Manifests that are split, patched and put in.

use super::*;
use api::ClusterId;
use proptest::prelude::*;
use serde_json::json;

fn manifest(file: &str, content: &str, source: Source) -> Manifest {
    Manifest { folder: Folder::Openshift, file: file.to_owned(), content: content.into(), source }
}

fn names(manifests: &[Manifest]) -> Vec<&str> {
    manifests.iter().map(|manifest| manifest.file.as_str()).collect()
}

#[test]
fn users_documents_are_split() {
    let three = "# first\na: 0644\n---\n---\nb: 'on'\n---\n# nothing\n---\n- c\n";
    let (first, second, third) = ("x.y-abcdefg-00.yaml", "x.y-abcdefg-01.yaml", "x.y-abcdefg-02.yaml");
    for (file, content, source, expected) in [
        ("x.y.yaml", three, Source::User, vec![first, second, third]),
        ("one.yml", "a: 1\n---\nb: 2\n", Source::User, vec!["one-abcdefg-00.yml", "one-abcdefg-01.yml"]),
        ("x.yaml", three, Source::System, vec!["x.yaml"]),
        ("x.yaml", "a: 1\n---\n", Source::User, vec!["x.yaml"]),
        ("x.yaml", "# nothing\n", Source::User, vec!["x.yaml"]),
        ("x.yaml", "a: !!binary aGk=\nb: !own c\n", Source::User, vec!["x.yaml"]),
        ("x.json", "{}", Source::User, vec!["x.json"]),
        ("x.yaml.patch_1", "[]\n---\n[]\n", Source::User, vec!["x.yaml.patch_1"]),
        ("x.yaml", "", Source::User, vec![]),
        (".yaml", "a: 1\n---\nb: 2\n", Source::User, vec!["-abcdefg-00.yaml", "-abcdefg-01.yaml"]),
    ] {
        let all = split(&[manifest(file, content, source)], "abcdefg").unwrap();
        assert_eq!(names(&all), expected, "{file} {content}");
        if expected == [file] {
            assert_eq!(all, [manifest(file, content, source)]);
        }
    }
    let all = split(&[manifest("x.y.yaml", three, Source::User)], "abcdefg").unwrap();
    let read = |manifest: &Manifest| tree::documents(&manifest.content).unwrap();
    assert_eq!(all.iter().flat_map(read).collect::<Vec<_>>(), [json!({"a": 420}), json!({"b": "on"}), json!(["c"])]);
    let refused = split(&[manifest("x.yaml", "a: [", Source::User)], "abcdefg").unwrap_err();
    assert_eq!(refused.to_string(), "Failed to parse yaml document x.yaml");
    for name in ["../x.yaml", "", "..", "a/b.yaml"] {
        assert!(
            matches!(split(&[manifest(name, "a", Source::System)], "t"), Err(ManifestError::Name { .. })),
            "{name}"
        );
    }
    assert!(token().len() == TOKEN_LETTERS && token() != token());
}

#[test]
fn machines_of_platforms_are_removed() {
    let set = "99_openshift-machine-api_master-control-plane-machine-set";
    for (name, vsphere, nutanix) in [
        ("99_openshift-cluster-api_master-machines-0.yaml".to_owned(), true, true),
        ("99_openshift-cluster-api_worker-machineset-12.yaml".to_owned(), true, true),
        (format!("{set}.yaml"), true, true),
        (format!("{set}-1.yaml"), false, true),
        ("99_openshift-cluster-api_master-machines-0.yml".to_owned(), false, false),
        ("openshift-cluster-api_master-machines-0.yaml".to_owned(), false, false),
        ("99_openshift-cluster-api_hosts-0.yaml".to_owned(), false, false),
    ] {
        assert_eq!([is_machines(&name, "vsphere"), is_machines(&name, "nutanix")], [vsphere, nutanix], "{name}");
    }
}

/// A directory after `create manifests`.
fn directory(work: &std::path::Path, files: &[(&str, &str)]) -> Directory {
    let directory = Directory::create(work, ClusterId::random()).unwrap();
    directory.create_folder("manifests", 0o700).unwrap();
    directory.create_folder("openshift", 0o700).unwrap();
    for (path, content) in files {
        directory.write(path, content.as_bytes()).unwrap();
    }
    directory
}

#[test]
fn patches_apply_in_the_order_of_their_names() {
    let work = tempfile::tempdir().unwrap();
    let files = [
        ("manifests/a.yaml", "v: 0"),
        ("openshift/b.yaml", "v: 0"),
        ("manifests/b.yaml", "v: 0"),
        ("manifests/a.yaml.patch_2", "[{op: test, path: /v, value: 1}, {op: replace, path: /v, value: 2}]"),
        ("openshift/a.yaml.patch_1", "[{op: replace, path: /v, value: 1}]"),
        ("manifests/b.yaml.patch", "[{op: replace, path: /v, value: 9}]"),
        ("manifests/c.patch.yaml", "v: 0"),
    ];
    let own = directory(work.path(), &files);
    apply_patches(&own).unwrap();
    let read = |path: &str| tree::documents(&own.read(path).unwrap()).unwrap();
    assert_eq!(read("manifests/a.yaml"), [json!({"v": 2})]);
    // Looked for in openshift first.
    assert_eq!(read("openshift/b.yaml"), [json!({"v": 9})]);
    assert_eq!(read("manifests/b.yaml"), [json!({"v": 0})]);
    assert_eq!(own.names("manifests").unwrap(), ["a.yaml", "b.yaml", "c.patch.yaml"]);
    assert_eq!(own.names("openshift").unwrap(), ["b.yaml"]);
    own.write("openshift/d.yaml.patch", b"[]").unwrap();
    let refused = apply_patches(&own).unwrap_err().to_string();
    assert!(refused.contains("failed to read manifest manifests/d.yaml, which openshift/d.yaml.patch"), "{refused}");
    own.remove("openshift/d.yaml.patch").unwrap();
    own.write("openshift/b.yaml.patch", b"[{op: remove, path: /x}]").unwrap();
    let refused = kernel::in_full(&apply_patches(&own).unwrap_err());
    assert!(refused.ends_with("openshift/b.yaml.patch: Unable to remove nonexistent key: x"), "{refused}");
}

proptest! {
    #[test]
    fn no_manifest_makes_it_panic(content: Vec<u8>, yaml in "[a:\\[\\]{}\n -]{0,60}") {
        for content in [content, yaml.into_bytes()] {
            let manifest = Manifest { folder: Folder::Manifests, file: "x.yaml".to_owned(), content, source: Source::User };
            let _ = split(&[manifest], "abcdefg");
        }
    }
}
