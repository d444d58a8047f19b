//! What is built: by Docker where the project is applied, before it is sent.

use super::{Project, plain, tree};
use crate::finding::{Place, Spot};
use crate::yaml::{Node, Value};

/// An image that must be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// For which service.
    pub service: String,
    /// What the image is called.
    pub image: String,
    /// Another name that older versions of Compose would have given it.
    pub older: Option<String>,
    /// The folder that it is built from, as [`super::Files`] has it, or an address.
    pub context: String,
    /// What Docker is told besides that, without the image and the folder.
    pub options: Vec<String>,
}

impl Build {
    /// The words after `docker` that build it, with `context` as its folder.
    #[must_use]
    pub fn words(&self, context: &str) -> Vec<String> {
        let mut words = vec!["build".to_owned(), "-t".to_owned(), self.image.clone()];
        words.extend(self.options.iter().cloned());
        words.push(context.to_owned());
        words
    }

    /// The command that builds it, as it is typed in the folder of the project.
    #[must_use]
    pub fn typed(&self) -> String {
        let quoted = |word: String| {
            let known = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+".contains(c);
            if !word.is_empty() && word.chars().all(known) {
                return word;
            }
            format!("'{}'", word.replace('\'', r"'\''"))
        };
        let words: Vec<_> = self.words(&self.context).into_iter().map(quoted).collect();
        format!("docker {}", words.join(" "))
    }
}

/// Keys of `build` that Docker is told with an option and a value.
const VALUES: &[(&str, &str)] = &[
    ("dockerfile", "-f"),
    ("target", "--target"),
    ("network", "--network"),
    ("shm_size", "--shm-size"),
    ("isolation", "--isolation"),
    ("platform", "--platform"),
];
/// Those with one option for each entry.
const PAIRS: &[(&str, &str)] =
    &[("args", "--build-arg"), ("labels", "--label"), ("extra_hosts", "--add-host")];
/// Those that are switches.
const TRUTHS: &[(&str, &str)] = &[("no_cache", "--no-cache"), ("pull", "--pull")];

/// Names the images of services that are built; says whether there are any.
pub(super) fn settle(at: &Place<'_>, root: &mut Node, project: &mut Project) -> bool {
    let Some(services) = tree::field_mut(root, "services") else { return false };
    let at = at.key("services", services.line);
    let mut any = false;
    for entry in tree::entries_mut(&mut services.value) {
        let profiles = tree::field(&entry.value, "profiles");
        let left_out = profiles.is_some_and(|entry| entry.value.value != Value::Null);
        let Some(build) = tree::take(&mut entry.value, "build") else { continue };
        any = true;
        let here = at.key(&entry.key, entry.line).key("build", build.line);
        let said = tree::text_of(&entry.value, "image").map(str::to_owned);
        let service = image_part(&entry.key);
        let stack = image_part(&project.name);
        let image = said.clone().unwrap_or_else(|| format!("{stack}-{service}"));
        if said.is_none() {
            // It stands in no line of any file.
            tree::put(&mut entry.value, "image", Spot::default(), tree::scalar(&image));
        }
        if left_out {
            here.ignored("the service is left out");
            continue;
        }
        let Some((context, options)) = options(&here, &build.value) else { continue };
        here.changed(format!(
            "`persys apply` has Docker build it where it is typed, as {image}; nodes with another Docker \
             take it from a registry"
        ));
        let older = said.is_none().then(|| format!("{stack}_{service}"));
        let service = entry.key.clone();
        project.builds.push(Build { service, image, older, context, options });
    }
    any
}

/// A name as a part of an image's.
fn image_part(name: &str) -> String {
    let plain = plain(name);
    if plain.is_empty() { "stack".to_owned() } else { plain }
}

/// The folder, and the options.
fn options(at: &Place<'_>, build: &Node) -> Option<(String, Vec<String>)> {
    if let Some(context) = tree::text(build) {
        return Some((context.to_owned(), Vec::new()));
    }
    let (mut context, mut words) = (".".to_owned(), Vec::new());
    for entry in tree::entries(build) {
        let here = at.key(&entry.key, entry.line);
        let key = entry.key.as_str();
        let text = tree::text(&entry.value);
        let option = |table: &[(&str, &'static str)]| {
            table.iter().find(|(name, _)| *name == key).map(|o| o.1)
        };
        match (key, text) {
            ("context", Some(text)) => text.clone_into(&mut context),
            _ if entry.value.value == Value::Null || key.starts_with("x-") => {}
            (_, Some(text)) if option(VALUES).is_some() => {
                words.extend(option(VALUES).map(str::to_owned));
                words.push(text.to_owned());
            }
            (_, Some(text)) if option(TRUTHS).is_some() => {
                words.extend(option(TRUTHS).filter(|_| text == "true").map(str::to_owned));
            }
            _ if option(PAIRS).is_some() => {
                let separator = if key == "extra_hosts" { ':' } else { '=' };
                for pair in tree::pairs(entry.value.clone(), &[separator]) {
                    words.extend(option(PAIRS).map(str::to_owned));
                    words.push(match tree::text(&pair.value) {
                        Some(value) => format!("{}{separator}{value}", pair.key),
                        None => pair.key,
                    });
                }
            }
            ("tags" | "cache_from" | "cache_to" | "provenance" | "sbom", _) => {
                here.ignored("is not needed to run it");
            }
            _ => {
                return here.refuse(
                    "is more than is built here; build the image with `docker compose build`, and \
                     leave build out where image names it",
                );
            }
        }
    }
    Some((inside(&context, &mut words), words))
}

/// A Dockerfile is named from the folder that is built.
fn inside(context: &str, words: &mut [String]) -> String {
    let mut words = words.iter_mut();
    while let Some(word) = words.next() {
        if word == "-f"
            && let Some(file) = words.next()
            && !file.starts_with('/')
            && !context.contains("://")
        {
            *file = super::path::join(context, file);
        }
    }
    context.to_owned()
}
