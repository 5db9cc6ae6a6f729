//! Fields of the published schemas that ask for nothing here, or for what this service does not do: each with its reason.
//! `serve --check` and docs/rack.md print them. What limits what may be erased or trusted is never in [`IDLE`].

/// Fields of one object: the kind and the path of the object, and its fields with the reasons.
type Listed = (&'static str, &'static [(&'static str, &'static str)]);

const POWER: &str = "power is the business of what boots the machines";
const HUB: &str = "a hub's controllers write it";
const API_SERVER: &str = "an API server keeps it";
const NO_HIVE: &str = "an AgentClusterInstall installs the cluster";

/// They do nothing here.
pub(crate) const IDLE: &[Listed] = &[
    ("*", &[("status", HUB)]),
    (
        "*.metadata",
        &[
            ("creationTimestamp", API_SERVER),
            ("deletionGracePeriodSeconds", API_SERVER),
            ("deletionTimestamp", API_SERVER),
            ("finalizers", API_SERVER),
            ("generation", API_SERVER),
            ("managedFields", API_SERVER),
            ("ownerReferences", API_SERVER),
            ("resourceVersion", API_SERVER),
            ("selfLink", API_SERVER),
            ("uid", API_SERVER),
        ],
    ),
    (
        "ClusterDeployment.spec",
        &[
            ("clusterMetadata", HUB),
            ("installAttemptsLimit", "an installation is tried once, and started again by its user"),
            ("preserveOnDelete", "machines are not changed when records of them are deleted"),
        ],
    ),
    ("ClusterDeployment.spec.platform", &[("agentBareMetal", "hosts are of the cluster that their infra-env names")]),
    ("AgentClusterInstall.spec", &[("clusterMetadata", HUB)]),
    (
        "InfraEnv.spec",
        &[
            ("agentLabels", "there are no Agent resources to label"),
            ("ipxeScriptType", "the URL of a script says which it is"),
        ],
    ),
    (
        "BareMetalHost.spec",
        &[
            ("automatedCleaningMode", "disks are cleaned by the installation alone"),
            ("bmc", POWER),
            ("bootMode", POWER),
            ("consumerRef", HUB),
            ("description", "it is for people"),
            ("hardwareProfile", "hardware is taken as it is found"),
            ("online", POWER),
        ],
    ),
    ("Secret", &[("immutable", API_SERVER)]),
    ("ConfigMap", &[("immutable", API_SERVER)]),
    (
        "AgentConfig",
        &[
            ("bootArtifactsBaseURL", "the service itself serves them"),
            ("minimalISO", "an image is asked for by its type"),
        ],
    ),
    ("InstallConfig.metadata", &[("annotations", HUB), ("labels", HUB)]),
    (
        "InstallConfig.platform.baremetal",
        &[
            ("bootstrapOSImage", "the bootstrap host is one of the machines"),
            ("clusterOSImage", "the release says which"),
            ("externalBridge", "no bootstrap machine is made"),
            ("externalMACAddress", "no bootstrap machine is made"),
            ("libvirtURI", "no bootstrap machine is made"),
            ("provisioningBridge", "no bootstrap machine is made"),
            ("provisioningMACAddress", "no bootstrap machine is made"),
        ],
    ),
];

