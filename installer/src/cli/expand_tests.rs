//! Config files as words of a command line, in the order of the files, and back to options.

use super::*;
use crate::cli::{parse, parse_line};
use std::fs;

/// All that a config file can say, but what conflicts with something else there.
const FULL: &str = "\
image-url: http://example.com/d
ignition-url: http://example.com/g
ignition-hash: sha256-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
architecture: h
platform: i
console: [ttyS0, 'ttyS1,115200n8']
append-karg: [k, '-l']
delete-karg: [m, n]
copy-network: true
network-dir: o
save-partlabel: [p, 'q,r']
save-partindex: ['3', '-2']
offline: true
insecure: true
insecure-ignition: true
stream-base-url: http://example.com/t
preserve-on-error: true
fetch-retries: 3
secure-ipl: true
cacert: u
stall-timeout: 60
signature: v
keyring: [w, x]
keyring-only: true
sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
no-verify: true
dest-device: /dev/y
";

/// The options of these files, and then of the command line.
fn expanded(files: &[&str], line: &[&str]) -> anyhow::Result<InstallConfig> {
    let dir = tempfile::tempdir().unwrap();
    let mut words: Vec<String> = line.iter().map(ToString::to_string).collect();
    for (index, file) in files.iter().enumerate() {
        let path = dir.path().join(index.to_string());
        fs::write(&path, file).unwrap();
        words.extend(["--config-file".into(), path.display().to_string()]);
    }
    Ok(parse(&expand(&parse(&words)?)?)?)
}

fn failure(files: &[&str], line: &[&str]) -> String {
    format!("{:#}", expanded(files, line).expect_err(&files.join("---\n")))
}

#[test]
fn a_file_says_all_that_the_command_line_can() {
    let config = expanded(&[FULL], &[]).unwrap();
    let line = [
        ["--image-url", "http://example.com/d"],
        ["--ignition-url", "http://example.com/g"],
        ["--ignition-hash", "sha256-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
        ["--architecture", "h"],
        ["--platform", "i"],
        ["--console", "ttyS0"],
        ["--console", "ttyS1,115200n8"],
        ["--append-karg", "k"],
        ["--append-karg=-l", "--copy-network"],
        ["--delete-karg", "m"],
        ["--delete-karg", "n"],
        ["--network-dir", "o"],
        ["--save-partlabel", "p,q"],
        ["--save-partlabel", "r"],
        ["--save-partindex", "3,-2"],
        ["--offline", "--insecure"],
        ["--insecure-ignition", "--preserve-on-error"],
        ["--stream-base-url", "http://example.com/t"],
        ["--fetch-retries", "3"],
        ["--secure-ipl", "--no-verify"],
        ["--cacert", "u"],
        ["--stall-timeout", "60"],
        ["--signature", "v"],
        ["--keyring", "w"],
        ["--keyring=x", "--keyring-only"],
        ["--sha256", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"],
    ];
    let words: Vec<&str> = line.as_flattened().iter().copied().chain(["/dev/y"]).collect();
    assert_eq!(config, parse_line(&words).unwrap().config);
    // What is left can't stand beside those above.
    for (file, words) in [
        ("stream: c", ["--stream", "c"]),
        ("image-file: e", ["--image-file", "e"]),
        ("ignition-file: f", ["--ignition-file", "f"]),
        ("minisign-key: k", ["--minisign-key", "k"]),
    ] {
        let expected = parse_line(&[words[0], words[1], "/d"]).unwrap().config;
        assert_eq!(expanded(&[file, "dest-device: /d"], &[]).unwrap(), expected, "{file}");
    }
    assert_eq!(expanded(&["disk: S3R1AL"], &[]).unwrap().disk, Some("S3R1AL".into()));
}

#[test]
fn words_stand_in_the_order_of_the_options() {
    let config =
        parse_line(&["/d", "--console", "tty0", "-n", "-s", "next", "--firstboot-args", "a b"]).unwrap().config;
    let words = own_words(&config).unwrap();
    assert_eq!(words, ["--stream", "next", "--console", "tty0", "--copy-network", "/d", "--firstboot-args", "a b"]);
    assert_eq!(parse(&words).unwrap(), config);
    assert!(own_words(&InstallConfig::default()).unwrap().is_empty());
}

#[test]
fn lists_are_joined_and_of_the_rest_the_last_word_wins() {
    let files = ["append-karg: [c, d]\nfetch-retries: 2\ndest-device: /d", "append-karg: [a, b]\nfetch-retries: 1"];
    let config = expanded(&files, &["--append-karg", "e", "--fetch-retries", "0", "--append-karg", "f"]).unwrap();
    assert_eq!(config.append_karg, ["c", "d", "a", "b", "e", "f"]);
    assert_eq!(config.fetch_retries.unwrap().to_string(), "0");
    assert_eq!(expanded(&files, &[]).unwrap().fetch_retries.unwrap().to_string(), "1");
    let config = expanded(&["", "# nothing yet\n", "dest-device: /d"], &["--firstboot-args", "ip=dhcp"]).unwrap();
    assert_eq!(config.firstboot_args.as_deref(), Some("ip=dhcp"));
}

#[test]
fn two_disks_are_refused_wherever_they_are_named() {
    for (files, line) in [
        (&["dest-device: /a", "dest-device: /b"][..], &[][..]),
        (&["dest-device: /a"], &["/b"]),
        (&["disk: a"], &["/b"]),
        (&["disk: a", "disk: b"], &[]),
        (&["disk: a"], &["--disk", "b"]),
    ] {
        failure(files, line);
    }
    let text = failure(&["disk: a", "disk: b"], &[]);
    assert_eq!(text, "more than one disk to install to: a and b");
}

#[test]
fn what_a_file_must_not_say_is_refused_with_its_place() {
    for (file, part) in [
        ("firstboot-args: a", "unknown field `firstboot-args`"),
        ("config-file: [a]", "unknown field `config-file`"),
        ("request: a", "unknown field `request`"),
        ("image_url: http://h", "unknown field `image_url`"),
        ("append-karg: a", "expected a sequence"),
        ("insecure: 'yes'", "expected a boolean"),
        ("fetch-retries: often", "invalid digit"),
        ("- a", "invalid type: sequence"),
        ("append-karg: [", "did not find expected"),
        ("append-karg: [*a]", "unknown anchor"),
        ("append-karg: &a [*a]", "an alias in it stands for something that contains the alias"),
        (&"{a: ".repeat(10_000), "it is nested too deeply"),
    ] {
        let text = failure(&[file, "dest-device: /d"], &[]);
        assert!(text.starts_with("parsing config file ") && text.contains(part), "{file}: {text}");
    }
    assert!(failure(&["image-url: nonsense", "dest-device: /d"], &[]).contains("--image-url"));
    assert!(failure(&["insecure: true"], &[]).contains("required arguments were not provided"));
    let config = parse_line(&["-c", "/nonexistent/file"]).unwrap().config;
    let text = format!("{:#}", anyhow::Error::new(expand(&config).unwrap_err()));
    assert_eq!(text, "opening config file /nonexistent/file: No such file or directory (os error 2)");
    let huge = " ".repeat(1 << 20) + "\n";
    assert!(failure(&[&huge], &[]).contains("is it the right file?"));
}
