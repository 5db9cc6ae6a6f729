//! Which certificate signing requests may be approved.
//!
//! A node gets two certificates. With the first, its kubelet is a client of the API server; it requests it with a bootstrap token, which
//! every host of the cluster holds. With the second it is a server, for logs and shells in its containers. Approving every request would
//! let anyone with that token become any node, and any node impersonate another.

mod pkcs10;
mod seen;
#[cfg(test)]
mod tests;

pub use pkcs10::Malformed;
use pkcs10::{AltName, Wanted};
pub use seen::Seen;
use std::{borrow::Cow, net::IpAddr};

const NODE_PREFIX: &str = "system:node:";
const NODES: &str = "system:nodes";
const AUTHENTICATED: &str = "system:authenticated";
/// The account of the bootstrap token.
const BOOTSTRAPPER: &str = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper";
const BOOTSTRAPPER_GROUPS: [&str; 3] =
    ["system:serviceaccounts", "system:serviceaccounts:openshift-machine-config-operator", AUTHENTICATED];
const NODE_GROUPS: [&str; 2] = [NODES, AUTHENTICATED];

/// A certificate signing request, as the API server has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub name: String,
    pub signer_name: String,
    /// Set by the API server, as are the groups.
    pub username: String,
    pub groups: Vec<String>,
    pub usages: Vec<String>,
    pub pem: Vec<u8>,
    /// The types of its conditions.
    pub conditions: Vec<String>,
}

/// The service's hosts of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    pub list: Vec<Host>,
    /// Those of API and ingress, which move between hosts.
    pub extra_addresses: Vec<IpAddr>,
    /// The service is gone and said nothing of its hosts: any name may be one, and nodes stand for the inventories.
    pub unknown: bool,
}

impl Hosts {
    /// The host of that name.
    fn find(&self, name: &str) -> Option<Cow<'_, Host>> {
        if self.unknown {
            let is_lower = !name.bytes().any(|byte| byte.is_ascii_uppercase());
            let host = Host { names: vec![name.to_owned()], addresses: Vec::new() };
            return (is_host_name(name) && is_lower).then_some(Cow::Owned(host));
        }
        self.list.iter().find(|host| host.is_named(name)).map(Cow::Borrowed)
    }
}

/// A host, by what the service knows of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The names that its node may have, in lower case.
    pub names: Vec<String>,
    /// By its inventory.
    pub addresses: Vec<IpAddr>,
}

impl Host {
    fn is_named(&self, name: &str) -> bool {
        self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    fn has(&self, address: IpAddr) -> bool {
        contains(&self.addresses, address)
    }
}

/// An existing node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// Kind (`InternalIP`, `Hostname`) and text. The kubelet itself reports them.
    pub addresses: Vec<(String, String)>,
    /// Whether its condition `Ready` is true.
    pub ready: bool,
}

impl Node {
    fn has_address(&self, wanted_kind: &str, wanted: IpAddr) -> bool {
        self.addresses.iter().any(|(kind, text)| {
            kind == wanted_kind
                && text.parse::<IpAddr>().is_ok_and(|address| address.to_canonical() == wanted.to_canonical())
        })
    }

    fn has_name(&self, wanted: &str) -> bool {
        let kinds = ["Hostname", "InternalDNS", "ExternalDNS"];
        self.name.eq_ignore_ascii_case(wanted)
            || self
                .addresses
                .iter()
                .any(|(kind, text)| kinds.contains(&kind.as_str()) && text.eq_ignore_ascii_case(wanted))
    }
}

/// Which requests of the two signers are approved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Approval {
    /// All of them unseen.
    Any,
    /// Those of the cluster's hosts.
    #[default]
    Hosts,
}

/// What to do with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Approve,
    /// Nothing is to be decided: it is approved already, or for another signer.
    Ignore,
    Refuse(Reason),
}

