//! What a service may do to the node it runs on: the one place that decides.
//!
//! Whatever reaches beyond a container, through a flag, a path, a device or a namespace, is put as
//! a [`Power`] before [`judge`], by whichever key it was asked for. There is no other place that
//! grants one, so that a stricter policy has one place to go.
//!
//! Today stacks may do what containers may, who can ask for all powers at once. What is never given
//! is a way around us: the sockets of those who start containers, and the folders in which they and
//! we keep what is ours.

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
}

/// Whether a power is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// It is, and what that means; empty where it means little.
    Given(&'static str),
    /// It is not, and what to do instead.
    Denied(&'static str),
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

/// What the node itself is made of: fit for reading, not for writing.
const SYSTEM: &[&str] =
    &["/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr"];

fn host_path(path: &str, read_only: bool) -> Judgement {
    if path == "/" {
        return Judgement::Denied(
            "the whole node cannot be mounted; name the folder that is needed",
        );
    }
    if std::path::Path::new(path).extension().is_some_and(|ending| ending == "sock") {
        return Judgement::Denied(
            "a socket of the node lets the service act as the node; run what needs it beside Persys",
        );
    }
    if KEPT.iter().any(|kept| is_within(path, kept) || is_within(kept, path)) {
        return Judgement::Denied(
            "holds what belongs to Docker, libvirt or Persys; use a folder of your own",
        );
    }
    if !read_only && SYSTEM.iter().any(|system| is_within(path, system)) {
        return Judgement::Denied("is a part of the node itself; it may only be mounted read-only");
    }
    Judgement::Given("the path must be on the node the stack is placed on")
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
            assert!(!given(path, true), "{path}");
        }
        assert!(!given("/etc/cron.d", false) && !given("/usr/bin", false) && !given("/dev", false));
        for path in ["/etc/localtime", "/proc", "/sys"] {
            assert!(given(path, true) && !given(path, false), "{path}");
        }
        assert!(given("/srv/data", false) && given("/home/web", false) && given("/runner", false));
    }
}
