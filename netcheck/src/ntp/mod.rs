//! `ntp-synchronizer` (docs/compatibility.md#ntp-synchronizer): which sources of time chronyd has and what it makes of them. Those the
//! service asks for and chronyd lacks are added. Where no chronyd runs, they are asked directly.

mod chrony;
mod request;
pub mod sntp;
mod socket;
pub(crate) mod table;

pub use chrony::{Attempts, ChronydError, Listed};
pub use request::{RequestError, from_json};
pub use sntp::{Offset, SntpError};

use crate::{
    codec::chrony::{Mode, ServerName, SourceAddress, State, Tracking},
    privileges::{self, PrivilegeError},
};
use api::{NtpSource, NtpSynchronizationResponse, SourceState};
use chrony::Chronyd;
use resolve::{Answer, ReadError, Resolver};
use std::{
    collections::HashSet,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::{Duration, Instant},
};

/// Where to look, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NtpOptions {
    /// chronyd's Unix socket, which takes commands.
    pub chrony_socket: PathBuf,
    /// Its UDP socket, which reports its sources.
    pub chrony_udp: SocketAddr,
    pub resolv_conf: PathBuf,
    /// Names known without asking.
    pub hosts: PathBuf,
    /// For the whole check.
    pub deadline: Duration,
    /// For all lookups of names at once: names are useful to people, but the check does not fail without them.
    pub name_timeout: Duration,
    /// For all servers asked directly at once, lookups of their names included.
    pub server_timeout: Duration,
}

impl Default for NtpOptions {
    fn default() -> Self {
        Self {
            chrony_socket: "/run/chrony/chronyd.sock".into(),
            chrony_udp: (Ipv4Addr::LOCALHOST, 323).into(),
            resolv_conf: "/etc/resolv.conf".into(),
            hosts: "/etc/hosts".into(),
            deadline: Duration::from_secs(30),
            name_timeout: Duration::from_secs(5),
            server_timeout: Duration::from_secs(8),
        }
    }
}

impl NtpOptions {
    fn resolver(&self) -> Result<Resolver, ReadError> {
        Resolver::from_files(&self.resolv_conf, &self.hosts)
    }
}

/// Why there are no findings. A server that does not answer is a finding.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request can't be carried out.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The host's resolver settings can't be read.
    #[error(transparent)]
    Names(#[from] ReadError),
    /// The thread could not drop its capabilities.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// chronyd could not be asked.
    #[error(transparent)]
    Chronyd(#[from] ChronydError),
    /// No chronyd, and no server to ask instead.
    #[error(
        "chronyd does not answer ({0}), so nothing synchronises this host's clock: start it (systemctl start chronyd), or \
         name servers to compare the clock with"
    )]
    NoChronyd(Attempts),
    /// A request of our own could not be sent.
    #[error(transparent)]
    Sntp(#[from] SntpError),
}

#[derive(Debug)]
pub enum Findings {
    /// chronyd's view.
    Chronyd(ChronydFindings),
    Measured(Measured),
}

#[derive(Debug)]
pub struct ChronydFindings {
    /// The socket it was asked over.
    pub place: String,
    /// The clock, as far as chronyd tells.
    pub tracking: Option<Tracking>,
    /// In its order.
    pub sources: Vec<ChronySource>,
}

/// One of chronyd's sources.
#[derive(Clone, Debug, PartialEq)]
pub struct ChronySource {
    /// As chronyd has it.
    pub listed: Listed,
    /// The name of its address, if it has one.
    pub name: Option<String>,
}

/// What servers said when asked directly.
#[derive(Debug)]
pub struct Measured {
    /// What was tried before; `None` when chronyd was not to be asked.
    pub no_chronyd: Option<Attempts>,
    /// In the order of the request.
    pub servers: Vec<(String, Result<Offset, SntpError>)>,
}

/// Lists chronyd's sources after adding those of `sources` (names or addresses) that it lacks.
///
/// Where no chronyd runs, the time of each is asked for directly, and that is an error without any.
/// Blocks until `deadline` at worst; runs on this thread, in its network namespace and not within an event loop. Leaves the thread
/// without any capability. To enter chronyd's directory it needs to be root with `CAP_SETUID`, or the user chronyd runs as;
/// others read over UDP.
pub fn synchronize(sources: &[String], options: &NtpOptions) -> Result<Findings, Error> {
    request::check(sources)?;
    let started = Instant::now();
    let resolver = options.resolver()?;
    let chronyd = Chronyd::open(options, started);
    privileges::drop_all()?;
    match chronyd.map_err(Error::from).and_then(|chronyd| with_chronyd(chronyd, sources, &resolver, options, started)) {
        Ok(findings) => Ok(Findings::Chronyd(findings)),
        Err(Error::Chronyd(ChronydError::NotReached(attempts))) if attempts.mean_absence() => {
            if sources.is_empty() {
                return Err(Error::NoChronyd(attempts));
            }
            Ok(Findings::Measured(Measured {
                no_chronyd: Some(attempts),
                servers: ask_all(sources, &resolver, options)?,
            }))
        }
        Err(error) => Err(error),
    }
}

