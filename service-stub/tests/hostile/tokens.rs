//! With authentication: who is let in where, and what everybody else is told.

use super::common::{API, Answer, Files, Running, pull_secret};
use super::iso;
use api::{ClusterId, InfraEnvId};
use serde_json::{Value, json};
use service_stub::auth::{Auth, Claims, Scheme, keys::SigningKey};
use service_stub::endpoints::ENDPOINTS;
use std::sync::Arc;

struct World {
    running: Running,
    auth: Auth,
    user: String,
    scratch: tempfile::TempDir,
}

fn key() -> Auth {
    Auth::Local(Arc::new(SigningKey::generate().unwrap().0))
}

impl World {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("live.iso");
        iso::write(&path);
        let auth = key();
        let running = Running::start(Files { iso: Some(path), auth: auth.clone(), ..Files::default() });
        let user = auth.sign(&Claims { auth_scheme: Scheme::UserAuth, ..Claims::default() }).unwrap();
        Self { running, auth, user, scratch }
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.running.request(method, path, headers, body.as_bytes())
    }

    /// With the user's token.
    fn user(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.ask(method, &format!("{API}{path}"), &[("authorization", &format!("Bearer {}", self.user))], body)
    }

    fn cluster(&self) -> String {
        let body = json!({"name": "c", "openshift_version": "4.22", "pull_secret": pull_secret(), "high_availability_mode": "None"});
        let answer = self.user("POST", "/v2/clusters", &body);
        assert_eq!(answer.status, 201);
        answer.document()["id"].as_str().unwrap().to_owned()
    }

    fn infra_env(&self, cluster: Option<&str>) -> Value {
        let answer = self.user(
            "POST",
            "/v2/infra-envs",
            &json!({"name": "i", "pull_secret": pull_secret(), "cluster_id": cluster}),
        );
        assert_eq!(answer.status, 201);
        answer.document()
    }

    /// The token that an infra-env's ISO carries.
    fn agents(&self, infra_env: &str) -> String {
        let config = self.user(
            "GET",
            &format!("/v2/infra-envs/{infra_env}/downloads/files?file_name=discovery.ign"),
            &Value::Null,
        );
        token_in(config).unwrap()
    }
}

/// The token that a discovery config carries.
fn token_in(config: Answer) -> Option<String> {
    let text = String::from_utf8(config.body).unwrap();
    let environment =
        ignition::data_url::decode(text.split("\"source\":\"").nth(1).unwrap().split('"').next().unwrap());
    let environment = String::from_utf8(environment.unwrap().data.to_vec()).unwrap();
    environment.lines().find_map(|line| line.strip_prefix("PULL_SECRET_TOKEN=")).map(str::to_owned)
}

#[test]
fn a_missing_token_and_a_bad_one_are_distinguished() {
    let world = World::new();
    let id = world.infra_env(None)["id"].as_str().unwrap().to_owned();
    let path = format!("{API}/v2/infra-envs/{id}/hosts/69396def-4192-dbc7-5c01-819e7f27b01b/instructions");
    let refused = |headers: &[(&str, &str)]| {
        let answer = world.ask("GET", &path, headers, &Value::Null);
        let document = answer.document();
        assert_eq!((answer.status, &document["code"]), (401, &json!(401)));
        document["message"].as_str().unwrap().to_owned()
    };
    assert_ne!(refused(&[]), refused(&[("x-secret-key", "garbage")]));

    // Without authentication there is none to carry.
    let open = Running::start(Files::default());
    let made = open.json("POST", "/v2/infra-envs", &json!({"name": "i", "pull_secret": pull_secret()})).document();
    let id = made["id"].as_str().unwrap();
    let config = open.get(&format!("{API}/v2/infra-envs/{id}/downloads/files?file_name=discovery.ign"));
    assert_eq!(token_in(config), None);
}

