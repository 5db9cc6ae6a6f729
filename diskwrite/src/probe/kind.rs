//! What can be recognized.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::{borrow::Cow, fmt};

macro_rules! kinds {
    ($($variant:ident = $blkid:literal, $text:literal;)*) => {
        /// What a signature stands for; in JSON by libblkid's name for it. In the order in which libblkid looks for them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(#[doc = $text] $variant,)*
        }

        impl Kind {
            /// Every one.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// libblkid's name, as `blkid` and `wipefs` print it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $blkid,)* }
            }
        }

        impl fmt::Display for Kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $text,)* })
            }
        }
    };
}

kinds! {
    Gpt = "gpt", "GPT";
    Mbr = "dos", "MBR partition table";
    Aix = "aix", "AIX disk label";
    Sgi = "sgi", "SGI disk label";
    Sun = "sun", "Sun disk label";
    Mac = "mac", "Apple partition map";
    Ultrix = "ultrix", "Ultrix disk label";
    Bsd = "bsd", "BSD disk label";
    Unixware = "unixware", "UnixWare disk label";
    Solaris = "solaris", "Solaris disk label";
    Atari = "atari", "Atari partition table";
    MdRaid = "linux_raid_member", "Linux RAID member";
    DdfRaid = "ddf_raid_member", "DDF firmware RAID member";
    IntelRaid = "isw_raid_member", "Intel firmware RAID member";
    LsiRaid = "lsi_mega_raid_member", "LSI firmware RAID member";
    ViaRaid = "via_raid_member", "VIA firmware RAID member";
    SiliconRaid = "silicon_medley_raid_member", "Silicon Image firmware RAID member";
    NvidiaRaid = "nvidia_raid_member", "NVIDIA firmware RAID member";
    PromiseRaid = "promise_fasttrack_raid_member", "Promise firmware RAID member";
    Highpoint45 = "hpt45x_raid_member", "HighPoint 45x firmware RAID member";
    Highpoint37 = "hpt37x_raid_member", "HighPoint 37x firmware RAID member";
    AdaptecRaid = "adaptec_raid_member", "Adaptec firmware RAID member";
    JmicronRaid = "jmicron_raid_member", "JMicron firmware RAID member";
    Bcache = "bcache", "bcache";
    Bcachefs = "bcachefs", "bcachefs file system";
    Bluestore = "ceph_bluestore", "Ceph BlueStore OSD";
    Drbd = "drbd", "DRBD";
    DrbdManage = "drbdmanage_control_volume", "DRBD Manage control volume";
    DrbdLog = "drbdproxy_datalog", "DRBD Proxy log";
    Lvm2 = "LVM2_member", "LVM physical volume";
    Lvm1 = "LVM1_member", "LVM 1 physical volume";
    SnapshotCow = "DM_snapshot_cow", "device-mapper snapshot";
    Verity = "DM_verity_hash", "dm-verity hashes";
    Integrity = "DM_integrity", "dm-integrity";
    Luks = "crypto_LUKS", "LUKS encryption";
    VmfsVolume = "VMFS_volume_member", "VMware VMFS volume member";
    Ubi = "ubi", "UBI volume";
    Vdo = "vdo", "VDO volume";
    Stratis = "stratis", "Stratis pool member";
    BitLocker = "BitLocker", "BitLocker encryption";
    FileVault = "cs_fvault2", "FileVault encryption";
    Vfat = "vfat", "FAT file system";
    Hibernation = "swsuspend", "hibernated memory image";
    Swap = "swap", "swap";
    Xfs = "xfs", "XFS file system";
    XfsLog = "xfs_external_log", "XFS log device";
    Exfs = "exfs", "EXFS file system";
    Ext4dev = "ext4dev", "ext4 test file system";
    Ext4 = "ext4", "ext4 file system";
    Ext3 = "ext3", "ext3 file system";
    Ext2 = "ext2", "ext2 file system";
    Journal = "jbd", "ext journal device";
    Reiserfs = "reiserfs", "ReiserFS file system";
    Reiser4 = "reiser4", "Reiser4 file system";
    Jfs = "jfs", "JFS file system";
    Udf = "udf", "UDF file system";
    Iso9660 = "iso9660", "ISO 9660 file system";
    Zfs = "zfs_member", "ZFS pool member";
    HfsPlus = "hfsplus", "HFS+ file system";
    Hfs = "hfs", "HFS file system";
    Ufs = "ufs", "UFS file system";
    Hpfs = "hpfs", "HPFS file system";
    Sysv = "sysv", "System V file system";
    Xenix = "xenix", "Xenix file system";
    Ntfs = "ntfs", "NTFS file system";
    Refs = "ReFS", "ReFS file system";
    Cramfs = "cramfs", "cramfs file system";
    Romfs = "romfs", "ROMFS file system";
    Minix = "minix", "Minix file system";
    Gfs = "gfs", "GFS file system";
    Gfs2 = "gfs2", "GFS2 file system";
    Ocfs = "ocfs", "OCFS file system";
    Ocfs2 = "ocfs2", "OCFS2 file system";
    OracleAsm = "oracleasm", "Oracle ASM disk";
    Vxfs = "vxfs", "VxFS file system";
    Squashfs = "squashfs", "SquashFS file system";
    Squashfs3 = "squashfs3", "SquashFS 3 file system";
    Nss = "nss", "NetWare file system";
    Btrfs = "btrfs", "Btrfs file system";
    Ubifs = "ubifs", "UBIFS file system";
    Bfs = "bfs", "BFS file system";
    Vmfs = "VMFS", "VMware VMFS file system";
    Befs = "befs", "BeOS file system";
    Nilfs2 = "nilfs2", "NILFS2 file system";
    Exfat = "exfat", "exFAT file system";
    F2fs = "f2fs", "F2FS file system";
    Mpool = "mpool", "mpool member";
    Apfs = "apfs", "APFS container";
    Zonefs = "zonefs", "zonefs file system";
    Erofs = "erofs", "EROFS file system";
    ScoutfsMeta = "scoutfs_meta", "ScoutFS metadata device";
    ScoutfsData = "scoutfs_data", "ScoutFS data device";
}

impl Kind {
    /// Whether it divides a disk into partitions.
    pub fn is_table(self) -> bool {
        self <= Self::Atari
    }

    /// Whether the device is a part of something larger, as libblkid has it.
    pub fn is_raid(self) -> bool {
        (Self::MdRaid..=Self::JmicronRaid).contains(&self)
            || [Self::Drbd, Self::Lvm2, Self::Lvm1, Self::VmfsVolume, Self::Ubi, Self::Stratis].contains(&self)
    }

    /// Whether all behind it is encrypted or checked by it.
    pub fn is_encryption(self) -> bool {
        [Self::Verity, Self::Integrity, Self::Luks, Self::BitLocker, Self::FileVault].contains(&self)
    }

    /// Whether it may stand beside another on a disc.
    pub(super) fn is_tolerant(self) -> bool {
        [Self::Udf, Self::Iso9660, Self::Hfs].contains(&self)
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Cow::<str>::deserialize(deserializer)?;
        let kind = Self::ALL.iter().find(|kind| kind.name() == name);
        kind.copied().ok_or_else(|| D::Error::custom("unknown kind of signature"))
    }
}
