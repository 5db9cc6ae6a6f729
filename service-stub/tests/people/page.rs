//! The page, as a browser without JavaScript has it.

use super::{Machine, World};
use api::HostStage;
use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
};

fn page(world: &World, path: &str) -> String {
    let answer = world.running.get(path);
    let text = String::from_utf8(answer.body.clone()).unwrap();
    assert_eq!(answer.status, 200, "{path}: {text}");
    let policy = answer.header("content-security-policy").unwrap_or_default();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    text
}

fn host_path(world: &World, machine: &Machine) -> String {
    format!("/ui/infra-envs/{}/hosts/{}", world.infra_env.id, machine.id)
}

/// Posts a form as a browser does.
fn post(world: &World, path: &str, form: &str, site: &str) -> (u16, String) {
    let headers = [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", site)];
    let answer = world.running.request("POST", path, &headers, form.as_bytes());
    (answer.status, String::from_utf8(answer.body).unwrap())
}

fn token(html: &str) -> String {
    let (_, rest) = html.split_once("name=\"token\" value=\"").unwrap();
    rest.split('"').next().unwrap().to_owned()
}

#[test]
fn pages_show_what_there_is() {
    let mut world = World::new(1, 1);
    world.machines[0].name = "<img src=x onerror=alert(1)>".into();
    let cluster = format!("/ui/clusters/{}", world.cluster.id);
    assert!(page(&world, "/").contains(&format!("<a href=\"{cluster}\">rack</a>")));
    assert!(page(&world, &cluster).contains("None yet: boot machines"));
    world.discover_all();
    let html = page(&world, &cluster);
    assert!(html.contains("&lt;img src=x onerror=alert(1)&gt;") && !html.contains("<img"), "{html}");
    assert!(html.contains("block the installation"), "{html}");
    let host = page(&world, &host_path(&world, &world.machines[0]));
    assert!(host.contains("Disk is removable") && host.contains("2 GiB"), "{host}");
    assert!(!host.contains("<img"), "{host}");

    for missing in [
        "/ui/clusters/7e5ff6df-e038-4103-bbb2-90433ded3e50",
        "/ui/clusters/7e5ff6df-e038-4103-bbb2-90433ded3e50/install",
    ] {
        let answer = world.running.get(missing);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (404, Some("text/html; charset=utf-8")),
            "{missing}"
        );
    }
    assert_eq!(world.running.get("/ui/clusters/nonsense").status, 400);
    for (path, kind) in
        [("/ui/page.css", "text/css"), ("/ui/page.js", "text/javascript"), ("/ui/icon.svg", "image/svg+xml")]
    {
        assert!(world.running.get(path).header("content-type").unwrap().starts_with(kind));
    }
}

#[test]
fn the_mesh_is_a_matrix() {
    let world = World::new(3, 3);
    world.discover_all();
    let html = page(&world, &format!("/ui/clusters/{}", world.cluster.id));
    assert_eq!(html.matches("</span> L2 L3</span>").count(), 6, "each of three reaches two: {html}");
}

#[test]
fn actions_are_asked_for_and_taken_from_here_only() {
    let world = World::new(1, 1);
    let cluster = format!("/ui/clusters/{}", world.cluster.id);
    let install = format!("{cluster}/install");
    let early = token(&page(&world, &install));
    let (status, refused) = post(&world, &install, &format!("token={early}"), "same-origin");
    assert_eq!(status, 409);
    assert!(refused.contains("Cluster is not ready for installation"), "{refused}");
    world.discover_all();
    assert!(page(&world, &cluster).contains(&install));
    let asked = page(&world, &install);
    assert!(asked.contains("will be overwritten") && asked.contains("/dev/vda"), "{asked}");
    let form = format!("token={}", token(&asked));
    let reset = format!("token={}", token(&page(&world, &format!("{cluster}/reset"))));
    for (form, site) in [(form.as_str(), "cross-site"), ("token=", "same-origin"), (&reset, "same-origin")] {
        assert_eq!(post(&world, &install, form, site).0, 403, "{form} {site}");
    }
    assert_eq!(world.status(), "ready");
    let (status, _) = post(&world, &install, &form, "same-origin");
    assert!(matches!(status, 200 | 303), "{status}");
    world.running.monitor();
    assert_eq!(world.status(), "installing");
    // Larger than what sockets hold: the rest of it is taken, or the connection would close under the refusal.
    assert_eq!(post(&world, &install, &"x".repeat(16 << 20), "same-origin").0, 413);
    assert_eq!(post(&world, &format!("{cluster}/explode"), &form, "same-origin").0, 404);
}

#[test]
fn an_open_page_is_notified_of_changes_and_ends_with_the_service() {
    let world = World::new(1, 1);
    let address = world.running.url.strip_prefix("http://").unwrap().to_owned();
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(testkit::wait::LIMIT)).unwrap();
    write!(stream, "GET /ui/stream?cluster_id={} HTTP/1.1\r\nHost: {address}\r\n\r\n", world.cluster.id).unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut data = || lines.by_ref().map_while(Result::ok).find(|line| line.starts_with("data: "));
    assert_eq!(data().as_deref(), Some("data: first"));
    world.discover_all();
    world.install();
    assert!(data().is_some());
    world.put(&world.machines[0], HostStage::StartingInstallation, "").unwrap();
    assert!(data().is_some());
    drop(world);
    // A stream that had held up the stop would be cut off in the end, without its last chunk.
    let rest: Vec<String> = lines.map_while(Result::ok).filter(|line| !line.is_empty()).collect();
    assert_eq!(rest.last().map(String::as_str), Some("0"), "{rest:?}");
}
