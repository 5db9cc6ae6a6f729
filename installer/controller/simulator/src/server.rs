//! etcd and kube-apiserver, started for tests.

use crate::{
    Client, Cluster, FaultProxy, Kubelet,
    authority::{self, Authority, pem},
    await_some,
    client::kubeconfig,
    crds::{RESOURCES, crds},
    keeper::{self, Kept},
    lock,
    process::Process,
};
use rcgen::{KeyPair, PublicKeyData as _};
use serde_json::{Value, json};
use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use tempfile::TempDir;
use testkit::{port::Held, skip, turn::Turn};

const ADMIN_TOKEN: &str = "simulator-admin";
/// Where namespaced objects of Kubernetes itself are that tests leave behind.
const LEFT_IN_NAMESPACES: [&str; 11] = [
    "/api/v1/pods",
    "/api/v1/configmaps",
    "/api/v1/secrets",
    "/api/v1/events",
    "/api/v1/services",
    "/api/v1/serviceaccounts",
    "/apis/batch/v1/jobs",
    "/apis/apps/v1/deployments",
    "/apis/coordination.k8s.io/v1/leases",
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
];
/// The same of cluster scope.
const LEFT_IN_CLUSTER: [&str; 4] = [
    "/api/v1/nodes",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
];
/// What the server itself, or [`ApiServer::prepare`], makes and names so.
const OWN_PREFIXES: [&str; 3] = ["kubernetes", "extension-apiserver", "simulator"];
/// The roles that a fresh server has, and their bindings, have this label.
const OWN_LABEL: &str = "kubernetes.io/bootstrapping";

/// A real API server of Kubernetes with RBAC, the kinds of [`crate::RESOURCES`], and nothing else in it. It ends when it is dropped, or with
/// the process.
pub struct ApiServer {
    processes: Processes,
    kubelet: Arc<Kubelet>,
    authority: Authority,
    port: u16,
    directory: PathBuf,
}

/// Whose children the servers are.
enum Processes {
    Own(Box<Own>),
    /// Those of a process that keeps them for others.
    Kept(Kept),
}

struct Own {
    // They end in this order.
    api_server: Mutex<Option<Process>>,
    etcd: Process,
    programs: PathBuf,
    etcd_port: Held,
    port: Held,
    directory: TempDir,
}

/// The server that tests of all processes share, for one test at a time.
pub struct Shared {
    server: ApiServer,
    _turn: Turn,
}

impl Deref for Shared {
    type Target = ApiServer;

    fn deref(&self) -> &ApiServer {
        &self.server
    }
}

/// Where the programs are; `None`, with the reason printed, if they are not built.
fn programs() -> Option<PathBuf> {
    // A test's program lies in the directory that all is built in.
    let program = std::env::current_exe().unwrap();
    let mut places = program.ancestors().map(|directory| directory.join("kubernetes/bin"));
    let found = places.find(|place| ["etcd", "kube-apiserver"].iter().all(|name| place.join(name).is_file()));
    if found.is_none() {
        skip::because("kube-apiserver is not there (make kubernetes builds it)");
    }
    found
}

