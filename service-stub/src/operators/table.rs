//! The operators.

use super::bundles::{AI, VIRTUALIZATION};
use crate::features::Feature;

#[derive(Debug)]
pub(crate) struct Operator {
    pub(crate) name: &'static str,
    /// Name in texts, where it isn't the feature's.
    title: Option<&'static str>,
    /// The feature that it installs.
    pub(crate) feature: Feature,
    /// Namespace that it is installed in.
    pub(crate) namespace: &'static str,
    /// Name of its subscription.
    pub(crate) subscription: &'static str,
    /// How long it may take.
    pub(crate) timeout_minutes: i64,
    pub(crate) needs: &'static [&'static str],
    /// Further ones on a single node.
    pub(crate) needs_on_single_node: &'static [&'static str],
    /// Bundle that it belongs to.
    pub(crate) membership: Membership,
}

/// How an operator belongs to a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    /// To none.
    Nowhere,
    Always(&'static str),
    /// Except on a single node.
    ManyNodes(&'static str),
    /// Only on a single node.
    SingleNode(&'static str),
    /// If it is asked for.
    Optional(&'static str),
}

impl Operator {
    /// Name in texts.
    pub(crate) fn title(&self) -> &'static str {
        self.title.unwrap_or(self.feature.row().name)
    }

    /// The features that it may need.
    pub(crate) fn needed_features(&self) -> impl Iterator<Item = Feature> {
        self.needs.iter().chain(self.needs_on_single_node).filter_map(|name| find(name)).map(|needed| needed.feature)
    }

    const fn new(name: &'static str, feature: Feature, namespace: &'static str, subscription: &'static str) -> Self {
        Self {
            name,
            title: None,
            feature,
            namespace,
            subscription,
            timeout_minutes: 30,
            needs: &[],
            needs_on_single_node: &[],
            membership: Membership::Nowhere,
        }
    }

    const fn minutes(self, timeout_minutes: i64) -> Self {
        Self { timeout_minutes, ..self }
    }

    const fn needs(self, needs: &'static [&'static str]) -> Self {
        Self { needs, ..self }
    }

    const fn within(self, membership: Membership) -> Self {
        Self { membership, ..self }
    }

    const fn titled(self, title: &'static str) -> Self {
        Self { title: Some(title), ..self }
    }
}

pub(crate) fn find(name: &str) -> Option<&'static Operator> {
    OPERATORS.iter().find(|operator| operator.name == name)
}

pub(crate) fn installs(feature: Feature) -> Option<&'static Operator> {
    OPERATORS.iter().find(|operator| operator.feature == feature)
}

const WORKLOADS: &str = "openshift-workload-availability";
const SHARED: &str = "openshift-operators";
const IN_VIRTUALIZATION: Membership = Membership::Always(VIRTUALIZATION);
const IN_LARGE_AI: Membership = Membership::ManyNodes(AI);

#[rustfmt::skip]
pub(crate) const OPERATORS: &[Operator] = &[
    Operator::new("amd-gpu", Feature::AmdGpu, "openshift-amd-gpu", "amd-gpu-operator")
        .needs(&["node-feature-discovery", "kmm"]).within(Membership::Optional(AI)),
    Operator::new("authorino", Feature::Authorino, SHARED, "authorino-operator").within(IN_LARGE_AI),
    Operator::new("cluster-observability", Feature::ClusterObservability, "openshift-cluster-observability-operator", "cluster-observability-operator")
        .needs(&["openshift-logging"]).within(IN_VIRTUALIZATION),
    Operator::new("cnv", Feature::Cnv, "openshift-cnv", "hco-operatorhub").minutes(60).within(IN_VIRTUALIZATION),
    Operator::new("fence-agents-remediation", Feature::FenceAgentsRemediation, WORKLOADS, "fence-agents-remediation")
        .needs(&["node-healthcheck"]).within(IN_VIRTUALIZATION),
    Operator::new("kmm", Feature::Kmm, "openshift-kmm", "kernel-module-management").titled("KMM"),
    Operator::new("kube-descheduler", Feature::KubeDescheduler, "openshift-kube-descheduler-operator", "cluster-kube-descheduler-operator")
        .within(IN_VIRTUALIZATION),
    Operator::new("loki", Feature::Loki, "openshift-operators-redhat", "loki-operator").within(IN_VIRTUALIZATION),
    Operator::new("lso", Feature::Lso, "openshift-local-storage", "local-storage-operator").minutes(70),
    Operator::new("lvm", Feature::Lvm, "openshift-storage", "lvms-operator").within(Membership::SingleNode(AI)),
    Operator::new("mce", Feature::Mce, "multicluster-engine", "multicluster-engine").minutes(60),
    Operator::new("metallb", Feature::Metallb, "metallb-system", "metallb-operator").within(IN_VIRTUALIZATION),
    Operator::new("mtv", Feature::Mtv, "openshift-mtv", "mtv-operator").minutes(60).needs(&["cnv"]).within(IN_VIRTUALIZATION),
    Operator::new("nmstate", Feature::Nmstate, "openshift-nmstate", "kubernetes-nmstate-operator")
        .minutes(60).titled("Kubernetes NMState Operator").within(IN_VIRTUALIZATION),
    Operator::new("node-feature-discovery", Feature::NodeFeatureDiscovery, "openshift-nfd", "nfd"),
    Operator::new("node-healthcheck", Feature::NodeHealthcheck, WORKLOADS, "node-healthcheck-operator").within(IN_VIRTUALIZATION),
    Operator::new("node-maintenance", Feature::NodeMaintenance, "openshift-workload-maintenance", "node-maintenance-operator")
        .within(IN_VIRTUALIZATION),
    Operator::new("numaresources", Feature::NumaResources, "openshift-numaresources", "numaresources-operator").within(IN_VIRTUALIZATION),
    Operator::new("nvidia-gpu", Feature::NvidiaGpu, "nvidia-gpu-operator", "gpu-operator-certified")
        .needs(&["node-feature-discovery"]).within(Membership::Optional(AI)),
    Operator::new("oadp", Feature::Oadp, "openshift-adp", "redhat-oadp-operator").within(IN_VIRTUALIZATION),
    Operator::new("odf", Feature::Odf, "openshift-storage", "odf-operator").needs(&["lso"]).within(IN_LARGE_AI),
    Operator { needs_on_single_node: &["lvm"],
        ..Operator::new("openshift-ai", Feature::OpenshiftAi, "redhat-ods-operator", "rhods-operator").within(Membership::Always(AI)) },
    Operator::new("openshift-logging", Feature::OpenshiftLogging, "openshift-logging", "cluster-logging")
        .needs(&["loki"]).within(IN_VIRTUALIZATION),
    Operator::new("osc", Feature::Osc, "openshift-sandboxed-containers-operator", "sandboxed-containers-operator")
        .minutes(60).needs(&["node-feature-discovery"]),
    Operator::new("pipelines", Feature::Pipelines, SHARED, "openshift-pipelines-operator-rh").within(IN_LARGE_AI),
    Operator::new("self-node-remediation", Feature::SelfNodeRemediation, WORKLOADS, "self-node-remediation").needs(&["node-healthcheck"]),
    Operator::new("serverless", Feature::Serverless, "openshift-serverless", "serverless-operator").titled("Serverless").within(IN_LARGE_AI),
    Operator::new("servicemesh", Feature::ServiceMesh, SHARED, "servicemeshoperator").titled("Service Mesh").within(IN_LARGE_AI),
];
