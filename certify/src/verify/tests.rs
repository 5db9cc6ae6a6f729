use super::*;
use crate::{
    archive::pack,
    manifest::Entry,
    result::State as StepState,
    sign::SecretKey,
    testing::{Files, archive, run},
};
use std::process::Command;

const BLOCK: usize = 512;

/// The bad check, as one line.
fn bad(bytes: &[u8], key: &SecretKey) -> Option<String> {
    let verified = verify(&mut &bytes[..], Some(&key.public()));
    let check = verified.checks.iter().find(|check| check.state == State::Bad)?;
    assert_eq!(verified.checks.last(), Some(check), "the first that is bad is the last");
    Some(format!("{}: {}", check.name, check.detail))
}

/// Where each member begins, and its path.
fn members(bytes: &[u8]) -> Vec<(usize, String)> {
    let (mut found, mut at) = (Vec::new(), 0);
    archive::read(&mut &bytes[..], &mut |path, length, _| {
        found.push((at, path.to_owned()));
        at += BLOCK + usize::try_from(length).unwrap().next_multiple_of(BLOCK);
        Ok(())
    })
    .unwrap();
    found
}

#[test]
fn an_untouched_archive_is_good() {
    let (run, files) = run();
    let key = SecretKey::generate().unwrap();
    let bytes = archive(&run, &files, &key);
    assert_eq!(bytes, archive(&run, &files, &key), "the same bytes for the same run");
    let verified = verify(&mut &bytes[..], Some(&key.public()));
    let table: Vec<_> = verified.checks.iter().map(|check| (check.name, check.state)).collect();
    let good = |name| (name, State::Good);
    let host = [good("SKU"), ("TPM", State::NotChecked)];
    let before = ["archive", "signature", "key", "files", "result", "attachments"].map(good);
    assert_eq!(table, [&before[..], &host, &host].concat(), "{:#?}", verified.checks);
    assert_eq!((verified.run, verified.reports.len()), (Some(run), 2));
    let unknown = verify(&mut &bytes[..], None);
    assert_eq!((unknown.is_bad(), unknown.checks[2].state), (false, State::NotChecked));
    let other = SecretKey::generate().unwrap();
    assert!(bad(&bytes, &other).unwrap().starts_with("key: it is signed by "));
}

#[test]
fn tar_and_minisign_read_it_too() {
    if testkit::gpg::lacks("minisign") {
        return;
    }
    let (run, files) = run();
    let key = SecretKey::generate().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.tar"), archive(&run, &files, &key)).unwrap();
    std::fs::write(folder.path().join("key.pub"), key.public().to_text()).unwrap();
    let succeeds = |program: &str, args: &[&str]| {
        let output = Command::new(program).current_dir(folder.path()).args(args).output().unwrap();
        assert!(output.status.success(), "{program}: {output:?}");
    };
    succeeds("tar", &["--extract", "--file", "a.tar"]);
    succeeds("minisign", &["-V", "-m", "manifest.json", "-p", "key.pub"]);
    assert_eq!(std::fs::read(folder.path().join("hosts/A%201/report.json")).unwrap(), files["hosts/A%201/report.json"]);
}

/// Each bit of the headers and of what is signed in another way than the rest, and of every byte one bit, another for each.
#[test]
fn every_altered_byte_is_refused_with_the_member_named() {
    let (run, files) = run();
    let key = SecretKey::generate().unwrap();
    let bytes = archive(&run, &files, &key);
    let members = members(&bytes);
    let mut altered = bytes.clone();
    for at in 0..bytes.len() {
        let number = members.iter().filter(|(begin, _)| *begin <= at).count();
        let (begin, path) = &members[number - 1];
        let is_sampled = at % 97 == 0 || (begin + BLOCK..begin + BLOCK + 40).contains(&at);
        for bit in (0..8).filter(|bit| is_sampled || at % 8 == *bit) {
            altered[at] ^= 1 << bit;
            let error = bad(&altered, &key).unwrap_or_else(|| panic!("byte {at}, bit {bit} of {path} is not noticed"));
            // In a header the name may be what was altered, so the member is counted as well.
            let is_named = error.contains(path.as_str())
                || at - begin < BLOCK && error.contains(&format!("member {number} "))
                || error.starts_with(&format!("archive: the end of the archive, after {path}, "));
            assert!(is_named, "byte {at}, bit {bit} of {path}: {error}");
            altered[at] = bytes[at];
        }
    }
    assert_eq!(bad(&altered, &key), None, "all is as it was");
}

#[test]
fn a_cut_or_longer_archive_is_refused() {
    let (run, files) = run();
    let key = SecretKey::generate().unwrap();
    let bytes = archive(&run, &files, &key);
    for len in (0..bytes.len()).filter(|len| len % 41 == 0 || len % BLOCK < 2 || bytes.len() - len < 3) {
        let error = bad(&bytes[..len], &key).unwrap_or_else(|| panic!("{len} bytes are enough"));
        assert!(error.starts_with("archive: "), "{len}: {error}");
    }
    for more in [&[0][..], &[0; BLOCK], &[1], &[0; 20 * BLOCK]] {
        let error = bad(&[&bytes[..], more].concat(), &key).unwrap();
        assert!(error.ends_with("bytes follow it"), "{error}");
    }
}

