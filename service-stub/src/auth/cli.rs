//! `landfall serve token`.

use super::keys::SigningKey;
use super::token::{self, Claims, Scheme};
use anyhow::{Context, bail};
use api::{ClusterId, InfraEnvId, Timestamp};
use std::{io::Write, path::PathBuf, str::FromStr};

const AFTER_HELP: &str = "\
Examples:
  For an administrator, for a working day:
    landfall serve token --state-dir /var/lib/landfall --expires 8h > token
    curl -H \"Authorization: Bearer $(cat token)\" \\
      http://10.0.0.5:8090/api/assisted-install/v2/clusters

  For a user who installs one cluster, and for a dashboard:
    landfall serve token --state-dir /var/lib/landfall --cluster 7d9e…
    landfall serve token --state-dir /var/lib/landfall --kind watcher \\
      --expires 365d

The web page asks for a user name and a password: any name, and the token as password. To revoke tokens before they expire, \
change the key, which revokes all; agents' tokens also with the infra-env's regenerate-signing-key.";

/// Print a token for a service with --auth local
///
/// The service need not run. Only the token is written to standard output.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Token {
    /// State directory of the service, which holds its key
    #[arg(long, value_name = "DIR", env = "LANDFALL_STATE_DIR", required_unless_present = "auth_key")]
    state_dir: Option<PathBuf>,

    /// Key file, if the service runs with --auth-key
    #[arg(long, value_name = "FILE")]
    auth_key: Option<PathBuf>,

    /// For a user, a watcher (read-only), or an agent (whose ISO already holds one)
    #[arg(long, value_enum, default_value_t = Kind::User)]
    kind: Kind,

    /// Valid for this infra-env and its cluster only
    #[arg(long, value_name = "ID", conflicts_with = "cluster")]
    infra_env: Option<InfraEnvId>,

    /// Valid for this cluster and its infra-envs only
    #[arg(long, value_name = "ID")]
    cluster: Option<ClusterId>,

    /// How many times the infra-env's signing key was regenerated (the service logs each regenerate-signing-key): earlier agents'
    /// tokens are revoked
    #[arg(long, value_name = "NUMBER", default_value_t = 0, requires = "infra_env")]
    key_generation: u64,

    /// Validity: 30m, 24h, 7d, or never for a token that doesn't expire
    #[arg(long, value_name = "TIME", default_value = "24h")]
    expires: Expiry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    User,
    Watcher,
    Agent,
}

/// Seconds; `None` for never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expiry(Option<i64>);

impl FromStr for Expiry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is not a duration: write a number with s, m, h or d, or never");
        if text == "never" {
            return Ok(Self(None));
        }
        let unit = match text.chars().last() {
            Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3600,
            Some('d') => 86_400,
            _ => return Err(bad()),
        };
        let number: u32 = text[..text.len() - 1].parse().map_err(|_| bad())?;
        if number == 0 {
            return Err(bad());
        }
        Ok(Self(Some(i64::from(number) * unit)))
    }
}

impl Token {
    /// Prints the token.
    pub fn run(self) -> anyhow::Result<()> {
        let key = match (&self.auth_key, &self.state_dir) {
            (Some(path), _) => SigningKey::read(path)?,
            (None, Some(directory)) => SigningKey::load_or_create(directory)?,
            (None, None) => bail!("give --state-dir or --auth-key"),
        };
        let claims = self.claims(Timestamp::now().unix_seconds())?;
        let token = token::sign(&key, &claims).context("the system has no random numbers")?;
        writeln!(std::io::stdout(), "{token}")?;
        Ok(())
    }

    fn claims(&self, now: i64) -> anyhow::Result<Claims> {
        if self.kind == Kind::Agent && self.infra_env.is_none() && self.cluster.is_none() {
            bail!("an agent's token is for one infra-env or cluster: give --infra-env or --cluster");
        }
        Ok(Claims {
            infra_env_id: self.infra_env,
            cluster_id: self.cluster,
            auth_scheme: match self.kind {
                Kind::User => Scheme::UserAuth,
                Kind::Watcher => Scheme::WatcherAuth,
                Kind::Agent => Scheme::AgentAuth,
            },
            key_generation: self.key_generation,
            exp: self.expires.0.map(|seconds| now.saturating_add(seconds)),
            ..Claims::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let seconds = |text: &str| text.parse::<Expiry>().map(|expiry| expiry.0).map_err(drop);
        assert_eq!(seconds("90s"), Ok(Some(90)));
        assert_eq!(seconds("24h"), Ok(Some(86_400)));
        assert_eq!(seconds("7d"), Ok(Some(604_800)));
        assert_eq!(seconds("never"), Ok(None));
        for bad in ["", "24", "h", "-1h", "0m", "1w", "1ä", "99999999999d"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
