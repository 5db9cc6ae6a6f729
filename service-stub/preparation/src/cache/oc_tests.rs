//! How `oc` is called, and what becomes of its failures.

use super::*;
use api::Secret;

/// A script in place of `oc`, that writes down how it was called and copies this test as the program.
struct World {
    directory: TempDir,
    oc: Oc,
    secret: Secret,
}

impl World {
    /// `extract` is what it does when it is not asked for help.
    fn new(help: &str, extract: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("oc");
        let log = directory.path().join("log");
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *--help) echo '{help}'; exit 0;; esac\n\
             for option in \"$@\"; do echo \"$option\" >> {log}; case $option in\n\
             --to=*) to=${{option#--to=}};; --command=*) command=${{option#--command=}};;\n\
             --*-file=*|--registry-config=*) cat \"${{option#*=}}\" >> {log}; echo >> {log};; esac; done\n{extract}\n",
            log = log.display()
        );
        testkit::process::place(&program, script);
        let oc = Oc { program, mirrors: Vec::new(), release_mirror: None, time: Duration::from_secs(60) };
        Self { directory, oc, secret: Secret::new("{\"auths\":{}}") }
    }

    fn extract(&self, stop: &dyn Fn() -> bool) -> Result<PathBuf, ExtractError> {
        let store = self.directory.path().join("store");
        fs::create_dir_all(&store).unwrap();
        let path = store.join("partial");
        fs::write(&path, "").unwrap();
        let wanted = Wanted {
            image: "r.io/release:4.22.9",
            architecture: "x86_64",
            version: "4.22.9",
            pull_secret: &self.secret,
            program: "openshift-install",
        };
        let result = self.oc.extract(&wanted, 1, &path, stop);
        assert_eq!(fs::read_dir(&store).unwrap().count(), 1, "nothing is left beside the program");
        result.map(|()| path)
    }

    /// What it was called with, temporary names left out.
    fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        let shown = |line: &str| match line.split_once('=') {
            Some((name @ ("--to" | "--registry-config" | "--idms-file" | "--icsp-file"), _)) => name.to_owned(),
            _ => line.to_owned(),
        };
        text.lines().map(shown).collect()
    }
}

/// Copies this test as the program, which is one for this machine.
fn copy() -> String {
    format!("cp {} \"$to/$command\"", std::env::current_exe().unwrap().display())
}

const NO_MIRRORS: [&str; 8] = [
    "adm",
    "release",
    "extract",
    "--command=openshift-install",
    "--to",
    "--insecure=false",
    "r.io/release:4.22.9",
    "--registry-config",
];

#[test]
fn the_command_is_the_published_one() {
    let world = World::new("", &copy());
    let path = world.extract(&|| false).unwrap();
    assert!(path.metadata().unwrap().len() > 1000);
    assert_eq!(world.log(), [&NO_MIRRORS[..], &["{\"auths\":{}}"]].concat());
}

#[test]
fn mirrors_are_passed_in_the_form_that_it_knows() {
    for (help, option, kind) in [
        ("--idms-file=X --icsp-file=Y", "--idms-file", "ImageDigestMirrorSet"),
        ("--icsp-file=Y", "--icsp-file", "ImageContentSourcePolicy"),
    ] {
        let mut world = World::new(help, &copy());
        world.oc.mirrors = vec![("quay.io/a".into(), vec!["m.io/a".into(), "m.io/b".into()])];
        world.oc.release_mirror = Some("m.io/release:1".into());
        world.extract(&|| false).unwrap();
        let log = world.log();
        assert_eq!(log[5..8], ["--insecure=false".to_owned(), option.to_owned(), log[7].clone()]);
        let document: Value = serde_json::from_str(&log[7]).unwrap();
        assert_eq!(document["kind"], kind);
        let listed = json!([{"source": "quay.io/a", "mirrors": ["m.io/a", "m.io/b"]}]);
        assert!(document["spec"].as_object().unwrap().values().any(|found| *found == listed), "{document}");
        assert_eq!(log[8], "r.io/release:4.22.9", "mirrors count before the image's mirror");
    }
    let mut world = World::new("", &copy());
    world.oc.release_mirror = Some("m.io/release:1".into());
    world.extract(&|| false).unwrap();
    assert_eq!(world.log()[5..7], ["--insecure=true", "m.io/release:1"]);
}

#[test]
fn the_mirrors_are_those_of_the_service_by_digest() {
    let text = "[[registry]]\nlocation = 'quay.io/a'\n[[registry.mirror]]\nlocation = 'm.io/a'\n\
                [[registry.mirror]]\nlocation = 'm.io/tags'\npull-from-mirror = 'tag-only'\n\
                [[registry]]\nlocation = 'quay.io/b'\n[[registry.mirror]]\nlocation = 'm.io/b'\npull-from-mirror = 'tag-only'\n\
                [[registry]]\nlocation = 'quay.io/c'\n";
    let found = mirrors(&netcheck::image::registries::parse(text).unwrap());
    assert_eq!(found, [("quay.io/a".to_owned(), vec!["m.io/a".to_owned()])]);
}

#[test]
fn failures_say_what_the_command_said() {
    let world = World::new("", "echo out; echo refused >&2; exit 3");
    let error = world.extract(&|| false).unwrap_err();
    assert!(error.may_pass());
    let text = error.to_string();
    assert!(
        text.starts_with("command '") && text.contains("/oc adm release extract --command=openshift-install"),
        "{text}"
    );
    assert!(text.ends_with("exited with non-zero exit code 3: out\n\nrefused\n"), "{text}");

    let script = World::new("", "echo '#!/bin/sh' > $to/$command");
    assert_eq!(script.extract(&|| false).unwrap_err().to_string(), "the program in the image can't be used");
    let nothing = World::new("", "exit 0");
    assert!(matches!(nothing.extract(&|| false), Err(ExtractError::Store { .. })));
    let mut missing = World::new("", "");
    missing.oc.program = "/nonexistent/oc".into();
    assert!(matches!(missing.extract(&|| false), Err(ExtractError::Start { .. })));
}

#[test]
fn a_command_that_hangs_is_ended() {
    let mut world = World::new("", "sleep 1000");
    let start = Instant::now();
    let stop = || start.elapsed() > Duration::from_millis(200);
    assert!(matches!(world.extract(&stop), Err(ExtractError::Cancelled)));
    world.oc.time = Duration::from_millis(200);
    assert!(matches!(world.extract(&|| false), Err(ExtractError::Slow { .. })));
}
