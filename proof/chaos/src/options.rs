//! What a run is told on its command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::Fault;
use crate::plant::Plant;

/// Where the records are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// An etcd of three members, three schedulers.
    Etcd,
    /// A file, one scheduler.
    Embedded,
}

/// What a run is told.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program under test.
    pub program: PathBuf,
    /// Where logs and the report go.
    pub folder: PathBuf,
    /// What all choices come from.
    pub seed: u64,
    /// How long there are faults.
    pub length: Duration,
    /// So many processes are killed, and nothing else happens; 0: faults of all kinds.
    pub kills: u64,
    /// Where the records are.
    pub store: Store,
    /// Faults to choose from, by name; all when there is none.
    pub only: Vec<String>,
    /// What is done behind the product's back, to see whether the checker finds it.
    pub plant: Option<Plant>,
    /// A run that has to be over soon.
    pub brief: bool,
}

impl Options {
    /// Reads `--name value` pairs.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, Fault> {
        let mut options = Self {
            program: PathBuf::from("target/debug/persys"),
            folder: PathBuf::from("target/chaos"),
            seed: 1,
            length: Duration::from_mins(1),
            kills: 0,
            store: Store::Etcd,
            only: Vec::new(),
            plant: None,
            brief: false,
        };
        let mut words = words.into_iter();
        while let Some(name) = words.next() {
            if name == "--brief" {
                options.brief = true;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{name} needs a value"))?;
            match &*name {
                "--program" => options.program = PathBuf::from(value),
                "--folder" => options.folder = PathBuf::from(value),
                "--seed" => options.seed = value.parse()?,
                "--minutes" => options.length = Duration::from_mins(value.parse()?),
                "--seconds" => options.length = Duration::from_secs(value.parse()?),
                "--kills" => options.kills = value.parse()?,
                "--only" => options.only = value.split(',').map(ToOwned::to_owned).collect(),
                "--store" if value == "etcd" => options.store = Store::Etcd,
                "--store" if value == "embedded" => options.store = Store::Embedded,
                "--plant" => options.plant = Some(value.parse()?),
                _ => return Err(format!("{name} {value} is not understood").into()),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_others_refused() {
        let read = |line: &str| Options::parse(line.split_whitespace().map(ToOwned::to_owned));
        let options = read("--seed 7 --minutes 3 --store embedded --only a,b --brief").unwrap();
        assert_eq!((options.seed, options.length), (7, Duration::from_mins(3)));
        assert_eq!((options.store, options.only.len(), options.brief), (Store::Embedded, 2, true));
        for wrong in ["--seed", "--seed x", "--store x", "--other 1", "--plant x"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
