//! The size of everything in a file, with its reason.
//!
//! A file comes from anybody who may deploy, and is read by the scheduler itself: reading has to be
//! cheap whatever is in it.

/// Bytes of a file.
pub const FILE_BYTES: usize = 256 * 1024;
/// Levels of lists and mappings: the specification needs eight.
pub const DEPTH: usize = 24;
/// Nodes of a file once its aliases are expanded: a hundred services with two hundred keys each.
pub const NODES: usize = 20_000;
/// Bytes of one scalar: room for a certificate chain or a script.
pub const SCALAR_BYTES: usize = 32 * 1024;
/// Bytes of all scalars once aliases and variables are expanded; also keeps the document that is
/// stored and sent within its bounds.
pub const TOTAL_BYTES: usize = 1024 * 1024;
/// Bytes of a key.
pub const KEY_BYTES: usize = 256;
/// Defaults inside defaults of a variable.
pub const VARIABLE_DEPTH: usize = 8;

/// Bytes of all files that are sent along with a file: they are a part of it, which is one record.
pub const CONTENT_BYTES: usize = 128 * 1024;
/// Files that are sent along with a file.
pub const CONTENT_FILES: usize = 256;
/// Bytes of the text of one part of a file that is sent along: of what base64 is made of.
pub const CONTENT_PART_BYTES: usize = 24 * 1024;
/// Files of one project: those named, those they extend and those they include.
pub const PROJECT_FILES: usize = 64;
/// Files that extend or include each other, one in the other.
pub const PROJECT_DEPTH: usize = 8;

/// Services of a stack: it runs on one node, as one unit.
pub const SERVICES: usize = 64;
/// Containers of a stack, copies counted.
pub const CONTAINERS: u64 = 128;
/// Networks and volumes of a stack, each.
pub const OBJECTS: usize = 64;
/// Ports of a service, ranges written out.
pub const PORTS: usize = 256;
/// Entries of any other list or mapping of a service.
pub const ENTRIES: usize = 256;
/// Bytes of a name: a DNS label's limit, because services are found under theirs.
pub const NAME_BYTES: usize = 63;
/// Bytes of a path.
pub const PATH_BYTES: usize = 1024;
/// Bytes of an image reference: a host (253), a path (255) and some.
pub const IMAGE_BYTES: usize = 512;
/// Bytes of a label's key and of its value.
pub const LABEL_KEY_BYTES: usize = 128;
/// Bytes of a label's value: routing rules of reverse proxies are long.
pub const LABEL_VALUE_BYTES: usize = 4 * 1024;

/// Thousandths of a core: more than any machine has.
pub const CPU_MILLICORES: u64 = 4_096_000;
/// Bytes of memory: 64 TiB, more than any machine has.
pub const MEMORY_BYTES: u64 = 64 << 40;
/// Bytes of memory: Docker refuses less.
pub const MEMORY_MIN_BYTES: u64 = 6 << 20;
