//! What can be recognized.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! kinds {
    ($($variant:ident = $blkid:literal, $text:literal;)*) => {
        /// What a signature stands for; in JSON by libblkid's name for it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Kind {
            $(#[doc = $text] #[serde(rename = $blkid)] $variant,)*
        }

        impl Kind {
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
    Lvm2 = "LVM2_member", "LVM physical volume";
    MdRaid = "linux_raid_member", "Linux RAID member";
    IntelRaid = "isw_raid_member", "Intel firmware RAID member";
    DdfRaid = "ddf_raid_member", "DDF firmware RAID member";
    NvidiaRaid = "nvidia_raid_member", "NVIDIA firmware RAID member";
    LsiRaid = "lsi_mega_raid_member", "LSI firmware RAID member";
    Luks = "crypto_LUKS", "LUKS encryption";
    BitLocker = "BitLocker", "BitLocker encryption";
    Zfs = "zfs_member", "ZFS pool member";
    Bluestore = "ceph_bluestore", "Ceph BlueStore OSD";
    Bcache = "bcache", "bcache";
    Drbd = "drbd", "DRBD";
    Stratis = "stratis", "Stratis pool member";
    Vdo = "vdo", "VDO volume";
    Integrity = "DM_integrity", "dm-integrity";
    Verity = "DM_verity_hash", "dm-verity hashes";
    VmfsVolume = "VMFS_volume_member", "VMware VMFS volume member";
    Ext2 = "ext2", "ext2 file system";
    Ext3 = "ext3", "ext3 file system";
    Ext4 = "ext4", "ext4 file system";
    Journal = "jbd", "ext journal device";
    Xfs = "xfs", "XFS file system";
    Btrfs = "btrfs", "Btrfs file system";
    F2fs = "f2fs", "F2FS file system";
    Vfat = "vfat", "FAT file system";
    Exfat = "exfat", "exFAT file system";
    Ntfs = "ntfs", "NTFS file system";
    Refs = "ReFS", "ReFS file system";
    Apfs = "apfs", "APFS container";
    Hfs = "hfs", "HFS file system";
    HfsPlus = "hfsplus", "HFS+ file system";
    Iso9660 = "iso9660", "ISO 9660 file system";
    Udf = "udf", "UDF file system";
    Squashfs = "squashfs", "SquashFS file system";
    Erofs = "erofs", "EROFS file system";
    Swap = "swap", "swap";
    Hibernation = "swsuspend", "hibernated memory image";
}
