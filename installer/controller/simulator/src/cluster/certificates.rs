//! The requests for certificates that kubelets make.

use super::Cluster;
use crate::{Client, ClientError, authority::pem, await_some};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use serde_json::{Value, json};

/// Who makes the first request of a node.
pub const NODE_BOOTSTRAPPER: &str = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper";
/// Its groups, but for that of all who logged in, which the API server adds.
pub const NODE_BOOTSTRAPPER_GROUPS: [&str; 2] =
    ["system:serviceaccounts", "system:serviceaccounts:openshift-machine-config-operator"];

/// Where they are.
pub const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// A request, made to order: as kubelets make it by [`CertificateRequest::client`] and [`CertificateRequest::serving`], or with a member
/// that is not as it should be.
#[derive(Clone, Debug)]
pub struct CertificateRequest {
    pub common_name: String,
    pub organizations: Vec<String>,
    pub names: Vec<String>,
    pub addresses: Vec<String>,
    pub signer: String,
    pub usages: Vec<String>,
    /// The user that makes the request.
    pub requester: String,
    pub groups: Vec<String>,
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

impl CertificateRequest {
    /// The first request of a node.
    pub fn client(node: &str) -> Self {
        Self {
            common_name: format!("system:node:{node}"),
            organizations: owned(&["system:nodes"]),
            names: Vec::new(),
            addresses: Vec::new(),
            signer: "kubernetes.io/kube-apiserver-client-kubelet".to_owned(),
            usages: owned(&["digital signature", "client auth"]),
            requester: NODE_BOOTSTRAPPER.to_owned(),
            groups: owned(&NODE_BOOTSTRAPPER_GROUPS),
        }
    }

    /// The second request of a node, which it makes when it has its first certificate.
    pub fn serving(node: &str, addresses: &[&str]) -> Self {
        Self {
            names: owned(&[node]),
            addresses: owned(addresses),
            signer: "kubernetes.io/kubelet-serving".to_owned(),
            usages: owned(&["digital signature", "server auth"]),
            requester: format!("system:node:{node}"),
            groups: owned(&["system:nodes"]),
            ..Self::client(node)
        }
    }

    /// PKCS#10 in PEM, for a new key.
    pub fn pem(&self) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        // One of a kind is all that rcgen can write.
        assert!(self.organizations.len() < 2, "{:?}", self.organizations);
        for organization in &self.organizations {
            params.distinguished_name.push(DnType::OrganizationName, organization.as_str());
        }
        params.distinguished_name.push(DnType::CommonName, self.common_name.as_str());
        let names = self.names.iter().map(|name| SanType::DnsName(name.as_str().try_into().unwrap()));
        let addresses = self.addresses.iter().map(|address| SanType::IpAddress(address.parse().unwrap()));
        params.subject_alt_names = names.chain(addresses).collect();
        let request = params.serialize_request(&KeyPair::generate().unwrap()).unwrap();
        pem("CERTIFICATE REQUEST", request.der())
    }

    /// Makes the object of the request as its requester, with this PKCS#10, and gives its name.
    pub fn make(&self, client: &Client, pem: &str) -> Result<String, ClientError> {
        let object = json!({
            "metadata": { "generateName": "csr-" },
            "spec": { "request": STANDARD.encode(pem), "signerName": self.signer, "usages": self.usages },
        });
        let groups: Vec<_> = self.groups.iter().map(String::as_str).collect();
        let stored = client.acting_as(&self.requester, &groups).create(REQUESTS, &object)?;
        Ok(stored["metadata"]["name"].as_str().unwrap_or_default().to_owned())
    }
}

impl Cluster {
    /// Makes the object of a request as its requester, and gives its name.
    pub fn certificate_request(&self, request: &CertificateRequest) -> String {
        self.certificate_request_of(request, &request.pem())
    }

    /// The same with another text in place of the PKCS#10.
    pub fn certificate_request_of(&self, request: &CertificateRequest, pem: &str) -> String {
        request.make(&self.client, pem).unwrap()
    }

    /// What the kubelet of a new node does: asks for its client certificate, waits for the approval, and asks for its server's. Gives the
    /// names of both requests.
    pub fn node_requests_certificates(&self, node: &str, addresses: &[&str]) -> (String, String) {
        let client = self.certificate_request(&CertificateRequest::client(node));
        self.await_approval(&client);
        (client, self.certificate_request(&CertificateRequest::serving(node, addresses)))
    }

    /// Waits until a request is approved.
    pub fn await_approval(&self, name: &str) {
        await_some(&format!("approval of {name}"), || self.is_approved(name).then_some(()));
    }

    /// Whether a request is approved.
    pub fn is_approved(&self, name: &str) -> bool {
        is_approved(&self.read_certificate_request(name))
    }

    /// A request as it is now.
    pub fn read_certificate_request(&self, name: &str) -> Value {
        self.client.get(&format!("{REQUESTS}/{name}")).unwrap()
    }

    /// As [`judge`], by its name.
    pub fn judge_certificate_request(&self, name: &str, kind: &str) {
        judge(&self.client, self.read_certificate_request(name), kind).unwrap();
    }
}

/// Whether this request is approved.
pub fn is_approved(request: &Value) -> bool {
    let conditions = request["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Approved" && condition["status"] == "True")
}

/// What an administrator does in place of a controller that approves; or denies, as `kind` says.
pub fn judge(client: &Client, mut request: Value, kind: &str) -> Result<(), ClientError> {
    request["status"]["conditions"] =
        json!([{ "type": kind, "status": "True", "reason": "ByHand", "message": "judged by a test" }]);
    let name = request["metadata"]["name"].as_str().unwrap_or_default();
    client.replace(&format!("{REQUESTS}/{name}/approval"), &request).map(drop)
}