#[test]
fn nobody_comes_in_without_a_token() {
    let world = World::new();
    let id = "69396def-4192-dbc7-5c01-819e7f27b01b";
    for (method, path) in ENDPOINTS.iter().map(|endpoint| (&endpoint.method, endpoint.path)) {
        let open = matches!(path, "/openapi" | "/v2/openapi");
        let path: Vec<&str> = path.split('/').map(|part| if part.starts_with('{') { id } else { part }).collect();
        let path = format!("{API}{}", path.join("/"));
        let answer = world.ask(method.as_str(), &path, &[], &Value::Null);
        let form = |answer: &Answer| {
            (answer.status, answer.document()["code"].as_u64(), answer.document()["message"].is_string())
        };
        assert!(open || form(&answer) == (401, Some(401), true), "{method} {path}: {}", answer.status);
    }
    for (path, status) in [
        ("/health", 200),
        ("/ready", 200),
        ("/api/assisted-install/swagger.json", 200),
        ("/boot-artifacts/landfall", 200),
        ("/byid/69396def-4192-dbc7-5c01-819e7f27b01b/any/any/full.iso", 401),
        ("/images/69396def-4192-dbc7-5c01-819e7f27b01b", 401),
        ("/bytoken/x/any/any/full.iso", 401),
        ("/landfall/config/worker", 401),
    ] {
        assert_eq!(world.running.get(path).status, status, "{path}");
    }
}

#[test]
fn agents_find_their_token_and_nothing_of_others() {
    let world = World::new();
    let (cluster, foreign) = (world.cluster(), world.cluster());
    let (own, other) = (world.infra_env(Some(&cluster)), world.infra_env(Some(&foreign)));
    let (own, other) = (own["id"].as_str().unwrap(), other["id"].as_str().unwrap());
    let token = world.agents(own);
    assert_eq!(world.agents(own), token, "the same in every part of the ISO");
    let client = api::Client::new(
        &api::ClientConfig {
            url: world.running.url.clone(),
            token: api::Secret::new(&token),
            ..api::ClientConfig::default()
        },
        api::RetryPolicy::Never,
    )
    .unwrap();
    let host = "69396def-4192-dbc7-5c01-819e7f27b01b";
    let params = json!({"host_id": host, "discovery_agent_version": ""});
    client.register_host(own.parse().unwrap(), &serde_json::from_value(params).unwrap()).expect("our agent is let in");

    let id: InfraEnvId = own.parse().unwrap();
    let sign = |claims: Claims| world.auth.sign(&claims).unwrap();
    let now = api::Timestamp::now().unix_seconds();
    let ours = Claims { infra_env_id: Some(id), ..Claims::default() };
    let expired = sign(Claims { exp: Some(now - 1), ..ours.clone() });
    let strange = key().sign(&ours).unwrap();
    let by_cluster = sign(Claims { cluster_id: Some(cluster.parse().unwrap()), ..Claims::default() });
    let unbound = sign(Claims::default());
    let both = sign(Claims { cluster_id: Some(cluster.parse::<ClusterId>().unwrap()), ..ours });
    let (head, signature) = token.rsplit_once('.').unwrap();
    let unsigned = format!("eyJhbGciOiJub25lIn0.{}.", head.split_once('.').unwrap().1);
    let cut = format!("{head}.{}", &signature[..signature.len() - 2]);
    let instructions = |infra_env: &str| format!("{API}/v2/infra-envs/{infra_env}/hosts/{host}/instructions");
    let secret = |token: &'static str| token;
    let lines: Vec<(&str, &str, String, &str, &str, u16)> = vec![
        ("its own", "GET", instructions(own), "x-secret-key", &token, 200),
        ("its cluster's", "GET", instructions(own), "x-secret-key", &by_cluster, 200),
        ("its own, for its cluster", "GET", format!("{API}/v2/clusters/{cluster}"), "x-secret-key", &token, 200),
        ("its own, for another infra-env", "GET", instructions(other), "x-secret-key", &token, 404),
        (
            "its own, for another's hosts",
            "GET",
            format!("{API}/v2/infra-envs/{other}/hosts"),
            "x-secret-key",
            &token,
            404,
        ),
        ("its own, for another's ISO", "GET", format!("/byid/{other}/any/any/full.iso"), "x-secret-key", &token, 404),
        ("its own, for another cluster", "GET", format!("{API}/v2/clusters/{foreign}"), "x-secret-key", &token, 404),
        (
            "its own, logs of another cluster",
            "POST",
            format!("{API}/v2/clusters/{foreign}/logs?logs_type=controller"),
            "x-secret-key",
            &token,
            404,
        ),
        (
            "its own, logs as another infra-env",
            "POST",
            format!("{API}/v2/clusters/{cluster}/logs?logs_type=host&host_id={host}&infra_env_id={other}"),
            "x-secret-key",
            &token,
            404,
        ),
        ("its own, as a user's", "GET", instructions(own), "authorization", &token, 401),
        (
            "its own, to delete its infra-env",
            "DELETE",
            format!("{API}/v2/infra-envs/{own}"),
            "x-secret-key",
            &token,
            401,
        ),
        (
            "its own, as a Bearer, to delete",
            "DELETE",
            format!("{API}/v2/infra-envs/{own}"),
            "authorization",
            &token,
            401,
        ),
        ("a user's", "GET", instructions(own), "x-secret-key", &world.user, 401),
        ("one that expired a second ago", "GET", instructions(own), "x-secret-key", &expired, 401),
        ("of another service", "GET", instructions(own), "x-secret-key", &strange, 401),
        ("alg none", "GET", instructions(own), "x-secret-key", &unsigned, 401),
        ("cut short", "GET", instructions(own), "x-secret-key", &cut, 401),
        ("for nothing", "GET", instructions(own), "x-secret-key", &unbound, 401),
        ("for an infra-env and a cluster", "GET", instructions(own), "x-secret-key", &both, 401),
        ("empty", "GET", instructions(own), "x-secret-key", secret(""), 401),
        ("nonsense", "GET", instructions(own), "x-secret-key", secret("../../etc/passwd"), 401),
    ];
    for (what, method, path, header, token, expected) in lines {
        let value = if header == "authorization" { format!("Bearer {token}") } else { token.to_owned() };
        let answer = world.ask(method, &path, &[(header, &value)], &Value::Null);
        let text = String::from_utf8_lossy(&answer.body[..answer.body.len().min(130)]).into_owned();
        println!("| token {what} | {} {} |", answer.status, if answer.status == 200 { "" } else { text.trim_end() });
        assert_eq!(answer.status, expected, "{what}: {text}");
    }
    // What it may post is of its own.
    let event = |field: &str, value: &str| {
        let body = json!({"name": "n", "severity": "info", "category": "user", "message": "m", "event_time": "2026-11-21T03:15:46.000Z", field: value});
        world.ask("POST", &format!("{API}/v2/events"), &[("x-secret-key", &token)], &body).status
    };
    assert_eq!(
        [event("cluster_id", &cluster), event("cluster_id", &foreign), event("infra_env_id", other)],
        [201, 404, 404]
    );
    // A host of another infra-env isn't told from one that isn't there.
    let reason = |path: &str| {
        world.ask("GET", path, &[("x-secret-key", &token)], &Value::Null).document()["reason"]
            .as_str()
            .unwrap()
            .replace(other, "ID")
    };
    let unknown = "7e5ff6df-e038-4103-bbb2-90433ded3e50";
    let of_unknown = reason(&format!("{API}/v2/infra-envs/{unknown}")).replace(unknown, "ID");
    assert_eq!(reason(&format!("{API}/v2/infra-envs/{other}")), of_unknown);
}

