//! Chooses the proxy for a URL.
//!
//! The rules are those of Go's `net/http.ProxyFromEnvironment` (docs/compatibility.md#http-client), since users tested their variables
//! with Go programs: the variable is that of the URL's scheme, `HTTP_PROXY` or `HTTPS_PROXY`, and `NO_PROXY` has names (which
//! include their subdomains) and addresses, each with an optional port, networks, or `*`.

use crate::{Secret, url::public_url};
use base64::{Engine, prelude::BASE64_STANDARD};
use std::{env, fmt, fs::File, io::Read, net::IpAddr, path::Path};
use ureq::{Proxy, ProxyProtocol, http::Uri};

/// Either case of a name; the first that is not empty counts.
type Names = [&'static str; 2];
const HTTP: Names = ["HTTP_PROXY", "http_proxy"];
const HTTPS: Names = ["HTTPS_PROXY", "https_proxy"];
const EXCEPTIONS: Names = ["NO_PROXY", "no_proxy"];

/// Names a file with the variables, one per line, for a process that must not have them in its environment, which others can read
/// and children inherit.
pub const FILE_VARIABLE: &str = "LANDFALL_PROXY_FILE";
/// All proxy variables of other programs, and [`FILE_VARIABLE`].
pub const VARIABLES: [&str; 7] = [HTTP[0], HTTP[1], HTTPS[0], HTTPS[1], EXCEPTIONS[0], EXCEPTIONS[1], FILE_VARIABLE];
/// Maximum that is read of such a file.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// The proxy variables of the environment. They may contain passwords.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyVariables(Vec<(String, Secret)>);

/// A server by name or address, and its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Endpoint {
    /// The server of `uri`; `None` without a host, or without a port for a scheme other than http and https.
    pub fn from_uri(uri: &Uri) -> Option<Self> {
        let known = match uri.scheme_str() {
            Some("http") => Some(80),
            Some("https") => Some(443),
            _ => None,
        };
        let host = uri.host().map(unbracketed).filter(|host| !host.is_empty())?.to_owned();
        Some(Self { host, port: uri.port_u16().or(known)? })
    }

    /// The host, if it is an address.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// This host itself, by a loopback address or as `localhost`.
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.ip().is_some_and(|ip| ip.to_canonical().is_loopback())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bracketed = self.host.contains(':');
        let (open, close) = if bracketed { ("[", "]") } else { ("", "") };
        write!(f, "{open}{}{close}:{}", self.host, self.port)
    }
}

fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// A proxy to use.
#[derive(Clone, Debug)]
pub struct ProxyServer {
    /// The variable that names it.
    pub variable: &'static str,
    pub endpoint: Endpoint,
    /// Reached over TLS.
    pub is_https: bool,
    /// Value of the `Proxy-Authorization` header.
    pub authorization: Option<Secret>,
    pub(crate) proxy: Proxy,
}

impl ProxyServer {
    /// Its URL, which may contain a password.
    pub fn url(&self) -> &Uri {
        self.proxy.uri()
    }
}

/// The environment's choice for a URL.
#[derive(Clone, Debug)]
pub enum Choice {
    /// No proxy is named for its scheme.
    Direct,
    /// One is named, but never used for this host itself (loopback addresses and `localhost`).
    Local {
        /// The variable that names it.
        variable: &'static str,
    },
    /// One is named, but not for this URL.
    Excepted {
        /// The variable that names it.
        variable: &'static str,
        /// The variable with the exception.
        exceptions: &'static str,
    },
    Through(ProxyServer),
    /// One of an unsupported kind. Go's client supports SOCKS 5.
    Impossible {
        /// The variable that names it.
        variable: &'static str,
        /// Without secrets.
        url: String,
    },
    /// The value is not a URL, and ignored as in Go.
    Overlooked {
        variable: &'static str,
    },
}

impl Choice {
    /// The proxy, if one is to be used.
    pub fn server(&self) -> Option<&ProxyServer> {
        match self {
            Self::Through(server) => Some(server),
            _ => None,
        }
    }
}

