//! The differences from the recordings that may be, each with its reason. Everything else fails a scenario.

use super::compare::{Difference, Direction};

/// A row: in which kinds of exchanges (`*` stands for anything), which leaf, and why. `value of` means leaves that both have.
#[derive(Clone, Copy)]
pub(crate) struct Row(pub &'static str, pub &'static str, pub &'static str);

/// In both directions: what is another in each run.
const VOLATILE: &[Row] = &[
    Row("*", "* header date", "the time"),
    Row("register", "value of response body.*_at", "the time"),
    Row("poll", "value of query timestamp", "the time"),
    Row("*", "value of request header host", "the address that this test listens at"),
    Row("*", "value of request header x-request-id", "a new one for each poll"),
    Row("*", "* header content-length", "the body's length, and the body is compared"),
    Row("upload of logs*", "value of request header content-type", "the boundary is a new one for each form"),
    Row("upload of logs*", "value of request body.parts[].bytes", "how much the logs are"),
    Row("reply inventory", "value of request body.output.cpu.*", "this machine's processors"),
    Row("reply inventory", "request body.output.cpu.frequency", "the recording machine tells none"),
    Row("reply inventory", "value of request body.output.memory.*", "this machine's memory"),
    Row(
        "reply inventory",
        "value of request body.output.boot.command_line",
        "the recording machine's kernel had another",
    ),
    Row("reply inventory", "value of request body.output.interfaces[].name", "the tests' interfaces are called ens3"),
    Row("reply inventory", "value of request body.output.routes[].interface", "the tests' interfaces are called ens3"),
    Row("reply inventory", "value of request body.output.*serial*", "each host has serial numbers of its own"),
    Row("reply inventory", "value of request body.output.hostname", "each host has a name of its own"),
    Row("reply inventory", "value of request body.output.interfaces[].*address*", "each host has addresses of its own"),
    Row(
        "reply free-network-addresses",
        "value of request body.output[].free_addresses[]",
        "other hosts are in this test's network",
    ),
    Row(
        "reply ntp-synchronizer",
        "value of request body.output.ntp_sources[].source_state",
        "chronyd has only begun at the first poll",
    ),
    Row(
        "reply installation-disk-speed-check",
        "value of request body.output.io_sync_duration",
        "how fast this machine's disk is",
    ),
    Row("progress Writing image to disk …%", "value of request body.progress_info", "how fast this machine's disk is"),
    Row("*", "*domain_name*", "each scenario names its cluster"),
    Row("*", "*cnames*", "each scenario names its cluster"),
    Row("reply domain-resolution", "request body.output.resolutions[].ipv*", "which names this test's server knows"),
    Row("poll", "value of step api-vip-connectivity-check.args[].url", "each scenario names its cluster"),
    Row("poll", "value of step connectivity-check.args[][].*", "which hosts there are"),
    Row("reply connectivity-check", "value of request body.output.remote_hosts[].*address", "which hosts there are"),
    Row("reply connectivity-check", "value of request body.output.remote_hosts[].*mac", "which hosts there are"),
    Row(
        "reply connectivity-check",
        "value of request body.output.remote_hosts[].*outgoing_nic",
        "the tests' interfaces are called ens3",
    ),
    Row(
        "reply connectivity-check",
        "value of request body.output.remote_hosts[].*average_rtt_ms",
        "how fast this machine is",
    ),
    Row("poll", "value of step install.args[].installer_args[]", "the image is this test's"),
    Row("poll", "value of step install.args[].mco_image", "the recordings name two releases' images"),
    Row("poll", "value of step install.args[].must_gather_image", "the recordings name two releases' images"),
    Row("poll", "value of step verify-vips.args[][].*", "each scenario names its cluster"),
    Row("GET cluster*", "request header x-request-id", "the recorded installers ran dry, and sent none"),
    Row("download of the host's ignition", "value of response header content-disposition", "the host's role and id"),
    Row("download*", "response body.*", "configs of the test's own, which no program of OpenShift's made"),
];

/// Our requests beside those of the real agent and installer.
const OURS: &[Row] = &[
    Row("*", "request header user-agent", "names the program"),
    Row("*", "request header accept-encoding", "ours takes no packed answers"),
    Row("poll", "request header landfall-steps", "extensions that our agent carries out; a service overlooks it"),
    Row("logs requested", "request header x-request-id", "the real installer sends none here"),
    Row("GET cluster*", "query exclude-hosts", "the real one says false where ours says nothing"),
    Row(
        "GET cluster*",
        "response header *-encoding",
        "the recorded one was asked by ours, which takes no packed answers",
    ),
    Row(
        "logs *",
        "request header discovery_agent_version",
        "our logs step is the agent's; the real one's is a program that says no version",
    ),
    Row(
        "upload of logs*",
        "request header discovery_agent_version",
        "our logs step is the agent's; the real one's is a program that says no version",
    ),
    Row("GET cluster*", "response body.*", "the real service's own words for the state that the cluster is in"),
    Row("reply install, failed", "request body.error", "the installer's own log"),
    Row("reply install, failed", "request body.exit_code", "the recorded installer ended in dry mode"),
];

/// The responses of our service beside those of the real one.
const OUR_SERVICE: &[Row] = &[
    Row("*", "response header x-content-type-options", "no browser takes what ours answers for a page"),
    Row("*", "response header vary", "ours says so only where it has packed an answer"),
    Row("upload of logs*", "response header connection", "ours reads nothing after a body in chunks"),
    Row("GET cluster", "value of response body.*", "the state that the cluster is in"),
    Row("GET cluster", "response body.hosts[].progress.*", "the state that the host is in"),
    Row("GET cluster", "response body.hosts[].installer_version", "the host is not told to install yet"),
    Row("GET cluster", "response body.*logs_info", "which logs have come so far"),
    Row(
        "GET cluster",
        "response body.openshift_cluster_id",
        "the real one reads it from the cluster's files when it prepares them, ours when the cluster is installed",
    ),
    Row("GET cluster", "response body.progress.*", "the state that the cluster is in"),
    Row(
        "GET cluster",
        "response body.hosts[].disks_info.*",
        "a check that our service asks for with --disk-speed-check",
    ),
    Row("GET cluster", "response body.hosts[].images_status.*", "a check that our service asks for with --check-image"),
    Row("GET cluster", "response body.hosts[].inventory.cpu.frequency", "the real agent tells none here"),
    Row("GET cluster", "response header transfer-encoding", "ours knows the length"),
    Row("*", "response header content-encoding", "ours packs smaller answers, too"),
];

/// Why a difference may be; None where it may not.
pub(crate) fn reason(
    direction: Direction,
    scenario: &[Row],
    kind: &str,
    difference: &Difference,
) -> Option<&'static str> {
    let own = match direction {
        Direction::OursAtTheRealService => OURS,
        Direction::TheRealOnesAtOurs => OUR_SERVICE,
    };
    let both = difference.seen.is_some() && difference.recorded.is_some();
    let is_leaf = |pattern: &str| match pattern.strip_prefix("value of ") {
        Some(pattern) => both && matches(pattern, &difference.leaf),
        None => matches(pattern, &difference.leaf),
    };
    let all = VOLATILE.iter().chain(own).chain(scenario);
    let row = { all }.find(|row| matches(row.0, kind) && is_leaf(row.1))?;
    Some(row.2)
}

/// `*` in a pattern stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(start) else { return false };
    text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| matches(rest, &text[at..]))
}

#[test]
fn a_star_stands_for_any_text() {
    for (pattern, text, expected) in [
        ("*", "", true),
        ("a*", "a", true),
        ("*c", "abc", true),
        ("a*c", "abd", false),
        ("*b*", "abc", true),
        ("a", "ab", false),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
}
