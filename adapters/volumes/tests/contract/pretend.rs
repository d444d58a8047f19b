//! Programs that pretend: they write down what they are told, and what is mounted is a line in a file.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use persys_volumes::{CephSettings, Limit, LocalSettings, NfsSettings, Settings, Tools};
use tempfile::TempDir;

pub(crate) struct Pretend {
    pub(crate) folder: TempDir,
}

const MOUNT: &str = r#"for last; do :; done
eval "source=\${$(($# - 1))}"
echo "1 1 0:1 / $last rw - fs $source rw" >> "$HERE/mountinfo"
"#;
const UMOUNT: &str = r#"grep -v " $2 rw - " "$HERE/mountinfo" > "$HERE/m2"; mv "$HERE/m2" "$HERE/mountinfo"
"#;
/// Images are files; a mapped one has a line in a list.
const RBD: &str = r#"for last; do :; done
while [ "${1#--}" != "$1" ]; do shift 2; done
case "$1 $2" in
"info "*) [ -e "$HERE/rbd/$last" ] || exit 2; echo "{\"size\": $(cat "$HERE/rbd/$last")}" ;;
"create "*) echo $((${3%M} * 1048576)) > "$HERE/rbd/$last" ;;
"resize "*) echo $((${3%M} * 1048576)) > "$HERE/rbd/$last" ;;
"device list") echo "[$(cat "$HERE/mapped")]" ;;
"device map") echo "{\"pool\":\"rbd\",\"name\":\"$last\",\"device\":\"/dev/rbd9\"}" > "$HERE/mapped"; echo /dev/rbd9 ;;
"device unmap") : > "$HERE/mapped" ;;
"rm "*) [ -e "$HERE/rbd/$last" ] || exit 2; rm "$HERE/rbd/$last"; rm -rf "$HERE/ceph/mounts" ;;
*) exit 9 ;;
esac
"#;
const BLKID: &str = r#"[ -e "$HERE/formatted" ] || exit 2
"#;
const MKFS: &str = r#": > "$HERE/formatted"
"#;

impl Pretend {
    pub(crate) fn new() -> Self {
        let one = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir(one.path().join("rbd")).unwrap();
        for (name, text) in [("mountinfo", ""), ("mapped", ""), ("fs", "nodev\tnfs4\n")] {
            std::fs::write(one.path().join(name), text).unwrap();
        }
        for (name, script) in [
            ("mount", MOUNT),
            ("umount", UMOUNT),
            ("mount.nfs", ""),
            ("rbd.sh", RBD),
            ("blkid", BLKID),
            ("mkfs.ext4", MKFS),
            ("resize2fs", ""),
        ] {
            one.program(name, script);
        }
        one
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn program(&self, name: &str, script: &str) {
        let here = self.path().display();
        let path = self.path().join(name);
        let text =
            format!("#!/bin/sh\nHERE={here}\necho \"{name} $*\" >> \"$HERE/told\"\n{script}");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// What the programs were told, with our folder left out.
    pub(crate) fn told(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path().join("told")).unwrap_or_default();
        text.replace(&self.path().display().to_string(), "").lines().map(str::to_owned).collect()
    }

    pub(crate) fn tools(&self) -> Tools {
        let at = |name: &str| -> PathBuf { self.path().join(name) };
        Tools {
            mount: at("mount"),
            umount: at("umount"),
            mount_nfs: at("mount.nfs"),
            sbin: at(""),
            rbd: at("rbd.sh"),
            mountinfo: at("mountinfo"),
            filesystems: at("fs"),
            ..Tools::default()
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            state: self.path().join("state"),
            local: LocalSettings { root: self.path().join("local"), limit: Limit::None },
            nfs: Some(NfsSettings {
                server: "nas.test".to_owned(),
                export: "/srv/vols".to_owned(),
                options: "vers=4.2,hard".to_owned(),
                stage: self.path().join("nfs"),
            }),
            ceph: Some(CephSettings {
                cluster: "ceph".to_owned(),
                pool: "rbd".to_owned(),
                user: "persys".to_owned(),
                keyring: "/etc/ceph/key".to_owned(),
                stage: self.path().join("ceph"),
            }),
            tools: self.tools(),
        }
    }
}