impl ProxyVariables {
    /// This process's, from the file that [`FILE_VARIABLE`] names or from its environment.
    pub fn from_env() -> Self {
        if let Some(path) = env::var_os(FILE_VARIABLE) {
            return Self::from_file(Path::new(&path));
        }
        let names = [HTTP, HTTPS, EXCEPTIONS].into_iter().flatten();
        Self(names.filter_map(|name| Some((name.to_owned(), Secret::new(env::var(name).ok()?)))).collect())
    }

    /// These, as `(name, value)`.
    pub fn from_pairs(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect())
    }

    /// Those in a file written by [`to_lines`](Self::to_lines); none if it does not exist.
    fn from_file(path: &Path) -> Self {
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text));
        if let Err(error) = read {
            tracing::warn!(path = %path.display(), %error, "cannot read the file of proxies: using none");
        }
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        Self(pairs.map(|(name, value)| (name.to_owned(), Secret::new(value))).collect())
    }

    /// Each as `NAME=value`, for a file. A value of several lines is not a URL, and left out.
    pub fn to_lines(&self) -> Secret {
        let lines = self.pairs().filter(|(_, value)| !value.contains('\n'));
        Secret::new(lines.map(|(name, value)| format!("{name}={value}\n")).collect::<String>())
    }

    /// Each as name and value, for another program's environment.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.expose()))
    }

    fn get(&self, names: Names) -> Option<(&'static str, &str)> {
        names.into_iter().find_map(|name| {
            let (_, value) = self.0.iter().find(|(known, value)| known == name && !value.is_empty())?;
            Some((name, value.expose()))
        })
    }

    /// How to get to `url`.
    pub fn choose(&self, url: &Uri) -> Choice {
        let names = match url.scheme_str() {
            Some("http") => HTTP,
            Some("https") => HTTPS,
            _ => return Choice::Direct,
        };
        let Some((variable, value)) = self.get(names) else { return Choice::Direct };
        let Ok(proxy) = Proxy::new(value) else { return Choice::Overlooked { variable } };
        let Some(target) = Endpoint::from_uri(url) else { return Choice::Direct };
        if target.is_loopback() {
            return Choice::Local { variable };
        }
        if let Some((exceptions, list)) = self.get(EXCEPTIONS)
            && list.split(',').filter_map(|entry| Exception::parse(entry).ok().flatten()).any(|e| e.has(&target))
        {
            return Choice::Excepted { variable, exceptions };
        }
        let is_https = match proxy.protocol() {
            ProxyProtocol::Http => false,
            ProxyProtocol::Https => true,
            _ => return Choice::Impossible { variable, url: public_url(value) },
        };
        let endpoint = Endpoint { host: unbracketed(proxy.host()).to_owned(), port: proxy.port() };
        let has_user = proxy.username().is_some() || proxy.password().is_some();
        let authorization = has_user.then(|| {
            let pair = format!("{}:{}", proxy.username().unwrap_or_default(), proxy.password().unwrap_or_default());
            Secret::new(format!("Basic {}", BASE64_STANDARD.encode(pair)))
        });
        Choice::Through(ProxyServer { variable, endpoint, is_https, authorization, proxy })
    }

    /// The name of the variable with exceptions, and its entries that can never match: networks with an invalid prefix, ports
    /// without a host.
    pub fn malformed_exceptions(&self) -> Option<(&'static str, Vec<String>)> {
        let (variable, list) = self.get(EXCEPTIONS)?;
        let malformed: Vec<_> = list.split(',').filter_map(|entry| Exception::parse(entry).err()).collect();
        (!malformed.is_empty()).then_some((variable, malformed))
    }
}

/// An entry of `NO_PROXY`.
enum Exception {
    All,
    Network {
        ip: IpAddr,
        prefix: u32,
    },
    Ip {
        ip: IpAddr,
        port: Option<String>,
    },
    /// `suffix` starts with a dot.
    Domain {
        suffix: String,
        includes_itself: bool,
        port: Option<String>,
    },
}