/// Asks `servers` (names or addresses, with ports where they are not 123) directly and leaves chronyd alone.
///
/// Blocks until `server_timeout` at worst; otherwise as [`synchronize`].
pub fn measure(servers: &[String], options: &NtpOptions) -> Result<Findings, Error> {
    let resolver = options.resolver()?;
    privileges::drop_all()?;
    Ok(Findings::Measured(Measured { no_chronyd: None, servers: ask_all(servers, &resolver, options)? }))
}

type Asked = Vec<(String, Result<Offset, SntpError>)>;

fn ask_all(servers: &[String], resolver: &Resolver, options: &NtpOptions) -> Result<Asked, SntpError> {
    let offsets = sntp::measure_all(servers, resolver, options.server_timeout)?;
    Ok(servers.iter().cloned().zip(offsets).collect())
}

/// In the order of `names`; none for a name that has none, or that no server resolves in time.
fn addresses(names: &[String], resolver: &Resolver, limit: Duration) -> Vec<Vec<IpAddr>> {
    let all =
        |answer: Answer| answer.v4.into_iter().map(IpAddr::V4).chain(answer.v6.into_iter().map(IpAddr::V6)).collect();
    resolver.lookup_all(names, limit).into_iter().map(all).collect()
}

fn with_chronyd(
    mut chronyd: Chronyd,
    wanted: &[String],
    resolver: &Resolver,
    options: &NtpOptions,
    started: Instant,
) -> Result<ChronydFindings, Error> {
    let name_limit = || options.deadline.saturating_sub(started.elapsed()).min(options.name_timeout);
    let mut listed = chronyd.sources()?;
    let (mut unknown, mut seen) = (wanted.to_vec(), HashSet::new());
    // chronyd would take a name twice that it has not resolved yet.
    unknown.retain(|wanted| seen.insert(wanted.clone()) && !is_configured(wanted, &[], &listed));
    let resolved = addresses(&unknown, resolver, name_limit());
    let missing = unknown.iter().zip(resolved).filter(|(name, addresses)| !is_configured(name, addresses, &listed));
    let missing: Vec<&String> = missing.map(|(name, _)| name).collect();
    for (number, name) in missing.iter().enumerate() {
        let Some(server) = ServerName::new(name) else { continue };
        let until = chronyd.share(missing.len() - number);
        if let Err(error) = chronyd.add(server, until) {
            tracing::warn!(source = %name, %error, "chronyd did not accept a time source");
        }
    }
    if !missing.is_empty() {
        listed = chronyd.sources()?;
    }
    let (tracking, place) = (chronyd.tracking(), chronyd.place().to_owned());
    drop(chronyd);
    let addresses: Vec<IpAddr> = listed.iter().filter_map(|listed| ip(listed.source.address)).collect();
    let mut names = resolver.reverse_all(&addresses, name_limit()).into_iter();
    let sources = listed
        .into_iter()
        .map(|listed| ChronySource { name: ip(listed.source.address).and_then(|_| names.next().flatten()), listed })
        .collect();
    Ok(ChronydFindings { place, tracking, sources })
}

fn ip(address: SourceAddress) -> Option<IpAddr> {
    match address {
        SourceAddress::Ip(address) => Some(address),
        SourceAddress::Unresolved(_) | SourceAddress::None => None,
    }
}

/// Whether a source has this text as its name or address, or one of `addresses`.
fn is_configured(wanted: &str, addresses: &[IpAddr], listed: &[Listed]) -> bool {
    let address: Option<IpAddr> = wanted.parse().ok();
    listed.iter().any(|listed| {
        let there = ip(listed.source.address);
        listed.configured.as_deref() == Some(wanted)
            || there.is_some_and(|there| address == Some(there) || addresses.contains(&there))
    })
}

