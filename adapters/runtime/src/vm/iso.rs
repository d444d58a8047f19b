//! A small ISO 9660 disc: a few files in one folder.
//!
//! What a seed for first boot needs, and no more: a label, one folder, names as they are. Names are
//! written twice, as Rock Ridge for Linux and BSD and as Joliet for Windows, because the plain
//! standard knows only eight capital letters. All sizes are known before anything is written, so a
//! disc is laid out in one pass:
//!
//! ```text
//!  0..16  nothing          18  end of descriptors    21  path table, Joliet, little end first
//!  16  primary descriptor  19  path table, little    22  path table, Joliet, big
//!  17  Joliet descriptor   20  path table, big       23  folder   24  folder, Joliet   25..  files
//! ```
//!
//! Dates are left out ("not said" in the standard), so equal files make equal discs.

/// Bytes of a sector.
const SECTOR: usize = 2048;
const PATHS: u32 = 19;
const JOLIET_PATHS: u32 = 21;
const FOLDER: u32 = 23;
const JOLIET_FOLDER: u32 = 24;
const FILES: u32 = 25;
/// Longest name: with its Rock Ridge fields a record must stay under 255 bytes.
const NAME_BYTES: usize = 64;
/// Longest label, as Joliet can carry it.
const LABEL_BYTES: usize = 16;

/// Why no disc was made. All of these are mistakes of the program, not of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IsoError {
    /// A label or name is empty, too long, or has a character that not all readers take.
    #[error("a name on the disc cannot be written")]
    Name,
    /// A file is too long, or there are too many for one sector of names.
    #[error("the files do not fit on a small disc")]
    Size,
}

/// Makes a disc with `label` and these files, names and contents, in this order.
pub fn disc(label: &str, files: &[(&str, &[u8])]) -> Result<Vec<u8>, IsoError> {
    let plain = |text: &str, most: usize| {
        let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        !text.is_empty() && text.len() <= most && text.bytes().all(good)
    };
    if !plain(label, LABEL_BYTES) || !files.iter().all(|(name, _)| plain(name, NAME_BYTES)) {
        return Err(IsoError::Name);
    }
    let mut placed = Vec::with_capacity(files.len());
    let mut next = FILES;
    for (nth, (name, content)) in files.iter().enumerate() {
        let bytes = u32::try_from(content.len()).map_err(|_long| IsoError::Size)?;
        placed.push(Placed { nth, name, sector: next, bytes });
        next = next.checked_add(sectors(content.len())?).ok_or(IsoError::Size)?;
    }
    let mut out = vec![0; SECTOR * 16];
    let ways = [Way::RockRidge, Way::Joliet];
    for way in ways {
        pad_onto(&mut out, &descriptor(way, label, next));
    }
    pad_onto(&mut out, &[b"\xffCD001\x01".as_slice()].concat());
    for way in ways {
        pad_onto(&mut out, &path_table(way.folder().to_le_bytes(), 1_u16.to_le_bytes()));
        pad_onto(&mut out, &path_table(way.folder().to_be_bytes(), 1_u16.to_be_bytes()));
    }
    for way in ways {
        let folder = folder(way, &placed);
        if folder.len() > SECTOR {
            return Err(IsoError::Size);
        }
        pad_onto(&mut out, &folder);
    }
    for (_, content) in files {
        pad_onto(&mut out, content);
    }
    Ok(out)
}

/// How names are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    RockRidge,
    Joliet,
}

impl Way {
    fn folder(self) -> u32 {
        match self {
            Self::RockRidge => FOLDER,
            Self::Joliet => JOLIET_FOLDER,
        }
    }

    fn paths(self) -> u32 {
        match self {
            Self::RockRidge => PATHS,
            Self::Joliet => JOLIET_PATHS,
        }
    }

    fn text(self, text: &str, bytes: usize) -> Vec<u8> {
        match self {
            Self::RockRidge => fill(text.as_bytes(), b' ', bytes),
            // An odd last byte belongs to no letter.
            Self::Joliet => {
                let spaces = text.chars().chain(std::iter::repeat(' ')).take(bytes / 2);
                let letters: String = spaces.collect();
                fill(&wide(&letters), 0, bytes)
            }
        }
    }
}

/// A file and where it lies.
struct Placed<'a> {
    nth: usize,
    name: &'a str,
    sector: u32,
    bytes: u32,
}

fn sectors(bytes: usize) -> Result<u32, IsoError> {
    // Even an empty file gets a place, which some readers expect.
    u32::try_from(bytes.div_ceil(SECTOR).max(1)).map_err(|_long| IsoError::Size)
}

/// Adds `part` and fills up its last sector; an empty part is a whole sector too.
fn pad_onto(out: &mut Vec<u8>, part: &[u8]) {
    out.extend_from_slice(part);
    let end = out.len() + usize::from(part.is_empty());
    out.resize(end.next_multiple_of(SECTOR), 0);
}

