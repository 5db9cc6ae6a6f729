#!/bin/sh
# Before the live system is entered: it has the profiles of the initrd unless its config brought some, and interfaces as the kernel
# made them.
profiles=/sysroot/etc/NetworkManager/system-connections
if [ -d /etc/coreos-firstboot-network ] && [ -z "$(ls -A "$profiles" 2>/dev/null)" ]; then
    mkdir -p "$profiles"
    cp /etc/coreos-firstboot-network/* "$profiles/"
    chmod 0600 "$profiles"/*
fi
if [ -e /run/NetworkManager/initrd/neednet ]; then
    systemctl stop nm-initrd.service
    for path in /sys/class/net/*; do
        [ -e "$path/device" ] || continue
        ip addr flush dev "${path##*/}"
        ip link set "${path##*/}" down
    done
    rm -rf /run/NetworkManager
fi
