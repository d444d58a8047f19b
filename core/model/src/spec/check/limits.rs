//! The size of everything, with its reason.
//!
//! A whole spec with every field at its limit stays under 1 MiB, so that it fits the request limit
//! of the store (1.5 MiB) beside the records written in the same transaction.

/// Entries of an environment.
pub const ENV_ENTRIES: usize = 256;
/// Bytes of a variable's name: longer than any in use.
pub const ENV_NAME_BYTES: usize = 256;
/// Bytes of one value: room for a certificate chain.
pub const ENV_VALUE_BYTES: usize = 32 * 1024;
/// Bytes of all names and values: the spec is one record in the store.
pub const ENV_TOTAL_BYTES: usize = 256 * 1024;

/// Words of a command and its arguments together.
pub const COMMAND_WORDS: usize = 256;
/// Bytes of one word: a script handed to `sh -c`; Linux itself stops at 128 KiB.
pub const COMMAND_WORD_BYTES: usize = 32 * 1024;
/// Bytes of all words: Linux's limit for one argument.
pub const COMMAND_TOTAL_BYTES: usize = 128 * 1024;

/// Words of a check that is a command.
pub const CHECK_WORDS: usize = 64;
/// Bytes of all its words: a short script.
pub const CHECK_BYTES: usize = 4 * 1024;
/// Failures in a row of a check; whoever means more means no check.
pub const CHECK_RETRIES: i64 = 1_000;

/// Labels of a container, and entries of metadata.
pub const LABEL_ENTRIES: usize = 64;
/// Bytes of a key, the same as for labels of nodes.
pub const LABEL_KEY_BYTES: usize = 128;
/// Bytes of a value: routing rules of reverse proxies are long.
pub const LABEL_VALUE_BYTES: usize = 4 * 1024;
/// Bytes of all keys and values.
pub const LABEL_TOTAL_BYTES: usize = 64 * 1024;
/// Bytes of a node label's value, which a constraint is compared with.
pub const NODE_LABEL_VALUE_BYTES: usize = 256;

/// Bytes of an image reference: a host (253), a path (255) and some.
pub const IMAGE_BYTES: usize = 512;
/// Bytes of a path: a quarter of Linux's limit; ours are joined to others.
pub const PATH_BYTES: usize = 1024;
/// Published ports.
pub const PORTS: usize = 256;
/// Binds and managed volumes, each.
pub const VOLUMES: usize = 64;
/// Disks of a VM: what fits its PCI slots beside everything else.
pub const DISKS: usize = 32;
/// Network cards of a VM.
pub const NETWORKS: usize = 16;
/// Restarts in a row; whoever means more means no limit.
pub const MAX_RETRIES: i64 = 10_000;

/// Bytes of a compose file, decoded.
pub const COMPOSE_BYTES: usize = 256 * 1024;
/// Bytes of all first-boot texts of a VM together, decoded.
pub const CLOUD_INIT_BYTES: usize = 64 * 1024;
/// Bytes of a repository's address.
pub const GIT_URL_BYTES: usize = 1024;
/// Bytes of a branch, tag or commit: a file name's limit, as git keeps branches as files.
pub const GIT_REF_BYTES: usize = 255;
/// Bytes of a project's, guest's or network's name: a DNS label's limit.
pub const NAME_BYTES: usize = 63;
/// Bytes of a bridge's name: the kernel's limit for an interface.
pub const INTERFACE_BYTES: usize = 15;
/// Bytes of a public key: four times an RSA key of 16384 bits.
pub const SSH_KEY_BYTES: usize = 12 * 1024;
/// Bytes of a password hash: the longest of the known kinds is under 200.
pub const PASSWORD_HASH_BYTES: usize = 256;
/// Bytes of a user's name: the limit of `useradd`.
pub const USERNAME_BYTES: usize = 32;

/// Constraints, and tolerations.
pub const PLACEMENT_RULES: usize = 16;
/// Values of one constraint.
pub const CONSTRAINT_VALUES: usize = 32;

/// Thousandths of a core: more than any machine has.
pub const CPU_MILLICORES: i64 = 4_096_000;
/// MiB: 64 TiB, more than any machine has.
pub const MEMORY_MIB: i64 = 64 * 1024 * 1024;
/// GiB of one disk or volume: 64 TiB, the most ext4 and qcow2 do well. Every sum over the disks
/// and volumes of a spec stays far from overflow.
pub const DISK_GIB: i64 = 64 * 1024;
/// Virtual processors.
pub const VCPUS: i64 = 512;
/// MiB: less boots no kernel in use.
pub const VM_MEMORY_MIN_MIB: i64 = 64;
/// Bytes: Docker refuses less.
pub const CONTAINER_MEMORY_MIN_BYTES: i64 = 6 * 1024 * 1024;
/// The kernel's range of CPU weights.
pub const CPU_SHARES: (i64, i64) = (2, 262_144);

/// Reserved for a container or stack that asks for no CPU. Older clients send none; reserving
/// nothing would let any number of them onto a node.
pub const DEFAULT_CPU_MILLICORES: u64 = 100;
/// Reserved for a container or stack that asks for no memory, for the same reason.
pub const DEFAULT_MEMORY_MIB: u64 = 128;
/// Size of a disk in a pool that gives none; what clients are used to.
pub const DEFAULT_DISK_GIB: u64 = 20;
/// Size of a root disk made from an image that gives none; what clients are used to.
pub const DEFAULT_ROOT_GIB: u64 = 10;
