//! Images from real and from wicked registries, in network namespaces.
#![allow(clippy::unwrap_used)]

use crate::registry;

use api::{ContainerImageAvailabilityRequest, ContainerImageAvailabilityResult};
use base64::{Engine, prelude::BASE64_STANDARD};
use netcheck::image::{
    Attempt, Availability, FetchError, Finding, Findings, ImageError, ImageOptions, Phase, Subject,
    auth::Credentials,
    check,
    reference::Digest,
    registries::{self, Registries},
};
use registry::{Answer, Authority, FakeRegistry, Image, RealRegistry};
use serde_json::json;
use std::{fs, path::PathBuf, time::Duration};
use tempfile::TempDir;
use testkit::{
    net::{Host, Segment},
    wire,
};

const REAL: &str = "192.168.126.2:5000";

/// A client, a host for servers, and files.
struct Lab {
    _segment: Segment,
    client: Host,
    server: Host,
    directory: TempDir,
    authority: Authority,
}

impl Lab {
    fn new() -> Option<Self> {
        let segment = Segment::new()?;
        let client = segment.host("client", "52:54:00:00:01:01", &["192.168.126.1/24"]);
        let server = segment.host("server", "52:54:00:00:01:02", &["192.168.126.2/24", "192.168.126.3/24"]);
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new(directory.path(), ["192.168.126.2", "192.168.126.3"]);
        Some(Self { _segment: segment, client, server, directory, authority })
    }

    /// A file with credentials for `registry`.
    fn authfile(&self, registry: &str, password: &str) -> PathBuf {
        let path = self.directory.path().join(format!("auth-{password}.json"));
        let auth = BASE64_STANDARD.encode(format!("{}:{password}", registry::USER));
        fs::write(&path, json!({"auths": {registry: {"auth": auth}}}).to_string()).unwrap();
        path
    }

    /// ImageOptions of one who may read, and trusts.
    fn options(&self, registry: &str) -> ImageOptions {
        ImageOptions {
            credentials: Credentials::load(&self.authfile(registry, registry::PASSWORD)).unwrap(),
            ca_certs: vec![self.authority.certificate.clone()],
            certs_directories: Vec::new(),
            architecture: "amd64".into(),
            ..ImageOptions::default()
        }
    }

    fn check(&self, options: &ImageOptions, timeout: i64, images: &[String]) -> Findings {
        let request = ContainerImageAvailabilityRequest { images: images.to_vec(), timeout: Some(timeout) };
        let findings = self.client.namespace.enter(|| check(&request, options, None, &|_| ()).unwrap());
        let report = serde_json::to_value(findings.report()).unwrap();
        wire::assert_fits("container_image_availability_response", &report);
        findings
    }

    /// The only place that was tried, and why it would not do.
    fn failure(&self, options: &ImageOptions, image: &str) -> FetchError {
        let mut findings = self.check(options, 600, &[image.to_owned()]);
        match findings.images.remove(0).outcome {
            Err(ImageError::Nowhere(mut attempts)) if attempts.len() == 1 => attempts.remove(0).error,
            other => panic!("{other:?}"),
        }
    }
}

fn registries(text: &str) -> Registries {
    registries::parse(text).unwrap()
}

/// Bytes that came, and where else it was looked for.
fn fetched(finding: &Finding) -> (u64, &[Attempt]) {
    match &finding.outcome {
        Ok(Availability::Fetched { size_bytes, attempts, .. }) => (*size_bytes, attempts),
        other => panic!("{}: {other:?}", finding.name),
    }
}

