//! The commands for people, against a service in this process.

use super::{API, Files, World, iso, pull_secret};
use clap::Parser;
use service_stub::control::{
    Console, apply::Apply, cluster::Cluster, event::Event, host::Host, infra_env::InfraEnv, wait::Wait,
};
use testkit::wait::until;

#[derive(Parser)]
#[command(name = "landfall")]
enum Landfall {
    Cluster(Cluster),
    InfraEnv(InfraEnv),
    Host(Host),
    Event(Event),
    Wait(Wait),
    Apply(Apply),
}

/// What a command prints and its exit code, or why it failed.
fn landfall(world: &World, words: &[&str]) -> Result<(u8, String), String> {
    let url = ["--url", world.running.url.as_str()];
    let words = ["landfall"].iter().chain(&words[..1]).chain(&url).chain(&words[1..]).copied();
    let command = Landfall::try_parse_from(words).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    let console = &mut Console { out: &mut out, width: None };
    let code = match command {
        Landfall::Cluster(command) => command.run_on(console),
        Landfall::InfraEnv(command) => command.run_on(console),
        Landfall::Host(command) => command.run_on(console),
        Landfall::Event(command) => command.run_on(console),
        Landfall::Wait(command) => command.run_on(console),
        Landfall::Apply(command) => command.run_on(console),
    }
    .map_err(|error| format!("{error:#}"))?;
    let code = (0..=255).find(|known| code == std::process::ExitCode::from(*known)).unwrap();
    Ok((code, String::from_utf8(out).unwrap()))
}

fn printed(world: &World, words: &[&str]) -> String {
    landfall(world, words).unwrap_or_else(|error| panic!("{words:?}: {error}")).1
}

