//! Signals that tell a running program to read its secrets again.

/// The key of a secret in a Compose file that names the signal for the services that see it.
pub(crate) const SIGNAL_KEY: &str = "x-persys-signal";

/// A signal that programs take for "read your files again". Others end a program or stop it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// `SIGHUP`
    Hup,
    /// `SIGUSR1`
    Usr1,
    /// `SIGUSR2`
    Usr2,
}

impl Signal {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Hup, Self::Usr1, Self::Usr2];

    /// Its name, as `kill -s` takes it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Hup => "SIGHUP",
            Self::Usr1 => "SIGUSR1",
            Self::Usr2 => "SIGUSR2",
        }
    }

    /// The signal of this name, with or without `SIG`; otherwise the reason it is none.
    pub fn of(text: &str) -> Result<Self, &'static str> {
        let named = |signal: &Self| signal.word() == text || signal.word().get(3..) == Some(text);
        Self::ALL.into_iter().find(named).ok_or("is none of SIGHUP, SIGUSR1 and SIGUSR2")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_read_by_both_of_its_names_and_no_other() {
        for signal in Signal::ALL {
            assert_eq!(Signal::of(signal.word()), Ok(signal));
        }
        assert_eq!(Signal::of("HUP"), Ok(Signal::Hup));
        for other in ["", "SIGKILL", "hup", "1", "SIG"] {
            assert!(Signal::of(other).is_err(), "{other}");
        }
    }
}
