use super::*;

const ENV: &str = "bbbbbbbb-0000-0000-0000-000000000001";
const HOST: &str = "aaaaaaaa-0000-0000-0000-000000000001";

fn planned(name: Name, words: &[&str]) -> Result<Plan, String> {
    planned_with(name, words, &|_| None)
}

fn planned_with(name: Name, words: &[&str], variable: &dyn Fn(&str) -> Option<String>) -> Result<Plan, String> {
    let words = words.iter().map(|&word| word.to_owned()).collect();
    plan(Path::new(name.as_str()), name, words, variable).map_err(|(refusal, _)| refusal.to_string())
}

fn command(plan: &Plan) -> &[String] {
    let Work::Command { words, .. } = &plan.work else { panic!("{plan:?}") };
    words
}

fn document(plan: &Plan) -> Option<&str> {
    let Work::Command { document, .. } = &plan.work else { panic!("{plan:?}") };
    document.as_deref()
}

#[test]
fn other_names_are_refused_in_the_real_programs_words() {
    assert_eq!(
        "agnet".parse::<Name>().unwrap_err().to_string(),
        "unknown binary name agnet, expected one of agent, assisted-installer-controller, disk_speed_check, \
         free_addresses, installer, inventory, logs_sender, next_step_runner"
    );
    assert_eq!(Name::ALL.map(|name| name.as_str().parse::<Name>().unwrap()), Name::ALL);
    let mut names: Vec<_> = Name::ALL.map(Name::as_str).into_iter().chain([cp::NAME, "landfall"]).collect();
    names.sort_unstable();
    names.retain(|name| !api::image::AGENT_PATH.ends_with(&format!("/{name}")));
    assert_eq!(names, api::image::AGENT_LINKS);
}

#[test]
fn the_units_command_line_is_understood() {
    let plan = planned(
        Name::Agent,
        &[
            "--url",
            "https://s/x",
            "--infra-env-id",
            ENV,
            "--agent-version",
            "r.io/a:1",
            "--insecure=false",
            "--cacert",
            "/etc/assisted-service/service-ca-cert.crt",
            "--host-id",
            HOST,
        ],
    )
    .unwrap();
    assert_eq!(
        command(&plan),
        [
            "agent",
            "--url=https://s/x",
            &format!("--infra-env-id={ENV}"),
            "--agent-version=r.io/a:1",
            "--cacert=/etc/assisted-service/service-ca-cert.crt",
            "--interval=60",
            "--insecure=false",
        ],
        "and its identity is its own"
    );
    assert_eq!(plan.log, Logging { journal: true, text: None, stream: false, runs_for_long: true, is_verbose: false });
}

#[test]
fn the_reclaiming_daemonsets_command_line_is_understood() {
    let words = [
        "-url=https://s",
        &format!("-infra-env-id={ENV}"),
        &format!("-host-id={HOST}"),
        "-agent-version=r.io/a:1",
        "-insecure=true",
        "-with-journal-logging=false",
        "-with-stdout-logging=true",
    ];
    let plan = planned(Name::NextStepRunner, &words).unwrap();
    let host = format!("--host-id={HOST}");
    assert_eq!(command(&plan).iter().rev().take(2).collect::<Vec<_>>(), ["poll", &host]);
    assert!(command(&plan).contains(&"--insecure=true".to_owned()));
    assert_eq!(plan.log, Logging { journal: false, text: None, stream: true, runs_for_long: true, is_verbose: false });
    assert_eq!(planned(Name::NextStepRunner, &words[..2]).unwrap_err(), "--host-id is required, but missing or empty");
}

#[test]
fn what_a_program_needs_it_says() {
    assert_eq!(planned(Name::Agent, &[]).unwrap_err(), "--url is required, but missing or empty");
    assert!(planned(Name::Agent, &["--url=x", "--infra-env-id="]).unwrap_err().starts_with("--infra-env-id"));
    assert_eq!(planned(Name::Agent, &["--help"]).unwrap_err(), "flag: help requested");
    let given = ["-url=x", "-cluster-id=y", "-host-id=z"];
    for missing in 0..given.len() {
        let words: Vec<_> = given.iter().enumerate().filter(|(n, _)| *n != missing).map(|(_, word)| *word).collect();
        let name = given[missing].split('=').next().unwrap();
        assert_eq!(
            planned(Name::LogsSender, &words).unwrap_err(),
            format!("missing required {name} argument/flag"),
            "{words:?}"
        );
    }
}

