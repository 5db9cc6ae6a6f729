//! Kubeconfig files: which server, and as whom.

use api::{
    Secret,
    http::{Identity, configuration_as, public_url},
};
use ignition::yaml::{self, YamlError};
use serde::Deserialize;
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};
use ureq::{config::ConfigBuilder, typestate::AgentScope};

/// A larger file is refused: real ones have some twenty kilobytes.
const MAX_BYTES: usize = 1 << 20;

/// Why a kubeconfig can't be used. Of its contents only the server is shown.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It, or a file it names.
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// Not a kubeconfig.
    #[error("the kubeconfig {} is not valid", path.display())]
    Yaml { path: PathBuf, source: YamlError },
    /// Something it names isn't in it.
    #[error("the kubeconfig {} has no {what}", path.display())]
    Lacks { path: PathBuf, what: &'static str },
    /// A certificate, key or authority.
    #[error("the {what} of the kubeconfig {} can't be used", path.display())]
    Unusable { path: PathBuf, what: &'static str },
    /// Something this client doesn't do.
    #[error("the kubeconfig {} needs {what}, which is not supported", path.display())]
    Unsupported { path: PathBuf, what: &'static str },
}

/// The current context of a kubeconfig.
pub struct Kubeconfig {
    path: PathBuf,
    server: String,
    authority: Option<Vec<u8>>,
    insecure: bool,
    identity: Option<Identity>,
    token: Option<Secret>,
}

impl std::fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubeconfig")
            .field("path", &self.path)
            .field("server", &public_url(&self.server))
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Document {
    #[serde(default)]
    clusters: Option<Vec<Named<Cluster>>>,
    #[serde(default)]
    contexts: Option<Vec<Named<Context>>>,
    #[serde(default)]
    current_context: Option<String>,
    #[serde(default)]
    users: Option<Vec<Named<User>>>,
}

#[derive(Deserialize)]
struct Named<T> {
    #[serde(default)]
    name: String,
    #[serde(alias = "cluster", alias = "context", alias = "user")]
    value: T,
}

#[derive(Deserialize)]
struct Context {
    #[serde(default)]
    cluster: String,
    #[serde(default)]
    user: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    #[serde(default)]
    server: String,
    #[serde(default)]
    certificate_authority: Option<PathBuf>,
    #[serde(default)]
    certificate_authority_data: Option<String>,
    #[serde(default)]
    insecure_skip_tls_verify: Option<bool>,
    #[serde(default)]
    tls_server_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    #[serde(default)]
    client_certificate: Option<PathBuf>,
    #[serde(default)]
    client_certificate_data: Option<String>,
    #[serde(default)]
    client_key: Option<PathBuf>,
    #[serde(default)]
    client_key_data: Option<String>,
    #[serde(default)]
    token: Option<Secret>,
    #[serde(default, rename = "tokenFile")]
    token_file: Option<PathBuf>,
    #[serde(default)]
    exec: Option<serde::de::IgnoredAny>,
}

impl Kubeconfig {
    /// Reads the file and those it names.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(path, &read(path)?)
    }

    /// As [`read`](Self::read), for text that is the file's at `path`.
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self, ConfigError> {
        let document: Document =
            yaml::document(text, MAX_BYTES).map_err(|source| ConfigError::Yaml { path: path.to_owned(), source })?;
        let lacks = |what| ConfigError::Lacks { path: path.to_owned(), what };
        let current = document.current_context.unwrap_or_default();
        let context =
            find(document.contexts, &current).ok_or_else(|| lacks("context with the name of its current-context"))?;
        let cluster = find(document.clusters, &context.cluster).ok_or_else(|| lacks("cluster of its context"))?;
        let user = if context.user.is_empty() {
            User::default()
        } else {
            find(document.users, &context.user).ok_or_else(|| lacks("user of its context"))?
        };
        if !cluster.server.starts_with("https://") && !cluster.server.starts_with("http://") {
            return Err(lacks("server URL"));
        }
        let unsupported = |what| Err(ConfigError::Unsupported { path: path.to_owned(), what });
        if cluster.tls_server_name.is_some_and(|name| !name.is_empty()) {
            return unsupported("the server's certificate checked by another name (tls-server-name)");
        }
        if user.exec.is_some() {
            return unsupported("a program asked for credentials (exec)");
        }
        let (authority, certificate, key) = ("certificate authority", "client certificate", "client key");
        let ca = blob(path, authority, cluster.certificate_authority_data, cluster.certificate_authority)?;
        let certificate = blob(path, certificate, user.client_certificate_data, user.client_certificate)?;
        let key = blob(path, key, user.client_key_data, user.client_key)?;
        let unusable = |what| ConfigError::Unusable { path: path.to_owned(), what };
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some(
                Identity::from_pem(&certificate, &key).ok_or_else(|| unusable("client certificate with its key"))?,
            ),
            (None, None) => None,
            _ => return Err(lacks("client certificate and key; it has only one of them")),
        };
        let token = match (user.token.filter(|token| !token.is_empty()), user.token_file) {
            (Some(token), _) => Some(token),
            (None, Some(file)) => {
                let text = String::from_utf8(read(&beside(path, &file))?).map_err(|_| unusable("token"))?;
                Some(Secret::new(text.trim()))
            }
            (None, None) => None,
        };
        if token.as_ref().is_some_and(|token| !token.expose().bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(unusable("token"));
        }
        let insecure = cluster.insecure_skip_tls_verify.unwrap_or_default();
        let server = cluster.server.trim_end_matches('/').to_owned();
        let config = Self { path: path.to_owned(), server, authority: ca, insecure, identity, token };
        // The default authorities are read when needed.
        if config.authority.is_some() {
            config.http()?;
        }
        Ok(config)
    }

    /// The server's URL, without a `/` at its end.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// The token, if it identifies us.
    pub(super) fn token(&self) -> Option<&Secret> {
        self.token.as_ref()
    }

    /// TLS as it says.
    pub(super) fn http(&self) -> Result<ConfigBuilder<AgentScope>, ConfigError> {
        configuration_as(self.identity.clone(), self.authority.as_deref(), self.insecure)
            .ok_or_else(|| ConfigError::Unusable { path: self.path.clone(), what: "certificate authority" })
    }
}

fn find<T>(list: Option<Vec<Named<T>>>, name: &str) -> Option<T> {
    list.unwrap_or_default().into_iter().find(|entry| entry.name == name).map(|entry| entry.value)
}

/// Base64 in the file itself goes before the name of another.
fn blob(
    path: &Path,
    what: &'static str,
    data: Option<String>,
    file: Option<PathBuf>,
) -> Result<Option<Vec<u8>>, ConfigError> {
    match (data.filter(|data| !data.is_empty()), file) {
        (Some(data), _) => {
            // The same text as that of a data: URL.
            let url = format!("data:;base64,{data}");
            let decoded = ignition::data_url::decode(&url).map(|decoded| decoded.data.into_owned());
            decoded.map(Some).map_err(|_| ConfigError::Unusable { path: path.to_owned(), what })
        }
        (None, Some(file)) => read(&beside(path, &file)).map(Some),
        (None, None) => Ok(None),
    }
}

/// Names of files are relative to the one they are in.
fn beside(path: &Path, file: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("/")).join(file)
}

fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    let fail = |source| ConfigError::Read { path: path.to_owned(), source };
    let mut text = Vec::new();
    let most = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    if File::open(path).map_err(fail)?.take(most).read_to_end(&mut text).map_err(fail)? > MAX_BYTES {
        return Err(fail(io::ErrorKind::FileTooLarge.into()));
    }
    Ok(text)
}
