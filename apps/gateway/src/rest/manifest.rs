//! `POST /v1/manifests`: reads a file that somebody wrote, as `persys apply` reads it, and answers with
//! the requests it means. Nothing is applied.
//!
//! A page has no folder: files that stand beside a Compose file are sent with it. Images to build and
//! secrets in files are for the command line, and are refused by name.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use persys_compose::ContentFile;
use persys_compose::project::{self, Ask, Files, Found, Most, Project};
use persys_model::fault::Faults;
use persys_proto::control::v1::ApplyWorkloadRequest;
use persys_proto::json::{self, Style};
use persys_proto::manifest::{self, Beside, Given, Unread};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::body;
use crate::gateway::Gateway;
use crate::problem::Problem;
use crate::proven::prove;
use crate::serve::Origin;
use crate::who::Who;

const APPLY: &str = "persys.control.v1.ApplyWorkloadRequest";
/// Name of the text among the files of a project.
const TEXT: &str = "compose.yaml";
/// Permissions of files that come without any.
const MODE: u32 = 0o644;

/// The body of the request.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    text: String,
    /// Id of the workload, where the text has none.
    name: String,
    /// Content of files beside the text in base64, by their path from its folder.
    files: BTreeMap<String, String>,
    /// Profiles of a Compose file that are chosen.
    profiles: Vec<String>,
}

/// `POST /v1/manifests`.
pub(super) async fn read(
    State(gateway): State<Gateway>,
    Extension(origin): Extension<Origin>,
    Extension(who): Extension<Who>,
    request: Request,
) -> Result<Response, Problem> {
    prove(&gateway, who.known()?, &origin).await?;
    let (parts, content) = request.into_parts();
    let limits = &gateway.limits;
    let bytes = body::read(&parts.headers, content, limits.body, limits.body_within).await?;
    let value = body::json(&parts.headers, &bytes)?;
    let value = value.ok_or_else(|| Problem::bad("text: is missing"))?;
    let written: Written =
        serde_json::from_value(value).map_err(|fault| Problem::bad(fault.to_string()))?;
    // A large file keeps a thread busy for a while.
    let answer = tokio::task::spawn_blocking(move || answer(written)).await;
    let answer = answer
        .map_err(|why| Problem::unavailable(format!("the file was not read to its end: {why}")))?;
    Ok(Json(answer?).into_response())
}

fn answer(written: Written) -> Result<Value, Problem> {
    let Written { text, name, files, profiles } = written;
    let id = Some(name.trim().to_owned()).filter(|name| !name.is_empty());
    let beside = Beside { id, profiles, given: Given::Page, ..Beside::default() };
    let requests = if project::is_compose(&text) {
        vec![stack(text, &files, &beside)?]
    } else {
        let found = manifest::read(&text, &beside).map_err(unread)?;
        found.into_iter().map(|(request, _)| request).collect()
    };
    let shown = |request: &ApplyWorkloadRequest| json::write(APPLY, request, Style::Snake);
    Ok(json!({"workloads": requests.iter().map(shown).collect::<Vec<_>>()}))
}

fn unread(why: Unread) -> Problem {
    match why {
        Unread::Malformed(why) => Problem::bad(format!("this is neither YAML nor JSON: {why}")),
        Unread::Empty => Problem::bad("the file is empty; `persys init` writes one to start from"),
        Unread::Several(documents) => Problem::bad(format!(
            "Name: is for one workload, and the file has {documents} documents; leave it empty"
        )),
        Unread::Faults(faults) => Problem::faults(&faults),
    }
}

fn stack(
    text: String,
    files: &BTreeMap<String, String>,
    beside: &Beside,
) -> Result<ApplyWorkloadRequest, Problem> {
    let sent = Sent::of(text, files)?;
    let ask = Ask {
        files: vec![format!("./{TEXT}")],
        profiles: beside.profiles.clone(),
        name: beside.id.clone(),
        ..Ask::default()
    };
    let project = project::load(&sent, &ask);
    let request =
        manifest::of_project(&project, beside).map_err(|faults| Problem::faults(&faults))?;
    let missing = for_the_command_line(&project);
    if missing.is_empty() { Ok(request) } else { Err(Problem::faults(&missing)) }
}

/// Parts of a project that only the machine with its folder can provide.
fn for_the_command_line(project: &Project) -> Faults {
    let mut faults = Faults::none();
    for build in &project.builds {
        let path = format!("services.{}.build", build.service);
        faults.push(path, "is built by Docker on your machine: type `persys apply FILE` there, or write an image that the nodes can fetch");
    }
    for secret in &project.secrets {
        let path = format!("secrets.{}", secret.key);
        faults.push(path, "is read from a file and kept in the cluster: type `persys apply FILE` where the file is");
    }
    faults
}

