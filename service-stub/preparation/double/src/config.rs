//! What the real program refuses in an install-config.yaml.

use serde_json::Value;

const KNOWN: [&str; 26] = [
    "additionalTrustBundle",
    "additionalTrustBundlePolicy",
    "apiVersion",
    "arbiter",
    "baseDomain",
    "bootstrapInPlace",
    "capabilities",
    "compute",
    "controlPlane",
    "cpuPartitioningMode",
    "credentialsMode",
    "featureGates",
    "featureSet",
    "fips",
    "imageContentSources",
    "imageDigestSources",
    "kind",
    "metadata",
    "networking",
    "operatorPublishingStrategy",
    "osImageStream",
    "platform",
    "proxy",
    "publish",
    "pullSecret",
    "sshKey",
];
const PLATFORMS: [&str; 12] = [
    "aws",
    "azure",
    "baremetal",
    "external",
    "gcp",
    "ibmcloud",
    "none",
    "nutanix",
    "openstack",
    "ovirt",
    "powervs",
    "vsphere",
];

/// A refusal, of all fields at once.
#[derive(Debug)]
pub(crate) struct ConfigError(Vec<String>);

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "install-config.yaml is not valid: {}", self.0.join("; "))
    }
}

impl std::error::Error for ConfigError {}

/// A config that was checked.
pub(crate) struct Config {
    pub(crate) text: Value,
    pub(crate) name: String,
    pub(crate) domain: String,
    pub(crate) platform: String,
    pub(crate) masters: u64,
    pub(crate) workers: u64,
    pub(crate) arbiters: u64,
}

impl Config {
    /// Checks it; warnings go to standard error.
    pub(crate) fn check(text: Value) -> Result<Self, ConfigError> {
        let mut faults = Vec::new();
        let mut need = |is_good: bool, field: &str| {
            if !is_good {
                faults.push(field.to_owned());
            }
        };
        let at = |pointer: &str| text.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let count = |pointer: &str| text.pointer(pointer).and_then(Value::as_u64);
        let (name, domain) = (at("/metadata/name"), at("/baseDomain"));
        need(at("/apiVersion") == "v1", "apiVersion must be v1");
        need(!domain.is_empty(), "baseDomain is missing");
        need(!name.is_empty(), "metadata.name is missing");
        let secret: Option<Value> = serde_json::from_str(&at("/pullSecret")).ok();
        let has_auths =
            secret.as_ref().and_then(|secret| secret["auths"].as_object()).is_some_and(|all| !all.is_empty());
        need(has_auths, "pullSecret is not JSON with auths");
        let platforms: Vec<&String> =
            text["platform"].as_object().into_iter().flatten().map(|(name, _)| name).collect();
        let platform = platforms.first().map(ToString::to_string).unwrap_or_default();
        need(platforms.len() == 1 && PLATFORMS.contains(&platform.as_str()), "platform must name one platform");
        let (masters, workers) = (count("/controlPlane/replicas"), count("/compute/0/replicas"));
        need(masters.is_some_and(|count| count > 0), "controlPlane.replicas must be positive");
        need(workers.is_some(), "compute[0].replicas is missing");
        let masters = masters.unwrap_or(0);
        let arbiters = if text["arbiter"].is_object() { count("/arbiter/replicas") } else { Some(0) };
        if text["arbiter"].is_object() {
            need(arbiters.is_some_and(|count| count > 0), "arbiter.replicas must be positive");
            need(masters >= 2, "arbiter needs two masters at least");
            need(matches!(platform.as_str(), "baremetal" | "none" | "external"), "arbiter is not for this platform");
        }
        if !faults.is_empty() {
            return Err(ConfigError(faults));
        }
        for field in text.as_object().into_iter().flatten().map(|(field, _)| field) {
            if !KNOWN.contains(&field.as_str()) {
                eprintln!("level=warning msg=\"install-config.yaml: unknown field {field}\"");
            }
        }
        let (workers, arbiters) = (workers.unwrap_or(0), arbiters.unwrap_or(0));
        Ok(Self { text, name, domain, platform, masters, workers, arbiters })
    }

    /// Name and domain.
    pub(crate) fn full_domain(&self) -> String {
        format!("{}.{}", self.name, self.domain)
    }
}
