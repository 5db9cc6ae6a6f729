//! Node 1 joins for the first time, node 2 runs, node 3 is being installed again. Node 4 lies in a cloud, and its inventory is empty.

#![allow(clippy::unwrap_used)]

mod format;

use super::*;
use rcgen::{
    Attribute, BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType, DnValue, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SanType,
    string::{BmpString, Ia5String, PrintableString},
};
use x509_cert::{
    der::{
        Decode, Encode,
        pem::{LineEnding, encode_string},
    },
    name::RdnSequence,
    request::CertReq,
};

const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVING: &str = "kubernetes.io/kubelet-serving";
/// Made with `openssl req -new -newkey rsa:2048 -subj "/O=system:nodes/CN=system:node:node-1"`.
const RSA: &[u8] = include_bytes!("rsa.pem");
const EXTENSION_REQUEST: &[u64] = &[1, 2, 840, 113_549, 1, 9, 14];

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn hosts() -> Hosts {
    let host = |names: &[&str], addresses: &[&str]| Host {
        names: texts(names),
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
    };
    Hosts {
        list: vec![
            host(&["node-1"], &["10.0.0.1", "fd00::1"]),
            host(&["node-2", "node-2.example.com"], &["10.0.0.2", "fd00::2"]),
            host(&["node-3"], &["10.0.0.3"]),
            host(&["node-4"], &[]),
            host(&["kelvin", ""], &[]),
        ],
        extra_addresses: vec!["10.0.0.100".parse().unwrap()],
        unknown: false,
    }
}

fn nodes() -> Vec<Node> {
    let node = |name: &str, ready, addresses: &[(&str, &str)]| Node {
        name: name.to_owned(),
        ready,
        addresses: addresses.iter().map(|(kind, text)| ((*kind).to_owned(), (*text).to_owned())).collect(),
    };
    let second = [
        ("InternalIP", "10.0.0.2"),
        ("InternalIP", "fd00:0::2"),
        ("InternalIP", "10.0.0.100"),
        ("InternalIP", "10.0.0.77"),
        ("InternalIP", "10.0.0.3"),
        ("ExternalIP", "192.0.2.2"),
        ("ExternalIP", "10.0.0.1"),
        ("Hostname", "node-2"),
        ("Hostname", "10.0.0.66"),
        ("InternalDNS", "node-2.example.com"),
        ("ExternalDNS", "two.example.org"),
        ("InternalDNS", "node-1"),
        ("InternalDNS", "node-9"),
        ("InternalDNS", "*.example.com"),
    ];
    vec![
        node("node-2", true, &second),
        node("node-3", false, &[("InternalIP", "10.0.0.3")]),
        node("node-4", true, &[("InternalIP", "10.0.0.4"), ("InternalIP", "10.0.0.1")]),
        node("node-9", true, &[("InternalIP", "10.0.0.9")]),
    ]
}

fn params(common_name: impl Into<DnValue>, names: Vec<SanType>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, NODES);
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.subject_alt_names = names;
    params
}

fn pem(der: &[u8]) -> Vec<u8> {
    encode_string("CERTIFICATE REQUEST", LineEnding::LF, der).unwrap().into_bytes()
}

