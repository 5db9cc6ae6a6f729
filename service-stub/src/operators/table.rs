//! The operators: what each is, what it needs, and how it is installed. The numbers and names are those of the published service.

use super::bundles::{AI, VIRTUALIZATION};
use super::rules::{Amount, Amounts, ClusterRule, Hardware, HostRule};
use super::subscription::{Files, Home, Olm};
use crate::features::Feature;

#[derive(Debug)]
pub(crate) struct Operator {
    pub(crate) name: &'static str,
    /// Name of its checks, of hosts and of clusters.
    pub(crate) check: &'static str,
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
    /// Processors and memory that it takes of hosts.
    pub(crate) hardware: Hardware,
    /// What it asks of each host besides.
    pub(crate) host: HostRule,
    /// What it asks of a cluster.
    pub(crate) cluster: ClusterRule,
    /// How it is installed.
    pub(crate) olm: Olm,
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

    const fn new(
        name: &'static str,
        check: &'static str,
        feature: Feature,
        namespace: &'static str,
        subscription: &'static str,
        files: Files,
    ) -> Self {
        Self {
            name,
            check,
            title: None,
            feature,
            namespace,
            subscription,
            timeout_minutes: 30,
            needs: &[],
            needs_on_single_node: &[],
            membership: Membership::Nowhere,
            hardware: Hardware::Nothing,
            host: HostRule::Nothing,
            cluster: ClusterRule::Nothing,
            olm: Olm::new(files),
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

    const fn takes(self, hardware: Hardware) -> Self {
        Self { hardware, ..self }
    }

    const fn of_hosts(self, host: HostRule) -> Self {
        Self { host, ..self }
    }

    const fn of_clusters(self, cluster: ClusterRule) -> Self {
        Self { cluster, ..self }
    }

    /// It has a namespace of its own.
    const fn lives_in(self, home: Home) -> Self {
        Self { olm: Olm { home: Some(home), ..self.olm }, ..self }
    }

    /// Its package is another than its subscription.
    const fn package(self, package: &'static str) -> Self {
        Self { olm: Olm { package: Some(package), ..self.olm }, ..self }
    }

    const fn channel(self, channel: &'static str) -> Self {
        Self { olm: Olm { channel: Some(channel), ..self.olm }, ..self }
    }

    /// Not of Red Hat's own catalog.
    const fn certified(self) -> Self {
        Self { olm: Olm { source: "certified-operators", ..self.olm }, ..self }
    }

    /// The cluster's monitoring reads its namespace.
    const fn measured(self) -> Self {
        Self { olm: Olm { measured: true, ..self.olm }, ..self }
    }
}

/// An operator with its feature, namespace, subscription and files; its checks are named after it.
macro_rules! operator {
    ($name:literal, $feature:ident, $namespace:expr, $subscription:literal, $files:expr) => {
        Operator::new(
            $name,
            concat!($name, "-requirements-satisfied"),
            Feature::$feature,
            $namespace,
            $subscription,
            $files,
        )
    };
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

/// One processor and 1 GiB of every host that runs what users bring or controls the cluster.
const ONE_OF_EACH: Hardware = Hardware::Amounts { amounts: Amounts::everywhere(Amount::new(1, 1024)), described: true };
const MACHINES: Amounts = Amounts {
    single_node: Amount::new(6, 510),
    master: Amount::new(4, 150),
    worker: Amount::new(2, 360),
    unassigned: Amount::new(2, 360),
};
const MODELS: Amounts = Amounts { worker: Amount::new(8, 32 << 10), ..Amounts::everywhere(Amount::NONE) };
const CLUSTERS: Amounts =
    Amounts { single_node: Amount::new(8, 32 << 10), ..Amounts::everywhere(Amount::new(4, 16 << 10)) };
const ENOUGH: HostRule = HostRule::Enough { unknown: "Missing Inventory in some of the hosts" };

#[rustfmt::skip]
pub(crate) const OPERATORS: &[Operator] = &[
    operator!("amd-gpu", AmdGpu, "openshift-amd-gpu", "amd-gpu-operator", Files::Long("amd_gpu"))
        .needs(&["node-feature-discovery", "kmm"]).within(Membership::Optional(AI))
        .of_hosts(HostRule::NoSecureBoot { vendor: Some("1002"), loads: "AMD GPU drivers" })
        .of_clusters(ClusterRule::Gpu { vendor: "1002", title: "AMD" })
        .certified().channel("alpha").lives_in(Home::monitored("kube-amd-gpu")).measured(),
    operator!("authorino", Authorino, SHARED, "authorino-operator", Files::Long("authorino"))
        .within(IN_LARGE_AI).channel("tech-preview-v1"),
    operator!("cluster-observability", ClusterObservability, "openshift-cluster-observability-operator", "cluster-observability-operator", Files::Long("cluster_observability"))
        .needs(&["openshift-logging"]).within(IN_VIRTUALIZATION)
        .channel("stable").lives_in(Home::monitored("cluster-observability")),
    operator!("cnv", Cnv, "openshift-cnv", "hco-operatorhub", Files::Short("cnv"))
        .minutes(60).within(IN_VIRTUALIZATION)
        .takes(Hardware::Machines(MACHINES)).of_hosts(HostRule::Machines).of_clusters(ClusterRule::Architecture)
        .package("kubevirt-hyperconverged").channel("stable").lives_in(Home::plain("kubevirt-hyperconverged-group").for_itself()),
    operator!("fence-agents-remediation", FenceAgentsRemediation, WORKLOADS, "fence-agents-remediation", Files::Long("fence_agents_remediation"))
        .needs(&["node-healthcheck"]).within(IN_VIRTUALIZATION).channel("stable"),
    operator!("kmm", Kmm, "openshift-kmm", "kernel-module-management", Files::Long("kmm"))
        .titled("KMM")
        .of_hosts(HostRule::NoSecureBoot { vendor: None, loads: "modules" })
        .channel("stable").lives_in(Home::plain("openshift-kmm")),
    operator!("kube-descheduler", KubeDescheduler, "openshift-kube-descheduler-operator", "cluster-kube-descheduler-operator", Files::Long("kube_descheduler"))
        .within(IN_VIRTUALIZATION)
        .channel("stable").lives_in(Home::monitored("openshift-node-availability").for_itself()),
    operator!("loki", Loki, "openshift-operators-redhat", "loki-operator", Files::Short("loki"))
        .within(IN_VIRTUALIZATION)
        .of_clusters(ClusterRule::Since("4.17.0", "Loki Operator is only supported for OpenShift versions"))
        .lives_in(Home::monitored("loki-operator")),
    operator!("lso", Lso, "openshift-local-storage", "local-storage-operator", Files::Short("lso"))
        .minutes(70).lives_in(Home::monitored("local-storage").for_itself()).measured(),
    operator!("lvm", Lvm, "openshift-storage", "lvms-operator", Files::Short("lvm"))
        .within(Membership::SingleNode(AI))
        .takes(Hardware::Volumes).of_hosts(HostRule::Volumes).of_clusters(ClusterRule::Volumes)
        .lives_in(Home::monitored("openshift-storage-operatorgroup").for_itself()),
    operator!("mce", Mce, "multicluster-engine", "multicluster-engine", Files::Mce)
        .minutes(60)
        .takes(Hardware::Amounts { amounts: CLUSTERS, described: false })
        .of_hosts(HostRule::Enough { unknown: "Missing Inventory in the host" })
        .of_clusters(ClusterRule::Since("4.10.0", "multicluster engine is only supported for openshift versions"))
        .lives_in(Home::plain("mce").for_itself()),
    operator!("metallb", Metallb, "metallb-system", "metallb-operator", Files::Long("metallb"))
        .within(IN_VIRTUALIZATION).channel("stable").lives_in(Home::plain("metallb")),
    operator!("mtv", Mtv, "openshift-mtv", "mtv-operator", Files::Short("mtv"))
        .minutes(60).needs(&["cnv"]).within(IN_VIRTUALIZATION)
        .takes(ONE_OF_EACH).of_hosts(ENOUGH).of_clusters(ClusterRule::ArchitectureSince("4.14.0"))
        .lives_in(Home::plain("migration").for_itself()),
    operator!("nmstate", Nmstate, "openshift-nmstate", "kubernetes-nmstate-operator", Files::Short("nmstate"))
        .minutes(60).titled("Kubernetes NMState Operator").within(IN_VIRTUALIZATION)
        .of_clusters(ClusterRule::ArchitectureSince("4.12.0"))
        .channel("stable").lives_in(Home::plain("openshift-nmstate").for_itself()),
    operator!("node-feature-discovery", NodeFeatureDiscovery, "openshift-nfd", "nfd", Files::Long("nodefeaturediscovery"))
        .channel("stable").lives_in(Home::monitored("openshift-nfd").for_itself()),
    operator!("node-healthcheck", NodeHealthcheck, WORKLOADS, "node-healthcheck-operator", Files::Long("node_healthcheck"))
        .within(IN_VIRTUALIZATION).channel("stable").lives_in(Home::plain("openshift-node-availability")),
    operator!("node-maintenance", NodeMaintenance, "openshift-workload-maintenance", "node-maintenance-operator", Files::Long("node_maintenance"))
        .within(IN_VIRTUALIZATION).channel("stable").lives_in(Home::plain("openshift-node-availability")),
    Operator { check: "numa-resources-requirements-satisfied",
        ..operator!("numaresources", NumaResources, "openshift-numaresources", "numaresources-operator", Files::Long("numaresources")) }
        .within(IN_VIRTUALIZATION).lives_in(Home::monitored("numaresources-operator").for_itself()).measured(),
    operator!("nvidia-gpu", NvidiaGpu, "nvidia-gpu-operator", "gpu-operator-certified", Files::Long("nvidia_gpu"))
        .needs(&["node-feature-discovery"]).within(Membership::Optional(AI))
        .of_hosts(HostRule::NoSecureBoot { vendor: Some("10de"), loads: "NVIDIA GPU drivers" })
        .of_clusters(ClusterRule::Gpu { vendor: "10de", title: "NVIDIA" })
        .certified().channel("stable").lives_in(Home::plain("nvidia-gpu-operator").for_itself()),
    operator!("oadp", Oadp, "openshift-adp", "redhat-oadp-operator", Files::Long("oadp"))
        .within(IN_VIRTUALIZATION).lives_in(Home::plain("oadp").for_itself()),
    operator!("odf", Odf, "openshift-storage", "odf-operator", Files::Short("odf"))
        .needs(&["lso"]).within(IN_LARGE_AI)
        .takes(Hardware::Storage).of_hosts(HostRule::Storage).of_clusters(ClusterRule::Storage)
        .lives_in(Home::monitored("openshift-storage-operatorgroup").for_itself()),
    Operator { needs_on_single_node: &["lvm"],
        ..operator!("openshift-ai", OpenshiftAi, "redhat-ods-operator", "rhods-operator", Files::Long("openshift_ai")) }
        .within(Membership::Always(AI))
        .takes(Hardware::Amounts { amounts: MODELS, described: false }).of_hosts(HostRule::Models).of_clusters(ClusterRule::Models)
        .channel("stable").lives_in(Home::plain("rhods-operator")),
    operator!("openshift-logging", OpenshiftLogging, "openshift-logging", "cluster-logging", Files::Short("logging"))
        .needs(&["loki"]).within(IN_VIRTUALIZATION)
        .of_clusters(ClusterRule::Since("4.17.0", "OpenShift Logging Operator is only supported for OpenShift versions"))
        .lives_in(Home::monitored("cluster-logging").for_itself()),
    operator!("osc", Osc, "openshift-sandboxed-containers-operator", "sandboxed-containers-operator", Files::Short("osc"))
        .minutes(60).needs(&["node-feature-discovery"])
        .takes(ONE_OF_EACH).of_hosts(ENOUGH).of_clusters(ClusterRule::ArchitectureSince("4.10.0"))
        .lives_in(Home::plain("sandboxed-containers-operator-group").for_itself()),
    operator!("pipelines", Pipelines, SHARED, "openshift-pipelines-operator-rh", Files::Long("pipelines"))
        .within(IN_LARGE_AI).channel("latest"),
    operator!("self-node-remediation", SelfNodeRemediation, WORKLOADS, "self-node-remediation", Files::Long("self_node_remediation"))
        .needs(&["node-healthcheck"]).channel("stable"),
    operator!("serverless", Serverless, "openshift-serverless", "serverless-operator", Files::Long("serverless"))
        .titled("Serverless").within(IN_LARGE_AI).channel("stable").lives_in(Home::plain("openshift-serverless")),
    operator!("servicemesh", ServiceMesh, SHARED, "servicemeshoperator", Files::Long("servicemesh"))
        .titled("Service Mesh").within(IN_LARGE_AI).channel("stable"),
];
