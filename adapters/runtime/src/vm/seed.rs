//! The seed of a machine: what cloud-init reads on first boot, on a disc labelled `cidata`.
//!
//! The four texts are the user's and opaque to us; where the user gives none we say what we know:
//! - `meta-data`: instance id and host name. The instance id is the machine's uuid. It stays the same
//!   through updates, stops and moves, so cloud-init does its first-boot work once; a user who wants
//!   it done again writes `meta-data` with another `instance-id`. A user's `meta-data` without one
//!   gets ours, as cloud-init would otherwise take a name that all its machines share.
//! - `user-data`: the login of the spec, or nothing.
//! - `network-config`: each card by its hardware address, with its fixed address or by DHCP. Without
//!   it cloud-init would set up the first card only.
//! - `vendor-data`: file system and mount of each managed volume that asks for it. It is the layer
//!   below `user-data`, which may say otherwise.
//!
//! What we write is JSON, which is YAML, written by a library. The disc holds password hashes and
//! whatever the user put into it: only its owner may read the file, and it goes with the machine.

use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use persys_model::spec::VmSpec;
use persys_model::spec::secret::Secret;
use persys_model::spec::vm::{Address, CloudInit, Login};
use serde::Serialize;

use crate::error::Error;

use super::identity::mac_text;
use super::iso;

/// The label `NoCloud` looks for.
const LABEL: &str = "cidata";
/// The prefix of a network whose spec names none.
const DEFAULT_PREFIX_V4: u8 = 24;
const DEFAULT_PREFIX_V6: u8 = 64;

/// What a seed is made from.
#[derive(Debug, Clone, Copy)]
pub struct Seed<'a> {
    /// The machine's uuid, which becomes the instance id.
    pub uuid: &'a str,
    /// The name the guest goes by.
    pub hostname: &'a str,
    /// What the user said about first boot.
    pub cloud_init: &'a CloudInit,
    /// Its cards, in order.
    pub cards: &'a [SeedCard],
    /// Volumes to be mounted, in order.
    pub mounts: &'a [Mount],
}

/// A network card as the guest is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedCard {
    /// Hardware address.
    pub mac: [u8; 6],
    /// How it gets its address.
    pub address: Address,
    /// The way out for a fixed address, where the network is known to have one.
    pub gateway: Option<IpAddr>,
    /// Who answers names for a fixed address.
    pub nameservers: Vec<IpAddr>,
}

/// A volume to be mounted in the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The serial number of its disk.
    pub serial: String,
    /// Where; absolute.
    pub path: String,
    /// File system it gets if it has none.
    pub fs_type: String,
    /// Whether it may only be read.
    pub read_only: bool,
}

/// Whether a machine gets a seed at all. An image of the catalogue expects one and waits long for it;
/// a machine on disks of its own may have no use for it.
#[must_use]
pub fn is_needed(vm: &VmSpec) -> bool {
    let fixed = |address: Address| matches!(address, Address::Static { .. });
    vm.os_image.is_some()
        || vm.cloud_init != CloudInit::default()
        || vm.networks.iter().any(|network| fixed(network.address))
        || vm.managed_volumes.iter().any(|volume| !volume.mount_path.is_empty())
}

