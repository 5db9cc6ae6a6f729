//! Plans for people: a line for each action.

use super::{Action, Image, ImageWrite, Plan, RootDeploy};
use diskwrite::{Changes, Source};
use std::{fmt, path::Path};

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => Source::Url(url.clone()).fmt(f),
            Self::File(path) => path.display().fmt(f),
            Self::Live => f.write_str("the live system's image"),
        }
    }
}

impl fmt::Display for ImageWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DESTROY the contents of {}", self.device.display())?;
        let labels = self.changes.save_partlabels.iter().map(|label| format!("named '{label}'"));
        let preserved: Vec<_> =
            labels.chain(self.changes.save_partindexes.iter().map(|index| format!("number {index}"))).collect();
        if !preserved.is_empty() {
            write!(f, " except partitions {}", preserved.join(" or "))?;
        }
        write!(f, ": write {}", self.image)?;
        let Changes { append_kargs, delete_kargs, network_dir, .. } = &self.changes;
        changes(f, append_kargs, delete_kargs, network_dir.as_deref())
    }
}

impl fmt::Display for RootDeploy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deploy {} to the running system's root", self.image)?;
        changes(f, &self.append_kargs, &self.delete_kargs, self.network_dir.as_deref())
    }
}

fn changes(
    f: &mut fmt::Formatter<'_>,
    append: &[String],
    delete: &[String],
    network_dir: Option<&Path>,
) -> fmt::Result {
    append.iter().try_for_each(|karg| write!(f, ", add '{karg}'"))?;
    delete.iter().try_for_each(|karg| write!(f, ", remove '{karg}'"))?;
    network_dir.map_or(Ok(()), |dir| write!(f, ", copy {}", dir.display()))
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClearBootSector { device } => write!(f, "zero the first sector of {}", device.display()),
            Self::Report { stage, info } if info.is_empty() => write!(f, "report '{stage}'"),
            Self::Report { stage, info } => write!(f, "report '{stage}', {info}"),
            Self::CleanDisk { device } => {
                write!(f, "take down the devices on {} and wipe its signatures", device.display())
            }
            Self::StartBootstrap { cluster_id, single_node } => {
                let alone = if *single_node { ", for this node alone" } else { "" };
                write!(f, "apply the bootstrap config of cluster {cluster_id} to the live system and start it{alone}")
            }
            Self::WatchConfiguring { .. } => {
                f.write_str("from now on report other hosts that fetch their config from this one")
            }
            Self::WaitForBootkube => f.write_str("wait for /opt/openshift/.bootkube.done"),
            Self::FetchIgnition { host_id, .. } => write!(f, "get the Ignition config of host {host_id}"),
            Self::MergeIgnition { host_id, .. } => {
                write!(f, "get the Ignition config of host {host_id} and merge it over /opt/openshift/master.ign")
            }
            Self::WriteImage(write) => write.fmt(f),
            Self::DeployToRoot(deploy) => deploy.fmt(f),
            Self::WaitForMasters { ready, .. } => write!(f, "wait until {ready} masters are done"),
            Self::SkipMcoReboot { device, .. } => {
                write!(f, "put the cluster's version of the system on {}, if available", device.display())
            }
            Self::SetBootOrder { device } => {
                write!(f, "make the firmware start from {}", device.display())
            }
            Self::CopyRegistryData { device } => {
                write!(f, "copy the registry's data to {}, if the live medium has one", device.display())
            }
            Self::WaitForControlPlane { .. } => f.write_str("wait until the control plane runs without this host"),
            Self::SendLogs { bootstrap: false } => f.write_str("send this host's logs to the service"),
            Self::SendLogs { bootstrap: true } => {
                f.write_str("send this host's logs to the service, with those of the bootstrap")
            }
            Self::Reboot { delay_seconds, allowed: true } => {
                write!(f, "report 'Rebooting' and reboot after {delay_seconds} s")
            }
            Self::Reboot { .. } => {
                f.write_str("report 'Rebooting' and leave the machine running (reboot not requested)")
            }
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, action) in self.actions.iter().enumerate() {
            writeln!(f, "{}. {action}", index + 1)?;
        }
        Ok(())
    }
}