#[test]
fn a_rack_is_made_shown_and_installed_from_the_command_line() {
    let world = World::new(1, 1);
    let machine = &world.machines[0];
    let directory = tempfile::tempdir().unwrap();
    let secret = directory.path().join("pull-secret.json");
    std::fs::write(&secret, pull_secret()).unwrap();
    let secret = secret.to_str().unwrap();

    let made = printed(
        &world,
        &[
            "cluster",
            "create",
            "edge",
            "--openshift-version",
            "4.22",
            "--pull-secret-file",
            secret,
            "--base-domain",
            "example.com",
            "--control-plane-count",
            "1",
            "--machine-network",
            "10.0.0.0/24",
            "--set",
            "tags=lab",
        ],
    );
    assert!(made.starts_with("cluster edge (") && made.contains("created; its status is "), "{made}");
    let shown = || printed(&world, &["cluster", "show", "edge"]);
    until("the first verdict on the cluster", || shown().starts_with("edge is "));
    let shown = shown();
    assert!(shown.contains("Domain                edge.example.com\n"), "{shown}");
    assert!(shown.contains("Machine networks      10.0.0.0/24\n"), "{shown}");
    assert!(shown.contains("\n  the cluster: "), "{shown}");
    let all = printed(&world, &["cluster", "show", "edge", "--all"]);
    assert!(!shown.contains("Validations of") && all.contains("Validations of the cluster:\n"), "{all}");
    let list = printed(&world, &["cluster", "list"]);
    assert!(list.starts_with("NAME  ID        STATUS"), "{list}");
    assert_eq!(list.lines().count(), 3, "{list}");
    let json = printed(&world, &["cluster", "list", "--json"]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap().as_array().unwrap().len(), 2);
    let yaml = printed(&world, &["cluster", "show", "edge", "-o", "yaml"]);
    let yaml: serde_json::Value = serde_norway::from_str(&yaml).unwrap();
    assert_eq!((&yaml["name"], &yaml["openshift_version"]), (&"edge".into(), &"4.22".into()));
    assert_eq!(printed(&world, &["cluster", "list", "-o", "wide"]), list);
    printed(&world, &["cluster", "delete", "edge"]);
    let gone = landfall(&world, &["cluster", "show", "edge"]).unwrap_err();
    assert!(gone.starts_with("no cluster has the name 'edge'") && gone.contains("known: rack ("), "{gone}");

    let refused = landfall(&world, &["cluster", "install", "rack"]).unwrap_err();
    assert!(
        refused.starts_with("cluster rack is ") && refused.contains(" and cannot be installed:\n  the cluster: "),
        "{refused}"
    );
    let early = landfall(&world, &["wait", "rack", "--for", "known", "--timeout", "0s"]).unwrap();
    assert_eq!(early.0, 124);

    world.discover_all();
    let (code, ready) = landfall(&world, &["wait", "rack", "--for", "known"]).unwrap();
    assert_eq!((code, ready.as_str()), (0, "cluster rack is ready\n"));
    let hosts = printed(&world, &["host", "list", "--cluster", "rack"]);
    assert!(hosts.contains("node-1") && hosts.contains("2 CPU, 2 GiB, 18.6 GiB"), "{hosts}");
    printed(&world, &["host", "set", "node-1", "--hostname", "blade", "--disk", "/dev/vda"]);
    assert_eq!(world.host(machine).requested_hostname, "blade");
    let start = &machine.id.to_string()[..8];
    let host = printed(&world, &["host", "show", start, "--all"]);
    assert!(host.contains("/dev/sr0") && host.contains("no: "), "{host}");
    assert!(host.contains("Validations of blade:\n"), "{host}");

    let begun = printed(&world, &["cluster", "install", "rack"]);
    assert!(begun.ends_with("is being installed; its status is preparing-for-installation\n"), "{begun}");
    world.running.monitor();
    assert_eq!(world.status(), "installing");
    world.write_disk(machine);
    let list = printed(&world, &["host", "list"]);
    assert!(list.contains("Rebooting"), "{list}");
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| landfall(&world, &["wait", "rack", "--timeout", "300s"]));
        world.follow_pointer(machine);
        world.put(machine, api::HostStage::Joined, "").unwrap();
        world.put(machine, api::HostStage::Done, "").unwrap();
        waiting.join().unwrap()
    });
    assert_eq!(waiting, Ok((0, "cluster rack is installed\n".into())));
    let past = landfall(&world, &["wait", "rack", "--for", "ready"]).unwrap();
    assert_eq!(past.0, 3, "{}", past.1);
    let events = printed(&world, &["event", "list", "--cluster", "rack", "--limit", "3"]);
    assert_eq!(events.lines().count(), 3, "{events}");
}

