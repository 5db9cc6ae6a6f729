//! The operations of the service that the client uses, each declared once. Requests are built from these declarations, and a test
//! compares them with the published description.

use crate::media::Media;
use std::fmt::{Display, Write};
use ureq::http::Method;

/// One operation of the service.
#[derive(Debug)]
pub struct Endpoint {
    /// `operationId` of the description.
    pub operation: &'static str,
    /// Request method.
    pub method: Method,
    /// Path below [`crate::API_PATH`], with `{names}` for parameters; of an endpoint that is Landfall's own, the whole path.
    pub path: &'static str,
    /// Names of the query parameters that the client may send.
    pub query: &'static [&'static str],
    /// The body of a request.
    pub consumes: Option<Media>,
    /// The kind of answer.
    pub produces: Produces,
    /// Status of success.
    pub success: u16,
    /// A larger answer is refused.
    pub size: AnswerSize,
}

/// The kind of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Produces {
    Nothing,
    Json,
    File,
}

impl Produces {
    /// The `Accept` header: refusals of an operation without an answer are documents.
    pub const fn media(self) -> Media {
        match self {
            Self::Nothing | Self::Json => Media::Json,
            Self::File => Media::OctetStream,
        }
    }
}

/// Limits of answers that are read completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerSize {
    /// Instructions for an agent: a thousand hosts' addresses to probe have a megabyte.
    Message,
    /// A cluster with 1000 full inventories is below this.
    Document,
    /// Bootstrap configs of large clusters are tens of megabytes.
    File,
}

impl AnswerSize {
    pub const fn max_bytes(self) -> u64 {
        match self {
            Self::Message => 8 << 20,
            Self::Document | Self::File => 256 << 20,
        }
    }
}

impl Endpoint {
    /// The endpoint with `values` for the parameters of its path, in their order.
    pub fn at(&'static self, values: &[&dyn Display]) -> Target {
        debug_assert_eq!(self.path.matches('{').count(), values.len(), "{}", self.operation);
        let mut values = values.iter();
        let mut path = String::with_capacity(self.path.len() + 64);
        for part in self.path.split('/').skip(1) {
            path.push('/');
            match values.as_slice() {
                [value, ..] if part.starts_with('{') => {
                    values.next();
                    escape(&value.to_string(), &mut path);
                }
                _ => path.push_str(part),
            }
        }
        Target { endpoint: self, path, has_query: false }
    }
}

/// An endpoint with its parameters: the target of a request.
#[derive(Clone, Debug)]
pub struct Target {
    endpoint: &'static Endpoint,
    path: String,
    has_query: bool,
}

impl Target {
    /// The same with a query parameter.
    pub fn with(mut self, name: &str, value: impl Display) -> Self {
        debug_assert!(self.endpoint.query.contains(&name), "{} has no parameter {name}", self.endpoint.operation);
        self.path.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        escape(name, &mut self.path);
        self.path.push('=');
        escape(&value.to_string(), &mut self.path);
        self
    }

    pub fn endpoint(&self) -> &'static Endpoint {
        self.endpoint
    }

    /// Path and query, as [`Endpoint::path`] has it.
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// Percent-encodes what is not allowed in a path's segment or a query's value. Commas, which join lists, stay.
fn escape(text: &str, to: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~,".contains(&byte) {
            to.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(to, "%{byte:02X}");
        }
    }
}

macro_rules! endpoints {
    ($all:ident: $($name:ident = $operation:literal $method:ident $path:literal [$($query:literal)*] $consumes:expr => $success:literal $produces:ident $size:ident;)*) => {
        $(
            #[doc = concat!("`", $operation, "`.")]
            pub static $name: Endpoint = Endpoint {
                operation: $operation,
                method: Method::$method,
                path: $path,
                query: &[$($query),*],
                consumes: $consumes,
                produces: Produces::$produces,
                success: $success,
                size: AnswerSize::$size,
            };
        )*
        pub static $all: &[&Endpoint] = &[$(&$name),*];
    };
}

const JSON: Option<Media> = Some(Media::Json);
const FORM: Option<Media> = Some(Media::Multipart);
const NONE: Option<Media> = None;

