//! Configs at random.

use fastrand::Rng;
use serde_json::{Map, Value};

/// Makes configs; `faults` of a hundred values are such as no config should have.
pub(crate) struct Maker {
    pub rng: Rng,
    pub version: &'static str,
    pub faults: u8,
}

type Make = fn(&mut Maker) -> Value;

impl Maker {
    pub(crate) fn config(&mut self) -> Value {
        let mut config = self.object(
            0,
            &[
                ("storage", storage),
                ("systemd", |m| m.object(1, &[("units", |m| m.list(3, unit))])),
                ("passwd", |m| m.object(0, &[("users", |m| m.list(2, user)), ("groups", |m| m.list(2, group))])),
                ("kernelArguments", |m| {
                    m.object(
                        0,
                        &[
                            ("shouldExist", |m| m.list(2, |m| m.one(&["a", "b"], &[]))),
                            ("shouldNotExist", |m| m.list(2, |m| m.one(&["b", "c"], &[]))),
                        ],
                    )
                }),
            ],
        );
        config["ignition"] = ignition(self);
        config
    }

    fn one(&mut self, good: &[&str], bad: &[&str]) -> Value {
        let faulty = self.rng.u8(0..100) < self.faults;
        let list = if faulty && !bad.is_empty() { bad } else { good };
        match self.rng.usize(0..=list.len()) {
            0 if faulty => Value::Null,
            n => list[n.min(list.len() - 1)].into(),
        }
    }

    /// Some of these members; names given first are always there, unless that is the fault.
    fn object(&mut self, needed: usize, members: &[(&str, Make)]) -> Value {
        let mut object = Map::new();
        for (place, (name, make)) in members.iter().enumerate() {
            let wanted = if place < needed { self.rng.u8(0..100) >= self.faults / 4 } else { self.rng.u8(0..3) == 0 };
            if wanted {
                let value = make(self);
                object.insert((*name).to_owned(), value);
            }
        }
        if self.rng.u8(0..100) < self.faults / 5 {
            object.insert("bogus".into(), 1.into());
        }
        object.into()
    }

    fn list(&mut self, most: usize, make: Make) -> Value {
        let len = self.rng.usize(0..=most);
        (0..len).map(|_| make(self)).collect()
    }

    fn flag(&mut self) -> Value {
        self.rng.bool().into()
    }

    fn number(&mut self) -> Value {
        self.rng.i64(-1..4).into()
    }
}

fn url(m: &mut Maker) -> Value {
    m.one(
        &[
            "http://a.example/x",
            "https://a.example:8080/x?y=z",
            "tftp://a/b",
            "data:,x%20y",
            "data:;base64,eHl6",
            "s3://b/k",
            "",
        ],
        &[
            "data:,x y",
            "DATA:,x",
            "data:;base64,x",
            "gs://b/k",
            "arn:aws:s3:::b/k",
            "oem:///x",
            "http://[::1]a",
            "http://a b/",
            "s3://b/k?versionId=",
            ":x",
            "a",
        ],
    )
}

fn path(m: &mut Maker) -> Value {
    m.one(
        &[
            "/a",
            "/a/b",
            "/c",
            "/d/e/f",
            "/etc/hosts",
            "/etc/systemd/system/x.service",
            "/etc/systemd/system/x.service.d/a.conf",
        ],
        &["", "a", "/a/", "/a/../b", "//x", "/a/./b"],
    )
}

fn hash(m: &mut Maker) -> Value {
    let (long, short) = (format!("sha512-{}", "0".repeat(128)), format!("sha256-{}", "a".repeat(64)));
    m.one(&[&long, &short], &["", "sha512", "md5-0", "sha512-00", "sha256-zz"])
}

fn verification(m: &mut Maker) -> Value {
    m.object(0, &[("hash", hash)])
}

fn headers(m: &mut Maker) -> Value {
    m.list(2, |m| m.object(2, &[("name", |m| m.one(&["A", "B"], &[""])), ("value", |m| m.one(&["x"], &[""]))]))
}

fn resource(m: &mut Maker) -> Value {
    let members: [(&str, Make); 4] = [
        ("source", url),
        ("compression", |m| m.one(&["", "gzip"], &["xz"])),
        ("httpHeaders", headers),
        ("verification", verification),
    ];
    m.object(1, &members)
}

