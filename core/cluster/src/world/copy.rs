//! The cluster as those read it who do not lead.
//!
//! A copy is what the store says and nothing else: no decision is made on the way in, and since only
//! a shared reference is given out, none can be made later. Nothing can be ordered from it.

use std::sync::Arc;

use persys_model::mode::Mode;
use persys_model::time::{Millis, Now};
use persys_model::token::Term;

use super::World;
use crate::record::Snapshot;
use crate::settings::Settings;

/// The cluster at one moment, to be looked at.
#[derive(Debug)]
pub struct ReadCopy {
    world: World,
    read_at: Millis,
}

impl ReadCopy {
    /// The cluster as it was.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// When it was surely so at the latest, on the reader's clock.
    pub fn read_at(&self) -> Millis {
        self.read_at
    }
}

impl World {
    /// The cluster as a snapshot tells it. `asked_at` is when the store was asked.
    pub fn copy_of(settings: Settings, snapshot: Snapshot, asked_at: Now) -> ReadCopy {
        let nobody = Arc::from("");
        let mut world =
            Self::empty(settings, Term(0), snapshot.head.clone(), None, nobody, asked_at);
        world.fill(snapshot);
        ReadCopy { world, read_at: asked_at.mono }
    }

    /// Since when the store has not confirmed what is in memory; nothing while it does.
    pub fn unconfirmed_since(&self) -> Option<Millis> {
        match self.mode {
            Mode::Degraded => Some(self.mode_since.mono),
            Mode::Normal | Mode::Recovery => None,
        }
    }
}
