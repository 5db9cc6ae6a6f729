//! Credentials of registries: containers-auth.json(5), which is also the form of a pull secret and of Docker's configuration.

use crate::files::read_bounded;
use api::Secret;
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

/// A pull secret has a few KiB.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// User name and password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub password: Secret,
}

/// The entries of one file that hold a password. Credential helpers are not run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthFile {
    logins: BTreeMap<String, Login>,
}

/// Why a file gives no credentials. No part of the file is quoted.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("cannot read the credentials in {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} contains no valid credentials: {fault}", path.display())]
    Form { path: PathBuf, fault: AuthFault },
}

/// What is wrong with a text that should hold credentials.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthFault {
    /// Not JSON.
    #[error("not JSON (line {line}, column {column})")]
    Json {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// No object `auths`.
    #[error("expected an object with an object 'auths'")]
    NoAuths,
    /// An `auth` that is not base64 of `user:password`.
    #[error("'auth' of '{registry}' is not base64 of user:password")]
    Auth { registry: String },
}

/// Reads the text of a file.
///
/// Decoded by hand: an error of serde's quotes what it did not expect, which may be a password.
pub fn parse(text: &[u8]) -> Result<AuthFile, AuthFault> {
    let document: Value =
        serde_json::from_slice(text).map_err(|error| AuthFault::Json { line: error.line(), column: error.column() })?;
    let auths = match (document.get("auths"), document.is_object()) {
        (Some(Value::Object(auths)), _) => auths,
        // Docker's configuration may have other matters in it alone.
        (None | Some(Value::Null), true) => return Ok(AuthFile::default()),
        _ => return Err(AuthFault::NoAuths),
    };
    let mut logins = BTreeMap::new();
    for (key, entry) in auths {
        let Some(auth) = entry.get("auth").and_then(Value::as_str).filter(|auth| !auth.is_empty()) else { continue };
        let login = decode(auth).ok_or_else(|| AuthFault::Auth { registry: super::reference::shorten(key) })?;
        logins.insert(key.clone(), login);
    }
    Ok(AuthFile { logins })
}

fn decode(auth: &str) -> Option<Login> {
    let text = String::from_utf8(BASE64_STANDARD.decode(auth.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    // Docker used to pad with NUL bytes.
    Some(Login { user: user.to_owned(), password: Secret::new(password.trim_matches('\0')) })
}

impl AuthFile {
    /// The entry for a repository: the longest path that leads to it, else the registry's, else one of Docker's old form
    /// (`https://registry/v1/`).
    pub fn login(&self, registry: &str, repository: &str) -> Option<&Login> {
        let mut path = format!("{registry}/{repository}");
        loop {
            if let Some(login) = self.logins.get(&path) {
                return Some(login);
            }
            match path.rfind('/') {
                Some(end) => path.truncate(end),
                None => break,
            }
        }
        let of_old = |key: &str| {
            let host = match key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")) {
                Some(url) => url.split('/').next().unwrap_or_default(),
                None => key,
            };
            normalized(host) == normalized(registry)
        };
        self.logins.iter().find(|(key, _)| of_old(key)).map(|(_, login)| login)
    }
}

fn normalized(registry: &str) -> &str {
    if ["index.docker.io", "registry-1.docker.io"].contains(&registry) { "docker.io" } else { registry }
}

/// Files that are asked for a registry's credentials, the first that has some wins.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    files: Vec<(PathBuf, AuthFile)>,
}

impl Credentials {
    /// Reads one file, which must exist.
    pub fn load(path: &Path) -> Result<Self, AuthError> {
        let read = |source| AuthError::Read { path: path.to_owned(), source };
        let text = read_bounded(path, MAX_FILE_BYTES).map_err(read)?;
        let file = parse(&text).map_err(|fault| AuthError::Form { path: path.to_owned(), fault })?;
        Ok(Self { files: vec![(path.to_owned(), file)] })
    }

    /// Reads those that exist. One that can't be used is logged and left out, as podman does.
    pub fn load_any(paths: &[PathBuf]) -> Self {
        let mut files = Vec::new();
        for path in paths {
            match Self::load(path) {
                Ok(found) => files.extend(found.files),
                Err(AuthError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(error, "ignoring the credentials in this file");
                }
            }
        }
        Self { files }
    }

