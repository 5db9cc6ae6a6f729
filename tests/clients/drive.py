"""Calls of published clients to a service of ours: each must end as its row in a table says.

    drive.py LANDFALL
"""

import argparse
import csv
import json
import os
import re
import shlex
import signal
import sys
import tempfile
import traceback

import assisted_service_client
from ailib import cli
from assisted_service_client.rest import ApiException
from service import PULL_SECRET, SSH_KEY, Service, write

TABLES = os.path.dirname(os.path.abspath(__file__))
# Of one call, seconds.
LIMIT = 40
# What commands read in their directory.
INPUTS = {
    "openshift_pull.json": PULL_SECRET,
    "host.ign": '{"ignition":{"version":"3.1.0"}}',
    "manifests/99-a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n",
    "network.yaml": "- interfaces:\n  - {name: eth0, type: ethernet, state: up, mac-address: '52:54:00:00:00:0a', ipv4: {enabled: true, dhcp: true}}\n",
}
# Replies whose items the client leaves as they are, and the models of these.
ITEMS = {"v2_list_clusters": "Cluster", "v2_list_hosts": "Host", "list_cluster_hosts": "Host", "list_infra_envs": "InfraEnv",
         "v2_list_events": "Event", "v2_list_cluster_manifests": "Manifest", "v2_list_of_cluster_operators": "MonitoredOperator"}
# Documents in texts of hosts.
TEXTS = {"inventory": "Inventory", "connectivity": "ConnectivityReport", "ntp_sources": "list[NtpSource]"}


def rows(name):
    with open(os.path.join(TABLES, name), newline="") as table:
        return list(csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE))


class Judge:
    """Compares results with tables."""

    def __init__(self):
        self.rows = self.wrong = 0

    def compare(self, call, expected, found, output, says=""):
        self.rows += 1
        if found == expected and says in output:
            return
        self.wrong += 1
        wanted = f"{expected} and '{says}'" if says else expected
        print(f"{call}: {found}, but the table says {wanted}:\n    " + "\n    ".join(output.strip().splitlines()[-8:]))

    def complete(self, what, present, listed):
        """A client's calls and those of a table must be the same."""
        for words in sorted(present ^ listed):
            self.compare(f"{what} {' '.join(words)}", "in both", "in the table only" if words in listed else "in the client only", "")


def aicli(words, directory):
    """Result and output of a command line, in a fork of this process, which has loaded the modules."""
    sys.stdout.flush()
    read, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.chdir(directory)
            for descriptor in [1, 2]:
                os.dup2(write_end, descriptor)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.close(read)
            signal.alarm(LIMIT)
            sys.argv = ["aicli", *words]
            cli.cli()
            code = 0
        except SystemExit as end:
            code = 0 if end.code is None else 1 if isinstance(end.code, str) else end.code
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    os.close(write_end)
    with os.fdopen(read, errors="replace") as pipe:
        output = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "no end", output
    # Errors of its own are red, and often no failure.
    failed = status != 0 or "\033[0;31m" in output
    return "refused" if failed else "works", re.sub(r"\033\[[0-9;]*m", "", output)


def aicli_commands():
    """Verbs and nouns of the program's own parser, without aliases."""
    found = set()

    class Seen(Exception):
        pass

    def parse_args(self, *_):
        for verb, parser in choices(self):
            found.update((verb, noun) for noun, _ in choices(parser))
        raise Seen

    def choices(parser):
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                seen = set()
                for name, parser in action.choices.items():
                    if id(parser) not in seen:
                        seen.add(id(parser))
                        yield name, parser

    original, argparse.ArgumentParser.parse_args = argparse.ArgumentParser.parse_args, parse_args
    sys.argv = ["aicli", "list"]
    try:
        cli.cli()
    except Seen:
        pass
    finally:
        argparse.ArgumentParser.parse_args = original
    return found


def run_aicli(service, directory, judge):
    table = rows("aicli.tsv")
    judge.complete("aicli", aicli_commands(), {(row["verb"], row["noun"]) for row in table})
    for row in table:
        if row["result"] == "not run":
            continue
        words = shlex.split(row["arguments"])
        for infra_env in row["hosts"].split():
            service.add_host(service.infra_env(infra_env))
        front = words[:2] if words[:1] == ["-o"] else []
        result, output = aicli([*front, row["verb"], row["noun"], *words[len(front):]], directory)
        judge.compare(f"aicli {row['verb']} {row['noun']} {row['arguments']}", row["result"], result, output, row["says"])


