//! What a service may do to the node it runs on: the one place that decides.
//!
//! Whatever reaches beyond a container, through a flag, a path, a device or a namespace, is put as
//! a [`Power`] before [`judge`], by whichever key it was asked for. There is no other place that
//! grants one, so that a stricter policy has one place to go.
//!
//! Stacks may do what containers may, who can ask for all powers at once. What is withheld is a way
//! around us: the sockets of those who start containers, and the folders in which they and we keep
//! what is ours. An operator can give even that, by naming the very path for a namespace.

/// Something that reaches beyond the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power<'a> {
    /// All of them.
    Privileged,
    /// A capability Docker does not give by itself.
    Capability(&'a str),
    /// A device of the node.
    Device(&'a str),
    /// A path of the node.
    HostPath {
        /// Absolute and clean.
        path: &'a str,
        /// Whether it may only be read.
        read_only: bool,
    },
    /// The node's network: every port of it, past all accounting.
    HostNetwork,
    /// The node's processes.
    HostProcesses,
    /// The node's shared memory.
    HostMemory,
    /// The node's users, where they are mapped.
    HostUsers,
    /// Less confinement than usual, such as `seccomp=unconfined`.
    Unconfined(&'a str),
    /// Another runtime of containers than the usual one of the node.
    Runtime(&'a str),
    /// A network of the node that others are in.
    ExternalNetwork(&'a str),
    /// A volume of the node that others made.
    ExternalVolume(&'a str),
    /// The network of a container that others run.
    OtherContainer(&'a str),
}

/// Whether a power is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// It is, and what that means; empty where it means little.
    Given(&'static str),
    /// It is not unless an operator names it, and why.
    Withheld(&'static str),
}

/// The rule by which paths are withheld.
pub const WITHHELD: &str = "withheld-paths";

/// What to do about a path that is withheld.
#[must_use]
pub fn withheld(path: &str, why: &str) -> String {
    format!(
        "{why}; nobody is given it by itself: do without it, or have an admin run `persys namespace \
         set NAME --allow-host-path {path}` and apply with `--namespace NAME` (rule {WITHHELD})"
    )
}

/// Whether naming `folder` for a namespace gives it `path`. A path that is withheld must be named
/// itself, or by a folder of those who start and hold workloads: `/` names no socket.
#[must_use]
pub fn names(folder: &str, path: &str) -> bool {
    let folder = if folder.len() > 1 { folder.strip_suffix('/').unwrap_or(folder) } else { folder };
    let withheld = matches!(host_path(path, true), Judgement::Withheld(_));
    let kept = KEPT.iter().any(|kept| is_within(folder, kept));
    folder == path || (is_below(path, folder) && (!withheld || kept))
}

/// Whether `power` is given.
#[must_use]
pub fn judge(power: Power<'_>) -> Judgement {
    use Judgement::Given;
    match power {
        Power::Privileged => Given("gives the service all the powers of the node"),
        Power::Capability(_) => Given("gives the service powers over the node"),
        Power::Device(_) => Given("the device must be on the node the stack is placed on"),
        Power::HostPath { path, read_only } => host_path(path, read_only),
        Power::HostNetwork => Given("the service is on the node's own network, its ports unknown"),
        Power::HostProcesses => Given("the service sees all processes of the node"),
        Power::HostMemory => Given("the service sees the shared memory of the node"),
        Power::HostUsers => Given("root in the service is root on the node"),
        Power::Unconfined(_) => Given("the service is confined less than usual"),
        Power::Runtime(_) => Given("Docker on the node the stack is placed on must have it"),
        Power::ExternalNetwork(_) => Given("the network must be on the node, and is not removed"),
        Power::ExternalVolume(_) => Given("the volume must be on the node, and is not removed"),
        Power::OtherContainer(_) => {
            Given("the container must be on the node the stack is placed on")
        }
    }
}

/// Where those keep what is theirs who start and hold workloads: whoever reads it can act as them.
const KEPT: &[&str] = &[
    "/etc/docker",
    "/etc/libvirt",
    "/etc/persys",
    "/run",
    "/var/lib/containerd",
    "/var/lib/docker",
    "/var/lib/libvirt",
    "/var/lib/persys",
    "/var/run",
];

/// What the node itself is made of.
const SYSTEM: &[&str] =
    &["/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr"];

fn host_path(path: &str, read_only: bool) -> Judgement {
    if path == "/" {
        return Judgement::Withheld("is the whole node; name the folder that is needed");
    }
    if std::path::Path::new(path).extension().is_some_and(|ending| ending == "sock") {
        return Judgement::Withheld(
            "is a socket of the node, through which the service can act as the node",
        );
    }
    if KEPT.iter().any(|kept| is_within(path, kept) || is_within(kept, path)) {
        return Judgement::Withheld(
            "holds what belongs to Docker, libvirt or Persys, and whoever has it can act as they do",
        );
    }
    if !read_only && is_system(path) {
        return Judgement::Given("the service can change a part of the node itself");
    }
    Judgement::Given("the path must be on the node the stack is placed on")
}

/// Whether a path is of what the node itself is made of.
#[must_use]
pub fn is_system(path: &str) -> bool {
    SYSTEM.iter().any(|system| is_within(path, system))
}

/// Whether `path` is `folder` or in it; everything is in the root.
fn is_below(path: &str, folder: &str) -> bool {
    folder == "/" || is_within(path, folder)
}

/// Whether `path` is `folder` or in it.
fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(path: &str, read_only: bool) -> bool {
        matches!(judge(Power::HostPath { path, read_only }), Judgement::Given(_))
    }

    #[test]
    fn no_path_is_a_way_around_us() {
        for path in [
            "/",
            "/var",
            "/var/lib",
            "/var/lib/docker/volumes",
            "/var/lib/persys",
            "/run/docker.sock",
            "/var/run/docker.sock",
            "/srv/own.sock",
            "/etc",
        ] {
            assert!(!given(path, true) && !given(path, false), "{path}");
        }
        for path in ["/etc/localtime", "/proc", "/sys", "/etc/cron.d", "/usr/bin", "/dev"] {
            assert!(given(path, true) && given(path, false), "{path}");
        }
        assert!(given("/srv/data", false) && given("/home/web", false) && given("/runner", false));
    }

    #[test]
    fn what_is_withheld_is_named_itself_or_not_at_all() {
        let socket = "/var/run/docker.sock";
        for folder in ["/", "/var", "/srv", "/var/run/docker.soc"] {
            assert!(!names(folder, socket), "{folder}");
        }
        assert!(names(socket, socket) && names("/var/run", socket) && names("/var/run/", socket));
        assert!(names("/", "/") && !names("/", "/var/lib/persys/x"));
        assert!(names("/srv", "/srv/a") && names("/", "/srv/a") && !names("/srv", "/srvs"));
        assert!(names("/srv/own.sock", "/srv/own.sock") && !names("/srv", "/srv/own.sock"));
    }
}
