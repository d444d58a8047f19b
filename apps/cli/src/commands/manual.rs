//! `man`: a manual page for every command.

use std::path::Path;

use crate::problem::Problem;
use crate::world::World;

/// Section of commands that everybody may type.
const SECTION: &str = "1";

/// Writes a page for the program and for every command of it that is shown.
pub(super) fn write(
    world: &World,
    program: &str,
    mut command: clap::Command,
    folder: &Path,
) -> Result<(), Problem> {
    let failed = |why: std::io::Error| {
        Problem::new(format!("manual pages cannot be written to {}", folder.display()))
            .why(why.to_string())
            .next("persys man --out man1      (any folder you may write to)")
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    command = command.disable_help_subcommand(true);
    command.build();
    let written = pages(&command, program, folder).map_err(failed)?;
    world.print(format!("{written} pages are in {}\n", folder.display()).as_bytes())?;
    Ok(())
}

/// The page of a command and those below it; tells how many.
fn pages(command: &clap::Command, name: &str, folder: &Path) -> std::io::Result<usize> {
    let page = clap_mangen::Man::new(command.clone().display_name(name.to_owned()))
        .title(name.to_uppercase())
        .section(SECTION)
        .source(format!("persys {}", env!("CARGO_PKG_VERSION")))
        .manual("Persys Compute");
    page.generate_to(folder)?;
    let mut written = 1;
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        written += pages(inner, &format!("{name}-{}", inner.get_name()), folder)?;
    }
    Ok(written)
}
