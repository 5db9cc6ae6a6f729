//! Options of `landfall serve` that manifests depend on.

/// The cipher on a machine that is not in FIPS mode, and on one that is.
const CIPHERS: [&str; 2] = ["aes-cbc-essiv:sha256", "aes-xts-plain64"];
/// The kernel's answer to whether it is.
const FIPS_ENABLED: &str = "/proc/sys/crypto/fips_enabled";

#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Clusters")]
pub struct ManifestOptions {
    /// Have a single node run dnsmasq, which resolves the cluster's names to the node's own address: they need not be in DNS. Always
    /// with --rendezvous
    #[arg(long, env = "ENABLE_SINGLE_NODE_DNSMASQ", value_parser = kernel::spelling::parse_switch)]
    pub single_node_dnsmasq: bool,

    /// Cipher of nodes' disks that a cluster has encrypted. Default: aes-xts-plain64 if this machine is in FIPS mode, else
    /// aes-cbc-essiv:sha256
    #[arg(long, value_name = "CIPHER", env = "DISK_ENCRYPTION_CIPHER")]
    pub disk_encryption_cipher: Option<String>,
}

impl ManifestOptions {
    /// The same with the cipher that suits this machine, unless one is given. A rack that serves itself has no name server.
    pub(crate) fn on_this_machine(mut self, serves_itself: bool) -> Self {
        self.single_node_dnsmasq |= serves_itself;
        let given = self.disk_encryption_cipher.take().filter(|cipher| !cipher.is_empty());
        let fips = std::fs::read_to_string(FIPS_ENABLED).is_ok_and(|text| text.trim() == "1");
        self.disk_encryption_cipher = given.or_else(|| fips.then(|| CIPHERS[1].to_owned()));
        self
    }

    pub(crate) fn cipher(&self) -> &str {
        self.disk_encryption_cipher.as_deref().unwrap_or(CIPHERS[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        options: ManifestOptions,
    }

    #[test]
    fn a_given_cipher_is_the_cipher() {
        let options = |words: &[&str]| Program::try_parse_from(["serve"].iter().chain(words)).unwrap().options;
        let given = options(&["--single-node-dnsmasq", "--disk-encryption-cipher", "c"]).on_this_machine(false);
        assert_eq!((given.single_node_dnsmasq, given.cipher()), (true, "c"));
        let unset = options(&["--disk-encryption-cipher", ""]);
        assert!(CIPHERS.contains(&unset.clone().on_this_machine(false).cipher()));
        assert_eq!([false, true].map(|own| unset.clone().on_this_machine(own).single_node_dnsmasq), [false, true]);
    }
}
