//! Connections through the environment's proxy for a URL, chosen for each request: a redirect may lead elsewhere.
//!
//! For https:// the proxy gets a CONNECT. For http:// it gets the request in absolute form (RFC 9112 §3.2.2), as from Go's client
//! and curl: most proxies allow CONNECT to port 443 only. ureq does not support the absolute form, so the request's first line is
//! rewritten here as it is sent.

use crate::{
    dial::{Dialer, Lookup},
    proxy::{Choice, ProxyServer, ProxyVariables},
    trust::TlsConnector,
};
use std::sync::Arc;
use ureq::{
    Agent, Error,
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{ResolvedSocketAddrs, Resolver},
        transport::{Buffers, ConnectProxyConnector, ConnectionDetails, Connector, NextTimeout, Transport},
    },
};

type Direct = Arc<dyn Fn(&ConnectionDetails) -> Result<Box<dyn Transport>, Error> + Send + Sync>;

/// A client that uses the proxies of `variables`; `config` must not name one.
pub(crate) fn agent(config: Config, variables: ProxyVariables) -> Agent {
    let lookup = Lookup::default();
    let resolver = ByUrl { variables: variables.clone(), lookup: lookup.clone() };
    let chain = ().chain(Dialer).chain(TlsConnector::default());
    let direct: Direct = Arc::new(move |details| match chain.connect(details, None)? {
        Some(transport) => Ok(transport),
        None => Err(Error::ConnectionFailed),
    });
    let connector = ProxyConnector { variables, lookup, direct };
    let connector = ().chain(connector).chain(Dialer).chain(TlsConnector::default());
    Agent::with_parts(config, connector, resolver)
}

/// Leaves name resolution to the proxy: our resolver may not know the names.
#[derive(Debug)]
struct ByUrl {
    variables: ProxyVariables,
    lookup: Lookup,
}

impl Resolver for ByUrl {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        match self.variables.choose(uri) {
            Choice::Through(_) | Choice::Impossible { .. } => Ok(self.empty()),
            _ => self.lookup.resolve(uri, config, timeout),
        }
    }
}

struct ProxyConnector {
    variables: ProxyVariables,
    /// Resolves the proxy's name.
    lookup: Lookup,
    /// Connects to the proxy itself.
    direct: Direct,
}

impl std::fmt::Debug for ProxyConnector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProxyConnector").field("variables", &self.variables).finish_non_exhaustive()
    }
}

impl Connector<()> for ProxyConnector {
    type Out = Box<dyn Transport>;

    /// `None` without a proxy.
    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<Self::Out>, Error> {
        let server = match self.variables.choose(details.uri) {
            Choice::Through(server) => server,
            Choice::Impossible { variable, url } => {
                return Err(Error::ConnectProxyFailed(format!("{variable} names {url}, which is not an HTTP proxy")));
            }
            _ => return Ok(None),
        };
        // Agent::config_builder() would use the environment's proxy; this one is explicit.
        let config = Agent::config_builder()
            .proxy(Some(server.proxy.clone()))
            .tls_config(details.config.tls_config().clone())
            .user_agent(details.config.user_agent().clone())
            .build();
        let there = ConnectionDetails {
            uri: details.uri,
            addrs: self.lookup.empty(),
            config: &config,
            request_level: details.request_level,
            resolver: &self.lookup,
            now: details.now,
            timeout: details.timeout,
            current_time: details.current_time.clone(),
            run_connector: self.direct.clone(),
            register_shutdown: details.register_shutdown.clone(),
        };
        if details.needs_tls() {
            let tunnel = ConnectProxyConnector::default().connect(&there, None::<()>)?;
            return Ok(tunnel.map(|tunnel| Box::new(tunnel) as Box<dyn Transport>));
        }
        let uri = server.proxy.uri();
        let addrs = self.lookup.resolve(uri, details.config, details.timeout)?;
        let transport = (self.direct)(&ConnectionDetails { uri, addrs, ..there })?;
        let insert = Insert::new(details.uri, &server).ok_or(Error::HostNotFound)?;
        Ok(Some(Box::new(AbsoluteForm { transport, insert, is_start: true })))
    }
}

/// The parts that make a request one for a proxy.
struct Insert {
    /// `http://HOST[:PORT]`
    origin: String,
    /// Header lines.
    headers: String,
}

impl Insert {
    fn new(uri: &Uri, server: &ProxyServer) -> Option<Self> {
        let authority = uri.authority()?.as_str();
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let authorization = server.authorization.as_ref();
        let headers = authorization.map(|value| format!("Proxy-Authorization: {}\r\n", value.expose()));
        Some(Self { origin: format!("http://{host}"), headers: headers.unwrap_or_default() })
    }

    /// `head` is the start of a request.
    fn put_into(&self, head: &[u8]) -> Vec<u8> {
        let target = head.iter().position(|byte| *byte == b' ').map_or(0, |at| at + 1);
        let line = head.windows(2).position(|pair| pair == b"\r\n").map_or(head.len(), |at| at + 2);
        let (line, rest) = head.split_at(line);
        let (method, line) = line.split_at(target.min(line.len()));
        [method, self.origin.as_bytes(), line, self.headers.as_bytes(), rest].concat()
    }
}

/// Rewrites requests into absolute form. A request starts with the first bytes sent, or the first sent after receiving:
/// there is no pipelining, and no request waits for `100 Continue`.
struct AbsoluteForm {
    transport: Box<dyn Transport>,
    insert: Insert,
    is_start: bool,
}

impl std::fmt::Debug for AbsoluteForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AbsoluteForm").field("origin", &self.insert.origin).finish_non_exhaustive()
    }
}

impl Transport for AbsoluteForm {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.transport.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        if !std::mem::take(&mut self.is_start) {
            return self.transport.transmit_output(amount, timeout);
        }
        let head = self.insert.put_into(self.transport.buffers().output().get(..amount).unwrap_or_default());
        let room = self.transport.buffers().output().len().max(1);
        for piece in head.chunks(room) {
            if let Some(output) = self.transport.buffers().output().get_mut(..piece.len()) {
                output.copy_from_slice(piece);
            }
            self.transport.transmit_output(piece.len(), timeout)?;
        }
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.is_start = true;
        self.transport.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.transport.is_open()
    }

    fn is_tls(&self) -> bool {
        self.transport.is_tls()
    }
}
