//! Manifests of users: what is taken, in which state, and what becomes of it.

use crate::common::{API, Answer, Files, Running};
use crate::files::settings::{cluster, get};
use base64::Engine;
use serde_json::{Value, json};

struct World {
    running: Running,
    /// The cluster's.
    path: String,
    id: String,
    _files: tempfile::TempDir,
}

impl World {
    /// A cluster with a control plane.
    fn new() -> Self {
        let files = tempfile::tempdir().unwrap();
        for name in ["bootstrap.ign", "master.ign", "worker.ign"] {
            std::fs::write(files.path().join(name), r#"{"ignition":{"version":"3.2.0"}}"#).unwrap();
        }
        let running = Running::start(Files { cluster: Some(files.path().into()), ..Files::default() });
        let id = cluster(&running);
        Self { path: format!("/v2/clusters/{id}/manifests"), id, running, _files: files }
    }

    fn post(&self, file: &str, folder: &str, content: &str) -> Answer {
        let content = base64::engine::general_purpose::STANDARD.encode(content);
        self.post_encoded(json!({"file_name": file, "folder": folder, "content": content}))
    }

    fn post_encoded(&self, body: Value) -> Answer {
        self.running.json("POST", &self.path, &body)
    }

    fn patch(&self, body: Value) -> Answer {
        self.running.json("PATCH", &self.path, &body)
    }

    fn delete(&self, query: &str) -> Answer {
        self.running.request("DELETE", &format!("{API}{}?{query}", self.path), &[], b"")
    }

    fn file(&self, query: &str) -> Answer {
        self.running.get(&format!("{API}{}/files?{query}", self.path))
    }

    /// Folder, name and source of each.
    fn list(&self, query: &str) -> Vec<String> {
        let list = get(&self.running, &format!("{}{query}", self.path));
        let text = |own: &Value, name: &str| own[name].as_str().unwrap().to_owned();
        let row = |own: &Value| {
            format!("{}/{} {}", text(own, "folder"), text(own, "file_name"), text(own, "manifest_source"))
        };
        list.as_array().unwrap().iter().map(row).collect()
    }

    fn uses_manifests(&self) -> bool {
        let shown = get(&self.running, &format!("/v2/clusters/{}", self.id));
        shown["feature_usage"].as_str().unwrap().contains("\"Custom manifest\"")
    }
}

fn reason(answer: &Answer) -> String {
    let document = answer.document();
    document["reason"].as_str().or(document["message"].as_str()).unwrap().to_owned()
}

#[test]
fn each_rule_of_a_new_manifest_has_its_status_and_text() {
    let world = World::new();
    let id = &world.id;
    assert_eq!(world.post("twin.yaml", "openshift", "a: 1\n").status, 201);
    let of_file = |what: &str, file: &str, why: &str| format!("{what} of file {file} for cluster ID {id} {why}");
    let content = |file: &str, why: &str| of_file("Manifest content", &format!("manifests/{file}"), why);
    let named = |file: &str, why: &str| format!("Cluster manifest {file} for cluster {id} {why}");
    let large = "#".repeat((1 << 20) + 1);
    for (file, text, status, why) in [
        (".yaml", "a: 1", 422, named(".yaml", "has an invalid filename.")),
        (".a.yaml", "a: 1", 422, named(".a.yaml", "has an invalid filename.")),
        ("a b.yaml", "a: 1", 422, named("a b.yaml", "should not include a space in its name.")),
        ("a/b.yaml", "a: 1", 400, "file_name in body should match".to_owned()),
        ("a.txt", "a: 1", 400, "file_name in body should match".to_owned()),
        ("a.yaml", "", 400, content("a.yaml", "is empty")),
        ("a.yaml", &large, 400, content("a.yaml", "exceeds the maximum file size of 1MiB")),
        ("a.yaml", "a: 1\n--- {", 400, content("a.yaml", "has an invalid YAML format: ")),
        ("a.json", "{", 400, content("a.json", "has an illegal JSON format")),
        ("a.yaml.patch_1", "a: 1", 400, of_file("Patch content", "manifests/a.yaml.patch_1", "is invalid: ")),
        ("a.yml.patch", "- op: [a]", 400, of_file("Patch content", "manifests/a.yml.patch", "is invalid: ")),
        (
            "twin.yaml",
            "a: 1",
            400,
            format!(
                "manifest file twin.yaml for cluster ID {id} in folder manifests cannot be uploaded as it is not distinct between {{manifest, openshift}} folders"
            ),
        ),
        // The name is looked at before the content, and the content before the other folder.
        (".yaml", "", 422, named(".yaml", "has an invalid filename.")),
        ("twin.yaml", "{", 400, content("twin.yaml", "has an invalid YAML format: ")),
    ] {
        let answer = world.post(file, "manifests", text);
        assert_eq!(answer.status, status, "{file} {}", reason(&answer));
        assert!(reason(&answer).starts_with(&why), "{file}: {} is not {why}", reason(&answer));
    }
    for (encoded, why) in [
        ("   ", content("a.yaml", "is empty")),
        ("*", format!("failed to base64-decode cluster manifest content for cluster {id}")),
        ("YTog", String::new()),
    ] {
        let answer = world.post_encoded(json!({"file_name": "a.yaml", "content": encoded}));
        match why.as_str() {
            "" => assert_eq!(answer.status, 201),
            why => assert_eq!((answer.status, reason(&answer).as_str()), (400, why)),
        }
    }
    for (file, text) in [
        ("b.yaml", "a: 1\n---\nb: 2\n"),
        ("c.yml", "# nothing\n"),
        ("d.json", "{\"a\": 1}"),
        ("e.yaml.patch_1", "- op: replace\n  path: /spec/x\n  value: {y: 1}\n"),
        ("e.yaml.patch_2", "[]"),
        ("f:g+h.yaml", "a: 1"),
    ] {
        let answer = world.post(file, "manifests", text);
        let made = json!({"file_name": file, "folder": "manifests", "manifest_source": "user"});
        assert_eq!((answer.status, answer.document()), (201, made));
    }
    let missing = format!("/v2/clusters/{}/manifests", uuid::Uuid::new_v4());
    let answer = world.running.json("POST", &missing, &json!({"file_name": ".yaml", "content": ""}));
    assert_eq!((answer.status, reason(&answer).as_str()), (404, "Object Not Found"), "before anything else");
    assert_eq!(world.running.get(&format!("{API}{missing}")).status, 404);
}

#[test]
fn manifests_are_listed_renamed_and_deleted() {
    let world = World::new();
    assert!(!world.uses_manifests());
    assert_eq!(world.post("a.yaml", "openshift", "a: 1\n").status, 201);
    assert_eq!(world.post("a.yaml", "openshift", "a: 2\n").status, 201, "replaced");
    assert!(world.uses_manifests());
    assert_eq!(world.file("folder=openshift&file_name=a.yaml").body, b"a: 2\n");
    let missing = |folder: &str, file: &str| {
        let query = format!("folder={folder}&file_name={file}");
        let answer = world.file(&query);
        let why = format!("Cluster manifest {folder}/{file} doesn't exist in cluster {}", world.id);
        assert_eq!((answer.status, reason(&answer)), (404, why));
    };
    missing("manifests", "a.yaml");
    missing("openshift", "a.txt");
    assert_eq!(world.file("folder=openshift&file_name=..%2f..%2fstate.redb").status, 422);
    assert_eq!(world.file("folder=openshift&file_name=a%2fb.yaml").status, 422);
    assert_eq!(world.file("folder=etc&file_name=a.yaml").status, 400);

    let rename = |more: Value| {
        let mut body = json!({"folder": "openshift", "file_name": "a.yaml"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        world.patch(body)
    };
    assert_eq!(world.post("b.yaml", "openshift", "b: 1\n").status, 201);
    assert_eq!(world.post("c.yaml", "manifests", "c: 1\n").status, 201);
    for (more, status) in [
        (json!({"updated_file_name": "c.yaml"}), 400),
        (json!({"updated_file_name": ".yaml"}), 422),
        (json!({"updated_content": "ewo="}), 400),
        (json!({"updated_content": " "}), 400),
        (json!({"updated_file_name": "b.yaml"}), 200),
    ] {
        assert_eq!(rename(more.clone()).status, status, "{more}");
    }
    missing("openshift", "a.yaml");
    assert_eq!(world.file("folder=openshift&file_name=b.yaml").body, b"a: 2\n", "what had the name is replaced");
    assert_eq!(rename(json!({})).status, 404, "it has another name now");
    assert_eq!(rename(json!({"updated_content": "YjogMgo="})).status, 200, "a new one is made of a content");
    let answer = world.patch(json!({"folder": "openshift", "file_name": "a.yaml", "updated_folder": "manifests"}));
    assert_eq!(answer.document(), json!({"file_name": "a.yaml", "folder": "manifests", "manifest_source": "user"}));
    assert_eq!(world.list(""), ["manifests/a.yaml user", "manifests/c.yaml user", "openshift/b.yaml user"]);

    assert_eq!(world.delete("folder=openshift&file_name=.yaml").status, 422);
    for query in ["file_name=a.yaml", "file_name=c.yaml", "folder=openshift&file_name=b.yaml", "file_name=a.txt"] {
        assert_eq!([world.delete(query).status, world.delete(query).status], [200, 200], "{query}: missing is deleted");
    }
    assert_eq!(world.list(""), [""; 0]);
    assert!(!world.uses_manifests());

    assert_eq!(world.post("d.yaml", "manifests", "a: 1\n").status, 201);
    let cluster = format!("{API}/v2/clusters/{}", world.id);
    assert_eq!(world.running.request("DELETE", &cluster, &[], b"").status, 204);
    let left = std::fs::read_dir(world.running.state.path().join("manifests")).unwrap().count();
    assert_eq!(left, 0, "a deleted cluster leaves nothing");
}

#[test]
fn a_users_manifest_replaces_a_generated_one() {
    const FILE: &str = "50-masters-chrony-configuration.yaml";
    let world = World::new();
    let generated = world.list("?include_system_generated=true");
    assert!(generated.contains(&format!("openshift/{FILE} system")), "{generated:?}");
    assert_eq!(world.list(""), [""; 0]);
    let own = world.file(&format!("folder=openshift&file_name={FILE}"));
    assert!(String::from_utf8(own.body).unwrap().contains("kind: MachineConfig"));
    assert_eq!(world.post(FILE, "manifests", "a: 1").status, 400, "a name is in one folder only");
    assert_eq!(world.post(FILE, "openshift", "a: 1").status, 201);
    let after = world.list("?include_system_generated=true");
    assert!(after.contains(&format!("openshift/{FILE} user")) && after.len() == generated.len(), "{after:?}");
    assert_eq!(world.file(&format!("folder=openshift&file_name={FILE}")).body, b"a: 1");
    let change = json!({"folder": "openshift", "file_name": "50-workers-chrony-configuration.yaml",
        "updated_file_name": "60-mine.yaml"});
    assert_eq!(world.patch(change).status, 200);
    let copied = world.file("folder=openshift&file_name=60-mine.yaml");
    assert!(String::from_utf8(copied.body).unwrap().contains("50-workers-chrony-configuration"));
}

#[test]
fn what_has_no_effect_is_stored_and_an_event_says_so() {
    let running = Running::start(Files::default());
    let id = cluster(&running);
    let path = format!("/v2/clusters/{id}");
    let events = || {
        let events = get(&running, &format!("/v2/events?cluster_id={id}"));
        let own = events.as_array().unwrap().iter().filter(|event| event["name"] == "cluster_setting_without_effect");
        own.map(|event| event["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let settings = json!({"schedulable_masters": true, "disk_encryption": {"enable_on": "all", "mode": "tpmv2"}});
    let changed = running.json("PATCH", &path, &settings);
    assert_eq!(changed.status, 201);
    assert_eq!(changed.document()["disk_encryption"], settings["disk_encryption"]);
    assert_eq!(running.json("PATCH", &path, &json!({"name": "edge"})).status, 201);
    let manifest = json!({"file_name": "a.yaml", "content": "e30="});
    assert_eq!(running.json("POST", &format!("{path}/manifests"), &manifest).status, 201);
    assert_eq!(get(&running, &format!("{path}/manifests?include_system_generated=true")).as_array().unwrap().len(), 1);
    let without = "is stored but has no effect: this service brings up no control plane";
    let expected =
        ["Disk encryption", "schedulable_masters", "Manifest manifests/a.yaml"].map(|what| format!("{what} {without}"));
    assert_eq!(events(), expected);

    let world = World::new();
    assert_eq!(world.post("a.yaml", "manifests", "a: 1").status, 201);
    assert_eq!(world.post("a.yaml.patch", "manifests", "[]").status, 201);
    let events = get(&world.running, &format!("/v2/events?cluster_id={}", world.id));
    let own = events.as_array().unwrap().iter().filter(|event| event["name"] == "cluster_setting_without_effect");
    let messages: Vec<_> = own.map(|event| event["message"].clone()).collect();
    let expected =
        "Manifest manifests/a.yaml.patch is stored but has no effect: the files of the control plane are ready-made";
    assert_eq!(messages, [expected]);
}
