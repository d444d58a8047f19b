//! The description of a machine: what is always in it, and what no value can put there.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn layer(path: &str, format: LayerFormat) -> Layer {
    Layer { path: PathBuf::from(path), format }
}

fn disk(device: &str, bus: Bus, layers: Vec<Layer>) -> Disk {
    Disk {
        device: device.to_owned(),
        bus,
        cdrom: false,
        read_only: false,
        boot: None,
        serial: None,
        layers,
    }
}

fn sample() -> Domain {
    let overlay = vec![
        layer("/pool/web-vda.qcow2", LayerFormat::Qcow2),
        layer("/images/base.raw", LayerFormat::Raw),
    ];
    Domain {
        name: "persys-web".to_owned(),
        uuid: identity::uuid_of("c1", "persys-web"),
        facts: Element::new("persys:workload").with("xmlns:persys", identity::NAMESPACE),
        engine: Engine::Tcg,
        emulator: Some(PathBuf::from("/usr/bin/qemu-system-x86_64")),
        machine: "q35".to_owned(),
        memory_mib: 256,
        vcpus: 2,
        cpu_millicores: None,
        disks: vec![Disk { boot: Some(1), ..disk("vda", Bus::Virtio, overlay) }],
        cards: vec![Card {
            plug: Plug::Network("default".to_owned()),
            mac: [0x52, 1, 2, 3, 4, 0xff],
            model: NicModel::Virtio,
        }],
        console_log: PathBuf::from("/vms/web/console.log"),
    }
}

/// How often each element stands where.
fn census(tree: &Element) -> BTreeMap<String, usize> {
    fn count(tree: &Element, above: &str, into: &mut BTreeMap<String, usize>) {
        let path = format!("{above}/{}", tree.name);
        for child in &tree.children {
            count(child, &path, into);
        }
        *into.entry(path).or_default() += 1;
    }
    let mut census = BTreeMap::new();
    count(tree, "", &mut census);
    census
}

fn read(domain: &Domain) -> Element {
    Element::read(&domain.xml().unwrap()).unwrap()
}

#[test]
fn the_agent_decides_and_nobody_listens() {
    let tree = read(&sample());
    for (name, action) in
        [("on_poweroff", "destroy"), ("on_reboot", "restart"), ("on_crash", "preserve")]
    {
        assert_eq!(tree.child(name).unwrap().text, action);
    }
    let devices = tree.child("devices").unwrap();
    for absent in ["graphics", "hostdev", "filesystem", "redirdev", "shmem"] {
        assert!(devices.child(absent).is_none(), "{absent}");
    }
    for there in ["panic", "rng", "memballoon", "video", "serial", "console", "channel"] {
        assert!(devices.child(there).is_some(), "{there}");
    }
    assert!(tree.child("seclabel").is_none(), "labels stay as the node has them");
    assert!(tree.child("commandline").is_none());
}

#[test]
fn layers_are_spelled_out_to_the_last() {
    let tree = read(&sample());
    let disk = tree.at(&["devices", "disk"]).unwrap();
    assert_eq!(disk.child("driver").unwrap().attribute("type"), Some("qcow2"));
    let below = disk.child("backingStore").unwrap();
    assert_eq!(below.child("format").unwrap().attribute("type"), Some("raw"));
    assert_eq!(below.child("source").unwrap().attribute("file"), Some("/images/base.raw"));
    assert_eq!(below.child("backingStore"), Some(&Element::new("backingStore")));
}

#[test]
fn a_limit_of_processor_time_is_a_quota_of_the_whole_machine() {
    for (millicores, quota) in
        [(None, None), (Some(2000), None), (Some(500), Some("50000")), (Some(1), Some("1000"))]
    {
        let domain = Domain { cpu_millicores: millicores, ..sample() };
        let tree = read(&domain);
        let found = tree.at(&["cputune", "global_quota"]).map(|quota| quota.text.as_str());
        assert_eq!(found, quota, "{millicores:?}");
    }
}

#[test]
fn every_disc_has_a_port_of_its_own() {
    let mut domain = sample();
    domain.disks = ["sda", "hda", "sdb", "sdc", "sdd", "sde", "sdf"]
        .map(|name| disk(name, Bus::Sata, vec![layer("/x.iso", LayerFormat::Raw)]))
        .into();
    let tree = read(&domain);
    let ports: Vec<_> = tree
        .child("devices")
        .unwrap()
        .all("disk")
        .map(|disk| {
            let address = disk.child("address").unwrap();
            (address.attribute("controller").unwrap(), address.attribute("unit").unwrap())
        })
        .map(|(c, u)| format!("{c}.{u}"))
        .collect();
    assert_eq!(ports, ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5", "1.0"]);
}

#[test]
fn a_character_xml_cannot_carry_is_a_fault_of_the_spec() {
    let mut domain = sample();
    domain.cards[0].plug = Plug::Bridge("br\u{1}".to_owned());
    let error = domain.xml().unwrap_err();
    assert!(matches!(&error, Error::Invalid { detail } if detail.contains("bridge of")), "{error}");
    domain = sample();
    domain.disks[0].layers.clear();
    assert!(domain.xml().is_err());
}

const HOSTILE: &[&str] = &[
    "</name><devices><hostdev/></devices>",
    "\"/><disk type='block'><source dev='/dev/sda'/></disk><x a=\"",
    "' onerror='",
    "]]>",
    "<![CDATA[<qemu:commandline/>]]>",
    "&xxe;&lt;",
    "<!--",
    "-->",
    "<?xml?>",
];

proptest! {
    /// Whatever the values are, the description has exactly the elements of a plain one, and
    /// each value is found again where it was put.
    #[test]
    fn values_never_become_elements(
        picks in prop::collection::vec((0..HOSTILE.len(), "\\PC{0,10}"), 6)
    ) {
        let plain = census(&sample().tree().unwrap());
        let value = |nth: usize| {
            let (pick, noise) = &picks[nth];
            let noise: String =
                noise.chars().filter(|c| !matches!(c, '\u{fffe}' | '\u{ffff}')).collect();
            format!("/{noise}{}{noise}", HOSTILE[*pick])
        };
        let mut domain = sample();
        domain.name = value(0);
        domain.machine = value(1);
        domain.disks[0].layers[0].path = PathBuf::from(value(2));
        domain.disks[0].layers[1].path = PathBuf::from(value(3));
        domain.cards[0].plug = Plug::Network(value(4));
        domain.console_log = PathBuf::from(value(5));
        let tree = read(&domain);
        prop_assert_eq!(census(&tree), plain);
        prop_assert_eq!(&tree, &domain.tree().unwrap());
        prop_assert_eq!(&tree.child("name").unwrap().text, &value(0));
        let network = tree.at(&["devices", "interface", "source"]).unwrap();
        prop_assert_eq!(network.attribute("network").map(str::to_owned), Some(value(4)));
    }
}
