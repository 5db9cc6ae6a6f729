//! hosts(5): names given on the host itself, which no server is asked for.

use std::{collections::HashMap, net::IpAddr};

/// The names and addresses of a hosts file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    by_name: HashMap<String, Entry>,
    by_address: HashMap<IpAddr, String>,
}

/// What a hosts file says of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The first name of the first line with it, with a trailing dot.
    pub canonical: String,
    /// In the file's order, each once.
    pub addresses: Vec<IpAddr>,
}

impl Hosts {
    /// Reads the text of a hosts file; lines that are not understood are ignored.
    pub fn parse(text: &str) -> Self {
        let mut hosts = Self::default();
        for line in text.lines() {
            let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
            let Some(address) = words.next().and_then(|word| word.parse().ok()) else { continue };
            let names: Vec<&str> = words.collect();
            let Some(first) = names.first() else { continue };
            let canonical = format!("{}.", first.trim_end_matches('.'));
            hosts.by_address.entry(address).or_insert_with(|| canonical.clone());
            for name in names {
                let entry = hosts
                    .by_name
                    .entry(key(name))
                    .or_insert_with(|| Entry { canonical: canonical.clone(), addresses: Vec::new() });
                if !entry.addresses.contains(&address) {
                    entry.addresses.push(address);
                }
            }
        }
        hosts
    }

    /// What the file says of `name`, whose case and last dot do not matter.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(&key(name))
    }

    /// The name of an address, with a trailing dot.
    pub fn find_name(&self, address: IpAddr) -> Option<&str> {
        self.by_address.get(&address).map(String::as_str)
    }
}

fn key(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_found_in_any_case_and_addresses_too() {
        let hosts = Hosts::parse(
            "127.0.0.1 localhost # the loopback\n::1 localhost\n10.0.0.5\tApi.c.d api\n10.0.0.5 later\n10.0.0.6 api\nx y\n",
        );
        let entry = hosts.find("API.c.d.").unwrap();
        assert_eq!(*entry, Entry { canonical: "Api.c.d.".into(), addresses: vec!["10.0.0.5".parse().unwrap()] });
        assert_eq!(hosts.find("api").unwrap().addresses.len(), 2);
        assert_eq!(hosts.find("localhost").unwrap().addresses.len(), 2);
        assert_eq!(hosts.find("the"), None);
        assert_eq!(hosts.find_name("10.0.0.5".parse().unwrap()), Some("Api.c.d."));
        assert_eq!(hosts.find_name("10.0.0.7".parse().unwrap()), None);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text: String) {
            let _ = Hosts::parse(&text).find(&text);
        }
    }
}
