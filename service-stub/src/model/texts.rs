//! Text fields of a host that are published beside those of its document.

use serde::{Deserialize, Serialize};

macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Absent fields are not published.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct HostTexts {
            $(
                $(#[$doc])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $name: Option<String>,
            )*
        }

        impl HostTexts {
            /// The fields that are there, by their published names.
            pub(crate) fn published(&self) -> impl Iterator<Item = (&'static str, &str)> {
                let all = [$((stringify!($name), self.$name.as_deref())),*];
                all.into_iter().filter_map(|(name, text)| Some((name, text?)))
            }

            #[cfg(test)]
            pub(super) fn set(&mut self, name: &str, text: String) {
                match name {
                    $(stringify!($name) => self.$name = Some(text),)*
                    _ => panic!("there is no text {name}"),
                }
            }
        }
    };
}

texts! {
    api_vip_connectivity,
    disks_info,
    disks_to_be_formatted,
    domain_name_resolutions,
    free_addresses,
    images_status,
    ntp_sources,
    tang_connectivity,
    /// Set by users, like those below: no reboot changes them.
    machine_config_pool_name,
    node_labels,
    skip_formatting_disks,
}

impl HostTexts {
    /// Forgets what the host said in reply to steps.
    pub(crate) fn clear_replies(&mut self) {
        let Self { machine_config_pool_name, node_labels, skip_formatting_disks, .. } = std::mem::take(self);
        *self = Self { machine_config_pool_name, node_labels, skip_formatting_disks, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{HostKey, HostRecord};
    use api::{HostId, InfraEnvId, Timestamp};
    use serde_json::json;

    #[test]
    fn a_record_of_an_earlier_version_is_taken_over() {
        let key = HostKey { infra_env: InfraEnvId::random(), host: HostId::random() };
        let record = HostRecord::new(key, None, Timestamp::ZERO);
        let mut old = serde_json::to_value(&record).unwrap();
        old.as_object_mut().unwrap().remove("texts");
        let without: HostRecord = serde_json::from_value(old.clone()).unwrap();
        assert!(without.is_same_as(&record));
        let resolutions =
            json!({"resolutions": [{"domain_name": "api.x", "ipv4_addresses": ["192.0.2.1"]}]}).to_string();
        old["kept"] = json!({
            "domain_name_resolutions": resolutions,
            "ntp_sources": "[]",
            "node_labels": "{}",
            "tang_connectivity": "",
            "unknown": "dropped",
        });
        let mut taken: HostRecord = serde_json::from_value(old).unwrap();
        let texts = [
            ("domain_name_resolutions", resolutions.as_str()),
            ("ntp_sources", "[]"),
            ("tang_connectivity", ""),
            ("node_labels", "{}"),
        ];
        assert_eq!(taken.texts.published().collect::<Vec<_>>(), texts);
        assert!(taken.facts().domains.is_some());
        let stored = serde_json::to_value(&taken).unwrap();
        assert!(stored.get("kept").is_none());
        let again: HostRecord = serde_json::from_value(stored).unwrap();
        assert!(again.is_same_as(&taken));
        taken.reset();
        assert_eq!(taken.texts.published().collect::<Vec<_>>(), [("node_labels", "{}")]);
    }
}