#[test]
fn users_see_what_their_token_is_for() {
    let world = World::new();
    let (cluster, foreign) = (world.cluster(), world.cluster());
    let (own, other) = (world.infra_env(Some(&cluster)), world.infra_env(None));
    let (own, other) = (own["id"].as_str().unwrap(), other["id"].as_str().unwrap());
    let scoped =
        Claims { cluster_id: Some(cluster.parse().unwrap()), auth_scheme: Scheme::UserAuth, ..Claims::default() };
    let scoped = format!("Bearer {}", world.auth.sign(&scoped).unwrap());
    let ask = |method: &str, path: &str, body: &Value| {
        world.ask(method, &format!("{API}{path}"), &[("authorization", &scoped)], body)
    };
    let ids = |path: &str| -> Vec<String> {
        let list = ask("GET", path, &Value::Null).document();
        list.as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids("/v2/clusters"), [cluster.as_str()]);
    assert_eq!(ids("/v2/infra-envs"), [own]);
    let of = |path: &str| {
        let list = ask("GET", path, &Value::Null).document();
        list.as_array().unwrap().iter().filter(|event| event["cluster_id"] != json!(cluster)).count()
    };
    assert_eq!(of("/v2/events"), 0);
    assert_eq!(ask("GET", &format!("/v2/events?cluster_id={foreign}"), &Value::Null).status, 404);
    assert_eq!(ask("GET", &format!("/v2/infra-envs/{other}"), &Value::Null).status, 404);
    let body = json!({"name": "d", "openshift_version": "4.22", "pull_secret": pull_secret()});
    let refused = ask("POST", "/v2/clusters", &body);
    assert_eq!((refused.status, refused.document()["code"].as_u64()), (403, Some(403)));
    assert_eq!(ask("DELETE", &format!("/v2/infra-envs/{own}"), &Value::Null).status, 204);

    let watcher = world.auth.sign(&Claims { auth_scheme: Scheme::WatcherAuth, ..Claims::default() }).unwrap();
    let watch = |method: &str, path: &str| {
        world.ask(method, &format!("{API}{path}"), &[("watcher-authorization", &watcher)], &Value::Null).status
    };
    assert_eq!(
        [watch("GET", "/v2/clusters"), watch("GET", "/v2/events"), watch("DELETE", &format!("/v2/clusters/{cluster}"))],
        [200, 200, 401]
    );

    // A browser sends the token as a password, whoever's page asks it to.
    let basic = format!("Basic {}", base64(&format!("me:{}", world.user)));
    let browse = |method: &str, path: &str, more: &[(&str, &str)]| {
        let mut headers = vec![("authorization", basic.as_str())];
        headers.extend(more);
        world.ask(method, &format!("{API}{path}"), &headers, &Value::Null).status
    };
    assert_eq!(browse("GET", "/v2/clusters", &[]), 200);
    let delete = format!("/v2/clusters/{foreign}");
    for (name, value) in [("sec-fetch-site", "cross-site"), ("origin", "http://evil.example.com"), ("origin", "null")] {
        assert_eq!(browse("DELETE", &delete, &[(name, value)]), 403, "{name}: {value}");
    }
    let origin = world.running.url.clone();
    assert_eq!(browse("DELETE", &delete, &[("sec-fetch-site", "same-origin"), ("origin", &origin)]), 204);
}