#[test]
fn mistakes_of_users_are_named() {
    let world = World::new(1, 0);
    let secret = landfall(&world, &["cluster", "set", "rack", "pull_secret={\"auths\":{}}"]).unwrap_err();
    assert!(secret.contains("write pull_secret=@FILE") && !secret.contains("auths"), "{secret}");
    let nobody = landfall(&world, &["host", "show", "nobody"]).unwrap_err();
    assert_eq!(nobody, "no host has the name 'nobody' or an id that starts with it: there are none");
    let address = printed(&world, &["infra-env", "iso", "rack", "--show-url"]);
    assert!(address.starts_with(&world.running.url) && address.ends_with(".iso\n"), "{address}");
    // This service has no ISO to give.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rack.iso");
    let refused = landfall(&world, &["infra-env", "iso", "rack", "--output", path.to_str().unwrap()]).unwrap_err();
    assert!(
        refused.contains("the service refuses: the service has no live ISO: start it with --iso FILE (404 to GET "),
        "{refused}"
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left of a failed download");
    let shown = printed(&world, &["infra-env", "show", "rack"]);
    assert!(shown.contains("full-iso\n"), "{shown}");
    let nowhere = Landfall::try_parse_from(["landfall", "cluster", "list", "--url", "http://127.0.0.1:9"]);
    let Ok(Landfall::Cluster(command)) = nowhere else { panic!("it parses") };
    let error = command.run_on(&mut Console { out: &mut Vec::new(), width: None }).unwrap_err();
    assert!(format!("{error:#}").contains("no answer from http://127.0.0.1:9"), "{error:#}");
}

/// Names and contents of an archive's files.
fn entries(archive: &str) -> Vec<(String, Vec<u8>)> {
    let mut archive = tar::Archive::new(std::fs::File::open(archive).unwrap());
    let read = |entry: std::io::Result<tar::Entry<std::fs::File>>| {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
        (entry.path().unwrap().display().to_string(), content)
    };
    archive.entries().unwrap().map(read).collect()
}

#[test]
fn hosts_are_changed_and_files_fetched_from_the_command_line() {
    const EMPTY: &str = r#"{"ignition":{"version":"3.2.0"}}"#;
    let world = World::start_with(1, 1, false, |directory| {
        let path = directory.join("live.iso");
        iso::write(&path);
        let files = [
            ("bootstrap.ign", EMPTY),
            ("master.ign", EMPTY),
            ("worker.ign", EMPTY),
            ("kubeconfig", "with ingress"),
            ("kubeconfig-noingress", "without ingress"),
            ("kubeadmin-password", "s3cret"),
        ];
        files.iter().for_each(|(name, text)| std::fs::write(directory.join(name), text).unwrap());
        Files { iso: Some(path), cluster: Some(directory.to_owned()), ..Files::default() }
    });
    let machine = &world.machines[0];
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    world.discover_all();

    assert!(printed(&world, &["host", "list", "--unbound"]).contains("node-1"));
    for _ in 0..2 {
        printed(&world, &["host", "bind", "node-1", "rack"]);
        assert_eq!(world.host(machine).cluster_id, Some(world.cluster.id));
        let twice = landfall(&world, &["host", "bind", "node-1", "rack"]).unwrap_err();
        assert!(twice.contains("the service answered 409: "), "{twice}");
        world.discover_all();
        printed(&world, &["host", "unbind", "node-1"]);
        assert_eq!(world.host(machine).cluster_id, None);
        world.discover_all();
    }
    printed(&world, &["host", "bind", "node-1", "rack"]);
    world.discover_all();

    printed(
        &world,
        &[
            "infra-env",
            "set",
            "rack",
            "ssh_authorized_key=ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g me",
        ],
    );
    printed(
        &world,
        &[
            "cluster",
            "set",
            "rack",
            "additional_ntp_source=192.0.2.9",
            "ssh_public_key=ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g me",
        ],
    );
    let shown: serde_json::Value =
        serde_json::from_str(&printed(&world, &["cluster", "show", "rack", "--json"])).unwrap();
    assert_eq!(
        (&shown["additional_ntp_source"], &shown["ssh_public_key"]),
        (
            &"192.0.2.9".into(),
            &"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g me".into()
        )
    );
    printed(&world, &["host", "set", "node-1", "--role", "master"]);
    printed(&world, &["host", "installer-args", "node-1", "--", "--append-karg", "console=ttyS0"]);
    assert_eq!(world.host(machine).installer_args, r#"["--append-karg","console=ttyS0"]"#);
    let refused = landfall(&world, &["host", "installer-args", "node-1", "--", "--no-such"]).unwrap_err();
    assert!(refused.contains("the service answered 400: "), "{refused}");
    printed(&world, &["host", "installer-args", "node-1"]);
    assert!(["", "[]"].contains(&world.host(machine).installer_args.as_str()));

    let extra = r#"{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/extra"}]}}"#;
    std::fs::write(at("extra.ign"), extra).unwrap();
    printed(&world, &["host", "ignition", "node-1", "--set", &at("extra.ign")]);
    assert!(printed(&world, &["host", "ignition", "node-1"]).contains("/etc/extra"));
    std::fs::write(at("wrong.ign"), "{").unwrap();
    let wrong = landfall(&world, &["host", "ignition", "node-1", "--set", &at("wrong.ign")]).unwrap_err();
    assert!(wrong.contains("400"), "{wrong}");

    printed(&world, &["infra-env", "iso", "rack", "--output", &at("rack.iso")]);
    let live = rootfs_overlay::area::LiveIso::open(at("rack.iso")).unwrap();
    let config: serde_json::Value = serde_json::from_slice(&live.ignition().unwrap()).unwrap();
    assert_ne!(config["storage"]["files"], serde_json::Value::Null);

    printed(&world, &["cluster", "logs", "rack", "--output", &at("early.tar")]);
    let early: Vec<String> = entries(&at("early.tar")).into_iter().map(|(name, _)| name).collect();
    assert_eq!(early, ["cluster_metadata.json", "cluster_events.json"], "nothing is generated before an installation");

    printed(&world, &["cluster", "install", "rack"]);
    world.running.monitor();
    let installed = printed(&world, &["host", "ignition", "node-1", "--installed"]);
    assert!(serde_json::from_str::<serde_json::Value>(&installed).is_ok(), "{installed}");
    let kubeconfig = at("kubeconfig");
    printed(&world, &["cluster", "kubeconfig", "rack", "--no-ingress", "--output", &kubeconfig]);
    assert_eq!(std::fs::read_to_string(&kubeconfig).unwrap(), "without ingress");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&kubeconfig).unwrap());
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(printed(&world, &["cluster", "file", "rack", "master.ign"]), EMPTY);
    let early = landfall(&world, &["cluster", "credentials", "rack"]).unwrap_err();
    assert!(early.contains("the service answered 409: "), "{early}");
    let none = landfall(&world, &["cluster", "logs", "rack", "--host", "node-1", "--output", &at("one")]).unwrap_err();
    assert!(none.contains(&format!("the service answered 409: Logs for host {} were not found", machine.id)), "{none}");
    let form = "multipart/form-data; boundary=x";
    for (query, text) in [
        ("logs_type=controller".to_owned(), "of the controller"),
        (format!("logs_type=host&host_id={}&infra_env_id={}", machine.id, world.infra_env.id), "of a host"),
    ] {
        let body = format!(
            "--x\r\nContent-Disposition: form-data; name=\"upfile\"; filename=\"a\"\r\n\r\n{text}\r\n--x--\r\n"
        );
        let path = format!("{API}/v2/clusters/{}/logs?{query}", world.cluster.id);
        assert_eq!(world.running.request("POST", &path, &[("content-type", form)], body.as_bytes()).status, 204);
    }
    printed(&world, &["cluster", "logs", "rack", "--output", &at("logs.tar")]);
    let mut files = entries(&at("logs.tar"));
    let all = files.len();
    files.retain(|(name, _)| !name.starts_with("cluster_manifest_system_openshift_"));
    assert!(files.len() < all, "those that the service generated");
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let expected =
        ["cluster_metadata.json", "cluster_events.json", "controller_logs.tar.gz", "rack_bootstrap_node-1.tar"];
    assert_eq!(names, expected);
    let [(_, metadata), (_, events), (_, controller), (_, host)] = files.as_mut_slice() else { unreachable!() };
    let read = |bytes: &[u8]| -> serde_json::Value { serde_json::from_slice(bytes).unwrap() };
    assert_eq!(read(metadata)["hosts"][0]["requested_hostname"], "node-1");
    assert_eq!(read(events)[0]["name"], "cluster_registration_succeeded");
    assert_eq!(controller, b"of the controller");
    let mut host = tar::Archive::new(host.as_slice());
    let mut log = host.entries().unwrap().next().unwrap().unwrap();
    assert_eq!(log.path().unwrap().display().to_string(), "rack_bootstrap_node-1.tar.gz");
    assert_eq!(std::io::read_to_string(&mut log).unwrap(), "of a host");
    printed(&world, &["cluster", "logs", "rack", "--host", "node-1", "--output", &at("one")]);
    assert_eq!(std::fs::read_to_string(at("one")).unwrap(), "of a host");
    let again = landfall(&world, &["cluster", "logs", "rack", "--host", "node-1", "--output", &at("one")]).unwrap_err();
    assert!(again.contains("one exists: remove it"), "{again}");

    let json = printed(&world, &["event", "list", "--cluster", "rack", "--json", "--severity", "info"]);
    let events: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    assert!(!events.is_empty() && events.iter().all(|event| event["severity"] == "info"), "{json}");
    printed(&world, &["cluster", "cancel", "rack"]);
    printed(&world, &["cluster", "reset", "rack"]);
    printed(&world, &["host", "delete", "node-1"]);
    printed(&world, &["infra-env", "delete", "rack"]);
    printed(&world, &["cluster", "delete", "rack"]);
    assert_eq!(printed(&world, &["cluster", "list", "--json"]).trim(), "[]");
}

