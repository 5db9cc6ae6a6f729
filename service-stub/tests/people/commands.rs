//! The commands for people, against a service in this process.

use super::{World, pull_secret};
use clap::Parser;
use service_stub::control::{Console, cluster::Cluster, event::Event, host::Host, infra_env::InfraEnv, wait::Wait};

#[derive(Parser)]
#[command(name = "landfall")]
enum Landfall {
    Cluster(Cluster),
    InfraEnv(InfraEnv),
    Host(Host),
    Event(Event),
    Wait(Wait),
}

/// What a command prints and its exit code, or why it failed.
fn landfall(world: &World, words: &[&str]) -> Result<(u8, String), String> {
    let url = ["--url", world.running.url.as_str()];
    let words = ["landfall"].iter().chain(words).chain(&url).copied();
    let command = Landfall::try_parse_from(words).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    let console = &mut Console { out: &mut out, width: None };
    let code = match command {
        Landfall::Cluster(command) => command.run_on(console),
        Landfall::InfraEnv(command) => command.run_on(console),
        Landfall::Host(command) => command.run_on(console),
        Landfall::Event(command) => command.run_on(console),
        Landfall::Wait(command) => command.run_on(console),
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
    let shown = printed(&world, &["cluster", "show", "edge"]);
    assert!(shown.contains("Domain              edge.example.com\n"), "{shown}");
    assert!(shown.contains("Machine networks    10.0.0.0/24\n"), "{shown}");
    assert!(shown.contains("In the way of cluster:\n  failure"), "{shown}");
    let list = printed(&world, &["cluster", "list"]);
    assert!(list.starts_with("NAME  ID        STATUS"), "{list}");
    assert_eq!(list.lines().count(), 3, "{list}");
    let json = printed(&world, &["cluster", "list", "--json"]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap().as_array().unwrap().len(), 2);
    printed(&world, &["cluster", "delete", "edge"]);
    let gone = landfall(&world, &["cluster", "show", "edge"]).unwrap_err();
    assert!(gone.starts_with("there is no cluster 'edge'") && gone.contains("there is rack ("), "{gone}");

    // The service's reason is told as it is.
    let refused = landfall(&world, &["cluster", "install", "rack"]).unwrap_err();
    assert!(refused.contains("the service answered 409: Cluster is not ready for installation"), "{refused}");
    let early = landfall(&world, &["wait", "rack", "--for", "known", "--timeout", "0s"]).unwrap();
    assert_eq!(early.0, 124);

    world.discover_all();
    let (code, ready) = landfall(&world, &["wait", "rack", "--for", "known"]).unwrap();
    assert_eq!((code, ready.as_str()), (0, "cluster rack is ready\n"));
    let hosts = printed(&world, &["host", "list", "--cluster", "rack"]);
    assert!(hosts.contains("node-1") && hosts.contains("2 CPU, 2 GiB, 20 GB"), "{hosts}");
    printed(&world, &["host", "set", "node-1", "--hostname", "blade", "--disk", "/dev/vda"]);
    assert_eq!(world.host(machine).requested_hostname, "blade");
    let start = &machine.id.to_string()[..8];
    let host = printed(&world, &["host", "show", start, "--validations"]);
    assert!(host.contains("/dev/sr0") && host.contains("no: "), "{host}");
    assert!(host.contains("Validations of blade:\n"), "{host}");

    let begun = printed(&world, &["cluster", "install", "rack"]);
    assert!(begun.ends_with("is being installed; its status is installing\n"), "{begun}");
    world.write_disk(machine);
    let list = printed(&world, &["host", "list"]);
    assert!(list.contains("Rebooting"), "{list}");
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| landfall(&world, &["wait", "rack", "--timeout", "20s"]));
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
fn what_people_get_wrong_is_told() {
    let world = World::new(1, 0);
    let secret = landfall(&world, &["cluster", "set", "rack", "pull_secret={\"auths\":{}}"]).unwrap_err();
    assert!(secret.contains("write pull_secret=@FILE") && !secret.contains("auths"), "{secret}");
    let nobody = landfall(&world, &["host", "show", "nobody"]).unwrap_err();
    assert_eq!(nobody, "there is no host 'nobody' (neither a name nor the start of an id): there is none at all");
    let address = printed(&world, &["infra-env", "iso", "rack", "--show-url"]);
    assert!(address.starts_with(&world.running.url) && address.ends_with(".iso\n"), "{address}");
    // This service has no ISO to give.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rack.iso");
    let refused = landfall(&world, &["infra-env", "iso", "rack", "--output", path.to_str().unwrap()]).unwrap_err();
    assert!(refused.contains("the service answered 404: "), "{refused}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left of a failed download");
    let shown = printed(&world, &["infra-env", "show", "rack"]);
    assert!(shown.contains("full-iso\n"), "{shown}");
    let nowhere = Landfall::try_parse_from(["landfall", "cluster", "list", "--url", "http://127.0.0.1:9"]);
    let Ok(Landfall::Cluster(command)) = nowhere else { panic!("it parses") };
    let error = command.run_on(&mut Console { out: &mut Vec::new(), width: None }).unwrap_err();
    assert!(format!("{error:#}").contains("no answer from http://127.0.0.1:9"), "{error:#}");
}
