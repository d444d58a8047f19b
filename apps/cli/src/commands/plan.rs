//! `plan`, and the file that `apply --plan` carries out.

use std::path::Path;

use persys_proto::control::v1 as wire;
use persys_proto::json;
use serde_json::{Value, json};

use super::submit;
use crate::args::Plan;
use crate::manifest::Wanted;
use crate::problem::Problem;
use crate::shell::Shell;
use crate::show;

/// The message a plan file holds for each workload.
const REQUEST: &str = "persys.control.v1.ApplyWorkloadRequest";
/// Bytes of the longest plan file that is read.
const LONGEST: u64 = 64 << 20;

/// `plan`.
pub(super) async fn plan(shell: &Shell, wanted: &Plan) -> Result<u8, Problem> {
    if wanted.apply.check || wanted.apply.detach || wanted.apply.plan.is_some() {
        return Err(Problem::usage("plan takes no --check, --detach and --plan")
            .why("it changes nothing, so there is nothing to wait for"));
    }
    let all = submit::load(shell, &wanted.apply)?;
    let client = shell.client()?;
    let (mut requests, mut shown, mut code) = (Vec::new(), Vec::new(), 0);
    for Wanted { request, from, project } in all {
        if wanted.out.is_some()
            && project.is_some_and(|one| !one.builds.is_empty() || !one.secrets.is_empty())
        {
            return Err(Problem::usage(format!("the plan of {from} cannot be kept in a file"))
                .why("its images are built and its secrets are set when it is applied")
                .next("persys plan -f FILE, then persys apply -f FILE"));
        }
        let id = request.workload_id.clone();
        let what = format!("{from}: what would become of {id} is not known");
        let answer = Box::pin(client.ask(&what, client.check().check(request.clone()))).await?;
        if !answer.accepted {
            code = crate::problem::ERROR;
        }
        if shell.output().is_data() {
            shown.push(json!({"workload_id": id, "plan": show::compute("CheckResponse", &answer)}));
        } else {
            shell.print(&show::history::plan(&id, &answer))?;
        }
        requests.push(wire::ApplyWorkloadRequest { plan: answer.plan, ..request });
    }
    if shell.output().is_data() {
        let one = if shown.len() == 1 { shown.pop() } else { None };
        shell.data(&one.unwrap_or(Value::Array(shown)))?;
    }
    if let Some(out) = wanted.out.as_deref().filter(|_| code == 0) {
        save(out, &requests)?;
        if !shell.output().is_data() {
            let command = format!("persys apply --plan {}", out.display());
            shell.print(&format!("next:\n  {}\n", shell.typed(&command)))?;
        }
    }
    Ok(code)
}

/// Writes a plan so that only its owner can read it: it may hold secrets.
fn save(out: &Path, requests: &[wire::ApplyWorkloadRequest]) -> Result<(), Problem> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let write = |request| json::write(REQUEST, request, json::Style::Plain);
    let all: Vec<Value> = requests.iter().map(write).collect();
    let text = format!("{:#}\n", json!({"version": 1, "apply": all}));
    let file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(out);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|why| {
        Problem::new(format!("{} was not written", out.display())).why(why.to_string())
    })
}

/// All that a plan file wants.
pub(super) fn read(path: &Path) -> Result<Vec<Wanted>, Problem> {
    let bad = |why: String| Problem::new(format!("{} is not a plan", path.display())).why(why);
    let size = std::fs::metadata(path).map_err(|why| bad(why.to_string()))?.len();
    if size > LONGEST {
        return Err(bad(format!("it has more than {LONGEST} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|why| bad(why.to_string()))?;
    let value: Value = serde_json::from_str(&text).map_err(|why| bad(why.to_string()))?;
    if value.get("version") != Some(&json!(1)) {
        return Err(bad(
            "it was written by another version; make it anew with `persys plan`".to_owned()
        ));
    }
    let all = value.get("apply").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut wanted = Vec::new();
    for one in &all {
        let request: wire::ApplyWorkloadRequest =
            json::read(REQUEST, "apply", one).map_err(|faults| bad(faults.to_string()))?;
        if request.plan.is_empty() {
            return Err(bad(format!("{} has no plan in it", request.workload_id)));
        }
        wanted.push(Wanted { request, from: path.display().to_string(), project: None });
    }
    if wanted.is_empty() { Err(bad("it wants nothing".to_owned())) } else { Ok(wanted) }
}
