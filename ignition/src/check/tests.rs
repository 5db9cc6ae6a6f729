use super::*;
use proptest::prelude::*;

/// The report on a config of `version` with these sections.
fn report(version: Version, sections: &str) -> String {
    let text =
        format!(r#"{{"ignition":{{"version":"{version}"}}{}{sections}}}"#, if sections.is_empty() { "" } else { "," });
    parse(text.as_bytes()).unwrap().2.to_string()
}

/// Its lines without their positions.
fn findings(version: Version, sections: &str) -> Vec<String> {
    let report = report(version, sections);
    without_places(&report)
}

fn without_places(report: &str) -> Vec<String> {
    report
        .lines()
        .map(|line| format!("{}{}", line.split(", line").next().unwrap(), &line[line.find(": ").unwrap()..]))
        .collect()
}

#[test]
fn places_are_those_of_the_values() {
    let text = b"{\"ignition\":{\"version\":\"3.3.0\"},\n \"storage\":{\"files\":[{\"path\":\"a\"},\n  {\"path\":\"/a\"},{\"path\":\"/a\"}]},\n \"Bogus\":1}";
    let (_, _, report) = parse(text).unwrap();
    let expected = "\
error at $.storage.files.0.path, line 2 col 30: path not absolute
error at $.storage.files.2, line 3 col 18: duplicate entry defined
warning at $.Bogus, line 4 col 2: unused key Bogus
";
    assert_eq!(report.to_string(), expected);
    assert!(report.is_fatal());
}

#[test]
fn what_is_not_a_config_is_distinguished() {
    let error = |text: &str| parse(text.as_bytes()).unwrap_err();
    assert_eq!(error(""), ParseError::Empty);
    for (text, expected) in [
        ("{}", VersionError::Invalid),
        ("null", VersionError::Invalid),
        (r#"{"ignition":{"version":"2.2.0"}}"#, VersionError::Unsupported),
    ] {
        assert_eq!(error(text), ParseError::Version(expected), "{text}");
    }
    let shape = |text: &str| match error(text) {
        ParseError::Invalid(report) => report.to_string(),
        other => panic!("{other:?}"),
    };
    for (text, expected) in [
        ("{} x", "line 0 col 0: invalid character 'x' after top-level value"),
        ("{} x ", "line 1 col 5: invalid character 'x' after top-level value"),
        ("{},\n\"a\" 5}", "line 1 col 4: invalid character ',' after top-level value"),
        ("{\n\"a\" 5}", "line 2 col 6: invalid character '5' after object key"),
        ("[]", "line 1 col 2: json: cannot unmarshal array into Go value of type util.versionStub"),
        ("5", "line 0 col 0: json: cannot unmarshal number into Go value of type util.versionStub"),
    ] {
        assert_eq!(shape(text), format!("error at {expected}\n"), "{text}");
    }
    assert!(shape("{\"ignition\":{\"version\":\"3.3.0\"},\n\"storage\":{\"files\":[{\"path\":5},{\"path\":\"/a\",\"mode\":1.5}]}}").starts_with("error at line 2 col 30"));
    assert_eq!(shape("{\"ignition\":"), "error at line 0 col 0: unexpected end of JSON input\n");
}

#[test]
fn type_errors_name_gos_field_and_type() {
    for (text, expected) in [
        (r#"{"ignition":5}"#, "number into Go struct field versionStub.ignition of type struct { Version string }"),
        (r#"{"ignition":{"version":3}}"#, "number into Go struct field versionStub.ignition.version of type string"),
        (
            r#"{"ignition":{"version":"3.3.0"},"Storage":{"fileſ":[{"PATH":5}]}}"#,
            "number into Go struct field Config.Storage.fileſ.0.PATH of type string",
        ),
        (
            r#"{"ignition":{"version":"3.3.0"},"storage":{"files":[5]}}"#,
            "number into Config.storage.files.0 of type types.File",
        ),
        (
            r#"{"ignition":{"version":"3.3.0"},"storage":{"files":{}}}"#,
            "object into Go struct field Config.storage.files of type []types.File",
        ),
        (
            r#"{"ignition":{"version":"3.3.0"},"storage":{"files":[{"path":"/a","mode":1.5}]}}"#,
            "number 1.5 into Go struct field Config.storage.files.0.mode of type int",
        ),
        (
            r#"{"ignition":{"version":"3.3.0"},"storage":{"files":[{"contents":{"httpHeaders":5}}]}}"#,
            "number into Go struct field Config.storage.files.0.contents.httpHeaders of type types.HTTPHeaders",
        ),
        (
            r#"{"ignition":{"version":"3.0.0","config":{"merge":[5]}}}"#,
            "number into Config.ignition.config.merge.0 of type types.ConfigReference",
        ),
        (
            r#"{"ignition":{"version":"3.6.0"},"storage":{"luks":[{"options":5}]}}"#,
            "number into Go struct field Config.storage.luks.0.options of type []types.LuksOption",
        ),
        (
            r#"{"ignition":{"version":"3.6.0"},"passwd":{"groups":[true]}}"#,
            "bool into Config.passwd.groups.0 of type types.PasswdGroup",
        ),
        (
            r#"{"ignition":{"version":"3.6.0"},"passwd":{"users":[{"name":"a"},{"groups":[1]}]}}"#,
            "number into Config.passwd.users.1.groups.0 of type types.Group",
        ),
    ] {
        let Err(ParseError::Invalid(report)) = parse(text.as_bytes()) else { panic!("{text}") };
        assert_eq!(report.entries[0].message, format!("json: cannot unmarshal {expected}"), "{text}");
    }
}

#[test]
fn keys_are_folded_as_go_folds_them() {
    let text = "{\"ignition\":{\"ver\u{17f}ion\":\"3.3.0\"},\"\u{17f}torage\":{\"lin\u{212a}s\":[{\"path\":\"a\",\"target\":\"b\"}]}}";
    let (config, version, report) = parse(text.as_bytes()).unwrap();
    assert_eq!((version, &*config.storage.links[0].path), (Version::V3_3, "a"));
    let expected = [
        "error at $.storage.links.0.path: path not absolute",
        "warning at $.ignition.ver\u{17f}ion: unused key ver\u{17f}ion",
        "warning at $.\u{17f}torage: unused key \u{17f}torage",
    ];
    assert_eq!(without_places(&report.to_string()), expected);
}

#[test]
fn keys_are_found_whatever_their_case_and_the_later_wins() {
    let text = br#"{"Ignition":{"VERSION":"3.2.0"},"storage":{"files":[{"path":"x"}],"files":[{"Path":"/a"}]}}"#;
    let (config, version, report) = parse(text).unwrap();
    assert_eq!((version, config.storage.files.len(), &*config.storage.files[0].path), (Version::V3_2, 1, "/a"));
    assert!(!report.is_fatal());
    assert_eq!(report.entries.len(), 2, "{report}");
    let null = br#"{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/a","mode":null,"contents":null}]},"passwd":null}"#;
    let lost = |path: &str| {
        format!(
            "warning at {path}: context tree does not match content tree at {path}. Line and column reporting may be \
             inconsistent. Unused keys may not be reported"
        )
    };
    let (_, _, report) = parse(null).unwrap();
    assert_eq!(without_places(&report.to_string()), [lost("$.storage.files.0.contents"), lost("$.passwd")]);
}

#[test]
fn every_check_has_its_place_and_words() {
    use Version::*;
    let unit = |contents: &str| {
        format!(r#""systemd":{{"units":[{{"name":"a.service","enabled":true,"contents":"{contents}"}}]}}"#)
    };
    let table: &[(Version, String, &[&str])] = &[
        (V3_3, r#""storage":{"disks":[{"device":"x","partitions":[{"number":0},{"number":1,"guid":"x","label":"a:b"}]}]}"#.into(), &[
            "error at $.storage.disks.0.device: path not absolute",
            "error at $.storage.disks.0.partitions.0: a partition number >= 1 or a label must be specified",
            "error at $.storage.disks.0.partitions.1.label: partition label will be truncated to text before the colon",
            "error at $.storage.disks.0.partitions.1.guid: doesn't match the form \"01234567-89AB-CDEF-EDCB-A98765432101\"",
        ]),
        (V3_3, r#""storage":{"luks":[{"name":"a/b"}],"raid":[{"name":"x"}]}"#.into(), &[
            "error at $.storage.luks.0.name: device names cannot contain slashes",
            "error at $.storage.luks.0.device: disk device is required",
            "error at $.storage.raid.0.level: raid level is required",
            "error at $.storage.raid.0.devices: raid devices required",
        ]),
        (V3_2, r#""storage":{"links":[{"path":"/l"}]}"#.into(), &[]),
        (V3_3, r#""storage":{"links":[{"path":"/l"}],"files":[{"path":"/l/x"}]}"#.into(), &[
            "error at $.storage.files.0: file path includes link in config",
            "error at $.storage.links.0.target: link target is required",
        ]),
        (V3_2, r#""storage":{"files":[{"path":"/a","mode":99999999,"overwrite":true}]}"#.into(), &[
            "error at $.storage.files.0.mode: illegal file mode",
            "error at $.storage.files.0.overwrite: overwrite must be false if source is unspecified",
        ]),
        (V3_5, r#""storage":{"directories":[{"path":"/a","mode":1023}]}"#.into(), &[
            "warning at $.storage.directories.0.mode: setuid/setgid/sticky bits are not supported or functional in spec versions older than 3.6.0",
        ]),
        (V3_6, r#""storage":{"directories":[{"path":"/a","mode":1023}]}"#.into(), &[]),
        (V3_2, r#""kernelArguments":{"shouldExist":["a"]}"#.into(), &["warning at $.kernelArguments: unused key kernelArguments"]),
        (V3_3, r#""kernelArguments":{"shouldExist":["a"],"shouldNotExist":["a"]}"#.into(), &[
            "error at $.kernelArguments.shouldNotExist.0: duplicate entry defined",
        ]),
        (V3_3, r#""storage":{"files":[{"path":"/a"}],"directories":[{"path":"/a"}]}"#.into(), &[
            "error at $.storage.files.0: duplicate entry defined",
        ]),
        (V3_0, unit("[Foo"), &["error at $.systemd.units.0.contents: invalid unit content: unable to find end of section"]),
        (V3_0, unit("[Foo]\\nx=y"), &[
            "warning at $.systemd.units.0.contents: unit \"a.service\" is enabled, but has no install section so enable does nothing",
        ]),
        (V3_6, r#""storage":{"filesystems":[{"device":"tag","format":"virtiofs"}]}"#.into(), &[
            "error at $.storage.filesystems.0.device: path not absolute",
            "error at $.storage.filesystems.0.format: invalid filesystem format",
        ]),
        (V3_7, r#""storage":{"filesystems":[{"device":"tag","format":"virtiofs"}]}"#.into(), &[]),
        (V3_7, r#""storage":{"filesystems":[{"device":"","format":"virtiofs","label":"l","uuid":"u","wipeFilesystem":true,"options":["x"]}]}"#.into(), &[
            "error at $.storage.filesystems.0.device: device not specified",
            "error at $.storage.filesystems.0.label: filesystem labels cannot be set when using virtiofs",
            "error at $.storage.filesystems.0.uuid: filesystem uuid cannot be set for non-block-device filesystems",
            "error at $.storage.filesystems.0.wipeFilesystem: wipeFilesystem cannot be set for non-block-device filesystems",
            "error at $.storage.filesystems.0.options: filesystem options (mkfs) cannot be set for non-block-device filesystems",
        ]),
        // One is deleted while the other takes the next number: Ignition finds out which is free.
        (V3_0, r#""storage":{"disks":[{"device":"/d","partitions":[{"number":1,"shouldExist":false},{"label":"x"}]}]}"#.into(), &[]),
        (V3_0, r#""storage":{"files":[{"path":"/a","contents":{"source":"DATA:,x"}}]}"#.into(), &[
            "error at $.storage.files.0.contents.source: missing data prefix",
        ]),
        (V3_0, r#""storage":{"files":[{"path":"/a","contents":{"source":"data:,x","verification":{"hash":"sha256-00"}}}]}"#.into(), &[
            "error at $.storage.files.0.contents.verification.hash: unrecognized hash function",
        ]),
        (V3_1, r#""storage":{"files":[{"path":"/a","contents":{"verification":{"hash":"sha256-00"}}}]}"#.into(), &[
            "error at $.storage.files.0.contents.verification.hash: source must be specified if verification is specified",
            "error at $.storage.files.0.contents.verification.hash: incorrect size for hash sum",
        ]),
    ];
    for (version, sections, expected) in table {
        assert_eq!(findings(*version, sections), *expected, "{version} {sections}");
    }
}

