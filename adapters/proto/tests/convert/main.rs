//! Conversions between messages and values: round trips, tables, and bytes nobody would send.

#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod classic;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod drafts;
#[cfg(test)]
mod generator;
#[cfg(test)]
mod link;
#[cfg(test)]
mod orders;
#[cfg(test)]
mod packed;
#[cfg(test)]
mod random;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod specs;
#[cfg(test)]
mod views;

/// The paths at fault, in order.
#[cfg(test)]
fn paths<T: std::fmt::Debug>(result: Result<T, persys_model::fault::Faults>) -> Vec<String> {
    let faults = result.expect_err("accepted");
    faults.listed().iter().map(|fault| fault.path.clone()).collect()
}
