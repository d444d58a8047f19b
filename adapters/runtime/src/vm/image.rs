//! What a disk image says about itself, read before any tool opens it.
//!
//! An image may name other files: a backing file, a data file. Tools that open such an image open
//! those too, so an image of a stranger could show a guest the files of the node, or make a tool hang
//! on one. The first bytes tell; nothing else is looked at here, and nothing is followed.

/// How much of the beginning is looked at.
pub const HEAD_BYTES: usize = 4096;

const QCOW_MAGIC: &[u8] = b"QFI\xfb";
/// A bit among the features a reader must know: the data is in another file.
const DATA_FILE: u64 = 1 << 2;
/// Longest name of a backing file that the format allows.
const BACKING_BYTES: u32 = 1023;

/// Beginnings by which tools recognise a format when nobody tells them one.
const BEGINNINGS: &[(usize, &[u8], &str)] = &[
    (0, QCOW_MAGIC, "qcow2"),
    (0, b"KDMV", "vmdk"),
    (0, b"COWD", "vmdk"),
    (0, b"# Disk DescriptorFile", "vmdk"),
    (0, b"vhdxfile", "vhdx"),
    (0, b"conectix", "vpc"),
    (0x40, b"\x7f\x10\xda\xbe", "vdi"),
    (0, b"QED\0", "qed"),
    (0, b"WithoutFreeSpace", "parallels"),
    (0, b"WithouFreSpacExt", "parallels"),
    (0, b"Bochs Virtual HD Image", "bochs"),
    (0, b"#!/bin/sh\n#V2.0 Format\n", "cloop"),
];

/// The format a tool would take these first bytes for; `None` is plain bytes.
#[must_use]
pub fn begins_as(head: &[u8]) -> Option<&'static str> {
    let found = BEGINNINGS
        .iter()
        .find(|(at, magic, _)| head.get(*at..).is_some_and(|rest| rest.starts_with(magic)));
    found.map(|(_, _, name)| *name)
}

/// What the header of a qcow2 image says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qcow2 {
    /// The size the guest sees.
    pub virtual_bytes: u64,
    /// Whether it records changes to another image only.
    pub has_backing: bool,
    /// Whether its data is in another file.
    pub has_data_file: bool,
    /// Whether it is encrypted.
    pub encrypted: bool,
}

/// Reads the header of a qcow2 image. `None`: it is none, or one that no tool of today would make.
#[must_use]
pub fn qcow2(head: &[u8]) -> Option<Qcow2> {
    let word = |at: usize| -> Option<u32> {
        Some(u32::from_be_bytes(head.get(at..at.checked_add(4)?)?.try_into().ok()?))
    };
    let long = |at: usize| -> Option<u64> {
        Some(u64::from_be_bytes(head.get(at..at.checked_add(8)?)?.try_into().ok()?))
    };
    if !head.starts_with(QCOW_MAGIC) {
        return None;
    }
    let version = word(4)?;
    let features = match version {
        2 => 0,
        3 => long(72)?,
        _ => return None,
    };
    if word(16)? > BACKING_BYTES {
        return None;
    }
    Some(Qcow2 {
        virtual_bytes: long(24)?,
        has_backing: long(8)? != 0 || word(16)? != 0,
        has_data_file: features & DATA_FILE != 0,
        encrypted: word(32)? != 0,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(version: u32, size: u64) -> Vec<u8> {
        let mut head = vec![0; 112];
        head[..4].copy_from_slice(QCOW_MAGIC);
        head[4..8].copy_from_slice(&version.to_be_bytes());
        head[24..32].copy_from_slice(&size.to_be_bytes());
        head
    }

    #[test]
    fn beginnings_are_known_by_what_tools_go_by() {
        for (head, name) in [
            (&b"QFI\xfb\0\0\0\x03"[..], Some("qcow2")),
            (b"KDMV\x01", Some("vmdk")),
            (b"# Disk DescriptorFile\nversion=1", Some("vmdk")),
            (b"conectix", Some("vpc")),
            (b"vhdxfile", Some("vhdx")),
            (b"\xeb\x63\x90", None),
            (b"", None),
            (b"LUKS\xba\xbe", None),
        ] {
            assert_eq!(begins_as(head), name, "{head:?}");
        }
        let mut vdi = vec![0; 0x50];
        vdi[0x40..0x44].copy_from_slice(b"\x7f\x10\xda\xbe");
        assert_eq!(begins_as(&vdi), Some("vdi"));
    }

    #[test]
    fn a_header_tells_what_else_would_be_opened() {
        let plain = Qcow2 {
            virtual_bytes: 1 << 30,
            has_backing: false,
            has_data_file: false,
            encrypted: false,
        };
        assert_eq!(qcow2(&header(3, 1 << 30)), Some(plain.clone()));
        assert_eq!(qcow2(&header(2, 1 << 30)), Some(plain.clone()));
        let with = |at: usize, value: u8| {
            let mut head = header(3, 1 << 30);
            head[at] = value;
            qcow2(&head).unwrap()
        };
        assert_eq!(with(15, 1), Qcow2 { has_backing: true, ..plain.clone() });
        assert_eq!(with(79, 4), Qcow2 { has_data_file: true, ..plain.clone() });
        assert_eq!(with(35, 2), Qcow2 { encrypted: true, ..plain });
        assert_eq!(qcow2(&header(9, 1)), None, "a version nobody knows");
        assert_eq!(qcow2(&header(3, 1)[..50]), None, "cut off");
    }

    proptest! {
        /// Any bytes are judged without a panic, and only the magic makes a qcow2 image.
        #[test]
        fn any_bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 0..200), magic: bool) {
            let mut head = bytes;
            if magic && head.len() >= 4 {
                head[..4].copy_from_slice(QCOW_MAGIC);
            }
            let is_qcow = qcow2(&head).is_some();
            prop_assert!(!is_qcow || begins_as(&head) == Some("qcow2"));
        }
    }
}
