//! A secret with a mark, looked for wherever the service says or keeps something.

use super::common::{API, Files, Running};
use serde_json::{Value, json};
use service_stub::auth::{Auth, Claims, Scheme, keys::SigningKey};
use service_stub::endpoints::ENDPOINTS;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

const MARK: &str = "bWFya2VkLXNlY3JldA";

fn marked(text: &[u8], mark: &str) -> bool {
    text.windows(mark.len()).any(|window| window == mark.as_bytes())
}

#[test]
fn no_secret_is_shown_logged_or_left_in_the_store() {
    let log = Log::default();
    // The log of everything in this process; other tests have other secrets.
    tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false).with_writer(log.clone()).init();
    let auth = Auth::Local(Arc::new(SigningKey::generate().unwrap().0));
    let running = Running::start(Files { auth: auth.clone(), ..Files::default() });
    let user = auth.sign(&Claims { auth_scheme: Scheme::UserAuth, ..Claims::default() }).unwrap();
    let bearer = format!("Bearer {user}");
    let secret = json!({"auths": {"quay.io": {"auth": "dXNlcjpwYXNz", "email": MARK}}}).to_string();
    let ask = |method: &str, path: &str, body: &str| {
        let answer = running.request(method, &format!("{API}{path}"), &[("authorization", &bearer)], body.as_bytes());
        assert!(!marked(&answer.body, MARK), "{method} {path}: {}", String::from_utf8_lossy(&answer.body));
        assert!(!marked(format!("{:?}", answer.headers).as_bytes(), MARK), "{method} {path}");
        answer
    };
    let id = |answer: super::common::Answer| answer.document()["id"].as_str().unwrap().to_owned();
    // With the platform none: of baremetal hosts the install configuration needs the inventory.
    let cluster =
        json!({"name": "c", "openshift_version": "4.22", "pull_secret": secret, "user_managed_networking": true});
    let cluster = cluster.to_string();
    let cluster = id(ask("POST", "/v2/clusters", &cluster));
    let infra_env = json!({"name": "i", "pull_secret": secret, "cluster_id": cluster}).to_string();
    let infra_env = id(ask("POST", "/v2/infra-envs", &infra_env));
    // Bodies that are refused, as nearly all of these are, are not repeated.
    for body in [
        json!({"name": "c", "openshift_version": "4.22", "pull_secret": MARK}).to_string(),
        json!({"name": "c", "openshift_version": "4.22", "pull_secret": {"auths": MARK}}).to_string(),
        json!({"name": "c", "pull_secret": json!({"auths": {"quay.io": {"auth": 7}}, MARK: {}}).to_string()})
            .to_string(),
        format!("{{\"pull_secret\": \"{MARK}"),
        json!({"pull_secret": [MARK]}).to_string(),
    ] {
        for (method, path) in [
            ("POST", "/v2/clusters".to_owned()),
            ("POST", "/v2/infra-envs".to_owned()),
            ("PATCH", format!("/v2/clusters/{cluster}")),
            ("PATCH", format!("/v2/infra-envs/{infra_env}")),
        ] {
            let answer = ask(method, &path, &body);
            assert!(answer.status < 500, "{method} {path} {}", answer.status);
        }
    }
    let token = running.service.store.model().infra_envs[&infra_env.parse().unwrap()].agent_token.expose().to_owned();
    let agent = [("x-secret-key", token.as_str())];
    let host = "69396def-4192-dbc7-5c01-819e7f27b01b";
    let register = json!({"host_id": host}).to_string();
    assert_eq!(
        running.request("POST", &format!("{API}/v2/infra-envs/{infra_env}/hosts"), &agent, register.as_bytes()).status,
        201
    );
    let fencing =
        json!({"fencing_credentials": {"address": "https://bmc", "username": "u", "password": MARK}}).to_string();
    assert_eq!(ask("PATCH", &format!("/v2/infra-envs/{infra_env}/hosts/{host}"), &fencing).status, 201);
    // The one that gives the pull secret away does so to users alone.
    const CONFIG: &str = "/v2/clusters/{cluster_id}/install-config";
    let config = format!("{API}{}", CONFIG.replace("{cluster_id}", &cluster));
    assert!(marked(&running.request("GET", &config, &[("authorization", &bearer)], b"").body, MARK));
    let watcher = auth.sign(&Claims { auth_scheme: Scheme::WatcherAuth, ..Claims::default() }).unwrap();
    for (header, token) in [("watcher-authorization", &watcher), ("x-secret-key", &token)] {
        assert_eq!(running.request("GET", &config, &[(header, token)], b"").status, 401, "{header}");
    }
    let listed = ENDPOINTS.iter().map(|endpoint| (&endpoint.method, endpoint.path));
    for (method, path) in listed.filter(|(method, path)| method.as_str() == "GET" && *path != CONFIG) {
        let path =
            path.replace("{cluster_id}", &cluster).replace("{infra_env_id}", &infra_env).replace("{host_id}", host);
        let answer = ask(method.as_str(), &path, "");
        assert!(!marked(&answer.body, &token), "{method} {path} shows the agents' token");
    }
    let download =
        ask("GET", &format!("/v2/infra-envs/{infra_env}"), "").document()["download_url"].as_str().unwrap().to_owned();
    assert_eq!(running.get(download.strip_prefix(&running.url).unwrap()).status, 404, "there is no ISO");
    let presented = Value::from(download.split("/bytoken/").nth(1).unwrap().split('/').next().unwrap());
    let said = log.0.lock().unwrap().clone();
    assert!(marked(&said, "answered"), "the log is there");
    for secret in [MARK, &token, &user, presented.as_str().unwrap()] {
        assert!(!marked(&said, secret), "the log has {secret}");
    }
    let kept = std::fs::read(running.state.path().join("state.redb")).unwrap();
    assert!(
        !marked(&kept, MARK) && !marked(&kept, &token) && !marked(&kept, "quay.io"),
        "the store has it in the clear"
    );
}