class Known(dict):
    """What earlier rows have made, for `$name` in later ones; a host when it is first asked for."""

    def __init__(self, service):
        self.service = service

    def __missing__(self, name):
        if name == "host":
            self[name] = self.service.add_host(self["infra_env"])
            return self[name]
        if name == "pull_secret":
            return json.dumps(PULL_SECRET)[1:-1]
        raise SystemExit(f"no row has made ${name}")

    def fill(self, text):
        return re.sub(r"\$(\w+)", lambda match: self[match[1]], text)


class Text:
    """As the client has a reply."""

    def __init__(self, data):
        self.data = data


def check_reply(client, method, reply):
    """Raises ValueError on what a model refuses of a reply's parts."""
    model = ITEMS.get(method)
    items = [client.deserialize(Text(json.dumps(item)), model) for item in reply] if model else [reply]
    for item in items:
        if isinstance(item, assisted_service_client.Host):
            for field, kind in TEXTS.items():
                if text := getattr(item, field):
                    client.deserialize(Text(text), kind)


def api_methods():
    """Classes and methods of the client."""
    classes = {name: part for name, part in vars(assisted_service_client.api).items() if name.endswith("Api")}
    methods = {(name, method) for name, part in classes.items() for method in vars(part) if not method.startswith("_")}
    return {(name, method) for name, method in methods if not method.endswith("_with_http_info")}


def run_api(service, judge):
    configuration = assisted_service_client.Configuration()
    configuration.host = f"{service.url}/api/assisted-install"
    client = assisted_service_client.ApiClient(configuration)
    known = Known(service)
    table = rows("api.tsv")
    judge.complete("method", api_methods(), {(row["api"], row["method"]) for row in table})
    for row in table:
        method, arguments = row["method"], json.loads(known.fill(row["arguments"] or "{}"))
        call = getattr(getattr(assisted_service_client.api, row["api"])(client), method)
        output = ""
        try:
            reply = call(**arguments, _request_timeout=LIMIT)
            check_reply(client, method, reply)
            result = "works"
            if row["makes"]:
                known[row["makes"]] = reply.id
        except ApiException as error:
            result, output = str(error.status), str(error.body)
        except Exception:
            result, output = "reply refused", traceback.format_exc()
        print(f"{row['api']}.{method}: {result}")
        judge.compare(f"{row['api']}.{method}", row["result"], result, output)
        if not row["why"] and result != "works":
            judge.compare(f"{row['api']}.{method}", "works, or a reason why not", result, output)


def run_ui(service, judge):
    known = Known(service)
    for row in rows("ui.tsv"):
        path = known.fill(row["path"])
        status, text = service.request(row["method"], path, known.fill(row["body"]))
        if row["makes"] and status == 201:
            known[row["makes"]] = json.loads(text)["id"]
        judge.compare(f"{row['method']} {path}", row["result"], str(status), text.decode(errors="replace")[:400])


def main(program):
    judge = Judge()
    with tempfile.TemporaryDirectory(prefix="landfall-clients-") as work:
        home, directory = os.path.join(work, "home"), os.path.join(work, "directory")
        for new in [home, f"{home}/.ssh", directory, f"{directory}/manifests"]:
            os.mkdir(new)
        write(f"{home}/.ssh/id_ed25519.pub", SSH_KEY)
        for name, text in INPUTS.items():
            write(os.path.join(directory, name), text)
        for name in [name for name in os.environ if name.startswith("AI_") or name.lower().endswith("_proxy")]:
            del os.environ[name]
        with Service(program, work) as service:
            os.environ.update(HOME=home, AI_URL=service.url)
            os.chdir(directory)
            run_ui(service, judge)
            run_aicli(service, directory, judge)
            run_api(service, judge)
            if judge.wrong:
                print(service.log())
    print(f"clients: {judge.rows - judge.wrong} of {judge.rows} calls end as the tables say")
    return 1 if judge.wrong else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
