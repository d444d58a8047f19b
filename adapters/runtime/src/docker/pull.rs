//! Fetching images.

use std::collections::BTreeMap;

use bollard::BollardRequest;
use bollard::auth::DockerCredentials;
use bollard::models::CreateImageInfo;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures::{Stream, StreamExt};
use tokio::time::timeout;

use crate::error::Error;
use crate::runtime::{Fetched, Progress};

use super::call::{self, No, Reply};
use super::image::{DOCKER_HUB, registry_of, with_tag};
use super::logins::{self, BadLogins};
use super::settings::PullPolicy;
use super::{Docker, refusal};

/// What Docker Hub is called where credentials are sent.
const DOCKER_HUB_ADDRESS: &str = "https://index.docker.io/v1/";
/// The header credentials are sent in.
const CREDENTIALS_HEADER: &str = "x-registry-auth";
/// Parts of an image we keep count of; an image with more is still fetched.
const MOST_PARTS: usize = 512;

impl Docker {
    /// Has `image` on this node.
    pub(crate) async fn fetch(&self, image: &str, progress: &dyn Progress) -> Result<(), Error> {
        match self.settings.pull {
            PullPolicy::IfMissing if self.has(image).await? => return Ok(()),
            PullPolicy::IfMissing | PullPolicy::Always => {}
        }
        let limit = self.settings.deadlines.pull;
        timeout(limit, self.pull(image, progress)).await.unwrap_or_else(|_| {
            let detail = format!("it was not there after {} s", limit.as_secs());
            Err(Error::ImagePull { image: image.to_owned(), detail })
        })
    }

    /// Whether the node has it. A refusal to say is no reason not to fetch it.
    pub(crate) async fn has(&self, image: &str) -> Result<bool, Error> {
        let client = self.client()?;
        let name = with_tag(image);
        let call = client.inspect_image(&name);
        match call::ask("prepare", self.settings.deadlines.ask, call).await? {
            Reply::Yes(found) => {
                self.note_image(&name, &found);
                Ok(true)
            }
            Reply::No(_) => Ok(false),
        }
    }

    async fn pull(&self, image: &str, progress: &dyn Progress) -> Result<(), Error> {
        let options = CreateImageOptionsBuilder::default().from_image(&with_tag(image)).build();
        let client = self.client()?;
        let (credentials, unread) = match self.credentials_for(image).await {
            Ok(credentials) => (credentials, None),
            // Many images need none.
            Err(error) => (None, Some(error)),
        };
        let steps = client.create_image(Some(options), None, credentials);
        match (self.follow(image, steps, progress).await, unread) {
            (Err(Error::ImageDenied { image, detail }), Some(unread)) => {
                Err(Error::ImageDenied { image, detail: format!("{detail}; {unread}") })
            }
            (done, _) => done,
        }
    }

    async fn follow(
        &self,
        image: &str,
        steps: impl Stream<Item = Result<CreateImageInfo, bollard::errors::Error>>,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        let idle = self.settings.deadlines.pull_idle;
        let mut parts = Parts::default();
        let mut steps = std::pin::pin!(steps);
        loop {
            let Ok(step) = timeout(idle, steps.next()).await else {
                let detail = format!("no progress for {} s", idle.as_secs());
                return Err(Error::ImagePull { image: image.to_owned(), detail });
            };
            match step {
                None => return Ok(()),
                Some(Ok(step)) => {
                    if let Some(fetched) = parts.note(step) {
                        progress.fetched(fetched);
                    }
                }
                Some(Err(error)) => {
                    let no: No = call::read("prepare", idle, error)?;
                    return Err(refusal::of_pull(image, no));
                }
            }
        }
    }