fn der(params: &CertificateParams) -> Vec<u8> {
    params.serialize_request(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
}

fn signed(params: &CertificateParams) -> Vec<u8> {
    pem(&der(params))
}

fn with_attribute(params: &CertificateParams, oid: &'static [u64], values: &[u8]) -> Vec<u8> {
    let attribute = Attribute { oid, values: values.to_vec() };
    let request = params.serialize_request_with_attributes(&KeyPair::generate().unwrap(), vec![attribute]);
    pem(request.unwrap().der())
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

fn ip(address: &str) -> SanType {
    SanType::IpAddress(address.parse().unwrap())
}

/// Node 1 asks with the bootstrap token.
fn first() -> Request {
    client(signed(&params("system:node:node-1", vec![])))
}

fn client(pem: Vec<u8>) -> Request {
    Request {
        name: "csr-1".to_owned(),
        signer_name: CLIENT.to_owned(),
        username: BOOTSTRAPPER.to_owned(),
        groups: texts(&BOOTSTRAPPER_GROUPS),
        usages: texts(&["digital signature", "client auth"]),
        pem,
        conditions: vec![],
    }
}

/// Client certificates of a bootstrap token.
fn named(common_name: impl Into<DnValue>) -> Request {
    client(signed(&params(common_name, vec![])))
}

/// A running node's client certificate.
fn renewal(name: &str) -> Request {
    let username = format!("system:node:{name}");
    Request { username: username.clone(), groups: texts(&NODE_GROUPS), ..named(username) }
}

fn serving(name: &str, names: Vec<SanType>) -> Request {
    let usages = texts(&["digital signature", "server auth"]);
    let pem = signed(&params(format!("system:node:{name}"), names));
    Request { signer_name: SERVING.to_owned(), usages, pem, ..renewal(name) }
}

fn second(names: Vec<SanType>) -> Request {
    serving("node-2", names)
}

fn changed(mut request: Request, change: impl FnOnce(&mut Request)) -> Request {
    change(&mut request);
    request
}

/// Node 1's request with another certificate.
fn forged(change: impl FnOnce(&mut CertificateParams)) -> Request {
    let mut params = params("system:node:node-1", vec![]);
    change(&mut params);
    client(signed(&params))
}

fn verdict(request: &Request) -> Verdict {
    judge(request, &hosts(), &nodes(), Approval::Hosts)
}

#[track_caller]
fn approved(cases: impl IntoIterator<Item = (&'static str, Request)>) {
    for (what, request) in cases {
        assert_eq!(verdict(&request), Verdict::Approve, "{what}");
    }
}

#[track_caller]
fn refused(cases: impl IntoIterator<Item = (Request, &'static str)>) {
    for (request, expected) in cases {
        let Verdict::Refuse(reason) = verdict(&request) else { panic!("not refused: {expected}") };
        assert_eq!(reason.to_string(), expected);
    }
}

#[test]
fn clients_that_are_hosts_of_the_cluster_are_approved() {
    let printable = PrintableString::try_from("system:node:node-1").unwrap();
    approved([
        ("first", first()),
        ("groups in another order", changed(first(), |request| request.groups.reverse())),
        ("usages in another order", changed(first(), |request| request.usages.reverse())),
        ("key encipherment", changed(first(), |request| request.usages.insert(0, "key encipherment".to_owned()))),
        ("another case", named("system:node:NODE-1")),
        ("as Go writes it", named(DnValue::PrintableString(printable))),
        ("RSA", client(RSA.to_vec())),
        ("installed again", named("system:node:node-3")),
        ("renewal", renewal("node-2")),
        ("a condition of another kind", changed(first(), |request| request.conditions.push("Seen".to_owned()))),
    ]);
}

#[test]
fn clients_are_refused_by_requester_and_usage() {
    let groups = "expected 'system:serviceaccounts', 'system:serviceaccounts:openshift-machine-config-operator', 'system:authenticated'";
    let groups = |found: &str| -> &'static str { format!("its requester's groups are {found}, {groups}").leak() };
    let usages = |found: &str| -> &'static str {
        format!("its usages are {found}, expected 'digital signature', 'client auth' and at most 'key encipherment'")
            .leak()
    };
    let requester = |found: &str, name: &str| -> &'static str {
        format!("its requester is {found}, expected '{BOOTSTRAPPER}', 'system:node:{name}'").leak()
    };
    let with_groups = |groups: &[&str]| changed(first(), |request| request.groups = texts(groups));
    let with_usages = |usages: &[&str]| changed(first(), |request| request.usages = texts(usages));
    refused([
        (changed(first(), |request| request.username = "admin\n".to_owned()), requester(r"'admin\n'", "node-1")),
        (changed(renewal("node-2"), |r| r.pem = first().pem), requester("'system:node:node-2'", "node-1")),
        (
            changed(renewal("node-2"), |r| r.username.make_ascii_uppercase()),
            requester("'SYSTEM:NODE:NODE-2'", "node-2"),
        ),
        (with_groups(&[]), groups("none")),
        (with_groups(&["system:masters"]), groups("'system:masters'")),
        (
            with_groups(&["system:authenticated"; 3]),
            groups("'system:authenticated', 'system:authenticated', 'system:authenticated'"),
        ),
        (
            with_groups(&[BOOTSTRAPPER_GROUPS[0], BOOTSTRAPPER_GROUPS[1], AUTHENTICATED, "a"]),
            groups(
                "'system:serviceaccounts', 'system:serviceaccounts:openshift-machine-config-operator', 'system:authenticated', 'a'",
            ),
        ),
        (
            changed(renewal("node-2"), |request| request.groups.push("system:masters".to_owned())),
            "its requester's groups are 'system:nodes', 'system:authenticated', 'system:masters', expected 'system:nodes', 'system:authenticated'",
        ),
        (with_usages(&[]), usages("none")),
        (with_usages(&["client auth"]), usages("'client auth'")),
        (with_usages(&["digital signature", "server auth"]), usages("'digital signature', 'server auth'")),
        (
            with_usages(&["digital signature", "client auth", "cert sign"]),
            usages("'digital signature', 'client auth', 'cert sign'"),
        ),
        (with_usages(&["digital signature", "digital signature"]), usages("'digital signature', 'digital signature'")),
    ]);
}

#[test]
fn a_stolen_bootstrap_token_takes_over_no_running_node() {
    let ready = "a bootstrap token requests it, but node 'node-2' exists and is ready; \
                 expected no such node, or one that is not ready";
    refused([
        (named("system:node:node-2"), ready),
        (named("system:node:NODE-2"), ready),
        (named("system:node:node-2.example.com"), ready),
    ]);
}

#[test]
fn clients_are_refused_by_subject() {
    let organization =
        |found: &str| -> &'static str { format!("its organization is {found}, expected only 'system:nodes'").leak() };
    let common_name = |found: &str| -> &'static str {
        format!("its common name is {found}, expected 'system:node:' and the name of a host").leak()
    };
    let unknown = |found: &str| -> &'static str {
        format!("its common name is for {found}, which is not a host of the cluster").leak()
    };
    let dn = |change: fn(&mut DistinguishedName)| forged(|params| change(&mut params.distinguished_name));
    let rdn = |subject: RdnSequence| {
        let mut request = CertReq::from_der(&der(&params("system:node:node-1", vec![]))).unwrap();
        request.info.subject = subject;
        client(pem(&request.to_der().unwrap()))
    };
    refused([
        (dn(|name| name.push(DnType::OrganizationName, "system:masters")), organization("'system:masters'")),
        (dn(|name| name.push(DnType::OrganizationName, "System:Nodes")), organization("'System:Nodes'")),
        (
            dn(|name| name.push(DnType::CustomDnType(vec![2, 5, 4, 10]), "system:masters")),
            organization("'system:nodes', 'system:masters'"),
        ),
        (dn(|name| assert!(name.remove(DnType::OrganizationName))), organization("none")),
        (named("admin"), common_name("'admin'")),
        (named(""), common_name("''")),
        (named("system:node:"), common_name("'system:node:'")),
        (named("System:Node:node-1"), common_name("'System:Node:node-1'")),
        (named("system:node:node-7"), unknown("'node-7'")),
        (named("system:node:node-9"), unknown("'node-9'")),
        (named("system:node:node-1\0"), unknown(r"'node-1\0'")),
        (named("system:node:node-1\x1b[2J\u{202e}"), unknown(r"'node-1\u{1b}[2J\u{202e}'")),
        (named("system:node:node-1 "), unknown("'node-1 '")),
        // The sign of kelvin is a K to Unicode.
        (named("system:node:\u{212a}elvin"), unknown("'\u{212a}elvin'")),
        (renewal("node-7"), unknown("'node-7'")),
        (dn(|name| assert!(name.remove(DnType::CommonName))), "its subject has 0 common names, expected 1"),
        (
            dn(|name| name.push(DnType::CustomDnType(vec![2, 5, 4, 3]), "system:node:node-2")),
            "its subject has 2 common names, expected 1",
        ),
        (
            dn(|name| name.push(DnType::OrganizationalUnitName, "x")),
            "its subject has the attribute 2.5.4.11, expected only a common name and an organization",
        ),
        (
            rdn("O=system:nodes+CN=system:node:node-1".parse().unwrap()),
            "a part of its subject has 2 attributes, expected 1",
        ),
        (rdn(RdnSequence::default()), "its subject has 0 common names, expected 1"),
        (
            named(DnValue::BmpString(BmpString::try_from("system:node:node-1").unwrap())),
            "its subject has text of the kind BMPString, expected UTF8String or PrintableString",
        ),
        (
            named(DnValue::Ia5String(Ia5String::try_from("system:node:node-1").unwrap())),
            "its subject has text of the kind IA5String, expected UTF8String or PrintableString",
        ),
    ]);
}

