//! The network of the discovered host is passed to the installed system: an address that was set by hand, in a
//! NetworkManager profile or on the kernel's command line, is not lost if the service knows only DHCP.
//!
//! A service that knows of a static network says so itself, with `--copy-network` or `ip=` (docs/compatibility.md#install-request); then
//! nothing is added.

use nix::{ifaddrs::getifaddrs, net::if_::InterfaceFlags};
use std::{
    fs::{self, File},
    io::Read,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

/// Where NetworkManager keeps the profiles that `--copy-network` copies.
pub(crate) const NETWORK_DIR: &str = "/etc/NetworkManager/system-connections";
/// A larger file is not a profile.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// For the service's name.
const LOOKUP_LIMIT: Duration = Duration::from_secs(30);
/// More profiles than this are not looked at.
const MAX_FILES: usize = 256;
/// Kernel arguments that make a network before the root file system is there (dracut.cmdline(7)).
const NETWORK_KARGS: [&str; 12] = [
    "BOOTIF",
    "bond",
    "bootdev",
    "bridge",
    "ifname",
    "ip",
    "nameserver",
    "rd.bootif",
    "rd.peerdns",
    "rd.route",
    "team",
    "vlan",
];

/// The live host's network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveNetwork {
    /// The address that the service sees.
    pub address: Option<IpAddr>,
    /// Hardware address of its interface, lower case with colons.
    pub mac: Option<String>,
    /// Addresses set in NetworkManager's profiles.
    pub in_profiles: Vec<IpAddr>,
    /// Whether a user at the console has changed a profile.
    pub by_operator: bool,
    /// The kernel's command line.
    pub command_line: String,
}

/// Network settings for an image's first boot.
#[derive(Debug)]
pub(crate) struct FirstBoot<'a> {
    pub append_kargs: &'a mut Vec<String>,
    pub network_dir: &'a mut Option<PathBuf>,
}

impl LiveNetwork {
    /// That of the system whose root is `root`, as it reaches the service at `url`. What can't be read counts as missing.
    pub fn read(root: &Path, url: &str) -> Self {
        let address = address_towards(url);
        let profiles = root.join(NETWORK_DIR.trim_start_matches('/'));
        Self {
            address,
            mac: address.and_then(|address| mac_of(root, address)),
            in_profiles: profile_addresses(&profiles),
            by_operator: by_operator(&root.join("var/log/agent"), &profiles),
            command_line: read(&root.join("proc/cmdline")).unwrap_or_default(),
        }
    }

    /// Adds to `first_boot` what it needs to come up with the same address. Says what was added and why.
    pub(crate) fn carry_over(&self, first_boot: FirstBoot) -> Option<String> {
        if self.by_operator && first_boot.network_dir.is_none() {
            *first_boot.network_dir = Some(NETWORK_DIR.into());
            return Some(format!(
                "the network was set at the console: the profiles in {NETWORK_DIR} are copied to the installed system"
            ));
        }
        let address = self.address.filter(|address| !address.is_loopback())?;
        let is_there = |karg: &String| static_address(karg) == Some(address);
        if first_boot.network_dir.is_some() || first_boot.append_kargs.iter().any(is_there) {
            return None;
        }
        let reason = format!("the service knows this host by {address}, which is set by hand");
        if self.in_profiles.contains(&address) {
            self.drop_dhcp(first_boot.append_kargs);
            *first_boot.network_dir = Some(NETWORK_DIR.into());
            return Some(format!("{reason} in {NETWORK_DIR}: its profiles are copied to the installed system"));
        }
        let words = || self.command_line.split_ascii_whitespace();
        if !words().any(|word| static_address(word) == Some(address)) {
            return None;
        }
        self.drop_dhcp(first_boot.append_kargs);
        let carried = |word: &&str| {
            word.split_once('=').is_some_and(|(name, _)| NETWORK_KARGS.contains(&name))
                && !first_boot.append_kargs.iter().any(|karg| karg == word)
        };
        let carried: Vec<String> = words().filter(carried).map(str::to_owned).collect();
        first_boot.append_kargs.extend(carried);
        Some(format!("{reason} on the kernel's command line: its network arguments are passed to the installed system"))
    }