#[test]
fn members_cannot_be_moved_doubled_or_removed() {
    let (run, files) = run();
    let key = SecretKey::generate().unwrap();
    let bytes = archive(&run, &files, &key);
    let mut begins: Vec<_> = members(&bytes).into_iter().map(|(at, _)| at).collect();
    begins.push(bytes.len() - 2 * BLOCK);
    let parts: Vec<&[u8]> = begins.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
    let error = |order: &[usize]| {
        let mut other: Vec<u8> = order.iter().flat_map(|place| parts[*place]).copied().collect();
        other.resize(other.len() + 2 * BLOCK, 0);
        bad(&other, &key)
    };
    assert_eq!(error(&[0, 1, 2, 3, 4, 5, 6]), None);
    assert!(error(&[1, 0, 2, 3, 4, 5, 6]).unwrap().contains("sorted by path"));
    assert!(error(&[0, 1, 1, 2, 3, 4, 5, 6]).unwrap().contains("sorted by path"));
    assert_eq!(error(&[0, 2, 3, 4, 5, 6]).unwrap(), "files: hosts/A%201/burnin.json is missing");
    assert_eq!(error(&[0, 1, 2, 3, 4, 6]).unwrap(), "signature: manifest.json is missing");
    assert_eq!(error(&[0, 1, 2, 3, 4, 5]).unwrap(), "signature: manifest.json.minisig is missing");
    assert_eq!(error(&[]).unwrap(), "signature: manifest.json.minisig is missing");
}

/// A tester that signs what does not follow.
#[test]
fn what_does_not_follow_is_refused_though_it_is_signed() {
    let key = SecretKey::generate().unwrap();
    let error = |change: &dyn Fn(&mut Run, &mut Files)| {
        let (mut run, mut files) = run();
        change(&mut run, &mut files);
        bad(&archive(&run, &files, &key), &key).unwrap()
    };
    let hidden = error(&|run, _| {
        run.hosts[1].differences.clear();
        run.hosts[1].steps[1].state = StepState::Passed;
        run.judge();
    });
    assert_eq!(hidden, "SKU: B2: its report.json gives X with 1 differences, the result has X with 0");
    let no_report = error(&|_, files| drop(files.insert("hosts/B2/report.json".to_owned(), b"{".to_vec())));
    assert!(no_report.starts_with("SKU: hosts/B2/report.json: "), "{no_report}");
    let evidence = error(&|run, files| {
        run.hosts[0].steps[0].files.push("attestation.json".to_owned());
        files.insert("hosts/A%201/attestation.json".to_owned(), b"{}".to_vec());
    });
    assert!(evidence.starts_with("TPM: hosts/A%201/attestation.json: "), "{evidence}");

    let (mut run, files) = run();
    run.hosts[1].verdict = crate::result::Verdict::Pass;
    let refused = pack(&mut Vec::new(), &run, &key, 0, &mut |_, _| Err(io::ErrorKind::NotFound.into())).unwrap_err();
    assert!(refused.to_string().contains("the verdict of B2 is PASS, but FAIL follows"), "{refused}");
    run.judge();
    run.hosts[0].steps[0].files.push("../x".to_owned());
    let refused = pack(&mut Vec::new(), &run, &key, 0, &mut |host, name| {
        let content = files.get(&format!("{}/{name}", host.folder())).cloned().unwrap_or_default();
        Ok((content.len().try_into().unwrap(), Box::new(io::Cursor::new(content))))
    });
    assert!(refused.unwrap_err().to_string().starts_with("'hosts/A%201/../x' cannot be the path"));
}

#[test]
fn files_are_those_of_the_steps() {
    let (run, files) = run();
    let members = |paths: &[&str]| {
        let all = paths.iter().map(|path| ((*path).to_owned(), (0, String::new(), None)));
        Members(all.chain([(manifest::RESULT.to_owned(), (0, String::new(), None))]).collect())
    };
    let paths: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(members(&paths).attachments(&run), Ok(()));
    let more = [&paths[..], &["hosts/B2/x"]].concat();
    assert_eq!(members(&more).attachments(&run), Err("hosts/B2/x is named by no step".to_owned()));
    assert_eq!(members(&paths[1..]).attachments(&run), Err(format!("{} is named by a step, and missing", paths[0])));
    let manifest = |files: Vec<Entry>| Manifest { schema_version: 1, key: String::new(), files };
    let entry = |path: &str| Entry { path: path.to_owned(), bytes: 0, sha256: String::new() };
    let twice = manifest(vec![entry("certification.json"), entry("certification.json")]);
    assert_eq!(members(&[]).compare(&twice), Err("certification.json is in manifest.json twice".to_owned()));
    assert_eq!(
        members(&[]).compare(&manifest(Vec::new())),
        Err("certification.json is not in manifest.json".to_owned())
    );
}