#[test]
fn requests_are_words() {
    let plan = planned(Name::FreeAddresses, &["--with-text-logging", r#"["10.0.0.0/24"]"#]).unwrap();
    assert_eq!(document(&plan), Some(r#"["10.0.0.0/24"]"#));
    assert_eq!(plan.log.text.as_deref(), Some(Path::new("/var/log/free_addresses.log")));
    for words in [&[][..], &["a", "b"]] {
        assert!(planned(Name::FreeAddresses, words).unwrap_err().contains("exactly one argument"));
    }
    let plan = planned(Name::DiskSpeedCheck, &["other", r#"{"path":"/dev/loop99"}"#]).unwrap();
    assert_eq!((document(&plan), plan.failed), (Some(r#"{"path":"/dev/loop99"}"#), 255));
}

#[test]
fn the_environment_of_a_dry_run_gives_defaults() {
    let variable = |name: &str| {
        let value = match name {
            "DRYCONFIG_DRY_ENABLE" => "true",
            "DRY_ENABLE" => "nonsense that is not looked at",
            "DRY_HOST_ID" => HOST,
            "DRY_FORCED_HOST_IPV4" => "10.0.0.1/24",
            _ => return None,
        };
        Some(value.to_owned())
    };
    let words = ["-url=x", "-infra-env-id=y", "--force-mac", "52:54:00:00:00:01", "-forced-ipv4=10.0.0.2/24"];
    let plan = planned_with(Name::Agent, &words, &variable).unwrap();
    let dry = command(&plan).iter().skip_while(|word| *word != "--dry-run").collect::<Vec<_>>();
    let id = format!("--force-id={HOST}");
    assert_eq!(dry, ["--dry-run", &id, "--force-mac=52:54:00:00:00:01", "--forced-ipv4=10.0.0.2/24"]);
    let words = [&words[..], &["--dry-run=0"]].concat();
    let plan = planned_with(Name::Agent, &words, &variable).unwrap();
    assert!(!command(&plan).iter().any(|word| word.contains("force")), "{plan:?}");
    let broken = |name: &str| (name == "DRY_ENABLE").then(|| "maybe".to_owned());
    assert!(planned_with(Name::Inventory, &[], &broken).unwrap_err().contains("\"maybe\" for -dry-run"));
}

#[test]
fn an_inventory_takes_the_newer_services_limits() {
    let plan = planned(Name::Inventory, &["-output-max-size=1000", "--gpu-config-file", "/g.yaml"]).unwrap();
    assert_eq!(
        command(&plan),
        ["inventory", "--gpu-config-file=/g.yaml", "--output-max-size=1000", "--disk-min-size=0"]
    );
    assert_eq!(plan.failed, 0);
    let plan = planned(Name::Inventory, &["--dry-run", "-force-hostname=h7", "--disk-min-size=-1"]).unwrap();
    let dry = DryRun { hostname: Some("h7".into()), ..DryRun::default() };
    assert_eq!(plan.work, Work::PretendedInventory { dry, limits: ::inventory::Limits::default() });
    let plan = planned(Name::DiskSpeedCheck, &["--dry-run", "{}"]).unwrap();
    assert_eq!(plan.work, Work::PretendedSpeed { request: "{}".into() });
}

#[test]
fn a_document_is_there_to_read_while_the_command_runs() {
    let plan = Plan {
        log: Logging::default(),
        work: Work::Command { words: words(["x", DOCUMENT]), document: Some("the request".into()) },
        failed: 1,
    };
    let landfall = Landfall {
        start_log: &|_| (),
        run: &|words| {
            assert_eq!(words[0], "x");
            assert_eq!(std::fs::read_to_string(&words[1])?, "the request");
            Ok(ExitCode::from(7))
        },
    };
    assert_eq!(format!("{:?}", carry_out(&plan, &landfall).unwrap()), format!("{:?}", ExitCode::from(7)));
}

#[test]
fn what_the_real_agent_gives_the_installer_is_an_installation() {
    let words = [
        "--role",
        "bootstrap",
        "--infra-env-id",
        ENV,
        "--cluster-id",
        ENV,
        "--host-id",
        HOST,
        "--boot-device",
        "/dev/sdz",
        "--url",
        "https://s:8443",
        "--controller-image",
        "r.io/c:1",
        "--agent-image",
        "r.io/a:1",
        "--control-plane-count",
        "3",
        "--mco-image",
        "r.io/m:1",
        "--must-gather-image",
        r#"{"ocp":"r.io/g:1"}"#,
        "--openshift-version",
        "4.22.9",
        "--format-disk",
        "/dev/sdx",
        "--format-disk",
        "/dev/sdy",
        "--insecure",
        "--skip-installation-disk-cleanup",
        "--cacert",
        "/etc/ca.crt",
        "--installer-args",
        r#"["--append-karg","ip=52-54-00-aa-bb-00:dhcp"]"#,
        "--enable-skip-mco-reboot",
        "--notify-num-reboots",
        "--service-ips",
        "10.0.0.1,10.0.0.2",
        "--http-proxy",
        "http://p:3128",
        "--no-proxy",
        "a,b",
        "-verbose",
    ];
    let plan = planned(Name::Installer, &words).unwrap();
    let expected = [
        "install",
        "--reboot",
        "--role=bootstrap",
        &format!("--infra-env-id={ENV}"),
        &format!("--cluster-id={ENV}"),
        &format!("--host-id={HOST}"),
        "--boot-device=/dev/sdz",
        "--url=https://s:8443",
        "--openshift-version=4.22.9",
        "--mco-image=r.io/m:1",
        r#"--must-gather-image={"ocp":"r.io/g:1"}"#,
        "--controller-image=r.io/c:1",
        "--agent-image=r.io/a:1",
        "--cacert=/etc/ca.crt",
        r#"--installer-args=["--append-karg","ip=52-54-00-aa-bb-00:dhcp"]"#,
        "--service-ips=10.0.0.1,10.0.0.2",
        "--http-proxy=http://p:3128",
        "--no-proxy=a,b",
        "--format-disk=/dev/sdx",
        "--format-disk=/dev/sdy",
        "--control-plane-count=3",
        "--insecure",
        "--skip-installation-disk-cleanup",
        "--enable-skip-mco-reboot",
        "--notify-num-reboots",
    ];
    assert_eq!(command(&plan), expected);
    assert_eq!(plan.failed, 1);
    assert!(plan.log.is_verbose && plan.log.journal && plan.log.text.is_some());
    let error = planned(Name::Installer, &["--installer-args=[1]"]).unwrap_err();
    assert_eq!(error, "--installer-args is not a JSON list of strings");
    assert!(planned_with(Name::Installer, &[], &|name| (name == "DRY_ENABLE").then(|| "true".to_owned())).is_err());
}