    /// The same interface can't have both.
    fn drop_dhcp(&self, kargs: &mut Vec<String>) {
        let Some(mac) = &self.mac else { return };
        let prefix = format!("ip={}:dhcp", mac.replace(':', "-"));
        kargs.retain(|karg| !karg.to_ascii_lowercase().starts_with(&prefix));
    }
}

/// `ip=ADDRESS:…`, with the brackets of IPv6.
fn static_address(karg: &str) -> Option<IpAddr> {
    let value = karg.strip_prefix("ip=")?;
    let text = match value.strip_prefix('[') {
        Some(rest) => rest.split(']').next()?,
        None => value.split(':').next()?,
    };
    text.split('/').next()?.parse().ok()
}

/// The one the kernel chooses; nothing is sent.
fn address_towards(url: &str) -> Option<IpAddr> {
    let uri: ureq::http::Uri = url.parse().ok()?;
    let endpoint = api::proxy::Endpoint::from_uri(&uri)?;
    let there = resolve::Names::default().addresses(&endpoint.host, endpoint.port, LOOKUP_LIMIT).ok()?;
    there.into_iter().find_map(resolve::source_towards)
}

fn mac_of(root: &Path, address: IpAddr) -> Option<String> {
    let owner = getifaddrs().ok()?.find(|interface| {
        let found = interface.address.as_ref().and_then(|found| match found.as_sockaddr_in() {
            Some(v4) => Some(IpAddr::V4(v4.ip())),
            None => found.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())),
        });
        found == Some(address) && !interface.flags.contains(InterfaceFlags::IFF_LOOPBACK)
    })?;
    let text = read(&root.join("sys/class/net").join(&owner.interface_name).join("address"))?;
    Some(text.trim().to_ascii_lowercase())
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_FILE_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Whether the console program for the network ran, and a profile is younger than the directory of its log
/// (docs/compatibility.md#installer-command-line).
fn by_operator(log: &Path, profiles: &Path) -> bool {
    if !log.join("agent-tui.log").is_file() {
        return false;
    }
    let Ok(began) = kernel::file_system::created(log) else { return false };
    let Ok(entries) = fs::read_dir(profiles) else { return false };
    entries.flatten().take(MAX_FILES).map(|entry| entry.path()).any(|path| {
        let changed = fs::metadata(&path).and_then(|metadata| metadata.modified());
        changed.is_ok_and(|changed| changed >= began) && read(&path).is_some_and(|text| text.contains("[connection]"))
    })
}

fn profile_addresses(dir: &Path) -> Vec<IpAddr> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let files = entries.flatten().take(MAX_FILES).map(|entry| entry.path()).filter(|path| path.is_file());
    files.filter_map(|path| read(&path)).flat_map(|text| manual_addresses(&text)).collect()
}

