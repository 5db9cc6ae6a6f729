# What both ways to boot share. Sourced by /init.

# A line for whoever reads the first serial port, wherever the kernel's console is.
first_port=/dev/ttyS0
[ ! -c /dev/ttyAMA0 ] || first_port=/dev/ttyAMA0
say() { echo "$*" 2>/dev/null >$first_port || echo "$*" >/dev/console; }
mark() { say "@@ $*"; }

# Ends the boot: the reason, the end of a log if there is one, power off.
fail() { # WHAT [LOG]
    mark "$1"
    if [ -n "$2" ]; then tail -n 20 "$2" | while read -r line; do say "@@ | $line"; done; fi
    sync
    poweroff -f
}

# The value of the last kernel argument NAME=VALUE.
karg() { # NAME
    local arg value=
    for arg in $(cat /proc/cmdline); do case $arg in "$1"=*) value=${arg#*=} ;; esac; done
    echo "$value"
}

has_karg() { # WORD
    case " $(cat /proc/cmdline) " in *" $1 "*) return 0 ;; *) return 1 ;; esac
}

# Drivers for all devices there are, and for those that appear on the buses these drivers find; then what no device asks for.
load_modules() {
    local known= found
    while found=$(cat /sys/bus/pci/devices/*/modalias /sys/bus/virtio/devices/*/modalias /sys/bus/usb/devices/*/modalias \
        /sys/bus/scsi/devices/*/modalias 2>/dev/null | sort -u) && [ "$found" != "$known" ]; do
        printf '%s\n' "$found" | xargs -r modprobe -q -a -b 2>/dev/null
        known=$found
    done
    modprobe -q -a loop isofs squashfs overlay sr_mod sd_mod crc32c_generic ext4 qemu_fw_cfg 2>/dev/null
}

# Runs a command until it succeeds, for up to 60 s.
wait_for() { # COMMAND...
    local turns=0
    until "$@"; do
        turns=$((turns + 1))
        [ $turns -lt 6000 ] || return 1
        usleep 100000
    done
}

# Runs a command for each interface that a kernel argument gives an address: ip=ADDRESS::GATEWAY:BITS:NAME:MAC:none, with dashes.
each_static() { # COMMAND, which gets INTERFACE ADDRESS BITS GATEWAY
    local arg path
    for arg in $(cat /proc/cmdline); do
        case $arg in ip=*:none) ;; *) continue ;; esac
        local IFS=:
        set -- "$1" ${arg#ip=}
        unset IFS
        for path in /sys/class/net/*; do
            [ "$(tr : - <"$path/address")" = "$7" ] && "$1" "${path##*/}" "$2" "$5" "$4"
        done
    done
}

static_up() { # INTERFACE ADDRESS BITS GATEWAY
    ip link set "$1" up
    ip addr replace "$2/$3" dev "$1"
    [ -z "$4" ] || ip route replace default via "$4" dev "$1"
    echo "$1 $2" >/run/network-up
}

# The running system is told the same.
static_later() { # INTERFACE ADDRESS BITS GATEWAY
    mkdir -p /run/systemd/network
    # Its name may yet change.
    printf '[Match]\nMACAddress=%s\n\n[Network]\nAddress=%s/%s\n' "$(cat "/sys/class/net/$1/address")" "$2" "$3" >"/run/systemd/network/10-$1.network"
    [ -z "$4" ] || echo "Gateway=$4" >>"/run/systemd/network/10-$1.network"
}

# DHCP on every interface at once; done when one has an address. Leaves resolv.conf behind.
network_up() {
    local path name turns=0
    [ ! -e /run/network-up ] || return 0
    ip link set lo up
    each_static static_up
    if [ -e /run/network-up ]; then mark network "$(cat /run/network-up)"; return 0; fi
    for path in /sys/class/net/*; do
        name=${path##*/}
        [ -e "$path/device" ] || continue
        ip link set "$name" up
        udhcpc -q -f -n -t 600 -T 1 -A 1 -i "$name" -s /usr/lib/landfall/dhcp.sh >/run/dhcp-"$name".log 2>&1 &
    done
    wait_for test -e /run/network-up && mark network "$(cat /run/network-up)"
}

# The running system starts with interfaces as the kernel made them.
network_down() {
    local path name
    [ -e /run/network-up ] || return 0
    killall udhcpc 2>/dev/null
    for path in /sys/class/net/*; do
        name=${path##*/}
        [ -e "$path/device" ] || continue
        ip addr flush dev "$name"
        ip link set "$name" down
    done
    rm -f /run/network-up
}

# The real Ignition's stages onto /sysroot, as its own units order them.
run_ignition() {
    local stage platform
    platform=$(karg ignition.platform.id)
    mkdir -p /run/ignition
    for stage in fetch-offline fetch disks mount files; do
        if [ $stage = fetch ] && [ -e /run/ignition/neednet ]; then network_up || fail "ignition FAIL network"; fi
        ignition --root=/sysroot --platform="${platform:-metal}" --stage=$stage --log-to-stdout >/run/ignition/$stage.log 2>&1 ||
            fail "ignition FAIL $stage" /run/ignition/$stage.log
        mark "ignition $stage ok"
    done
    network_down
}

# Hands the machine to systemd. What it starts with is read first, in one go: page by page it takes twice as long.
enter_root() {
    local dir
    each_static static_later
    cat /sysroot/usr/lib/systemd/systemd* /sysroot/usr/lib/*/systemd/*.so /sysroot/usr/lib/*-linux-gnu/*.so.* /sysroot/usr/bin/udevadm >/dev/null
    for dir in dev proc sys run; do mount --move /$dir /sysroot/$dir; done
    exec switch_root /sysroot /usr/lib/systemd/systemd
}