    async fn credentials_for(&self, image: &str) -> Result<Option<DockerCredentials>, BadLogins> {
        let host = registry_of(image);
        let credentials = match (self.settings.registries.get(host), &self.settings.logins) {
            (Some(credentials), _) => credentials.clone(),
            (None, None) => return Ok(None),
            (None, Some(path)) => match logins::find(path, host).await? {
                Some(credentials) => credentials,
                None => return Ok(None),
            },
        };
        let address = if host == DOCKER_HUB { DOCKER_HUB_ADDRESS } else { host };
        Ok(Some(DockerCredentials {
            username: Some(credentials.username),
            password: Some(credentials.password.reveal().to_owned()),
            serveraddress: Some(address.to_owned()),
            ..DockerCredentials::default()
        }))
    }
}

/// Docker reads credentials in the URL-safe alphabet and takes what it cannot read for none at all;
/// the client library writes the other alphabet. This puts it right on the way out.
pub(super) fn url_safe_credentials(mut request: BollardRequest) -> BollardRequest {
    if let Some(header) = request.headers_mut().get_mut(CREDENTIALS_HEADER)
        && let Ok(text) = header.to_str()
        && let Ok(mut fixed) = text.replace('+', "-").replace('/', "_").parse()
    {
        std::mem::swap(header, &mut fixed);
        header.set_sensitive(true);
    }
    request
}

/// The parts of an image and how far each is.
#[derive(Debug, Default)]
struct Parts(BTreeMap<String, Part>);

#[derive(Debug, Default, Clone, Copy)]
struct Part {
    bytes: u64,
    of_bytes: u64,
    done: bool,
}

impl Parts {
    /// Takes note of one message; says how far the whole is, if the message was about a part.
    fn note(&mut self, step: CreateImageInfo) -> Option<Fetched> {
        let status = step.status.unwrap_or_default();
        let is_part = ["Pulling fs layer", "Waiting", "Downloading", "Verifying Checksum"]
            .iter()
            .chain(&["Download complete", "Extracting", "Pull complete", "Already exists"])
            .any(|word| status == *word);
        let id = step.id.filter(|_| is_part)?;
        if !self.0.contains_key(&id) && self.0.len() >= MOST_PARTS {
            return None;
        }
        let part = self.0.entry(id).or_default();
        part.done |= status == "Pull complete" || status == "Already exists";
        if let Some(detail) = step.progress_detail.filter(|_| status == "Downloading") {
            let amount = |number: Option<i64>| number.and_then(|n| u64::try_from(n).ok());
            part.bytes = amount(detail.current).unwrap_or(part.bytes);
            part.of_bytes = amount(detail.total).unwrap_or(part.of_bytes);
        } else if part.done || status == "Download complete" {
            part.bytes = part.of_bytes;
        }
        Some(self.sum())
    }

    fn sum(&self) -> Fetched {
        let mut sum = Fetched::default();
        for part in self.0.values() {
            sum.parts = sum.parts.saturating_add(u64::from(part.done));
            sum.of_parts = sum.of_parts.saturating_add(1);
            sum.bytes = sum.bytes.saturating_add(part.bytes);
            sum.of_bytes = sum.of_bytes.saturating_add(part.of_bytes);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bollard::models::ProgressDetail;

    fn step(id: &str, status: &str, bytes: Option<(i64, i64)>) -> CreateImageInfo {
        CreateImageInfo {
            id: Some(id.to_owned()),
            status: Some(status.to_owned()),
            progress_detail: bytes.map(|(current, total)| ProgressDetail {
                current: Some(current),
                total: Some(total),
            }),
            ..CreateImageInfo::default()
        }
    }

    #[test]
    fn progress_is_the_sum_of_the_parts() {
        let mut parts = Parts::default();
        assert_eq!(parts.note(step("latest", "Pulling from library/web", None)), None);
        parts.note(step("a", "Already exists", None));
        parts.note(step("b", "Pulling fs layer", None));
        let half = parts.note(step("b", "Downloading", Some((50, 100)))).unwrap();
        assert_eq!(half, Fetched { parts: 1, of_parts: 2, bytes: 50, of_bytes: 100 });
        parts.note(step("b", "Download complete", None));
        let all = parts.note(step("b", "Pull complete", None)).unwrap();
        assert_eq!(all, Fetched { parts: 2, of_parts: 2, bytes: 100, of_bytes: 100 });
    }
}
