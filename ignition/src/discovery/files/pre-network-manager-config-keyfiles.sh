#!/bin/bash
# Static network settings as NetworkManager's keyfiles, in which interfaces get the names that they have on this host.
set -u
source "${COMMON_SCRIPT_PATH:-/usr/local/bin/common_network_script.sh}"

# Longest name of an interface.
max_name=15
# Of the host at hand: names of its interfaces by those that its settings give them.
declare -A real=()

# What an interface or a VLAN on it is called here; other text stays as it is.
name_here() {
    local base tail
    if [[ -n ${real[$1]:-} ]]; then
        echo "${real[$1]}"
    elif [[ $1 =~ ^([^.]+)(\..+)$ && -n ${real[${BASH_REMATCH[1]}]:-} ]]; then
        base=${real[${BASH_REMATCH[1]}]} tail=${BASH_REMATCH[2]}
        [[ $tail =~ ^\.[0-9]+$ ]] && base=${base:0:max_name-${#tail}}
        echo "$base$tail"
    else
        echo "$1"
    fi
}

copy_keyfile() {
    local line stem target
    stem=${1##*/}
    stem=${stem%.nmconnection}
    target=$connections_dir/$(name_here "$stem").nmconnection
    if [[ -e $target ]]; then
        echo "Two connections come to be ${target##*/}" >&2
        return 1
    fi
    while IFS= read -r line || [[ -n $line ]]; do
        if [[ $line =~ ^([^=]+)=(.+)$ ]]; then
            echo "${BASH_REMATCH[1]}=$(name_here "${BASH_REMATCH[2]}")"
        else
            echo "$line"
        fi
    done < "$1" | (umask 077 && exec cat > "$target")
}

read_interfaces
found=
while read -r dir; do
    echo "Network settings are those of ${dir##*/}"
    mkdir -p "$connections_dir"
    [[ -n $found ]] || rm -rf "${connections_dir:?}"/*
    found=yes
    real=()
    while IFS='=' read -r mac logical; do
        name=${name_by_mac[${mac^^}]:-}
        [[ -z $name ]] || real[$logical]=$name
    done < <(mapping "$dir")
    for keyfile in "$dir"/*.nmconnection; do
        copy_keyfile "$keyfile" || exit 1
    done
done < <(our_settings)