#[test]
fn images_of_a_real_registry() {
    let Some(lab) = Lab::new() else { return };
    let Some(real) = RealRegistry::start(&lab.server, &lab.authority, lab.directory.path()) else { return };
    let shared = registry::noise(1, 3_000_000);
    let ours = Image::new(&[&shared, &registry::noise(2, 500_000), b"small"]);
    let theirs = Image::new(&[&registry::noise(3, 10)]);
    let second = Image::new(&[&shared, &registry::noise(4, 200_000)]);
    real.push("ns/one", "1", &ours);
    let index = real.push_index("ns/multi", "4.22.9", &[("arm64", &theirs), ("amd64", &ours)]);
    real.push("ns/second", "latest", &second);

    let options = lab.options(REAL);
    let name = |path: &str| format!("{REAL}/{path}");
    let images = [name("ns/multi:4.22.9"), name(&format!("ns/multi:gone@{index}")), name("ns/second")];
    let findings = lab.check(&options, 600, &images);
    let sizes: Vec<_> = findings.images.iter().map(|finding| fetched(finding).0).collect();
    assert_eq!(sizes, [ours.size_bytes(), 0, 200_000], "what was fetched is not fetched again");
    let report = findings.report();
    let first = &report.images[0];
    assert!(first.time > 0.0 && first.time < 600.0, "{first:?}");
    assert!((first.download_rate * 1e6 * first.time - ours.size_bytes() as f64).abs() < 1.0, "{first:?}");
    let mut document = serde_json::to_value(&report).unwrap();
    for (image, number) in [(0, "time"), (0, "download_rate"), (2, "time"), (2, "download_rate")] {
        document["images"][image][number] = 1.into();
    }
    let expected = json!({"images": [
        {"name": images[0], "result": "success", "size_bytes": ours.size_bytes(), "time": 1, "download_rate": 1},
        {"name": images[1], "result": "success"},
        {"name": images[2], "result": "success", "size_bytes": 200_000, "time": 1, "download_rate": 1},
    ]});
    assert_eq!(document, expected);

    // Alone, another architecture.
    let options = ImageOptions { architecture: "arm64".into(), ..options };
    let findings = lab.check(&options, 600, &images[..1]);
    assert_eq!(fetched(&findings.images[0]).0, theirs.size_bytes());
    let options = ImageOptions { architecture: "s390x".into(), ..options };
    assert!(matches!(lab.failure(&options, &images[0]), FetchError::Architecture { .. }));
}

#[test]
fn what_a_real_registry_refuses() {
    let Some(lab) = Lab::new() else { return };
    let Some(real) = RealRegistry::start(&lab.server, &lab.authority, lab.directory.path()) else { return };
    real.push("ns/one", "1", &Image::new(&[b"layer"]));
    let options = lab.options(REAL);
    let image = format!("{REAL}/ns/one:1");
    assert_eq!(fetched(&lab.check(&options, 60, std::slice::from_ref(&image)).images[0]).1.len(), 0);

    let unknown_tag = lab.failure(&options, &format!("{REAL}/ns/one:2"));
    assert_eq!(
        unknown_tag.to_string(),
        "the answer for manifest 2 is status 404, it says: MANIFEST_UNKNOWN manifest unknown"
    );
    assert_eq!(unknown_tag.phase(), Phase::Manifest);

    let file = lab.authfile(REAL, "wrong");
    let wrong = ImageOptions { credentials: Credentials::load(&file).unwrap(), ..options.clone() };
    let refused = lab.failure(&wrong, &image);
    let said = "it says: UNAUTHORIZED authentication required";
    let expected = format!(
        "{REAL} refuses the credentials of user '{}' from {} (status 401, {said})",
        registry::USER,
        file.display()
    );
    assert_eq!(refused.to_string(), expected);
    assert_eq!(refused.phase(), Phase::Auth);

    let anonymous = ImageOptions { credentials: Credentials::default(), ..options.clone() };
    let error = lab.failure(&anonymous, &image).to_string();
    assert_eq!(
        error,
        format!("{REAL} requires credentials, {said}, and there are none for it; no file with credentials was found")
    );

    let stranger = ImageOptions { ca_certs: Vec::new(), ..options.clone() };
    let error = lab.failure(&stranger, &image);
    assert_eq!(error.phase(), Phase::Certificate, "{error:?}");
    assert_eq!(error.to_string(), format!("the certificate of {REAL} is not trusted"));

    // The same, with the CA where containers-certs.d(5) has it; then without verification.
    let certs = lab.directory.path().join("certs.d");
    fs::create_dir_all(certs.join(REAL)).unwrap();
    fs::copy(&lab.authority.certificate, certs.join(REAL).join("ca.crt")).unwrap();
    let trusting = ImageOptions { certs_directories: vec!["/nonexistent".into(), certs], ..stranger.clone() };
    fetched(&lab.check(&trusting, 60, std::slice::from_ref(&image)).images[0]);
    let insecure = registries(&format!("[[registry]]\nlocation = '{REAL}'\ninsecure = true"));
    let careless = ImageOptions { registries: insecure, ..stranger };
    fetched(&lab.check(&careless, 60, std::slice::from_ref(&image)).images[0]);
}