fn base64(text: &str) -> String {
    use ::base64::{Engine, engine::general_purpose::STANDARD};
    STANDARD.encode(text)
}

#[test]
fn an_address_is_good_until_it_expires_or_is_withdrawn() {
    let world = World::new();
    let infra_env = world.infra_env(None);
    let id = infra_env["id"].as_str().unwrap();
    let local = |document: &Value, field: &str| {
        document[field].as_str().unwrap().strip_prefix(&world.running.url).unwrap().to_owned()
    };
    let url = local(&infra_env, "download_url");
    assert!(url.starts_with("/bytoken/") && infra_env["expires_at"].as_str().unwrap() > "2026", "{infra_env}");
    let whole = world.running.get(&url);
    assert_eq!(whole.status, 200);
    let part = world.running.request("GET", &url, &[("range", "bytes=40960-303103")], b"");
    assert_eq!(part.body, whole.body[40_960..303_104]);
    assert_eq!(world.running.get(&url.replace("/bytoken/", "/byapikey/")).status, 200);
    let (_, token) = url.split_once("/bytoken/").unwrap();
    let token = token.split('/').next().unwrap();
    assert_eq!(world.running.get(&format!("/images/{id}?type=full-iso&version=4.22&image_token={token}")).status, 200);
    assert_eq!(world.running.get(&format!("{API}/v2/infra-envs/{id}?image_token={token}")).status, 200);
    assert_eq!(
        world.running.get(&format!("{API}/v2/infra-envs/{id}?api_key={token}")).status,
        401,
        "for another purpose"
    );
    let other = world.infra_env(None);
    let other = other["id"].as_str().unwrap();
    assert_eq!(
        world.running.get(&format!("/images/{other}?type=full-iso&version=4.22&image_token={token}")).status,
        404
    );

    let record = world.running.service.store.model().infra_envs[&id.parse().unwrap()].clone();
    let files = format!("/v2/infra-envs/{id}/downloads/files-presigned?file_name=discovery.ign");
    let presigned = local(&world.user("GET", &files, &Value::Null).document(), "url");
    assert_eq!(world.running.get(&presigned).status, 200);
    assert_eq!(world.running.get(&format!("{presigned}&mac=52:54:00:00:00:01")).status, 200);
    for other in [presigned.replace("discovery.ign", "static-network-config"), format!("{presigned}&x=y")] {
        let refused = world.running.get(&other);
        assert_eq!(refused.document()["message"], "the token is for another address");
    }
    let claims = Claims {
        infra_env_id: Some(id.parse().unwrap()),
        auth_scheme: Scheme::ImageAuth,
        exp: Some(api::Timestamp::now().unix_seconds()),
        signing_key: Some(record.signing_key.clone()),
        ..Claims::default()
    };
    let expired = world.auth.sign(&claims).unwrap();
    let refused = world.running.get(&format!("/bytoken/{expired}/any/any/full.iso"));
    println!("| an ISO's address after its time | {} {} |", refused.status, refused.document()["message"]);
    assert_eq!(refused.status, 401);

    assert_eq!(world.user("POST", &format!("/v2/infra-envs/{id}/regenerate-signing-key"), &Value::Null).status, 204);
    for path in [&url, &presigned] {
        let refused = world.running.get(path);
        assert_eq!(
            (refused.status, refused.document()["message"].as_str()),
            (401, Some("the token was withdrawn")),
            "{path}"
        );
    }
    let fresh = world.user("GET", &format!("/v2/infra-envs/{id}/downloads/image-url"), &Value::Null).document();
    assert_eq!(world.running.get(&local(&fresh, "url")).status, 200);
    drop(world.scratch);
}

