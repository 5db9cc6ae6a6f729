//! Logical names in profiles, and the real ones they become.

use std::collections::BTreeMap;

/// Most an interface's name may have (IFNAMSIZ less the terminator).
const MAX_NAME_BYTES: usize = 15;

/// Real names by logical name.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(pub(super) BTreeMap<String, String>);

impl Names {
    /// What `name` becomes: a logical name itself, or the name of a VLAN on one, `LOGICAL.ID`, whose base is cut so that
    /// the kernel accepts it. None for any other.
    ///
    /// All are replaced at once: two interfaces may have each other's logical names.
    pub(super) fn real(&self, name: &str) -> Option<String> {
        if let Some(real) = self.0.get(name) {
            return Some(real.clone());
        }
        // Of `a` and `a.b`, `a.b.5` is of the longer.
        let mut prefixes = name.rmatch_indices('.').filter_map(|(at, _)| name.split_at_checked(at));
        let (real, rest) = prefixes.find_map(|(base, rest)| Some((self.0.get(base)?, rest)))?;
        let id = rest.strip_prefix('.').is_some_and(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()));
        let room = if id { MAX_NAME_BYTES.saturating_sub(rest.len()) } else { real.len() };
        // Kernels' names are ASCII, or at least what sysfs gave as UTF-8: cut between characters.
        let cut = (0..=room.min(real.len())).rev().find(|at| real.is_char_boundary(*at)).unwrap_or(0);
        Some(format!("{}{rest}", real.get(..cut).unwrap_or(real)))
    }

    /// The profile's name on this machine: `eth0.nmconnection`, `eth0.140.nmconnection`.
    pub(super) fn file(&self, name: &str) -> String {
        let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
        self.real(stem).map_or_else(|| name.to_owned(), |real| format!("{real}.{extension}"))
    }

    /// The profile with every value that is a name replaced.
    pub(super) fn text(&self, text: &str) -> String {
        let mut renamed = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let (content, end) = line.strip_suffix('\n').map_or((line, ""), |content| (content, "\n"));
            let replaced =
                content.split_once('=').and_then(|(key, value)| Some(format!("{key}={}", self.real(value)?)));
            renamed.push_str(replaced.as_deref().unwrap_or(content));
            renamed.push_str(end);
        }
        renamed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(map: &[(&str, &str)]) -> Names {
        Names(map.iter().map(|(logical, real)| ((*logical).to_owned(), (*real).to_owned())).collect())
    }

    #[test]
    fn names_of_interfaces_and_of_their_vlans() {
        let names = names(&[("eth0", "ens1f0np0abc"), ("eth1", "eth0"), ("eth0.7", "lan"), ("ü", "äöüäöüä")]);
        for (name, real) in [
            ("eth0", Some("ens1f0np0abc")),
            ("eth1", Some("eth0")),
            ("eth0.5", Some("ens1f0np0abc.5")),
            ("eth0.1400", Some("ens1f0np0a.1400")),
            ("eth0.7", Some("lan")),
            ("eth0.7.8", Some("lan.8")),
            ("eth1.140", Some("eth0.140")),
            ("eth0.storage-network", Some("ens1f0np0abc.storage-network")),
            ("ü.1400", Some("äöüäö.1400")),
            ("eth", None),
            ("eth01", None),
            ("xeth0", None),
            ("", None),
        ] {
            assert_eq!(names.real(name).as_deref(), real, "{name}");
        }
    }

    #[test]
    fn two_interfaces_with_each_others_names_are_not_mixed_up() {
        let names = names(&[("eth0", "eth1"), ("eth1", "eth0")]);
        assert_eq!(names.file("eth0.nmconnection"), "eth1.nmconnection");
        assert_eq!(names.file("eth1.140.nmconnection"), "eth0.140.nmconnection");
        assert_eq!(names.file("bond0.nmconnection"), "bond0.nmconnection");
        assert_eq!(
            names.text("[connection]\nid=eth0\ninterface-name=eth1\nparent=eth0.5\nuuid=eth\nx=a=eth0\n\n[ipv4]"),
            "[connection]\nid=eth1\ninterface-name=eth0\nparent=eth1.5\nuuid=eth\nx=a=eth0\n\n[ipv4]"
        );
    }
}
