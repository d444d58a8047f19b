//! Variables of a Compose file that were typed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use persys_model::fault::Faults;

use super::options;
use crate::problem::Problem;
use crate::world::World;

/// Variables from options, or every option that is wrong.
pub(crate) fn variables(
    world: &World,
    env: &[String],
    files: &[PathBuf],
) -> Result<BTreeMap<String, String>, Problem> {
    let mut faults = Faults::none();
    let variables = options::environment(world, env, files, &mut faults)?;
    if faults.is_empty() {
        return Ok(variables);
    }
    let what = "nothing was done: the options have faults";
    Err(Problem::faults(what, &faults).code(crate::problem::USAGE))
}