fn owner(m: &mut Maker) -> Value {
    m.object(0, &[("id", Maker::number), ("name", |m| m.one(&["core", ""], &[]))])
}

fn mode(m: &mut Maker) -> Value {
    let faulty = m.rng.u8(0..100) < m.faults;
    let modes: [i64; 3] = if faulty { [-1, 0o10000, 99999999] } else { [0, 0o644, 0o777] };
    modes[m.rng.usize(0..3)].into()
}

fn file(m: &mut Maker) -> Value {
    m.object(
        1,
        &[
            ("path", path),
            ("contents", resource),
            ("mode", mode),
            ("overwrite", Maker::flag),
            ("user", owner),
            ("group", owner),
            ("append", |m| m.list(2, resource)),
        ],
    )
}

fn directory(m: &mut Maker) -> Value {
    m.object(1, &[("path", path), ("mode", mode), ("overwrite", Maker::flag), ("user", owner)])
}

fn link(m: &mut Maker) -> Value {
    m.object(
        2,
        &[
            ("path", path),
            ("target", |m| m.one(&["/a", "/x", "../y", "b"], &[""])),
            ("hard", Maker::flag),
            ("overwrite", Maker::flag),
        ],
    )
}

fn guid(m: &mut Maker) -> Value {
    m.one(&["01234567-89AB-CDEF-EDCB-A98765432101", ""], &["x", "01234567-89AB-CDEF-EDCB-A9876543210"])
}

fn partition(m: &mut Maker) -> Value {
    m.object(
        1,
        &[
            ("number", |m| m.rng.i64(0..4).into()),
            ("label", |m| m.one(&["root", "var", "x"], &["a:b", "0123456789012345678901234567890123456789"])),
            ("sizeMiB", |m| m.rng.i64(0..20).into()),
            ("startMiB", |m| m.rng.i64(0..20).into()),
            ("typeGuid", guid),
            ("guid", guid),
            ("shouldExist", |m| (m.rng.u8(0..5) > 0).into()),
            ("wipePartitionEntry", Maker::flag),
            ("resize", Maker::flag),
        ],
    )
}

fn device(m: &mut Maker) -> Value {
    m.one(&["/dev/vda", "/dev/vdb", "/dev/disk/by-label/x"], &["", "vda", "/dev/../x"])
}

fn disk(m: &mut Maker) -> Value {
    m.object(1, &[("device", device), ("partitions", |m| m.list(3, partition)), ("wipeTable", Maker::flag)])
}

fn raid(m: &mut Maker) -> Value {
    m.object(
        3,
        &[
            ("name", |m| m.one(&["r", "s"], &[])),
            ("level", |m| m.one(&["raid1", "linear", "stripe", "10"], &["", "raid7"])),
            ("devices", |m| m.list(2, device)),
            ("spares", Maker::number),
            ("options", |m| m.list(2, |m| m.one(&["--x", "--y"], &[]))),
        ],
    )
}

fn filesystem(m: &mut Maker) -> Value {
    m.object(
        2,
        &[
            ("device", device),
            ("format", |m| m.one(&["ext4", "xfs", "btrfs", "vfat", "swap", "virtiofs"], &["", "ntfs", "none"])),
            ("label", |m| m.one(&["root", ""], &["0123456789abcdefg", "0123456789abc"])),
            ("path", |m| m.one(&["/var", ""], &["var", "/a/"])),
            ("uuid", |m| m.one(&["x"], &[])),
            ("wipeFilesystem", Maker::flag),
            ("options", |m| m.list(2, |m| m.one(&["-x"], &[]))),
            ("mountOptions", |m| m.list(2, |m| m.one(&["ro"], &[]))),
        ],
    )
}

fn luks(m: &mut Maker) -> Value {
    m.object(
        2,
        &[
            ("name", |m| m.one(&["l", "k"], &["a/b"])),
            ("device", device),
            ("keyFile", resource),
            ("label", |m| m.one(&["x"], &["01234567890123456789012345678901234567890123456789"])),
            ("uuid", |m| m.one(&["x"], &[])),
            ("wipeVolume", Maker::flag),
            ("options", |m| m.list(2, |m| m.one(&["-x"], &[]))),
            ("clevis", clevis),
        ],
    )
}

