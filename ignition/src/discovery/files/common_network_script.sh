#!/bin/bash
# Which settings below /etc/assisted/network are this host's: those that name one of its MAC addresses.
# An initramfs has no more programs than cat, mkdir, rm and sleep.
root=${PATH_PREFIX:-}
hosts_dir=$root/etc/assisted/network
sysfs=$root/sys/class/net
if [[ -e $root/etc/initrd-release ]]; then
    connections_dir=$root/etc/coreos-firstboot-network
else
    connections_dir=$root/etc/NetworkManager/system-connections
fi

# Names of this host's interfaces by their MAC addresses, in capitals.
declare -A name_by_mac=()

interfaces() {
    local path
    for path in "$sysfs"/*; do
        [[ -e $path/address && ${path##*/} != lo ]] && echo "${path##*/}"
    done
}

# Until the names have been the same for three seconds, for half a minute at most: drivers load one after the other.
wait_for_interfaces() {
    local now last='' same=0 second
    sleep "${DISCOVERY_DELAY_SECONDS:-0}"
    for ((second = 0; second < 30 && same < 3; second++)); do
        now=$(interfaces)
        if [[ -n $now && $now == "$last" ]]; then
            same=$((same + 1))
        else
            same=0
        fi
        last=$now
        sleep 1
    done
    ((same >= 3)) || echo "The interfaces still change after $second s: ${last//$'\n'/ }" >&2
}

read_interfaces() {
    local name mac
    wait_for_interfaces
    for name in $(interfaces); do
        mac=$(< "$sysfs/$name/address")
        [[ -z $mac ]] || name_by_mac[${mac^^}]=$name
    done
}

# Lines "MAC=logical name" of a host's settings.
mapping() {
    local line
    [[ -r $1/mac_interface.ini ]] || return
    while IFS= read -r line || [[ -n $line ]]; do
        [[ ! $line =~ ^[^=]+=. ]] || echo "$line"
    done < "$1/mac_interface.ini"
}

# The settings that are this host's.
our_settings() {
    local dir mac _
    for dir in "$hosts_dir"/host*; do
        while IFS='=' read -r mac _; do
            if [[ -n ${name_by_mac[${mac^^}]:-} ]]; then
                echo "$dir"
                break
            fi
        done < <(mapping "$dir")
    done
}
