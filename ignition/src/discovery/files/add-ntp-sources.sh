#!/bin/sh
# Gives chrony the time sources of this environment: beside those it has, or alone.
set -eu
conf=${CHRONY_CONF:-/etc/chrony.conf}
sources='@SOURCES@'
only=@ONLY@

drop() {
    sed -E "/^[[:space:]]*($1)([[:space:]]|\$)/d" "$conf" > "$conf.new"
    cat "$conf.new" > "$conf"
    rm "$conf.new"
}

touch "$conf"
[ "$only" = no ] || drop 'server|pool|peer|sourcedir'
drop makestep
# A clock that is far off may be set at any time: a certificate that is not valid yet keeps the agent from its service.
echo 'makestep 1.0 -1' >> "$conf"
for source in $sources; do
    grep -qxF "server $source iburst" "$conf" || echo "server $source iburst" >> "$conf"
done