#[test]
fn a_host_that_failed_is_first_everywhere_with_its_reason_and_where_its_logs_are() {
    let world = World::new(3, 3);
    world.discover_all();
    world.install();
    world.put(&world.machines[1], api::HostStage::Failed, "the disk is gone").unwrap();
    // Now the others fail with it.
    world.running.monitor();
    assert_eq!((world.host(&world.machines[0]).status.as_str(), world.status().as_str()), ("error", "error"));
    let name = &world.machines[1].name;
    let lines = format!(
        "  {name}: Failed - the disk is gone\n    logs: landfall cluster logs rack --host {name}\n    \
         events: landfall event list --cluster rack --host {name}\n"
    );
    let shown = printed(&world, &["cluster", "show", "rack"]);
    assert!(shown.starts_with(&format!("rack is error:\n{lines}\n")), "{shown}");
    let (code, waited) = landfall(&world, &["wait", "rack", "--timeout", "0s"]).unwrap();
    assert!(code == 3 && waited.ends_with(&lines), "{waited}");
    let list = printed(&world, &["host", "list"]);
    assert!(
        list.lines().nth(1).is_some_and(|line| line.starts_with(name) && line.contains("the disk is gone")),
        "{list}"
    );
    assert!(list.contains(&format!("    logs: landfall cluster logs {} --host {name}\n", world.cluster.id)), "{list}");
    let host = printed(&world, &["host", "show", name]);
    assert!(host.starts_with(&format!("{name} is error:\n  {name}: Failed - the disk is gone\n    logs: ")), "{host}");
    let events = printed(&world, &["event", "list", "--cluster", "rack", "--host", name]);
    assert!(events.contains("the disk is gone"), "{events}");
    let refused = landfall(&world, &["cluster", "install", "rack"]).unwrap_err();
    assert!(refused.starts_with(&format!("cluster rack is error and cannot be installed:\n  {name}: ")), "{refused}");
}

