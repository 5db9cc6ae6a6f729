use super::*;
use flate2::read::GzDecoder;
use std::collections::BTreeMap;

/// Passes for a program of this machine.
fn program() -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 62, 0]).unwrap();
    file.write_all(&[7; 100_000]).unwrap();
    file
}

fn image(program: &Path) -> Image {
    Image {
        program: program.to_owned(),
        purpose: Purpose::Agent,
        reference: "localhost/landfall-agent:9".into(),
        version: "9".into(),
        entrypoint: None,
        created_s: 1_000_000_000,
        created: "2001-09-09T01:46:40Z".into(),
    }
}

fn members(bytes: &[u8]) -> BTreeMap<String, (Header, Vec<u8>)> {
    let mut archive = tar::Archive::new(bytes);
    let read = |entry: io::Result<tar::Entry<&[u8]>>| {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (entry.path().unwrap().display().to_string(), (entry.header().clone(), content))
    };
    archive.entries().unwrap().map(read).collect()
}

/// What a descriptor describes, once it was held against it.
fn blob<'a>(members: &'a BTreeMap<String, (Header, Vec<u8>)>, descriptor: &Value, media_type: &str) -> &'a [u8] {
    assert_eq!(descriptor["mediaType"], media_type);
    let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let (_, content) = &members[&format!("blobs/sha256/{digest}")];
    assert_eq!(hex::lower(Sha256::digest(content)), digest);
    assert_eq!(descriptor["size"], content.len());
    content
}

fn document(content: &[u8]) -> Value {
    serde_json::from_slice(content).unwrap()
}

fn serve_image(program: &Path) -> Image {
    Image { purpose: Purpose::Serve, reference: "localhost/landfall-serve:9".into(), ..image(program) }
}

/// The configuration in an archive, and the members of its layer.
fn unpacked(bytes: &[u8]) -> (Value, BTreeMap<String, (Header, Vec<u8>)>) {
    let archive = members(bytes);
    let index = document(&archive["index.json"].1);
    let manifest = document(blob(&archive, &index["manifests"][0], "application/vnd.oci.image.manifest.v1+json"));
    let config = document(blob(&archive, &manifest["config"], "application/vnd.oci.image.config.v1+json"));
    let layer = blob(&archive, &manifest["layers"][0], "application/vnd.oci.image.layer.v1.tar+gzip");
    let mut plain = Vec::new();
    GzDecoder::new(layer).read_to_end(&mut plain).unwrap();
    (config, members(&plain))
}

#[test]
fn the_layout_is_whole_and_each_digest_true() {
    let file = program();
    let mut bytes = Vec::new();
    let written = write(&image(file.path()), &mut bytes).unwrap();
    let members = members(&bytes);
    assert_eq!(document(&members["oci-layout"].1), json!({"imageLayoutVersion": "1.0.0"}));

    let index = document(&members["index.json"].1);
    assert_eq!((&index["schemaVersion"], index["manifests"].as_array().unwrap().len()), (&json!(2), 1));
    let entry = &index["manifests"][0];
    assert_eq!(entry["annotations"]["org.opencontainers.image.ref.name"], "localhost/landfall-agent:9");
    assert_eq!(entry["platform"], json!({"architecture": "amd64", "os": "linux"}));
    assert_eq!(entry["digest"], written.digest);

    let manifest = document(blob(&members, entry, "application/vnd.oci.image.manifest.v1+json"));
    assert_eq!((&manifest["schemaVersion"], manifest["layers"].as_array().unwrap().len()), (&json!(2), 1));
    let config = document(blob(&members, &manifest["config"], "application/vnd.oci.image.config.v1+json"));
    assert_eq!((&config["os"], &config["architecture"]), (&json!("linux"), &json!("amd64")));
    assert_eq!(config["created"], "2001-09-09T01:46:40Z");
    assert_eq!(config["config"]["Cmd"], json!(["agent"]));
    assert_eq!(config["config"].get("Entrypoint"), None);
    assert_eq!(config["config"]["Labels"][AGENT_LABEL], "9");
    let path = config["config"]["Env"][0].as_str().unwrap().strip_prefix("PATH=").unwrap();
    assert!(path.split(':').any(|directory| directory == "/usr/bin"));

    let layer = blob(&members, &manifest["layers"][0], "application/vnd.oci.image.layer.v1.tar+gzip");
    assert_eq!(u64::try_from(layer.len()).unwrap(), written.layer_bytes);
    let mut plain = Vec::new();
    GzDecoder::new(layer).read_to_end(&mut plain).unwrap();
    assert_eq!(
        config["rootfs"],
        json!({"type": "layers", "diff_ids": [format!("sha256:{}", hex::lower(Sha256::digest(&plain)))]})
    );
    // Nothing but what was named: layout, index, three blobs, two directories.
    assert_eq!(members.len(), 7);
}

#[test]
fn the_layer_holds_the_program_and_its_names_and_nobodys_traces() {
    let file = program();
    let (mut layer, ..) = layer(&image(file.path()), File::open(file.path()).unwrap()).unwrap();
    let mut plain = Vec::new();
    layer.seek(SeekFrom::Start(0)).unwrap();
    GzDecoder::new(layer).read_to_end(&mut plain).unwrap();
    let members = members(&plain);
    let (header, content) = &members["usr/bin/agent"];
    assert_eq!((header.mode().unwrap(), content), (0o755, &std::fs::read(file.path()).unwrap()));
    for name in AGENT_LINKS {
        let (header, _) = &members[&format!("usr/bin/{name}")];
        assert_eq!(header.entry_type(), EntryType::Symlink);
        assert_eq!(header.link_name().unwrap().unwrap(), Path::new("agent"));
    }
    assert_eq!(members["tmp/"].0.mode().unwrap(), 0o1777);
    for (name, (header, _)) in &members {
        assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0), "{name}");
        assert_eq!((header.mtime().unwrap(), header.username().unwrap()), (1_000_000_000, Some("")), "{name}");
    }
    assert_eq!(members.len(), DIRECTORIES.len() + accounts(Purpose::Agent).len() + 1 + AGENT_LINKS.len());
}

