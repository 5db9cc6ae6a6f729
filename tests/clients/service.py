"""A service with its files, and pretended hosts."""

import json
import os
import subprocess
import time
import urllib.request

import iso

PULL_SECRET = json.dumps({"auths": {name: {"auth": "dXNlcjpwYXNz"} for name in ["cloud.openshift.com", "quay.io"]}})
SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBGRmZ8rpVe7w+lbkwQpmYOk7XNHuVdX42UJLoM2pFWM clients"
# No disk is as large, so that nothing depends on the disks of this machine.
REQUIREMENTS = [{
    "version": "default",
    **{role: {"cpu_cores": 1, "ram_mib": 256, "disk_size_gb": 1_000_000} for role in ["master", "arbiter", "worker", "sno"]},
}]
# What depends on this machine, or on a network that is not here.
NOT_CHECKED = ["api-domain-name-resolved-correctly", "api-int-domain-name-resolved-correctly", "apps-domain-name-resolved-correctly",
               "dns-wildcard-not-configured", "has-default-route", "has-min-valid-disks", "ignition-downloadable", "ntp-synced",
               "sufficient-installation-disk-speed", "time-synced-between-host-and-service"]
CLUSTER_FILES = {
    "bootstrap.ign": '{"ignition":{"version":"3.2.0"}}',
    "master.ign": '{"ignition":{"version":"3.2.0"}}',
    "worker.ign": '{"ignition":{"version":"3.2.0"}}',
    "install-config.yaml": f"apiVersion: v1\npullSecret: '{PULL_SECRET}'\n",
    "kubeadmin-password": "password",
    "kubeconfig-noingress": "apiVersion: v1\nkind: Config\n",
}


class Service:
    """Ends, with its hosts, where its `with` block ends."""

    def __init__(self, program, directory):
        self.program, self.directory, self.processes = program, directory, []
        self.hosts = 0
        at = lambda name: os.path.join(directory, name)
        os.mkdir(at("files"))
        for name, text in CLUSTER_FILES.items():
            write(at(f"files/{name}"), text)
        write(at("requirements.json"), json.dumps(REQUIREMENTS))
        iso.write(at("live.iso"))
        words = ["serve", "--state-dir", at("state"), "--listen", "127.0.0.1:0", "--iso", at("live.iso"), "--cluster-files", at("files"),
                 "--requirements", at("requirements.json"), "--disable-validations", ",".join(NOT_CHECKED),
                 "--openshift-version", "4.22.9", "--poll-interval", "1", "--monitor-interval", "1"]
        process = self.start(words, stdout=subprocess.PIPE, text=True)
        line = process.stdout.readline()
        if not line.startswith("listening on "):
            raise SystemExit(f"the service does not start: {self.log()}")
        self.url = line.split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()

    def start(self, words, **options):
        with open(os.path.join(self.directory, "log"), "a") as log:
            process = subprocess.Popen([self.program, *words], stdin=subprocess.DEVNULL, stderr=log, **options)
        self.processes.append(process)
        return process

    def log(self):
        with open(os.path.join(self.directory, "log")) as log:
            return "".join(log.readlines()[-20:])

    def request(self, method, path, body=None):
        """Status and text of a reply."""
        headers = {"Content-Type": "application/json"} if body else {}
        url = f"{self.url}/api/assisted-install{path}"
        request = urllib.request.Request(url, data=body.encode() if body else None, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def infra_env(self, name):
        """An infra-env's id."""
        _, text = self.request("GET", "/v2/infra-envs")
        return next(one["id"] for one in json.loads(text) if one["name"] == name)

    def add_host(self, infra_env):
        """Starts a host and waits until its inventory is judged; gives its id."""
        self.hosts += 1
        host = f"d0000000-0000-4000-8000-{self.hosts:012x}"
        self.start(["agent", "--url", self.url, "--infra-env-id", infra_env, "--interval", "1", "--dry-run", "--force-id", host,
                    "--force-mac", f"52:54:00:00:00:{self.hosts:02x}", "--force-hostname", f"host-{self.hosts}",
                    "--forced-ipv4", f"192.168.7.{10 + self.hosts}/24"], stdout=subprocess.DEVNULL)
        for _ in range(300):
            status, text = self.request("GET", f"/v2/infra-envs/{infra_env}/hosts/{host}")
            if status == 200 and not json.loads(text)["status"].startswith("discovering"):
                return host
            time.sleep(0.1)
        raise SystemExit(f"host {host} sends no inventory: {self.log()}")


def write(path, text):
    with open(path, "w") as file:
        file.write(text)