#[test]
fn documents_are_applied_and_applied_again() {
    let world = World::new(1, 1);
    let machine = &world.machines[0];
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rack.toml");
    let write = |domain: &str| {
        let text = format!(
            "hosts = 1\nname = \"edge\"\ndomain = \"{domain}\"\n[[machine]]\nmac = \"{}\"\nname = \"node-1\"\n",
            machine.mac
        );
        std::fs::write(&path, text).unwrap();
    };
    let apply = |more: &[&str]| {
        let all = printed(&world, &[&["apply", "-f", path.to_str().unwrap()], more].concat());
        let rows = all.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        rows.collect::<Vec<_>>()
    };
    let host = format!("host node-1 ({})", machine.mac);
    write("example.com");
    assert_eq!(
        apply(&["--dry-run"]),
        ["cluster edge would be created", "infra-env edge would be created", &format!("{host} has not registered")]
    );
    assert_eq!(
        apply(&[]),
        ["cluster edge created", "infra-env edge created", &format!("{host} kept until it registers")]
    );
    let shown = printed(&world, &["infra-env", "show", "edge", "--json"]);
    let infra_env: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let cluster = printed(&world, &["cluster", "show", "edge", "--json"]);
    assert!(cluster.contains(infra_env["cluster_id"].as_str().unwrap()));
    assert_eq!(
        apply(&[]),
        ["cluster edge unchanged", "infra-env edge unchanged", &format!("{host} kept until it registers")]
    );
    write("lab.example.com");
    assert_eq!(apply(&[])[0], "cluster edge changed (base_dns_domain)");
    assert!(printed(&world, &["cluster", "show", "edge"]).contains("edge.lab.example.com"));

    // Of the rack that the host is in.
    world.discover_all();
    let text = format!("hosts = 1\n[[machine]]\nmac = \"{}\"\nname = \"first\"\nrole = \"master\"\n", machine.mac);
    std::fs::write(&path, text).unwrap();
    let host = format!("host first ({})", machine.mac);
    assert_eq!(apply(&[])[2], format!("{host} changed (host_name)"));
    assert_eq!(apply(&[])[2], format!("{host} unchanged"));
    assert_eq!(world.host(machine).requested_hostname, "first");

    // As documents again, it is what it is.
    let path = directory.path().join("rack.yaml");
    let exported = printed(&world, &["cluster", "export", "rack"]);
    std::fs::write(&path, &exported).unwrap();
    let applied = printed(&world, &["apply", "-f", path.to_str().unwrap()]);
    let rows: Vec<&str> = applied.lines().skip(1).collect();
    assert!(rows.len() == 3 && rows.iter().all(|row| row.ends_with("  unchanged")), "{applied}\n{exported}");
}

