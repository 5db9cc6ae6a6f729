#!/bin/bash
# This host was installed by a system that ran from its own disk. That one's deployments and data are removed here, once the
# installed system has booted.
set -euo pipefail
deploy=${ROOT:-}/sysroot/ostree/deploy

# Lines "* install 0a1b.0" and "  other 2c3d.0", in the order of their indexes; the asterisk is at the one that runs.
deployments=$(ostree admin status | grep -E '^[* ] [^ ]+ [0-9a-f]+\.[0-9]+' || true)
booted=$(sed -nE 's/^\* ([^ ]+) .*/\1/p' <<< "$deployments")
if [[ -z $booted || ! -d $deploy/$booted ]]; then
    echo 'Which system runs is not known: nothing is removed.' >&2
    exit 1
fi

# It would change deployments, too, and holds what it knows of them.
systemctl stop rpm-ostreed.service
trap 'systemctl start rpm-ostreed.service' EXIT
mount -o remount,rw "${ROOT:-}/sysroot"
mount -o remount,rw "${ROOT:-}/boot"
mapfile -t lines <<< "$deployments"
# From the last on, because those that follow one that goes move up.
for ((index = ${#lines[@]} - 1; index >= 0; index--)); do
    read -r stateroot _ <<< "${lines[index]:2}"
    [[ $stateroot == "$booted" ]] || ostree admin undeploy "$index"
done
ostree admin cleanup
for dir in "$deploy"/*; do
    [[ ${dir##*/} == "$booted" ]] && continue
    chattr -i -R "$dir" 2>/dev/null || true
    rm -rf "$dir"
done