/// A directory of this process beside what is built. Statics are never dropped, so those of processes that ended are removed here.
fn directory(target: &Path) -> TempDir {
    let parent = target.join("tmp");
    fs::create_dir_all(&parent).unwrap();
    for entry in fs::read_dir(&parent).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix("simulator-").and_then(|rest| rest.split('-').next());
        if process.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let prefix = format!("simulator-{}-", std::process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir_in(parent).unwrap()
}

impl ApiServer {
    /// Starts one; `None`, with the reason printed, where its programs are not built. Several may run at once.
    pub fn start() -> Option<Self> {
        Self::start_as(&[])
    }

    /// The same, for clients that reach it by these names or addresses, too.
    pub fn start_as(names: &[&str]) -> Option<Self> {
        let programs = programs()?;
        let directory = directory(programs.ancestors().nth(2).unwrap());
        let authority = Authority::new(authority::NAME);
        write_files(directory.path(), &authority, names);
        let (etcd, etcd_port) = start_etcd(&programs, directory.path());
        let kubelet = Arc::new(Kubelet::start(&authority));
        let (api_server, port, path) = (Mutex::new(None), Held::default(), directory.path().to_owned());
        let (number, own) = (port.port(), Own { api_server, etcd, programs, etcd_port, port, directory });
        let processes = Processes::Own(Box::new(own));
        let server = Self { processes, kubelet, authority, port: number, directory: path };
        server.restart();
        server.prepare();
        Some(server)
    }

    /// The server that tests of all processes share: one test at a time has it, as [`ApiServer::reset`] leaves it. `keeper` is the test of
    /// this program that calls [`keeper::keep`]: it is started where no process keeps the server yet.
    pub fn shared(keeper: &str) -> Option<Shared> {
        programs()?;
        let turn = Turn::take("api-server");
        let (kept, port, directory) = Kept::find(keeper);
        let authority = Authority::of_files(&directory);
        let kubelet = Arc::new(Kubelet::start(&authority));
        let server = Self { processes: Processes::Kept(kept), kubelet, authority, port, directory };
        server.reset();
        Some(Shared { server, _turn: turn })
    }

    /// Starts the API server if it has ended.
    pub(crate) fn resume(&self) {
        let Processes::Own(own) = &self.processes else { return };
        let is_running = lock(&own.api_server).as_ref().is_some_and(|process| process.ended().is_none());
        if !is_running {
            self.restart();
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// `https://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's certificate and its key, both PEM: other servers of its names may have them.
    pub fn identity(&self) -> [String; 2] {
        ["server.crt", "server.key"].map(|name| fs::read_to_string(self.directory.join(name)).unwrap())
    }

    /// The certificate of the authority that the server's is signed by.
    pub fn ca_pem(&self) -> &str {
        self.authority.pem()
    }

    /// The token of an administrator.
    pub fn admin_token(&self) -> &'static str {
        ADMIN_TOKEN
    }

    /// A kubeconfig of an administrator.
    pub fn admin_kubeconfig(&self) -> String {
        self.kubeconfig_with_token(ADMIN_TOKEN)
    }

    /// A kubeconfig of the user whose token this is.
    pub fn kubeconfig_with_token(&self, token: &str) -> String {
        kubeconfig(&self.url(), self.ca_pem(), token)
    }

    /// A token of a service account, which is made if missing, as is its namespace.
    pub fn service_account_token(&self, namespace: &str, name: &str) -> String {
        let client = self.client();
        let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        self.cluster().namespace(namespace);
        client.put(&accounts, &json!({ "metadata": { "name": name } })).unwrap();
        let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
        let reply = client.create(&format!("{accounts}/{name}/token"), &request).unwrap();
        reply["status"]["token"].as_str().unwrap().to_owned()
    }

    /// A client of an administrator.
    pub fn client(&self) -> Client {
        Client::new(&self.url(), self.ca_pem(), ADMIN_TOKEN)
    }

    /// A proxy in front of it that passes everything on until it is given faults.
    pub fn proxy(&self) -> FaultProxy {
        FaultProxy::https(&self.url(), self.ca_pem())
    }

    /// What makes the objects that nodes and operators make.
    pub fn cluster(&self) -> Cluster {
        Cluster::new(self.client(), self.kubelet.clone())
    }

    /// The kubelet of all nodes.
    pub fn kubelet(&self) -> &Kubelet {
        &self.kubelet
    }

    /// Kills the API server; its data stays in etcd.
    pub fn stop(&self) {
        match &self.processes {
            Processes::Own(own) => *lock(&own.api_server) = None,
            Processes::Kept(kept) => kept.tell(keeper::STOP),
        }
    }

    /// Starts the API server, on the same port as before; one that runs is killed first.
    pub fn restart(&self) {
        let own = match &self.processes {
            Processes::Own(own) => own,
            Processes::Kept(kept) => return kept.tell(keeper::RESTART),
        };
        let mut running = lock(&own.api_server);
        *running = None;
        let log = self.directory.join("kube-apiserver.log");
        let process = Process::start(&own.programs.join("kube-apiserver"), own.arguments(), &log);
        let client = self.client();
        let is_ready = process.await_ready(|| client.text("/readyz").is_ok());
        assert!(is_ready, "kube-apiserver ended: {}\n{}", process.output(), own.etcd.output());
        *running = Some(process);
    }

    /// Removes what a test left: nodes, certificate requests, objects of all other kinds, logs. Namespaces stay, since nothing empties them.
    pub fn reset(&self) {
        self.kubelet.clear();
        let kinds = RESOURCES.iter().map(|row| row.collection(None));
        for collection in LEFT_IN_NAMESPACES.iter().chain(&LEFT_IN_CLUSTER).map(|path| (*path).to_owned()).chain(kinds)
        {
            self.remove_all(&collection);
        }
    }

    fn remove_all(&self, collection: &str) {
        let client = self.client();
        for object in client.list(collection).unwrap() {
            let metadata = &object["metadata"];
            let name = metadata["name"].as_str().unwrap();
            if OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || !metadata["labels"][OWN_LABEL].is_null() {
                continue;
            }
            let path = match (metadata["namespace"].as_str(), collection.rsplit_once('/')) {
                (Some(namespace), Some((group, plural))) => format!("{group}/namespaces/{namespace}/{plural}/{name}"),
                _ => format!("{collection}/{name}"),
            };
            if !metadata["finalizers"].is_null() {
                client.patch(&path, &json!({ "metadata": { "finalizers": null } })).unwrap();
            }
            let deleted = client.delete(&path);
            assert!(deleted.as_ref().err().is_none_or(|error| error.status() == Some(404)), "{deleted:?}");
        }
    }

    /// What else a cluster has when its first node joins.
    fn prepare(&self) {
        let client = self.client();
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        for definition in crds() {
            client.create(definitions, &definition).unwrap();
        }
        for row in &RESOURCES {
            let path = format!("{definitions}/{}.{}", row.plural, row.group);
            await_some(&path, || established(&client.get(&path).unwrap()).then_some(()));
            // Established a moment before it is served.
            await_some(&path, || client.find(&row.collection(None)).unwrap());
        }
        // Kubelets ask for their certificates, first as the bootstrapper, then as themselves.
        let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper" });
        let group = |name: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name });
        let subjects = [group("system:nodes"), group("system:serviceaccounts:openshift-machine-config-operator")];
        let binding = json!({ "metadata": { "name": "simulator-kubelets" }, "roleRef": role, "subjects": subjects });
        client.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).unwrap();
    }
}

