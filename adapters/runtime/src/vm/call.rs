//! What an answer of libvirt means to whoever asked for a verb.

use persys_libvirt::{Code, Error as Said, Refusal};

use crate::error::Error;

/// An error of a call in the words of the seam: silence stays silence, a "no" is a "no".
pub(super) fn told(verb: &'static str, said: Said) -> Error {
    match said {
        Said::Absent { .. } | Said::Unreachable { .. } => {
            Error::Unreachable { detail: said.to_string() }
        }
        Said::NoAnswer { within_ms, .. } => Error::NoAnswer { verb, within_ms },
        Said::Unreadable { .. } => Error::Unreadable { verb, detail: said.to_string() },
        Said::Refused(refusal) => Error::Refused { verb, detail: refusal.to_string() },
    }
}

/// What a refusal to define or start a machine means. libvirt has few codes and many sentences, so
/// the sentences are read; what fits none is a machine that did not come up.
pub(super) fn of_start(said: Said) -> Error {
    let Said::Refused(Refusal { code, message, .. }) = said else { return told("start", said) };
    let has = |words: &[&str]| {
        let lower = message.to_ascii_lowercase();
        words.iter().any(|word| lower.contains(word))
    };
    let detail = message.clone();
    if code == Code::NO_NETWORK
        || has(&["network '", "no bridge", "cannot get interface mtu", "unable to add bridge"])
    {
        return Error::Network { detail };
    }
    if has(&["cannot allocate memory", "cannot set up guest memory", "insufficient"]) {
        return Error::Resources { detail };
    }
    if code == Code::NO_STORAGE_POOL
        || code == Code::NO_STORAGE_VOL
        || has(&[
            "cannot access storage file",
            "could not open '",
            "no space left",
            "failed to get \"write\" lock",
            "failed to get shared \"write\" lock",
            "image is not in",
        ])
    {
        return Error::Storage { detail };
    }
    if code == Code::XML || code == Code::CONFIG_UNSUPPORTED {
        return Error::Invalid { detail };
    }
    Error::Boot { detail }
}

#[cfg(test)]
mod tests {
    use persys_model::failure::FailureReason;

    use super::*;

    #[test]
    fn only_libvirts_own_word_is_a_failure() {
        for said in [
            Said::Absent { looked: "/x".to_owned() },
            Said::Unreachable { detail: "reset".to_owned() },
            Said::NoAnswer { asked: "start", within_ms: 5 },
            Said::Unreadable { asked: "start", detail: "cut".to_owned() },
        ] {
            assert!(told("start", said.clone()).is_unknown(), "{said}");
            assert!(of_start(said).is_unknown());
        }
        let no = Said::Refused(Refusal { code: Code(1), from: 10, message: "no".to_owned() });
        assert!(!told("start", no).is_unknown());
    }

    #[test]
    fn the_sentences_of_libvirt_have_classes() {
        let class = |code: i32, message: &str| {
            let message = message.to_owned();
            of_start(Said::Refused(Refusal { code: Code(code), from: 10, message })).reason()
        };
        let lost = "Network not found: no network with matching name 'lan'";
        assert_eq!(class(43, lost), FailureReason::NetworkError);
        let down = "Requested operation is not valid: network 'default' is not active";
        assert_eq!(class(55, down), FailureReason::NetworkError);
        let bridge = "Cannot get interface MTU on 'br9': No such device";
        assert_eq!(class(38, bridge), FailureReason::NetworkError);
        let file = "Cannot access storage file '/x.qcow2': No such file or directory";
        assert_eq!(class(38, file), FailureReason::StorageError);
        let locked = "internal error: process exited while connecting to monitor: \
             Failed to get \"write\" lock";
        assert_eq!(class(1, locked), FailureReason::StorageError);
        let memory = "internal error: cannot set up guest memory 'pc.ram': Cannot allocate memory";
        assert_eq!(class(1, memory), FailureReason::InsufficientResources);
        let cannot = "unsupported configuration: CPU mode 'host-passthrough' needs KVM";
        assert_eq!(class(67, cannot), FailureReason::InvalidSpec);
        let died = "internal error: process exited while connecting to monitor: qemu: abort";
        assert_eq!(class(1, died), FailureReason::VmBootFailed);
    }
}
