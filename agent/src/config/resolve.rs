//! What the values mean.

use super::{Config, ConfigError, Key, is_pem};
use crate::rendezvous::{self, ParseKeyError, Place, PublicKey, Trust};
use api::{
    HostId, InfraEnvId, Secret,
    http::{HttpConfig, has_certificate},
};
use kernel::spelling;
use std::{
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

/// What is in force.
#[derive(Clone, Debug)]
pub struct Resolved {
    pub url: String,
    pub infra_env_id: InfraEnvId,
    /// Token; empty without one.
    pub token: Secret,
    /// Certificates trusted besides the system's.
    pub ca_cert: Option<CaCert>,
    /// Whether certificates are not checked.
    pub insecure: bool,
    /// Agent image; empty without one.
    pub agent_version: String,
    /// Identity, where given.
    pub host_id: Option<HostId>,
    /// Between failed registrations.
    pub interval: Duration,
    /// Variables that programs take their proxies from, where the environment doesn't have them itself.
    pub proxies: Vec<(&'static str, Secret)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaCert {
    Path(PathBuf),
    Pem(String),
}

const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);

impl Config {
    /// Parses each value.
    pub fn resolve(&self) -> Result<Resolved, ConfigError> {
        let missing: Vec<_> = [Key::Url, Key::InfraEnvId].into_iter().filter(|key| self.get(*key).is_none()).collect();
        let (Some(url), Some(infra_env_id)) = (self.text(Key::Url), self.parsed(Key::InfraEnvId)?) else {
            return Err(self.missing(missing));
        };
        let interval: Option<u64> = self.parsed(Key::Interval)?;
        Ok(Resolved {
            url: url.to_owned(),
            infra_env_id,
            token: Secret::new(self.text(Key::Token).unwrap_or_default()),
            ca_cert: self.ca_cert()?,
            insecure: self.switch(Key::Insecure)?,
            agent_version: self.text(Key::AgentVersion).unwrap_or_default().to_owned(),
            host_id: self.parsed(Key::HostId)?,
            interval: interval.map_or(DEFAULT_INTERVAL, |seconds| Duration::from_secs(seconds.clamp(1, 86_400))),
            proxies: self.proxies(),
        })
    }

    /// How to reach the rendezvous, which is asked before anything else is known. Certificates given as text go into `ca_file`.
    pub fn http(&self, ca_file: &Path) -> Result<HttpConfig, ConfigError> {
        let ca_cert = match self.ca_cert()? {
            Some(CaCert::Path(path)) => Some(path),
            Some(CaCert::Pem(pem)) => {
                super::write_ca(ca_file, &pem)?;
                Some(ca_file.to_owned())
            }
            None => None,
        };
        Ok(HttpConfig { ca_cert, insecure: self.switch(Key::Insecure)?, proxies: None })
    }

    /// What must prove the answer at `place`. An address was chosen in the configuration; an announcement can come from any host.
    pub(super) fn trust(&self, place: &Place) -> Result<Trust, ConfigError> {
        let key = self.rendezvous_key()?;
        let authority = self.ca_cert()?.is_some();
        let unsigned = self.switch(Key::RendezvousUnsigned)?;
        let is_announced = *place == Place::Announced;
        if unsigned && key.is_some() {
            return Err(self.unusable(Key::RendezvousUnsigned, "rendezvous_key is set as well".to_owned()));
        }
        if is_announced && !unsigned && key.is_none() && !authority {
            let reason = "any host can announce a service by multicast DNS: give rendezvous_key, the public half of the key that the \
                          service signs with (`landfall serve --rendezvous DIR --check --rendezvous-key FILE` prints it), or cacert \
                          for a service with https. rendezvous_unsigned = true trusts the first answer";
            return Err(self.unusable(Key::Rendezvous, reason.to_owned()));
        }
        let strict = is_announced && !unsigned;
        if strict && self.switch(Key::Insecure)? {
            let reason =
                "without certificate checks any host could be the announced service: give cacert or rendezvous_key";
            return Err(self.unusable(Key::Insecure, reason.to_owned()));
        }
        Ok(Trust {
            key,
            https_only: strict && (authority || self.get(Key::Token).is_some()),
            authority_only: strict && authority,
        })
    }

    fn rendezvous_key(&self) -> Result<Option<PublicKey>, ConfigError> {
        let Some(text) = self.text(Key::RendezvousKey) else { return Ok(None) };
        let key = text.parse().or_else(|error: ParseKeyError| match rendezvous::read_key(Path::new(text)) {
            Ok(text) => text.parse().map_err(|error: ParseKeyError| error.to_string()),
            Err(no_file) => Err(format!("{error}, and not a file: {no_file}")),
        });
        key.map(Some).map_err(|error: String| self.unusable(Key::RendezvousKey, format!("'{}': {error}", start(text))))
    }

    fn text(&self, key: Key) -> Option<&str> {
        self.get(key).map(|value| value.text.expose())
    }

    pub(super) fn parsed<T: FromStr>(&self, key: Key) -> Result<Option<T>, ConfigError>
    where
        T::Err: std::fmt::Display,
    {
        let Some(value) = self.get(key) else { return Ok(None) };
        let text = value.text.expose();
        text.parse().map(Some).map_err(|error| self.unusable(key, format!("'{}': {error}", start(text))))
    }

    fn unusable(&self, key: Key, reason: String) -> ConfigError {
        let from = self.get(key).map_or(super::Source::CommandLine, |value| value.source.clone());
        ConfigError::Value { key, from, reason }
    }

    fn switch(&self, key: Key) -> Result<bool, ConfigError> {
        let text = self.text(key).unwrap_or_default();
        spelling::parse_switch(text).map_err(|reason| self.unusable(key, format!("'{}': {reason}", start(text))))
    }

    fn ca_cert(&self) -> Result<Option<CaCert>, ConfigError> {
        let Some(text) = self.text(Key::CaCert) else { return Ok(None) };
        if !is_pem(text) {
            return Ok(Some(CaCert::Path(text.into())));
        }
        if !has_certificate(text.as_bytes()) {
            return Err(self.unusable(Key::CaCert, "its PEM text contains no certificate".to_owned()));
        }
        Ok(Some(CaCert::Pem(format!("{text}\n"))))
    }

    /// Both spellings, since programs disagree about them.
    fn proxies(&self) -> Vec<(&'static str, Secret)> {
        let mut variables = Vec::new();
        for key in [Key::HttpProxy, Key::HttpsProxy, Key::NoProxy] {
            let value = self.get(key).or_else(|| self.get(Key::Proxy).filter(|_| key != Key::NoProxy));
            let Some(value) = value else { continue };
            if !matches!(value.source, super::Source::Environment(_)) {
                variables.extend(key.variables().iter().map(|&name| (name, value.text.clone())));
            }
        }
        variables
    }
}

fn start(text: &str) -> String {
    text.chars().take(80).collect()
}