#[test]
fn mirrors_stand_in_and_are_stood_in_for() {
    let Some(lab) = Lab::new() else { return };
    let Some(real) = RealRegistry::start(&lab.server, &lab.authority, lab.directory.path()) else { return };
    real.push("ns/one", "1", &Image::new(&[b"layer"]));
    let down = "192.168.126.2:5999";
    let with = |text: String| ImageOptions { registries: registries(&text), ..lab.options(REAL) };

    let options = with(format!("[[registry]]\nlocation = '{down}'\n[[registry.mirror]]\nlocation = '{REAL}'"));
    let image = [format!("{down}/ns/one:1")];
    let findings = lab.check(&options, 600, &image);
    let Ok(Availability::Fetched { endpoint, attempts, .. }) = &findings.images[0].outcome else {
        panic!("{findings:?}")
    };
    assert_eq!(endpoint.reference.to_string(), format!("{REAL}/ns/one:1"));
    assert!(endpoint.mirror && attempts.is_empty());

    let mirrors =
        format!("[[registry.mirror]]\nlocation = '{down}'\n[[registry.mirror]]\nlocation = '{REAL}/mirrored'");
    let source = format!("[[registry]]\nlocation = '{REAL}'\n");
    let image = [format!("{REAL}/ns/one:1")];
    let findings = lab.check(&with(format!("{source}{mirrors}")), 60, &image);
    let phases: Vec<_> = fetched(&findings.images[0]).1.iter().map(|attempt| attempt.error.phase()).collect();
    assert_eq!(phases, [Phase::Connect, Phase::Manifest], "the source is asked last");

    let findings = lab.check(&with(format!("{source}blocked = true\n{mirrors}")), 60, &image);
    let Err(ImageError::Nowhere(attempts)) = &findings.images[0].outcome else { panic!("{findings:?}") };
    assert_eq!(attempts.len(), 3);
    assert!(matches!(attempts[2].error, FetchError::Blocked));
}

/// Serves an image without asking who wants it.
fn serve(image: &Image, path: &str) -> Option<Answer> {
    if path.contains("/manifests/") {
        return Some(Answer::ok(image.manifest.clone()));
    }
    image
        .blobs
        .iter()
        .find(|blob| path.ends_with(&Digest::compute(blob).to_string()))
        .map(|blob| Answer::ok(blob.clone()))
}

