//! rootfs-overlay