impl Exception {
    /// `None` for an empty entry, an error for an invalid one.
    fn parse(entry: &str) -> Result<Option<Self>, String> {
        let entry = entry.trim().to_lowercase();
        if entry.is_empty() {
            return Ok(None);
        }
        if entry == "*" {
            return Ok(Some(Self::All));
        }
        if let Some((ip, prefix)) = entry.split_once('/') {
            let ip: IpAddr = ip.parse().map_err(|_| entry.clone())?;
            let bits = if ip.is_ipv4() { 32 } else { 128 };
            let prefix = prefix.parse().ok().filter(|prefix| *prefix <= bits).ok_or_else(|| entry.clone())?;
            return Ok(Some(Self::Network { ip, prefix }));
        }
        let (host, port) = split_port(&entry);
        let port = port.filter(|port| !port.is_empty()).map(str::to_owned);
        if let Ok(ip) = unbracketed(host).parse() {
            return Ok(Some(Self::Ip { ip, port }));
        }
        let host = host.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(host);
        if host.is_empty() {
            return Err(entry);
        }
        let includes_itself = !host.starts_with('.');
        let suffix = if includes_itself { format!(".{host}") } else { host.to_owned() };
        Ok(Some(Self::Domain { suffix, includes_itself, port }))
    }

    fn has(&self, target: &Endpoint) -> bool {
        let fits = |port: &Option<String>| port.as_ref().is_none_or(|port| *port == target.port.to_string());
        let host = target.host.to_lowercase();
        match self {
            Self::All => true,
            Self::Network { ip, prefix } => target.ip().is_some_and(|there| contains(*ip, *prefix, there)),
            Self::Ip { ip, port } => {
                target.ip().is_some_and(|there| there.to_canonical() == ip.to_canonical()) && fits(port)
            }
            Self::Domain { suffix, includes_itself, port } => {
                let is_it = *includes_itself && suffix.strip_prefix('.') == Some(&host);
                (is_it || host.ends_with(suffix)) && fits(port)
            }
        }
    }
}

/// Splits `HOST:PORT`, also with brackets; text with more colons has no port.
fn split_port(entry: &str) -> (&str, Option<&str>) {
    match entry.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        _ => (entry, None),
    }
}

