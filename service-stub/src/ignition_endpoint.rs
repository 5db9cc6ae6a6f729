//! The URL of an added host's role config, and the credentials for it (docs/compatibility.md#host-config).

use crate::model::{ClusterRecord, HostRecord};
use api::{ApiVipConnectivityRequest, HostRole, RequestHeader, Secret};
use base64::{Engine, engine::general_purpose::STANDARD};
use kernel::order::Gather;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// URL of the config.
    pub(crate) url: String,
    /// Authority that signed the server's certificate, base64 of PEM.
    pub(crate) ca_certificate: Option<String>,
    /// Sent with the request: names and values.
    pub(crate) headers: Vec<(String, Secret)>,
}

impl Endpoint {
    /// The endpoint for a host of the cluster; `None` without a control plane, which serves it.
    pub(crate) fn for_host(with_control_plane: bool, cluster: &ClusterRecord, record: &HostRecord) -> Option<Self> {
        if !is_elsewhere(cluster, with_control_plane) {
            return None;
        }
        let pool = pool(record);
        let set = |name: &str| cluster.settings.get("ignition_endpoint").and_then(|endpoint| text(endpoint, name));
        let of_cluster = set("ca_certificate").and_then(|ca| String::from_utf8(STANDARD.decode(ca).ok()?).ok());
        let of_host = authority(&record.host.ignition_config_overrides);
        let ca_certificate = joined([of_cluster, of_host]).map(|pem| STANDARD.encode(pem));
        let token = &record.ignition_endpoint_token;
        let bearer = || ("Authorization".to_owned(), Secret::new(format!("Bearer {}", token.expose())));
        // A header that the user sets takes the place of the token's: Ignition accepts a name only once.
        let mut headers: BTreeMap<String, Secret> = (!token.is_empty()).then(bearer).into_iter().gather();
        headers.extend(record.ignition_endpoint_headers.iter().cloned());
        let headers = headers.into_iter().collect();
        let (name, domain) = (&cluster.cluster.name, &cluster.cluster.base_dns_domain);
        let api = match cluster.course.api_vip_dns_name.as_str() {
            "" => format!("api.{name}.{domain}"),
            api if api.parse::<Ipv6Addr>().is_ok() => format!("[{api}]"),
            api => api.to_owned(),
        };
        let url = match (set("url"), &ca_certificate) {
            (Some(base), _) => format!("{}/{pool}", base.trim_end_matches('/')),
            (None, None) => format!("http://{api}:22624/config/{pool}"),
            (None, Some(_)) => {
                let internal = api.strip_prefix("api.").map(|rest| format!("api-int.{rest}"));
                format!("https://{}:22623/config/{pool}", internal.unwrap_or(api))
            }
        };
        Some(Self { url, ca_certificate, headers })
    }

    /// The same as a step's request, for the host to try it.
    pub(crate) fn request(&self, record: &HostRecord) -> ApiVipConnectivityRequest {
        let token = &record.ignition_endpoint_token;
        let header =
            |(key, value): &(String, Secret)| RequestHeader { key: key.clone(), value: value.expose().to_owned() };
        ApiVipConnectivityRequest {
            ca_certificate: self.ca_certificate.clone(),
            ignition_endpoint_token: (!token.is_empty()).then(|| token.expose().to_owned()),
            request_headers: self.headers.iter().map(header).collect(),
            url: self.url.clone(),
        }
    }

    /// The authority as PEM.
    pub(crate) fn ca_pem(&self) -> Option<String> {
        let bytes = STANDARD.decode(self.ca_certificate.as_ref()?).ok()?;
        String::from_utf8(bytes).ok()
    }
}

/// The first certificate authority of an Ignition config, PEM, that is in the config itself.
fn authority(config: &str) -> Option<String> {
    let config: Value = serde_json::from_str(config).ok()?;
    let authorities = config.pointer("/ignition/security/tls/certificateAuthorities")?.as_array()?;
    let mut texts = authorities.iter().filter_map(|authority| {
        let source = authority.get("source")?.as_str()?;
        String::from_utf8(ignition::data_url::decode(source.trim()).ok()?.data.into_owned()).ok()
    });
    texts.find(|text| !text.trim().is_empty())
}

/// All certificates of two PEM texts, each once.
fn joined(texts: [Option<String>; 2]) -> Option<String> {
    const END: &str = "-----END CERTIFICATE-----";
    let texts = texts.into_iter().flatten().filter(|text| !text.trim().is_empty());
    texts.reduce(|all, more| {
        let new = more.split_inclusive(END).map(str::trim).filter(|block| !block.is_empty() && !all.contains(block));
        [all.trim_end()].into_iter().chain(new).fold(String::new(), |joined, block| joined + block + "\n")
    })
}

