# Makes a host of this machine: namespaces of its own (they are there already), this machine's files below a layer in memory, a
# /sys and a /dev of the test's own, and runs a program in it, again and again as systemd would. Nothing of this machine's
# disk is in it: not its node, not its entry in /sys, nor the power to make the node.
set -eu
: "$SCRATCH" "$SHARED" "$LOOP_MINOR" "$HOST_NAME" "$RESOLVER" "$REAL_DISKS"
mount -t tmpfs scratch "$SCRATCH"
mkdir "$SCRATCH/upper" "$SCRATCH/work" "$SCRATCH/root"
root=$SCRATCH/root
mount -t overlay host -o "lowerdir=/,upperdir=$SCRATCH/upper,workdir=$SCRATCH/work" "$root"

mount -t tmpfs dev "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
mount -t tmpfs shm "$root/dev/shm"
node() { mknod -m 0666 "$root/dev/$1" "$2" "$3" "$4"; }
node null c 1 3; node zero c 1 5; node full c 1 7; node random c 1 8; node urandom c 1 9; node tty c 5 0
node loop-control c 10 237
node vda b 7 "$LOOP_MINOR"
for minor in $(seq 0 31); do [ "$minor" = "$LOOP_MINOR" ] || node "loop$minor" b 7 "$minor"; done
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for fd in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${fd%:*}" "$root/dev/${fd#*:}"; done

mount -t proc proc "$root/proc"
[ ! -e "$root/proc/sysrq-trigger" ] || mount --bind "$root/dev/null" "$root/proc/sysrq-trigger"
cp "$SHARED/cmdline" "$SCRATCH/cmdline"
mount --bind "$SCRATCH/cmdline" "$root/proc/cmdline"

mount -t tmpfs sys "$root/sys"
cp -a "$SHARED/sys/." "$root/sys/"
for part in devices/system devices/virtual dev; do
    mkdir -p "$root/sys/$part"
    mount --bind "/sys/$part" "$root/sys/$part"
    mount -o remount,bind,ro "$root/sys/$part"
done

# Nothing that is mounted may come from this machine's disk by its name: the host's own disk would count as in use.
for empty in run mnt media; do mount -t tmpfs "$empty" "$root/$empty"; done
mkdir -p "$root$SHARED" "$root/opt" "$root/run/systemd/journal" "$root/run/udev/data"
mount --bind "$SHARED" "$root$SHARED"
ln -s "$SHARED/journal" "$root/run/systemd/journal/socket"
cp "$SHARED/udev" "$root/run/udev/data/b7:$LOOP_MINOR"
for given in $GIVEN; do
    [ -d "$root$given" ] || { mkdir -p "$root$given"; mount --bind "$given" "$root$given"; }
done
rm -f "$root/etc/resolv.conf" "$root/etc/hostname"
echo "nameserver $RESOLVER" >"$root/etc/resolv.conf"
echo "127.0.0.1 localhost $HOST_NAME" >"$root/etc/hosts"
hostname "$HOST_NAME"
# Of the installer's container: what it deploys the controller with.
mkdir -p "$root/assisted-installer-controller/deploy"
for kind in cm pod secret; do
    echo "kind: Stand-in" >"$root/assisted-installer-controller/deploy/assisted-installer-controller-$kind.yaml.template"
done
# Where the real agent's container sees the host.
mkdir -p "$root/host"
for part in sys proc dev run etc; do ln -s "/$part" "$root/host/$part"; done
# In the place of the host's own programs that the tests cannot let do their work.
for stand_in in "$SHARED"/bin/*; do
    name=$(basename "$stand_in")
    rm -f "$root/usr/bin/$name" "$root/usr/sbin/$name" "$root/usr/local/bin/$name" "$root/usr/local/sbin/$name"
    cp -a "$stand_in" "$root/usr/bin/$name"
done

# What must hold before anything runs.
[ "$(stat -c %t:%T "$root/dev/vda")" = "7:$(printf %x "$LOOP_MINOR")" ]
for disk in $REAL_DISKS; do
    [ "$(stat -c %t:%T "$root/dev/vda")" != "$disk" ]
    [ -z "$(find "$root/dev" -type b -exec stat -c %t:%T {} + | grep -x "$disk")" ]
done
[ -z "$(find "$root/dev" -type b -exec stat -c %t {} + | grep -vx 7)" ]

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root SHARED
exec chroot "$root" setpriv --bounding-set -mknod,-sys_boot,-sys_time,-sys_module,-sys_rawio \
    sh "$SHARED/service.sh" "$@"
