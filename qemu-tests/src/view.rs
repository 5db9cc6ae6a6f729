//! What the service's record of a host says, as a row for people.

use api::{ConnectivityReport, Host, HostStage, Inventory, Mac};
use service_stub::control::culprit::{self, Urgency};

/// One host at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostView {
    /// Requested or reported name.
    pub name: String,
    /// First interface's address.
    pub mac: String,
    /// First IPv4 address, without prefix.
    pub address: String,
    pub state: String,
    /// Why it is not further.
    pub reason: String,
    pub urgency: Urgency,
    /// Stage of an installation.
    pub stage: Option<HostStage>,
    /// Detail of the stage: a percentage while the image is written.
    pub detail: String,
    /// The whole installation, percent.
    pub percent: u64,
    /// Peers that answered an echo on one of their addresses.
    pub reachable: usize,
    pub peers: usize,
}

impl HostView {
    /// The row of `host`, one of `hosts` in its cluster.
    pub fn new(host: &Host, hosts: usize) -> Self {
        let inventory = inventory(host).unwrap_or_default();
        let nic = inventory.interfaces.first();
        let connectivity: ConnectivityReport = serde_json::from_str(&host.connectivity).unwrap_or_default();
        let answers =
            |peer: &&api::ConnectivityRemoteHost| peer.l3_connectivity.iter().flatten().any(|l3| l3.successful);
        let progress = host.progress.clone().unwrap_or_default();
        let record = serde_json::to_value(host).unwrap_or_default();
        let first = |names: [&str; 3]| names.into_iter().find(|name| !name.is_empty()).unwrap_or_default().to_owned();
        Self {
            name: first([&host.requested_hostname, &inventory.hostname, &host.id.to_string()]),
            mac: nic.map(|nic| nic.mac_address.clone()).unwrap_or_default(),
            address: nic
                .and_then(|nic| Some(nic.ipv4_addresses.first()?.split('/').next()?.to_owned()))
                .unwrap_or_default(),
            state: host.status.clone(),
            reason: culprit::reason(&record),
            urgency: culprit::urgency(&record),
            stage: progress.current_stage,
            detail: progress.progress_info,
            percent: progress.installation_percentage,
            reachable: connectivity.remote_hosts.iter().filter(answers).count(),
            peers: hosts.saturating_sub(1),
        }
    }

    /// How much of the image is on the disk, percent; none outside of that stage.
    pub fn written(&self) -> Option<u64> {
        let writing = self.stage == Some(HostStage::WritingImageToDisk);
        self.detail.trim().trim_end_matches('%').parse().ok().filter(|_| writing)
    }

    /// The stage with its detail, or nothing before an installation.
    pub fn stage_text(&self) -> String {
        match (self.stage, self.written()) {
            (Some(stage), Some(percent)) => format!("{} {percent}%", stage.as_str()),
            (Some(stage), None) => stage.as_str().to_owned(),
            (None, _) => String::new(),
        }
    }

    /// `2/2`, or nothing for a host alone.
    pub fn links_text(&self) -> String {
        if self.peers == 0 { "-".to_owned() } else { format!("{}/{}", self.reachable, self.peers) }
    }
}

/// The host's inventory, once there is one.
pub fn inventory(host: &Host) -> Option<Inventory> {
    serde_json::from_str(&host.inventory).ok()
}

/// Whether `mac` is one of the host's.
pub fn has_mac(host: &Host, mac: Mac) -> bool {
    let interfaces = inventory(host).map(|inventory| inventory.interfaces).unwrap_or_default();
    interfaces.iter().any(|nic| nic.mac_address.parse().is_ok_and(|parsed: Mac| parsed == mac))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn host() -> Host {
        let inventory = json!({"hostname": "52-54-00-00-00-01", "interfaces": [
            {"mac_address": "52:54:00:00:00:01", "ipv4_addresses": ["10.0.2.15/24"], "ipv6_addresses": [], "flags": []}]});
        let l3 = |ok| json!([{"remote_ip_address": "10.0.2.16", "successful": ok}]);
        let connectivity = json!({"remote_hosts": [
            {"host_id": "00000000-0000-0000-0000-000000000001", "l3_connectivity": l3(true), "l2_connectivity": null},
            {"host_id": "00000000-0000-0000-0000-000000000002", "l3_connectivity": l3(false), "l2_connectivity": null},
            {"host_id": "00000000-0000-0000-0000-000000000003", "l3_connectivity": null, "l2_connectivity": null}]});
        Host { inventory: inventory.to_string(), connectivity: connectivity.to_string(), ..Host::default() }
    }

    #[test]
    fn a_row_tells_name_address_and_links() {
        let mut host = host();
        let view = HostView::new(&host, 4);
        assert_eq!((view.name.as_str(), view.address.as_str()), ("52-54-00-00-00-01", "10.0.2.15"));
        assert_eq!((view.links_text(), view.stage_text()), ("1/3".to_owned(), String::new()));
        assert!(has_mac(&host, "52:54:00:00:00:01".parse().unwrap()) && !has_mac(&host, Mac([0; 6])));
        host.requested_hostname = "node-0".into();
        assert_eq!(HostView::new(&host, 1).name, "node-0");
        assert_eq!(HostView::new(&host, 1).links_text(), "-");
    }

    #[test]
    fn a_row_tells_why_a_host_is_not_ready() {
        let checks = json!({"network": [{"id": "ntp-synced", "status": "failure", "message": "No time"}]});
        let unfit = Host { status: "insufficient".into(), validations_info: checks.to_string(), ..host() };
        let view = HostView::new(&unfit, 3);
        assert_eq!((view.reason.as_str(), view.urgency), ("No time", Urgency::Unfit));
    }

    #[test]
    fn percentages_count_only_while_writing() {
        let at = |stage, info: &str| {
            let progress =
                api::HostProgressInfo { current_stage: Some(stage), progress_info: info.into(), ..Default::default() };
            HostView::new(&Host { progress: Some(progress), ..host() }, 3)
        };
        assert_eq!(at(HostStage::WritingImageToDisk, "55%").written(), Some(55));
        assert_eq!(at(HostStage::WritingImageToDisk, "55%").stage_text(), "Writing image to disk 55%");
        assert_eq!(at(HostStage::WritingImageToDisk, "").written(), None);
        assert_eq!(at(HostStage::Installing, "55").written(), None);
        assert_eq!(at(HostStage::Installing, "master").stage_text(), "Installing");
    }

    #[test]
    fn documents_that_are_not_json_leave_the_row_empty() {
        let host =
            Host { inventory: "{".into(), connectivity: "x".into(), status: "discovering".into(), ..Host::default() };
        let view = HostView::new(&host, 2);
        assert_eq!(
            (view.address.as_str(), view.links_text().as_str(), view.state.as_str()),
            ("", "0/1", "discovering")
        );
    }
}
