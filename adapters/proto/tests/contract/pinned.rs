//! The contract written down by hand in `tests/contract.pinned`, against what is compiled.

use std::collections::BTreeMap;

use crate::surface::{self, Package, Rows};

const TABLE: &str = include_str!("../contract.pinned");

/// The package that is ours alone; the golden file watches over it.
const OUR_PACKAGE: &str = "persys.compute.v1";

/// First number of the range that is ours in messages of the contract.
const OURS_FROM: i32 = 100;

/// Messages the contract does not know. All of them are in the control package; a message that
/// is missing from the table and from here is a slip in one of the two.
const OUR_MESSAGES: [&str; 19] = [
    "AgentCommand",
    "AgentReply",
    "Constraint",
    "HealthCheck",
    "HealthChecks",
    "HttpCheck",
    "ImagePull",
    "InventoryItem",
    "PlacementRules",
    "PoolLimit",
    "Removal",
    "ResourceLimits",
    "SecretUse",
    "SecretValue",
    "TcpCheck",
    "Toleration",
    "Tombstone",
    "WorkloadReport",
    "WorkloadTask",
];

#[test]
fn table_is_read_whole() {
    let table = table();
    let shape: Vec<_> = table
        .values()
        .map(|package| (package.services.len(), package.messages.len(), package.enums.len()))
        .collect();
    assert_eq!(shape, [(1, 27, 3), (1, 84, 2)]);
}

#[test]
fn services_are_exactly_the_contract() {
    let (table, compiled) = (table(), surface::compiled());
    let shared = compiled.keys().filter(|name| *name != OUR_PACKAGE);
    assert!(table.keys().eq(shared), "packages differ");
    for (name, package) in &table {
        assert_eq!(package.services, compiled[name].services, "{name}");
    }
}

#[test]
fn enums_are_exactly_the_contract() {
    let compiled = surface::compiled();
    for (name, package) in &table() {
        assert_eq!(package.enums, compiled[name].enums, "{name}");
    }
}

#[test]
fn every_contract_field_is_compiled_as_written() {
    let compiled = surface::compiled();
    let mut faults = Vec::new();
    for (name, package) in &table() {
        for (message, rows) in &package.messages {
            let Some(fields) = compiled[name].messages.get(message) else {
                faults.push(format!("{name}.{message} is missing"));
                continue;
            };
            for (number, row) in rows {
                if fields.get(number) != Some(row) {
                    let found = fields.get(number);
                    faults.push(format!("{name}.{message} {number} {row}: found {found:?}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn what_we_add_stays_out_of_the_contract_range() {
    let table = table();
    let mut faults = Vec::new();
    let mut ours = Vec::new();
    for (name, package) in surface::compiled().iter().filter(|(name, _)| *name != OUR_PACKAGE) {
        for (message, fields) in &package.messages {
            let Some(rows) = table[name].messages.get(message) else {
                assert_eq!(name, "persys.control.v1", "{message}");
                ours.push(message.clone());
                continue;
            };
            for (number, field) in fields {
                if !rows.contains_key(number) && *number < OURS_FROM {
                    faults.push(format!("{name}.{message} {number} {field}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "not in the contract and below {OURS_FROM}: {faults:#?}");
    assert_eq!(ours, OUR_MESSAGES);
}

/// Reads the table. Anything it does not understand is an error: a row must not vanish quietly.
fn table() -> BTreeMap<String, Package> {
    let mut packages = BTreeMap::new();
    let mut current = String::new();
    for line in lines() {
        let (keyword, rest) = line.split_once(' ').unwrap();
        if keyword == "package" {
            rest.clone_into(&mut current);
            packages.insert(current.clone(), Package::default());
            continue;
        }
        let package: &mut Package = packages.get_mut(&current).unwrap();
        let (name, cells) = rest.split_once(" |").unwrap();
        let cells = cells.split(" · ").map(str::trim).filter(|cell| !cell.is_empty());
        let cells: Vec<&str> = cells.collect();
        let name = name.to_owned();
        let replaced = match keyword {
            "rpc" => package
                .services
                .insert(name, cells.iter().map(|cell| method(cell)).collect())
                .is_some(),
            "message" => package.messages.insert(name, numbered(&cells)).is_some(),
            "enum" => package.enums.insert(name, numbered(&cells)).is_some(),
            other => panic!("unknown keyword {other}"),
        };
        assert!(!replaced, "twice in the table: {line}");
    }
    packages
}

/// Comments dropped, continued lines joined.
fn lines() -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line.starts_with(' ') {
            lines.last_mut().unwrap().push_str(line);
        } else {
            lines.push(line.to_owned());
        }
    }
    lines
}

fn method(cell: &str) -> (String, String) {
    let (name, signature) = cell.split_once(": ").unwrap();
    (name.to_owned(), signature.to_owned())
}

fn numbered(cells: &[&str]) -> Rows {
    let mut rows = Rows::new();
    for cell in cells {
        let (number, row) = cell.split_once(' ').unwrap();
        let replaced = rows.insert(number.parse().unwrap(), row.to_owned());
        assert!(replaced.is_none(), "number twice in the table: {cell}");
    }
    rows
}
