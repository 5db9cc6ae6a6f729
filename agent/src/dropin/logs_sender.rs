//! `logs_sender`: `landfall logs send` (docs/compatibility.md#log-sequence).

use super::{
    DOCUMENT, NEGATIVE, Plan, Refusal, Work,
    flags::{Flag, Values},
    logging::{self, logging},
    passed_on, words,
};

/// What the real program requires, whatever its defaults say.
const REQUIRED: [&str; 3] = ["url", "cluster-id", "host-id"];
const PASSED_ON: [&str; 7] = ["url", "cluster-id", "infra-env-id", "host-id", "since", "cacert", "masters-ips"];
/// Its switches and ours.
const SWITCHES: [(&str, &str); 4] = [
    ("bootstrap", "--bootstrap"),
    ("dont-clean", "--keep"),
    ("insecure", "--insecure"),
    ("with-installer-gather-logging", "--installer-gather"),
];

pub(super) fn flags(dry: Vec<Flag>) -> Vec<Flag> {
    let own = [
        Flag::text("since", "", "Leave out older entries of the journal; as journalctl's option"),
        Flag::text("url", "", "Base URL of the service; required"),
        Flag::text("cluster-id", "", "Cluster of the host; required"),
        Flag::text("infra-env-id", "", "Infra-env of the host"),
        Flag::text("host-id", "host-id", "The host; required"),
        Flag::text(
            "pull-secret-token",
            "",
            "Token; safer in the variable PULL_SECRET_TOKEN, where no other user sees it",
        ),
        Flag::bool("dont-clean", false, "Leave the collected files where they are"),
        Flag::bool("bootstrap", false, "Collect what a bootstrap host has too"),
        Flag::bool(
            "with-installer-gather-logging",
            false,
            "Collect the whole journal, core dumps and the kernel's log too",
        ),
        Flag::text("cacert", "", "PEM bundle trusted in addition to the system's roots"),
        Flag::bool("insecure", false, "Do not verify the service's certificate"),
        Flag::text("masters-ips", "", "Addresses of the control plane, comma-separated"),
    ];
    own.into_iter().chain(logging::flags(true)).chain(dry).collect()
}

pub(super) fn plan(values: &Values, _variable: &dyn Fn(&str) -> Option<String>) -> Result<Plan, Refusal> {
    if let Some(missing) = REQUIRED.into_iter().find(|flag| !values.is_given(flag)) {
        return Err(Refusal::Required(missing));
    }
    let log = logging(values, "logs-sender", false);
    let mut words = words(["logs", "send"]);
    words.extend(passed_on(values, &PASSED_ON));
    let switch = |flag: &str, ours: &str| values.is_on(flag).then(|| ours.to_owned());
    words.extend(SWITCHES.into_iter().filter_map(|(flag, ours)| switch(flag, ours)));
    // Not as a word: usage errors show those.
    let token = values.text("pull-secret-token");
    let document = (!token.is_empty()).then(|| token.to_owned());
    if document.is_some() {
        words.extend(["--token-file".to_owned(), DOCUMENT.to_owned()]);
    }
    Ok(Plan { log, work: Work::Command { words, document }, failed: NEGATIVE })
}
