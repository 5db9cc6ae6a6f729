//! The real Ignition on a directory, and what a directory looks like afterwards.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, chown, symlink},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::Command,
    thread,
};
use tempfile::TempDir;

/// What stays the same for every config.
pub(super) const TREE: &str = "
d /etc 755 0 0
d /etc/skel 755 0 0
f /etc/skel/.bashrc 644 0 0 # for everybody
d /etc/skel/.config 750 0 0
f /etc/skel/.config/x 600 0 0 x
l /etc/skel/.profile - 0 0 .bashrc
d /etc/selinux/targeted/contexts/files 755 0 0
f /etc/selinux/config 644 0 0 SELINUX=disabled|SELINUXTYPE=targeted
f /etc/selinux/targeted/contexts/files/file_contexts 644 0 0
f /etc/passwd 644 0 0 root:x:0:0:root:/root:/bin/bash|bin:x:1:1:bin:/bin:/sbin/nologin|old:x:1005:1005:Old:/home/old:/bin/sh|other:x:1010:100::/srv/other:/bin/sh|guest:x:990:100::/data:/bin/sh
f /etc/shadow 640 0 42 root:*:19000:0:99999:7:::|bin:*:19000:0:99999:7:::|old:!:19000:0:99999:7:::|other:!:19000:0:99999:7:::|guest:!:19000:0:99999:7:::
f /etc/group 644 0 0 root:x:0:|bin:x:1:|mail:x:8:|wheel:x:10:|sudo:x:27:old|users:x:100:|old:x:1005:|shared:x:1400:old,other
f /etc/gshadow 640 0 42 root:*::|bin:*::|mail:*::|wheel:*::|sudo:*::old|users:*::|old:!::|shared:!::old,other
f /etc/subuid 644 0 0 old:100000:65536
f /etc/subgid 644 0 0 old:100000:65536
f /etc/login.defs 644 0 0 MAIL_DIR /var/mail|UMASK 027|UID_MIN 1000|UID_MAX 60000|GID_MIN 1000|GID_MAX 60000|SYS_UID_MIN 201|SYS_GID_MIN 201|PASS_MAX_DAYS 99999|PASS_MIN_DAYS 0|PASS_WARN_AGE 7|USERGROUPS_ENAB yes|ENCRYPT_METHOD SHA512
d /etc/default 755 0 0
f /etc/default/useradd 644 0 0 SHELL=/bin/zsh|CREATE_MAIL_SPOOL=yes|GROUP=100
d /etc/systemd/system/multi-user.target.wants 755 0 0
d /etc/systemd/system/x.target.requires 755 0 0
l /etc/systemd/system/multi-user.target.wants/b.service - 0 0 /usr/lib/systemd/system/b.service
l /etc/systemd/system/multi-user.target.wants/c.service - 0 0 /usr/lib/systemd/system/c.service
l /etc/systemd/system/multi-user.target.wants/keep.service - 0 0 /usr/lib/systemd/system/keep.service
l /etc/systemd/system/multi-user.target.wants/t@one.service - 0 0 /usr/lib/systemd/system/t@.service
l /etc/systemd/system/x.target.requires/b.service - 0 0 ../b.service
l /etc/systemd/system/alias.service - 0 0 /usr/lib/systemd/system/b.service
l /etc/systemd/system/masked.service - 0 0 /dev/null
l /etc/systemd/system/linked.service - 0 0 /opt/linked.service
f /opt/linked.service 644 0 0 [Install]|WantedBy=multi-user.target
f /usr/lib/systemd/system/off.service 644 0 0 [Install]|WantedBy=multi-user.target
f /usr/lib/systemd/system/static.service 644 0 0 [Service]|ExecStart=/bin/true
f /usr/lib/systemd/system/indirect.service 644 0 0 [Install]|Also=c.service
f /usr/lib/systemd/system/b.service 644 0 0 [Install]|WantedBy=multi-user.target|Also=c.service
f /usr/lib/systemd/system/c.service 644 0 0 [Install]|WantedBy=multi-user.target
f /usr/lib/systemd/system/keep.service 644 0 0 [Install]|WantedBy=multi-user.target
f /usr/lib/systemd/system/t@.service 644 0 0 [Install]|WantedBy=multi-user.target
d /home 755 0 0
d /home/old 700 1005 1005
f /home/old/f 640 1005 1005 mine
f /home/old/g 644 0 1005 not mine
d /srv/other 755 1010 100
f /srv/other/thing 644 1010 100 thing
d /var/mail 2775 0 8
f /var/mail/old 660 1005 8 mail
d /var/log 755 0 0
f /var/log/lastlog 664 0 0
f /var/log/faillog 644 0 0
d /data/real 755 1005 100
f /data/real/file 604 1005 100 before
l /data/here - 0 0 real
l /lnk - 0 0 /data/real
l /chain - 0 0 lnk/../here
l /up - 0 0 ../../../data
l /dangling - 0 0 /nowhere/yet
d /usr/bin 755 0 0
d /proc 555 0 0
d /tmp 1777 0 0
";

