//! Options of `landfall serve` about registries that replace others.

use anyhow::{Context, bail};
use ignition::discovery::assisted::Mirror;
use netcheck::image::{ImageOptions, registries::Registries};
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Where registries and their mirrors are named.
const REGISTRIES_CONF: &str = "/etc/containers/registries.conf";
/// Where the operator of a machine puts the authority of a mirror.
const USER_BUNDLE: &str = "/etc/pki/ca-trust/extracted/pem/user-registry-ca-bundle.pem";
const MAX_BYTES: u64 = 1 << 20;

/// Registries that replace others.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Images")]
pub(crate) struct RegistryArgs {
    /// Registries and their mirrors, for release images that this service reads and for live hosts, which get the file. Default:
    /// /etc/containers/registries.conf, which hosts get if it has any [[registry]]
    #[arg(long, value_name = "FILE")]
    registries_conf: Option<PathBuf>,

    /// CA certificates with which live hosts verify the registries of --registries-conf, PEM
    #[arg(long, value_name = "FILE")]
    registry_ca: Option<PathBuf>,

    /// CA certificates that every cluster trusts, PEM: they are in its install configuration
    #[arg(long, value_name = "FILE")]
    cluster_ca: Option<PathBuf>,

    /// Have live hosts accept images without signatures where --registries-conf or an infra-env replaces registries
    #[arg(long, env = "FORCE_INSECURE_POLICY_JSON", value_parser = kernel::spelling::parse_switch)]
    pub(crate) insecure_policy: bool,
}

impl RegistryArgs {
    /// The file that names registries.
    pub(crate) fn path(&self) -> &Path {
        self.registries_conf.as_deref().unwrap_or(Path::new(REGISTRIES_CONF))
    }

    /// What clusters trust, PEM; may be empty.
    pub(crate) fn cluster_ca_pem(&self) -> anyhow::Result<String> {
        let Some(path) = &self.cluster_ca else { return Ok(String::new()) };
        let pem = text(path)?;
        match api::http::has_certificate(pem.as_bytes()) {
            true => Ok(pem),
            false => bail!("--cluster-ca {} has no PEM certificate", path.display()),
        }
    }

    /// How this service reads images.
    pub(crate) fn image_options(&self) -> anyhow::Result<ImageOptions> {
        let registries = Registries::load(self.path(), false)?;
        let bundle = Path::new(USER_BUNDLE);
        let usual = || bundle.exists().then(|| bundle.to_owned());
        let ca_certs = self.registry_ca.clone().or_else(usual).into_iter().collect();
        Ok(ImageOptions { registries, ca_certs, ..ImageOptions::default() })
    }

    /// What hosts get, if anything.
    pub(crate) fn mirror(&self) -> anyhow::Result<Option<Mirror>> {
        let ca_pem = self.registry_ca.as_deref().map(text).transpose()?;
        if let (Some(pem), Some(path)) = (&ca_pem, &self.registry_ca)
            && !api::http::has_certificate(pem.as_bytes())
        {
            bail!("--registry-ca {} has no PEM certificate", path.display());
        }
        let path = self.path();
        if self.registries_conf.is_none() && !path.exists() {
            return match ca_pem {
                Some(_) => bail!("--registry-ca needs registries: --registries-conf FILE"),
                None => Ok(None),
            };
        }
        let conf = text(path)?;
        let is_empty =
            !has_registries(&conf).with_context(|| format!("{} is not a registries.conf", path.display()))?;
        match (is_empty, &self.registries_conf) {
            (true, Some(path)) => bail!("--registries-conf {} has no [[registry]]", path.display()),
            (true, None) if ca_pem.is_some() => bail!("--registry-ca needs registries: {} has none", path.display()),
            (true, None) => Ok(None),
            (false, _) => Ok(Some(Mirror { registries_conf: conf, ca_pem, policy_json: None })),
        }
    }
}

fn has_registries(conf: &str) -> Result<bool, toml::de::Error> {
    let table: toml::Table = conf.parse()?;
    Ok(table.get("registry").and_then(toml::Value::as_array).is_some_and(|all| !all.is_empty()))
}

fn text(path: &Path) -> anyhow::Result<String> {
    let read = || {
        let mut text = String::new();
        let length = File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
        match u64::try_from(length).is_ok_and(|length| length <= MAX_BYTES) {
            true => Ok(text),
            false => Err(io::Error::other("it has more than 1 MiB")),
        }
    };
    read().with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn hosts_get_a_file_with_registries_and_its_ca() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            Some(path)
        };
        let conf = "[[registry]]\nlocation = 'quay.io'\n";
        let args = RegistryArgs { registries_conf: write("conf", conf), ..RegistryArgs::default() };
        let mirror = args.mirror().unwrap().unwrap();
        assert_eq!((mirror.registries_conf.as_str(), mirror.ca_pem), (conf, None));
        for (conf, ca, part) in [
            ("unqualified-search-registries = ['a']", None, "has no [[registry]]"),
            ("[[registry", None, "is not a registries.conf"),
            (conf, Some("no certificate"), "has no PEM certificate"),
        ] {
            let args = RegistryArgs {
                registries_conf: write("conf", conf),
                registry_ca: ca.and_then(|text| write("ca", text)),
                ..RegistryArgs::default()
            };
            let error = format!("{:#}", args.mirror().unwrap_err());
            assert!(error.contains(part), "{error}");
        }
        let gone = RegistryArgs { registries_conf: Some(dir.path().join("gone")), ..RegistryArgs::default() };
        assert!(gone.mirror().is_err());
    }
}
