//! Every option of docs/compatibility.md#install-options, and each of ours, by its long name, its short one and in a config file.

use super::*;
use crate::cli::{Install, parse_line};
use clap::error::ErrorKind;
use diskwrite::Retries;
use std::time::Duration;

fn config(words: &[&str]) -> InstallConfig {
    parse_line(words).unwrap_or_else(|error| panic!("{words:?}: {error}")).config
}

fn refused(words: &[&str]) -> ErrorKind {
    parse_line(words).map(|_: Install| ()).expect_err(&words.join(" ")).kind()
}

/// What these words make the image writer do, the disk being /dev/loop9.
fn options(words: &[&str]) -> InstallOptions {
    config(&[words, &["/dev/loop9"]].concat()).options().unwrap()
}

#[test]
fn every_option_of_coreos_installer_is_understood_by_each_of_its_names() {
    const SUM: &str = "sha256-720a49720f0ddd4a599259e0007b0083e8998e31619c69c96681255a79f77a33";
    type Same = fn(&InstallConfig) -> bool;
    let table: [(&[&[&str]], Same); 24] = [
        (&[&["--config-file", "a", "-c", "b"]], |c| c.config_file == [PathBuf::from("a"), "b".into()]),
        (&[&["--stream", "x"], &["-s", "x"]], |c| c.stream.as_deref() == Some("x")),
        (&[&["--image-url", "http://h/i"], &["-u", "http://h/i"]], |c| c.image_url.as_deref() == Some("http://h/i")),
        (&[&["--image-file", "/i"], &["-f", "/i"]], |c| c.image_file == Some("/i".into())),
        (&[&["--ignition-file", "/c"], &["--ignition", "/c"], &["-i", "/c"]], |c| c.ignition_file == Some("/c".into())),
        (&[&["--ignition-url", "http://h/c"], &["-I", "http://h/c"]], |c| {
            c.ignition_url.as_deref() == Some("http://h/c")
        }),
        (&[&["--ignition-hash", SUM]], |c| c.ignition_hash.as_deref() == Some(SUM)),
        (&[&["--architecture", "s390x"], &["-a", "s390x"]], |c| c.architecture.as_deref() == Some("s390x")),
        (&[&["--platform", "qemu"], &["-p", "qemu"]], |c| c.platform.as_deref() == Some("qemu")),
        (&[&["--console", "tty0", "--console", "ttyS0"]], |c| c.console == ["tty0", "ttyS0"]),
        (&[&["--firstboot-args", "rd.neednet=1 ip=dhcp"]], |c| {
            c.firstboot_args.as_deref() == Some("rd.neednet=1 ip=dhcp")
        }),
        (&[&["--append-karg", "a=b", "--append-karg", "c d"]], |c| c.append_karg == ["a=b", "c d"]),
        (&[&["--delete-karg", "a,b", "--delete-karg", "c"]], |c| c.delete_karg == ["a,b", "c"]),
        (&[&["--copy-network"], &["-n"], &["-n", "-n"]], |c| c.copy_network),
        (&[&["--network-dir", "/nm"]], |c| c.network_dir == Some("/nm".into())),
        (&[&["--save-partlabel", "a,b*", "--save-partlabel", ""]], |c| c.save_partlabel == ["a", "b*", ""]),
        (&[&["--save-partindex", "-2,5-", "--save-partindex", "7-9"]], |c| c.save_partindex == ["-2", "5-", "7-9"]),
        (&[&["--offline"]], |c| c.offline),
        (&[&["--insecure"]], |c| c.insecure),
        (&[&["--insecure-ignition"]], |c| c.insecure_ignition),
        (&[&["--stream-base-url", "https://h/s/"]], |c| c.stream_base_url.as_deref() == Some("https://h/s/")),
        (&[&["--preserve-on-error"]], |c| c.preserve_on_error),
        (&[&["--fetch-retries", "infinite"]], |c| c.fetch_retries == Some(FetchRetries::Infinite)),
        (&[&["--secure-ipl"]], |c| c.secure_ipl),
    ];
    for (spellings, same) in table {
        for words in spellings {
            for line in [[words, &["/dev/loop9"][..]].concat(), [&["/dev/loop9"][..], words].concat()] {
                let config = config(&line);
                assert!(same(&config), "{line:?}: {config:?}");
                assert_eq!(config.dest_device, Some("/dev/loop9".into()), "{line:?}");
            }
        }
    }
}

