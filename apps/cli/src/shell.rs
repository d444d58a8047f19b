//! What every command has at hand.

use serde_json::Value;

use crate::args::{Global, Output};
use crate::connect::{Client, Settings};
use crate::problem::{Problem, as_called};
use crate::show;
use crate::world::World;

/// What every command has at hand.
#[derive(Debug, Clone)]
pub(crate) struct Shell {
    /// The name it was called by.
    pub(crate) program: String,
    pub(crate) world: World,
    pub(crate) global: Global,
    pub(crate) settings: Settings,
}

impl Shell {
    pub(crate) fn client(&self) -> Result<Client, Problem> {
        let client = Client::scheduler(&self.settings, &self.world)?;
        if self.global.verbose {
            self.world.note(&format!("asking {}", client.whom));
        }
        Ok(client)
    }

    pub(crate) fn output(&self) -> Output {
        self.global.output.unwrap_or_default()
    }

    /// Whether the table is to have all its columns.
    pub(crate) fn wide(&self) -> bool {
        self.output() == Output::Wide
    }

    /// Prints text as it is.
    pub(crate) fn print(&self, text: &str) -> Result<(), Problem> {
        Ok(self.world.print(text.as_bytes())?)
    }

    /// Prints a line.
    pub(crate) fn line(&self, text: &str) -> Result<(), Problem> {
        self.print(&format!("{text}\n"))
    }

    /// Prints a value as asked for.
    pub(crate) fn data(&self, value: &Value) -> Result<(), Problem> {
        self.print(&show::data(value, self.output()))
    }

    /// A command as it is typed here.
    pub(crate) fn typed(&self, command: &str) -> String {
        as_called(&self.program, command)
    }
}

/// Whether colours are wanted and seen.
pub(crate) fn color(world: &World, global: &Global) -> bool {
    world.err_terminal
        && !global.no_color
        && world.var("NO_COLOR").is_none()
        && world.var("TERM") != Some("dumb")
}
