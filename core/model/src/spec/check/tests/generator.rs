//! Drafts nobody would write, from a seed.
//!
//! Most fields get a value that is fine there, some one that is not: so every rule is reached, and
//! drafts are both accepted and refused often.

use super::super::super::draft::{
    BindDraft, CloudInitDraft, ComposeDraft, ConstraintDraft, ContainerDraft, DiskDraft, Draft,
    Fetched, HealthDraft, LimitsDraft, NetworkDraft, PlacementDraft, PortDraft, ResourcesDraft,
    Texts, TolerationDraft, VmDraft, VolumeDraft,
};

/// Put where secrets belong; must never be printed.
pub(super) const SECRET: &str = "s3cr3t-value";

const TEXTS: &[&str] = &[
    "",
    " ",
    ".",
    "..",
    "../../etc/passwd",
    "/..",
    "/a/../b",
    "//",
    "/",
    "-",
    "--help",
    "-o=x",
    "\0",
    "a\0b",
    "\n",
    "a\nb",
    "\r\n",
    "\u{1b}[2J",
    "\u{7f}",
    "\u{85}",
    "\u{202e}",
    "ä",
    "日本",
    "\u{1f600}",
    "a b",
    "A",
    "UPPER",
    "a'\"/><x>",
    "]]>",
    "$(id)",
    "`id`",
    "a;b",
    "a|b",
    "%00",
    "%2e%2e",
    "a=b",
    "=",
    ":",
    "a:b",
    "a,b",
    "@",
    "a@b",
    "null",
    "0",
    "-1",
    "1e9",
    "true",
    "persys.vm_spec_b64",
    "persys.x",
    "COMPOSE_FILE",
    "PATH",
    "LD_PRELOAD",
    "rbd:",
    "rbd:a/b",
    "nfs://",
    "nfs://h/x",
    "h:/x",
    "ext::sh",
    "https://u:p@h/x",
    "https://h/x",
    "git@h:x",
    "iscsi",
    "Running",
    "no",
    "always",
    "tcp",
    "udp",
    "sctp",
    "vda",
    "vdb",
    "sda",
    "qcow2",
    "iso",
    "cdrom",
    "local",
    "nfs",
    "ceph-rbd",
    "RWX",
    "ROX",
    "Retain",
    "git",
    "inline",
    "firecracker",
    "exists",
    "in",
    "absent",
    "10.0.0.1",
    "10.0.0.1/33",
    "::1",
    "224.0.0.1",
    "52:54:00:00:00:01",
    "a",
    "web",
    "/a",
    "/data",
    "/data/",
    "c2VydmljZXM6IHt9Cg==",
    "AAAA",
    "====",
    "services: {}",
    "#cloud-config",
];

const NUMBERS: &[i64] = &[
    0,
    1,
    -1,
    2,
    3,
    63,
    64,
    80,
    255,
    256,
    1000,
    1024,
    65_535,
    65_536,
    65_537,
    -65_536,
    262_144,
    262_145,
    1 << 31,
    (1 << 31) - 1,
    -(1 << 31),
    1 << 40,
    i64::MAX,
    i64::MIN,
    i64::MAX - 1,
];

