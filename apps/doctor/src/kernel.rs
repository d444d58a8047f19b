//! What the kernel has to give: limits for workloads, and a way for their packets.

use std::fs;

use crate::finding::Finding;

/// What a limit of each kind needs.
const WANTED: [&str; 3] = ["cpu", "memory", "pids"];

/// Whether limits of CPU, memory and processes can be held.
pub fn cgroups() -> Finding {
    let unified = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").ok();
    let named = fs::read_to_string("/proc/cgroups").unwrap_or_default();
    judge_cgroups(unified.as_deref(), &named)
}

/// Judges the controllers of the unified tree, if there is one, and the kernel's own list of them.
fn judge_cgroups(unified: Option<&str>, named: &str) -> Finding {
    let subject = "limits";
    let offered: Vec<&str> = match unified {
        Some(list) => list.split_whitespace().collect(),
        None => named.lines().filter_map(enabled).collect(),
    };
    let missing: Vec<_> = WANTED.into_iter().filter(|wanted| !offered.contains(wanted)).collect();
    if missing.is_empty() {
        let tree = if unified.is_some() { "cgroup v2" } else { "cgroup v1" };
        return Finding::good(subject, format!("{tree} holds CPU, memory and processes"));
    }
    let missing = missing.join(" and ");
    Finding::bad(subject, format!("the kernel holds no limits of {missing}"))
        .mend("boot with `cgroup_enable=memory swapaccount=1` on the kernel's command line")
        .mend("on v2, `cat /sys/fs/cgroup/cgroup.controllers` then names them")
}

/// The name of a controller that is switched on: `name hierarchy groups enabled`.
fn enabled(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let name = words.next().filter(|name| !name.starts_with('#'))?;
    (words.nth(2)? == "1").then_some(name)
}

/// Whether packets find their way from and to workloads.
pub fn forwarding() -> Finding {
    judge_forwarding(fs::read_to_string("/proc/sys/net/ipv4/ip_forward").ok().as_deref())
}

fn judge_forwarding(value: Option<&str>) -> Finding {
    let subject = "forwarding";
    match value.map(str::trim) {
        Some("1") => Finding::good(subject, "packets of workloads are passed on"),
        // Docker switches it on when it starts, unless it is told not to.
        Some(_) => {
            Finding::weak(subject, "the kernel passes no packets on; published ports stay shut")
                .mend("sysctl -w net.ipv4.ip_forward=1")
                .mend("echo net.ipv4.ip_forward=1 > /etc/sysctl.d/90-persys.conf")
        }
        None => Finding::weak(subject, "the kernel does not say whether it passes packets on"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn both_trees_of_groups_are_read() {
        let all = judge_cgroups(Some("cpuset cpu io memory hugetlb pids rdma\n"), "");
        assert_eq!(
            (all.verdict, &*all.says),
            (Verdict::Good, "cgroup v2 holds CPU, memory and processes")
        );
        let old = "#subsys_name\thierarchy\tnum_cgroups\tenabled\n\
                   cpu\t3\t60\t1\nmemory\t0\t1\t0\npids\t5\t60\t1\n";
        let finding = judge_cgroups(None, old);
        assert_eq!(finding.verdict, Verdict::Bad);
        assert!(finding.says.ends_with("of memory"), "{}", finding.says);
        assert!(!finding.mend.is_empty());
        let on = old.replace("memory\t0\t1\t0", "memory\t4\t60\t1");
        assert_eq!(judge_cgroups(None, &on).verdict, Verdict::Good);
        assert_eq!(judge_cgroups(None, "").verdict, Verdict::Bad);
    }

    #[test]
    fn a_host_that_passes_nothing_on_is_told_so() {
        assert_eq!(judge_forwarding(Some("1\n")).verdict, Verdict::Good);
        assert_eq!(judge_forwarding(Some("0\n")).verdict, Verdict::Weak);
        assert_eq!(judge_forwarding(None).verdict, Verdict::Weak);
    }
}
