# Makes a pod of the host's network: what a Job of the cluster mounts, /tmp and /run of the test's own, and the rest of this machine as it is.
set -eu
: "$SCRATCH" "$POD"
mkdir "$SCRATCH/upper" "$SCRATCH/work"
mount -t overlay etc -o "lowerdir=/etc,upperdir=$SCRATCH/upper,workdir=$SCRATCH/work" /etc
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
mount -t proc proc /proc
mkdir -p /var/run/secrets/kubernetes.io /etc/assisted-installer-controller
cp -r "$POD/serviceaccount" /var/run/secrets/kubernetes.io/serviceaccount
cp "$POD/token" /etc/assisted-installer-controller/token
exec "$@"