#[test]
fn clients_are_refused_by_what_else_they_want() {
    let plain = params("system:node:node-1", vec![]);
    let named = params("system:node:node-1", vec![dns("node-1")]);
    let kind =
        |found: &str| -> &'static str { format!("it requests {found}, expected only DNS names and addresses").leak() };
    let name = |name| forged(|params| params.subject_alt_names = vec![name]);
    let encoded = |names: &[u8]| {
        let extension = CustomExtension::from_oid_content(&[2, 5, 29, 17], names.to_vec());
        forged(|params| params.custom_extensions = vec![extension])
    };
    let key = |algorithm| pem(plain.serialize_request(&KeyPair::generate_for(algorithm).unwrap()).unwrap().der());
    let only = "expected only alternative names";
    let extension = |found: &str| -> &'static str { format!("it requests {found}, {only}").leak() };
    let wrong_key = "its key or signature is of another kind than P-256 or RSA with SHA-256";
    refused([
        (client(signed(&named)), "it requests 1 alternative names, expected none for a client"),
        (name(ip("10.0.0.1")), "it requests 1 alternative names, expected none for a client"),
        (name(SanType::Rfc822Name("a@b".try_into().unwrap())), kind("an email address")),
        (name(SanType::URI("spiffe://a".try_into().unwrap())), kind("a URI")),
        (encoded(&[0x30, 5, 0x88, 3, 0x2a, 3, 4]), kind("a name of an unusual kind")),
        (encoded(&[0x30, 4, 0xa4, 2, 0x30, 0]), kind("a directory name")),
        (encoded(&[0x30, 7, 0x87, 5, 10, 0, 0, 1, 0]), "it requests an address of 5 bytes, expected 4 or 16"),
        (
            forged(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)),
            extension("the extension 2.5.29.19"),
        ),
        (forged(|params| params.key_usages = vec![KeyUsagePurpose::KeyCertSign]), extension("the extension 2.5.29.15")),
        (
            forged(|params| {
                params.subject_alt_names = vec![dns("node-1")];
                params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
            }),
            extension("2 extensions"),
        ),
        (
            client(with_attribute(&named, EXTENSION_REQUEST, &[0x31, 2, 0x30, 0])),
            "it has 2 attributes, expected at most one, which requests extensions",
        ),
        (
            client(with_attribute(&plain, EXTENSION_REQUEST, &[0x31, 6, 0x30, 0, 0x30, 2, 5, 0])),
            "it requests extensions 2 times, expected once",
        ),
        (
            client(with_attribute(&plain, EXTENSION_REQUEST, &[0x31, 0])),
            "it requests extensions 0 times, expected once",
        ),
        (client(with_attribute(&plain, EXTENSION_REQUEST, &[0x31, 2, 0x30, 0])), extension("0 extensions")),
        (
            client(with_attribute(&plain, &[1, 2, 840, 113_549, 1, 9, 7], &[0x31, 3, 12, 1, b'x'])),
            "it has the attribute 1.2.840.113549.1.9.7, expected only one that requests extensions",
        ),
        (client(key(&PKCS_ED25519)), wrong_key),
        (client(key(&PKCS_ECDSA_P384_SHA384)), wrong_key),
    ]);
}

