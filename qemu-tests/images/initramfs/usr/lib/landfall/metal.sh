# The installed system: root and boot by label, Ignition on the first boot. Sourced by /init.

mount_by_tag() { # TAG DIR
    local device
    device=$(findfs "$1" 2>/dev/null) && mount -t ext4 "$device" "$2"
}

root=$(karg root)
boot=$(karg boot)
wait_for mount_by_tag "${root:-LABEL=root}" /sysroot || fail "metal FAIL no root file system"
wait_for mount_by_tag "${boot:-LABEL=boot}" /sysroot/boot || fail "metal FAIL no boot file system"
mark metal-rootfs

if has_karg ignition.firstboot; then
    # Network profiles left by the installer; nothing here uses them, tests do.
    profiles=/run/NetworkManager/system-connections
    coreos-copy-firstboot-network
    [ ! -d $profiles ] || mark firstboot-network $(ls $profiles)
    if [ -e /sysroot/boot/ignition/config.ign ]; then
        cp /sysroot/boot/ignition/config.ign /usr/lib/ignition/user.ign
    else
        mark ignition no-config
    fi
    run_ignition
    if [ -d $profiles ]; then
        mkdir -p /sysroot/etc/NetworkManager/system-connections
        cp -p $profiles/* /sysroot/etc/NetworkManager/system-connections/
    fi
    rm -rf /sysroot/boot/ignition.firstboot /sysroot/boot/coreos-firstboot-network
    sync
    mark firstboot done
fi
