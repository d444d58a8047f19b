//! Whether somebody keeps the clock right: certificates and the order of events depend on it.

use std::path::Path;

use crate::finding::Finding;

/// Files by which those who set the clock say that it is set, and who they are.
const SET: [(&str, &str); 3] = [
    ("/run/systemd/timesync/synchronized", "systemd-timesyncd"),
    ("/run/chrony/chronyd.pid", "chrony"),
    ("/run/ntpd.pid", "ntpd"),
];
/// Where a guest gets the time of its host, without a network.
const FROM_HOST: &str = "/dev/ptp0";

/// Whether somebody keeps the clock right.
pub fn synchronised() -> Finding {
    let keeper = SET.into_iter().find(|(file, _)| Path::new(file).exists());
    judge(keeper.map(|(_, who)| who), Path::new(FROM_HOST).exists())
}

fn judge(keeper: Option<&str>, from_host: bool) -> Finding {
    let subject = "clock";
    match (keeper, from_host) {
        (Some(who), _) => Finding::good(subject, format!("kept right by {who}")),
        (None, true) => Finding::good(subject, "taken from the machine this one is a guest of"),
        (None, false) => {
            let says =
                "nobody is seen to set it; certificates are refused by clocks that are wrong";
            Finding::weak(subject, says)
                .mend("apt-get install systemd-timesyncd")
                .mend("timedatectl")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn somebody_has_to_set_it() {
        assert_eq!(judge(Some("chrony"), false).verdict, Verdict::Good);
        assert_eq!(judge(None, true).verdict, Verdict::Good);
        assert_eq!(judge(None, false).verdict, Verdict::Weak);
    }
}