/// Everything in the root, recreated.
pub(super) fn base(root: &Path) {
    for line in TREE.lines().filter(|line| !line.is_empty()) {
        let mut words = line.splitn(6, ' ');
        let [kind, path, mode, uid, gid] = [(); 5].map(|()| words.next().unwrap());
        let rest = words.next().unwrap_or_default();
        let path = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let (uid, gid) = (uid.parse().unwrap(), gid.parse().unwrap());
        match kind {
            "l" => {
                symlink(rest, &path).unwrap();
                continue;
            }
            "d" => fs::create_dir_all(&path).unwrap(),
            _ if path.ends_with("lastlog") => fs::write(&path, vec![b'1'; 1012 * 292]).unwrap(),
            _ if path.ends_with("faillog") => fs::write(&path, vec![b'1'; 1012 * 32]).unwrap(),
            _ if rest.is_empty() => fs::write(&path, "").unwrap(),
            _ => fs::write(&path, format!("{}\n", rest.replace('|', "\n"))).unwrap(),
        }
        chown(&path, Some(uid), Some(gid)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(u32::from_str_radix(mode, 8).unwrap())).unwrap();
    }
}

/// What is at a path: kind, mode, owners; bytes or where it leads; and which other path it is the same as.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub kind: &'static str,
    pub mode: u32,
    pub owners: (u32, u32),
    pub contents: Vec<u8>,
    pub same_as: Option<String>,
}

/// All below a root, by path.
pub(super) fn snapshot(root: &Path) -> BTreeMap<String, Node> {
    let (mut nodes, mut known, mut pending) = (BTreeMap::new(), BTreeMap::new(), vec![root.to_owned()]);
    let mut paths = Vec::new();
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                pending.push(path.clone());
            }
            paths.push(path);
        }
    }
    paths.sort();
    for path in paths {
        let stat = fs::symlink_metadata(&path).unwrap();
        let name = format!("/{}", path.strip_prefix(root).unwrap().display());
        let (kind, contents) = match stat.file_type() {
            kind if kind.is_dir() => ("directory", Vec::new()),
            kind if kind.is_symlink() => ("link", fs::read_link(&path).unwrap().as_os_str().as_bytes().to_owned()),
            _ => ("file", fs::read(&path).unwrap()),
        };
        let same_as = (kind == "file").then(|| known.insert((stat.dev(), stat.ino()), name.clone())).flatten();
        let owners = (stat.uid(), stat.gid());
        nodes.insert(name, Node { kind, mode: stat.mode() & 0o7777, owners, contents, same_as });
    }
    nodes
}

/// What Ignition starts.
const PROGRAMS: [&str; 8] =
    ["useradd", "usermod", "userdel", "groupadd", "groupdel", "groupmod", "systemctl", "unshare"];
/// Its rules are those held to; some of what older ones do differs.
const RULES_SINCE: (u32, u32) = (2, 25);

/// Ignition, and a systemd that says its version, for which Ignition asks when it has written presets of templates.
pub(super) struct Real {
    binary: PathBuf,
    dir: TempDir,
    /// Whether it is older than the rules we hold to.
    pub is_old: bool,
}