/// `addressN=ADDRESS/PREFIX[,GATEWAY]` of a keyfile (nm-settings-keyfile(5)).
fn manual_addresses(keyfile: &str) -> Vec<IpAddr> {
    let values = keyfile.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        let number = key.trim().strip_prefix("address")?;
        number.bytes().all(|byte| byte.is_ascii_digit()).then_some(value)
    });
    values.filter_map(|value| value.trim().split(['/', ',', ';']).next()?.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DHCP: &str = "ip=52-54-00-aa-bb-00:dhcp";

    fn live() -> LiveNetwork {
        LiveNetwork {
            address: "192.0.2.7".parse().ok(),
            mac: Some("52:54:00:aa:bb:00".into()),
            in_profiles: Vec::new(),
            by_operator: false,
            command_line: "quiet ip=dhcp".into(),
        }
    }

    /// Arguments and directory before and after.
    fn carried(live: &LiveNetwork, kargs: &[&str], dir: Option<&str>) -> (Vec<String>, Option<PathBuf>, bool) {
        let mut append_kargs = kargs.iter().map(|karg| (*karg).to_owned()).collect();
        let mut network_dir = dir.map(PathBuf::from);
        let first_boot = FirstBoot { append_kargs: &mut append_kargs, network_dir: &mut network_dir };
        let carried_over = live.carry_over(first_boot).is_some();
        (append_kargs, network_dir, carried_over)
    }

    #[test]
    fn an_address_by_dhcp_stays_one() {
        assert_eq!(carried(&live(), &[DHCP], None), (vec![DHCP.to_owned()], None, false));
        let unknown = LiveNetwork { address: None, in_profiles: vec!["192.0.2.7".parse().unwrap()], ..live() };
        assert!(!carried(&unknown, &[DHCP], None).2);
    }

    #[test]
    fn an_address_in_a_profile_goes_with_the_profiles() {
        let live = LiveNetwork { in_profiles: vec!["192.0.2.7".parse().unwrap()], ..live() };
        let other = "ip=52-54-00-aa-bb-01:dhcp";
        assert_eq!(carried(&live, &[DHCP, other], None), (vec![other.to_owned()], Some(NETWORK_DIR.into()), true));
        assert!(!carried(&live, &[DHCP], Some("/etc/nm")).2, "the service has its own");
        let fixed = "ip=192.0.2.7::192.0.2.1:255.255.255.0::eth0:none";
        assert!(!carried(&live, &[fixed], None).2, "the service says the same");
    }

    #[test]
    fn an_address_on_the_command_line_goes_with_all_it_says_of_the_network() {
        let line =
            "coreos.liveiso=x ip=192.0.2.7::192.0.2.1:255.255.255.0:node-7:eth0:none nameserver=192.0.2.53 quiet";
        let live = LiveNetwork { command_line: line.into(), ..live() };
        let (kargs, dir, carried_over) = carried(&live, &[DHCP, "rw"], None);
        assert_eq!(kargs, ["rw", "ip=192.0.2.7::192.0.2.1:255.255.255.0:node-7:eth0:none", "nameserver=192.0.2.53"]);
        assert!(dir.is_none() && carried_over);
        let six = LiveNetwork {
            address: "2001:db8::7".parse().ok(),
            command_line: "ip=[2001:db8::7]::[2001:db8::1]:64::eth0:none".into(),
            ..live
        };
        assert!(carried(&six, &[DHCP], None).2);
    }

    #[test]
    fn what_was_set_at_the_console_goes_on_to_the_installed_system() {
        let dir = tempfile::tempdir().unwrap();
        let (log, profiles) = (dir.path().join("log"), dir.path().join("profiles"));
        fs::create_dir(&profiles).unwrap();
        let old = profiles.join("old.nmconnection");
        fs::write(&old, "[connection]\n").unwrap();
        let before = fs::metadata(&old).unwrap().modified().unwrap() - Duration::from_secs(60);
        File::options().write(true).open(&old).unwrap().set_modified(before).unwrap();
        fs::create_dir(&log).unwrap();
        assert!(!by_operator(&log, &profiles), "the program has not run");
        fs::write(log.join("agent-tui.log"), "").unwrap();
        assert!(!by_operator(&log, &profiles), "it changed nothing");
        fs::write(profiles.join("note"), "no profile").unwrap();
        assert!(!by_operator(&log, &profiles));
        fs::write(profiles.join("new.nmconnection"), "[connection]\n").unwrap();
        assert!(by_operator(&log, &profiles));
        let live = LiveNetwork { by_operator: true, ..live() };
        assert_eq!(carried(&live, &[DHCP], None), (vec![DHCP.to_owned()], Some(NETWORK_DIR.into()), true));
        assert!(!carried(&live, &[DHCP], Some("/etc/nm")).2);
    }

    #[test]
    fn keyfiles_tell_their_addresses() {
        let keyfile = "[connection]\nid=a\n[ipv4]\nmethod=manual\naddress1=192.0.2.7/24,192.0.2.1\naddress2 = 192.0.2.8/24\n\
                       address-data=x\n[ipv6]\naddress1=2001:db8::7/64\naddresses=bad\naddress3=\n";
        let found: Vec<_> = manual_addresses(keyfile).iter().map(IpAddr::to_string).collect();
        assert_eq!(found, ["192.0.2.7", "192.0.2.8", "2001:db8::7"]);
    }

    #[test]
    fn a_host_without_any_of_it_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let live = LiveNetwork::read(dir.path(), "http://127.0.0.1:8090");
        assert_eq!(live.address, "127.0.0.1".parse().ok());
        assert_eq!((live.mac, live.in_profiles.len(), live.command_line.as_str()), (None, 0, ""));
        assert!(!live.by_operator);
        assert_eq!(LiveNetwork::read(dir.path(), "nonsense").address, None);
    }
}
