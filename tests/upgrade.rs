//! `landfall netcheck upgrade` against a registry: what comes of images of ours, of others', and of damaged ones.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};
use testkit::http::{Server, reply};

const OURS: &str = env!("CARGO_BIN_EXE_landfall");

/// What is there under which path, with its media type.
type Contents = HashMap<String, (String, Vec<u8>)>;

fn registry(contents: Contents) -> Server {
    Server::start(move |request| match contents.get(request.path()) {
        Some((kind, body)) => reply("200 OK", &format!("Content-Type: {kind}\r\n"), body),
        None => reply(
            if request.path() == "/v2/" { "200 OK" } else { "404 No" },
            "Content-Type: application/json\r\n",
            "{}",
        ),
    })
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// The image of a program as manifest, configuration and layer.
fn image(dir: &Path, program: &[u8]) -> (Value, Value, Vec<u8>) {
    fs::write(dir.join("program"), program).unwrap();
    let run = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).current_dir(dir).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(OURS, &["image", "oci", "--binary", "program", "--output", "image.tar"]);
    run("tar", &["-xf", "image.tar"]);
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap().replace(':', "/");
        fs::read(dir.join("blobs").join(digest)).unwrap()
    };
    let index: Value = serde_json::from_slice(&fs::read(dir.join("index.json")).unwrap()).unwrap();
    let manifest: Value = serde_json::from_slice(&blob(&index["manifests"][0])).unwrap();
    let config = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
    let layer = blob(&manifest["layers"][0]);
    (manifest, config, layer)
}

#[test]
fn the_program_in_an_image_of_ours_is_staged_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut program = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0".to_vec();
    if cfg!(target_arch = "aarch64") {
        program[18] = 183;
    }
    program.extend((0..300_000u32).flat_map(u32::to_le_bytes));
    let (mut manifest, mut config, layer) = image(dir.path(), &program);

    let mut contents = Contents::new();
    let manifest_type = manifest["mediaType"].as_str().unwrap().to_owned();
    let mut add = |name: &str, manifest: &Value, config: &Value, layer: &[u8]| {
        let config = config.to_string().into_bytes();
        let mut manifest = manifest.clone();
        manifest["config"]["digest"] = digest(&config).into();
        manifest["config"]["size"] = config.len().into();
        let path = |kind: &str, what: &str| format!("/v2/{name}/{kind}/{what}");
        let layer_digest = manifest["layers"][0]["digest"].as_str().unwrap().to_owned();
        contents.insert(path("blobs", &digest(&config)), (String::new(), config));
        contents.insert(path("blobs", &layer_digest), (String::new(), layer.to_vec()));
        contents.insert(path("manifests", "2"), (manifest_type.clone(), manifest.to_string().into_bytes()));
    };
    add("ours", &manifest, &config, &layer);
    let mut damaged = layer.clone();
    damaged[layer.len() / 2] ^= 1;
    add("damaged", &manifest, &config, &damaged);
    add("cut", &manifest, &config, &layer[..layer.len() / 2]);
    config["config"]["Labels"] = Value::Null;
    add("others", &manifest, &config, &layer);
    config["config"]["Labels"] = json!({"org.landfall.agent": "2"});
    let empty = fs::read(dir.path().join("oci-layout")).unwrap();
    manifest["layers"][0]["digest"] = digest(&empty).into();
    manifest["layers"][0]["size"] = empty.len().into();
    add("no-layer", &manifest, &config, &empty);
    let server = registry(contents);
    let authority = server.address;

    let conf = dir.path().join("registries.conf");
    fs::write(&conf, format!("[[registry]]\nlocation = '{authority}'\ninsecure = true\n")).unwrap();
    let staged = dir.path().join("run/agent.new");
    for (name, result, is_staged) in [
        ("damaged:2", "failure", false),
        ("ours:2", "success", true),
        ("others:2", "success", false),
        ("cut:2", "failure", false),
        ("no-layer:2", "failure", false),
        ("missing:2", "failure", false),
    ] {
        let reference = format!("{authority}/{name}");
        let request = dir.path().join("request.json");
        fs::write(&request, json!({"agent_image": reference, "new": 1}).to_string()).unwrap();
        let mut command = Command::new(OURS);
        command
            .args(["netcheck", "upgrade", "--json", "--timeout-s", "300", "--request"])
            .arg(&request)
            .arg("--stage")
            .arg(&staged);
        command.env("CONTAINERS_REGISTRIES_CONF", &conf).stdin(Stdio::null());
        let output = command.output().unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {log}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer, json!({"agent_image": reference, "result": result}), "{log}");
        assert_eq!(staged.exists(), is_staged, "{name}: {log}");
        if is_staged {
            assert!(fs::read(&staged).unwrap() == program, "{name}");
            assert_eq!(fs::metadata(&staged).unwrap().permissions().mode() & 0o777, 0o700);
        }
        assert!(!dir.path().join("run/agent.draft").exists(), "{name}");
    }
}