#[test]
fn tokens_are_for_registries_and_passwords_for_token_servers() {
    let Some(lab) = Lab::new() else { return };
    let image = Image::new(&[b"layer"]);
    let host = "192.168.126.2";
    let served = image.clone();
    let registry = FakeRegistry::start(&lab.server, 5001, Some(&lab.authority), move |request| {
        let realm = if request.path.contains("/clear/") {
            "http://192.168.126.2:5004/t"
        } else {
            "https://192.168.126.2:5002/t?a=b"
        };
        if request.authorization.as_deref() != Some("Bearer t0ken") {
            let value = format!("Bearer realm=\"{realm}\",service=\"it\",scope=\"repository:a/b:pull\"");
            return Answer { headers: vec![("WWW-Authenticate", value)], ..Answer::status(401) };
        }
        match request.path.rsplit_once("/blobs/") {
            Some((_, digest)) => {
                let origin = if request.path.contains("/down/") {
                    "http://192.168.126.2:5004"
                } else {
                    "https://192.168.126.3:5003"
                };
                let location = format!("{origin}/cdn/{digest}?signature=x");
                Answer { headers: vec![("Location", location)], ..Answer::status(307) }
            }
            None => serve(&served, &request.path).unwrap(),
        }
    });
    let tokens =
        FakeRegistry::start(&lab.server, 5002, Some(&lab.authority), |_| Answer::ok(r#"{"access_token": "t0ken"}"#));
    let served = image.clone();
    let cdn = FakeRegistry::start(&lab.server, 5003, Some(&lab.authority), move |request| {
        serve(&served, request.path.split('?').next().unwrap()).unwrap()
    });
    let clear = FakeRegistry::start(&lab.server, 5004, None, |_| Answer::ok(r#"{"token": "t0ken"}"#));

    let options = lab.options(&format!("{host}:5001"));
    let findings = lab.check(&options, 600, &[format!("{host}:5001/a/b:1")]);
    assert_eq!(fetched(&findings.images[0]).0, image.size_bytes());
    let basic = format!("Basic {}", BASE64_STANDARD.encode(format!("{}:{}", registry::USER, registry::PASSWORD)));
    let seen = tokens.seen();
    assert_eq!(seen.len(), 1, "one token will do");
    assert_eq!(seen[0].path, "/t?a=b&service=it&scope=repository%3Aa%2Fb%3Apull");
    assert_eq!(seen[0].authorization.as_ref(), Some(&basic));
    assert!(registry.seen().iter().all(|request| request.authorization.as_ref() != Some(&basic)));
    assert_eq!(cdn.seen().len(), image.blobs.len());
    assert!(
        cdn.seen().iter().all(|request| request.authorization.is_none()),
        "a redirect to another host takes nothing along"
    );

    let error = lab.failure(&options, &format!("{host}:5001/clear/b:1"));
    assert!(matches!(&error, FetchError::Realm { realm } if realm == "http://192.168.126.2:5004/t"), "{error:?}");
    let error = lab.failure(&options, &format!("{host}:5001/down/b:1"));
    assert_eq!(error.phase(), Phase::Layer);
    let text = error.to_string();
    assert!(text.contains(" to http://192.168.126.2:5004/cdn/sha256:"), "{text}");
    assert!(text.ends_with(", which is not an https URL") && !text.contains("signature"), "{text}");
    assert!(clear.seen().is_empty(), "no password in the clear");
}

#[test]
fn a_redirect_within_the_registry_takes_the_token_along() {
    let Some(lab) = Lab::new() else { return };
    let image = Image::new(&[b"layer"]);
    let served = image.clone();
    let registry = FakeRegistry::start(&lab.server, 5001, Some(&lab.authority), move |request| {
        if !request.authorization.as_deref().is_some_and(|value| value.starts_with("Basic ")) {
            return Answer { headers: vec![("WWW-Authenticate", "Basic realm=\"it\"".into())], ..Answer::status(401) };
        }
        match request.path.strip_prefix("/v2/a/b/blobs/") {
            Some(digest) => {
                let location = format!("https://192.168.126.2:5001/storage/{digest}");
                Answer { headers: vec![("Location", location)], ..Answer::status(307) }
            }
            None => serve(&served, &request.path).unwrap(),
        }
    });
    let findings = lab.check(&lab.options("192.168.126.2:5001"), 60, &["192.168.126.2:5001/a/b:1".to_owned()]);
    assert_eq!(fetched(&findings.images[0]).0, image.size_bytes());
    let stored = registry.seen().into_iter().filter(|request| request.path.starts_with("/storage/"));
    assert_eq!(stored.count(), image.blobs.len());
}

#[test]
fn a_registry_in_the_clear_may_have_a_token_server_in_the_clear() {
    let Some(lab) = Lab::new() else { return };
    let image = Image::new(&[b"layer"]);
    let served = image.clone();
    let _registry = FakeRegistry::start(&lab.server, 5001, None, move |request| {
        if request.authorization.as_deref() == Some("Bearer t0ken") {
            return serve(&served, &request.path).unwrap();
        }
        let host = if request.path.contains("/away/") { "192.168.126.1" } else { "192.168.126.2" };
        let value = format!("Bearer realm=\"http://{host}:5002/t\"");
        Answer { headers: vec![("WWW-Authenticate", value)], ..Answer::status(401) }
    });
    let tokens = FakeRegistry::start(&lab.server, 5002, None, |_| Answer::ok(r#"{"token": "t0ken"}"#));
    let registries = registries("[[registry]]\nlocation = '192.168.126.2:5001'\ninsecure = true");
    let options = ImageOptions { registries, ..lab.options("192.168.126.2:5001") };
    fetched(&lab.check(&options, 600, &["192.168.126.2:5001/a:1".into()]).images[0]);
    assert_eq!(tokens.seen()[0].path, "/t?scope=repository%3Aa%3Apull");
    let error = lab.failure(&options, "192.168.126.2:5001/away/a:1");
    assert!(matches!(error, FetchError::Realm { .. }), "{error:?}");
}

#[test]
fn parts_that_are_not_what_they_should_be() {
    let Some(lab) = Lab::new() else { return };
    let image = Image::new(&[&registry::noise(1, 100_000)]);
    let served = image.clone();
    let _registry = FakeRegistry::start(&lab.server, 5001, None, move |request| {
        let mut answer = serve(&served, &request.path).unwrap();
        match (request.path.split('/').nth(2).unwrap(), answer.body.len() == 100_000) {
            ("damaged", true) => answer.body[50_000] ^= 1,
            ("long", true) => answer.body.push(0),
            ("short", true) => answer.body.truncate(99_999),
            ("lost", true) => return Answer::status(404),
            ("huge", _) if request.path.contains("/manifests/") => answer.body.resize(5 << 20, b' '),
            ("html", _) => answer.body = b"<html>".to_vec(),
            _ => {}
        }
        answer
    });
    let registries = registries("[[registry]]\nlocation = '192.168.126.2:5001'\ninsecure = true");
    let options = ImageOptions { registries, ..lab.options("none") };
    let failure = |kind: &str| lab.failure(&options, &format!("192.168.126.2:5001/{kind}:1"));
    let digest = Digest::compute(&image.blobs[1]);
    let layer = format!("layer {digest}");
    assert_eq!(failure("long").to_string(), format!("{layer} has 100001 bytes, its descriptor says 100000"));
    assert_eq!(failure("short").to_string(), format!("{layer} has 99999 bytes, its descriptor says 100000"));
    assert_eq!(failure("lost").to_string(), format!("the answer for {layer} is status 404"));
    let damaged = failure("damaged");
    assert_eq!(damaged.phase(), Phase::Layer);
    assert!(damaged.to_string().starts_with(&format!("{layer} is corrupt: its digest is sha256:")), "{damaged}");
    assert_eq!(failure("huge").to_string(), "manifest 1 is longer than 4194304 bytes");
    assert_eq!(failure("html").to_string(), "manifest 1 cannot be used");
    let other = Digest::compute(b"other");
    let error = lab.failure(&options, &format!("192.168.126.2:5001/good@{other}"));
    assert!(
        matches!(&error, FetchError::Damaged { subject: Subject::Manifest(selector), .. } if *selector == other.to_string()),
        "{error}"
    );
    fetched(&lab.check(&options, 600, &["192.168.126.2:5001/good:1".into()]).images[0]);
}

#[test]
fn what_breaks_once_is_tried_again() {
    let Some(lab) = Lab::new() else { return };
    let image = Image::new(&[b"layer"]);
    let served = image.clone();
    let failures = std::sync::atomic::AtomicU32::new(0);
    let registry = FakeRegistry::start(&lab.server, 5001, None, move |request| {
        if request.path.contains("/blobs/") && failures.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 {
            return Answer::status(503);
        }
        serve(&served, &request.path).unwrap()
    });
    let registries = registries("[[registry]]\nlocation = '192.168.126.2:5001'\ninsecure = true");
    let options = ImageOptions { registries, ..lab.options("none") };
    let findings = lab.check(&options, 600, &["192.168.126.2:5001/a:1".into()]);
    let (size_bytes, attempts) = fetched(&findings.images[0]);
    assert_eq!((size_bytes, attempts.len()), (image.size_bytes(), 0));
    let blobs = registry.seen().iter().filter(|request| request.path.contains("/blobs/")).count();
    assert_eq!(blobs, image.blobs.len() + 1);
}

#[test]
fn a_registry_that_says_nothing_costs_no_more_than_the_deadline() {
    let Some(lab) = Lab::new() else { return };
    let _silent = FakeRegistry::start(&lab.server, 5001, Some(&lab.authority), |_| Answer::hang());
    let mut options = lab.options("none");
    let images = ["192.168.126.2:5001/a:1".to_owned(), "192.168.126.2:5001/b:1".to_owned()];
    let findings = lab.check(&options, 2, &images);
    let [first, second] = &findings.images[..] else { panic!() };
    let Err(ImageError::Nowhere(attempts)) = &first.outcome else { panic!("{first:?}") };
    assert!(matches!(attempts[0].error, FetchError::Deadline { .. }), "{attempts:?}");
    assert!(matches!(second.outcome, Err(ImageError::NoTime { limit_s: 2 })), "{second:?}");
    let failed = |image: &api::ContainerImageAvailability| image.result == ContainerImageAvailabilityResult::Failure;
    assert!(findings.report().images.iter().all(failed));

    // With time left, silence ends the attempt and the next place has its turn.
    options.stall_timeout = Duration::from_millis(300);
    let error = lab.failure(&options, &images[0]);
    assert!(matches!(error, FetchError::Stalled { .. }), "{error:?}");
}

#[test]
fn a_slow_registry_has_a_low_rate() {
    let Some(lab) = Lab::new() else { return };
    let image = Image::new(&[&registry::noise(1, 400_000)]);
    let served = image.clone();
    let _registry = FakeRegistry::start(&lab.server, 5001, None, move |request| {
        let slow = request.path.contains("/blobs/");
        Answer { pause: slow.then_some(Duration::from_millis(25)), ..serve(&served, &request.path).unwrap() }
    });
    let registries = registries("[[registry]]\nlocation = '192.168.126.2:5001'\ninsecure = true");
    let options = ImageOptions { registries, ..lab.options("none") };
    let findings = lab.check(&options, 600, &["192.168.126.2:5001/a:1".into()]);
    // Four pauses for 400 KB.
    let entry = &findings.report().images[0];
    assert!(entry.download_rate > 0.0 && entry.download_rate <= 4.0, "{entry:?}");
    assert!(entry.time >= 0.1, "{entry:?}");
}

#[test]
fn the_recorded_request_leads_to_its_registries() {
    let Some(recorded) = wire::recorded_argument("container-image-availability") else { return };
    let request: ContainerImageAvailabilityRequest = serde_json::from_str(&recorded).unwrap();
    wire::assert_fits("container_image_availability_request", &serde_json::to_value(&request).unwrap());
    assert_eq!(
        serde_json::to_string(&request.images).unwrap(),
        serde_json::from_str::<serde_json::Value>(&recorded).unwrap()["images"].to_string()
    );
    let registries = registries(
        "[[registry]]\nlocation = 'quay.io/openshift-release-dev/ocp-v4.0-art-dev'\n[[registry.mirror]]\nlocation = 'm.lab:8443/ocp'\npull-from-mirror = 'digest-only'",
    );
    let places = |image: &String| {
        let endpoints = registries.endpoints(&image.parse().unwrap()).unwrap();
        endpoints.into_iter().map(|endpoint| endpoint.reference.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(request.timeout, Some(960));
    for image in &request.images {
        let mirrored = image
            .strip_prefix("quay.io/openshift-release-dev/ocp-v4.0-art-dev")
            .map(|rest| format!("m.lab:8443/ocp{rest}"));
        let expected: Vec<_> = mirrored.into_iter().chain([image.clone()]).collect();
        assert_eq!(places(image), expected);
    }
}

#[test]
fn an_unavailable_image_ends_the_command_with_2() {
    use clap::Parser;
    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        netcheck: netcheck::cli::Netcheck,
    }
    let Some(lab) = Lab::new() else { return };
    let image = Image::new(&[b"layer"]);
    let served = image.clone();
    let _registry = FakeRegistry::start(&lab.server, 5001, None, move |request| {
        if request.path.contains("/absent/") { Answer::status(404) } else { serve(&served, &request.path).unwrap() }
    });
    let path = |name: &str, text: &str| {
        let path = lab.directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let conf = path("registries.conf", "[[registry]]\nlocation = '192.168.126.2:5001'\ninsecure = true");
    let auth = path("auth.json", "{}");
    let run = |images: &[&str]| {
        let images: Vec<_> = images.iter().map(|name| format!("192.168.126.2:5001/{name}")).collect();
        let request = path("request.json", &json!({"images": images, "timeout": 600}).to_string());
        let arguments = [
            "netcheck",
            "image",
            "--store=never",
            "--request",
            &request,
            "--registries-conf",
            &conf,
            "--authfile",
            &auth,
        ];
        let program = Program::parse_from(arguments);
        let netcheck::cli::Outcome::Done(code) = lab.client.namespace.enter(|| program.netcheck.run()).unwrap() else {
            unreachable!()
        };
        format!("{code:?}")
    };
    assert_eq!(run(&["a:1"]), format!("{:?}", std::process::ExitCode::SUCCESS));
    assert_eq!(run(&["a:1", "absent/a:1"]), format!("{:?}", std::process::ExitCode::from(2)));
}