fn contains(network: IpAddr, prefix: u32, ip: IpAddr) -> bool {
    match (network, ip.to_canonical()) {
        (IpAddr::V4(network), IpAddr::V4(ip)) => {
            (network.to_bits() ^ ip.to_bits()).checked_shr(32 - prefix).unwrap_or(0) == 0
        }
        (IpAddr::V6(network), IpAddr::V6(ip)) => {
            (network.to_bits() ^ ip.to_bits()).checked_shr(128 - prefix).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(pairs: &[(&str, &str)], url: &str) -> Choice {
        ProxyVariables::from_pairs(pairs).choose(&url.parse().unwrap())
    }

    /// What Go's own tests show of `NO_PROXY`, and what people write.
    #[test]
    fn exceptions_are_go_s() {
        const LIST: &str = "foobar.com, .barbaz.net, *.star.org,, 192.168.1.1, 192.168.1.2:81, 192.168.1.3:80, 10.0.0.0/30, \
                            2001:db8::52:0:1, [2001:db8::52:0:2]:443, [2001:db8::52:0:3]:80, 2002:db8:a::45/64, \
                            port.com:8080, Upper.Example,\t1.2.3.4/33, host/24, :99";
        for (host, is_proxied) in [
            // Never, whatever is set.
            ("localhost", false),
            ("127.0.0.1", false),
            ("127.0.0.2", false),
            ("[::1]", false),
            ("[::ffff:127.0.0.1]", false),
            ("[::2]", true),
            ("localhost.net", true),
            ("local.localhost", true),
            // Addresses, with ports.
            ("192.168.1.1", false),
            ("192.168.1.1:8443", false),
            ("[::ffff:192.168.1.1]", false),
            ("192.168.1.2", true),
            ("192.168.1.2:81", false),
            ("192.168.1.3", false),
            ("192.168.1.3:81", true),
            ("192.168.1.4", true),
            ("[2001:db8::52:0:1]", false),
            ("[2001:db8::52:0:2]", true),
            ("[2001:db8::52:0:2]:443", false),
            ("[2001:db8::52:0:3]", false),
            ("[2001:db8::52:0:3]:8080", true),
            // Networks.
            ("10.0.0.2", false),
            ("10.0.0.3:22624", false),
            ("10.0.0.4", true),
            ("[2002:db8:a::123]", false),
            ("[fe80::424b:c8be:1643:a1b6]", true),
            ("1.2.3.4", true),
            // Names.
            ("foobar.com", false),
            ("www.foobar.com", false),
            ("WWW.FooBar.com", false),
            ("foofoobar.com", true),
            ("barbaz.net", true),
            ("www.barbaz.net", false),
            ("barbarbaz.net", true),
            ("star.org", true),
            ("a.star.org", false),
            ("port.com", true),
            ("port.com:8080", false),
            ("api.port.com:8080", false),
            ("api.upper.example", false),
            ("baz.com", true),
        ] {
            let choice = chosen(&[("HTTP_PROXY", "http://proxy"), ("NO_PROXY", LIST)], &format!("http://{host}/"));
            assert_eq!(choice.server().is_some(), is_proxied, "{host}: {choice:?}");
            let all = chosen(&[("http_proxy", "http://proxy"), ("no_proxy", "x.y, *")], &format!("http://{host}/"));
            assert!(all.server().is_none(), "{host}");
            let nothing_listed =
                !matches!(host, "localhost" | "127.0.0.1" | "127.0.0.2" | "[::1]" | "[::ffff:127.0.0.1]");
            let choice = chosen(&[("HTTP_PROXY", "http://proxy"), ("NO_PROXY", "")], &format!("http://{host}/"));
            assert_eq!(choice.server().is_some(), nothing_listed, "{host}: {choice:?}");
        }
        let variables = ProxyVariables::from_pairs(&[("NO_PROXY", LIST)]);
        let malformed = ["1.2.3.4/33", "host/24", ":99"].map(str::to_owned).to_vec();
        assert_eq!(variables.malformed_exceptions(), Some(("NO_PROXY", malformed)));
    }

    #[test]
    fn ports_of_exceptions_are_compared_with_the_scheme_s_own() {
        let pairs = [("HTTPS_PROXY", "http://proxy"), ("NO_PROXY", "a.com:443,b.com:80")];
        assert!(matches!(chosen(&pairs, "https://a.com/"), Choice::Excepted { variable: "HTTPS_PROXY", .. }));
        assert!(chosen(&pairs, "https://b.com/").server().is_some());
        assert!(chosen(&pairs, "https://a.com:6443/").server().is_some());
    }

    #[test]
    fn the_scheme_names_the_variable() {
        const HTTP: (&str, &str) = ("HTTP_PROXY", "http://plain:3128");
        const HTTPS: (&str, &str) = ("HTTPS_PROXY", "https://secure");
        for (pairs, url, expected) in [
            (&[][..], "http://h/", None),
            (&[HTTP, HTTPS], "http://h/", Some("plain:3128 HTTP_PROXY")),
            (&[HTTP, HTTPS], "https://h/", Some("secure:443 HTTPS_PROXY")),
            (&[HTTP], "https://h/", None),
            (&[HTTPS], "http://h/", None),
            (&[("ALL_PROXY", "http://all")], "http://h/", None),
            (&[("http_proxy", "lower:1"), HTTP], "http://h/", Some("plain:3128 HTTP_PROXY")),
            (&[("http_proxy", "lower:1"), ("HTTP_PROXY", "")], "http://h/", Some("lower:1 http_proxy")),
            (&[("http_proxy", "cache.corp.example.com")], "http://h/", Some("cache.corp.example.com:80 http_proxy")),
            (&[("http_proxy", "http://[fd00::1]:3128")], "http://h/", Some("[fd00::1]:3128 http_proxy")),
        ] {
            let choice = chosen(pairs, url);
            let seen = choice.server().map(|server| format!("{} {}", server.endpoint, server.variable));
            assert_eq!(seen.as_deref(), expected, "{pairs:?} {url}");
        }
        assert!(chosen(&[HTTPS], "https://h/").server().unwrap().is_https);
        assert!(matches!(chosen(&[("HTTP_PROXY", "socks5://u:p@h:1")], "http://h/"),
            Choice::Impossible { variable: "HTTP_PROXY", url } if url == "socks5://h:1"));
        assert!(matches!(chosen(&[("HTTP_PROXY", "http://a b")], "http://h/"), Choice::Overlooked { .. }));
        let choice = chosen(&[("HTTP_PROXY", "http://user:pa%40ss@one")], "http://h/");
        assert_eq!(choice.server().unwrap().authorization.as_ref().unwrap().expose(), "Basic dXNlcjpwYUBzcw==");
    }
}