impl Own {
    fn arguments(&self) -> Vec<String> {
        let at = |name: &str| self.directory.path().join(name).display().to_string();
        let options = [
            ("etcd-servers", format!("http://127.0.0.1:{}", self.etcd_port.port())),
            ("bind-address", "127.0.0.1".to_owned()),
            ("advertise-address", "127.0.0.1".to_owned()),
            ("secure-port", self.port.port().to_string()),
            ("cert-dir", at("certificates")),
            ("tls-cert-file", at("server.crt")),
            ("tls-private-key-file", at("server.key")),
            ("service-account-issuer", "https://kubernetes.default.svc".to_owned()),
            ("service-account-signing-key-file", at("accounts.key")),
            ("service-account-key-file", at("accounts.pub")),
            ("token-auth-file", at("tokens.csv")),
            ("authorization-mode", "RBAC".to_owned()),
            ("service-cluster-ip-range", "172.30.0.0/16".to_owned()),
            // Controllers are missing here: pods' accounts would not be made.
            // Nor would a node be freed of the taint that it is made with.
            ("disable-admission-plugins", "ServiceAccount,TaintNodesByCondition".to_owned()),
            ("allow-privileged", "true".to_owned()),
            ("kubelet-certificate-authority", at("ca.crt")),
            ("kubelet-preferred-address-types", "ExternalIP,InternalIP,Hostname".to_owned()),
        ];
        options.into_iter().map(|(name, value)| format!("--{name}={value}")).collect()
    }
}

fn established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

fn write_files(directory: &Path, authority: &Authority, names: &[&str]) {
    let (serving, accounts) = (authority.issue(names), KeyPair::generate().unwrap());
    let files = [
        ("ca.crt", authority.pem().to_owned()),
        ("ca.key", pem("PRIVATE KEY", authority.key_der())),
        ("server.crt", testkit::tls::pem(&serving.certificate)),
        ("server.key", pem("PRIVATE KEY", serving.key.serialized_der())),
        ("accounts.key", pem("PRIVATE KEY", accounts.serialized_der())),
        ("accounts.pub", pem("PUBLIC KEY", &accounts.subject_public_key_info())),
        ("tokens.csv", format!("{ADMIN_TOKEN},simulator-admin,simulator-admin,\"system:masters\"\n")),
    ];
    for (name, text) in files {
        fs::write(directory.join(name), text).unwrap();
    }
}

fn start_etcd(programs: &Path, directory: &Path) -> (Process, Held) {
    let (port, peers) = (Held::default(), Held::default());
    let [url, peers_url] = [&port, &peers].map(|port| format!("http://{}", port.address()));
    let data = directory.join("etcd").display().to_string();
    let arguments = [
        ("data-dir", data.as_str()),
        ("listen-client-urls", &url),
        ("advertise-client-urls", &url),
        ("listen-peer-urls", &peers_url),
        ("initial-advertise-peer-urls", &peers_url),
        ("initial-cluster", &format!("default={peers_url}")),
        ("unsafe-no-fsync", "true"),
    ]
    .map(|(name, value)| format!("--{name}={value}"));
    let process = Process::start(&programs.join("etcd"), arguments, &directory.join("etcd.log"));
    // The API server waits for the rest.
    let is_ready = process.await_ready(|| std::net::TcpStream::connect(port.address()).is_ok());
    assert!(is_ready, "etcd does not start: {}", process.output());
    (process, port)
}
