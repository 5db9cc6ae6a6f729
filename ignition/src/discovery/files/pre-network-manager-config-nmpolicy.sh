#!/bin/bash
# Static network settings as policies, which nmstate itself binds to interfaces by their MAC addresses.
set -u
source "${COMMON_SCRIPT_PATH:-/usr/local/bin/common_network_script.sh}"

read_interfaces
while read -r dir; do
    echo "Network settings are those of ${dir##*/}"
    mkdir -p "$root/etc/nmstate"
    cp "$dir"/*.yml "$root/etc/nmstate/" || exit 1
    nmstatectl service || exit 1
    # The real root gets them from the initrd.
    if [[ -e $root/etc/initrd-release ]]; then
        mkdir -p "$connections_dir"
        cp "$root"/etc/NetworkManager/system-connections/* "$connections_dir/"
        /usr/sbin/coreos-copy-firstboot-network
    fi
done < <(our_settings)
