//! Logical names in profiles, and the real ones they become.

use std::collections::BTreeMap;

/// Most an interface's name may have (IFNAMSIZ less the terminator).
const MAX_NAME_BYTES: usize = 15;

/// Keys of profiles whose value is the name of an interface, in whatever section; `master` is by NetworkManager's newer name `controller`.
const NAME_KEYS: [&str; 9] =
    ["interface-name", "master", "controller", "parent", "primary", "active_slave", "port1", "port2", "interlink"];

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

    /// The profile with every value that names an interface replaced.
    pub(super) fn text(&self, text: &str) -> String {
        let (mut renamed, mut section) = (String::with_capacity(text.len()), "");
        for line in text.split_inclusive('\n') {
            let (content, end) = line.strip_suffix('\n').map_or((line, ""), |content| (content, "\n"));
            if content.starts_with('[') {
                section = content;
            }
            let replaced = content
                .split_once('=')
                .and_then(|(key, value)| Some(format!("{key}={}", self.value(section, key, value)?)));
            renamed.push_str(replaced.as_deref().unwrap_or(content));
            renamed.push_str(end);
        }
        renamed
    }

    fn value(&self, section: &str, key: &str, value: &str) -> Option<String> {
        if key.starts_with("routing-rule") {
            let mut named = false;
            let words = value.split(' ').map(|word| {
                let real = if named { self.real(word) } else { None };
                named = matches!(word, "iif" | "oif");
                real.unwrap_or_else(|| word.to_owned())
            });
            return Some(words.collect::<Vec<_>>().join(" "));
        }
        let is_name = NAME_KEYS.contains(&key) || matches!((section, key), ("[connection]", "id") | ("[veth]", "peer"));
        if is_name { self.real(value) } else { None }
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

    #[test]
    fn names_in_rules_are_replaced_and_words_that_only_read_like_one_are_not() {
        let names = names(&[("eth0", "ens1f0"), ("5", "ens2")]);
        for (text, renamed) in [
            (
                "[ipv4]\nrouting-rule0=priority 100 from 0.0.0.0/0 iif eth0 oif 5 table 5",
                Some("iif ens1f0 oif ens2 table 5"),
            ),
            ("[bond]\nprimary=eth0", Some("primary=ens1f0")),
            ("[veth]\npeer=eth0", Some("peer=ens1f0")),
            ("[vlan]\nid=5\nparent=5", Some("id=5\nparent=ens2")),
            ("[user]\nnmstate.interface.description=eth0", None),
            ("[ipv4]\ndns-search=eth0", None),
            ("[802-1x]\nidentity=eth0\npassword=5", None),
        ] {
            let found = names.text(text);
            assert!(renamed.map_or(found == text, |renamed| found.ends_with(renamed)), "{found}");
        }
    }
}