#[test]
fn servers_with_their_own_names_and_addresses_are_approved() {
    approved([
        (
            "all at once",
            second(vec![
                dns("node-2"),
                dns("node-2.example.com"),
                dns("two.example.org"),
                ip("10.0.0.2"),
                ip("fd00::2"),
            ]),
        ),
        ("another case", second(vec![dns("NODE-2.example.COM")])),
        ("IPv4 as IPv6", second(vec![ip("::ffff:10.0.0.2")])),
        ("an address of API or ingress", second(vec![ip("10.0.0.100")])),
        ("an external address", second(vec![ip("192.0.2.2")])),
        ("more groups", changed(second(vec![dns("node-2")]), |request| request.groups.push("a".to_owned()))),
        (
            "key encipherment",
            changed(second(vec![dns("node-2")]), |request| request.usages.push("key encipherment".to_owned())),
        ),
        ("an inventory without addresses", serving("node-4", vec![ip("10.0.0.4")])),
        ("not ready", serving("node-3", vec![dns("node-3"), ip("10.0.0.3")])),
    ]);
}

#[test]
fn servers_are_refused_what_is_not_theirs() {
    let own = || second(vec![dns("node-2")]);
    refused([
        (second(vec![]), "it requests no alternative name, expected at least one for a server"),
        (
            second(vec![dns("node-2"), dns("api.example.com")]),
            "it requests the name 'api.example.com', which is not one of node 'node-2'",
        ),
        (second(vec![dns("*.example.com")]), "it requests the name '*.example.com', which is not a host name"),
        (second(vec![dns("")]), "it requests the name '', which is not a host name"),
        (second(vec![dns("node-2\0")]), r"it requests the name 'node-2\0', which is not a host name"),
        (
            second(vec![dns("node-1")]),
            "it requests the name 'node-1' for node 'node-2', but another host has that name",
        ),
        (
            second(vec![dns("node-9")]),
            "it requests the name 'node-9' for node 'node-2', but another host has that name",
        ),
        (second(vec![dns("10.0.0.2")]), "it requests the name '10.0.0.2', which is not one of node 'node-2'"),
        (second(vec![ip("10.0.0.50")]), "it requests the address 10.0.0.50, which is not one of node 'node-2'"),
        (second(vec![ip("10.0.0.66")]), "it requests the address 10.0.0.66, which is not one of node 'node-2'"),
        (
            second(vec![ip("10.0.0.2"), ip("10.0.0.77")]),
            "it requests the address 10.0.0.77 for node 'node-2', which the inventory of its host does not have",
        ),
        (
            second(vec![ip("10.0.0.3")]),
            "it requests the address 10.0.0.3 for node 'node-2', but another host has that address",
        ),
        (
            second(vec![ip("10.0.0.1")]),
            "it requests the address 10.0.0.1 for node 'node-2', but another host has that address",
        ),
        (
            serving("node-4", vec![ip("10.0.0.1")]),
            "it requests the address 10.0.0.1 for node 'node-4', but another host has that address",
        ),
        (serving("node-1", vec![dns("node-1")]), "node 'node-1' does not exist"),
        (serving("NODE-2", vec![dns("node-2")]), "node 'NODE-2' does not exist"),
        (serving("node-9", vec![dns("node-9")]), "its common name is for 'node-9', which is not a host of the cluster"),
        (
            changed(own(), |r| r.username = "system:node:node-1".to_owned()),
            "its requester is 'system:node:node-1', expected 'system:node:node-2'",
        ),
        (
            changed(own(), |r| r.username = BOOTSTRAPPER.to_owned()),
            "its requester is 'system:serviceaccount:openshift-machine-config-operator:node-bootstrapper', expected 'system:node:node-2'",
        ),
        (
            changed(own(), |request| request.groups = texts(&["system:authenticated", "system:masters"])),
            "its requester's groups are 'system:authenticated', 'system:masters', expected 'system:nodes', 'system:authenticated'",
        ),
        (
            changed(own(), |request| request.usages = texts(&["digital signature", "client auth"])),
            "its usages are 'digital signature', 'client auth', expected 'digital signature', 'server auth' and at most 'key encipherment'",
        ),
    ]);
    let mut masters = params("system:node:node-2", vec![dns("node-2")]);
    masters.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 10]), "system:masters");
    let masters = changed(own(), |request| request.pem = signed(&masters));
    refused([(masters, "its organization is 'system:nodes', 'system:masters', expected only 'system:nodes'")]);
}