/// The files that were sent, by their path from the folder of the text.
struct Sent(BTreeMap<String, Vec<u8>>);

impl Sent {
    fn of(text: String, files: &BTreeMap<String, String>) -> Result<Self, Problem> {
        let mut sent = BTreeMap::new();
        for (path, content) in files {
            let bytes = STANDARD
                .decode(content)
                .map_err(|why| Problem::bad(format!("files: {path:?} is not base64: {why}")))?;
            sent.insert(path.trim_start_matches("./").to_owned(), bytes);
        }
        sent.insert(TEXT.to_owned(), text.into_bytes());
        Ok(Self(sent))
    }
}

impl Files for Sent {
    fn look(&self, path: &str, most: Most) -> Result<Found, String> {
        let path = path.trim_start_matches("./").trim_end_matches('/');
        let file = |bytes: &Vec<u8>| ContentFile {
            mode: MODE,
            bytes: bytes.clone(),
            ..ContentFile::default()
        };
        if let Some(bytes) = self.0.get(path) {
            if bytes.len() > most.bytes {
                return Err(format!("has more than {} bytes", most.bytes));
            }
            return Ok(Found::File(file(bytes)));
        }
        let inside = self.0.iter().filter_map(|(name, bytes)| {
            let rest = name.strip_prefix(path)?.strip_prefix('/')?;
            Some((rest.to_owned(), file(bytes)))
        });
        let folder: BTreeMap<_, _> = inside.collect();
        if folder.is_empty() {
            let why = "is beside the file: choose it together with the file, or type `persys apply FILE` where it is";
            return Err(why.to_owned());
        }
        let bytes = folder.values().fold(0_usize, |sum, one| sum.saturating_add(one.bytes.len()));
        if folder.len() > most.files || bytes > most.bytes {
            return Err(format!("holds more than {} files or {} bytes", most.files, most.bytes));
        }
        Ok(Found::Folder(folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, name: &str, files: &[(&str, &str)]) -> Result<Value, Value> {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), STANDARD.encode(text)));
        let written = Written {
            text: text.to_owned(),
            name: name.to_owned(),
            files: files.collect(),
            profiles: Vec::new(),
        };
        answer(written).map_err(|problem| problem.to_json())
    }

    #[test]
    fn a_spec_in_yaml_becomes_the_request_it_means() {
        let text = "name: web\nspec:\n  container: {image: nginx}\n";
        let answer = read(text, "", &[]).unwrap();
        let wanted = json!({"workload_id": "web", "spec": {"container": {"image": "nginx"}}});
        assert_eq!(answer["workloads"][0]["workload_id"], wanted["workload_id"]);
        assert_eq!(answer["workloads"][0]["spec"]["container"]["image"], "nginx");
        let nameless = read("spec: {container: {image: nginx}}", "", &[]).unwrap_err();
        assert_eq!(nameless["faults"][0]["path"], "name");
        assert!(nameless["faults"][0]["problem"].as_str().unwrap().contains("field Name"));
        assert!(read("spec: {container: {image: nginx}}", "web", &[]).is_ok());
        let broken = read("a: [", "", &[]).unwrap_err();
        assert!(broken["detail"].as_str().unwrap().contains("line"), "{broken}");
    }

    #[test]
    fn a_compose_file_takes_what_was_sent_with_it_and_names_what_is_missing() {
        let text = "services:\n  web:\n    image: nginx\n    env_file: web.env\n    volumes: ['./conf:/etc/app']\n";
        let files = [("web.env", "A=1\n"), ("conf/app.ini", "x=1\n")];
        let answer = read(text, "shop", &files).unwrap();
        let request = &answer["workloads"][0];
        assert_eq!(
            (&request["workload_id"], &request["spec"]["type"]),
            (&json!("shop"), &json!("compose"))
        );
        let missing = read(text, "shop", &[]).unwrap_err().to_string();
        for path in ["web.env", "conf"] {
            assert!(missing.contains(path), "{missing}");
        }
        assert!(missing.contains("choose it together with the file"), "{missing}");
        let built = read("services:\n  web:\n    build: .\n", "shop", &[]).unwrap_err();
        assert_eq!(built["faults"][0]["path"], "services.web.build", "{built}");
        assert!(built.to_string().contains("persys apply FILE"), "{built}");
    }
}