#[test]
fn what_a_watcher_sees_leads_to_no_image() {
    let world = World::new();
    let infra_env = world.infra_env(None);
    let watcher = Claims { auth_scheme: Scheme::WatcherAuth, ..Claims::default() };
    let of_one = Claims { infra_env_id: Some(infra_env["id"].as_str().unwrap().parse().unwrap()), ..watcher.clone() };
    for claims in [watcher, of_one] {
        let token = world.auth.sign(&claims).unwrap();
        for path in ["/v2/infra-envs", "/v2/clusters", "/v2/events"] {
            let answer = world.ask("GET", &format!("{API}{path}"), &[("watcher-authorization", &token)], &Value::Null);
            let text = String::from_utf8(answer.body).unwrap();
            assert_eq!(answer.status, 200, "{path}: {text}");
            assert!(!text.contains("/bytoken/"), "a watcher sees where an image is: {text}");
        }
    }
    let all = world.user("GET", "/v2/infra-envs", &Value::Null).document();
    assert_eq!(all.as_array().unwrap().len(), 1);
    assert!(all[0]["download_url"].as_str().unwrap().contains("/bytoken/"), "users do: {all}");
}

#[test]
fn an_agents_token_ends_with_the_signing_key() {
    let world = World::new();
    let infra_env = world.infra_env(None);
    let id = infra_env["id"].as_str().unwrap();
    let of_image = world.agents(id);
    // As `landfall serve token` makes it, before there is an infra-env.
    let own = Claims { infra_env_id: Some(id.parse().unwrap()), ..Claims::default() };
    let beforehand = world.auth.sign(&own).unwrap();
    let hosts = |token: &str| {
        let path = format!("{API}/v2/infra-envs/{id}/hosts");
        let answer = world.ask("GET", &path, &[("x-secret-key", token)], &Value::Null);
        (answer.status, String::from_utf8(answer.body).unwrap())
    };
    assert_eq!([&of_image, &beforehand].map(|token| hosts(token).0), [200, 200]);
    let renew = || world.user("POST", &format!("/v2/infra-envs/{id}/regenerate-signing-key"), &Value::Null).status;
    assert_eq!(renew(), 204);
    for token in [&of_image, &beforehand] {
        let (status, text) = hosts(token);
        assert!(status == 401 && text.contains("the token was withdrawn"), "it lives on: {status} {text}");
    }
    let second = world.agents(id);
    assert_eq!(hosts(&second).0, 200, "the next image has the new one");
    assert_eq!(renew(), 204);
    assert_eq!([&of_image, &second].map(|token| hosts(token).0), [401, 401]);
    assert_eq!(hosts(&world.agents(id)).0, 200);
    // With the service's key one can be made for an image that others build.
    let token = |key_generation: u64| {
        let own = serde_json::json!({"infra_env_id": id, "key_generation": key_generation});
        world.auth.sign(&serde_json::from_value(own).unwrap()).unwrap()
    };
    assert_eq!([1, 2, 3].map(|generation| hosts(&token(generation)).0), [401, 200, 401]);
}