    /// Those of one file that was read already; `name` is what errors call it.
    pub fn from_file(name: &str, file: AuthFile) -> Self {
        Self { files: vec![(PathBuf::from(name), file)] }
    }

    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// Those for a repository, and where they are from.
    pub fn find(&self, registry: &str, repository: &str) -> Option<(&Login, &Path)> {
        self.files.iter().find_map(|(path, file)| Some((file.login(registry, repository)?, path.as_path())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A file whose entries have their own keys as user names.
    fn file(keys: &[&str]) -> AuthFile {
        let entry = |key: &&str| format!("{key:?}: {{\"auth\": {:?}}}", BASE64_STANDARD.encode(format!("{key}:p:w\0")));
        let text = format!("{{\"auths\": {{{}}}}}", keys.iter().map(entry).collect::<Vec<_>>().join(","));
        parse(text.as_bytes()).unwrap()
    }

    fn user<'a>(file: &'a AuthFile, registry: &str, repository: &str) -> Option<&'a str> {
        file.login(registry, repository).map(|login| login.user.as_str())
    }

    #[test]
    fn the_longest_path_wins() {
        let file = file(&["a.b", "a.b/ns", "a.b/ns/repo", "a.b/n"]);
        assert_eq!(user(&file, "a.b", "ns/repo"), Some("a.b/ns/repo"));
        assert_eq!(user(&file, "a.b", "ns/repo2"), Some("a.b/ns"));
        assert_eq!(user(&file, "a.b", "nsx/repo"), Some("a.b"));
        assert_eq!(user(&file, "a.b.c", "ns/repo"), None);
        assert_eq!(file.login("a.b", "x").unwrap().password, Secret::new("p:w"));
    }

    #[test]
    fn keys_of_old() {
        let with = |key: &str| {
            let text = format!(r#"{{"auths": {{"{key}": {{"auth": "{}"}}}}}}"#, BASE64_STANDARD.encode("u:p"));
            parse(text.as_bytes()).unwrap()
        };
        for (key, registry) in [
            ("https://index.docker.io/v1/", "docker.io"),
            ("https://a.b/v1/", "a.b"),
            ("https://a.b:5000", "a.b:5000"),
            ("http://a.b/v2/", "a.b"),
        ] {
            assert_eq!(user(&with(key), registry, "x"), Some("u"), "{key}");
            assert_eq!(user(&with(key), "c.d", "x"), None, "{key}");
        }
        assert_eq!(user(&with("a.b/other"), "a.b", "x"), None, "a path is not the registry");
    }

    #[test]
    fn faults_do_not_tell_secrets() {
        let fault = |text: &str| parse(text.as_bytes()).unwrap_err();
        assert_eq!(fault("hunter2"), AuthFault::Json { line: 1, column: 1 });
        assert_eq!(fault(r#"{"auths": "hunter2"}"#), AuthFault::NoAuths);
        assert_eq!(fault(r#"["hunter2"]"#), AuthFault::NoAuths);
        assert_eq!(fault(r#"{"auths": {"a.b": {"auth": "hunter2!"}}}"#), AuthFault::Auth { registry: "a.b".into() });
        assert_eq!(parse(br#"{"credsStore": "x"}"#), Ok(AuthFile::default()));
        assert!(!format!("{:?}", file(&["a.b"])).contains("p:w"));
    }

    #[test]
    fn the_first_file_that_has_some_wins() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let auth = |user: &str| BASE64_STANDARD.encode(format!("{user}:p"));
        let first = write("1", &format!(r#"{{"auths": {{"a.b": {{"auth": "{}"}}, "c.d": {{}}}}}}"#, auth("one")));
        let second = write(
            "2",
            &format!(r#"{{"auths": {{"a.b/x": {{"auth": "{0}"}}, "c.d": {{"auth": "{0}"}}}}}}"#, auth("two")),
        );
        let paths = [directory.path().join("absent"), write("0", "damaged"), first.clone(), second.clone()];
        let credentials = Credentials::load_any(&paths);
        let find = |registry| credentials.find(registry, "x").map(|(login, path)| (login.user.as_str(), path));
        assert_eq!(find("a.b"), Some(("one", first.as_path())));
        assert_eq!(find("c.d"), Some(("two", second.as_path())), "an entry without a password is none");
        assert_eq!(find("e.f"), None);
        assert!(Credentials::load(&paths[0]).is_err(), "a file that was named must be there");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, auth in any::<String>()) {
            let _ = parse(&bytes);
            let document = serde_json::json!({"auths": {"a.b": {"auth": auth}}});
            let _ = parse(document.to_string().as_bytes());
        }
    }
}