impl Real {
    /// The program named by LANDFALL_IGNITION or unpacked below the target directory; None if it is not available.
    pub(super) fn find() -> Option<Self> {
        let unpacked = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../target/vm/packages/ignition/usr/lib/dracut/modules.d/30ignition/ignition");
        let path = |name: &&str| {
            ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].iter().any(|dir| Path::new(dir).join(name).exists())
        };
        let missing: Vec<_> = PROGRAMS.into_iter().filter(|name| !path(name)).collect();
        let binary = std::env::var_os("LANDFALL_IGNITION").map_or(unpacked.clone(), PathBuf::from).canonicalize();
        let is_root = nix::unistd::geteuid().is_root();
        let Some(binary) = binary.ok().filter(|_| is_root && missing.is_empty()) else {
            let why = format!("it needs root, {} (make setup unpacks it) and {missing:?}", unpacked.display());
            testkit::skip::because(why);
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("bin")).unwrap();
        fs::create_dir_all(dir.path().join("systemd")).unwrap();
        // Debian's build labels files; nothing here knows labels.
        let setfiles = dir.path().join("bin/setfiles");
        testkit::process::place(&setfiles, "#!/bin/sh\ncat >/dev/null\n");
        let listener = UnixListener::bind(dir.path().join("systemd/private")).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || answer(stream));
            }
        });
        let version = Command::new(&binary).arg("--version").output().unwrap().stdout;
        let is_old = version_of(&String::from_utf8_lossy(&version)).is_some_and(|version| version < RULES_SINCE);
        Some(Self { binary, dir, is_old })
    }

    /// Applies a config to a root. The error is what it says.
    pub(super) fn apply(&self, root: &Path, config: &str) -> Result<(), String> {
        const SCRIPT: &str = r#"
            mount -t tmpfs none /run && mkdir /run/systemd && mount --bind "$WORK/systemd" /run/systemd &&
            mount --bind /proc "$ROOT/proc" || exit 99
            if test -d /usr/lib/ignition; then mount -t tmpfs none /usr/lib/ignition || exit 99; fi
            for stage in fetch-offline fetch files; do
                "$IGNITION" --root="$ROOT" --platform=file --stage=$stage --log-to-stdout || exit 1
            done"#;
        let config_file = tempfile::NamedTempFile::new_in(self.dir.path()).unwrap();
        fs::write(config_file.path(), config).unwrap();
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.dir.path().join("bin").display());
        let output = Command::new("unshare")
            .args(["-m", "sh", "-c", SCRIPT])
            .env("PATH", path)
            .env("WORK", self.dir.path())
            .env("ROOT", root)
            .env("IGNITION", &self.binary)
            .env("IGNITION_CONFIG_FILE", config_file.path())
            .output()
            .unwrap();
        let log = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert_ne!(output.status.code(), Some(99), "the mounts for Ignition failed: {log}");
        let critical = log.lines().filter(|line| line.starts_with("CRITICAL")).collect::<Vec<_>>().join("\n");
        if output.status.success() {
            Ok(())
        } else {
            Err(if critical.is_empty() { log.into_owned() } else { critical })
        }
    }
}

/// `2.14` of `Ignition Debian 2.14.0+ds1`; one that is built by hand says nothing.
fn version_of(text: &str) -> Option<(u32, u32)> {
    let numbers = text.split(|char: char| !char.is_ascii_digit() && char != '.').find(|word| word.contains('.'))?;
    let mut numbers = numbers.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Speaks enough of D-Bus to say `Version`.
fn answer(stream: UnixStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let reply = match line.trim_start_matches('\0').trim() {
            "AUTH" => "REJECTED EXTERNAL\r\n",
            "BEGIN" => break,
            line if line.starts_with("AUTH EXTERNAL") => "OK 00112233445566778899aabbccddeeff\r\n",
            _ => "ERROR\r\n",
        };
        writer.write_all(reply.as_bytes()).ok()?;
    }
    loop {
        let mut head = [0; 16];
        reader.read_exact(&mut head).ok()?;
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
        let rest = word(12).next_multiple_of(8) + word(4);
        let mut body = vec![0; usize::try_from(rest).ok()?];
        reader.read_exact(&mut body).ok()?;
        let mut reply = vec![b'l', 2, 1, 1, 12, 0, 0, 0, 1, 0, 0, 0, 15, 0, 0, 0, 5, 1, b'u', 0];
        reply.extend(&head[8..12]);
        reply.extend([8, 1, b'g', 0, 1, b'v', 0, 0]);
        reply.extend([1, b's', 0, 0, 3, 0, 0, 0, b'2', b'5', b'2', 0]);
        writer.write_all(&reply).ok()?;
    }
}