/// Name and base domain as the API's name says them: what users call such a cluster is often something else.
pub(crate) fn names(api: &str) -> Option<(&str, &str)> {
    let (name, base) = api.strip_prefix("api.")?.split_once('.')?;
    (api.parse::<IpAddr>().is_err() && !base.is_empty()).then_some((name, base))
}

/// The pool of machines whose config the host gets: the user's choice, else that of its role.
fn pool(record: &HostRecord) -> &str {
    let chosen = record.texts.machine_config_pool_name.as_deref().filter(|pool| !pool.is_empty());
    chosen.unwrap_or_else(|| match record.effective_role() {
        HostRole::AutoAssign => HostRole::Worker.as_str(),
        role => role.as_str(),
    })
}

/// Whether the configs of added hosts do not come from this service.
pub(crate) fn is_elsewhere(cluster: &ClusterRecord, with_control_plane: bool) -> bool {
    with_control_plane || cluster.course.imported || is_set(cluster)
}

/// Whether the cluster sets its own endpoint.
pub(crate) fn is_set(cluster: &ClusterRecord) -> bool {
    cluster.settings.get("ignition_endpoint").is_some_and(|endpoint| text(endpoint, "url").is_some())
}

fn text<'a>(endpoint: &'a Value, name: &str) -> Option<&'a str> {
    endpoint.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// A cluster's setting after a request that gives one part of it, or both; an empty text removes a part.
pub(crate) fn merged(stored: Option<&Value>, given: &Value) -> Value {
    let mut after = stored.and_then(Value::as_object).cloned().unwrap_or_default();
    let given = given.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    after.extend(given.map(|(name, value)| (name.clone(), value.clone())));
    after.retain(|_, value| value.as_str() != Some(""));
    Value::Object(after)
}