#[test]
fn the_same_program_gives_the_same_bytes() {
    let (one, other) = (program(), program());
    let bytes = |program: &Path| {
        let mut bytes = Vec::new();
        write(&image(program), &mut bytes).unwrap();
        bytes
    };
    assert!(bytes(one.path()) == bytes(other.path()));
}

#[test]
fn an_installer_image_starts_the_installer() {
    let file = program();
    let mut bytes = Vec::new();
    write(&Image { entrypoint: Some("installer".into()), ..image(file.path()) }, &mut bytes).unwrap();
    let members = members(&bytes);
    let index = document(&members["index.json"].1);
    let manifest = document(blob(&members, &index["manifests"][0], "application/vnd.oci.image.manifest.v1+json"));
    let config = document(blob(&members, &manifest["config"], "application/vnd.oci.image.config.v1+json"));
    assert_eq!(config["config"]["Entrypoint"], json!(["installer"]));
    assert_eq!(config["config"].get("Cmd"), None, "it would come before the arguments");
}

#[test]
fn a_service_image_starts_the_service_as_a_user_without_rights() {
    let file = program();
    let mut bytes = Vec::new();
    write(&serve_image(file.path()), &mut bytes).unwrap();
    let (config, members) = unpacked(&bytes);
    let config = &config["config"];
    assert_eq!((&config["Entrypoint"], config.get("Cmd")), (&json!(["/usr/bin/landfall", "serve"]), None));
    assert_eq!(config["ExposedPorts"], json!({"8090/tcp": {}}));
    assert_eq!(config["Volumes"], json!({"/var/lib/landfall": {}}));
    assert_eq!((&config["User"], &config["WorkingDir"]), (&json!("65532:65532"), &json!("/var/lib/landfall")));
    let environment = config["Env"].as_array().unwrap();
    for pair in ["LANDFALL_STATE_DIR=/var/lib/landfall", "LANDFALL_AUTH=local"] {
        assert!(environment.contains(&json!(pair)), "{pair} in {environment:?}");
    }
    // An agent that upgrades itself would look for an agent in it.
    assert_eq!(config["Labels"].get(AGENT_LABEL), None);

    assert_eq!(members["usr/bin/landfall"].1, std::fs::read(file.path()).unwrap());
    let user = "landfall:x:65532:65532:landfall:/var/lib/landfall:/usr/bin/landfall\n";
    assert!(
        members["etc/passwd"].1.ends_with(user.as_bytes()) && members["etc/group"].1.ends_with(b"landfall:x:65532:\n")
    );
    for (name, (header, _)) in &members {
        let expected = if name == "var/lib/landfall/" { 65532 } else { 0 };
        assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (expected, expected), "{name}");
    }
    assert_eq!(members["var/lib/landfall/"].0.mode().unwrap(), 0o700);
    let others = ["usr/bin/landfall", "var/lib/", "var/lib/landfall/"];
    assert_eq!(members.len(), DIRECTORIES.len() + accounts(Purpose::Serve).len() + others.len());
}

#[test]
fn a_controllers_image_starts_the_controller_as_any_user_of_group_0() {
    let file = program();
    let mut bytes = Vec::new();
    write(&Image { purpose: Purpose::Controller, ..image(file.path()) }, &mut bytes).unwrap();
    let (config, members) = unpacked(&bytes);
    let config = &config["config"];
    let entrypoint = config["Entrypoint"][0].as_str().unwrap();
    assert_eq!((entrypoint, config.get("Cmd")), ("/usr/bin/assisted-installer-controller", None));
    assert_eq!(config["User"], "65532:0");
    assert_eq!(config["Labels"].get(AGENT_LABEL), None);
    assert_eq!(members["usr/bin/landfall"].1, std::fs::read(file.path()).unwrap());
    // The shell's name is there for services that start scripts in this image.
    for link in [entrypoint.trim_start_matches('/'), "usr/bin/bash"] {
        let (header, _) = &members[link];
        assert_eq!(header.link_name().unwrap().unwrap(), Path::new("landfall"), "{link}");
    }
    for (name, (header, _)) in &members {
        assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0), "{name}");
        let (mode, is_home) = (header.mode().unwrap(), name == "root/");
        assert!(mode & 0o040 != 0 || is_home, "{name}: {mode:o}");
        assert!(
            mode & 0o020 == 0 || name.ends_with("tmp/") || header.entry_type() == EntryType::Symlink,
            "{name}: {mode:o}"
        );
    }
    assert_eq!(members.len(), DIRECTORIES.len() + accounts(Purpose::Controller).len() + 1 + 2);
}

#[test]
fn what_no_image_could_start_is_refused() {
    let refused = |content: &[u8]| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        write(&image(file.path()), io::sink()).unwrap_err().to_string()
    };
    assert!(refused(b"").ends_with("it is shorter than an ELF header"));
    assert!(refused(b"#!/bin/sh\necho a program of another kind").ends_with("it is not an ELF file"));
    let mut foreign = [0; 64];
    foreign[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 1, 1]);
    assert!(refused(&foreign).ends_with("its architecture is not supported"));
    let error = write(&image(Path::new("/nonexistent/landfall")), io::sink()).unwrap_err();
    assert_eq!(error.to_string(), "cannot read the program /nonexistent/landfall");
}
