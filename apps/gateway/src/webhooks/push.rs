//! What of a payload is believed: which repository, and which reference of it moved. Nothing else.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::signature::Provider;

/// Longest name of a repository or a reference.
const LONGEST: usize = 512;
/// How far a clock elsewhere may be ahead.
const AHEAD: Duration = Duration::from_mins(5);

/// A reference of a repository that moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Push {
    /// Without its host, such as `org/shop`.
    pub repository: String,
    /// Such as `refs/heads/main`.
    pub reference: String,
}

/// Why a payload is none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoPush {
    #[error("the payload names no repository and no reference")]
    Nothing,
    #[error("the payload is from another time")]
    OtherTime,
}

#[derive(Deserialize)]
struct Payload {
    #[serde(default)]
    r#ref: String,
    #[serde(default)]
    repository: Option<Repository>,
    #[serde(default)]
    project: Option<Project>,
}

#[derive(Deserialize)]
struct Repository {
    #[serde(default)]
    full_name: String,
    /// Seconds since 1970, where GitHub says when it was.
    #[serde(default)]
    pushed_at: serde_json::Value,
}

#[derive(Deserialize)]
struct Project {
    #[serde(default)]
    path_with_namespace: String,
}

/// The push a payload tells of. One that says when it was must be of the time in which deliveries
/// are remembered: before that, nobody knows whether it was there already.
pub(super) fn read(
    provider: Provider,
    body: &[u8],
    now: SystemTime,
    window: Duration,
) -> Result<Push, NoPush> {
    let Ok(payload) = serde_json::from_slice::<Payload>(body) else { return Err(NoPush::Nothing) };
    let pushed_at = payload.repository.as_ref().and_then(|one| one.pushed_at.as_u64());
    if let (Provider::Github, Some(seconds)) = (provider, pushed_at) {
        let at = UNIX_EPOCH + Duration::from_secs(seconds.min(u64::from(u32::MAX) * 4));
        if at > now + AHEAD || at + window < now {
            return Err(NoPush::OtherTime);
        }
    }
    let repository = match provider {
        Provider::Github | Provider::Gitea => payload.repository.map(|one| one.full_name),
        Provider::Gitlab => payload.project.map(|one| one.path_with_namespace),
    };
    let plain = |text: &String| {
        (1..=LONGEST).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let repository = repository.filter(plain).ok_or(NoPush::Nothing)?;
    let reference = Some(payload.r#ref).filter(plain).ok_or(NoPush::Nothing)?;
    Ok(Push { repository, reference })
}

/// Whether an event is that something was pushed.
pub(super) fn is_push(event: &str) -> bool {
    matches!(event, "push" | "Push Hook" | "Tag Push Hook")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const WINDOW: Duration = Duration::from_hours(24);

    use super::read as read_at;

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_hours(500_000)
    }

    #[test]
    fn only_the_repository_and_the_reference_are_taken() {
        let github = json!({
            "ref": "refs/heads/main",
            "after": "evil",
            "repository": {"full_name": "org/shop", "clone_url": "https://evil", "pushed_at": 1_800_000_000_u64},
        });
        let push =
            Push { repository: "org/shop".to_owned(), reference: "refs/heads/main".to_owned() };
        let read = |provider, value: &serde_json::Value| {
            read_at(provider, value.to_string().as_bytes(), now(), WINDOW)
        };
        assert_eq!(read(Provider::Github, &github), Ok(push.clone()));
        assert_eq!(read(Provider::Gitea, &github), Ok(push.clone()));
        let gitlab =
            json!({"ref": "refs/heads/main", "project": {"path_with_namespace": "org/shop"}});
        assert_eq!(read(Provider::Gitlab, &gitlab), Ok(push));
        for bad in [
            json!({}),
            json!([]),
            json!({"ref": "x"}),
            json!({"ref": 1, "repository": {}}),
            json!({"ref": "a b", "repository": {"full_name": "org/shop"}}),
        ] {
            assert_eq!(read(Provider::Github, &bad), Err(NoPush::Nothing), "{bad}");
        }
    }

    #[test]
    fn what_is_older_than_what_is_remembered_is_refused() {
        for (at, is_good) in [
            (1_800_000_000 - 3600, true),
            (1_800_000_000 - 25 * 3600, false),
            (1_800_000_000 + 600, false),
            (u64::MAX, false),
        ] {
            let value = json!({"ref": "refs/heads/main", "repository": {"full_name": "o/s", "pushed_at": at}});
            let read = read_at(Provider::Github, value.to_string().as_bytes(), now(), WINDOW);
            assert_eq!(read.is_ok(), is_good, "{at}");
        }
    }
}
