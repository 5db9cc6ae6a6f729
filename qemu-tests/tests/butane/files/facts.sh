#!/bin/sh
# What the configs made, one line each on the serial port.
say() { /usr/lib/landfall-test/say butane "$@"; }
say "groups=$(id -nG operator)"
say "passwd=$(grep '^operator:' /etc/passwd | cut -d: -f3,5,7 | tr : ,)"
say "stamp=$(cat /run/stamp)"
say "appended=$(tr '\n' ' ' </etc/landfall-test/appended)"
say "packed=$(wc -l </etc/landfall-test/packed)"
say "directory=$(stat -c '%a %G' /var/lib/rack)"
say "localtime=$(readlink /etc/localtime)"
say "masked=$(readlink /etc/systemd/system/rack-noise.service)"
say "profile=$(stat -c '%a' /etc/NetworkManager/system-connections/uplink.nmconnection)"
say "sysctl=$(cat /etc/sysctl.d/90-rack.conf)"
say "tree=$(cat /etc/landfall-test/rack.d/row) $(stat -c '%a' /etc/landfall-test/rack.d/check)"