#[test]
fn conditions_and_signers_count_in_both_modes() {
    let with = |condition: &str| changed(first(), |request| request.conditions.push(condition.to_owned()));
    let other = changed(first(), |request| request.signer_name = "kubernetes.io/kube-apiserver-client".to_owned());
    for (request, any, only_hosts) in [
        (first(), Verdict::Approve, Verdict::Approve),
        (with("Approved"), Verdict::Ignore, Verdict::Ignore),
        (other, Verdict::Ignore, Verdict::Ignore),
        (with("Denied"), Verdict::Ignore, Verdict::Refuse(Reason::Closed(Seen::text("Denied")))),
        (with("Failed"), Verdict::Approve, Verdict::Refuse(Reason::Closed(Seen::text("Failed")))),
        (client(vec![]), Verdict::Approve, Verdict::Refuse(Reason::Malformed(Malformed::Preamble))),
    ] {
        assert_eq!(judge(&request, &hosts(), &nodes(), Approval::Any), any, "{request:?}");
        assert_eq!(verdict(&request), only_hosts, "{request:?}");
    }
    refused([(with("Denied"), "it has the condition 'Denied', expected none")]);
}

#[test]
fn nodes_stand_for_hosts_that_are_not_known() {
    let hosts = Hosts { unknown: true, ..Hosts::default() };
    let verdict = |request: &Request| judge(request, &hosts, &nodes(), Approval::Hosts);
    for (what, request) in [
        ("first", first()),
        ("installed again", named("system:node:node-3")),
        ("renewal", renewal("node-2")),
        ("name and address", serving("node-9", vec![dns("node-9"), ip("10.0.0.9")])),
        ("one that no other node has", second(vec![dns("two.example.org"), ip("10.0.0.77"), ip("192.0.2.2")])),
    ] {
        assert_eq!(verdict(&request), Verdict::Approve, "{what}");
    }
    for (request, expected) in [
        (
            named("system:node:node-9"),
            "a bootstrap token requests it, but node 'node-9' exists and is ready; expected no such node, or one that is not ready",
        ),
        (named("system:node:NODE-1"), "its common name is for 'NODE-1', which is not a host of the cluster"),
        (named("system:node:*"), "its common name is for '*', which is not a host of the cluster"),
        (
            serving("node-4", vec![ip("10.0.0.1")]),
            "it requests the address 10.0.0.1 for node 'node-4', but another host has that address",
        ),
        (
            second(vec![dns("node-9")]),
            "it requests the name 'node-9' for node 'node-2', but another host has that name",
        ),
        (serving("node-1", vec![dns("node-1")]), "node 'node-1' does not exist"),
        (
            forged(|params| params.subject_alt_names = vec![dns("node-1")]),
            "it requests 1 alternative names, expected none for a client",
        ),
    ] {
        let Verdict::Refuse(reason) = verdict(&request) else { panic!("not refused: {expected}") };
        assert_eq!(reason.to_string(), expected);
    }
}
