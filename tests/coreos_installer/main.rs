//! `landfall iso`, `pxe`, `dev` and `pack`, called by coreos-installer's name, beside the released program: what is said, how it
//! ends, and every byte that is left behind.
#![allow(clippy::unwrap_used)]

mod cases;
mod download;
mod fiemap;
mod media;
mod osmet;

use cases::{CASES, Case, Part};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The released program, named by COREOS_INSTALLER or in PATH.
fn peer() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|directory| directory.join("coreos-installer"));
    let named = std::env::var_os("COREOS_INSTALLER").map(PathBuf::from);
    let found = named.into_iter().chain(in_path).find(|path| path.is_file());
    if found.is_none() {
        testkit::skip::because("there is no coreos-installer; name one in COREOS_INSTALLER");
    }
    found
}

/// What a row of commands came to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    codes: Vec<Option<i32>>,
    stdout: Vec<u8>,
    stderr: String,
    /// Path, permission bits and content of each file.
    files: BTreeMap<PathBuf, (u32, Vec<u8>)>,
}

fn run(program: &Path, case: &Case, material: &Path) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    let mut outcome = Outcome::default();
    for name in case.needs() {
        let from = material.join(&name);
        if from.is_file() {
            fs::copy(from, directory.path().join(name)).unwrap();
        }
    }
    for line in case.lines.split(';') {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        let mut command = Command::new(program);
        command.current_dir(directory.path()).stdin(Stdio::null()).env("TMPDIR", directory.path());
        command.env_remove("RUST_BACKTRACE").env_remove("RUST_LIB_BACKTRACE");
        if let Some(at) = words.iter().position(|word| *word == "<") {
            command.stdin(File::open(directory.path().join(words[at + 1])).unwrap());
            words.drain(at..);
        }
        let exit = command.args(words.iter().map(|word| word.replace('~', " "))).output().unwrap();
        outcome.codes.push(exit.status.code());
        outcome.stdout.extend(exit.stdout);
        outcome.stderr.push_str(&String::from_utf8_lossy(&exit.stderr));
    }
    collect(directory.path(), directory.path(), &mut outcome.files);
    outcome.stderr = without_random_names(&outcome.stderr).replace(directory.path().to_str().unwrap(), "DIRECTORY");
    outcome
}

fn collect(root: &Path, directory: &Path, files: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let mode = path.symlink_metadata().unwrap().permissions().mode() & 0o7777;
        let name = path.strip_prefix(root).unwrap().to_owned();
        if path.is_dir() {
            files.insert(name, (mode, Vec::new()));
            collect(root, &path, files);
        } else {
            files.insert(name, (mode, fs::read(&path).unwrap()));
        }
    }
}

/// Names of temporary files end in six characters that nobody chose.
fn without_random_names(text: &str) -> String {
    let mut parts = text.split(".coreos-installer-temp-");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| format!("{text}.coreos-installer-temp-XXXXXX{}", part.get(6..).unwrap_or_default()))
}

/// Where the two differ, apart from what the case says they may differ in.
fn differences(case: &Case, ours: &Outcome, theirs: &Outcome) -> Vec<String> {
    let mut found = Vec::new();
    let may = |part: Part| case.differs.is_some_and(|(parts, _)| parts.contains(&part));
    if ours.codes != theirs.codes && !may(Part::Code) {
        found.push(format!("exit codes {:?}, and theirs {:?}", ours.codes, theirs.codes));
    }
    if ours.stdout != theirs.stdout && !may(Part::Stdout) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(3000)]).into_owned();
        found.push(format!("stdout\n{}\nand theirs\n{}", text(&ours.stdout), text(&theirs.stdout)));
    }
    if ours.stderr != theirs.stderr && !may(Part::Stderr) {
        found.push(format!("stderr\n{}\nand theirs\n{}", ours.stderr, theirs.stderr));
    }
    if !may(Part::Files) {
        let names: Vec<&PathBuf> = ours.files.keys().chain(theirs.files.keys()).collect();
        for name in names.into_iter().collect::<std::collections::BTreeSet<_>>() {
            let (our, their) = (ours.files.get(name), theirs.files.get(name));
            if our != their {
                let said = |file: Option<&(u32, Vec<u8>)>| {
                    file.map(|(mode, bytes)| format!("{mode:o}, {} bytes", bytes.len()))
                };
                let same = our.zip(their).and_then(|((_, a), (_, b))| a.iter().zip(b).position(|(a, b)| a != b));
                found.push(format!(
                    "{}: {:?}, and theirs {:?}; first difference {same:?}",
                    name.display(),
                    said(our),
                    said(their)
                ));
            }
        }
    }
    found
}