/// They are refused, unless they are empty or false.
pub(crate) const REFUSED: &[Listed] = &[
    (
        "ClusterDeployment.spec",
        &[
            ("boundServiceAccountSigningKeySecretRef", "give the key as a manifest"),
            ("certificateBundles", "give the certificates as manifests"),
            ("clusterPoolRef", "there are no pools of clusters"),
            ("hibernateAfter", "clusters do not hibernate"),
            ("ingress", "give it as a manifest"),
            ("installed", "the cluster exists: `landfall node-iso` adds nodes to one"),
            ("manageDNS", "DNS is its user's"),
            ("powerState", "machines are not powered off"),
            ("provisioning", NO_HIVE),
        ],
    ),
    (
        "ClusterDeployment.spec.platform",
        &[
            ("aws", NO_HIVE),
            ("azure", NO_HIVE),
            ("baremetal", NO_HIVE),
            ("gcp", NO_HIVE),
            ("ibmcloud", NO_HIVE),
            ("none", NO_HIVE),
            ("openstack", NO_HIVE),
            ("ovirt", NO_HIVE),
            ("vsphere", NO_HIVE),
        ],
    ),
    (
        "ClusterDeployment.spec.controlPlaneConfig",
        &[
            ("apiServerIPOverride", "the API has the addresses of the plan"),
            ("apiURLOverride", "the API has the name of the cluster"),
            ("servingCertificates", "give them as manifests"),
        ],
    ),
    (
        "BareMetalHost.spec",
        &[
            ("externallyProvisioned", "the machine is another's: leave it out of the plan"),
            ("firmware", "firmware is not set up here"),
            ("firmwareSettings", "firmware is not set up here"),
            ("image", "the cluster's release says what is installed"),
            ("metaData", "the cluster's release says what is installed"),
            ("networkData", "give an NMStateConfig"),
            ("preprovisioningNetworkDataName", "give an NMStateConfig"),
            ("raid", "arrays are not made here"),
            ("taints", "nodes have the taints of their role"),
            ("userData", "give bmac.agent-install.openshift.io/ignition-config-overrides"),
        ],
    ),
    (
        "InstallConfig",
        &[
            ("bootstrapInPlace", "give the disk in rootDeviceHints of the AgentConfig"),
            ("operatorPublishingStrategy", "it is of clouds"),
        ],
    ),
    (
        "InstallConfig.platform",
        &[
            ("alibabacloud", "machines are bare metal"),
            ("aws", "machines are bare metal"),
            ("azure", "machines are bare metal"),
            ("gcp", "machines are bare metal"),
            ("ibmcloud", "machines are bare metal"),
            ("nutanix", "its credentials have no place on a service: use baremetal or none"),
            ("openstack", "machines are bare metal"),
            ("ovirt", "machines are bare metal"),
            ("powervs", "machines are bare metal"),
            ("vsphere", "its credentials have no place on a service: use baremetal or none"),
        ],
    ),
    (
        "InstallConfig.platform.baremetal",
        &[
            ("bootstrapExternalStaticDNS", "no bootstrap machine is made"),
            ("bootstrapExternalStaticGateway", "no bootstrap machine is made"),
            ("bootstrapExternalStaticIP", "no bootstrap machine is made"),
            ("bootstrapProvisioningIP", "there is no provisioning network"),
            ("clusterProvisioningIP", "there is no provisioning network"),
            ("defaultMachinePlatform", "hosts are set up by the AgentConfig"),
            ("hosts", "hosts are those of the AgentConfig"),
            ("provisioningDHCPExternal", "there is no provisioning network"),
            ("provisioningDHCPRange", "there is no provisioning network"),
            ("provisioningHostIP", "there is no provisioning network"),
            ("provisioningNetworkCIDR", "there is no provisioning network"),
            ("provisioningNetworkInterface", "there is no provisioning network"),
        ],
    ),
    (
        "InstallConfig.pool",
        &[
            ("diskEncryption", "give it to the AgentClusterInstall, for a role"),
            ("fencing", "give the credentials to the host"),
            ("platform", "pools have no settings of a platform here"),
        ],
    ),
];

/// The fields of an object in a list.
pub(crate) fn of(list: &'static [Listed], object: &str) -> &'static [(&'static str, &'static str)] {
    list.iter().find(|(name, _)| *name == object).map_or(&[], |(_, fields)| fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_list_every_field_with_its_reason() {
        let text = include_str!("../../../docs/rack.md");
        let mut wanted = String::new();
        for (title, list) in [("Does nothing", IDLE), ("Refused", REFUSED)] {
            for (object, fields) in list {
                for (name, reason) in *fields {
                    wanted.push_str(&format!("| {title} | `{object}.{name}` | {reason} |\n"));
                }
            }
        }
        assert!(text.contains(&wanted), "docs/rack.md must have:\n{wanted}");
    }
}
