//! What a live host needs before it has its root file system: an image that fetches it over the network has these files
//! in a separate archive, behind its initramfs (docs/compatibility.md#minimal-iso-ramdisk).

use super::assisted::StaticNetwork;
use super::{proxy_variables, units};
use crate::BuildError;
use api::Proxy;

/// A member of the archive.
#[derive(Clone, PartialEq, Eq)]
pub struct RamdiskFile {
    /// Path, without a slash at its start.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    pub bytes: Vec<u8>,
}

/// The link that makes the initramfs start the network service: where it is, and where it leads.
pub const LINK: (&str, &str) = (
    "etc/systemd/system/initrd.target.wants/pre-network-manager-config.service",
    "/etc/systemd/system/pre-network-manager-config.service",
);

/// The files; none for a host that needs neither networks nor proxies. The networks must be keyfiles: an initramfs has no
/// nmstatectl. With networks, [`LINK`] belongs to them.
pub fn ramdisk(network: Option<&StaticNetwork>, proxy: &Proxy) -> Result<Vec<RamdiskFile>, BuildError> {
    let file = |path: &str, mode: u32, bytes: &[u8]| RamdiskFile { path: path.to_owned(), mode, bytes: bytes.to_vec() };
    let mut files = Vec::new();
    if let Some(network) = network {
        let of_hosts = network.files.iter();
        files.extend(of_hosts.map(|own| file(own.path.trim_start_matches('/'), own.mode, &own.bytes)));
        let script = include_bytes!("files/pre-network-manager-config-keyfiles.sh");
        let common = include_bytes!("files/common_network_script.sh");
        files.push(file("usr/local/bin/pre-network-manager-config.sh", 0o755, script));
        files.push(file("usr/local/bin/common_network_script.sh", 0o755, common));
        let unit = units::initrd_network(network.discovery_delay_s);
        files.push(file("etc/systemd/system/pre-network-manager-config.service", 0o644, unit.as_bytes()));
    }
    let mut drop_in = String::new();
    for (name, value) in proxy_variables(proxy).into_iter().filter(|(_, value)| !value.is_empty()) {
        drop_in.push_str(&units::variable(name, value)?);
    }
    if !drop_in.is_empty() {
        let path = "etc/systemd/system/coreos-livepxe-rootfs.service.d/10-proxy.conf";
        files.push(file(path, 0o664, format!("[Service]\n{drop_in}").as_bytes()));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_is_in_it() {
        assert!(ramdisk(None, &Proxy::default()).unwrap().is_empty());
        let proxy = Proxy { http_proxy: Some("http://u:a%20b@p:3128".into()), ..Proxy::default() };
        let files = ramdisk(None, &proxy).unwrap();
        assert_eq!((files.len(), files[0].mode), (1, 0o664));
        let text = String::from_utf8_lossy(&files[0].bytes);
        assert!(text.starts_with("[Service]\nEnvironment="), "{text}");
        assert!(text.contains("http_proxy=http://u:a%%20b@p:3128") && text.contains("HTTP_PROXY="), "{text}");
    }
}
