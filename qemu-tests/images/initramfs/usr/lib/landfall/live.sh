# The live system: a squashfs in memory below a writable layer in memory. Sourced by /init.

# The device that holds the ISO of volume id LABEL, whatever bus it is on.
find_medium() { # LABEL
    local path label
    for path in /sys/class/block/*; do
        label=$(dd if="/dev/${path##*/}" bs=8 skip=4101 count=4 2>/dev/null | tr -d '\000' | sed 's/ *$//')
        [ "$label" = "$1" ] || continue
        mount -t iso9660 -o ro "/dev/${path##*/}" /run/media/iso 2>/dev/null || continue
        mark "medium ${path##*/}"
        return 0
    done
    return 1
}

mkdir -p /run/media/iso /run/ephemeral
mount -t tmpfs -o mode=0755,size=75% ephemeral /run/ephemeral
url=$(karg coreos.live.rootfs_url)
if [ -e /root.squashfs ]; then
    mv /root.squashfs /run/ephemeral/
elif [ -n "$url" ]; then
    rmdir /run/media/iso
    network_up || fail "live FAIL network"
    wget -q -O /run/ephemeral/rootfs.img "$url" || fail "live FAIL fetching $url"
    (cd /run/ephemeral && cpio -i --quiet <rootfs.img && rm rootfs.img)
else
    wait_for find_medium "$(karg coreos.liveiso)" || fail "live FAIL no medium labelled $(karg coreos.liveiso)"
    (cd /run/ephemeral && cpio -i --quiet </run/media/iso/images/pxeboot/rootfs.img)
fi

mkdir -p /run/ephemeral/upper /run/ephemeral/work /squashfs
mount -t squashfs -o ro,loop /run/ephemeral/root.squashfs /squashfs || fail "live FAIL rootfs.img is not a squashfs in a cpio archive"
mount -t overlay -o lowerdir=/squashfs,upperdir=/run/ephemeral/upper,workdir=/run/ephemeral/work overlay /sysroot ||
    fail "live FAIL overlay"
mark live-rootfs
# Where the running system has its read-only source, on a loop device: the mark of a live system.
mount --move /squashfs /sysroot/sysroot

if has_karg ignition.firstboot; then
    if [ -e /config.ign ]; then cp /config.ign /usr/lib/ignition/user.ign; else mark ignition no-config; fi
    run_ignition
fi
network_down