impl Seed<'_> {
    /// The disc.
    pub fn disc(&self) -> Result<Vec<u8>, Error> {
        let texts = self.texts()?;
        let files: Vec<_> = texts.iter().map(|(name, text)| (*name, text.as_bytes())).collect();
        iso::disc(LABEL, &files).map_err(|error| Error::Invalid { detail: error.to_string() })
    }

    /// The files on it, by name. `NoCloud` wants the first two even if they are empty.
    fn texts(&self) -> Result<Vec<(&'static str, String)>, Error> {
        let given = self.cloud_init;
        let mut texts = vec![("meta-data", self.meta_data()?), ("user-data", self.user_data()?)];
        if !given.network_config.is_empty() {
            texts.push(("network-config", given.network_config.reveal().to_owned()));
        } else if !self.cards.is_empty() {
            texts.push(("network-config", self.network_config()?));
        }
        if !given.vendor_data.is_empty() {
            texts.push(("vendor-data", given.vendor_data.reveal().to_owned()));
        } else if !self.mounts.is_empty() {
            texts.push(("vendor-data", self.vendor_data()?));
        }
        Ok(texts)
    }

    fn meta_data(&self) -> Result<String, Error> {
        let own = format!("instance-id: {}\n", json(&self.uuid, "meta-data")?);
        let given = self.cloud_init.meta_data.reveal();
        if given.is_empty() {
            let hostname = json(&self.hostname, "meta-data")?;
            return Ok(format!("{own}local-hostname: {hostname}\n"));
        }
        // A flow mapping is one text in braces; nothing can be put before it.
        if given.contains("instance-id") || given.trim_start().starts_with('{') {
            return Ok(given.to_owned());
        }
        Ok(format!("{own}{given}"))
    }

    fn user_data(&self) -> Result<String, Error> {
        match &self.cloud_init.login {
            Some(login) if self.cloud_init.user_data.is_empty() => {
                Ok(format!("#cloud-config\n{}\n", json(&LoginConfig::of(login), "user-data")?))
            }
            _ => Ok(self.cloud_init.user_data.reveal().to_owned()),
        }
    }

    fn network_config(&self) -> Result<String, Error> {
        let cards = self.cards.iter().enumerate();
        let ethernets = cards.map(|(nth, card)| (format!("eth{nth}"), Ethernet::of(card)));
        let config = NetworkConfig { version: 2, ethernets: ethernets.collect() };
        json(&config, "network-config").map(|text| text + "\n")
    }

    fn vendor_data(&self) -> Result<String, Error> {
        let config = VolumesConfig {
            fs_setup: self
                .mounts
                .iter()
                .filter(|mount| !mount.read_only)
                .map(FsSetup::of)
                .collect(),
            mounts: self.mounts.iter().map(mount_line).collect(),
        };
        Ok(format!("#cloud-config\n{}\n", json(&config, "vendor-data")?))
    }
}

fn json(value: &impl Serialize, what: &str) -> Result<String, Error> {
    serde_json::to_string_pretty(value)
        .map_err(|error| Error::Invalid { detail: format!("{what}: {error}") })
}

/// `#cloud-config` that makes the login of a spec.
#[derive(Serialize, Default)]
struct LoginConfig<'a> {
    /// A user to be made beside the image's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    users: Option<[User<'a>; 1]>,
    /// What is different about the image's own user, whose name only the image knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<OwnUser<'a>>,
    /// Keys of the image's own user.
    #[serde(skip_serializing_if = "Option::is_none")]
    ssh_authorized_keys: Option<[&'a str; 1]>,
    /// A password over the network only if that is the one way in.
    #[serde(skip_serializing_if = "Option::is_none")]
    ssh_pwauth: Option<bool>,
}

#[derive(Serialize)]
struct User<'a> {
    name: &'a str,
    groups: &'a str,
    sudo: &'a str,
    shell: &'a str,
    lock_passwd: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    hashed_passwd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ssh_authorized_keys: Option<[&'a str; 1]>,
}

#[derive(Serialize)]
struct OwnUser<'a> {
    lock_passwd: bool,
    hashed_passwd: &'a str,
}

impl<'a> LoginConfig<'a> {
    fn of(login: &'a Login) -> Self {
        let hash = login.password_hash.as_ref().map(Secret::reveal);
        let keys = login.ssh_public_key.as_deref().map(|key| [key]);
        let ssh_pwauth = (hash.is_some() && keys.is_none()).then_some(true);
        let Some(name) = &login.username else {
            let user = hash.map(|hashed_passwd| OwnUser { lock_passwd: false, hashed_passwd });
            return Self { user, ssh_authorized_keys: keys, ssh_pwauth, users: None };
        };
        let user = User {
            name,
            groups: "sudo",
            sudo: "ALL=(ALL) NOPASSWD:ALL",
            shell: "/bin/sh",
            lock_passwd: hash.is_none(),
            hashed_passwd: hash,
            ssh_authorized_keys: keys,
        };
        Self { users: Some([user]), ssh_pwauth, ..Self::default() }
    }
}

/// Version 2 of the network configuration, which all renderers of cloud-init read.
#[derive(Serialize)]
struct NetworkConfig {
    version: u8,
    ethernets: std::collections::BTreeMap<String, Ethernet>,
}

#[derive(Serialize)]
struct Ethernet {
    #[serde(rename = "match")]
    matching: Matching,
    dhcp4: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routes: Vec<Route>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nameservers: Option<Nameservers>,
}

#[derive(Serialize)]
struct Matching {
    macaddress: String,
}

#[derive(Serialize)]
struct Route {
    to: &'static str,
    via: IpAddr,
}

