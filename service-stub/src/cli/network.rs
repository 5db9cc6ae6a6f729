//! Options of `landfall serve` about addresses and connections.

use crate::addresses::default_listen;
use crate::auth::Auth;
use crate::server;
use anyhow::{Context, bail};
use std::net::{SocketAddr, TcpListener};

/// Where the service listens, and who reaches it.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Network")]
pub(crate) struct NetworkArgs {
    /// Address and port to listen on; port 0 takes a free one. Default: 127.0.0.1:8090, which other machines cannot reach; with
    /// --auth local 0.0.0.0:8090
    #[arg(long, value_name = "ADDR:PORT", env = "LANDFALL_LISTEN")]
    pub(super) listen: Option<SocketAddr>,

    /// Base URL at which hosts reach this service, written into every ISO and config. Port 0 stands for the port listened
    /// on. Default: the address listened on, or for a wildcard the address of this machine's default route
    #[arg(long, value_name = "URL", env = "LANDFALL_SERVE_URL")]
    pub(super) url: Option<String>,

    /// Additional name for this service. Requests for other names are refused; IP addresses, localhost and the host of --url
    /// are always accepted. May be repeated
    #[arg(long, value_name = "NAME")]
    pub(super) allow_host: Vec<String>,

    /// Additional address and port without TLS, for firmware that trusts no certificate: serves boot scripts, kernels,
    /// initrds and images only
    #[arg(long, value_name = "ADDR:PORT")]
    pub(super) http_listen: Option<SocketAddr>,

    /// Origin of web pages that may read /boot-artifacts, as `https://console.example.com`, or * for all. May be repeated, or a list
    /// with commas
    #[arg(long = "allow-origin", value_name = "ORIGIN", env = "ALLOWED_DOMAINS", value_delimiter = ',')]
    pub(super) allowed_origins: Vec<String>,

    /// Maximum of open connections; further connections get 503 and are closed. Limited by the file descriptors of this
    /// process (ulimit -Hn), minus some for files
    #[arg(long, value_name = "COUNT", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_connections: u32,
}

impl NetworkArgs {
    /// The sockets: the main one, and the one for plain HTTP.
    pub(super) fn listen(&self, auth: &Auth, secure: bool) -> anyhow::Result<(TcpListener, Option<TcpListener>)> {
        if self.http_listen.is_some() && !secure {
            bail!("--http-listen needs HTTPS (--tls or --tls-cert): without it --listen is plain HTTP already");
        }
        let main = listen(self.listen.unwrap_or_else(|| default_listen(auth)))?;
        Ok((main, self.http_listen.map(listen).transpose()?))
    }

    /// Raises the limit of file descriptors as far as allowed, and returns how many connections may use.
    pub(super) fn connections(&self) -> anyhow::Result<usize> {
        let wanted = self.max_connections;
        let (was, bound) = server::raise_descriptors().context("cannot read the limit on open files")?;
        let most = connection_limit(bound);
        tracing::info!(was, open_files = bound, connections = most.min(wanted.into()), "file descriptors");
        if u64::from(wanted) > most {
            tracing::warn!(
                "--max-connections {wanted} exceeds the limit of {bound} open files: limited to {most} connections (raise ulimit -Hn, or \
                 LimitNOFILE= in the unit)"
            );
        }
        Ok(usize::try_from(most.min(wanted.into()))?)
    }
}

fn listen(at: SocketAddr) -> anyhow::Result<TcpListener> {
    server::listen(at).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            anyhow::anyhow!("{at} is in use by another program or service: --listen ADDR:PORT takes another port")
        }
        _ => anyhow::Error::from(error).context(format!("cannot listen on {at}")),
    })
}

/// Some are reserved for the store, uploads and served files; if there are very few, half.
fn connection_limit(descriptors: u64) -> u64 {
    descriptors.saturating_sub(2048).max(descriptors / 2).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_left_for_files() {
        assert_eq!([20_000, 4096, 1024, 1].map(connection_limit), [17_952, 2048, 512, 1]);
    }
}
