//! What a simulated image does, said by its name.

use persys_model::failure::FailureReason;
use persys_model::spec::{Kind, Spec};

use crate::error::Error;

/// What an image does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// Runs until it is stopped.
    Run,
    /// Ends at once with this code.
    Exit(i32),
    /// Fails with this reason.
    Fail(FailureReason),
    /// Runs until it is stopped, and has a health check of its own.
    Checked,
    /// The same, and its check fails.
    Ill,
}

impl Script {
    /// The script of what `spec` runs. A machine does what its image says, a stack what the first
    /// image in its file says.
    #[must_use]
    pub fn of(spec: &Spec) -> Self {
        match &spec.kind {
            Kind::Container(container) => Self::of_image(&container.image),
            Kind::Vm(machine) => machine.os_image.as_deref().map_or(Self::Run, Self::of_image),
            Kind::Compose(stack) => {
                first_image(stack.source.file().reveal()).map_or(Self::Run, Self::of_image)
            }
        }
    }

    fn of_image(image: &str) -> Self {
        match image.split_once(':') {
            Some(("checked", _)) => Self::Checked,
            Some(("ill", _)) => Self::Ill,
            Some(("exit", code)) => code.parse().map_or(Self::Run, Self::Exit),
            Some(("fail", code)) => FailureReason::ALL
                .into_iter()
                .find(|reason| reason.code() == code)
                .map_or(Self::Run, Self::Fail),
            Some(_) | None => Self::Run,
        }
    }

    /// What goes wrong when it is fetched.
    pub(super) fn prepare_error(self, spec: &Spec) -> Option<Error> {
        match self {
            Self::Fail(FailureReason::ImageNotFound | FailureReason::ImagePullFailed) => {
                self.error(spec)
            }
            Self::Fail(_) | Self::Exit(_) | Self::Run | Self::Checked | Self::Ill => None,
        }
    }

    /// What goes wrong when it is started.
    pub(super) fn start_error(self, spec: &Spec) -> Option<Error> {
        self.error(spec)
    }

    fn error(self, spec: &Spec) -> Option<Error> {
        let Self::Fail(reason) = self else { return None };
        let detail = "as its name asks for".to_owned();
        let image = match &spec.kind {
            Kind::Container(container) => container.image.to_string(),
            Kind::Compose(_) | Kind::Vm(_) => String::new(),
        };
        Some(match reason {
            FailureReason::ImageNotFound => Error::ImageNotFound { image, detail },
            FailureReason::ImagePullFailed => Error::ImagePull { image, detail },
            FailureReason::InsufficientResources => Error::Resources { detail },
            FailureReason::InvalidSpec => Error::Invalid { detail },
            FailureReason::NetworkError => Error::Network { detail },
            FailureReason::StorageError => Error::Storage { detail },
            FailureReason::RuntimeError | FailureReason::VmBootFailed => {
                Error::Refused { verb: "start", detail }
            }
        })
    }
}

fn first_image(file: &str) -> Option<&str> {
    file.lines().find_map(|line| line.trim().strip_prefix("image:")).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_what_happens() {
        assert_eq!(Script::of_image("exit:3"), Script::Exit(3));
        assert_eq!(Script::of_image("checked:1"), Script::Checked);
        assert_eq!(
            Script::of_image("fail:IMAGE_NOT_FOUND"),
            Script::Fail(FailureReason::ImageNotFound)
        );
        for image in ["web", "web:1", "exit:soon", "fail:HORRIBLY"] {
            assert_eq!(Script::of_image(image), Script::Run, "{image}");
        }
    }
}