fn clevis(m: &mut Maker) -> Value {
    m.object(
        0,
        &[
            ("tpm2", Maker::flag),
            ("threshold", Maker::number),
            ("tang", |m| m.list(2, |m| m.object(2, &[("url", url), ("thumbprint", |m| m.one(&["x"], &[""]))]))),
            ("custom", |m| {
                m.object(
                    2,
                    &[
                        ("pin", |m| m.one(&["tpm2", "tang", "sss"], &["", "x"])),
                        ("config", |m| m.one(&["{}"], &[""])),
                        ("needsNetwork", Maker::flag),
                    ],
                )
            }),
        ],
    )
}

fn contents(m: &mut Maker) -> Value {
    m.one(
        &[
            "",
            "[Unit]\nDescription=x\n",
            "[Install]\nWantedBy=multi-user.target\n",
            "[Service]\nExecStart=/a \\\n b\n[Install]\nA=b",
        ],
        &["[Foo", "[Foo] x\n", "[Foo]\nbar\n", "[Foo]\nbar", "no section", "[Unit]\n# a \\\nb=c\n"],
    )
}

fn unit(m: &mut Maker) -> Value {
    m.object(
        1,
        &[
            ("name", |m| {
                m.one(&["x.service", "y.timer", "t@.service", "t@a.service", "z.mount"], &["", "x", "x.conf"])
            }),
            ("contents", contents),
            ("enabled", Maker::flag),
            ("mask", Maker::flag),
            ("dropins", |m| {
                m.list(2, |m| {
                    m.object(1, &[("name", |m| m.one(&["a.conf", "b.conf"], &["", "a"])), ("contents", contents)])
                })
            }),
        ],
    )
}

fn user(m: &mut Maker) -> Value {
    m.object(
        1,
        &[
            ("name", |m| m.one(&["core", "root"], &[""])),
            ("passwordHash", |m| m.one(&["x"], &[])),
            ("sshAuthorizedKeys", |m| m.list(3, |m| m.one(&["ssh-a", "ssh-b", "ssh-c"], &[]))),
            ("groups", |m| m.list(2, |m| m.one(&["wheel", "sudo"], &[]))),
            ("uid", Maker::number),
            ("shouldExist", Maker::flag),
        ],
    )
}

fn group(m: &mut Maker) -> Value {
    m.object(1, &[("name", |m| m.one(&["g", "h"], &[])), ("gid", Maker::number), ("system", Maker::flag)])
}

fn storage(m: &mut Maker) -> Value {
    m.object(
        0,
        &[
            ("files", |m| m.list(3, file)),
            ("directories", |m| m.list(2, directory)),
            ("links", |m| m.list(2, link)),
            ("disks", |m| m.list(2, disk)),
            ("raid", |m| m.list(2, raid)),
            ("filesystems", |m| m.list(2, filesystem)),
            ("luks", |m| m.list(2, luks)),
        ],
    )
}

fn ignition(m: &mut Maker) -> Value {
    let mut section = m.object(
        0,
        &[
            ("config", |m| m.object(0, &[("merge", |m| m.list(2, resource)), ("replace", resource)])),
            ("timeouts", |m| m.object(0, &[("httpTotal", Maker::number), ("httpResponseHeaders", Maker::number)])),
            ("security", |m| {
                m.object(0, &[("tls", |m| m.object(0, &[("certificateAuthorities", |m| m.list(2, resource))]))])
            }),
            ("proxy", |m| {
                m.object(
                    0,
                    &[("httpProxy", url), ("httpsProxy", url), ("noProxy", |m| m.list(2, |m| m.one(&["a", "b"], &[])))],
                )
            }),
        ],
    );
    section["version"] = spelled(m).into();
    section
}

/// The version, sometimes in an unusual form.
fn spelled(m: &mut Maker) -> String {
    let version = m.version;
    match m.rng.usize(0..60) {
        0 => format!("0{version}"),
        1 => version.replacen(".", ".0", 1),
        2 => format!("{version}+"),
        3 => format!("{version}-"),
        4 => format!("{version}-a_b"),
        5 => format!("{version}.0"),
        _ => version.to_owned(),
    }
}