#[derive(Serialize)]
struct Nameservers {
    addresses: Vec<IpAddr>,
}

impl Ethernet {
    fn of(card: &SeedCard) -> Self {
        let matching = Matching { macaddress: mac_text(card.mac) };
        let Address::Static { ip, prefix } = card.address else {
            return Self {
                matching,
                dhcp4: true,
                addresses: vec![],
                routes: vec![],
                nameservers: None,
            };
        };
        let usual = if ip.is_ipv4() { DEFAULT_PREFIX_V4 } else { DEFAULT_PREFIX_V6 };
        // Not every renderer knows the word "default".
        let to = if ip.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
        let nameservers = card.nameservers.clone();
        Self {
            matching,
            dhcp4: false,
            addresses: vec![format!("{ip}/{}", prefix.unwrap_or(usual))],
            routes: card.gateway.map(|via| Route { to, via }).into_iter().collect(),
            nameservers: (!nameservers.is_empty())
                .then_some(Nameservers { addresses: nameservers }),
        }
    }
}

#[derive(Serialize)]
struct VolumesConfig {
    fs_setup: Vec<FsSetup>,
    mounts: Vec<[String; 4]>,
}

#[derive(Serialize)]
struct FsSetup {
    device: String,
    filesystem: String,
    /// What is there stays.
    overwrite: bool,
}

impl FsSetup {
    fn of(mount: &Mount) -> Self {
        Self { device: device_of(mount), filesystem: fs_of(mount).to_owned(), overwrite: false }
    }
}

fn mount_line(mount: &Mount) -> [String; 4] {
    let options = if mount.read_only { "ro,nofail" } else { "defaults,nofail" };
    [device_of(mount), mount.path.clone(), fs_of(mount).to_owned(), options.to_owned()]
}

fn device_of(mount: &Mount) -> String {
    format!("/dev/disk/by-id/virtio-{}", mount.serial)
}

fn fs_of(mount: &Mount) -> &str {
    if mount.fs_type.is_empty() { "ext4" } else { &mount.fs_type }
}

/// Puts a disc where `path` says, readable by its owner only, whole or not at all. A machine that runs
/// keeps what it has open.
pub fn write(path: &Path, disc: &[u8]) -> std::io::Result<()> {
    let draft = path.with_extension("iso.new");
    match std::fs::remove_file(&draft) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(disc)?;
    file.sync_all()?;
    std::fs::rename(&draft, path)
}