#[test]
fn a_host_is_added_to_an_imported_cluster_from_the_command_line() {
    let world = World::start(1, 1, false);
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (ca, token) = (write("ca.pem", &super::common::certificate_pem()), write("token", "t0ken\n"));
    let id = world.infra_env.id.to_string();
    let words = ["cluster", "import", "far", "--api-name", "api.far.example.com", "--openshift-cluster-id", &id];
    let endpoint = ["--ignition-endpoint", "https://cfg.example.com/config", "--ignition-endpoint-ca", &ca];
    let made = printed(&world, &[words.as_slice(), &endpoint].concat());
    assert!(made.starts_with("cluster far (") && made.contains("imported; its status is adding-hosts"), "{made}");
    let clusters = world.running.get(&format!("{API}/v2/clusters")).document();
    let far = clusters.as_array().unwrap().iter().find(|cluster| cluster["name"] == "far").unwrap();
    assert_eq!(far["ignition_endpoint"]["url"], "https://cfg.example.com/config");
    assert!(far["ignition_endpoint"]["ca_certificate"].as_str().unwrap().len() > 100);
    printed(&world, &["cluster", "set", "far", "--ignition-endpoint", "https://other.example.com/config"]);

    world.register(&world.machines[0]).unwrap();
    world.known(0);
    printed(&world, &["host", "bind", "node-1", "far"]);
    world.leaves_and_comes_back(0);
    world.known(0);
    printed(&world, &["host", "set", "node-1", "--ignition-endpoint-token-file", &token]);
    let refused = landfall(&world, &["host", "set", "node-1", "ignition_endpoint_token=t0ken"]).unwrap_err();
    assert!(refused.contains("ignition_endpoint_token is a secret"), "{refused}");
    world.known(0);
    let begun = printed(&world, &["host", "install", "node-1", "--yes"]);
    assert!(begun.contains("is being installed; its status is installing"), "{begun}");
    let config = world.running.client().host_ignition(world.infra_env.id, world.machines[0].id).unwrap();
    let config = String::from_utf8(config).unwrap();
    assert!(config.contains("\"certificateAuthorities\""), "the authority stays: {config}");
    assert!(config.contains("https://other.example.com/config/worker") && config.contains("Bearer t0ken"), "{config}");
    let refused = landfall(&world, &["cluster", "import", "x", "--api-name", "a", "--openshift-cluster-id", "no"]);
    assert!(refused.is_err());
}
