//! Variables that are ours by their name. One that nothing reads was meant for something, so it is named.

use kernel::spelling::nearest;

const PREFIX: &str = "LANDFALL_";
/// What is read: by options, settings of the agent, its steps, units and images of containers.
const READ: [&str; 35] = [
    "LANDFALL_AGENT_VERSION",
    "LANDFALL_ANSWER_TIMEOUT",
    "LANDFALL_APPROVE",
    "LANDFALL_AUTH",
    "LANDFALL_CACERT",
    "LANDFALL_CHECK_DEADLINE",
    "LANDFALL_HOST_ID",
    "LANDFALL_INFRA_ENV_ID",
    "LANDFALL_INSECURE",
    "LANDFALL_INTERVAL",
    "LANDFALL_LISTEN",
    "LANDFALL_LOG",
    "LANDFALL_PROXY_FILE",
    "LANDFALL_REFUSED_INTERVAL",
    "LANDFALL_RENDEZVOUS",
    "LANDFALL_RENDEZVOUS_KEY",
    "LANDFALL_RENDEZVOUS_OPTIONS",
    "LANDFALL_RENDEZVOUS_UNSIGNED",
    "LANDFALL_SERVE_OPTIONS",
    "LANDFALL_SERVE_URL",
    "LANDFALL_STATE_DIR",
    "LANDFALL_STEP",
    "LANDFALL_STEP_ACTION",
    "LANDFALL_STEP_CA",
    "LANDFALL_STEP_CHANGES_LIVE_SYSTEM",
    "LANDFALL_STEP_PROGRESS",
    "LANDFALL_STEP_TARGETS",
    "LANDFALL_STEP_TYPE",
    "LANDFALL_TOKEN",
    "LANDFALL_TOKEN_FILE",
    "LANDFALL_URL",
    // Those of the project's tests that programs inherit (docs/development.md).
    "LANDFALL_BIN",
    "LANDFALL_PEERS",
    "LANDFALL_RECORDINGS",
    "LANDFALL_SEED",
];
/// More of the tests' own.
const OF_TESTS: [&str; 20] = [
    "LANDFALL_BIN_",
    "LANDFALL_BOOT",
    "LANDFALL_BURNIN_TIME",
    "LANDFALL_CASE",
    "LANDFALL_CHROMIUM",
    "LANDFALL_CONFIGS",
    "LANDFALL_CRASH_",
    "LANDFALL_DATES",
    "LANDFALL_FUZZ_SECONDS",
    "LANDFALL_IGNITION",
    "LANDFALL_KEEP_CAPTURES",
    "LANDFALL_LOAD_",
    "LANDFALL_LONG",
    "LANDFALL_NETWORKS",
    "LANDFALL_NO_",
    "LANDFALL_OPENSHIFT_INSTALL",
    "LANDFALL_QEMU_ACCEL",
    "LANDFALL_SCREENSHOTS",
    "LANDFALL_TEST_",
    "LANDFALL_WRITE_SCHEMA",
];

/// What is wrong with the first variable of ours that nothing reads.
pub(crate) fn stray(variables: impl Iterator<Item = (String, String)>) -> Option<String> {
    let name = variables.filter(|(name, value)| !is_read(name) && !is_of_kubernetes(name, value)).map(|(name, _)| name);
    let name = name.min()?;
    let bare = |name: &'static str| name.strip_prefix(PREFIX);
    let meant = nearest(name.strip_prefix(PREFIX)?, READ.into_iter().filter_map(bare));
    let meant = meant.map_or_else(String::new, |meant| format!(": did you mean {PREFIX}{meant}?"));
    Some(format!("the environment's {} is read by nothing{meant}", name.escape_default()))
}

fn is_read(name: &str) -> bool {
    !name.starts_with(PREFIX) || READ.contains(&name) || OF_TESTS.iter().any(|start| name.starts_with(start))
}

/// A cluster tells each container of services beside it: `LANDFALL_SERVICE_HOST` of one with our name.
fn is_of_kubernetes(name: &str, value: &str) -> bool {
    let of_port = |protocol: &str| name.contains("_PORT_") && name.contains(protocol);
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || (name.ends_with("_PORT") && value.contains("://"))
        || ["_TCP", "_UDP", "_SCTP"].into_iter().any(of_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Option<String> {
        stray(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn a_misspelt_variable_is_named_with_the_one_that_was_meant() {
        assert_eq!(
            found(&[("HOME", "/"), ("LANDFALL_URL", "http://s"), ("LANDFALL_STATEDIR", "/s")]).unwrap(),
            "the environment's LANDFALL_STATEDIR is read by nothing: did you mean LANDFALL_STATE_DIR?"
        );
        assert_eq!(found(&[("LANDFALL_Q", "")]).unwrap(), "the environment's LANDFALL_Q is read by nothing");
        assert_eq!(found(&[("LANDFALL_TEST_DATE", "2028-02-29"), ("landfall", "")]), None);
    }

    #[test]
    fn what_a_cluster_tells_of_its_services_is_not_ours() {
        let of_service = [
            ("LANDFALL_SERVICE_HOST", "10.0.0.1"),
            ("LANDFALL_SERVICE_PORT_HTTPS", "8090"),
            ("LANDFALL_PORT", "tcp://10.0.0.1:8090"),
            ("LANDFALL_PORT_8090_TCP_ADDR", "10.0.0.1"),
        ];
        assert_eq!(found(&of_service), None);
        assert!(found(&[("LANDFALL_PORT", "8090")]).is_some());
    }

    #[cfg(feature = "hub")]
    #[test]
    fn every_variable_of_an_option_is_read() {
        use clap::CommandFactory;
        fn all(command: &clap::Command, found: &mut Vec<String>) {
            let variables = command.get_arguments().filter_map(clap::Arg::get_env);
            found.extend(variables.map(|name| name.to_string_lossy().into_owned()));
            command.get_subcommands().for_each(|below| all(below, found));
        }
        let mut found = Vec::new();
        all(&crate::Cli::<crate::Whole>::command(), &mut found);
        found.extend(agent::config::Key::ALL.iter().flat_map(|key| key.variables()).map(|name| (*name).to_owned()));
        let missing: Vec<&String> = found.iter().filter(|name| !is_read(name)).collect();
        assert!(missing.is_empty() && found.len() > 20, "{missing:?} {found:?}");
    }
}
