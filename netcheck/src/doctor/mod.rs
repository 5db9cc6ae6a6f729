//! Where does the way to the service break? Link, address, gateway, duplicate address, name, clock, proxy, TLS, service: looked
//! at in this order, because each needs those before it, and the first that is broken is the cause of what follows.
//!
//! Facts are gathered first (`gather`, the only part with side effects), and judged afterwards (`diagnosis`, pure; one file a
//! station). Later stations are checked where possible, whatever the earlier results.

mod address;
mod clock;
mod diagnosis;
mod duplicate;
mod gateway;
mod gather;
mod handshake;
mod link;
mod names;
mod netlink;
mod proxy;
mod report;
mod service;
mod target;
mod tls;
mod wire;

pub use api::proxy::ProxyVariables;
pub use handshake::RootsError;
pub use report::{Code, Finding, Report, SCHEMA_VERSION, Station, Verdict};

use crate::privileges::PrivilegeError;
use api::http::HttpConfig;
use std::{io, path::PathBuf, time::Duration};

/// Where to look, and how long.
#[derive(Clone, Debug)]
pub struct DoctorOptions {
    /// The service's URL, as given to agents.
    pub url: String,
    pub http: HttpConfig,
    /// Which proxy to use.
    pub proxy: ProxyVariables,
    /// Time servers to ask; if empty, those of `chrony_conf`.
    pub ntp_servers: Vec<String>,
    /// chronyd's configuration.
    pub chrony_conf: PathBuf,
    /// Name servers and search list.
    pub resolv_conf: PathBuf,
    /// Names known without asking.
    pub hosts: PathBuf,
    /// Where sysfs is mounted; only speeds are read there.
    pub sysfs: PathBuf,
    /// For each of: a connection, a proxy's answer, a handshake, the service's answer, a time server's answer, and twice for
    /// all names.
    pub timeout: Duration,
}

impl DoctorOptions {
    /// The defaults for the service at `url`, with the proxies of this process's environment.
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            http: HttpConfig::default(),
            proxy: ProxyVariables::from_env(),
            ntp_servers: Vec::new(),
            chrony_conf: "/etc/chrony.conf".into(),
            resolv_conf: "/etc/resolv.conf".into(),
            hosts: "/etc/hosts".into(),
            sysfs: "/sys".into(),
            timeout: Duration::from_secs(5),
        }
    }
}

/// Why there is no diagnosis. Faults on the way are findings, not errors.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not a URL to look for a service at.
    #[error("'{url}' is not the URL of a service: expected http:// or https:// and a host")]
    Url {
        /// Without what may be secret in it.
        url: String,
    },
    /// The time limit is out of its range.
    #[error("the time limit is {} s, but must be from 1 to 60", given.as_secs_f32())]
    Timeout { given: Duration },
    /// The CA bundle cannot be used.
    #[error(transparent)]
    Roots(#[from] RootsError),
    /// The kernel does not report its state.
    #[error("could not get {what} from the kernel (netlink)")]
    Netlink { what: &'static str, source: io::Error },
    /// The thread could not drop its capabilities.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    #[error("cannot start the event loop that names are looked up on")]
    Runtime { source: io::Error },
}

/// Checks the way to the service and reports what is broken.
///
/// Takes two seconds where all is well, and nine times [`DoctorOptions::timeout`] at most. Changes nothing, so it may be
/// interrupted at any time. Runs its own event loops in this thread's network namespace; must not be called from within
/// another one. Asking neighbours needs `CAP_NET_RAW`, and is skipped without it. Leaves the thread without any capability.
pub fn diagnose(options: &DoctorOptions) -> Result<Report, Error> {
    let range = Duration::from_secs(1)..=Duration::from_secs(60);
    if !range.contains(&options.timeout) {
        return Err(Error::Timeout { given: options.timeout });
    }
    Ok(diagnosis::diagnose(&gather::gather(options)?))
}
