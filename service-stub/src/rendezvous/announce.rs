//! Announces the rack's service by multicast DNS (RFC 6762, RFC 6763) to agents without its address.

use super::Rendezvous;
use mdns_sd::{IfKind, ServiceDaemon, ServiceInfo};
use std::net::IpAddr;

/// Announced until dropped.
pub(crate) struct Announcement {
    daemon: ServiceDaemon,
    name: String,
}

impl Announcement {
    /// Begins to announce `url`, on the network of `address` or on all.
    ///
    /// # Errors
    /// The library's: a name that is too long, or no socket.
    pub(crate) fn begin(
        rendezvous: &Rendezvous,
        url: &str,
        port: u16,
        address: Option<IpAddr>,
    ) -> Result<Self, mdns_sd::Error> {
        let (id, label) = (rendezvous.infra_env.to_string(), rendezvous.label());
        let host = format!("{label}.local.");
        let properties = [(api::rendezvous::URL_KEY, url), ("infra_env_id", &id)];
        let daemon = ServiceDaemon::new()?;
        let info = match address {
            Some(address) => {
                daemon.disable_interface(IfKind::All)?;
                daemon.enable_interface(IfKind::Addr(address))?;
                ServiceInfo::new(api::rendezvous::SERVICE_TYPE, &label, &host, address, port, &properties[..])?
            }
            None => ServiceInfo::new(api::rendezvous::SERVICE_TYPE, &label, &host, "", port, &properties[..])?
                .enable_addr_auto(),
        };
        let name = info.get_fullname().to_owned();
        daemon.register(info)?;
        Ok(Self { daemon, name })
    }
}

impl Drop for Announcement {
    /// Withdraws it, so that no agent asks here any longer.
    fn drop(&mut self) {
        if let Ok(done) = self.daemon.unregister(&self.name) {
            let _ = done.recv_timeout(std::time::Duration::from_secs(1));
        }
        let _ = self.daemon.shutdown();
    }
}