fn fill(text: &[u8], with: u8, bytes: usize) -> Vec<u8> {
    let mut out = text.to_vec();
    out.resize(bytes, with);
    out
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

/// A number as the standard likes it: both ends first.
fn both32(number: u32) -> Vec<u8> {
    [number.to_le_bytes(), number.to_be_bytes()].concat()
}

fn both16(number: u16) -> Vec<u8> {
    [number.to_le_bytes(), number.to_be_bytes()].concat()
}

fn descriptor(way: Way, label: &str, all: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(SECTOR);
    out.extend_from_slice(match way {
        Way::RockRidge => b"\x01CD001\x01\0",
        Way::Joliet => b"\x02CD001\x01\0",
    });
    out.extend(way.text("", 32));
    out.extend(way.text(label, 32));
    out.extend([0; 8]);
    out.extend(both32(all));
    // The mark of Joliet with all letters of the first plane.
    out.extend(fill(if way == Way::Joliet { b"%/E" } else { b"" }, 0, 32));
    out.extend(both16(1));
    out.extend(both16(1));
    out.extend(both16(2048));
    out.extend(both32(10));
    out.extend(way.paths().to_le_bytes());
    out.extend([0; 4]);
    out.extend((way.paths() + 1).to_be_bytes());
    out.extend([0; 4]);
    out.extend(record(way.folder(), 2048, true, b"\0", &[]));
    // Set, publisher, preparer, application; then copyright, abstract, bibliography.
    for bytes in [128, 128, 128, 128, 37, 37, 37] {
        out.extend(way.text("", bytes));
    }
    for _ in 0..4 {
        out.extend(b"0000000000000000\0");
    }
    out.extend([1, 0]);
    out
}

/// The one folder, the root: its name is one zero byte, its parent is itself.
fn path_table(sector: [u8; 4], parent: [u8; 2]) -> Vec<u8> {
    [&[1, 0][..], &sector, &parent, &[0, 0]].concat()
}

fn folder(way: Way, files: &[Placed<'_>]) -> Vec<u8> {
    let rock = way == Way::RockRidge;
    let own =
        if rock { [sharing(), permissions(0o040_555, 2), standard()].concat() } else { vec![] };
    let up = if rock { permissions(0o040_555, 2) } else { vec![] };
    let mut out = record(way.folder(), 2048, true, b"\0", &own);
    out.extend(record(way.folder(), 2048, true, b"\x01", &up));
    for file in files {
        out.extend(match way {
            Way::RockRidge => {
                let name = format!("FILE{}.;1", file.nth);
                let fields = [permissions(0o100_444, 1), long_name(file.name)].concat();
                record(file.sector, file.bytes, false, name.as_bytes(), &fields)
            }
            Way::Joliet => record(file.sector, file.bytes, false, &wide(file.name), &[]),
        });
    }
    out
}

/// One entry of a folder, with the fields of Rock Ridge behind its name.
fn record(sector: u32, bytes: u32, is_folder: bool, name: &[u8], fields: &[u8]) -> Vec<u8> {
    let mut out = vec![0, 0];
    out.extend(both32(sector));
    out.extend(both32(bytes));
    out.extend([0; 7]);
    out.extend([if is_folder { 2 } else { 0 }, 0, 0]);
    out.extend(both16(1));
    out.push(small(name.len()));
    out.extend_from_slice(name);
    if out.len() % 2 == 1 {
        out.push(0);
    }
    out.extend_from_slice(fields);
    if out.len() % 2 == 1 {
        out.push(0);
    }
    let length = small(out.len());
    if let Some(first) = out.first_mut() {
        *first = length;
    }
    out
}

/// Lengths that the limits above keep under 256.
fn small(length: usize) -> u8 {
    u8::try_from(length).unwrap_or(u8::MAX)
}

/// "There are fields behind the names", said once, in the root.
fn sharing() -> Vec<u8> {
    b"SP\x07\x01\xbe\xef\0".to_vec()
}

/// Which standard the fields follow.
fn standard() -> Vec<u8> {
    let id = b"RRIP_1991A";
    [&b"ER"[..], &[small(8 + id.len()), 1, small(id.len()), 0, 0, 1], id].concat()
}

/// Mode, links, owner and group.
fn permissions(mode: u32, links: u32) -> Vec<u8> {
    [&b"PX\x24\x01"[..], &both32(mode), &both32(links), &both32(0), &both32(0)].concat()
}

fn long_name(name: &str) -> Vec<u8> {
    [&b"NM"[..], &[small(5 + name.len()), 1, 0], name.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_lies_where_everybody_looks_for_it() {
        let disc =
            disc("cidata", &[("user-data", b"#cloud-config\n"), ("meta-data", b"")]).unwrap();
        assert_eq!(disc.len(), SECTOR * 27);
        assert_eq!(&disc[32769..32774], b"CD001");
        assert_eq!(&disc[32808..32840], b"cidata                          ");
        assert_eq!(&disc[34856..34860], b"\0c\0i", "Joliet's is wide");
        assert_eq!(&disc[SECTOR * 25..][..14], b"#cloud-config\n");
        // Both descriptors are a whole sector, so what follows lies where the picture says.
        assert_eq!(&disc[SECTOR * 18..][..6], b"\xffCD001");
        assert_eq!(disc[SECTOR * 23], 34 + 7 + 36 + 18 + 1, "the root's own record");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(disc("", &[]), Err(IsoError::Name));
        assert_eq!(disc("a-label-of-seventeen", &[]), Err(IsoError::Name));
        assert_eq!(disc("x", &[("a/b", b"")]), Err(IsoError::Name));
        assert_eq!(disc("x", &[("ü", b"")]), Err(IsoError::Name));
        let long = "n".repeat(NAME_BYTES);
        let many: Vec<(&str, &[u8])> = (0..30).map(|_| (long.as_str(), &b""[..])).collect();
        assert_eq!(disc("x", &many), Err(IsoError::Size));
        assert!(disc("x", &many[..8]).is_ok());
    }

    #[test]
    fn equal_files_make_equal_discs() {
        let files: [(&str, &[u8]); 1] = [("a", b"b")];
        assert_eq!(disc("x", &files), disc("x", &files));
    }
}
