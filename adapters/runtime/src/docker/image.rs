//! Reading the name of an image, as far as pulling needs it.

/// The registry Docker means when a name has none.
pub const DOCKER_HUB: &str = "docker.io";

/// The host of the registry an image comes from. The part before the first `/` is a host only if it
/// looks like one; this is Docker's own rule.
#[must_use]
pub fn registry_of(image: &str) -> &str {
    match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => match host {
            "index.docker.io" => DOCKER_HUB,
            host => host,
        },
        Some(_) | None => DOCKER_HUB,
    }
}

/// The name with its tag. A name without one would fetch every tag there is.
#[must_use]
pub fn with_tag(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    if last.contains([':', '@']) { image.to_owned() } else { format!("{image}:latest") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_found_as_docker_finds_it() {
        for (image, host) in [
            ("busybox", "docker.io"),
            ("library/busybox:1", "docker.io"),
            ("index.docker.io/library/busybox", "docker.io"),
            ("ghcr.io/a/b:1", "ghcr.io"),
            ("localhost/a", "localhost"),
            ("127.0.0.1:5000/a/b@sha256:00", "127.0.0.1:5000"),
        ] {
            assert_eq!(registry_of(image), host, "{image}");
        }
    }

    #[test]
    fn every_pull_names_one_version() {
        for (image, full) in [
            ("busybox", "busybox:latest"),
            ("busybox:1", "busybox:1"),
            ("host:5000/a", "host:5000/a:latest"),
            ("host:5000/a:2", "host:5000/a:2"),
            ("a@sha256:00", "a@sha256:00"),
        ] {
            assert_eq!(with_tag(image), full);
        }
    }
}
