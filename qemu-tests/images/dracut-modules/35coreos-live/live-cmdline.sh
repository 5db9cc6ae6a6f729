#!/bin/sh
# Early in dracut's cmdline hooks: the root is our own affair; profiles of the initrd are NetworkManager's; a URL needs a network.
say initramfs "$([ -d /sys/firmware/efi ] && echo uefi || echo bios) kernel-s=$(cut -d " " -f 1 /proc/uptime)"
if is-live-image; then
    root=coreos-live
    rootok=1
fi
if [ -d /etc/coreos-firstboot-network ]; then
    mkdir -p /etc/NetworkManager/system-connections
    cp /etc/coreos-firstboot-network/* /etc/NetworkManager/system-connections/
    chmod 0600 /etc/NetworkManager/system-connections/*
fi
if [ ! -e /root.squashfs ] && getarg coreos.live.rootfs_url= >/dev/null; then
    echo rd.neednet=1 >/etc/cmdline.d/05-coreos-live.conf
fi