#[test]
fn options_become_what_the_image_writer_does() {
    let none = options(&[]);
    assert_eq!(none.device, PathBuf::from("/dev/loop9"));
    assert!(none.read_back && !none.new_disk_guid && !none.preserve_on_error && none.trust.required);
    assert_eq!((none.retries, none.stall_timeout), (Retries::Count(0), Duration::from_secs(600)));
    assert_eq!((none.platform, none.network_dir, none.firstboot_args), (None, None, None));

    type Same = fn(&InstallOptions) -> bool;
    let table: [(&[&str], Same); 28] = [
        (&["--ignition-hash", "sha512-00"], |o| o.ignition_hash.as_deref() == Some("sha512-00")),
        (&["--platform", "vmware"], |o| o.platform.as_deref() == Some("vmware")),
        (&["--platform", "metal"], |o| o.platform.is_none()),
        (&["--console", "ttyS0,115200n8", "--console", "tty0"], |o| o.consoles == ["ttyS0,115200n8", "tty0"]),
        (&["--firstboot-args", "a b"], |o| o.firstboot_args.as_deref() == Some("a b")),
        (&["--append-karg", "a", "--append-karg", "b"], |o| o.append_kargs == ["a", "b"]),
        (&["--delete-karg", "a"], |o| o.delete_kargs == ["a"]),
        (&["-n"], |o| o.network_dir == Some(NETWORK_DIR.into())),
        (&["-n", "--network-dir", "/nm"], |o| o.network_dir == Some("/nm".into())),
        (&["--network-dir", "/nm"], |o| o.network_dir.is_none()),
        (&["--save-partlabel", "a,b"], |o| o.save_partlabels == ["a", "b"]),
        (&["--save-partindex", "-3"], |o| o.save_partindexes == ["-3"]),
        (&["--insecure"], |o| !o.trust.required),
        (&["--preserve-on-error"], |o| o.preserve_on_error),
        (&["--fetch-retries", "3"], |o| o.retries == Retries::Count(3)),
        (&["--fetch-retries", "infinite"], |o| o.retries == Retries::Forever),
        (&["--no-verify"], |o| !o.read_back),
        (&["--new-disk-guid"], |o| o.new_disk_guid),
        (&["--signature", "/s"], |o| o.trust.signature == Some(SignatureAt::File("/s".into()))),
        (&["--signature", "https://h/s"], |o| o.trust.signature == Some(SignatureAt::Url("https://h/s".into()))),
        (&["--sha256-sums", "/s"], |o| o.trust.sha256_sums == Some("/s".into())),
        (&["--keyring", "/a", "--keyring", "/b"], |o| o.trust.keyrings == [PathBuf::from("/a"), "/b".into()]),
        (&["--keyring", "/a"], |o| !o.trust.keyrings_only),
        (&["--keyring", "/a", "--keyring-only"], |o| o.trust.keyrings_only),
        (&["--minisign-key", "/k"], |o| o.trust.minisign_key == Some("/k".into())),
        (&["--sha256", "0101010101010101010101010101010101010101010101010101010101010101"], |o| {
            o.trust.sha256 == Some([1; 32])
        }),
        (&["--stall-timeout", "5"], |o| o.stall_timeout == Duration::from_secs(5)),
        (&["--cacert", "/ca"], |o| o.http.ca_cert == Some("/ca".into())),
    ];
    for (words, same) in table {
        let options = options(words);
        assert!(same(&options), "{words:?}: {options:?}");
    }
    assert_eq!(config(&["--disk", "wwn-0x5000"]).options().unwrap().device, PathBuf::from("wwn-0x5000"));
}

#[test]
fn the_last_of_an_option_said_twice_wins() {
    let config =
        config(&["-s", "a", "--stream", "b", "--fetch-retries", "1", "--fetch-retries", "2", "--insecure", "/d"]);
    assert_eq!(config.stream.as_deref(), Some("b"));
    assert_eq!(config.fetch_retries, Some(FetchRetries::Count(2)));
}

#[test]
fn what_does_not_go_together_is_wrong_usage() {
    let sources: [&[&str]; 3] = [&["-s", "stable"], &["-u", "http://h/i"], &["-f", "/i"]];
    for (index, first) in sources.iter().enumerate() {
        for second in sources.iter().skip(index + 1) {
            assert_eq!(refused(&[first, *second, &["/d"]].concat()), ErrorKind::ArgumentConflict, "{first:?}");
        }
    }
    for words in [
        &["-i", "/c", "-I", "http://h/c", "/d"][..],
        &["--disk", "a", "/d"],
        &["--keyring", "/a", "--minisign-key", "/b", "/d"],
        &["--request", "-", "/d"],
        &["--request", "-", "-f", "/i"],
        &["--request", "-", "--live"],
    ] {
        assert_eq!(refused(words), ErrorKind::ArgumentConflict, "{words:?}");
    }
    for words in [&[][..], &["-f", "/i"], &["--root", "/x", "/d"]] {
        assert_eq!(refused(words), ErrorKind::MissingRequiredArgument, "{words:?}");
    }
    assert_eq!(refused(&["/a", "/b"]), ErrorKind::UnknownArgument);
    assert_eq!(refused(&["--no-such", "/d"]), ErrorKind::UnknownArgument);
    for words in [
        &["--fetch-retries", "often", "/d"][..],
        &["--image-url", "ftp://h/i", "/d"],
        &["--image-url", "/i", "/d"],
        &["--ignition-url", "c.ign", "/d"],
        &["--stream-base-url", "h", "/d"],
        &["--sha256", "00", "/d"],
        &["--stall-timeout", "0", "/d"],
    ] {
        assert_eq!(refused(words), ErrorKind::ValueValidation, "{words:?}");
    }
}

#[test]
fn secure_ipl_is_refused_with_the_reason() {
    let error = config(&["--secure-ipl", "/d"]).options().unwrap_err().to_string();
    assert!(error.contains("IBM Z (s390x)") && error.contains(std::env::consts::ARCH), "{error}");
    assert!(matches!(config(&["-c", "x"]).options(), Err(ConfigError::NoDevice)));
}
