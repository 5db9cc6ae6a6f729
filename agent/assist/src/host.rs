//! All of the host's programs that are started here, and why nothing else can do what they do.

/// A program of the host, or of the node whose root it runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostProgram {
    /// Pulls images into the store that the host's containers are started from; its form is known to podman alone.
    Podman,
    /// LVM's displays: all of LVM's metadata only its own tools show.
    Pvdisplay,
    Vgdisplay,
    Lvdisplay,
    /// The cluster's own, brought by its bootstrap: asks other hosts for what Open vSwitch says.
    OvsGather,
    /// The same, for the bundle of the temporary control plane: makes `/root/log-bundle-ID.tar.gz`.
    InstallerGather,
    /// Units are systemd's, and so is the order in which they start and stop.
    Systemctl,
    /// Host names are systemd-hostnamed's.
    Hostnamectl,
    /// Deploys systems from container images, and holds their lock.
    Ostree,
    /// Knows which deployments are in use, and their kernel arguments; holds their lock.
    RpmOstree,
    /// Knows the boot records of DASD and SCSI disks on s390x.
    Zipl,
    /// Sets the boot list of POWER's firmware.
    Bootlist,
    /// The live system's shell, for the one script that moves a root file system's contents away and back.
    Shell,
}

impl HostProgram {
    /// A path, or a name to look up in PATH.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Podman => "/usr/bin/podman",
            Self::Pvdisplay => "/usr/sbin/pvdisplay",
            Self::Vgdisplay => "/usr/sbin/vgdisplay",
            Self::Lvdisplay => "/usr/sbin/lvdisplay",
            Self::OvsGather => "/usr/local/bin/ovs-installer-gather.sh",
            Self::InstallerGather => "/usr/local/bin/installer-gather.sh",
            Self::Systemctl => "systemctl",
            Self::Hostnamectl => "hostnamectl",
            Self::Ostree => "ostree",
            Self::RpmOstree => "rpm-ostree",
            Self::Zipl => "zipl",
            Self::Bootlist => "/usr/sbin/bootlist",
            Self::Shell => "/bin/sh",
        }
    }
}