#[test]
fn hostile_configs_end_soon() {
    let files: String = (0..60_000).map(|n| format!(r#"{{"path":"x{n}"}},"#)).collect();
    let text = format!(r#"{{"ignition":{{"version":"3.3.0"}},"storage":{{"files":[{}{{}}]}}}}"#, files);
    assert!(parse(text.as_bytes()).unwrap().2.is_fatal());
    let many = format!("[{}0]", "0,".repeat(2 << 20));
    assert!(matches!(parse(many.as_bytes()), Err(ParseError::Invalid(_))));
    assert!(matches!(parse("[".repeat(100_000).as_bytes()), Err(ParseError::Invalid(_))));
}

#[test]
fn configs_merge_by_ignitions_rules() {
    let merge = |parent: &str, child: &str| {
        let (parent, ..) = parse(parent.as_bytes()).unwrap();
        let (child, ..) = parse(child.as_bytes()).unwrap();
        String::from_utf8(parent.merge(child).to_json()).unwrap()
    };
    let parent = r#"{"ignition":{"version":"3.3.0"},"kernelArguments":{"shouldExist":["a","b"]},
        "passwd":{"users":[{"name":"core","sshAuthorizedKeys":["k1","k2"],"shell":"/bin/sh"}]},
        "storage":{"files":[{"path":"/x","append":[{"source":"data:,1"}],"contents":{"source":"http://a/","httpHeaders":[{"name":"A","value":"1"},{"name":"B","value":"2"}]}},{"path":"/y"}]}}"#;
    let child = r#"{"ignition":{"version":"3.3.0"},"kernelArguments":{"shouldNotExist":["b"]},
        "passwd":{"users":[{"name":"core","sshAuthorizedKeys":["k2","k3"]},{"name":"new"}]},
        "storage":{"directories":[{"path":"/y"}],"files":[{"path":"/z"},{"path":"/x","append":[{"source":"data:,1"}],"contents":{"httpHeaders":[{"name":"A"},{"name":"C","value":"3"}]}}]}}"#;
    let expected = concat!(
        r#"{"ignition":{"version":"3.3.0"},"kernelArguments":{"shouldExist":["a"],"shouldNotExist":["b"]},"#,
        r#""passwd":{"users":[{"name":"core","shell":"/bin/sh","sshAuthorizedKeys":["k1","k2","k3"]},{"name":"new"}]},"#,
        r#""storage":{"directories":[{"path":"/y"}],"files":[{"path":"/x","append":[{"source":"data:,1"},{"source":"data:,1"}],"#,
        r#""contents":{"httpHeaders":[{"name":"B","value":"2"},{"name":"C","value":"3"}],"source":"http://a/"}},{"path":"/z"}]}}"#,
    );
    assert_eq!(merge(parent, child), expected);
}

proptest! {
    #[test]
    fn what_is_written_reads_the_same(text in r#"\{"ignition":\{"version":"3\.[0-6]\.0"\},"(storage|passwd)":\{"(files|users|disks)":\[(\{"(path|name|device)":"/[a-z]"(,"mode":[0-9]{1,3})?\},?){0,3}\]\}\}"#) {
        if let Ok((config, version, _)) = parse(text.as_bytes()) {
            let json = config.to_json();
            let (again, same, _) = parse(&json).unwrap();
            prop_assert_eq!(version, same);
            prop_assert!(again == config);
            prop_assert_eq!(again.to_json(), json.clone());
        }
    }
}