/// `SplitMix64`: small, well mixed, and the same everywhere.
pub(super) struct Generator {
    state: u64,
    /// One field in so many gets a nasty value.
    rarity: u64,
}

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed, rarity: 1 }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("fits");
        usize::try_from(self.next() % end).expect("fits")
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    fn nasty_text(&mut self) -> String {
        match self.below(200) {
            0 => "a".repeat(513),
            1 => "é".repeat(600),
            2 => format!("/{}", "x".repeat(1024)),
            3 if self.one_in(20) => "a: ".repeat(100_000),
            4 if self.one_in(10) => "A".repeat(70_000),
            5..=40 => {
                let parts = 1 + self.below(4);
                (0..parts).map(|_| TEXTS[self.below(TEXTS.len())]).collect()
            }
            41..=60 => {
                let any = |n: u64| char::from_u32(u32::try_from(n % 0x11_0000).expect("fits"));
                (0..self.below(12)).filter_map(|_| any(self.next())).collect()
            }
            _ => TEXTS[self.below(TEXTS.len())].to_owned(),
        }
    }

    fn text(&mut self, good: &[&str]) -> String {
        if self.one_in(self.rarity) {
            return self.nasty_text();
        }
        good[self.below(good.len())].to_owned()
    }

    fn number(&mut self, good: &[i64]) -> i64 {
        if self.one_in(self.rarity) {
            return NUMBERS[self.below(NUMBERS.len())];
        }
        good[self.below(good.len())]
    }

    fn small(&mut self, good: &[i64]) -> i32 {
        let number = self.number(good);
        i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
    }

    fn flag(&mut self) -> bool {
        self.one_in(3)
    }

    fn list<T>(&mut self, mut one: impl FnMut(&mut Self, usize) -> T) -> Vec<T> {
        let length = match self.below(400) {
            0 => 40,
            1 if self.one_in(10) => 300,
            n => n % 4,
        };
        (0..length).map(|nth| one(self, nth)).collect()
    }

    fn map(&mut self, keys: &[&str], values: &[&str]) -> Texts {
        self.list(|g, _| (g.text(keys), g.text(values))).into_iter().collect()
    }

    /// The next draft.
    pub(super) fn draft(&mut self) -> Draft {
        self.rarity = [6, 20, 100, 400][self.below(4)];
        let kind = self.below(3);
        let stray = self.one_in(60);
        let bodies = [kind == 0, kind == 1, kind == 2 || stray];
        Draft {
            workload_type: self.text(&["", ["container", "compose", "vm"][kind]]),
            resources: ResourcesDraft {
                cpu_millicores: self.number(&[0, 100, 4000]),
                memory_mb: self.number(&[0, 128, 4096]),
                disk_gb: self.number(&[0, 5]),
            },
            container: bodies[0].then(|| self.container()),
            compose: bodies[1].then(|| self.compose()),
            vm: bodies[2].then(|| self.vm()),
            metadata: self.map(&["team", "a.b/c"], &["", "x"]),
            placement: self.placement(),
            secrets: Vec::new(),
            stop_grace: self.text(&["", "30s", "1m30s", "0s"]),
            health: HealthDraft::default(),
        }
    }

    fn container(&mut self) -> ContainerDraft {
        ContainerDraft {
            image: self.text(&["nginx", "ghcr.io/a/b:v1", "localhost:5000/x"]),
            entrypoint: self.list(|g, _| g.text(&["tini", "--"])),
            command: self.list(|g, _| g.text(&["sh", "-c"])),
            args: self.list(|g, _| g.text(&["x", ""])),
            env: self.map(&["A", "B_1", "_C"], &[SECRET]),
            volumes: self.list(|g, nth| BindDraft {
                host_path: g.text(&["/srv", "/"]),
                container_path: g.text(&[&format!("/in/{nth}")]),
                read_only: g.flag(),
            }),
            ports: self.list(|g, nth| PortDraft {
                host_port: g.small(&[0, 8000 + i64::try_from(nth).expect("fits")]),
                container_port: g.small(&[80, 65_535]),
                protocol: g.text(&["", "tcp", "UDP"]),
                host_ip: g.text(&["", "127.0.0.1", "::1"]),
            }),
            restart_policy: self.text(&["always", "on-failure", "unless-stopped"]),
            max_retry_count: self.small(&[0, 3]),
            privileged: self.flag(),
            labels: self.map(&["k", "x/y"], &["v"]),
            resources: LimitsDraft {
                cpu_shares: self.number(&[0, 1024]),
                memory_bytes: self.number(&[8 << 30]),
                memory_swap_bytes: self.number(&[0, -1, 9 << 30]),
                cpu_unlimited: self.flag(),
                memory_unlimited: false,
            },
            managed_volumes: self.list(Self::volume),
        }
    }

    fn volume(&mut self, nth: usize) -> VolumeDraft {
        VolumeDraft {
            name: self.text(&[&format!("v{nth}")]),
            driver: self.text(&["", "local", "nfs", "ceph-rbd"]),
            size_gb: self.number(&[1, 50]),
            access_mode: self.text(&["", "RWO", "ReadWriteOnce"]),
            fs_type: self.text(&[""]),
            mount_path: self.text(&[&format!("/mnt/{nth}")]),
            read_only: self.flag(),
            retain_policy: self.text(&["", "Delete", "Retain"]),
        }
    }

    fn compose(&mut self) -> ComposeDraft {
        let git = self.flag();
        let (repository, reference): (&[&str], &[&str]) = if git {
            (&["https://h/x", "git@h:x/y"], &["", "main", "v1.0"])
        } else {
            (&[""], &[""])
        };
        let inline = format!("services: {{a: {{image: {SECRET}}}}}");
        ComposeDraft {
            source_type: self.text(&["", if git { "git" } else { "inline" }]),
            git_repo: self.text(repository),
            git_ref: self.text(reference),
            git_path: self.text(&[""]),
            fetched: (git && !self.one_in(20)).then(|| Fetched {
                commit: self.text(&["0123456789abcdef0123456789abcdef01234567"]),
                path: self.text(&["compose.yaml", "a/b.yml"]),
                file: self.text(&[&inline]),
            }),
            inline_yaml: self.text(&[if git { "" } else { &inline }]),
            project_name: self.text(&["", "app"]),
            compose_yaml: self.text(&[""]),
            env: self.map(&["A", "B_1"], &[SECRET]),
        }
    }

    fn vm(&mut self) -> VmDraft {
        let login = self.one_in(4);
        VmDraft {
            name: self.text(&["", "guest-1"]),
            vcpus: self.small(&[1, 4]),
            memory_mb: self.number(&[512, 8192]),
            disks: self.list(Self::disk),
            networks: self.list(Self::network),
            cloud_init: self.text(&["", ""]),
            cloud_init_config: self.cloud_init(login),
            os_image: self.text(&["", "ubuntu-24.04", "/img/base.qcow2"]),
            disk_gb: self.number(&[0, 0, 30]),
            runtime: self.text(&["", "libvirt"]),
            managed_volumes: self.list(Self::volume),
            metadata: self.map(&["a"], &["b"]),
        }
    }

    fn disk(&mut self, nth: usize) -> DiskDraft {
        DiskDraft {
            pool_name: self.text(&["", "fast"]),
            size_gb: self.number(&[0, 10]),
            mount_point: self.text(&[""]),
            path: if self.one_in(6) { self.text(&[&format!("/img/{nth}")]) } else { String::new() },
            device: self.text(&[""]),
            format: self.text(&["", "qcow2"]),
            disk_type: self.text(&["", "disk"]),
            boot: self.flag(),
            backing_file: self.text(&[""]),
            storage: self.text(&["", "local"]),
        }
    }

    fn network(&mut self, nth: usize) -> NetworkDraft {
        NetworkDraft {
            bridge: self.text(&["", "br0"]),
            dhcp: self.one_in(20),
            static_ip: self.text(&["", &format!("10.0.0.{}", nth + 1)]),
            network: self.text(&[""]),
            mac_address: self.text(&["", &format!("52:54:00:00:00:{nth:02x}")]),
            ip_address: self.text(&[""]),
            model: self.text(&["", "virtio"]),
            host_dev_name: self.text(&[""]),
        }
    }

    fn cloud_init(&mut self, login: bool) -> CloudInitDraft {
        let hash = format!("$6$salt$aaaaaaaaaaaaaaaaaaaaaaaaa.{}", SECRET.replace('-', "."));
        let words = |good: &'static str| if login { good } else { "" };
        CloudInitDraft {
            user_data: self.text(&[if login { "" } else { SECRET }]),
            meta_data: self.text(&["", SECRET]),
            network_config: self.text(&["", "version: 2"]),
            vendor_data: self.text(&[""]),
            username: self.text(&[words("ops")]),
            ssh_public_key: self.text(&[""]),
            password: self.text(&[if login { &hash } else { "" }]),
        }
    }

    fn placement(&mut self) -> PlacementDraft {
        PlacementDraft {
            constraints: self.list(|g, nth| ConstraintDraft {
                key: g.text(&[&format!("k{nth}")]),
                operator: g.text(&["in", "not-in"]),
                values: vec![g.text(&["x", "y"])],
            }),
            tolerations: self.list(|g, _| TolerationDraft {
                key: g.text(&["gpu"]),
                value: g.text(&["", "x"]),
                any_value: g.one_in(20),
            }),
            strategy: self.text(&["", "spread", "binpack"]),
            class: self.text(&["", "default", "exclusive"]),
            on_node_loss: self.text(&["", "auto", "move", "stay"]),
        }
    }
}