/// Why a request is not approved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("it has the condition {0}, expected none")]
    Closed(Seen),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("its organization is {0}, expected only '{NODES}'")]
    Organization(Seen),
    #[error("its common name is {0}, expected '{NODE_PREFIX}' and the name of a host")]
    CommonName(Seen),
    #[error("its common name is for {0}, which is not a host of the cluster")]
    UnknownHost(Seen),
    #[error("its usages are {found}, expected 'digital signature', '{expected}' and at most 'key encipherment'")]
    Usages { found: Seen, expected: &'static str },
    #[error("its requester is {found}, expected {expected}")]
    Requester { found: Seen, expected: Seen },
    #[error("its requester's groups are {found}, expected {expected}")]
    Groups { found: Seen, expected: Seen },
    #[error(
        "a bootstrap token requests it, but node {0} exists and is ready; expected no such node, or one that is not ready"
    )]
    NodeIsReady(Seen),
    #[error("it requests {0} alternative names, expected none for a client")]
    ClientNames(usize),
    #[error("node {0} does not exist")]
    NoNode(Seen),
    #[error("it requests no alternative name, expected at least one for a server")]
    NoNames,
    #[error("it requests the name {found}, which is not a host name")]
    NotHostName { found: Seen },
    #[error("it requests the name {found}, which is not one of node {node}")]
    ForeignName { found: Seen, node: Seen },
    #[error("it requests the name {found} for node {node}, but another host has that name")]
    NameOfAnother { found: Seen, node: Seen },
    #[error("it requests the address {found}, which is not one of node {node}")]
    ForeignAddress { found: IpAddr, node: Seen },
    #[error("it requests the address {found} for node {node}, but another host has that address")]
    AddressOfAnother { found: IpAddr, node: Seen },
    #[error("it requests the address {found} for node {node}, which the inventory of its host does not have")]
    NotInInventory { found: IpAddr, node: Seen },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Signer {
    Client,
    Serving,
}

impl Signer {
    fn named(name: &str) -> Option<Self> {
        match name {
            "kubernetes.io/kube-apiserver-client-kubelet" => Some(Self::Client),
            "kubernetes.io/kubelet-serving" => Some(Self::Serving),
            _ => None,
        }
    }

    fn usage(self) -> &'static str {
        match self {
            Self::Client => "client auth",
            Self::Serving => "server auth",
        }
    }
}

/// Decides about one request.
pub fn judge(request: &Request, hosts: &Hosts, nodes: &[Node], approval: Approval) -> Verdict {
    let Some(signer) = Signer::named(&request.signer_name) else { return Verdict::Ignore };
    if request.conditions.iter().any(|condition| condition == "Approved") {
        return Verdict::Ignore;
    }
    match approval {
        // The server takes no approval of what is denied.
        Approval::Any if request.conditions.iter().any(|condition| condition == "Denied") => Verdict::Ignore,
        Approval::Any => Verdict::Approve,
        Approval::Hosts => match check(request, signer, hosts, nodes) {
            Ok(()) => Verdict::Approve,
            Err(reason) => Verdict::Refuse(reason),
        },
    }
}

fn check(request: &Request, signer: Signer, hosts: &Hosts, nodes: &[Node]) -> Result<(), Reason> {
    if let Some(closed) = request.conditions.iter().find(|condition| ["Denied", "Failed"].contains(&condition.as_str()))
    {
        return Err(Reason::Closed(Seen::text(closed)));
    }
    let wanted = pkcs10::parse(&request.pem)?;
    if wanted.organizations != [NODES] {
        return Err(Reason::Organization(Seen::list(&wanted.organizations)));
    }
    let name = wanted.common_name.strip_prefix(NODE_PREFIX).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Reason::CommonName(Seen::text(&wanted.common_name)))?;
    let host = hosts.find(name).ok_or_else(|| Reason::UnknownHost(Seen::text(name)))?;
    let usage = signer.usage();
    if !are(&request.usages, &["digital signature", usage])
        && !are(&request.usages, &["digital signature", usage, "key encipherment"])
    {
        return Err(Reason::Usages { found: Seen::list(&request.usages), expected: usage });
    }
    match signer {
        Signer::Client => client(request, &wanted, &host, nodes),
        Signer::Serving => {
            let node = serving_node(request, &wanted, name, nodes)?;
            wanted.names.iter().try_for_each(|name| match name {
                AltName::Dns(name) => dns_name(name, node, &host, hosts, nodes),
                AltName::Address(address) => serving_address(*address, node, &host, hosts, nodes),
            })
        }
    }
}

fn client(request: &Request, wanted: &Wanted, host: &Host, nodes: &[Node]) -> Result<(), Reason> {
    if !wanted.names.is_empty() {
        return Err(Reason::ClientNames(wanted.names.len()));
    }
    let groups: &[&str] = if request.username == BOOTSTRAPPER {
        // A stolen token would take over a running node. A host that is installed again is not ready.
        if let Some(node) = nodes.iter().find(|node| node.ready && host.is_named(&node.name)) {
            return Err(Reason::NodeIsReady(Seen::text(&node.name)));
        }
        &BOOTSTRAPPER_GROUPS
    } else if request.username == wanted.common_name {
        &NODE_GROUPS
    } else {
        let expected = Seen::list(&[BOOTSTRAPPER, &wanted.common_name]);
        return Err(Reason::Requester { found: Seen::text(&request.username), expected });
    };
    if are(&request.groups, groups) { Ok(()) } else { Err(wrong_groups(request, groups)) }
}

