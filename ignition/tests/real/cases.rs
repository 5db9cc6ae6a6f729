//! Configs of everything in the files stage.

use serde_json::{Value, json};

/// A name, the version, and the rest of the config.
pub(crate) type Case = (&'static str, &'static str, Value);

const GZIP: &str = "data:;base64,H4sIAAAAAAACA8tIzcnJVyjPL8pJAQCFEUoNCwAAAA==";
const SHA512: &str = "sha512-309ecc489c12d6eb4cc40f50c902f2b4d0ed77ee511a7c7a9bcd3ca86d4cd86f989dd35bc5ff499670da34255b45b0cfd830e81f605dcf7dc5542e93ae9cd76f";
const SHA256: &str = "sha256-b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9";

fn files(list: Value) -> Value {
    json!({"storage": {"files": list}})
}

fn directories(list: Value) -> Value {
    json!({"storage": {"directories": list}})
}

fn links(list: Value) -> Value {
    json!({"storage": {"links": list}})
}

fn users(list: Value) -> Value {
    json!({"passwd": {"users": list}})
}

fn groups(list: Value) -> Value {
    json!({"passwd": {"groups": list}})
}

fn units(list: Value) -> Value {
    json!({"systemd": {"units": list}})
}

/// Those that Ignition applies.
pub(crate) fn good() -> Vec<Case> {
    let hi = json!({"source": "data:,hi"});
    let world = |hash: &str| json!({"source": "data:,hello%20world", "verification": {"hash": hash}});
    let unit = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
    vec![
        ("nothing", "3.0.0", json!({})),
        // Files.
        ("file", "3.0.0", files(json!([{"path": "/a", "contents": hi}]))),
        ("file deep", "3.1.0", files(json!([{"path": "/a/b/c/d", "contents": hi, "mode": 256}]))),
        ("file of nothing", "3.2.0", files(json!([{"path": "/a"}, {"path": "/b", "contents": {"source": ""}}]))),
        (
            "file in base64",
            "3.3.0",
            files(json!([{"path": "/a", "contents": {"source": "data:text/plain;base64,AP/+aGkK"}}])),
        ),
        ("file with escapes", "3.0.0", files(json!([{"path": "/a", "contents": {"source": "data:,%00%ff%0a%C3%A4"}}]))),
        ("file in gzip", "3.0.0", files(json!([{"path": "/a", "contents": {"source": GZIP, "compression": "gzip"}}]))),
        (
            "file in gzip with hash",
            "3.1.0",
            files(
                json!([{"path": "/a", "contents": {"source": GZIP, "compression": "gzip", "verification": {"hash": SHA512}}}]),
            ),
        ),
        (
            "files with hashes",
            "3.2.0",
            files(json!([{"path": "/a", "contents": world(SHA512)}, {"path": "/b", "contents": world(SHA256)}])),
        ),
        (
            "file modes",
            "3.0.0",
            files(
                json!([{"path": "/a", "mode": 0}, {"path": "/b", "mode": 511}, {"path": "/c", "mode": 384, "contents": hi}]),
            ),
        ),
        ("file special modes", "3.3.0", files(json!([{"path": "/a", "mode": 0o4755}, {"path": "/b", "mode": 0o7777}]))),
        (
            "file owners by number",
            "3.1.0",
            files(json!([{"path": "/a", "user": {"id": 7}, "group": {"id": 9}}, {"path": "/x/b", "group": {"id": 5}}])),
        ),
        (
            "file owners by name",
            "3.2.0",
            files(json!([{"path": "/a", "user": {"name": "old"}, "group": {"name": "wheel"}}])),
        ),
        (
            "file of a new user",
            "3.3.0",
            json!({"passwd": {"groups": [{"name": "team"}], "users": [{"name": "core"}]}, "storage": {"files": [{"path": "/home/core/a", "user": {"name": "core"}, "group": {"name": "team"}}]}}),
        ),
        ("file overwritten", "3.0.0", files(json!([{"path": "/data/real/file", "overwrite": true, "contents": hi}]))),
        (
            "file over a directory",
            "3.1.0",
            files(json!([{"path": "/home/old", "overwrite": true, "contents": hi, "mode": 384}])),
        ),
        ("file over a link", "3.2.0", files(json!([{"path": "/dangling", "overwrite": true, "contents": hi}]))),
        ("file kept", "3.3.0", files(json!([{"path": "/data/real/file"}]))),
        ("file kept with mode", "3.0.0", files(json!([{"path": "/data/real/file", "mode": 448, "overwrite": false}]))),
        ("file kept with owner", "3.1.0", files(json!([{"path": "/data/real/file", "user": {"id": 3}}]))),
        (
            "append to a file",
            "3.2.0",
            files(json!([{"path": "/data/real/file", "append": [{"source": "data:,1"}, {"source": "data:,2"}]}])),
        ),
        (
            "append in gzip with hash",
            "3.3.0",
            files(
                json!([{"path": "/data/real/file", "mode": 420, "append": [{"source": GZIP, "compression": "gzip", "verification": {"hash": SHA512}}, {"source": "data:,2"}]}]),
            ),
        ),
        ("append to nothing", "3.0.0", files(json!([{"path": "/x/y", "append": [{"source": "data:,1"}]}]))),
        (
            "append to contents",
            "3.1.0",
            files(
                json!([{"path": "/a", "overwrite": true, "contents": hi, "append": [{"source": "data:,1"}, {"source": "data:,2"}]}]),
            ),
        ),
        (
            "files in no order",
            "3.2.0",
            json!({"storage": {"files": [{"path": "/a/b/c/d"}, {"path": "/a/b/c2"}, {"path": "/a/f"}], "directories": [{"path": "/a/b/c", "mode": 448}, {"path": "/a", "mode": 504}, {"path": "/a/b", "user": {"id": 4}}]}}),
        ),
        // Directories.
        (
            "directory",
            "3.0.0",
            directories(
                json!([{"path": "/a/b/c"}, {"path": "/d", "mode": 448, "user": {"id": 3}, "group": {"name": "users"}}]),
            ),
        ),
        ("directory modes", "3.3.0", directories(json!([{"path": "/a", "mode": 1023}, {"path": "/b", "mode": 0}]))),
        ("directory kept", "3.1.0", directories(json!([{"path": "/home/old"}]))),
        (
            "directory kept with mode",
            "3.2.0",
            directories(json!([{"path": "/home/old", "mode": 493, "group": {"id": 100}}])),
        ),
        ("directory overwritten", "3.3.0", directories(json!([{"path": "/data", "overwrite": true}]))),
        (
            "directory over a file",
            "3.0.0",
            directories(json!([{"path": "/data/real/file", "overwrite": true, "mode": 448}])),
        ),
        (
            "directories through links",
            "3.1.0",
            directories(json!([{"path": "/data/here/a/b", "mode": 448}, {"path": "/lnk/c", "overwrite": true}])),
        ),
        // Links.
        (
            "links",
            "3.0.0",
            links(
                json!([{"path": "/a", "target": "/data"}, {"path": "/x/b", "target": "../nowhere", "user": {"id": 4}, "group": {"name": "wheel"}}, {"path": "/c", "target": "b", "hard": false}]),
            ),
        ),
        ("link that is there", "3.1.0", links(json!([{"path": "/lnk", "target": "/data/real", "user": {"id": 4}}]))),
        (
            "link overwritten",
            "3.2.0",
            links(
                json!([{"path": "/lnk", "target": "/home", "overwrite": true}, {"path": "/data/real", "target": "x", "overwrite": true}]),
            ),
        ),
        (
            "link overwritten by itself",
            "3.3.0",
            links(json!([{"path": "/lnk", "target": "/data/real", "overwrite": true, "user": {"id": 4}}])),
        ),
        ("hard link", "3.3.0", links(json!([{"path": "/a/b", "target": "/data/real/file", "hard": true}]))),
        (
            "hard link to a new file",
            "3.0.0",
            json!({"storage": {"files": [{"path": "/z/y/x", "contents": hi}], "links": [{"path": "/a", "target": "/z/y/x", "hard": true}, {"path": "/b", "target": "/a", "hard": true}]}}),
        ),
        (
            "hard link through a link",
            "3.1.0",
            links(json!([{"path": "/lnk/other", "target": "/lnk/file", "hard": true}])),
        ),
        ("hard link to a link", "3.2.0", links(json!([{"path": "/a", "target": "/dangling", "hard": true}]))),
        (
            "hard link overwritten",
            "3.2.0",
            links(json!([{"path": "/home/old/f", "target": "/home/old/g", "hard": true, "overwrite": true}])),
        ),
        (
            "hard link and more text",
            "3.3.0",
            json!({"storage": {"files": [{"path": "/data/real/file", "append": [{"source": "data:,2"}]}], "links": [{"path": "/a", "target": "/data/real/file", "hard": true}]}}),
        ),
        // Through links of the tree.
        (
            "through links",
            "3.0.0",
            json!({"storage": {"directories": [{"path": "/lnk/dir", "mode": 448}], "files": [{"path": "/chain/a"}, {"path": "/up/real/b"}, {"path": "/data/here/dir2/c"}], "links": [{"path": "/lnk/l", "target": "x"}]}}),
        ),
        ("through a dangling link", "3.1.0", files(json!([{"path": "/dangling/a/b", "contents": hi}]))),
        // Groups.
        (
            "groups",
            "3.0.0",
            groups(
                json!([{"name": "one"}, {"name": "two", "gid": 1200}, {"name": "three", "passwordHash": "hash"}, {"name": "four", "system": true}, {"name": "five", "system": true, "gid": 50}, {"name": "six"}]),
            ),
        ),
        (
            "groups deleted",
            "3.2.0",
            groups(
                json!([{"name": "sudo", "shouldExist": false}, {"name": "none", "shouldExist": false}, {"name": "new", "shouldExist": true}]),
            ),
        ),
        // Users.
        ("user", "3.0.0", users(json!([{"name": "core"}]))),
        (
            "user with keys",
            "3.1.0",
            users(
                json!([{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 A a", "ssh-rsa B"]}, {"name": "old", "sshAuthorizedKeys": ["one\n", "two\n"]}]),
            ),
        ),
        (
            "user of every field",
            "3.2.0",
            users(
                json!([{"name": "core", "uid": 1234, "gecos": "A B,1", "homeDir": "/srv/home/core", "primaryGroup": "users", "groups": ["wheel", "sudo"], "shell": "/bin/sh", "passwordHash": "$y$hash", "shouldExist": true}]),
            ),
        ),
        (
            "system users",
            "3.3.0",
            users(
                json!([{"name": "one", "system": true}, {"name": "two", "system": true, "noCreateHome": true}, {"name": "three", "system": true, "uid": 50}, {"name": "four", "system": true, "primaryGroup": "bin"}]),
            ),
        ),
        (
            "users without",
            "3.0.0",
            users(
                json!([{"name": "home", "noCreateHome": true}, {"name": "group", "noUserGroup": true}, {"name": "log", "noLogInit": true}, {"name": "password", "passwordHash": ""}]),
            ),
        ),
        (
            "users with odd numbers",
            "3.1.0",
            users(
                json!([{"name": "low", "uid": 500}, {"name": "high", "uid": 70000}, {"name": "next"}, {"name": "same", "uid": 1400}]),
            ),
        ),
        ("user with a home that is there", "3.1.0", users(json!([{"name": "core", "homeDir": "/srv/other"}]))),
        (
            "user with a home behind a link",
            "3.2.0",
            users(json!([{"name": "core", "homeDir": "/data/here/core", "sshAuthorizedKeys": ["a"]}])),
        ),
        (
            "groups and users",
            "3.2.0",
            json!({"passwd": {"groups": [{"name": "one", "gid": 1011}, {"name": "two"}], "users": [{"name": "core", "groups": ["one", "two", "wheel"]}, {"name": "next", "primaryGroup": "two"}, {"name": "last", "primaryGroup": "1011"}]}}),
        ),
        (
            "user changed",
            "3.0.0",
            users(json!([{"name": "old", "gecos": "New", "shell": "/bin/zsh", "passwordHash": "$6$new"}])),
        ),
        ("user not changed", "3.1.0", users(json!([{"name": "old", "gecos": "Old", "shell": "/bin/sh"}]))),
        (
            "user's password",
            "3.2.0",
            users(json!([{"name": "old", "passwordHash": "$6$new"}, {"name": "other", "passwordHash": ""}])),
        ),
        ("user's numbers", "3.3.0", users(json!([{"name": "old", "uid": 1500, "primaryGroup": "wheel"}]))),
        (
            "user's groups",
            "3.0.0",
            users(json!([{"name": "old", "groups": ["wheel"]}, {"name": "other", "groups": ["shared", "sudo"]}])),
        ),
        ("user's home", "3.1.0", users(json!([{"name": "old", "homeDir": "/home/moved", "uid": 1600}]))),
        (
            "user deleted",
            "3.2.0",
            users(json!([{"name": "old", "shouldExist": false}, {"name": "none", "shouldExist": false}])),
        ),
        (
            "user deleted and another made",
            "3.3.0",
            users(json!([{"name": "other", "shouldExist": false}, {"name": "core", "groups": ["shared"]}])),
        ),
        // Units.
        (
            "unit",
            "3.0.0",
            units(
                json!([{"name": "a.service", "enabled": true, "contents": unit}, {"name": "e.timer", "contents": ""}]),
            ),
        ),
        (
            "drop-ins",
            "3.1.0",
            units(
                json!([{"name": "b.service", "dropins": [{"name": "10-a.conf", "contents": "[Service]\nA=b\n"}, {"name": "20-b.conf", "contents": ""}, {"name": "30-c.conf"}]}]),
            ),
        ),
        (
            "unit replaced",
            "3.2.0",
            units(json!([{"name": "alias.service", "contents": unit}, {"name": "a.path", "enabled": true}])),
        ),
        (
            "units disabled",
            "3.3.0",
            units(json!([{"name": "b.service", "enabled": false}, {"name": "none.service", "enabled": false}])),
        ),
        (
            "units masked",
            "3.0.0",
            units(
                json!([{"name": "m.service", "mask": true}, {"name": "n.service", "mask": true, "contents": unit}, {"name": "alias.service", "mask": true}, {"name": "o.service", "mask": false}]),
            ),
        ),
        (
            "units unmasked",
            "3.2.0",
            units(
                json!([{"name": "masked.service", "mask": false, "enabled": true}, {"name": "b.service", "mask": false}, {"name": "alias.service", "mask": false}, {"name": "nothing.service", "mask": false}]),
            ),
        ),
        (
            "presets in order",
            "3.3.0",
            units(
                json!([{"name": "z.service", "enabled": true}, {"name": "b.service", "enabled": false}, {"name": "a@x.service", "enabled": true}, {"name": "a.service", "enabled": true}, {"name": "a@a.service", "enabled": true}, {"name": "Z.service", "enabled": true}]),
            ),
        ),
        ("disabled unit disabled", "3.0.0", units(json!([{"name": "off.service", "enabled": false}]))),
        ("masked unit disabled", "3.0.0", units(json!([{"name": "masked.service", "enabled": false}]))),
        ("linked unit disabled", "3.0.0", units(json!([{"name": "linked.service", "enabled": false}]))),
        ("unit of no rules disabled", "3.0.0", units(json!([{"name": "static.service", "enabled": false}]))),
        ("unit of others' rules disabled", "3.0.0", units(json!([{"name": "indirect.service", "enabled": false}]))),
        ("unit disabled by another name", "3.0.0", units(json!([{"name": "alias.service", "enabled": false}]))),
        (
            "unit written and disabled",
            "3.0.0",
            units(json!([{"name": "new.service", "enabled": false, "contents": unit}])),
        ),
        ("unit masked and disabled", "3.1.0", units(json!([{"name": "c.service", "mask": true, "enabled": false}]))),
        (
            "instances enabled",
            "3.2.0",
            units(
                json!([{"name": "t@.service", "contents": unit}, {"name": "t@a.service", "enabled": true}, {"name": "t@b.c.service", "enabled": true}, {"name": "u@.service", "enabled": true}, {"name": "z.socket", "enabled": true}]),
            ),
        ),
        (
            "instances disabled",
            "3.3.0",
            units(json!([{"name": "t@one.service", "enabled": false}, {"name": "t@two.service", "enabled": true}])),
        ),
        (
            "all at once",
            "3.3.0",
            json!({
                "passwd": {"groups": [{"name": "app", "gid": 1300}], "users": [{"name": "core", "groups": ["wheel", "app"], "sshAuthorizedKeys": ["k"]}]},
                "storage": {"directories": [{"path": "/opt/app", "user": {"name": "core"}, "group": {"name": "app"}, "mode": 488}], "files": [{"path": "/opt/app/bin/run", "mode": 493, "contents": hi}, {"path": "/etc/hostname", "contents": hi, "overwrite": true}], "links": [{"path": "/etc/localtime", "target": "../usr/share/zoneinfo/UTC"}, {"path": "/opt/run", "target": "/opt/app/bin/run", "hard": true}]},
                "systemd": {"units": [{"name": "app.service", "enabled": true, "contents": unit, "dropins": [{"name": "a.conf", "contents": "[Unit]\n"}]}, {"name": "b.service", "mask": true}]},
            }),
        ),
    ]
}

/// Those that it applies since [`super::real::RULES_SINCE`].
pub(crate) fn newer() -> Vec<Case> {
    vec![
        ("group that is there", "3.0.0", groups(json!([{"name": "wheel"}]))),
        ("group with its own number", "3.0.0", groups(json!([{"name": "wheel", "gid": 10, "system": true}]))),
        ("group with another number", "3.1.0", groups(json!([{"name": "users", "gid": 1500}, {"name": "new"}]))),
        ("group with a password", "3.2.0", groups(json!([{"name": "sudo", "passwordHash": "hash"}]))),
        ("group with an empty password", "3.2.0", groups(json!([{"name": "sudo", "passwordHash": ""}]))),
        (
            "group with both, and a user in it",
            "3.3.0",
            json!({"passwd": {"groups": [{"name": "old", "gid": 1234, "passwordHash": "x"}], "users": [{"name": "core", "groups": ["old"]}]}}),
        ),
    ]
}

/// Those that Ignition refuses or fails at.
pub(crate) fn bad() -> Vec<Case> {
    let hi = json!({"source": "data:,hi"});
    vec![
        ("file that is there", "3.0.0", files(json!([{"path": "/data/real/file", "contents": hi}]))),
        ("file where a directory is", "3.1.0", files(json!([{"path": "/home", "mode": 420}]))),
        ("append to a link", "3.1.0", files(json!([{"path": "/lnk", "append": [hi]}]))),
        ("file below a file", "3.2.0", files(json!([{"path": "/data/real/file/x"}]))),
        (
            "wrong hash",
            "3.3.0",
            files(json!([{"path": "/a", "contents": {"source": "data:,hi", "verification": {"hash": SHA512}}}])),
        ),
        (
            "not gzip",
            "3.0.0",
            files(json!([{"path": "/a", "contents": {"source": "data:,hi", "compression": "gzip"}}])),
        ),
        ("unknown owner", "3.1.0", files(json!([{"path": "/a", "user": {"name": "nobody-here"}}]))),
        ("directory where a file is", "3.2.0", directories(json!([{"path": "/data/real/file"}]))),
        ("one place by two paths", "3.3.0", files(json!([{"path": "/lnk/a"}, {"path": "/data/real/a"}]))),
        ("link where a link is", "3.0.0", links(json!([{"path": "/lnk", "target": "/home"}]))),
        ("link where a file is", "3.1.0", links(json!([{"path": "/data/real/file", "target": "/home"}]))),
        (
            "hard link where a file is",
            "3.2.0",
            links(json!([{"path": "/home/old/f", "target": "/home/old/g", "hard": true}])),
        ),
        ("hard link to nothing", "3.3.0", links(json!([{"path": "/a", "target": "/nothing", "hard": true}]))),
        ("group's number taken by another", "3.0.0", groups(json!([{"name": "wheel", "gid": 8}]))),
        ("group's number taken", "3.1.0", groups(json!([{"name": "new", "gid": 10}]))),
        ("primary group deleted", "3.2.0", groups(json!([{"name": "users", "shouldExist": false}]))),
        ("user's number taken", "3.3.0", users(json!([{"name": "core", "uid": 1005}]))),
        ("user's group is there", "3.0.0", users(json!([{"name": "wheel"}]))),
        ("unknown group", "3.1.0", users(json!([{"name": "core", "groups": ["none"]}]))),
        ("unknown primary group", "3.2.0", users(json!([{"name": "core", "primaryGroup": "none"}]))),
        (
            "keys without a home",
            "3.3.0",
            users(json!([{"name": "core", "noCreateHome": true, "sshAuthorizedKeys": ["a"]}])),
        ),
        ("home moved onto another", "3.0.0", users(json!([{"name": "old", "homeDir": "/srv/other"}]))),
        ("name of a user", "3.1.0", users(json!([{"name": "a:b"}]))),
        ("colon in a comment", "3.2.0", users(json!([{"name": "core", "gecos": "a:b"}]))),
        ("home of somebody else deleted", "3.2.0", users(json!([{"name": "guest", "shouldExist": false}]))),
    ]
}

/// A parent, a child by `ignition.config.merge`, and their versions.
pub(crate) fn families() -> Vec<(&'static str, Value, Value)> {
    let config = |version: &str, mut rest: Value| {
        rest["ignition"] = json!({"version": version});
        rest
    };
    vec![
        (
            "files and links",
            config(
                "3.3.0",
                json!({"storage": {"files": [{"path": "/a", "contents": {"source": "data:,parent"}, "mode": 384}, {"path": "/b", "append": [{"source": "data:,1"}]}], "links": [{"path": "/c", "target": "x"}]}}),
            ),
            config(
                "3.3.0",
                json!({"storage": {"files": [{"path": "/a", "contents": {"source": "data:,child"}}, {"path": "/b", "append": [{"source": "data:,2"}]}, {"path": "/c", "contents": {"source": "data:,file"}}], "directories": [{"path": "/d", "mode": 448}]}}),
            ),
        ),
        (
            "accounts",
            config(
                "3.2.0",
                json!({"passwd": {"groups": [{"name": "one", "gid": 1100}], "users": [{"name": "core", "groups": ["wheel"], "sshAuthorizedKeys": ["a", "b"], "gecos": "Parent"}]}}),
            ),
            config(
                "3.2.0",
                json!({"passwd": {"groups": [{"name": "one", "gid": 1200}, {"name": "two"}], "users": [{"name": "core", "groups": ["sudo"], "sshAuthorizedKeys": ["b", "c"], "uid": 1300}, {"name": "next"}]}}),
            ),
        ),
        (
            "units",
            config(
                "3.1.0",
                json!({"systemd": {"units": [{"name": "a.service", "enabled": true, "contents": "[Install]\nWantedBy=x.target\n", "dropins": [{"name": "a.conf", "contents": "[Unit]\n"}]}, {"name": "b.service", "mask": true}]}}),
            ),
            config(
                "3.1.0",
                json!({"systemd": {"units": [{"name": "a.service", "enabled": false, "dropins": [{"name": "a.conf", "contents": "[Service]\n"}, {"name": "b.conf", "contents": "[Unit]\n"}]}, {"name": "b.service", "mask": false}, {"name": "c.service", "enabled": true}]}}),
            ),
        ),
        (
            "an older child",
            config("3.3.0", json!({"storage": {"files": [{"path": "/a", "contents": {"source": "data:,parent"}}]}})),
            config(
                "3.0.0",
                json!({"storage": {"files": [{"path": "/a", "mode": 256}, {"path": "/b", "contents": {"source": "data:,child"}}]}, "passwd": {"users": [{"name": "core"}]}}),
            ),
        ),
    ]
}
