//! Whether what runs workloads answers.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::time::Duration;

use persys_runtime::compose::Compose;
use persys_runtime::docker::Docker;
use persys_runtime::runtime::Health;
use persys_runtime::vm::Machines;
use persys_runtime::{Error, Runtime};
use tokio::time::timeout;

use crate::finding::Finding;

/// How long each may take to say how it is.
const WITHIN: Duration = Duration::from_secs(15);
const KVM: &str = "/dev/kvm";

async fn ask(runtime: &dyn Runtime) -> Result<Health, String> {
    match timeout(WITHIN, runtime.health()).await {
        Ok(Ok(health)) => Ok(health),
        Ok(Err(Error::Refused { detail, .. })) => Err(detail),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", WITHIN.as_secs())),
    }
}

/// What answers is good; what it is not content with is passed on.
fn answered(subject: &str, name: &str, health: &Health) -> Finding {
    let says = format!("{name} {}", health.version).trim_start().to_owned();
    if health.warnings.is_empty() {
        return Finding::good(subject, says);
    }
    health
        .warnings
        .iter()
        .fold(Finding::weak(subject, says), |finding, warning| finding.mend(warning.clone()))
}

/// Whether containers can run.
pub async fn docker(docker: Option<&Docker>) -> Finding {
    let Some(docker) = docker else {
        return Finding::good("containers", "not wanted: PERSYS_DOCKER_ENABLED is false");
    };
    match ask(docker).await {
        Ok(health) => answered("containers", "Docker", &health),
        Err(why) => Finding::bad("containers", format!("Docker at {}: {why}", docker.host()))
            .mend("apt-get install docker.io")
            .mend("systemctl enable --now docker"),
    }
}

/// Whether stacks can.
pub async fn compose(compose: Option<&Compose>) -> Finding {
    let subject = "stacks";
    let Some(compose) = compose else {
        return Finding::good(subject, "not wanted: PERSYS_COMPOSE_ENABLED is false");
    };
    match compose.program().await {
        Ok(version) => Finding::good(subject, format!("Compose {version}")),
        Err(why) => Finding::weak(subject, format!("not offered: {why}"))
            .mend("apt-get install docker-compose"),
    }
}

/// Whether virtual machines can.
pub async fn machines(machines: Option<&Machines>) -> Finding {
    let subject = "machines";
    let Some(machines) = machines else {
        return Finding::good(subject, "not wanted: PERSYS_VM_ENABLED is false");
    };
    match ask(machines).await {
        Ok(health) => answered(subject, "", &health),
        Err(why) => Finding::weak(subject, format!("not offered: {why}"))
            .mend("apt-get install qemu-system-x86 qemu-utils libvirt-daemon-system")
            .mend("systemctl enable --now libvirtd"),
    }
}

/// Whether the processor runs guests itself.
pub fn kvm(wanted: bool) -> Finding {
    let opened = OpenOptions::new().read(true).write(true).open(Path::new(KVM));
    judge_kvm(wanted, opened.map(drop).map_err(|error| error.kind()))
}

fn judge_kvm(wanted: bool, opened: Result<(), io::ErrorKind>) -> Finding {
    let subject = "KVM";
    match opened {
        _ if !wanted => Finding::good(subject, "not needed without machines"),
        Ok(()) => Finding::good(
            subject,
            "can be opened; each agent proves with a small guest that it works",
        ),
        Err(io::ErrorKind::NotFound) => Finding::weak(
            subject,
            format!("there is no {KVM}; machines are emulated, many times slower"),
        )
        .mend("switch virtualisation on in the firmware, or nesting in the host of this guest")
        .mend("modprobe kvm_intel || modprobe kvm_amd"),
        Err(kind) => Finding::weak(subject, format!("{KVM}: {kind}; machines are emulated"))
            .mend("run the agent as root, or: usermod -aG kvm USER"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn machines_without_kvm_are_slow_and_no_fault() {
        assert_eq!(judge_kvm(true, Ok(())).verdict, Verdict::Good);
        let absent = judge_kvm(true, Err(io::ErrorKind::NotFound));
        assert_eq!(absent.verdict, Verdict::Weak);
        assert!(!absent.mend.is_empty());
        assert_eq!(judge_kvm(false, Err(io::ErrorKind::NotFound)).verdict, Verdict::Good);
        assert_eq!(judge_kvm(true, Err(io::ErrorKind::PermissionDenied)).verdict, Verdict::Weak);
    }

    #[test]
    fn what_a_runtime_complains_about_is_passed_on() {
        let warnings = vec!["no swap limit".to_owned()];
        let finding = answered("containers", "Docker", &Health { version: "20".into(), warnings });
        assert_eq!((finding.verdict, finding.mend.len()), (Verdict::Weak, 1));
        let health = Health { version: "20".into(), warnings: Vec::new() };
        assert_eq!(answered("containers", "Docker", &health).verdict, Verdict::Good);
    }
}