endpoints! {
    ALL:
    REGISTER_CLUSTER = "v2RegisterCluster" POST "/v2/clusters" [] JSON => 201 Json Document;
    IMPORT_CLUSTER = "v2ImportCluster" POST "/v2/clusters/import" [] JSON => 201 Json Document;
    LIST_CLUSTERS = "v2ListClusters" GET "/v2/clusters" [] NONE => 200 Json Document;
    GET_CLUSTER = "v2GetCluster" GET "/v2/clusters/{cluster_id}" ["exclude-hosts"] NONE => 200 Json Document;
    UPDATE_CLUSTER = "V2UpdateCluster" PATCH "/v2/clusters/{cluster_id}" [] JSON => 201 Json Document;
    DEREGISTER_CLUSTER = "v2DeregisterCluster" DELETE "/v2/clusters/{cluster_id}" [] NONE => 204 Nothing Message;
    LIST_CLUSTER_HOSTS = "ListClusterHosts" GET "/v2/clusters/{cluster_id}/hosts" ["role"] NONE => 200 Json Document;
    INSTALL_CLUSTER = "v2InstallCluster" POST "/v2/clusters/{cluster_id}/actions/install" [] NONE => 202 Json Document;
    CANCEL_INSTALLATION = "V2CancelInstallation" POST "/v2/clusters/{cluster_id}/actions/cancel" [] NONE => 202 Json Document;
    RESET_CLUSTER = "v2ResetCluster" POST "/v2/clusters/{cluster_id}/actions/reset" [] NONE => 202 Json Document;
    GET_CREDENTIALS = "V2GetCredentials" GET "/v2/clusters/{cluster_id}/credentials" [] NONE => 200 Json Document;
    DOWNLOAD_CLUSTER_CREDENTIALS = "V2DownloadClusterCredentials" GET "/v2/clusters/{cluster_id}/downloads/credentials" ["file_name"] NONE => 200 File File;
    DOWNLOAD_CLUSTER_FILES = "V2DownloadClusterFiles" GET "/v2/clusters/{cluster_id}/downloads/files" ["file_name"] NONE => 200 File File;
    DOWNLOAD_CLUSTER_LOGS = "V2DownloadClusterLogs" GET "/v2/clusters/{cluster_id}/logs" ["logs_type" "host_id"] NONE => 200 File File;
    UPLOAD_LOGS = "V2UploadLogs" POST "/v2/clusters/{cluster_id}/logs" ["host_id" "infra_env_id" "logs_type"] FORM => 204 Nothing Message;
    UPDATE_CLUSTER_LOGS_PROGRESS = "v2UpdateClusterLogsProgress" PUT "/v2/clusters/{cluster_id}/logs-progress" [] JSON => 204 Nothing Message;
    UPDATE_CLUSTER_PROGRESS = "v2UpdateClusterFinalizingProgress" PUT "/v2/clusters/{cluster_id}/progress" [] JSON => 200 Nothing Message;
    UPLOAD_CLUSTER_INGRESS_CERT = "v2UploadClusterIngressCert" POST "/v2/clusters/{cluster_id}/uploads/ingress-cert" [] JSON => 201 Nothing Message;
    COMPLETE_INSTALLATION = "v2CompleteInstallation" POST "/v2/clusters/{cluster_id}/actions/complete-installation" [] JSON => 202 Json Document;
    LIST_MONITORED_OPERATORS = "V2ListOfClusterOperators" GET "/v2/clusters/{cluster_id}/monitored-operators" [] NONE => 200 Json Document;
    REPORT_MONITORED_OPERATOR = "v2ReportMonitoredOperatorStatus" PUT "/v2/clusters/{cluster_id}/monitored-operators" [] JSON => 200 Nothing Message;
    UPDATE_INSTALL_CONFIG = "v2UpdateClusterInstallConfig" PATCH "/v2/clusters/{cluster_id}/install-config" [] JSON => 201 Nothing Message;
    LIST_MANIFESTS = "V2ListClusterManifests" GET "/v2/clusters/{cluster_id}/manifests" [] NONE => 200 Json Document;
    CREATE_MANIFEST = "V2CreateClusterManifest" POST "/v2/clusters/{cluster_id}/manifests" [] JSON => 201 Json Document;
    DOWNLOAD_MANIFEST = "v2DownloadClusterManifest" GET "/v2/clusters/{cluster_id}/manifests/files" ["file_name" "folder"] NONE => 200 File File;
    REGISTER_INFRA_ENV = "RegisterInfraEnv" POST "/v2/infra-envs" [] JSON => 201 Json Document;
    LIST_INFRA_ENVS = "ListInfraEnvs" GET "/v2/infra-envs" [] NONE => 200 Json Document;
    GET_INFRA_ENV = "GetInfraEnv" GET "/v2/infra-envs/{infra_env_id}" [] NONE => 200 Json Document;
    UPDATE_INFRA_ENV = "UpdateInfraEnv" PATCH "/v2/infra-envs/{infra_env_id}" [] JSON => 201 Json Document;
    DEREGISTER_INFRA_ENV = "DeregisterInfraEnv" DELETE "/v2/infra-envs/{infra_env_id}" [] NONE => 204 Nothing Message;
    GET_IMAGE_URL = "GetInfraEnvDownloadURL" GET "/v2/infra-envs/{infra_env_id}/downloads/image-url" [] NONE => 200 Json Document;
    GET_FILE_URL = "GetInfraEnvPresignedFileURL" GET "/v2/infra-envs/{infra_env_id}/downloads/files-presigned" ["file_name" "ipxe_script_type"] NONE => 200 Json Document;
    DOWNLOAD_INFRA_ENV_FILES = "v2DownloadInfraEnvFiles" GET "/v2/infra-envs/{infra_env_id}/downloads/files" ["file_name"] NONE => 200 File File;
    REGISTER_HOST = "v2RegisterHost" POST "/v2/infra-envs/{infra_env_id}/hosts" [] JSON => 201 Json Message;
    LIST_HOSTS = "v2ListHosts" GET "/v2/infra-envs/{infra_env_id}/hosts" [] NONE => 200 Json Document;
    UPDATE_HOST = "v2UpdateHost" PATCH "/v2/infra-envs/{infra_env_id}/hosts/{host_id}" [] JSON => 201 Json Document;
    DEREGISTER_HOST = "v2DeregisterHost" DELETE "/v2/infra-envs/{infra_env_id}/hosts/{host_id}" [] NONE => 204 Nothing Message;
    GET_NEXT_STEPS = "v2GetNextSteps" GET "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/instructions" ["timestamp"] NONE => 200 Json Message;
    POST_STEP_REPLY = "v2PostStepReply" POST "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/instructions" [] JSON => 204 Nothing Message;
    UPDATE_HOST_PROGRESS = "v2UpdateHostInstallProgress" PUT "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/progress" [] JSON => 200 Nothing Message;
    UPDATE_HOST_LOGS_PROGRESS = "v2UpdateHostLogsProgress" PUT "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/logs-progress" [] JSON => 204 Nothing Message;
    BIND_HOST = "BindHost" POST "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/actions/bind" [] JSON => 200 Json Document;
    UNBIND_HOST = "UnbindHost" POST "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/actions/unbind" [] NONE => 200 Json Document;
    INSTALL_HOST = "v2InstallHost" POST "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/actions/install" [] NONE => 202 Json Document;
    UPDATE_HOST_IGNITION = "v2UpdateHostIgnition" PATCH "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/ignition" [] JSON => 201 Nothing Message;
    UPDATE_INSTALLER_ARGS = "v2UpdateHostInstallerArgs" PATCH "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/installer-args" [] JSON => 201 Json Document;
    DOWNLOAD_HOST_IGNITION = "v2DownloadHostIgnition" GET "/v2/infra-env/{infra_env_id}/hosts/{host_id}/downloads/ignition" [] NONE => 200 File File;
    TRIGGER_EVENT = "v2TriggerEvent" POST "/v2/events" [] JSON => 201 Nothing Message;
    LIST_EVENTS = "v2ListEvents" GET "/v2/events" ["cluster_id" "host_id" "infra_env_id" "limit" "order" "severities"] NONE => 200 Json Document;
}