/// Takes it away. Nothing there is what was wanted.
pub fn remove(path: &Path) -> std::io::Result<()> {
    for path in [path, &path.with_extension("iso.new")] {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn texts(
        cloud_init: &CloudInit,
        cards: &[SeedCard],
        mounts: &[Mount],
    ) -> Vec<(String, String)> {
        let seed = Seed { uuid: "u-1", hostname: "123", cloud_init, cards, mounts };
        let texts = seed.texts().unwrap();
        texts.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
    }

    fn text_of(name: &str, texts: &[(String, String)]) -> String {
        texts.iter().find(|(file, _)| file == name).unwrap().1.clone()
    }

    /// Strict about its header, then JSON.
    fn config(text: &str) -> Value {
        serde_json::from_str(text.strip_prefix("#cloud-config\n").unwrap()).unwrap()
    }

    #[test]
    fn with_nothing_said_the_guest_learns_who_it_is() {
        let texts = texts(&CloudInit::default(), &[], &[]);
        assert_eq!(text_of("meta-data", &texts), "instance-id: \"u-1\"\nlocal-hostname: \"123\"\n");
        assert_eq!(text_of("user-data", &texts), "", "it has to be there");
        assert_eq!(texts.len(), 2);
    }

    #[test]
    fn what_the_user_says_is_handed_on_as_it_is() {
        let said = CloudInit {
            user_data: Secret::new("#!/bin/sh\necho \"$X\"\n"),
            meta_data: Secret::new("instance-id: mine\n"),
            network_config: Secret::new("version: 1\n"),
            vendor_data: Secret::new("#cloud-config\n{}\n"),
            login: None,
        };
        let card =
            SeedCard { mac: [2; 6], address: Address::Dhcp, gateway: None, nameservers: vec![] };
        let all = texts(&said, &[card], &[]);
        assert_eq!(text_of("user-data", &all), said.user_data.reveal());
        assert_eq!(text_of("meta-data", &all), said.meta_data.reveal());
        assert_eq!(text_of("network-config", &all), said.network_config.reveal());
        assert_eq!(text_of("vendor-data", &all), said.vendor_data.reveal());
    }

    #[test]
    fn meta_data_without_an_instance_gets_ours() {
        for (given, expected) in [
            ("local-hostname: db\n", "instance-id: \"u-1\"\nlocal-hostname: db\n"),
            ("{\"local-hostname\": \"db\"}", "{\"local-hostname\": \"db\"}"),
            ("instance-id: x", "instance-id: x"),
        ] {
            let said = CloudInit { meta_data: Secret::new(given), ..CloudInit::default() };
            assert_eq!(text_of("meta-data", &texts(&said, &[], &[])), expected);
        }
    }

    #[test]
    fn a_login_becomes_a_user_and_a_key_keeps_passwords_off_the_network() {
        let login = |name: Option<&str>, key: Option<&str>, hash: Option<&str>| {
            let login = Login {
                username: name.map(Arc::from),
                ssh_public_key: key.map(Arc::from),
                password_hash: hash.map(Secret::new),
            };
            let said = CloudInit { login: Some(login), ..CloudInit::default() };
            config(&text_of("user-data", &texts(&said, &[], &[])))
        };
        let key = "ssh-ed25519 AAAA \"me\": #x";
        let both = login(Some("ada"), Some(key), Some("$6$x$y"));
        assert_eq!(both["users"][0]["name"], "ada");
        assert_eq!(both["users"][0]["hashed_passwd"], "$6$x$y");
        assert_eq!(both["users"][0]["ssh_authorized_keys"], json!([key]));
        assert_eq!(both.get("ssh_pwauth"), None);
        assert_eq!(login(Some("ada"), Some(key), None)["users"][0]["lock_passwd"], true);
        let own = login(None, None, Some("$6$x$y"));
        assert_eq!(
            own,
            json!({
                "user": {"lock_passwd": false, "hashed_passwd": "$6$x$y"}, "ssh_pwauth": true
            })
        );
        assert_eq!(login(None, Some(key), None), json!({"ssh_authorized_keys": [key]}));
    }

    #[test]
    fn every_card_is_set_up_by_its_hardware_address() {
        let card = |last: u8, address| SeedCard {
            mac: [0x52, 0, 0, 0, 0, last],
            address,
            gateway: Some(IpAddr::from([10, 0, 0, 1])),
            nameservers: vec![IpAddr::from([10, 0, 0, 2])],
        };
        let ip = IpAddr::from([10, 0, 0, 9]);
        let cards = [
            card(1, Address::Dhcp),
            card(2, Address::Static { ip, prefix: Some(16) }),
            card(3, Address::Static { ip: "fd00::9".parse().unwrap(), prefix: None }),
        ];
        let all = texts(&CloudInit::default(), &cards, &[]);
        let config: Value = serde_json::from_str(&text_of("network-config", &all)).unwrap();
        assert_eq!(config["version"], 2);
        let eth = &config["ethernets"];
        assert_eq!(
            eth["eth0"],
            json!({"match": {"macaddress": "52:00:00:00:00:01"}, "dhcp4": true})
        );
        assert_eq!(eth["eth1"]["addresses"], json!(["10.0.0.9/16"]));
        assert_eq!(eth["eth1"]["routes"], json!([{"to": "0.0.0.0/0", "via": "10.0.0.1"}]));
        assert_eq!(eth["eth1"]["nameservers"], json!({"addresses": ["10.0.0.2"]}));
        assert_eq!(eth["eth2"]["addresses"], json!(["fd00::9/64"]));
    }

    #[test]
    fn a_volume_is_given_a_file_system_once_and_mounted() {
        let mount = |serial: &str, read_only| Mount {
            serial: serial.to_owned(),
            path: "/data".to_owned(),
            fs_type: String::new(),
            read_only,
        };
        let mounts = [mount("one", false), mount("two", true)];
        let all = texts(&CloudInit::default(), &[], &mounts);
        let config = config(&text_of("vendor-data", &all));
        let device = "/dev/disk/by-id/virtio-one";
        assert_eq!(
            config["fs_setup"],
            json!([{"device": device, "filesystem": "ext4", "overwrite": false}])
        );
        assert_eq!(config["mounts"][0], json!([device, "/data", "ext4", "defaults,nofail"]));
        assert_eq!(config["mounts"][1][3], "ro,nofail");
    }

    #[test]
    fn the_disc_is_its_owners_alone_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seed.iso");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