#[test]
fn counts_take_a_token() {
    let world = World::new();
    let cluster: ClusterId = world.cluster().parse().unwrap();
    let metrics = |headers: &[(&str, &str)]| world.ask("GET", "/metrics", headers, &Value::Null);
    assert_eq!(metrics(&[]).status, 401);
    let watcher = Claims { auth_scheme: Scheme::WatcherAuth, ..Claims::default() };
    let of_cluster = Claims { cluster_id: Some(cluster), ..watcher.clone() };
    let [watcher, of_cluster] = [watcher, of_cluster].map(|claims| world.auth.sign(&claims).unwrap());
    let bearer = |token: &str| format!("Bearer {token}");
    for (name, value, status) in [
        ("authorization", bearer(&world.user), 200),
        ("authorization", bearer(&watcher), 200),
        ("watcher-authorization", watcher.clone(), 200),
        ("authorization", bearer(&of_cluster), 403),
        ("authorization", bearer(&world.auth.sign(&Claims::default()).unwrap()), 401),
    ] {
        assert_eq!(metrics(&[(name, &value)]).status, status, "{name}: {value}");
    }
    // As a bearer it opens nothing else.
    let list = world.ask("GET", &format!("{API}/v2/clusters"), &[("authorization", &bearer(&watcher))], &Value::Null);
    assert_eq!(list.status, 401);
}

#[test]
fn pages_of_other_sites_do_nothing_even_where_nobody_is_asked() {
    let running = Running::start(Files::default());
    let body = json!({"name": "x", "pull_secret": pull_secret()}).to_string();
    let post = |headers: &[(&str, &str)]| {
        running.request("POST", &format!("{API}/v2/infra-envs"), headers, body.as_bytes()).status
    };
    assert_eq!(post(&[("content-type", "text/plain"), ("origin", "http://evil.example.com")]), 403);
    assert_eq!(post(&[("sec-fetch-site", "same-site")]), 403);
    assert_eq!(post(&[("origin", &running.url), ("sec-fetch-site", "same-origin")]), 201);
    assert_eq!(post(&[]), 201, "what is no browser");
}

#[test]
fn the_page_asks_for_a_password_and_shows_what_the_token_is_for() {
    let world = World::new();
    let (own, other) = (world.cluster(), world.cluster());
    for path in ["/", "/ui/stream", &format!("/ui/clusters/{own}"), &format!("/ui/clusters/{own}/install")] {
        let stranger = world.ask("GET", path, &[], &Value::Null);
        let asked = stranger.header("www-authenticate").unwrap_or_default();
        assert!(stranger.status == 401 && asked.starts_with("Basic "), "{path}: {stranger:?}");
    }
    let id: ClusterId = own.parse().unwrap();
    let claims = Claims { auth_scheme: Scheme::UserAuth, cluster_id: Some(id), ..Claims::default() };
    let of_own = world.auth.sign(&claims).unwrap();
    let page = |token: &str, path: &str| {
        let basic = format!("Basic {}", base64(&format!("me:{token}")));
        let answer = world.ask("GET", path, &[("authorization", &basic)], &Value::Null);
        (answer.status, String::from_utf8(answer.body).unwrap())
    };
    let (status, all) = page(&world.user, "/");
    assert!(status == 200 && all.contains(&own) && all.contains(&other), "{all}");
    let (status, part) = page(&of_own, "/");
    assert!(status == 200 && part.contains(&own) && !part.contains(&other), "{part}");
    assert_eq!(page(&of_own, &format!("/ui/clusters/{own}")).0, 200);
    for path in ["/ui/clusters/{}", "/ui/clusters/{}/install", "/ui/stream?cluster_id={}"] {
        assert_eq!(page(&of_own, &path.replace("{}", &other)).0, 404, "{path}");
    }
    assert_eq!(page(&of_own, "/ui/page.css").0, 200);
}