#[test]
fn every_command_says_and_leaves_what_the_released_program_does() {
    let Some(peer) = peer() else { return };
    let material = tempfile::tempdir().unwrap();
    if media::make(material.path()).is_none() {
        return;
    }
    let ours = tempfile::tempdir().unwrap();
    let program = ours.path().join("coreos-installer");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_landfall"), &program).unwrap();

    let only = std::env::var("LANDFALL_CASE").unwrap_or_default();
    let mut failed = Vec::new();
    let mut compared = 0;
    for case in CASES.iter().filter(|case| case.lines.contains(&only)) {
        let (ours, theirs) = (run(&program, case, material.path()), run(&peer, case, material.path()));
        compared += 1;
        let found = differences(case, &ours, &theirs);
        if !found.is_empty() {
            failed.push(format!("{}\n  {}", case.lines, found.join("\n  ")));
        }
        // A reason that is none any more must go.
        if let Some((parts, why)) = case.differs {
            let all = differences(&Case { differs: None, ..*case }, &ours, &theirs);
            if all.is_empty() {
                failed.push(format!("{}\n  doesn't differ in {parts:?}: {why}", case.lines));
            }
        }
    }
    let differing = CASES.iter().filter(|case| case.differs.is_some()).count();
    println!("{compared} rows of commands compared, of which {differing} differ for a reason");
    assert!(failed.is_empty(), "{} of {compared}:\n{}", failed.len(), failed.join("\n\n"));
}

/// Without the released program beside it: an image that is streamed, copied or changed in place becomes the same.
#[test]
fn each_output_has_the_same_bytes() {
    let material = tempfile::tempdir().unwrap();
    if media::make(material.path()).is_none() {
        return;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_landfall"));
    let outcome = |lines| run(program, &Case { lines, differs: None }, material.path());
    for (place, copy, stream) in [
        (
            "iso customize --dest-ignition a.ign --live-karg-append a=b full.iso",
            "iso customize --dest-ignition a.ign --live-karg-append a=b -o new.iso full.iso",
            "iso customize --dest-ignition a.ign --live-karg-append a=b -o - full.iso",
        ),
        (
            "iso ignition embed -i many.ign 2021.iso",
            "iso ignition embed -i many.ign -o new.iso 2021.iso",
            "iso ignition embed -i many.ign -o - 2021.iso",
        ),
        ("iso reset 2022.iso", "iso reset -o new.iso 2022.iso", "iso reset -o - 2022.iso"),
    ] {
        let iso = Path::new(place.rsplit(' ').next().unwrap());
        let before = fs::read(material.path().join(iso)).unwrap();
        let (place, copy, stream) = (outcome(place), outcome(copy), outcome(stream));
        for outcome in [&place, &copy, &stream] {
            assert_eq!(outcome.codes, [Some(0)], "{}: {}", iso.display(), outcome.stderr);
        }
        assert!(place.files[iso].1 == copy.files[Path::new("new.iso")].1, "{}", iso.display());
        assert!(place.files[iso].1 == stream.stdout, "{}", iso.display());
        assert!(copy.files[iso].1 == before && stream.files[iso].1 == before, "{}", iso.display());
    }
}

/// Whatever a config is made of and however long it is.
#[test]
fn configs_of_any_kind_are_wrapped_into_the_same_bytes() {
    let Some(peer) = peer() else { return };
    let names = tempfile::tempdir().unwrap();
    let program = names.path().join("coreos-installer");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_landfall"), &program).unwrap();
    for (len, content) in [0, 1, 2, 3, 4, 60, 1000, 5000, 20_000, 70_000, 200_000, 600_000, 1_500_000]
        .into_iter()
        .flat_map(|len| media::contents(len).map(|content| (len, content)))
    {
        let config = names.path().join("config.ign");
        fs::write(&config, &content).unwrap();
        let wrap = |program: &Path| {
            let output = Command::new(program).args(["pxe", "ignition", "wrap", "-i"]).arg(&config).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            output.stdout
        };
        assert!(wrap(&program) == wrap(&peer), "{len} bytes of {}", String::from_utf8_lossy(&content[..len.min(40)]));
    }
}

/// The same commands, called as landfall's: the same files, output and exit codes.
#[test]
fn both_names_do_the_same() {
    let material = tempfile::tempdir().unwrap();
    if media::make(material.path()).is_none() {
        return;
    }
    let names = tempfile::tempdir().unwrap();
    let program = names.path().join("coreos-installer");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_landfall"), &program).unwrap();
    for case in CASES {
        let as_landfall = run(Path::new(env!("CARGO_BIN_EXE_landfall")), case, material.path());
        let as_peer = run(&program, case, material.path());
        assert_eq!(as_landfall.codes, as_peer.codes, "{}", case.lines);
        // Help shows the name.
        assert!(as_landfall.stdout == as_peer.stdout || case.lines.contains("--help"), "{}", case.lines);
        assert!(as_landfall.files == as_peer.files, "{}", case.lines);
    }
}
