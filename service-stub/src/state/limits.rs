//! How long things may take (service contract §2.7), seconds.

use api::HostStage;

/// A host not heard of for so long counts as disconnected.
pub const DISCONNECTED_AFTER: i64 = 3 * 60;
/// An installation must show its first stage in this time.
pub const START: i64 = 20 * 60;
/// A host that waits for a person does so for this long.
pub const PENDING_USER_ACTION: i64 = 60 * 60;
/// A cluster that waits for a person does so for this long.
pub const CLUSTER_PENDING_USER_ACTION: i64 = 24 * 60 * 60;

/// How long a host may stay in a stage without any progress.
pub fn stage(stage: HostStage, single_node: bool) -> i64 {
    const MINUTE: i64 = 60;
    match stage {
        HostStage::StartingInstallation | HostStage::WritingImageToDisk => 30 * MINUTE,
        HostStage::CopyingRegistryDataToDisk => 90 * MINUTE,
        HostStage::Rebooting if single_node => 80 * MINUTE,
        HostStage::Rebooting => 40 * MINUTE,
        HostStage::WaitingForIgnition => 24 * 60 * MINUTE,
        _ => 60 * MINUTE,
    }
}

/// Seconds as Go prints a duration: `30m0s`, `1h20m0s`.
pub fn go_duration(seconds: i64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_like_go() {
        assert_eq!(go_duration(1800), "30m0s");
        assert_eq!(go_duration(stage(HostStage::Rebooting, true)), "1h20m0s");
        assert_eq!(go_duration(59), "59s");
    }
}