impl Findings {
    /// The step's reply.
    ///
    /// Of chronyd's sources the servers with an address, as `chronyc sources` lists them. Of servers asked directly, one that
    /// told the time is `not_combined`: good, but not what the clock follows, for without a chronyd it follows nothing.
    /// To say `synced` would let an installation continue with a clock that is not maintained.
    pub fn response(&self) -> NtpSynchronizationResponse {
        let ntp_sources = match self {
            Self::Chronyd(findings) => findings.sources.iter().filter_map(ChronySource::reply).collect(),
            Self::Measured(measured) => measured.servers.iter().map(|(name, offset)| reply(name, offset)).collect(),
        };
        NtpSynchronizationResponse { ntp_sources }
    }
}

fn reply(name: &str, offset: &Result<Offset, SntpError>) -> NtpSource {
    let source_state = if offset.is_ok() { SourceState::NotCombined } else { SourceState::Unreachable };
    NtpSource { source_name: name.to_owned(), source_state }
}

impl ChronySource {
    fn reply(&self) -> Option<NtpSource> {
        let address = ip(self.listed.source.address).filter(|_| self.listed.source.mode == Mode::Client)?;
        let source_name = self.name.clone().unwrap_or_else(|| address.to_string());
        Some(NtpSource { source_name, source_state: self.state() })
    }

    fn state(&self) -> SourceState {
        match self.listed.source.state {
            State::Selected => SourceState::Synced,
            State::Unselected => SourceState::Combined,
            State::Selectable => SourceState::NotCombined,
            State::NonSelectable => SourceState::Unreachable,
            State::Jittery => SourceState::Variable,
            State::Falseticker | State::Other(_) => SourceState::Error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::chrony::Source;

    fn listed(address: SourceAddress, configured: Option<&str>, mode: Mode, state: State) -> Listed {
        let source = Source { address, stratum: 2, state, mode, since_sample_s: Some(1), offset_s: 0.0 };
        Listed { source, configured: configured.map(str::to_owned), delay_s: None }
    }

    const IP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    #[test]
    fn what_chronyd_has_is_not_added() {
        let there = [
            listed(SourceAddress::Ip(IP), Some("ntp.example.com"), Mode::Client, State::Selected),
            listed(SourceAddress::Unresolved(1), Some("later.example.com"), Mode::Client, State::NonSelectable),
            listed(SourceAddress::Ip("fd00::1".parse().unwrap()), None, Mode::Client, State::NonSelectable),
        ];
        for configured in ["ntp.example.com", "10.0.0.1", "later.example.com", "fd00::1", "fd00:0::1"] {
            assert!(is_configured(configured, &[], &there), "{configured}");
        }
        for missing in ["example.com", "10.0.0.2", "fd00::2"] {
            assert!(!is_configured(missing, &[], &there), "{missing}");
        }
        assert!(is_configured("alias.example.com", &[[10, 0, 0, 9].into(), IP], &there));
        assert!(!is_configured("alias.example.com", &[[10, 0, 0, 9].into()], &there));
    }

    #[test]
    fn only_servers_are_reported_and_every_state_has_its_word() {
        let at = SourceAddress::Ip(IP);
        let client = |state| (listed(at, Some("pool.example.com"), Mode::Client, state), Some("a.example.com"));
        let sources = [
            client(State::Selected),
            (listed(at, None, Mode::Peer, State::Selected), None),
            (listed(at, None, Mode::ReferenceClock, State::Selected), None),
            (listed(SourceAddress::Unresolved(7), Some("b"), Mode::Client, State::NonSelectable), None),
            (listed(at, Some("pool.example.com"), Mode::Client, State::Unselected), None),
            client(State::Selectable),
            client(State::NonSelectable),
            client(State::Falseticker),
            client(State::Jittery),
            client(State::Other(9)),
        ];
        let sources = sources.map(|(listed, name)| ChronySource { listed, name: name.map(str::to_owned) }).to_vec();
        let findings = Findings::Chronyd(ChronydFindings { place: String::new(), tracking: None, sources });
        let expected = [
            ("a.example.com", "synced"),
            ("10.0.0.1", "combined"),
            ("a.example.com", "not_combined"),
            ("a.example.com", "unreachable"),
            ("a.example.com", "error"),
            ("a.example.com", "variable"),
            ("a.example.com", "error"),
        ]
        .map(|(name, state)| serde_json::json!({"source_name": name, "source_state": state}));
        let response = serde_json::to_value(findings.response()).unwrap();
        assert_eq!(response, serde_json::json!({ "ntp_sources": expected }));
    }
}
