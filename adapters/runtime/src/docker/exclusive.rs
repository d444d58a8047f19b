//! Exclusive containers, by their label.

use std::collections::HashMap;

use async_trait::async_trait;
use bollard::query_parameters::ListContainersOptionsBuilder;
use persys_model::id::WorkloadId;

use crate::error::Error;
use crate::exclusive::Exclusive;

use super::call::{self, Reply};
use super::{Docker, identity};

#[async_trait]
impl Exclusive for Docker {
    async fn exclusive(&self) -> Result<Vec<WorkloadId>, Error> {
        let filters = HashMap::from([("label", identity::exclusive_filter(&self.owner))]);
        // Without `all`, Docker lists what runs, frozen containers included.
        let options = ListContainersOptionsBuilder::default().filters(&filters).build();
        let client = self.client()?;
        let call = client.list_containers(Some(options));
        match call::ask("list", self.settings.deadlines.ask, call).await? {
            Reply::Yes(summaries) => Ok(summaries
                .iter()
                .filter_map(|summary| self.mark_of(summary).map(|mark| mark.workload))
                .collect()),
            Reply::No(no) => Err(Error::Refused { verb: "list", detail: no.message }),
        }
    }
}