/// Parses a cluster's setting: a URL and a CA, each optional. `None` if nothing is set.
pub(crate) fn checked(setting: &Value) -> Result<Option<Value>, String> {
    let Value::Object(fields) = setting else {
        return Err("ignition_endpoint in body must be of type object".to_owned());
    };
    if let Some(unknown) = fields.keys().find(|name| !matches!(name.as_str(), "url" | "ca_certificate")) {
        return Err(format!("ignition_endpoint has no field {unknown:?}"));
    }
    if let Some(ca) = text(setting, "ca_certificate") {
        let decoded = STANDARD.decode(ca).map_err(|error| format!("failed to decode certificate: {error}"))?;
        let pem = String::from_utf8(decoded).unwrap_or_default();
        if !pem.contains("-----BEGIN CERTIFICATE-----") {
            return Err("unable to parse certificate".to_owned());
        }
    }
    if let Some(url) = text(setting, "url") {
        let Some(host) = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")) else {
            return Err(format!("The URL scheme must be http(s) and specified in the URL: '{url}'"));
        };
        if host.is_empty() || host.starts_with('/') || url.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(format!("URL '{url}' format is not valid: it names no host"));
        }
    }
    let empty = ["url", "ca_certificate"].iter().all(|name| text(setting, name).is_none());
    Ok((!empty).then(|| setting.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HostKey;
    use crate::state::ClusterState;
    use api::{Cluster, HostId, HostRole, InfraEnvId, Timestamp};
    use serde_json::json;

    #[test]
    fn urls_and_headers() {
        let key = HostKey { infra_env: InfraEnvId::random(), host: HostId::random() };
        let mut host = HostRecord::new(key, None, Timestamp::ZERO);
        host.host.role = HostRole::Worker;
        let cluster = Cluster { name: "far".into(), base_dns_domain: "example.com".into(), ..Cluster::default() };
        let mut cluster = ClusterRecord::new(ClusterState::AddingHosts, cluster, Secret::default());
        let url = |cluster: &ClusterRecord, host: &HostRecord| {
            Endpoint::for_host(false, cluster, host).map(|endpoint| endpoint.url)
        };
        assert_eq!(url(&cluster, &host), None, "this service has the configs");
        assert_eq!(
            Endpoint::for_host(true, &cluster, &host).unwrap().url,
            "http://api.far.example.com:22624/config/worker"
        );
        cluster.course.imported = true;
        cluster.course.api_vip_dns_name = "192.0.2.9".into();
        assert_eq!(url(&cluster, &host).unwrap(), "http://192.0.2.9:22624/config/worker");
        host.texts.machine_config_pool_name = Some("gpu".into());
        cluster.settings.insert("ignition_endpoint".into(), json!({"ca_certificate": "QQ=="}));
        assert_eq!(url(&cluster, &host).unwrap(), "https://192.0.2.9:22623/config/gpu");
        cluster.settings.insert("ignition_endpoint".into(), json!({"url": "https://cfg.example.com/x/"}));
        host.ignition_endpoint_token = Secret::new("t0ken");
        host.ignition_endpoint_headers = vec![("X-Key".into(), Secret::new("v"))];
        let request = serde_json::to_value(Endpoint::for_host(false, &cluster, &host).unwrap().request(&host)).unwrap();
        let headers = json!([{"key": "Authorization", "value": "Bearer t0ken"}, {"key": "X-Key", "value": "v"}]);
        let expected = json!({"url": "https://cfg.example.com/x/gpu", "ignition_endpoint_token": "t0ken", "request_headers": headers});
        assert_eq!(request, expected);
        host.ignition_endpoint_headers.push(("Authorization".into(), Secret::new("Basic x")));
        let headers = Endpoint::for_host(false, &cluster, &host).unwrap().headers;
        let headers: Vec<_> = headers.iter().map(|(name, value)| (&**name, value.expose())).collect();
        assert_eq!(headers, [("Authorization", "Basic x"), ("X-Key", "v")]);
        host.texts.machine_config_pool_name = None;
        host.host.role = HostRole::AutoAssign;
        assert_eq!(url(&cluster, &host).unwrap(), "https://cfg.example.com/x/worker");
    }

    #[test]
    fn the_clusters_authority_and_the_overrides_are_joined() {
        let pem = |body: &str| format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----");
        let [a, b] = ["QQ==", "Qg=="].map(pem);
        for (first, second, expected) in [
            (None, None, None),
            (Some(" \n".to_owned()), None, None),
            (Some(a.clone()), None, Some(a.clone())),
            (None, Some(format!("{b}\n")), Some(format!("{b}\n"))),
            (Some(a.clone()), Some(b.clone()), Some(format!("{a}\n{b}\n"))),
            (Some(format!("{a}\n")), Some(format!("\n{b}\n{a}\n")), Some(format!("{a}\n{b}\n"))),
        ] {
            assert_eq!(joined([first, second]), expected);
        }
    }

    #[test]
    fn names_come_from_the_api() {
        assert_eq!(names("api.edge.example.com"), Some(("edge", "example.com")));
        for other in
            ["api-int.edge.example.com", "192.0.2.1", "2001:db8::ff", "api.edge", "edge.example.com", "api.edge."]
        {
            assert_eq!(names(other), None, "{other}");
        }
    }

    #[test]
    fn url_and_authority_are_set_one_by_one() {
        let stored = json!({"url": "https://a", "ca_certificate": "QQ=="});
        for (given, expected) in [
            (json!({"url": "https://b"}), json!({"url": "https://b", "ca_certificate": "QQ=="})),
            (json!({"url": "", "ca_certificate": null}), json!({"ca_certificate": "QQ=="})),
            (json!({"url": "", "ca_certificate": ""}), json!({})),
            (json!({}), stored.clone()),
        ] {
            assert_eq!(merged(Some(&stored), &given), expected, "{given}");
        }
        assert_eq!(merged(None, &json!({"url": "https://a"})), json!({"url": "https://a"}));
    }

    #[test]
    fn settings_are_looked_at() {
        let ca = STANDARD.encode("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
        for good in [json!({"url": "https://cfg.example.com:22623/config"}), json!({"ca_certificate": ca})] {
            assert_eq!(checked(&good), Ok(Some(good.clone())), "{good}");
        }
        assert_eq!(checked(&json!({"url": "", "ca_certificate": null})), Ok(None));
        for (bad, said) in [
            (json!([]), "must be of type object"),
            (json!({"uri": "http://a"}), "no field \"uri\""),
            (json!({"url": "ftp://a"}), "The URL scheme must be http(s) and specified in the URL: 'ftp://a'"),
            (json!({"url": "http:///a"}), "URL 'http:///a' format is not valid"),
            (json!({"url": "http://a b"}), "URL 'http://a b' format is not valid"),
            (json!({"ca_certificate": "???"}), "failed to decode certificate"),
            (json!({"ca_certificate": "AAAA"}), "unable to parse certificate"),
        ] {
            assert!(checked(&bad).unwrap_err().contains(said), "{bad}");
        }
    }

    #[test]
    fn an_authority_is_found_in_either_encoding() {
        let config = |source: &str| {
            let list =
                json!([{"verification": {}}, {"source": "data:,%20"}, {"source": source}, {"source": "data:,later"}]);
            json!({"ignition": {"security": {"tls": {"certificateAuthorities": list}}}}).to_string()
        };
        assert_eq!(authority(&config("data:text/plain;charset=utf-8;base64,QUI=")).unwrap(), "AB");
        assert_eq!(authority(&config("data:,A%42")).unwrap(), "AB");
        assert_eq!(authority(&config("https://192.0.2.1/ca.pem")).unwrap(), "later");
        assert_eq!(
            authority(&json!({"ignition": {"security": {"tls": {"certificateAuthorities": {}}}}}).to_string()),
            None
        );
        assert_eq!(authority("{}"), None);
    }
}
