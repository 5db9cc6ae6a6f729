#!/bin/sh
# udhcpc's script: the address, the default route and the name servers of a lease.
case $1 in
    bound | renew)
        ip addr replace "$ip/${mask:-24}" dev "$interface"
        for gateway in $router; do ip route replace default via "$gateway" dev "$interface"; break; done
        for server in $dns; do echo "nameserver $server"; done >/etc/resolv.conf
        echo "$interface $ip" >/run/network-up
        ;;
esac