/// The node, if it is the one that requests the certificate.
fn serving_node<'a>(request: &Request, wanted: &Wanted, name: &str, nodes: &'a [Node]) -> Result<&'a Node, Reason> {
    if request.username != wanted.common_name {
        let expected = Seen::text(&wanted.common_name);
        return Err(Reason::Requester { found: Seen::text(&request.username), expected });
    }
    if !NODE_GROUPS.iter().all(|group| request.groups.iter().any(|found| found == group)) {
        return Err(wrong_groups(request, &NODE_GROUPS));
    }
    if wanted.names.is_empty() {
        return Err(Reason::NoNames);
    }
    nodes.iter().find(|node| node.name == name).ok_or_else(|| Reason::NoNode(Seen::text(name)))
}

fn dns_name(name: &str, node: &Node, host: &Host, hosts: &Hosts, nodes: &[Node]) -> Result<(), Reason> {
    let (found, shown) = (|| Seen::text(name), || Seen::text(&node.name));
    // A node reports its names itself; `*` would be the name of every node.
    if !is_host_name(name) {
        return Err(Reason::NotHostName { found: found() });
    }
    if !node.has_name(name) {
        return Err(Reason::ForeignName { found: found(), node: shown() });
    }
    let of_another_node = nodes.iter().any(|other| other.name != node.name && other.name.eq_ignore_ascii_case(name));
    let of_another_host = !host.is_named(name) && hosts.list.iter().any(|other| other.is_named(name));
    if of_another_node || of_another_host {
        return Err(Reason::NameOfAnother { found: found(), node: shown() });
    }
    Ok(())
}

fn is_host_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

fn serving_address(found: IpAddr, node: &Node, host: &Host, hosts: &Hosts, nodes: &[Node]) -> Result<(), Reason> {
    let shown = || Seen::text(&node.name);
    let internal = node.has_address("InternalIP", found);
    if !internal && !node.has_address("ExternalIP", found) {
        return Err(Reason::ForeignAddress { found, node: shown() });
    }
    // A node reports its addresses itself: the inventory was there before it.
    if host.has(found) || contains(&hosts.extra_addresses, found) {
        return Ok(());
    }
    let of_another_node = || {
        let others = nodes.iter().filter(|other| other.name != node.name);
        others.into_iter().any(|other| other.has_address("InternalIP", found) || other.has_address("ExternalIP", found))
    };
    if hosts.list.iter().any(|other| other.has(found)) || hosts.unknown && of_another_node() {
        return Err(Reason::AddressOfAnother { found, node: shown() });
    }
    // A cloud's external address is on no interface, so no inventory has it.
    if internal && !host.addresses.is_empty() {
        return Err(Reason::NotInInventory { found, node: shown() });
    }
    Ok(())
}

fn wrong_groups(request: &Request, expected: &[&str]) -> Reason {
    Reason::Groups { found: Seen::list(&request.groups), expected: Seen::list(expected) }
}

/// Whether these are found, each once and in any order, and no others.
fn are(found: &[String], expected: &[&str]) -> bool {
    found.len() == expected.len() && expected.iter().all(|text| found.iter().any(|found| found == text))
}

fn contains(list: &[IpAddr], address: IpAddr) -> bool {
    list.iter().any(|known| known.to_canonical() == address.to_canonical())
}

/// Reads a request, as DER and as PEM. Without hosts none may be approved.
///
/// # Panics
/// If one is, or if what was read is not what is allowed.
#[cfg(any(test, fuzzing))]
#[cfg_attr(test, allow(unreachable_pub, reason = "the fuzz target calls it"))]
pub fn fuzz_certificate_request(bytes: &[u8]) {
    if let Ok((wanted, _)) = pkcs10::read(bytes) {
        assert!(wanted.names.len() <= 64, "{wanted:?}");
    }
    for signer in ["kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"] {
        let request = Request { signer_name: signer.to_owned(), pem: bytes.to_vec(), ..Request::default() };
        let verdict = judge(&request, &Hosts::default(), &[], Approval::Hosts);
        let Verdict::Refuse(reason) = verdict else { panic!("{verdict:?}") };
        assert!(!reason.to_string().chars().any(char::is_control), "{reason:?}");
    }
}
