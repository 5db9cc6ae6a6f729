//! Authentication: none, or a token of this service with every request.
//!
//! Tokens are bound to an infra-env or a cluster (docs/compatibility.md#authentication): all else appears not to exist. A user's
//! token may be unbound, and then sees everything.

pub mod check;
pub mod cli;
pub mod keys;
pub mod token;

pub use token::{Claims, Scheme, TokenError};

use crate::http::Refusal;
use crate::model::{InfraEnvRecord, Model};
use api::{ClusterId, InfraEnvId, Secret, Timestamp};
use keys::SigningKey;
use std::sync::Arc;

/// Validity of presigned addresses, seconds (docs/compatibility.md#authentication; the real service has 4 h).
pub const PRESIGNED_S: i64 = 4 * 3600;

/// Where a request carries its token, and the kind of token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// `X-Secret-Key`: an agent's.
    Agent,
    /// `Authorization: Bearer`, or the password of `Basic` as browsers send it: a user's.
    User,
    /// `Watcher-Authorization`: a watcher's.
    Watcher,
    /// `Authorization: Bearer`, a watcher's: programs that collect metrics can often send no other header.
    WatcherBearer,
    /// Query `api_key`: a presigned address's.
    Url,
    /// `Image-Token`: an image's.
    ImageHeader,
    /// Query `image_token`: an image's.
    ImageUrl,
    /// The first part of the path behind `/bytoken` or `/byapikey`: an image's.
    Path,
}

/// What an endpoint requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    Open,
    /// One of these.
    One(&'static [Credential]),
}

/// How callers are authenticated.
#[derive(Clone, Debug, Default)]
pub enum Auth {
    /// Not at all: any client may do everything.
    #[default]
    None,
    /// By tokens signed with this key.
    Local(Arc<SigningKey>),
}

/// What a caller sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caller {
    /// Nothing.
    #[default]
    Nobody,
    /// Everything.
    Everyone,
    /// One infra-env, its hosts, and their cluster.
    InfraEnv(InfraEnvId),
    /// One cluster, and the infra-envs made for it.
    Cluster(ClusterId),
}

/// Extension of a request whose caller may only read.
#[derive(Clone, Copy, Debug)]
pub struct Watches;

impl Caller {
    /// Whether this caller sees an infra-env.
    pub fn sees_infra_env(self, model: &Model, id: InfraEnvId) -> bool {
        match self {
            Self::Nobody => false,
            Self::Everyone => true,
            Self::InfraEnv(own) => own == id,
            Self::Cluster(own) => {
                model.infra_envs.get(&id).is_some_and(|record| record.infra_env.cluster_id == Some(own))
            }
        }
    }

    /// Whether this caller sees a cluster.
    pub fn sees_cluster(self, model: &Model, id: ClusterId) -> bool {
        match self {
            Self::Nobody => false,
            Self::Everyone => true,
            Self::Cluster(own) => own == id,
            Self::InfraEnv(own) => {
                let made_for = model.infra_envs.get(&own).is_some_and(|record| record.infra_env.cluster_id == Some(id));
                let mut bound = model.hosts.iter().filter(|(key, _)| key.infra_env == own);
                made_for || bound.any(|(_, record)| record.host.cluster_id == Some(id))
            }
        }
    }

    /// Refuses a caller that names a cluster or infra-env it may not see, as if that did not exist.
    pub fn check(
        self,
        model: &Model,
        infra_env: Option<InfraEnvId>,
        cluster: Option<ClusterId>,
    ) -> Result<(), Refusal> {
        if let Some(id) = infra_env.filter(|id| !self.sees_infra_env(model, *id)) {
            return Err(Refusal::not_found(format!("infra_env {id} was not found")));
        }
        if let Some(id) = cluster.filter(|id| !self.sees_cluster(model, *id)) {
            return Err(Refusal::not_found(format!("cluster {id} was not found")));
        }
        Ok(())
    }
}

impl Auth {
    /// The token of an infra-env's agents, valid until its signing key is regenerated; `None` without authentication.
    ///
    /// Signatures differ each time, and an ISO must have the same bytes whichever part is requested: so the token is created once
    /// and stored with the infra-env.
    pub fn agent_token(&self, infra_env: InfraEnvId, key_generation: u64) -> Option<Secret> {
        let claims = Claims { infra_env_id: Some(infra_env), key_generation, ..Claims::default() };
        self.sign(&claims).map(Secret::new)
    }

    /// Whether an infra-env's record has the token its agents need.
    pub fn fits(&self, record: &InfraEnvRecord) -> bool {
        let Self::Local(key) = self else { return true };
        let claims = token::verify(key, record.agent_token.expose(), Timestamp::now().unix_seconds());
        let ours = |claims: Claims| (claims.infra_env_id, claims.key_generation);
        claims.is_ok_and(|claims| ours(claims) == (Some(record.infra_env.id), record.key_generation))
    }

    /// A token for an infra-env's images, and when it expires.
    pub fn image_token(&self, record: &InfraEnvRecord) -> Option<(String, Timestamp)> {
        let claims = Claims {
            infra_env_id: Some(record.infra_env.id),
            auth_scheme: Scheme::ImageAuth,
            signing_key: Some(record.signing_key.clone()),
            ..Claims::default()
        };
        self.expiring(claims)
    }

    /// A path and query with a token for it, and when that expires; without authentication the path alone, which never expires. It
    /// belongs to `infra_env`, else to `cluster`.
    pub fn presigned(
        &self,
        path: &str,
        infra_env: Option<&InfraEnvRecord>,
        cluster: Option<ClusterId>,
    ) -> (String, Timestamp) {
        let claims = Claims {
            infra_env_id: infra_env.map(|record| record.infra_env.id),
            cluster_id: cluster.filter(|_| infra_env.is_none()),
            auth_scheme: Scheme::UrlAuth,
            url: Some(path.to_owned()),
            signing_key: infra_env.map(|record| record.signing_key.clone()),
            ..Claims::default()
        };
        match self.expiring(claims) {
            None => (path.to_owned(), Timestamp::ZERO),
            Some((token, expires_at)) => {
                let joint = if path.contains('?') { '&' } else { '?' };
                (format!("{path}{joint}api_key={token}"), expires_at)
            }
        }
    }

    fn expiring(&self, claims: Claims) -> Option<(String, Timestamp)> {
        let exp = Timestamp::now().unix_seconds().saturating_add(PRESIGNED_S);
        let token = self.sign(&Claims { exp: Some(exp), ..claims })?;
        Some((token, Timestamp::from_unix_seconds(exp)))
    }

    /// Signs `claims`; `None` without authentication.
    pub fn sign(&self, claims: &Claims) -> Option<String> {
        match self {
            Self::None => None,
            Self::Local(key) => token::sign(key, claims),
        }
    }
}

/// A new key for [`InfraEnvRecord::signing_key`].
pub fn new_signing_key() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}
