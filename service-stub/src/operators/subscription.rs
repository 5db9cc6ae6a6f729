//! How an operator is installed: the facts of its namespace, its group and its subscription.

/// What the operator lifecycle manager is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Olm {
    pub(crate) files: Files,
    /// The package, if it is not called as the subscription.
    pub(crate) package: Option<&'static str>,
    /// The package's default channel, if none.
    pub(crate) channel: Option<&'static str>,
    /// The catalog that has the package.
    pub(crate) source: &'static str,
    /// Namespace and group, unless they belong to another operator or to the cluster.
    pub(crate) home: Option<Home>,
    /// The cluster's monitoring may read its namespace.
    pub(crate) measured: bool,
}

impl Olm {
    pub(crate) const fn new(files: Files) -> Self {
        Self { files, package: None, channel: None, source: "redhat-operators", home: None, measured: false }
    }

    pub(crate) fn file(&self, part: Part) -> String {
        self.files.name(part)
    }
}

/// A namespace with its operator group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    /// The cluster's monitoring watches the namespace.
    pub(crate) monitored: bool,
    /// Name of the group.
    pub(crate) group: &'static str,
    /// The operator watches its own namespace only.
    pub(crate) own_only: bool,
}

impl Home {
    pub(crate) const fn plain(group: &'static str) -> Self {
        Self { monitored: false, group, own_only: false }
    }

    pub(crate) const fn monitored(group: &'static str) -> Self {
        Self { monitored: true, ..Self::plain(group) }
    }

    pub(crate) const fn for_itself(self) -> Self {
        Self { own_only: true, ..self }
    }
}

/// The published names of an operator's files; there are two customs, and an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    Short(&'static str),
    Long(&'static str),
    Mce,
}

/// What a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Namespace,
    Group,
    Subscription,
    /// Something of this operator alone.
    Own(&'static str),
}

impl Files {
    fn name(self, part: Part) -> String {
        let (stem, long) = match self {
            Self::Short(name) => (format!("50_openshift-{name}"), false),
            Self::Long(name) => (format!("50_{name}"), true),
            Self::Mce => ("50_openshift-mce".to_owned(), false),
        };
        let end = match (part, long) {
            (Part::Namespace, false) => "ns",
            (Part::Namespace, true) => "namespace",
            (Part::Group, false) => "operator_group",
            (Part::Group, true) => "operatorgroup",
            (Part::Subscription, _) if self == Self::Mce => "operator_subscription",
            (Part::Subscription, _) => "subscription",
            (Part::Own(name), _) => name,
        };
        format!("{stem}_{end}.yaml")
    }
}