// Those of `landfall serve` that the published API does not have.
endpoints! {
    OWN:
    RECORD_GOOD_BOOT = "RecordGoodBoot" POST "/landfall/hosts/{infra_env_id}/{host_id}/good-boot" [] NONE => 200 Json Document;
    CLEAR_GOOD_BOOTS = "ClearGoodBoots" DELETE "/landfall/hosts/{infra_env_id}/{host_id}/good-boot" [] NONE => 204 Nothing Message;
    GET_CLUSTER_DIGESTS = "GetClusterDigests" GET "/landfall/clusters/{cluster_id}/digests" [] NONE => 200 Json Document;
    GET_INFRA_ENV_DIGESTS = "GetInfraEnvDigests" GET "/landfall/infra-envs/{infra_env_id}/digests" [] NONE => 200 Json Document;
    GET_PLAN = "GetPlan" GET "/landfall/infra-envs/{infra_env_id}/plan" [] NONE => 200 Json Document;
    SET_PLAN = "SetPlan" PUT "/landfall/infra-envs/{infra_env_id}/plan" [] JSON => 200 Json Document;
    LIST_CERTIFICATIONS = "ListCertifications" GET "/landfall/certify/runs" [] NONE => 200 Json Document;
    CREATE_CERTIFICATION = "CreateCertification" POST "/landfall/certify/runs" ["infra_env_id"] JSON => 201 Json Document;
    GET_CERTIFICATION = "GetCertification" GET "/landfall/certify/runs/{run}" [] NONE => 200 Json Document;
    CANCEL_CERTIFICATION = "CancelCertification" POST "/landfall/certify/runs/{run}/actions/cancel" [] NONE => 200 Json Document;
    GET_CERTIFICATION_FILE = "GetCertificationFile" GET "/landfall/certify/runs/{run}/files/{serial}/{file}" [] NONE => 200 File File;
    GET_MACHINE_HISTORY = "GetMachineHistory" GET "/landfall/certify/serials/{serial}" [] NONE => 200 Json Document;
}

/// What stands before the path of an endpoint.
pub(crate) fn base(endpoint: &Endpoint) -> &'static str {
    if endpoint.path.starts_with("/landfall/") { "" } else { crate::API_PATH }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_filled_in_and_escaped() {
        let target = DOWNLOAD_HOST_IGNITION.at(&[&"a", &"b/c?"]);
        assert_eq!(target.path(), "/v2/infra-env/a/hosts/b%2Fc%3F/downloads/ignition");
        let target = LIST_EVENTS.at(&[]).with("severities", "info,error").with("host_id", "a&b= c");
        assert_eq!(target.path(), "/v2/events?severities=info,error&host_id=a%26b%3D%20c");
    }
}
