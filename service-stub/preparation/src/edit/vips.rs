//! Virtual addresses from a DHCP server: the nodes renew their leases (docs/compatibility.md#dhcp-lease-allocate).

use super::config;
use super::error::EditError;
use super::settings::{Vip, Vips};
use ignition::data_url;
use ignition::model::File;

const MONITOR_PATH: &str = "/etc/keepalived/unsupported-monitor.conf";
/// What a lease says of its end.
const ENDS: [&str; 3] = ["renew", "rebind", "expire"];

/// Fails if an address is unknown.
pub(super) fn check(vips: &Vips) -> Result<(), EditError> {
    let shown = |vip: &Vip| vip.address.map(|address| address.to_string()).unwrap_or_default();
    match (vips.api.address, vips.ingress.address) {
        (Some(_), Some(_)) => Ok(()),
        _ => Err(EditError::Vips { api: shown(&vips.api), ingress: shown(&vips.ingress) }),
    }
}

/// The addresses for keepalived, and the leases that are known.
pub(super) fn files(vips: &Vips) -> Result<Vec<File<'static>>, EditError> {
    check(vips)?;
    let both =
        [("api", &vips.api, "/etc/keepalived/lease-api"), ("ingress", &vips.ingress, "/etc/keepalived/lease-ingress")];
    let monitor = both.map(|(name, vip, _)| {
        let (mac, address) = (vip.mac, vip.address.map(|address| address.to_string()).unwrap_or_default());
        format!("{name}-vip:\n  name: {name}\n  mac-address: {mac}\n  ip-address: {address}\n")
    });
    let leases = both.into_iter().filter(|(_, vip, _)| !vip.lease.is_empty());
    let leases = leases.map(|(_, vip, path)| config::file(path, data_url::percent(endless(&vip.lease).as_bytes())));
    Ok([config::file(MONITOR_PATH, data_url::percent(monitor.concat().as_bytes()))].into_iter().chain(leases).collect())
}

/// The lease without an end.
fn endless(lease: &str) -> String {
    lease.split_inclusive(';').map(|statement| end_of(statement).unwrap_or_else(|| statement.to_owned())).collect()
}

/// A statement that says when the lease ends, as one that says that it does not.
fn end_of(statement: &str) -> Option<String> {
    let inside = statement.strip_suffix(';')?;
    inside.char_indices().filter(|(_, c)| c.is_ascii_whitespace()).find_map(|(at, _)| {
        // The blank is one byte.
        let (before, rest) = inside.split_at_checked(at + 1)?;
        let word = ENDS.into_iter().find(|word| rest.strip_prefix(word).is_some_and(|rest| rest.starts_with(' ')))?;
        Some(format!("{before}{word} never;"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Mac;

    const LEASE: &str = "lease {\n  interface \"api\";\n  fixed-address 192.0.2.9;\n  option dhcp-lease-time 3600;\n  renew 1 2026/11/23 01:02:03;\n  expire 1 2026/11/23 02:02:03;\n}";

    fn vip(last: u8, lease: &str) -> Vip {
        Vip { mac: Mac([0, 0x1a, 0x4a, 1, 2, last]), address: Some([192, 0, 2, last].into()), lease: lease.into() }
    }

    #[test]
    fn leases_do_not_end() {
        for (lease, expected) in [
            ("", ""),
            ("lease { renew 1 x;}", "lease { renew never;}"),
            ("lease {\trenew 1 x; rebind 2 y; expire 3 z;\n}", "lease {\trenew never; rebind never; expire never;\n}"),
            (
                "lease {\n renewal 1;\n xexpire 2;\n expire-x 3;\n}",
                "lease {\n renewal 1;\n xexpire 2;\n expire-x 3;\n}",
            ),
            ("lease {\n option x \"ü\";\n expire 1 x", "lease {\n option x \"ü\";\n expire 1 x"),
            ("lease {\n renew 1\n2;\n}", "lease {\n renew never;\n}"),
        ] {
            assert_eq!(endless(lease), expected);
            assert_eq!(endless(expected), expected);
        }
        assert!(endless(LEASE).contains("\n  renew never;\n  expire never;\n}"), "{}", endless(LEASE));
    }

    #[test]
    fn keepalived_gets_the_addresses_and_what_leases_there_are() {
        let texts = |vips: &Vips| {
            let files = files(vips).unwrap();
            let text = |file: &File<'_>| String::from_utf8(config::contents(file).unwrap()).unwrap();
            files.iter().map(|file| (file.path.to_string(), text(file))).collect::<Vec<_>>()
        };
        let made = texts(&Vips { api: vip(9, LEASE), ingress: vip(10, "") });
        let monitor = "api-vip:\n  name: api\n  mac-address: 00:1a:4a:01:02:09\n  ip-address: 192.0.2.9\n\
                       ingress-vip:\n  name: ingress\n  mac-address: 00:1a:4a:01:02:0a\n  ip-address: 192.0.2.10\n";
        assert_eq!(made[0], ("/etc/keepalived/unsupported-monitor.conf".to_owned(), monitor.to_owned()));
        assert_eq!((made.len(), &*made[1].0), (2, "/etc/keepalived/lease-api"));
        assert_eq!(texts(&Vips { api: vip(9, LEASE), ingress: vip(10, LEASE) })[2].0, "/etc/keepalived/lease-ingress");
        let error = files(&Vips { api: vip(9, ""), ingress: Vip { address: None, ..vip(10, "") } }).err().unwrap();
        let expected = "Could not create DHCP encoded file: Either API VIP <192.0.2.9> or Ingress VIP <> are not set";
        assert_eq!(error.to_string(), expected);
    }
}
