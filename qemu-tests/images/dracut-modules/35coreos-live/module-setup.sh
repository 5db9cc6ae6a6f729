#!/bin/bash
# The live system's part of the initramfs, for dracut.

check() {
    return 255
}

depends() {
    echo systemd-initrd dracut-systemd network-manager url-lib ignition
}

unit() { # UNIT TARGET
    inst_simple "$moddir/$1" "$systemdsystemunitdir/$1"
    systemctl -q --root "$initdir" add-wants "$2" "$1"
}

install() {
    inst_multiple cpio curl cut cat cp mkdir mount umount tail sed ip poweroff sync journalctl
    inst_script "$moddir/is-live-image" /usr/bin/is-live-image
    inst_script "$moddir/say" /usr/bin/say
    inst_script "$moddir/coreos-live-generator" "$systemdutildir/system-generators/coreos-live-generator"
    inst_script "$moddir/coreos-live-rootfs" /usr/sbin/coreos-live-rootfs
    inst_script "$moddir/coreos-enable-network" /usr/sbin/coreos-enable-network
    inst_script "$moddir/landfall-test-fail" /usr/sbin/landfall-test-fail
    inst_script "$moddir/setfiles" /usr/sbin/setfiles
    inst_simple "$moddir/coreos-live-rootfs.service" "$systemdsystemunitdir/coreos-live-rootfs.service"
    unit ignition-setup-user.service ignition-complete.target
    unit coreos-enable-network.service ignition-complete.target
    unit landfall-test-fail.service emergency.target
    inst_hook cmdline 05 "$moddir/live-cmdline.sh"
    inst_hook pre-pivot 90 "$moddir/live-teardown.sh"
    # What tools for live images look at.
    mkdir -p "$initdir/etc/coreos"
    echo stable >"$initdir/etc/coreos-live-initramfs"
    inst_simple "$moddir/features.json" /etc/coreos/features.json
}
